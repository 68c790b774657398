"""Machine code of LLVM IR: what is taken, what is refused, and what is left of it."""

import ctypes
import gc
import os
import platform
import re
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from support.long_forms import only_long, sized
from support.native import LOOP, assert_loops, loop, missing, run_python

from functensor.backends.native import instruction_sets, machine
from functensor.backends.native.c_library import c_functions
from functensor.backends.native.machine import NativeUnavailable, NotCompiled, machine_code
from functensor.backends.native.object_cache import ObjectCache

needs_llvm = pytest.mark.skipif(bool(missing), reason=missing)
NOTHING = ObjectCache(None)
X86 = platform.machine().lower() in ("x86_64", "amd64")


@needs_llvm
def test_code_computes():
    code = machine_code(loop(2.5), ["kernel"], NOTHING)
    assert_loops(code, 2.5)
    assert code.bytes > 0
    assert not code.from_disk
    with pytest.raises(KeyError):
        code.address("other")


@needs_llvm
def test_several_functions_of_one_text():
    text = "".join(
        f"define i64 @f{i}(i64 %x) {{\n  %y = add i64 %x, {i}\n  ret i64 %y\n}}\n" for i in range(5)
    )
    code = machine_code(text, ["f4", "f0", "f2"], NOTHING)
    take = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [take(code.address(f"f{i}"))(10) for i in (0, 2, 4)] == [10, 12, 14]


@needs_llvm
def test_every_function_of_the_c_library_that_kernels_call():
    x = 0.7
    for name, wanted in {
        "sin": np.sin(x), "cos": np.cos(x), "tan": np.tan(x), "exp": np.exp(x), "log": np.log(x),
        "tanh": np.tanh(x), "cbrt": np.cbrt(x), "expm1": np.expm1(x), "log1p": np.log1p(x),
    }.items():  # fmt: skip
        text = f"""
declare double @{name}(double)
declare float @{name}f(float)
define double @wide(double %x) {{
  %y = call double @{name}(double %x)
  ret double %y
}}
define float @narrow(float %x) {{
  %y = call float @{name}f(float %x)
  ret float %y
}}"""
        code = machine_code(text, ["wide", "narrow"], NOTHING)
        wide = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("wide"))
        narrow = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(code.address("narrow"))
        assert wide(x) == pytest.approx(wanted, rel=1e-15, abs=0)
        assert narrow(x) == pytest.approx(wanted, rel=2e-7, abs=0)


@needs_llvm
def test_powers_and_remainders():
    text = """
declare double @pow(double, double)
declare float @powf(float, float)
define double @f(double %x, double %y) {
  %p = call double @pow(double %x, double %y)
  %r = frem double %p, 3.0
  ret double %r
}
define float @g(float %x, float %y) {
  %p = call float @powf(float %x, float %y)
  %r = frem float %p, 3.0
  ret float %r
}"""
    code = machine_code(text, ["f", "g"], NOTHING)
    f = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 2)(code.address("f"))
    g = ctypes.CFUNCTYPE(ctypes.c_float, *[ctypes.c_float] * 2)(code.address("g"))
    assert (f(2.0, 5.0), g(2.0, 5.0)) == (2.0, 2.0)


@needs_llvm
def test_what_llvm_makes_of_copies_and_large_frames():
    text = """
define i8 @f(ptr %from, ptr %to, i64 %n) {
  %frame = alloca [40000 x i8]
  call void @llvm.memset.p0.i64(ptr %frame, i8 3, i64 40000, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  call void @llvm.memmove.p0.p0.i64(ptr %frame, ptr %to, i64 %n, i1 false)
  %place = getelementptr i8, ptr %frame, i64 %n
  %found = load volatile i8, ptr %place
  ret i8 %found
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
    code = machine_code(text, ["f"], NOTHING)
    x, y = np.arange(9, dtype="uint8"), np.zeros(9, "uint8")
    f = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    assert f(code.address("f"))(x.ctypes.data, y.ctypes.data, 5) == 3
    assert y.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0]


@needs_llvm
def test_products_and_sums_are_rounded_each():
    text = """
define double @f(double %x, double %y, double %z) {
  %p = fmul double %x, %y
  %s = fadd double %p, %z
  ret double %s
}"""
    f = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 3)
    code = machine_code(text, ["f"], NOTHING)
    x = 1 + 2.0**-30
    # A product and a sum in one step would be 2 ** -60.
    assert f(code.address("f"))(x, x, -(1 + 2.0**-29)) == 0.0
    assert "fmadd" not in machine.object_text(text)


@needs_llvm
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define void @f( {", "expected type"),
        ("define i32 @f(i64 %x) {\n ret i32 %x\n}", "defined with type 'i64'"),
        ("define i64 @f() {\n %x = add i64 %y, 1\n %y = add i64 %x, 1\n ret i64 %y\n}", "dominate"),
        ("define void @g() {\n ret void\n}", "Symbols not found: [ f ]"),
        (
            "declare void @nowhere()\ndefine void @f() {\n call void @nowhere()\n ret void\n}",
            "not in the C library: nowhere",
        ),
    ],
)
def test_wrong_texts_are_refused(text, message, capfd):
    with pytest.raises(NotCompiled, match=re.escape(message)):
        machine_code(text, ["f"], NOTHING)
    assert capfd.readouterr() == ("", "")
    # LLVM goes on to work.
    assert_loops(machine_code(loop(3.0), ["kernel"], NOTHING), 3.0)


@needs_llvm
def test_the_instruction_set():
    found = machine.instruction_set()
    assert (found.name, found.vector_bytes) in [("AVX-512", 64), ("AVX2", 32), ("NEON", 16)]
    assert (found.name == "NEON") != X86
    assert found.processor
    # Not every system tells of NEON, which all processors of arm64 have.
    features = found.features.split(",")
    assert "+avx2" in features if X86 else "-neon" not in features
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", machine.llvm_version())


@needs_llvm
@pytest.mark.skipif(not X86, reason="features of x86-64")
def test_processors():
    def found(*names):
        return instruction_sets.known_set("p", dict.fromkeys(names, True), "", "t")[:2]

    assert found(*instruction_sets.AVX2) == ("AVX2", 32)
    assert found(*instruction_sets.AVX2, "avx512f") == ("AVX2", 32)
    assert found(*instruction_sets.AVX2, *instruction_sets.AVX512) == ("AVX-512", 64)
    with pytest.raises(NativeUnavailable, match=r"needs AVX2, which the processor \(p\) lacks"):
        found("avx2", "fma")


@needs_llvm
def test_vectors_of_this_processor_are_used():
    width = machine.instruction_set().vector_bytes // 4
    text = f"""
define void @f(ptr %p) {{
  %x = load <{width} x float>, ptr %p, align 4
  %y = fadd <{width} x float> %x, %x
  store <{width} x float> %y, ptr %p, align 4
  ret void
}}"""
    assembly = machine.object_text(text)
    assert {4: "v", 8: "ymm", 16: "zmm"}[width] in assembly
    x = np.arange(width, dtype="float32")
    code = machine_code(text, ["f"], NOTHING)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("f"))(x.ctypes.data)
    assert (x == 2 * np.arange(width)).all()


def test_turned_off(monkeypatch):
    monkeypatch.setenv("FUNCTENSOR_NATIVE", "0")
    assert not machine.compiles_here()
    assert machine.why_not() == "FUNCTENSOR_NATIVE=0 turns native code off"
    with pytest.raises(NativeUnavailable, match="FUNCTENSOR_NATIVE=0"):
        machine_code(LOOP, ["kernel"])
    with pytest.raises(NativeUnavailable, match="FUNCTENSOR_NATIVE=0"):
        machine.instruction_set()


def test_other_processors(monkeypatch):
    monkeypatch.delenv("FUNCTENSOR_NATIVE", raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert machine.why_not() == "there is native code for x86-64 and arm64, and this is riscv64"


def test_without_llvmlite(monkeypatch):
    monkeypatch.delenv("FUNCTENSOR_NATIVE", raising=False)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert machine.why_not() == "llvmlite is not installed: pip install 'functensor[native]'"
    with pytest.raises(NativeUnavailable, match="not installed: pip install"):
        machine_code(LOOP, ["kernel"])


@needs_llvm
@pytest.mark.parametrize("fault", ["raise OSError('no library')", "llvm_version_info = None"])
def test_a_broken_llvmlite(fault, tmp_path):
    (tmp_path / "llvmlite" / "binding").mkdir(parents=True)
    (tmp_path / "llvmlite" / "__init__.py").touch()
    (tmp_path / "llvmlite" / "binding" / "__init__.py").write_text(fault)
    source = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
from functensor.backends.native import instruction_sets, machine
assert machine.compiles_here()
for i in range(2):
    try:
        machine.machine_code("", [])
    except machine.NativeUnavailable as error:
        print(error)
print(machine.compiles_here(), machine.why_not())
"""
    first, second, third = run_python(source).splitlines()
    assert first == second
    assert first.startswith("llvmlite cannot be used: ")
    assert third == f"False {first}"


@needs_llvm
def test_nothing_is_imported_before_it_is_asked_for():
    source = """
import sys
import functensor
print("llvmlite" in sys.modules)
from functensor.backends.native import instruction_sets, machine
machine.why_not()
print("llvmlite" in sys.modules)
machine.instruction_set()
print("llvmlite" in sys.modules)
"""
    assert run_python(source).split() == ["False", "False", "True"]


@needs_llvm
@pytest.mark.skipif(os.name != "posix", reason="Windows loads libraries otherwise")
def test_python_goes_on_while_the_library_is_loaded():
    source = """
import ctypes, sys
from functensor.backends.native import c_library, machine
from pathlib import Path
def loaded():
    return "libllvmlite" in Path("/proc/self/maps").read_text()
machine.load_library = lambda path: (
    c_library.load_library(path), print(path.is_file(), loaded(), "llvmlite.binding" in sys.modules)
)
if Path("/proc/self/maps").exists():
    print(loaded())
    machine.instruction_set()
else:
    print("False\\nTrue True False")
c_library.load_library(Path("nowhere.so"))
"""
    assert run_python(source) == "False\nTrue True False\n"


@needs_llvm
def test_threads_compile_side_by_side():
    failed = []

    def work(first):
        try:
            for i in range(first, first + 4):
                assert_loops(machine_code(loop(i), ["kernel"], NOTHING), i)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# What is left of code


@needs_llvm
def test_code_is_freed_at_once(monkeypatch):
    freed = []
    free = machine.retire

    def noted(tracker):
        freed.append(tracker.name)
        free(tracker)

    monkeypatch.setattr(machine, "retire", noted)
    code = machine_code(loop(1.5), ["kernel"], NOTHING)
    died = weakref.ref(code)
    assert freed == []
    del code
    gc.collect()
    assert died() is None
    assert len(freed) == 1
    assert not machine._retired


@needs_llvm
def test_code_that_dies_while_another_thread_compiles_waits_for_nobody():
    code = machine_code(loop(1.5), ["kernel"], NOTHING)
    entered, leave = threading.Event(), threading.Event()

    def step():
        entered.set()
        leave.wait()

    thread = threading.Thread(target=machine.in_step, args=(step,))
    thread.start()
    entered.wait()
    del code
    gc.collect()
    assert len(machine._retired) == 1
    leave.set()
    thread.join()
    assert not machine._retired


def resident():
    """Returns how many bytes of memory the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def growth_of(number):
    """Returns the memory in bytes that linking and dropping an object so many times leaves."""
    llvm = machine._llvm()
    images = [llvm.image(loop(i)) for i in range(4)]

    def link(times):
        for i in range(times):
            code = llvm.linked(images[i % 4], ["kernel"], from_disk=False)
        assert_loops(code, (times - 1) % 4)

    link(2 * machine.LINKED_BY_ONE_JIT)
    gc.collect()
    before = resident()
    link(number)
    gc.collect()
    assert not machine._retired
    return resident() - before


@needs_llvm
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux tells the memory")
def test_linked_code_leaves_nothing():
    # One object that stays would be 8 kB at least: 5 MB.
    assert growth_of(640) < 2**20


@needs_llvm
@only_long
@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux tells the memory")
def test_thousands_of_compilations_leave_little():
    take = ctypes.CFUNCTYPE(ctypes.c_int64)

    def work(numbers):
        for i in numbers:
            code = machine_code(f"define i64 @f() {{\n  ret i64 {i}\n}}", ["f"], NOTHING)
            assert take(code.address("f"))() == i

    work(range(300))
    gc.collect()
    before = resident()
    work(range(3000))
    gc.collect()
    assert not machine._retired
    # llvmlite leaves 1.5 kB of each. The code and its passes would be 80 kB.
    assert resident() - before < 3000 * 2500


# Forks and the end of the process


@needs_llvm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_that_began_before_the_module_was_imported():
    source = """
import os, sys
os.register_at_fork(before=lambda: __import__("functensor.backends.native.machine"))
failed = []
sys.unraisablehook = failed.append
child = os.fork()
if not child:
    os._exit(len(failed))
print(len(failed), os.waitpid(child, 0)[1])
"""
    assert run_python(source) == "0 0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_compiles_and_runs_the_code_of_its_parent():
    source = """
import os, threading
from support.native import assert_loops, loop
from functensor.backends.native import instruction_sets, machine
code = machine.machine_code(loop(2.0), ["kernel"])
def work():
    for i in range(1000):
        machine.machine_code(loop(i), ["kernel"])
threading.Thread(target=work, daemon=True).start()
for i in range(8):
    child = os.fork()
    if not child:
        assert_loops(code, 2.0)
        assert_loops(machine.machine_code(loop(3.5 + i), ["kernel"]), 3.5 + i)
        del code
        assert not machine._retired
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert_loops(code, 2.0)
print("done")
"""
    tests = Path(__file__).parents[2]
    assert run_python(source, PYTHONPATH=str(tests), FUNCTENSOR_CACHE_DIR="") == "done\n"


@needs_llvm
@pytest.mark.long
@pytest.mark.parametrize("daemon", [True, False])
def test_the_process_ends_while_threads_compile(daemon):
    source = f"""
import threading, time
from support.native import loop
from functensor.backends.native import instruction_sets, machine
held = [machine.machine_code(loop(2.0), ["kernel"])]
def work():
    for i in range({10**6 if daemon else 5}):
        held.append(machine.machine_code(loop(i), ["kernel"]))
threads = [threading.Thread(target=work, daemon={daemon}) for i in range(3)]
for thread in threads:
    thread.start()
time.sleep(0.1)
print("done")
"""
    tests = Path(__file__).parents[2]
    for _ in range(sized(1, 10)):
        assert run_python(source, PYTHONPATH=str(tests), FUNCTENSOR_CACHE_DIR="") == "done\n"


def test_the_functions_of_the_c_library():
    found = c_functions()
    assert {"sin", "sinf", "cos", "cosf", "tan", "tanf", "pow", "powf", "memcpy"} <= found.keys()
    assert all(found.values())
    x = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(found["sinf"])(0.5)
    assert x == pytest.approx(np.sin(0.5), rel=1e-7)


@needs_llvm
def test_the_size_of_registers_is_known_without_llvm(monkeypatch):
    wanted, said = machine.instruction_set().vector_bytes, machine._llvm().key
    assert machine.vector_bytes() == wanted
    monkeypatch.setattr(machine, "_llvm_loaded", [])
    monkeypatch.setattr(machine, "instruction_set", lambda: 1 / 0)
    monkeypatch.setattr(machine, "kept_machine", lambda cache: said)
    assert machine.vector_bytes() == wanted
    monkeypatch.setattr(machine, "kept_machine", lambda cache: "")
    with pytest.raises(ZeroDivisionError):
        machine.vector_bytes()
