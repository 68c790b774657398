"""Functions of NumPy with dtypes that few programs give them."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np


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
