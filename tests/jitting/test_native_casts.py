"""Casts of floats to integers as machine code: NumPy's numbers for NaN and out of range, too."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import compiled, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native.formulas import IS_X86_64

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(not IS_X86_64, reason="NumPy computes these casts on other processors"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),
]
SIZES = 1, 100, 1e4, 1e6, 1e9, 3e9, 1e12, 1e19, 1e25
ENDS = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats_to_integers(dtype):
    rng = np.random.default_rng(0)
    ends = np.array([*ENDS, *np.negative(ENDS)])
    numbers = [rng.normal(size=200) * size for size in SIZES]
    numbers += [ends, ends - 1, ends - 0.5, ends + 0.5, ends + 1]
    numbers.append([np.nan, np.inf, -np.inf, 0.0, -0.0, -0.5, 0.99])
    with np.errstate(over="ignore"):
        x = np.concatenate(numbers).astype(dtype)

    def f(x):
        return [x.astype(wanted) for wanted in ("i1", "u1", "i2", "u2", "i4", "i8")]

    for place in (fnp.asarray(x), fnp.asarray(x[:45:3])):
        wanted = f(place)
        for got in (compiled(of_slices(f), place)(place), ft.jit(f).compile(place)(place)):
            for a, b in zip(got, wanted, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
