"""Functions of NumPy with dtypes that few programs give them."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch

NAN = float("nan")


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_booleans_are_numbers_to_take(wrap, mode):
    x, places = np.array([5.0, 6.0]), np.array([True, False, True])
    found = wrap(lambda x, i: np.take(x, i, mode=mode))(x, places)
    assert found.tolist() == numpy.take(x, places).tolist() == [6, 5, 6]
    assert np.take(np.array([[5, 6, 7]]), [False, True], 1).tolist() == [[5, 6]]
    assert np.take(x, True).tolist() == 6
    assert ft.grad(lambda x: np.take(x, places).sum())(x).tolist() == [1, 2]


def test_nothing_is_taken():
    assert np.take(np.array([5, 6]), []).tolist() == []
    assert np.take(np.ones((2, 3)), [[]], 1).shape == (2, 1, 0)
    with pytest.raises(IndexError):
        np.take(np.ones(2), np.array([]))


def test_booleans_are_no_places_along_an_axis():
    x, mask = np.array([5.0, 6.0]), np.array([True, False])
    with pytest.raises(IndexError, match="integers for indices, not bool"):
        np.take_along_axis(x, mask, 0)
    with pytest.raises(IndexError, match="integers for indices, not bool"):
        np.put_along_axis(x, mask, 1.0, 0, inplace=False)


@pytest.mark.parametrize("y", ["bool", "int8", "int32", "float16"])
@pytest.mark.parametrize("x", ["bool", "int8", "float16", "float32"])
def test_integrals_have_the_dtype_of_heights_and_places(y, x):
    heights, places = numpy.array([1, 0, 1], y), numpy.array([0, 0, 1], x)
    wanted = numpy.trapezoid(heights, places)
    found = np.trapezoid(np.array(heights), np.array(places))
    assert found.dtype == wanted.dtype
    assert found.tolist() == wanted


def test_nan_of_bfloat16_has_its_place():
    values = numpy.array([3.0, NAN, -1.0, numpy.inf, 0.0, 3.0, NAN, 1.0], "float32")
    x = np.array(values).astype("bfloat16")
    for wanted, found in (
        (numpy.unique(values, True, True, True), np.unique(x, True, True, True)),
        ([numpy.unique(values, equal_nan=False)], [np.unique(x, equal_nan=False)]),
        ([numpy.union1d(values, values[:3])], [np.union1d(x, x[:3])]),
        ([numpy.unique(values.reshape(4, 2), axis=0)], [np.unique(x.reshape(4, 2), axis=0)]),
    ):
        for a, b in zip(wanted, found, strict=True):
            numpy.testing.assert_array_equal(numpy.asarray(b.astype(a.dtype)), a)
    ordered = numpy.sort(values)
    for side in ("left", "right"):
        wanted = numpy.searchsorted(ordered, values, side)
        assert np.searchsorted(np.sort(x), x, side=side).tolist() == wanted.tolist()
        assert np.searchsorted(np.array(ordered), x, side=side).tolist() == wanted.tolist()
    bins = np.array([-1.0, 0.0, 2.0]).astype("bfloat16")
    wanted = numpy.digitize(values, [-1.0, 0.0, 2.0])
    assert np.digitize(x, bins).tolist() == wanted.tolist()


def test_ranges_and_powers_of_bfloat16():
    three = np.array(3.0).astype("bfloat16")
    assert np.arange(three).dtype == np.float64
    assert np.arange(three).tolist() == [0, 1, 2]
    assert np.arange(1, three, 0.5 * three).tolist() == [1, 2.5]
    assert torch.arange(torch.tensor(3.0, dtype=torch.bfloat16)).tolist() == [0, 1, 2]
    powers = np.vander(np.array([1.0, 2.0]).astype("bfloat16"), 3)
    assert powers.dtype.name == "bfloat16"
    assert powers.tolist() == [[1, 1, 1], [4, 2, 1]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_powers_of_matrices_of_halves(dtype):
    a = np.array([[1.0, 1.0], [0.0, 1.0]]).astype(dtype)
    for n in (0, 1, 2, 5):
        found = np.linalg.matrix_power(a, n)
        assert found.dtype.name == dtype
        assert found.tolist() == [[1, n], [0, 1]]
    with pytest.raises(TypeError, match="single and double precision"):
        np.linalg.matrix_power(a, -1)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.matrix_power(a[:1], 2)
