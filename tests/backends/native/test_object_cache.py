"""Objects on the disk: what is found again, what is not believed, and what the disk refuses."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.long_forms import sized
from support.native import assert_loops, loop, missing, run_python

from functensor.backends.native import object_cache
from functensor.backends.native.machine import machine_code
from functensor.backends.native.object_cache import ObjectCache, user_cache

needs_llvm = pytest.mark.skipif(bool(missing), reason=missing)
KEY, OTHER = "a" * 64, "b" * 64
IMAGE = bytes(range(256)) * 40
TESTS = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path):
    return ObjectCache(tmp_path / "new" / "objects")


def file_of(cache, key=KEY):
    """Returns the file of a key."""
    return cache.folder / f"{key}.o"


def set_time(path, age):
    """Makes a file so many seconds old."""
    then = time.time() - age
    os.utime(path, (then, then))


def test_what_was_put_is_found(cache):
    assert cache.get(KEY) is None
    cache.put(KEY, IMAGE)
    assert cache.get(KEY) == IMAGE
    assert cache.get(OTHER) is None
    assert ObjectCache(cache.folder).get(KEY) == IMAGE
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""
    assert os.listdir(cache.folder) == [f"{KEY}.o"]
    if os.name == "posix":
        assert cache.folder.stat().st_mode & 0o777 == 0o700
        assert file_of(cache).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", [0, 5, 25, 50, 60, 5000, -1])
def test_a_damaged_file_counts_as_absent(cache, place):
    cache.put(KEY, IMAGE)
    contents = bytearray(file_of(cache).read_bytes())
    contents[place] ^= 4
    file_of(cache).write_bytes(contents)
    assert cache.get(KEY) is None
    cache.put(KEY, IMAGE)
    assert cache.get(KEY) == IMAGE


@pytest.mark.parametrize("length", [0, 1, 20, 51, 52, 53, 10_000, 20_000])
def test_a_file_of_another_length_counts_as_absent(cache, length):
    cache.put(KEY, IMAGE)
    contents = file_of(cache).read_bytes()
    file_of(cache).write_bytes((contents + bytes(20_000))[:length])
    assert cache.get(KEY) is None


def test_a_file_of_another_key_counts_as_absent(cache):
    cache.put(KEY, IMAGE)
    os.replace(file_of(cache), file_of(cache, OTHER))
    assert cache.get(OTHER) is None


def test_what_cannot_be_read_counts_as_absent(cache, monkeypatch):
    cache.put(KEY, IMAGE)
    os.unlink(file_of(cache))
    file_of(cache).mkdir()
    assert cache.get(KEY) is None
    cache.put(KEY, IMAGE)
    assert cache.get(KEY) is None
    # The unfinished file is gone.
    assert os.listdir(cache.folder) == [f"{KEY}.o"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have owners on POSIX")
def test_another_users_file_counts_as_absent(cache, monkeypatch):
    cache.put(KEY, IMAGE)
    owner = file_of(cache).stat().st_uid
    for user, found in [(owner, IMAGE), (owner + 1, IMAGE if owner == 0 else None)]:
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert cache.get(KEY) == found
    facts = os.stat_result((0o600, 0, 0, 1, 1234, 0, 0, 0, 0, 0))
    assert not object_cache.is_trusted(facts)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions bind users on POSIX"
)
def test_a_folder_that_is_read_only(cache):
    cache.put(KEY, IMAGE)
    cache.folder.chmod(0o500)
    cache.put(OTHER, IMAGE)
    assert (cache.get(KEY), cache.get(OTHER)) == (IMAGE, None)
    cache.folder.chmod(0o700)


@pytest.mark.parametrize("name", ["mkdir", "open", "replace", "write"])
def test_a_disk_that_refuses(cache, monkeypatch, name):
    """No folder, no new file, no new name, no room."""

    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, path, mode, opener):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))

        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass

        write = refuse

    with monkeypatch.context() as patch:
        if name == "mkdir":
            patch.setattr(Path, "mkdir", refuse)
        elif name == "open":
            patch.setattr(os, "open", refuse)
        elif name == "replace":
            patch.setattr(os, "replace", refuse)
        else:
            patch.setattr(object_cache, "open", Full, raising=False)
        cache.put(KEY, IMAGE)
    assert not cache.folder.exists() or os.listdir(cache.folder) == []
    assert cache.get(KEY) is None
    cache.put(KEY, IMAGE)
    assert cache.get(KEY) == IMAGE


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_file_that_may_not_grow(tmp_path):
    source = f"""
import resource
from functensor.backends.native.object_cache import ObjectCache
from pathlib import Path
import os
cache = ObjectCache(Path({str(tmp_path)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
cache.put("k", bytes(100_000))
print(cache.get("k"), os.listdir(cache.folder))
"""
    assert run_python(source) == "None []\n"


# The size of the folder


def test_the_oldest_are_dropped(tmp_path):
    cache = ObjectCache(tmp_path, limit=50_000)
    for i in range(10):
        cache.put(str(i), IMAGE)
        set_time(file_of(cache, str(i)), 1000 - i)
    stranger = tmp_path / "notes.txt"
    stranger.write_text("of somebody else")
    cache.drop_oldest()
    # Each has 10 kB and the header.
    assert sorted(os.listdir(tmp_path)) == ["7.o", "8.o", "9.o", "notes.txt"]
    cache.drop_oldest()
    assert cache.get("7") == IMAGE


def test_the_folder_stays_within_the_limit(tmp_path):
    cache = ObjectCache(tmp_path, limit=100_000)
    number = 3 * object_cache.WRITES_BETWEEN_LOOKS
    for i in range(number):
        cache.put(str(i), IMAGE)
        set_time(file_of(cache, str(i)), number - i)
    # Files may exceed it between two looks.
    assert len(os.listdir(tmp_path)) <= 9 + object_cache.WRITES_BETWEEN_LOOKS
    ObjectCache(tmp_path, limit=100_000).put("new", IMAGE)
    assert len(os.listdir(tmp_path)) <= 9
    assert cache.get("new") == IMAGE


def test_use_keeps_a_file_young(cache):
    cache.put(KEY, IMAGE)
    set_time(file_of(cache), 3 * object_cache.A_DAY)
    assert cache.get(KEY) == IMAGE
    assert time.time() - file_of(cache).stat().st_mtime < 1000


def test_unfinished_files_of_nobody_are_dropped(cache):
    cache.put(KEY, IMAGE)
    old, new = cache.folder / "old.part", cache.folder / "new.part"
    for path, age in [(old, 2 * object_cache.AN_HOUR), (new, 1)]:
        path.touch()
        set_time(path, age)
    cache.drop_oldest()
    assert sorted(os.listdir(cache.folder)) == [f"{KEY}.o", "new.part"]


# Where it lies


def test_a_cache_without_a_folder_keeps_nothing():
    cache = ObjectCache(None)
    cache.put(KEY, IMAGE)
    assert cache.get(KEY) is None


def test_the_variable_chooses_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FUNCTENSOR_CACHE_DIR", str(tmp_path))
    assert user_cache().folder == tmp_path
    assert user_cache() is user_cache()
    monkeypatch.setenv("FUNCTENSOR_CACHE_DIR", "")
    assert user_cache().folder is None


@pytest.mark.parametrize(
    ("platform", "variable", "wanted"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache"),
        ("win32", "LOCALAPPDATA", "AppData/Local"),
        ("darwin", "", "Library/Caches"),
    ],
)
def test_the_users_folder(monkeypatch, tmp_path, platform, variable, wanted):
    monkeypatch.delenv("FUNCTENSOR_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv(variable or "XDG_CACHE_HOME", raising=False)
    assert user_cache().folder == tmp_path / wanted / "functensor" / "objects"
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "other"))
        assert user_cache().folder == tmp_path / "other" / "functensor" / "objects"


def test_a_user_without_a_home(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("FUNCTENSOR_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert user_cache().folder is None
    monkeypatch.setattr(Path, "home", lambda: Path("~"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert user_cache().folder is None


# With LLVM


def objects_in(folder):
    """Returns the names of objects, without what else is kept."""
    return [name for name in os.listdir(folder) if name.endswith(".o")]


@needs_llvm
def test_code_of_the_disk_computes(cache):
    first = machine_code(loop(2.0), ["kernel"], cache)
    again = machine_code(loop(2.0), ["kernel"], cache)
    other = machine_code(loop(3.0), ["kernel"], cache)
    assert [code.from_disk for code in (first, again, other)] == [False, True, False]
    assert first.bytes == again.bytes
    for code, factor in [(first, 2), (again, 2), (other, 3)]:
        assert_loops(code, factor)


@needs_llvm
def test_an_object_that_cannot_be_linked_is_compiled_anew(cache):
    machine_code(loop(2.0), ["kernel"], cache)
    (name,) = objects_in(cache.folder)
    # It is whole, and no object file.
    cache.put(name.removesuffix(".o"), IMAGE)
    code = machine_code(loop(2.0), ["kernel"], cache)
    assert not code.from_disk
    assert_loops(code, 2)
    assert machine_code(loop(2.0), ["kernel"], cache).from_disk


PROGRAM = """
import sys
from support.native import assert_loops, loop
from functensor.backends.native.machine import machine_code
for i in range(int(sys.argv[1])):
    code = machine_code(loop(i), ["kernel"])
    assert_loops(code, i)
    print(int(code.from_disk), end="")
"""


def started(folder, number):
    """Starts a process that compiles so many kernels."""
    environment = {**os.environ, "FUNCTENSOR_CACHE_DIR": str(folder), "PYTHONPATH": str(TESTS)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(number)], stdout=subprocess.PIPE, text=True,
        env=environment, cwd=os.sep,
    )  # fmt: skip


@needs_llvm
def test_objects_survive_their_process(tmp_path):
    for wanted in ("000", "111"):
        process = started(tmp_path, 3)
        assert (process.communicate()[0], process.returncode) == (wanted, 0)
    assert len(objects_in(tmp_path)) == 3


@needs_llvm
@pytest.mark.long
def test_several_processes_at_once(tmp_path):
    number = sized(10, 50)
    processes = [started(tmp_path, number) for _ in range(sized(2, 6))]
    assert all(process.communicate() and process.returncode == 0 for process in processes)
    assert len(objects_in(tmp_path)) == number
    assert started(tmp_path, number).communicate()[0] == number * "1"
