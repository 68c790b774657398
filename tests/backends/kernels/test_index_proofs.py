"""Proofs about indexes, against lists of all elements that they take."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.long_forms import sized

from functensor.backends.kernels.errors import KernelError
from functensor.backends.kernels.index_proofs import Elements, are_apart, check_broadcast
from functensor.backends.kernels.kernel import Index, LoopAxis

MANY = settings(max_examples=sized(100, 300))
AXES = [LoopAxis("i", 3), LoopAxis("j", 2), LoopAxis("k", 4), LoopAxis("l", 1), LoopAxis("m", 0)]
STRIDES = st.sampled_from([-8, -4, -3, -1, 0, 1, 1, 2, 3, 4, 6, 8, 12, 24])


@st.composite
def indexes(draw):
    axes = draw(st.lists(st.sampled_from(AXES[:4]), unique=True, max_size=4))
    return Index([(axis, draw(STRIDES)) for axis in axes], draw(st.integers(-2, 9)))


def taken(index, going, still=()):
    """All elements that an index takes, one for each place of the axes that go."""
    places = dict(still)
    found = []
    for where in product(*[range(axis.extent) for axis in going]):
        places.update(zip(going, where))
        found.append(index.begin + sum(s * places.get(axis, 0) for axis, s in index.terms))
    return found


SETS = st.sets(st.sampled_from(AXES), max_size=4).map(list)
LIVE_SETS = st.sets(st.sampled_from(AXES[:4]), max_size=4).map(list)


@MANY
@given(indexes(), SETS)
def test_proofs_of_one_index(index, going):
    elements = Elements(index, going)
    found = taken(index, going)
    assert elements.places == len(found)
    if elements.are_different():
        assert len(set(found)) == len(found)
    if found:
        assert (elements.begin, elements.last) == (min(found), max(found))
    if elements.are_a_run():
        assert set(found) == set(range(min(found), max(found) + 1))
    if found:
        strides, counts = zip(*elements.runs(), strict=True) if elements.runs() else ((), ())
        runs = {
            elements.begin + sum(map(int.__mul__, strides, where))
            for where in product(*map(range, counts))
        }
        assert runs == set(found)


@MANY
@given(indexes(), LIVE_SETS, indexes(), LIVE_SETS)
def test_proofs_of_two_indexes(one, first, other, second):
    ours, theirs = Elements(one, first), Elements(other, second)
    still = [axis for axis in AXES[:4] if axis not in first or axis not in second]
    rest = [axis for axis in still if axis not in first and axis not in second]
    covered, apart = ours.cover(theirs), ours.apart(theirs)
    assert apart == theirs.apart(ours)
    for where in product(*[range(axis.extent) for axis in rest]):
        places = dict(zip(rest, where))
        if set(ours.still) | set(theirs.still) <= set(rest):
            mine, yours = set(taken(one, first, places)), set(taken(other, second, places))
            assert not covered or yours <= mine
            assert not apart or mine.isdisjoint(yours)


@MANY
@given(st.sets(st.sampled_from(AXES[:4])).map(list), indexes(), indexes(), st.data())
def test_proofs_of_other_places(still, one, other, data):
    going = [[axis for axis in AXES[:4] if axis not in still] for _ in range(2)]
    some = [st.lists(st.sampled_from(x), unique=True) if x else st.just([]) for x in going]
    first, second = [data.draw(x) for x in some]
    ours = Elements(_only(one, [*still, *first]), first)
    theirs = Elements(_only(other, [*still, *second]), second)
    if not ours.apart_elsewhere(theirs, still):
        return
    everywhere = list(product(*[range(axis.extent) for axis in still]))
    for here, there in product(everywhere, everywhere):
        if here != there:
            mine = taken(_only(one, [*still, *first]), first, zip(still, here))
            yours = taken(_only(other, [*still, *second]), second, zip(still, there))
            assert set(mine).isdisjoint(yours)


def _only(index, axes):
    return Index([(axis, s) for axis, s in index.terms if axis in axes], index.begin)


@given(st.permutations(AXES[:4]))
def test_arrays_in_c_order_are_proved(axes):
    """What kernels of grids need has to be proved, not only to be right."""
    strides = [int(np.prod([axis.extent for axis in axes[n + 1 :]])) for n in range(4)]
    index = Index(list(zip(axes, strides, strict=True)))
    elements = Elements(index, axes)
    assert elements.are_different()
    assert elements.are_a_run()
    assert elements.last == 23
    for n in range(4):
        still, going = axes[:n], axes[n:]
        assert Elements(index, going).are_different()
        assert Elements(index, going).apart_elsewhere(Elements(index, going), still)
    assert Elements(index, axes).cover(Elements(Index([(axes[0], strides[0])]), axes[:1]))


@st.composite
def broadcasts(draw):
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    some = draw(st.lists(st.sampled_from(range(len(lengths))), unique=True))
    place = draw(st.permutations(some + [None] * draw(st.integers(0, 2))))
    return lengths, place


def numpy_elements(shape, lengths, place):
    """The element of an array that belongs to each point of a grid, by NumPy's own broadcasting."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    named = [axis for axis in place if axis is not None]
    array = array.squeeze(tuple([n for n, axis in enumerate(place) if axis is None]))
    array = array.transpose(np.argsort(named)) if named else array
    return np.broadcast_to(
        np.expand_dims(array, [n for n in range(len(lengths)) if n not in named]), lengths
    )


@MANY
@given(broadcasts(), st.data())
def test_broadcasting_is_that_of_numpy(drawn, data):
    lengths, place = drawn
    axes = [LoopAxis(name, n) for name, n in zip("ijkl", lengths)]
    shape = tuple([1 if axis is None else lengths[axis] for axis in place])
    strides = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
    terms = [(axes[a], s) for a, s in zip(place, strides) if a is not None]
    check_broadcast(Index(terms), shape, axes, place)
    other = [(axis, data.draw(st.integers(0, 4))) for axis in axes]
    grid = np.indices(lengths)
    found = sum(where * stride for where, (_, stride) in zip(grid, other))
    if (found == numpy_elements(shape, lengths, place)).all():
        check_broadcast(Index(other), shape, axes, place)
    else:
        with pytest.raises(KernelError, match="takes elements by the strides"):
            check_broadcast(Index(other), shape, axes, place)


def test_messages_about_broadcasting():
    i, j, k = LoopAxis("i", 3), LoopAxis("j", 4), LoopAxis("k", 5)
    with pytest.raises(KernelError, match=r"^an array \(4,\) cannot lie at \(0,\) of \(3, 4\)$"):
        check_broadcast(Index([(i, 1)]), (4,), [i, j], (0,))
    with pytest.raises(KernelError, match=r"^an array \(3, 3\) cannot lie at \(0, 0\) of \(3, 4\)"):
        check_broadcast(Index([(i, 4)]), (3, 3), [i, j], (0, 0))
    for index in (Index([(i, 1)], 1), Index([(i, 1), (k, 1)])):
        with pytest.raises(KernelError, match=r"those of an array \(3, 1\) at \(0, None\) are"):
            check_broadcast(index, (3, 1), [i, j], (0, None))


STEPS = st.lists(st.tuples(st.integers(1, 12), st.integers(2, 4)), max_size=3).map(sorted)


@settings(max_examples=sized(100, 800))
@given(st.integers(0, 20), STEPS, st.integers(0, 20), STEPS)
@example(0, [(1, 3), (9, 5)], 3, [(1, 3), (9, 5)])
@example(0, [(2, 3)], 1, [(2, 3)])
def test_what_is_proved_apart_is_apart(begin, steps, other, others):
    def elements(begin, steps):
        found = {begin}
        for stride, count in steps:
            found = {x + stride * i for x in found for i in range(count)}
        return found

    if are_apart(begin, steps, other, others):
        assert elements(begin, steps).isdisjoint(elements(other, others))


def test_rows_of_a_stack_are_proved_apart():
    assert are_apart(0, [(1, 3), (9, 5)], 3, [(1, 3), (9, 5)])
    assert are_apart(0, [(1, 2), (12, 2), (24, 9)], 14, [(1, 2), (24, 9)])
    assert not are_apart(0, [(1, 3), (9, 5)], 2, [(1, 3), (9, 5)])
