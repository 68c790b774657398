"""Zeros of two signs: their extrema have NumPy's signs, which differ by processor."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu import where_and_extrema
from functensor.backends.cpu.plan.native import formulas
from functensor.backends.cpu.plan.regions import block_steps
from functensor.backends.native import instructions
from functensor.backends.processor import ZEROS_ARE_ORDERED

X, Y = np.array([0.0, -0.0, 0.0, -0.0]), np.array([0.0, 0.0, -0.0, -0.0])
LARGEST, SMALLEST = [False, False, False, True], [False, True, True, True]
MODULES = where_and_extrema, formulas, block_steps, instructions
DTYPES = ["f4", "f8"]


@pytest.fixture
def ordered(monkeypatch):
    """Has functensor follow a processor for which 0 is larger than -0."""
    for module in MODULES:
        monkeypatch.setattr(module, "ZEROS_ARE_ORDERED", True)


def signs(*results):
    return [np.signbit(np.asarray(x)).tolist() for x in results]


def every(x, y):
    return [fnp.maximum(x, y), fnp.minimum(x, y), fnp.fmax(x, y), fnp.fmin(x, y)]


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("copies", [1, 11])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("ordered")
def test_machine_code_orders_zeros(dtype, copies):
    x, y = np.tile(X, copies).astype(dtype), np.tile(Y, copies).astype(dtype)
    jitted = ft.jit(every).compile(x, y)
    assert jitted.explain().endswith("as machine code")
    wanted = [LARGEST * copies, SMALLEST * copies]
    assert signs(*jitted(x, y)) == wanted * 2
    # Every row and every column has zeros of both signs.
    table = np.tile(np.array([[0.0, -0.0], [-0.0, 0.0]], dtype), (copies, 20))
    folded = ft.jit(lambda x: (x.max(0), x.max(1), x.min(0), x.min(1))).compile(table)
    assert folded.explain().endswith("as machine code")
    rows, columns = table.shape
    wanted = [[sign] * count for sign in (False, True) for count in (columns, rows)]
    assert signs(*folded(table)) == wanted


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("ordered")
def test_nan_stays_where_zeros_are_ordered(dtype):
    nan = np.nan
    x, y = np.array([nan, 1, nan, 2] * 5, dtype), np.array([1, nan, nan, 3] * 5, dtype)
    found = ft.jit(every).compile(x, y)(x, y)
    for got, function in zip(found, (np.maximum, np.minimum, np.fmax, np.fmin), strict=True):
        np.testing.assert_array_equal(np.asarray(got), function(x, y))


def limits(x):
    zero = np.zeros((), x.dtype)[()]
    given = [fnp.maximum(x, 0.0), fnp.maximum(0.0, x), fnp.minimum(x, 0.0), fnp.minimum(0.0, x)]
    return [*given, fnp.maximum(x, zero), fnp.minimum(x, zero)]


@pytest.mark.parametrize("copies", [1, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_limits_have_numpys_signs(dtype, copies):
    x = np.tile(X, copies).astype(dtype)
    zero = np.zeros((), dtype)
    low, high = np.maximum(x, zero), np.minimum(x, zero)
    wanted = [low, np.maximum(zero, x), high, np.minimum(zero, x), low, high]
    with ft.config.using(deterministic=True):
        plan = ft.jit(limits)(x)
    for got in (limits(fnp.asarray(x)), plan):
        assert signs(*got) == signs(*wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("ordered")
def test_limits_of_large_arrays_where_zeros_are_ordered(dtype):
    x = np.tile(X, 1000).astype(dtype)
    own, positive = np.signbit(x).tolist(), [False] * x.size
    with ft.config.using(deterministic=True):
        plan = ft.jit(limits)(x)
    for got in (limits(fnp.asarray(x)), plan):
        assert signs(*got[:4]) == [positive, positive, own, own]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("ordered")
def test_limits_within_regions_where_zeros_are_ordered(dtype):
    x = np.tile(X, 1 << 14).astype(dtype)

    def scaled(x):
        return [3 * limit for limit in limits(2 * x)[:4]]

    with ft.config.using(deterministic=True):
        jitted = ft.jit(scaled)
        found = signs(*jitted(x))
    assert ".clip(" in jitted.lower(x).source
    assert found == [[False] * x.size] * 2 + [np.signbit(x).tolist()] * 2


def test_numpy_is_asked_once():
    assert isinstance(ZEROS_ARE_ORDERED, bool)
    assert signs(np.maximum(Y, X))[0] == (LARGEST if ZEROS_ARE_ORDERED else signs(X)[0])
