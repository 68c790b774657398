"""Objects are loaded without LLVM, and those that have more than kernels need are refused."""

import ctypes
import gc

import numpy as np
import pytest
from support.native import (
    CALLS_FAR_AWAY,
    FARTHEST_JUMP,
    assert_loops,
    function_at,
    loop,
    missing,
)

from functensor.backends.native import machine, object_loader
from functensor.backends.native.machine import NotCompiled, kept_code, machine_code
from functensor.backends.native.object_cache import ObjectCache
from functensor.backends.native.object_loader import NotLoaded, loaded_object

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(not object_loader.can_load(), reason="objects of Linux on x86-64"),
]
ONE_AND_TWO = """
define internal i64 @one() noinline {
  ret i64 1
}

define internal i64 @two() noinline {
  ret i64 2
}
"""
# Tables of constants, and of places of its own code.
TABLES = ONE_AND_TWO + """
@numbers = internal constant [4 x i64] [i64 5, i64 7, i64 11, i64 13], align 64

define i64 @number(i64 %i) {
  %place = getelementptr i64, ptr @numbers, i64 %i
  %x = load i64, ptr %place
  ret i64 %x
}

define i64 @chosen(i64 %i) {
  switch i64 %i, label %other [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e ]
a:
  %u = call i64 @number(i64 3)
  ret i64 %u
b:
  ret i64 -20
c:
  %v = call i64 @one()
  ret i64 %v
d:
  ret i64 44
e:
  %w = call i64 @two()
  ret i64 %w
other:
  ret i64 9
}"""
ADDRESSES = ONE_AND_TWO + """
@functions = internal constant [2 x ptr] [ptr @one, ptr @two]

define i64 @called(i64 %i) {
  %place = getelementptr ptr, ptr @functions, i64 %i
  %function = load ptr, ptr %place
  %x = call i64 %function()
  ret i64 %x
}"""
VARIABLE = """
@count = internal global i64 0
define i64 @counted() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}"""


@pytest.fixture
def cache(tmp_path):
    return ObjectCache(tmp_path)


def image_of(text):
    return machine._llvm().image(text)


def whole(address, *given):
    """Returns what a function of whole numbers returns."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(given))(address)(*given)


def nothing(name):
    return 0


def test_kernels_call_functions_of_the_c_library():
    image = image_of(loop(2.5))
    addresses, (begin, size) = loaded_object(image, ["kernel"], machine.called_address)
    assert begin <= addresses["kernel"] < begin + size
    assert_loops(machine.Code(addresses, "", 0, True), 2.5)


def test_constants_tables_and_calls():
    names = ["number", "chosen"]
    addresses, _ = loaded_object(image_of(TABLES), names, nothing)
    assert [whole(addresses["number"], i) for i in range(4)] == [5, 7, 11, 13]
    assert [whole(addresses["chosen"], i) for i in range(6)] == [13, -20, 1, 44, 2, 9]


def test_functions_may_be_far_away():
    place = function_at(7 << 36)
    addresses, _ = loaded_object(image_of(CALLS_FAR_AWAY), ["f"], {"far_away": place}.__getitem__)
    assert abs(addresses["f"] - place) > FARTHEST_JUMP
    assert ctypes.CFUNCTYPE(ctypes.c_int)(addresses["f"])() == 8


@pytest.mark.parametrize(
    ("text", "names", "why"),
    [
        (loop(2.0), ["kernel"], "no sinf"),
        (TABLES, ["other"], "other"),
        (VARIABLE, ["counted"], "variables"),
        (ADDRESSES, ["called"], "variables"),
    ],
    ids=["a function is missing", "a name is missing", "variables", "addresses"],
)
def test_what_is_not_loaded(text, names, why):
    with pytest.raises(NotLoaded, match=why):
        loaded_object(image_of(text), names, nothing)


def test_parts_of_objects_are_refused():
    image = image_of(TABLES)
    for end in range(0, len(image) - 1, 8):
        with pytest.raises(NotLoaded):
            loaded_object(image[:end], ["chosen"], nothing)
    for begin in (b"\x7fELF\x02\x02\x01", b"\xcf\xfa\xed\xfe\x07\x00\x00", b"MZ\0\0\0\0\0"):
        with pytest.raises(NotLoaded, match="another format"):
            loaded_object(begin + image[len(begin) :], ["chosen"], nothing)


def test_what_is_not_loaded_is_linked_by_llvm(cache):
    machine_code(ADDRESSES, ["called"], cache)
    called = machine_code(ADDRESSES, ["called"], cache)
    assert called.from_disk
    assert [whole(called.address("called"), i) for i in range(2)] == [1, 2]
    first = machine_code(VARIABLE, ["counted"], cache)
    again = kept_code(first.key, ["counted"], cache)
    assert again.from_disk
    assert [whole(code.address("counted")) for code in (first, first, again)] == [1, 2, 1]
    with pytest.raises(NotCompiled, match="missing_function"):
        machine_code(
            "declare void @missing_function()\n"
            "define void @f() {\n  call void @missing_function()\n  ret void\n}",
            ["f"],
            cache,
        )


def test_objects_of_the_disk_need_no_llvm(cache, monkeypatch):
    key = machine_code(loop(2.0), ["kernel"], cache).key
    assert machine.name_in_cache(loop(2.0), cache) == key
    monkeypatch.setattr(machine, "_llvm_loaded", [])

    def refused():
        raise AssertionError("LLVM is loaded")

    monkeypatch.setattr(machine, "load_llvm", refused)
    code = machine_code(loop(2.0), ["kernel"], cache)
    assert code.from_disk
    assert code.key == key
    assert_loops(code, 2.0)


def test_the_processor_is_told_by_llvm_where_nothing_is_kept(cache, monkeypatch):
    key = machine_code(loop(2.0), ["kernel"], cache).key
    for path in cache.folder.glob("*.machine"):
        path.unlink()
    loads, load = [], machine.load_llvm
    monkeypatch.setattr(machine, "_llvm_loaded", [])
    monkeypatch.setattr(machine, "load_llvm", lambda: loads.append(load()) or loads[0])
    assert machine_code(loop(2.0), ["kernel"], cache).key == key
    assert len(loads) == 1


def test_memory_is_freed_with_the_code(cache, monkeypatch):
    freed = []
    monkeypatch.setattr(machine, "free", lambda *memory: freed.append(memory))
    key = machine_code(loop(2.0), ["kernel"], cache).key
    code = kept_code(key, ["kernel"], cache)
    address = code.address("kernel")
    gc.collect()
    assert freed == []
    del code
    gc.collect()
    ((begin, size),) = freed
    assert begin <= address < begin + size
    object_loader.free(begin, size)


def test_nothing_is_freed_when_the_process_ends(monkeypatch):
    """Threads may be within code that modules hold, which die one by one."""
    image = image_of(loop(2.0))
    addresses, memory = loaded_object(image, ["kernel"], machine.called_address)
    monkeypatch.setattr(object_loader.ProcessEnd, "ended", True)
    object_loader.free(*memory)
    assert_loops(machine.Code(addresses, "", 0, True), 2.0)
    monkeypatch.undo()
    object_loader.free(*memory)


def test_both_ways_give_the_same_bits():
    image = image_of(loop(0.3))
    linked = machine._llvm().linked(image, ["kernel"], from_disk=False)
    addresses, _ = loaded_object(image, ["kernel"], machine.called_address)
    x, outs = np.linspace(-9, 9, 999, dtype="float32"), []
    for address in (linked.address("kernel"), addresses["kernel"]):
        outs.append(np.empty_like(x))
        buffers = (ctypes.c_void_p * 2)(x.ctypes.data, outs[-1].ctypes.data)
        kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2)(address)
        kernel(0, 0, x.size, None, buffers)
    assert outs[0].tobytes() == outs[1].tobytes()
