"""Calls of programs for ``jax.numpy`` that other suites here do not try."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ImmutableArrayError
from functensor.testing import check_grads

X = np.arange(12.0).reshape(3, 4) + 0.5


# -- indices out of bounds


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "divide", "power", "min", "max"])
@pytest.mark.parametrize("key", [7, [0, 3], [-4], ([0, 1], [1, -5]), (slice(None), [4])])
def test_updates_out_of_bounds_are_refused(kind, key):
    with pytest.raises(IndexError, match="out of bounds for axis"):
        _ = getattr(fnp.asarray(X).at[key], kind)(1.0)
    with pytest.raises(IndexError, match="out of bounds for axis"):
        ft.grad(lambda x: fnp.sum(getattr(x.at[key], kind)(1.0)))(X)


# -- the same, where the program says what becomes of them


def within(index, length):
    """Returns whether an index is in bounds."""
    return -length <= index < length


@pytest.mark.parametrize("rows", [[0, 5, -1, -4], [2, -3, 3, 3], [7]])
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "divide", "power", "min", "max"])
def test_updates_out_of_bounds_are_dropped(kind, rows):
    kept = [row for row in rows if within(row, 3)]
    wanted = getattr(fnp.asarray(X).at[kept, 1], kind)(2.0)
    for mode in ("drop", "fill"):
        got = getattr(fnp.asarray(X).at[rows, 1], kind)(2.0, mode=mode)
        np.testing.assert_array_equal(got, wanted)


def test_updates_out_of_bounds_are_clipped():
    x = fnp.asarray(X)
    got = x.at[[0, 5, -9], 1].add(1.0, mode="clip")
    np.testing.assert_array_equal(got, x.at[[0, 2, 0], 1].add(1.0))
    np.testing.assert_array_equal(x.at[7].set(0.0, mode="clip"), x.at[2].set(0.0))
    np.testing.assert_array_equal(x.at[..., -9].set(0.0, mode="clip"), x.at[..., 0].set(0.0))


@pytest.mark.parametrize(
    "key",
    [
        9,
        (1, -9),
        (slice(None), 7),
        (Ellipsis, 4),
        (None, 3),
        (slice(1), [0, 9]),
        ([True, False, True], 8),
        (np.array(200, np.uint8), [1, 2]),
    ],
)
def test_no_element_is_updated_where_there_is_none(key):
    x = fnp.asarray(X)
    dropped = x.at[key].set(-1.0, mode="drop")
    assert dropped.shape == X.shape
    if key == (slice(1), [0, 9]):
        np.testing.assert_array_equal(dropped, x.at[0, 0].set(-1.0))
    else:
        np.testing.assert_array_equal(dropped, X)
    found = np.asarray(x.at[key].get(mode="fill", fill_value=-7.0))
    assert np.all(found[found != 0.5] == -7.0)


def test_elements_that_are_not_there_have_a_fill_value():
    assert np.isnan(fnp.arange(3.0).at[7].get(mode="fill"))
    assert fnp.arange(3).at[7].get(mode="fill") == np.iinfo(np.int64).min
    assert fnp.arange(3, dtype=np.uint8).at[[7]].get(mode="fill").tolist() == [255]
    assert fnp.zeros(3, bool).at[[7, 0]].get(mode="fill").tolist() == [True, False]
    taken = fnp.take(X, np.array([3, 4]), axis=1, mode="fill", fill_value=0.0)
    np.testing.assert_array_equal(taken, [[3.5, 0], [7.5, 0], [11.5, 0]])
    with pytest.raises(IndexError):
        fnp.asarray(X).at[0, 0, 0].get(mode="fill")


def test_updates_out_of_bounds_under_transformations():
    def fun(x, v, i):
        x = fnp.asarray(x).at[i].multiply(v, mode="drop").at[i].power(v, mode="drop")
        return x.at[i].divide(v, mode="drop").at[i + 1].add(x.at[i].get(mode="fill", fill_value=v))

    rows = np.array([0, 9, -1, -8])
    with pytest.raises(IndexError):
        fun(X[:, 0], 1.5, rows)

    def dropping(x, v, i):
        read = fnp.asarray(x).at[i].get(mode="fill", fill_value=2.0)
        x = fnp.asarray(x).at[i].multiply(v, mode="drop").at[i].power(v, mode="drop")
        return x.at[i].divide(v, mode="drop").at[i + 1].add(read, mode="drop")

    check_grads(lambda x, v: dropping(x, v, rows), (X[:, 0], 1.5), order=2)
    many = np.stack([rows, rows[::-1]])
    mapped = ft.vmap(dropping, (None, None, 0))(X[:, 0], 1.5, many)
    for got, i in zip(mapped, many, strict=True):
        np.testing.assert_allclose(got, dropping(X[:, 0], 1.5, i))
    (staged,) = ft.make_program(dropping)(X[:, 0], 1.5, rows).run([X[:, 0], 1.5, rows])
    np.testing.assert_allclose(staged, dropping(X[:, 0], 1.5, rows))


# -- keywords


@pytest.mark.parametrize("counts", [[1, 0, 2], [2, 2, 2], [0, 0, 9], [0, 0, 0]])
def test_repeat_up_to_a_length(counts):
    row = np.repeat(np.arange(3), counts)[:4]
    row = np.append(row, np.full(4 - len(row), 2))
    got = fnp.repeat(X, np.array(counts), axis=0, total_repeat_length=4)
    np.testing.assert_array_equal(got, X[row])

    # The counts need not be known then.
    def repeated(x, counts):
        return fnp.repeat(x, counts, axis=0, total_repeat_length=4)

    mapped = ft.vmap(repeated, (None, 0))(X, np.array([counts, [4, 0, 0]]))
    np.testing.assert_array_equal(mapped, [X[row], X[[0] * 4]])
    check_grads(lambda x: repeated(x, np.array(counts)), (X,), order=2)
    assert fnp.repeat(X, 2, total_repeat_length=3).tolist() == [0.5, 0.5, 1.5]


def test_put_along_axis_is_not_in_place():
    rows = np.array([[0], [1], [2]])
    got = fnp.put_along_axis(X, rows, -1.0, axis=1, inplace=False)
    np.testing.assert_array_equal(got[rows.ravel(), rows.ravel()], [-1.0] * 3)
    with pytest.raises(ImmutableArrayError, match=r"would change float64\[3, 4\], but arrays are"):
        fnp.put_along_axis(X, rows, -1.0, axis=1, inplace=True)


def test_checkpoint_needs_no_care_for_compilers():
    layer = ft.checkpoint(fnp.tanh, prevent_cse=False)
    np.testing.assert_allclose(ft.grad(layer)(0.5), 1 - np.tanh(0.5) ** 2)
