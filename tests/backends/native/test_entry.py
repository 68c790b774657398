"""Kernels as functions of Python: their operands, their errors, and whose memory they hold."""

import ctypes
import gc
import re
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from support.long_forms import sized
from support.native import loop, missing

from functensor.backends.native import entry as entries
from functensor.backends.native.entry import kernel_call, layout_is_known, portable_entry
from functensor.backends.native.machine import in_step, machine_code
from functensor.backends.native.object_cache import ObjectCache

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
NOTHING = ObjectCache(None)
# Writes what it is given into its first buffer: numbers, and the addresses of others.
TOLD = """
define void @told(i64 %number, i64 %low, i64 %high, ptr %scratch, ptr %buffers) {
  %out = load ptr, ptr %buffers
  store i64 %number, ptr %out
  %p1 = getelementptr i64, ptr %out, i64 1
  store i64 %low, ptr %p1
  %p2 = getelementptr i64, ptr %out, i64 2
  store i64 %high, ptr %p2
  %p3 = getelementptr i64, ptr %out, i64 3
  store ptr %scratch, ptr %p3
  br label %head
head:
  %i = phi i64 [1, %0], [%next, %body]
  %goes = icmp slt i64 %i, COUNT
  br i1 %goes, label %body, label %end
body:
  %from = getelementptr ptr, ptr %buffers, i64 %i
  %address = load ptr, ptr %from
  %place = add i64 %i, 3
  %to = getelementptr i64, ptr %out, i64 %place
  store ptr %address, ptr %to
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}
"""
WAITS = """
define void @waits(i64 %number, i64 %low, i64 %high, ptr %scratch, ptr %buffers) {
  %flag = load ptr, ptr %buffers
  %first = load atomic i64, ptr %flag monotonic, align 8
  %first_place = getelementptr i64, ptr %flag, i64 1
  store i64 %first, ptr %first_place
  br label %head
head:
  %i = phi i64 [0, %0], [%next, %head]
  %next = add i64 %i, 1
  %set = load atomic i64, ptr %flag monotonic, align 8
  %unset = icmp eq i64 %set, 0
  %early = icmp slt i64 %next, %high
  %goes = and i1 %unset, %early
  br i1 %goes, label %head, label %end
end:
  %last_place = getelementptr i64, ptr %flag, i64 2
  store i64 %set, ptr %last_place
  ret void
}
"""


@pytest.fixture(params=["built-in", "portable"])
def make(request, monkeypatch):
    if request.param == "portable":
        monkeypatch.setattr(entries, "trampoline", lambda: None)
    return kernel_call


def told(make, count, **kwargs):
    """Returns the function that tells of so many arrays."""
    code = machine_code(TOLD.replace("COUNT", str(count)), ["told"], NOTHING)
    return make(code, "told", count, **kwargs)


def test_here_kernels_are_built_in_functions():
    assert layout_is_known()
    assert isinstance(told(kernel_call, 1), type(len))
    assert not isinstance(told(portable_entry, 1), type(len))


@pytest.mark.parametrize("keeps_lock", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4, 10, 100])
def test_numbers_and_addresses(make, count, keeps_lock):
    out = np.full(count + 3, -7)
    others = [np.zeros(i) for i in range(count - 1)]
    scratch = np.empty(5)
    run = told(make, count, keeps_lock=keeps_lock)
    assert run(3, -1, 2**62, scratch, out, *others) is None
    addresses = [x.ctypes.data for x in [scratch, *others]]
    assert out.tolist() == [3, -1, 2**62, *addresses]
    run(-1, -1, -1, None, out, *others)
    assert out.tolist() == [-1, -1, -1, 0, *addresses[1:]]


def test_arrays_of_all_kinds(make):
    whole = np.arange(60.0).reshape(3, 4, 5)
    fixed = np.frombuffer(b"12345678", np.uint8)
    kinds = ["?", "b", "H", "i", "q", "e", "f", "d", "F", "D", "S3", "M8[s]", "f,i"]
    arrays = [whole, whole[1:, ::2, 3], whole.T, whole[::-1], whole[:0], fixed, np.array(1.5)]
    arrays += [np.zeros(3, kind) for kind in kinds]
    arrays += [np.zeros(3).view(type("Own", (np.ndarray,), {})), np.zeros((2, 2)).view(np.matrix)]
    out = np.zeros(len(arrays) + 4, np.int64)
    told(make, len(arrays) + 1)(0, 0, 0, None, out, *arrays)
    assert out[4:].tolist() == [x.__array_interface__["data"][0] for x in arrays]


def test_a_kernel_computes(make):
    x, out = np.linspace(-3, 3, 41, dtype="float32"), np.zeros(41, "float32")
    make(machine_code(loop(2.0), ["kernel"], NOTHING), "kernel", 2)(0, 1, 40, None, x, out)
    np.testing.assert_allclose(out[1:40], 2 * np.sin(x[1:40].astype("float64")), rtol=1e-6)
    assert (out[0], out[40]) == (0, 0)


@pytest.mark.parametrize(
    ("operands", "error", "message"),
    [
        ((0, 0, 1, None), TypeError, "another number of arrays"),
        ((0, 0, 1, None, np.zeros(9), np.zeros(9)), TypeError, "another number of arrays"),
        ((0, 0, 1, None, 1.5), TypeError, "takes NumPy's arrays"),
        ((0, 0, 1, None, None), TypeError, "takes NumPy's arrays"),
        ((0, 0, 1, None, np.float64(1)), TypeError, "takes NumPy's arrays"),
        ((0, 0, 1, 5, np.zeros(9)), TypeError, "takes NumPy's arrays"),
        (("0", 0, 1, None, np.zeros(9)), (TypeError, ctypes.ArgumentError), "integer|argument"),
        ((0, 0.5, 1, None, np.zeros(9)), (TypeError, ctypes.ArgumentError), "integer|argument"),
        ((0, 0, None, None, np.zeros(9)), (TypeError, ctypes.ArgumentError), "integer|argument"),
    ],
)
def test_wrong_operands(make, operands, error, message):
    run = told(make, 1)
    with pytest.raises(error, match=message):
        run(*operands)
    out = np.zeros(4, np.int64)
    run(1, 2, 3, None, out)
    assert out.tolist() == [1, 2, 3, 0]


def test_numbers_that_are_too_large():
    with pytest.raises(OverflowError):
        told(kernel_call, 1)(0, 2**63, 0, None, np.zeros(4))


# Writes the addresses of its objects into the memory of the first, and returns whether the last two
# are others.
OBJECTS = """
define i64 @objects(ptr %objects) {
  %first = load ptr, ptr %objects
  %data_place = getelementptr i8, ptr %first, i64 HEADER
  %data = load ptr, ptr %data_place
  %second_place = getelementptr ptr, ptr %objects, i64 1
  %second = load ptr, ptr %second_place
  %third_place = getelementptr ptr, ptr %objects, i64 2
  %third = load ptr, ptr %third_place
  store ptr %second, ptr %data
  %behind = getelementptr ptr, ptr %data, i64 1
  store ptr %third, ptr %behind
  %differ = icmp ne ptr %second, %third
  %answer = zext i1 %differ to i64
  ret i64 %answer
}
"""


@pytest.mark.parametrize("keeps_lock", [False, True])
def test_functions_of_objects(make, keeps_lock):
    text = OBJECTS.replace("HEADER", str(entries.OBJECT_HEADER))
    code = machine_code(text, ["objects"], NOTHING)
    run = entries.objects_call(code, "objects", 3, keeps_lock=keeps_lock)
    out, x, y = np.zeros(2, np.uint64), object(), [1]
    held = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(1000):
        assert run(out, x, y) is True
    assert out.tolist() == [id(x), id(y)]
    assert run(out, x, x) is None
    assert (sys.getrefcount(x), sys.getrefcount(y)) == held
    with pytest.raises(TypeError, match="another number of arrays"):
        run(out, x)


def test_definitions_outlive_what_made_them():
    way = entries.Trampoline()
    size = ctypes.sizeof(entries.MethodDefinition)
    places = [ctypes.addressof(d) for d in way._definitions.values()]
    before = [ctypes.string_at(place, size) for place in places]
    way.itself = way
    del way
    gc.collect()
    taken = [bytearray(size) for _ in range(1000)]
    assert [ctypes.string_at(place, size) for place in places] == before
    assert len(taken) == 1000


def test_the_function_holds_the_code_and_nothing_else(make):
    code = machine_code(TOLD.replace("COUNT", "1"), ["told"], NOTHING)
    died = weakref.ref(code)
    run = make(code, "told", 1)
    del code
    gc.collect()
    out = np.zeros(4, np.int64)
    run(1, 2, 3, None, out)
    assert out.tolist() == [1, 2, 3, 0]
    assert died() is not None
    del run
    gc.collect()
    assert died() is None


def test_calls_leave_the_counts_of_references(make):
    run, out = told(make, 1), np.zeros(4, np.int64)
    run(0, 0, 0, None, out)
    before = sys.getrefcount(None), sys.getrefcount(out), sys.getrefcount(1000)
    for _ in range(1000):
        run(1000, 0, 0, None, out)
        with pytest.raises(TypeError):
            run(0, 0, 0, None, None)
    after = sys.getrefcount(None), sys.getrefcount(out), sys.getrefcount(1000)
    # Others use None, too.
    assert all(abs(a - b) < 100 for a, b in zip(before, after))
    assert before[1] == after[1]


def waited(make, keeps_lock, limit):
    """Returns whether a kernel saw what another thread of Python wrote while it ran."""
    run = make(machine_code(WAITS, ["waits"], NOTHING), "waits", 1, keeps_lock=keeps_lock)
    first = 1
    while first:  # the other thread came before the kernel
        flag, begun = np.zeros(3, np.int64), threading.Event()

        def write(flag=flag, begun=begun):
            begun.set()
            time.sleep(0.02)
            flag[0] = 1

        thread = threading.Thread(target=write)
        thread.start()
        begun.wait()
        run(0, 0, limit, None, flag)
        thread.join()
        _, first, last = flag.tolist()
    return bool(last)


def test_other_threads_run_meanwhile(make):
    # It would go on for minutes.
    assert waited(make, False, 2**40)


def test_other_threads_wait_if_so_asked(make):
    assert not waited(make, True, sized(10**8, 10**9))


def test_many_threads_at_once(make):
    run = make(machine_code(loop(2.0), ["kernel"], NOTHING), "kernel", 2)
    x, out = np.linspace(-3, 3, 4000, dtype="float32"), np.zeros(4000, "float32")

    def work(part):
        for _ in range(20):
            run(0, 1000 * part, 1000 * part + 1000, None, x, out)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(out, 2 * np.sin(x.astype("float64")), rtol=2e-6, atol=1e-7)


def test_another_layout_is_told_from_this_one(monkeypatch):
    monkeypatch.setattr(entries, "OBJECT_HEADER", entries.OBJECT_HEADER + entries.WORD)
    assert not layout_is_known()
    monkeypatch.setattr(entries, "OBJECT_HEADER", np.ndarray.__basicsize__)
    assert not layout_is_known()


def test_another_python_is_told_from_this_one(monkeypatch):
    monkeypatch.setattr(sys.implementation, "name", "other")
    assert not layout_is_known()


@pytest.mark.parametrize("triple", [
    "x86_64-unknown-linux-gnu", "x86_64-apple-macosx11", "x86_64-pc-windows-msvc",
    "aarch64-unknown-linux-gnu", "arm64-apple-macosx11", "aarch64-pc-windows-msvc",
])  # fmt: skip
@pytest.mark.parametrize("header", [16, 32])
def test_llvm_takes_the_text_for_every_platform(triple, header):
    llvm = pytest.importorskip("llvmlite.binding")

    def assembly():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple(triple).create_target_machine(opt=2)
        places = {"data": header, "class_": header - entries.WORD}
        text = entries.ENTRY_TEXT.format(**places, interrupted=entries.INTERRUPTED)
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = triple
        module.verify()
        return target.emit_assembly(module)

    # The offset of the data, as the two processors write it.
    pattern = rf"\[x\d+, #{header}\]" if triple[0] == "a" else rf"\b{header}\(%r\w+\)"
    assert re.search(pattern, in_step(assembly))
