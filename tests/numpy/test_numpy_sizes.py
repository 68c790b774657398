"""Results whose length depends on values: known ones, and those that are told a size."""

import numpy as np
import pytest
from support.numpy_cases import same

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ConcretizationError, ShapeError

X = np.array([2.0, 0.0, 1.0, 2.0, 0.0])
CALLS = {
    "nonzero": lambda x, **size: fnp.nonzero(x, **size)[0],
    "flatnonzero": lambda x, **size: fnp.flatnonzero(x, **size),
    "argwhere": lambda x, **size: fnp.argwhere(x, **size),
    "where": lambda x, **size: fnp.where(x, **size)[0],
    "unique": lambda x, **size: fnp.unique(x, **size),
    "unique_values": lambda x, **size: fnp.unique_values(x, **size),
    "unique_counts": lambda x, **size: fnp.unique_counts(x, **size).values,
    "unique_inverse": lambda x, **size: fnp.unique_inverse(x, **size).values,
    "unique_all": lambda x, **size: fnp.unique_all(x, **size).values,
    "union1d": lambda x, **size: fnp.union1d(x, [1.0, 7.0], **size),
    "intersect1d": lambda x, **size: fnp.intersect1d(x, [1.0, 7.0], **size),
    "setdiff1d": lambda x, **size: fnp.setdiff1d(x, [1.0, 7.0], **size),
    "setxor1d": lambda x, **size: fnp.setxor1d(x, [1.0, 7.0], **size),
    "compress": lambda x, **size: fnp.compress(x, x + 1, **size),
    "extract": lambda x, **size: fnp.extract(x > 0, x + 1, **size),
    "trim_zeros": lambda x, **size: fnp.trim_zeros(x, **size),
    "delete": lambda x, **size: fnp.delete(x + 1, x == 2, **size),
}


@pytest.mark.parametrize("name", CALLS)
def test_unknown_lengths_ask_for_a_size(name):
    for run, x in ((ft.vmap(CALLS[name]), X[None]), (ft.make_program(CALLS[name]), X)):
        with pytest.raises(ConcretizationError, match="returns depends on the value") as caught:
            run(x)
        assert "size=n" in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("size", [0, 1, 3, 9])
def test_a_size_cuts_and_fills(name, size):
    whole = np.asarray(CALLS[name](X))
    known = CALLS[name](X, size=size, fill_value=-1)
    count = min(size, len(whole))
    np.testing.assert_array_equal(known[:count], whole[:count])
    np.testing.assert_array_equal(known[count:], np.full((size - count, *whole.shape[1:]), -1))
    program = ft.make_program(lambda x: CALLS[name](x, size=size, fill_value=-1))
    same(program(X)(X), np.asarray(known), exact=True)


@pytest.mark.parametrize("name", CALLS)
def test_nothing_has_a_size_too(name):
    if name in ("union1d", "setxor1d"):
        return  # the other set is not empty
    got = CALLS[name](X[:0], size=2, fill_value=-1)
    assert got.shape[0] == 2
    np.testing.assert_array_equal(got, np.full(got.shape, -1))
    assert CALLS[name](X[:0]).shape[0] == 0


def test_unique_says_all_of_a_given_size():
    x = np.array([3, 1, 3, 2])
    values, first, inverse, counts = fnp.unique(x, True, True, True, size=5)
    assert values.tolist() == [1, 2, 3, 1, 1]
    assert first.tolist() == [1, 3, 0, 1, 1]
    assert inverse.tolist() == [2, 0, 2, 1]
    assert counts.tolist() == [1, 1, 2, 0, 0]
    assert x[np.asarray(first)][:3].tolist() == [1, 2, 3]
    found = fnp.unique_all(x.reshape(2, 2), size=2)
    assert found.inverse_indices.tolist() == [[1, 0], [1, 1]]
    assert found.counts.tolist() == [1, 1]


@pytest.mark.parametrize("equal_nan", [True, False])
def test_nan_among_different_elements(equal_nan):
    x = np.array([np.nan, 1.0, np.nan, 1.0])
    whole = np.unique(x, equal_nan=equal_nan)
    same(fnp.unique(x, equal_nan=equal_nan), whole)
    same(fnp.unique(x, equal_nan=equal_nan, size=len(whole)), whole)
    assert not fnp.isin(np.nan, x).item()
    assert not ft.vmap(lambda v: fnp.isin(v, x))(x)[0].item()


def test_derivatives_flow_to_the_first_of_equal_elements():
    x = np.array([2.0, 1.0, 2.0, 4.0])

    def total(x, size):
        return fnp.sum(fnp.unique(x, size=size, fill_value=0.0) ** 2)

    wanted = np.array([4.0, 2.0, 0.0, 8.0])
    for size in (None, 3, 6):
        same(ft.grad(total)(x, size), wanted)
    mapped = ft.vmap(ft.grad(lambda x: total(x, 4)))(np.stack([x, x[::-1]]))
    same(mapped, np.array([wanted, [8.0, 4.0, 2.0, 0.0]]))
    pair = ft.grad(lambda x: fnp.sum(fnp.intersect1d(x, [2.0, 4.0]) ** 2))(x)
    same(pair, np.array([4.0, 0.0, 0.0, 8.0]))


def test_indices_of_what_two_sets_share():
    a, b = np.array([5, 1, 5, 3, 2]), np.array([3, 3, 5, 9])
    same(fnp.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True))
    got = fnp.intersect1d(a, b, return_indices=True, size=3, fill_value=-1)
    assert [x.tolist() for x in got] == [[3, 5, -1], [3, 0, -1], [0, 2, -1]]
    none = fnp.intersect1d(a, b[:0], return_indices=True)
    assert [x.shape for x in none] == [(0,)] * 3
    assert fnp.setdiff1d([3, 1, 2], [1], assume_unique=True).tolist() == [3, 2]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_deletion_where_indices_are_not_known(axis):
    x, n = np.arange(12.0).reshape(3, 4), (3, 4)[axis]
    for i in range(-n, n):
        for index in (np.array(i), np.array([i])):
            program = ft.make_program(lambda i: fnp.delete(x, i, axis))(index)
            same(program(index), np.delete(x, index, axis))
    several = np.array([[0, -1], [1, 1]])
    got = ft.vmap(lambda i: fnp.delete(x, i, axis, size=n - 1, fill_value=-1))(several)
    for row, index in zip(got, several, strict=True):
        wanted = np.delete(x, index, axis)
        missing = [(0, n - 1 - wanted.shape[axis] if i == axis % 2 else 0) for i in (0, 1)]
        same(row, np.pad(wanted, missing, constant_values=-1))
    with pytest.raises(ConcretizationError, match=r"fix: np.delete\(x, i, size=n\)"):
        ft.vmap(lambda i: fnp.delete(x, i, axis))(several)
    with pytest.raises(ShapeError, match=rf"booleans of shape \(2,\) for {n} slices"):
        ft.vmap(lambda mask: fnp.delete(x, mask, axis, size=1))(several > 0)


def test_deletion_of_what_is_known():
    x = np.arange(5.0)
    for index in (2, -1, [], [0, 0, 3], slice(1, None, 2), x > 2, [True] + 4 * [False]):
        same(fnp.delete(x, index), np.delete(x, index))
        same(fnp.delete(x, index, size=1), np.delete(x, index)[:1])
    with pytest.raises(IndexError, match="out of bounds"):
        fnp.delete(x, 5)
    same(ft.grad(lambda x: (fnp.delete(x, x > 2) ** 2).sum())(x), np.array([0, 2, 4, 0, 0.0]))


BLOCK = np.pad([[1.0, 0.0], [2.0, 3.0]], [(1, 1), (2, 1)])


@pytest.mark.parametrize("x", [BLOCK, np.zeros((2, 3)), np.zeros((0, 2))], ids=lambda x: x.shape)
@pytest.mark.parametrize("trim", ["f", "b", "fb"])
def test_trimming_along_several_axes(trim, x):
    for axis in (None, 0, (1, 0)):
        if x.size:  # NumPy's own fails without elements
            same(fnp.trim_zeros(x, trim, axis), np.trim_zeros(x, trim, axis))
    whole = np.asarray(fnp.trim_zeros(x, trim))
    size = tuple(n + 1 for n in whole.shape)
    got = ft.make_program(lambda x: fnp.trim_zeros(x, trim, size=size, fill_value=7))(x)(x)
    same(got, np.pad(whole, (0, 1), constant_values=7))
    with pytest.raises(ValueError, match="trim_zeros: 3 sizes for 2 axes"):
        fnp.trim_zeros(x, trim, size=(1, 2, 3))


def test_slices_are_compared_as_wholes():
    x = np.array([[1, 2], [0, 5], [1, 2], [1, 0]])
    whole, first, inverse = np.unique(x, True, True, axis=0)
    got = fnp.unique(x, True, True, axis=0, size=3)
    same(got, (whole, first, inverse))
    same(fnp.unique(x, axis=1, size=2), np.unique(x, axis=1))


def test_fill_values_of_several_axes():
    x = np.array([[0, 1], [1, 0]])
    rows, columns = fnp.nonzero(x, size=3, fill_value=(-1, -2))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, -1], [1, 0, -2])
    with pytest.raises(ValueError, match="fill_value has 3 entries for 2 axes"):
        fnp.nonzero(x, size=3, fill_value=(1, 2, 3))
    with pytest.raises(ValueError, match=r"fix: np.nonzero\(np.atleast_1d\(x\)\)"):
        fnp.nonzero(np.float64(3.0))
    assert fnp.argwhere(np.float64(3.0)).shape == (1, 0)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="kind is 'sort', 'table' or None, not 'hash'"):
        fnp.isin([1], [1], kind="hash")
    with pytest.raises(ValueError, match=r"a condition of shape \(3,\) for 2 slices"):
        fnp.compress([1, 1, 1], np.ones(2))
    with pytest.raises(ValueError, match=r"a condition of shape \(3,\) for an array of shape \(2,"):
        fnp.extract([1, 1, 1], np.ones(2))


def test_bins_that_fall_are_known_to_no_one():
    x, bins = np.array([[0.5, 2.5], [1.0, 9.0]]), np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    for right in (False, True):
        got = ft.vmap(lambda x, b, right=right: fnp.digitize(x, b, right))(x, bins)
        same(got, np.stack([np.digitize(v, b, right) for v, b in zip(x, bins, strict=True)]))
