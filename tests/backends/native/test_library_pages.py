"""Pages of LLVM's library that are let go: which they are, and that it works afterwards."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.native import missing, run_python

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.native import library_pages, machine
from functensor.backends.native.library_pages import LibraryPages, read_only_parts
from functensor.backends.native.object_cache import ObjectCache

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux maps files so"),
]


def library():
    (folder,) = find_spec("llvmlite").submodule_search_locations
    return Path(folder, "binding", machine.LLVM_LIBRARY)


def mapped():
    """Yields the beginning and the end of all that is mapped, and what was written to of it.

    What is written to becomes memory of the process. The system may still have to write a file that
    was installed just now: its pages are dirty, and nobody here has written to them.
    """
    with open("/proc/self/smaps") as file:
        found = None
        for line in file:
            words = line.split()
            if not words[0].endswith(":"):
                own = len(words) > 5 and words[5] == os.path.realpath(library())
                found = [int(x, 16) for x in words[0].split("-")] if own else None
            elif found is not None and words[0] == "Anonymous:":
                yield (*found, int(words[1]))


def test_what_was_written_to_is_kept():
    machine.instruction_set()
    pages = LibraryPages(library())
    parts = [*mapped()]
    assert any(own for _, _, own in parts), "the tables that the loader has filled"
    clean = [(begin, end - begin) for begin, end, own in parts if not own]
    assert pages.ranges
    assert set(pages.ranges) <= set(clean)
    assert sum(size for _, size in pages.ranges) > 0.8 * os.path.getsize(library())


def test_a_file_of_another_format_has_none(tmp_path):
    for number, contents in enumerate((b"", b"\x7fELF", b"\xcf\xfa\xed\xfe" * 40)):
        path = tmp_path / str(number)
        path.write_bytes(contents)
        assert read_only_parts(path) == set()
        assert LibraryPages(path).ranges == []
    assert LibraryPages(tmp_path / "none").ranges == []


def test_a_library_that_is_not_loaded_has_none(tmp_path):
    copy = tmp_path / "lib.so"
    copy.write_bytes(library().read_bytes()[: 1 << 16])
    assert read_only_parts(copy)
    assert LibraryPages(copy).ranges == []


def test_a_plan_lets_pages_go_when_it_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("FUNCTENSOR_CACHE_DIR", str(tmp_path))
    let_go = []
    monkeypatch.setattr(library_pages.LibraryPages, "let_go", lambda pages: let_go.append(pages))
    x = np.ones((7, 3))
    function = ft.jit(lambda x: fnp.tanh(x) * 1.25 + x)
    ft.jit(lambda x: fnp.tanh(x) * 1.25 + x).compile(x)
    let_go.clear()
    function.compile(x)  # from the disk
    assert len(let_go) == len(machine._llvm().pages) == 1
    machine.machine_code("define void @f() {\n ret void\n}", ["f"], ObjectCache(None))
    assert len(let_go) == 2, "between two steps of LLVM's work"
    ft.jit(lambda x: x @ x.T).compile(np.ones((600, 600)))
    assert len(let_go) == 2, "nothing of this is machine code"


def test_memory_of_the_file_is_small_behind_a_compilation():
    source = """
import functensor as ft, functensor.numpy as fnp, numpy as np
from functensor.backends.native import library_pages
def of_files():
    return int(next(s for s in open("/proc/self/status") if "RssFile" in s).split()[1]) >> 10
before = of_files()
kept = []
let_go = library_pages.LibraryPages.let_go
def noted(pages):
    kept.append(of_files() - before)
    let_go(pages)
library_pages.LibraryPages.let_go = noted
for factor in (1.5, 2.5):
    x = np.ones((7, 3))
    f = ft.jit(lambda x: fnp.tanh(x) * factor + x)
    f.compile(x)
    assert abs(float(f(x)[0, 0]) - (np.tanh(1.0) * factor + 1)) < 1e-12
print(min(kept), of_files() - before)
"""
    while_it_works, afterwards = map(int, run_python(source, FUNCTENSOR_CACHE_DIR="").split())
    assert while_it_works > 20
    assert afterwards < 15


def test_addresses_are_right_behind_it():
    """Code that was let go is called again."""
    machine.instruction_set()
    for _ in range(3):
        machine.rest()
        assert machine.object_text("define i64 @one() {\n ret i64 1\n}")
