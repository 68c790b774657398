"""Sorting on a GPU against NumPy: equal elements, NaN, both directions, every axis."""

import numpy as np
import pytest
from support.cuda_keys import BFLOAT16, DTYPES, values

cupy = pytest.importorskip("cupy")
sorting = pytest.importorskip("functensor.backends.cuda.kernels.sorting")

pytestmark = pytest.mark.gpu

SHAPES = [((7,), 0), ((1,), 0), ((3, 6), 1), ((5, 4), 0), ((2, 5, 3), 1), ((0,), 0), ((3, 0), 0),
          ((0, 3), 1), ((1000,), 0), ((2, 1500), 1), ((3, 5000), 1)]


def numbers(shape, dtype):
    """Returns numbers of which many are equal; of floats some are NaN, infinite or minus zero."""
    x = values(shape, "b").astype(dtype)
    if x.dtype.kind in "fcV":
        flat = x.reshape(-1)
        flat[::5], flat[1::7], flat[2::9], flat[3::11] = np.nan, np.inf, -np.inf, -0.0
        if x.dtype.kind == "c":
            flat[4::9], flat[6::13] = complex(1, np.nan), complex(np.nan, np.nan)
    return x


def expected_order(x, axis, descending):
    known = x.astype("f") if x.dtype == BFLOAT16 else x
    if not descending:
        return np.argsort(known, axis=axis, stable=True)
    turned = np.argsort(np.flip(known, axis), axis=axis, stable=True)
    return x.shape[axis] - 1 - np.flip(turned, axis)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_order_of_equal_elements(shape, axis, stable, descending):
    x = numbers(shape, "f")
    params = {"axis": axis, "stable": stable, "descending": descending}
    order = sorting.argsort(cupy.asarray(x), **params)
    expected = expected_order(x, axis, descending)
    assert order.dtype == np.intp
    np.testing.assert_array_equal(order.get(), expected)
    got = sorting.sort(cupy.asarray(x), **params)
    np.testing.assert_array_equal(got.get(), np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype, descending):
    x = numbers((4, 33), dtype)
    params = {"axis": 1, "stable": True, "descending": descending}
    expected = expected_order(x, 1, descending)
    np.testing.assert_array_equal(sorting.argsort(cupy.asarray(x), **params).get(), expected)
    got = sorting.sort(cupy.asarray(x), **params)
    assert got.dtype == dtype
    wide = complex if dtype.kind == "c" else float
    np.testing.assert_array_equal(
        got.get().astype(wide), np.take_along_axis(x, expected, 1).astype(wide)
    )


def test_arrays_of_any_strides():
    x = numbers((6, 8), "f")
    given = cupy.asarray(x).T[::2]
    params = {"axis": 0, "stable": True, "descending": False}
    np.testing.assert_array_equal(sorting.sort(given, **params).get(), np.sort(x.T[::2], axis=0))
    np.testing.assert_array_equal(given.get(), x.T[::2])


@pytest.mark.parametrize("kth", [(), (3,), (0, 5)])
def test_partitions(kth):
    x = values((3, 8), "f")
    order = sorting.argpartition(cupy.asarray(x), kth=kth, axis=1).get()
    got = np.take_along_axis(x, order, 1)
    ordered = np.sort(x, axis=1)
    np.testing.assert_array_equal(np.sort(got, axis=1), ordered)
    for k in kth:
        np.testing.assert_array_equal(got[:, k], ordered[:, k])
