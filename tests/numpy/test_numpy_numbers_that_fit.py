"""Numbers that stand in arrays of another dtype: what does not fit is refused, as by NumPy."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ShapeError

BYTES = np.array([1, 2, 3], "u1")
TAKEN = np.array([True, False, True])
CALLS = {
    "sum": lambda xp, x, n: xp.sum(x, initial=n),
    "prod": lambda xp, x, n: xp.prod(x, initial=n),
    "max": lambda xp, x, n: xp.max(x, initial=n),
    "min of some": lambda xp, x, n: xp.min(x, initial=n, where=TAKEN),
    "insert": lambda xp, x, n: xp.insert(x, 0, n),
    "piecewise": lambda xp, x, n: xp.piecewise(x, [TAKEN], [n, 0]),
    "ediff1d": lambda xp, x, n: xp.ediff1d(x, to_end=n),
}


@pytest.mark.parametrize("number", [np.nan, np.inf, 1j, -1, 7, 2.5])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_as_numpy_has_it(call, number):
    def tried(xp, x):
        try:
            return np.asarray(call(xp, x, number)).tolist()
        except (OverflowError, TypeError, ValueError) as error:
            return type(error)

    wanted = tried(np, BYTES)
    assert tried(fnp, BYTES) == wanted
    assert tried(fnp, ft.numpy.asarray(BYTES)) == wanted


@pytest.mark.parametrize("default", [-1, 300, 1.5, np.nan])
def test_a_default_has_the_dtype_of_all_choices(default):
    conditions = [np.array([True, False, False]), np.array([False, True, False])]
    choices = [np.array([1.0, 2.0, 3.0], "f4"), BYTES]
    wanted = np.select(conditions, choices, default)
    for select in (fnp.select, ft.jit(fnp.select, static_argnums=2)):
        got = select(conditions, choices, default)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_what_stands_for_nan_has_the_dtype_of_the_array():
    x = np.array([1.0, np.nan, np.inf, -np.inf], "f4")
    numbers = {"nan": np.float64(2.5), "posinf": np.int64(300), "neginf": np.float64(-1)}
    got, wanted = fnp.nan_to_num(x, **numbers), np.nan_to_num(x, **numbers)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_products_of_matrices_refuse_vectors_in_their_place():
    x, m = np.array([1.0, 2.0]), np.eye(2)
    for call in (lambda: fnp.matvec(x, x), lambda: fnp.vecmat(x, x)):
        with pytest.raises(ShapeError, match=r"float64\[2\] in the place of matrices"):
            call()
    np.testing.assert_array_equal(fnp.vecmat(x, m), x)


MODES = ["constant", "edge", "reflect", "symmetric", "wrap", "mean", "linear_ramp"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_what_is_padded_by_nothing_is_an_array_of_its_own(shape, mode):
    x = np.ones(shape)
    padded = [fnp.pad(x, 0, mode=mode)]
    if mode == "constant":
        padded.append(fnp.pad(x, 0, constant_values=(0, 1)))
    x[...] = 2.0
    for found in padded:
        assert isinstance(found, ft.Array)
        np.testing.assert_array_equal(found, np.ones(shape))
