"""Machine code that goes over the buffers of many arrays: what it does, and what it leaves."""

import gc
from sys import getrefcount
from weakref import ref

import numpy
import pytest

from functensor.backends.known_buffers import KnownBuffers, SameBuffers
from functensor.backends.native.machine import compiles_here
from functensor.backends.native.object_slots import offset_of, slot_calls
from functensor.primitives.core import array_slots as module
from functensor.primitives.core import buffers as core_buffers
from functensor.primitives.core import donation
from functensor.primitives.core.array import Array
from functensor.primitives.core.array_slots import ArraySlots, array_slots, slot_places
from functensor.primitives.core.buffers import all_wrapped
from functensor.primitives.core.donation import DonatedArrayError, claimed, given_up

CALLS = slot_calls(Array, "_data") if compiles_here() else None
needs_calls = pytest.mark.skipif(CALLS is None, reason="needs llvmlite: functensor[native]")


@pytest.fixture(params=["machine code", "Python"])
def way(request, monkeypatch):
    """Has both ways go over arrays, in turn."""
    found = ArraySlots()
    if request.param == "machine code":
        if CALLS is None:
            pytest.skip("needs llvmlite: functensor[native]")
        found.made, found.same, found.taken = CALLS
    for user in (core_buffers, donation):
        monkeypatch.setattr(user, "array_slots", found)
    return request.param


def data(count):
    return [numpy.full(3, float(i)) for i in range(count)]


@needs_calls
def test_machine_code_is_loaded_once(monkeypatch):
    monkeypatch.setattr(module, "array_slots", ArraySlots())
    assert module.array_slots.made() is True
    module.load_array_slots()
    made = module.array_slots.made
    assert made is not module.gives_up
    module.load_array_slots()
    assert module.array_slots.made is made


@pytest.mark.parametrize("lacking", ["the place of the slot", "llvmlite", "the layout"])
def test_without_machine_code_all_is_done_in_python(monkeypatch, lacking):
    from functensor.backends.native import object_slots
    from functensor.backends.native.instruction_sets import NativeUnavailable

    def unavailable(*given):
        raise NativeUnavailable("a test")

    if lacking == "the place of the slot":
        monkeypatch.setattr(object_slots, "offset_of", lambda *given: None)
    elif lacking == "llvmlite":
        monkeypatch.setattr(object_slots, "trampoline", unavailable)
    else:
        monkeypatch.setattr(object_slots, "trampoline", lambda: None)
    monkeypatch.setattr(module, "array_slots", ArraySlots())
    module.load_array_slots()
    assert module.array_slots.asked
    assert module.array_slots.same is module.gives_up
    assert isinstance(array_slots, ArraySlots)


def test_buffers_become_arrays(way):
    for given in (data(5), data(1), [*data(2), 1.5, numpy.float32(2)], [numpy.float64(1)], []):
        outs = all_wrapped(given)
        assert [type(out) for out in outs] == [Array] * len(given)
        for out, buffer in zip(outs, given, strict=True):
            assert out._data is buffer or out.tolist() == buffer
    held = numpy.ones(2)
    before = getrefcount(held)
    outs = all_wrapped([held] * 7)
    assert getrefcount(held) == before + 7
    weak = ref(outs[3])
    del outs
    assert getrefcount(held) == before
    assert weak() is None


@needs_calls
def test_new_arrays_are_collected():
    made = CALLS.made
    holder = numpy.empty(1, object)
    outs = [None]
    assert made(Array, numpy.ndarray, [holder], outs) is None
    assert gc.is_tracked(outs[0])
    assert gc.get_referents(outs[0])[0] is holder


def known_operands(count):
    """Returns arrays, and the list of their buffers, whose owners are known."""
    arrays = all_wrapped(data(count))
    buffers = KnownBuffers([x._data for x in arrays])
    buffers.known = buffers.donated = SameBuffers([ref(x) for x in buffers])
    buffers.donated.owned = True
    return arrays, buffers


def test_buffers_are_taken_at_once(way, monkeypatch):
    if way == "machine code":
        monkeypatch.setattr(donation, "are_alone", None)
    arrays, buffers = known_operands(5)
    before = [*map(id, buffers)]
    places = [0, 1, 3]
    claimed(arrays, buffers, places, "a test", slot_places(places))
    assert [*map(id, buffers)] == before
    assert buffers.known is not None
    for i, x in enumerate(arrays):
        if i in places:
            with pytest.raises(DonatedArrayError, match="donated to a test"):
                x.sum()
        else:
            assert x.tolist() == [float(i)] * 3
    # The list is their only holder.
    gone = ref(buffers[1])
    buffers[1] = None
    assert gone() is None


@pytest.mark.parametrize("other", ["a holder", "a view", "twice", "gone"])
def test_what_others_see_is_not_taken(way, other):
    arrays, buffers = known_operands(4)
    places = range(4)
    held = None
    if other == "a holder":
        held = buffers[2]
    elif other == "a view":
        held = buffers[2][:2]
    elif other == "twice":
        arrays[2], buffers[2] = arrays[1], buffers[1]
    else:
        arrays[2]._data = donation._Gone("another test")
    values = [x.copy() for x in buffers]
    before = id(buffers[2])
    claimed(arrays, buffers, [*places], "a test", slot_places(places))
    # A copy stands in for it.
    assert id(buffers[2]) != before or other == "twice"
    assert buffers[1] is not buffers[2]
    assert buffers.known is buffers.donated is None
    for x, y in zip(buffers, values, strict=True):
        numpy.testing.assert_array_equal(x, y)
    for x in arrays:
        with pytest.raises(DonatedArrayError):
            x.sum()
    del held


@needs_calls
def test_nothing_is_taken_where_one_array_has_another_buffer():
    arrays, buffers = known_operands(3)
    arrays[1], arrays[2] = arrays[2], arrays[1]
    held = [*map(id, buffers)]
    assert CALLS.taken(Array, arrays, buffers, object(), slot_places(range(3))) is True
    assert [id(x._data) for x in arrays] == [held[0], held[2], held[1]]
    assert CALLS.taken(Array, arrays, buffers, object(), slot_places([0])) is None


@needs_calls
def test_nothing_is_read_behind_a_list_or_of_what_is_none():
    arrays, buffers = known_operands(3)
    for given in ((arrays, buffers, [1, 3]), (arrays, buffers, [-1]), (arrays[:2], buffers, [2])):
        *lists, places = given
        assert CALLS.taken(Array, *lists, object(), slot_places(places)) is True
    assert [x._data for x in arrays] == buffers
    for given in (((*arrays,), buffers), (arrays, (*buffers,))):
        with pytest.raises(SystemError):
            CALLS.taken(Array, *given, object(), slot_places([0]))
    with pytest.raises(SystemError):
        CALLS.same(Array, (*arrays,), [*map(ref, buffers)], [None] * 3)
    with pytest.raises(SystemError):
        CALLS.made(Array, numpy.ndarray, (*buffers,), [None] * 3)


@needs_calls
def test_buffers_are_known_by_living_references():
    same = CALLS.same
    arrays = all_wrapped(data(4))
    references = [ref(x._data) for x in arrays]
    held = [None] * 4
    assert same(Array, arrays, references, held) is None
    assert all(x is y._data for x, y in zip(held, arrays, strict=True))
    counts = {getrefcount(x) for x in held}
    for given in (
        (arrays[::-1], references),
        ([*arrays[:3], held[3]], references),
        (arrays, references[:3]),
        (arrays, [*references[:3], ref(set())]),
    ):
        assert same(Array, *given, [None] * 4) is True
    assert {getrefcount(x) for x in held} == counts
    del held
    arrays[1]._data = numpy.ones(3)
    assert references[1]() is None
    assert same(Array, arrays, references, [None] * 4) is True


def test_numbers_are_given_up_without_a_copy():
    plain = all_wrapped([numpy.int64(3)])[0]
    arrays = [plain, 2.5, None]
    buffers = KnownBuffers([plain._data, 2.5, None])
    buffers.known = one = SameBuffers([])
    before = buffers[0]
    given_up(arrays, buffers, (0, 1), "a test")
    assert buffers[0] is before
    assert buffers.known is one
    with pytest.raises(DonatedArrayError, match="donated to a test"):
        plain + 1
    # NumPy's arrays without axes may be written to by others.
    mine = numpy.ones(())
    arrays[2] = buffers[2] = mine
    given_up(arrays, buffers, (2,), "a test")
    assert buffers[2] is not mine


def test_slots_that_are_not_found_have_no_calls():
    class Two:
        __slots__ = ("x", "y")

    class Dict:
        """An object with a dict of its own."""

    assert offset_of(Two, "y") == offset_of(Two, "x") + 8
    assert offset_of(Dict, "x") is None
    assert slot_calls(Dict, "x") is None
