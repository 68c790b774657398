"""Casts of floats to integers as machine code: NumPy's numbers for NaN and out of range, too."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import compiled, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import formulas
from functensor.backends.processor import IS_ARM64, IS_X86_64

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),
]
SIZES = 1, 100, 1e4, 1e6, 1e9, 3e9, 1e12, 1e19, 1e25
ENDS = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]
SIGNED, UNSIGNED = ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8")
# Integers that machine code makes of floats.
MADE = (*SIGNED, "u1", "u2") if IS_X86_64 else (*SIGNED, *UNSIGNED)


def numbers(dtype):
    rng = np.random.default_rng(0)
    ends = np.array([*ENDS, *np.negative(ENDS)])
    found = [rng.normal(size=200) * size for size in SIZES]
    found += [ends, ends - 1, ends - 0.5, ends + 0.5, ends + 1]
    found.append([np.nan, np.inf, -np.inf, 0.0, -0.0, -0.5, 0.99])
    with np.errstate(over="ignore"):
        return np.concatenate(found).astype(dtype)


def numpy_knows(x, wanted):
    """Returns where NumPy's number does not depend on the place of an element in an array."""
    narrow = x.dtype == "f8" and wanted[1] != "8"
    if IS_X86_64 or not (narrow or (x.dtype == "f4" and wanted in ("u1", "u2"))):
        return np.ones(x.shape, bool)
    limits = np.iinfo(wanted)
    return (np.trunc(x) >= limits.min) & (np.trunc(x) <= limits.max)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.skipif(not (IS_X86_64 or IS_ARM64), reason="NumPy computes these casts elsewhere")
def test_floats_to_integers(dtype):
    x = numbers(dtype)

    def f(x):
        return [x.astype(wanted) for wanted in MADE]

    for given in (x, x[:45:3]):
        place = fnp.asarray(given)
        wanted = f(place)
        for got in (compiled(of_slices(f), place)(place), ft.jit(f).compile(place)(place)):
            for name, a, b in zip(MADE, got, wanted, strict=True):
                assert a.dtype == b.dtype
                known = numpy_knows(given, name)
                assert known.any()
                np.testing.assert_array_equal(np.asarray(a)[known], np.asarray(b)[known])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_arm64_takes_the_nearest_integer(dtype, monkeypatch):
    monkeypatch.setattr(formulas, "IS_ARM64", True)
    x = fnp.asarray(numbers(dtype))

    def f(x):
        return [x.astype(wanted) for wanted in (*SIGNED, *UNSIGNED)]

    found = dict(zip((*SIGNED, *UNSIGNED), compiled(of_slices(f), x)(x), strict=True))

    def nearest(number, limits):
        if np.isnan(number):
            return 0
        # Python compares whole numbers and floats exactly.
        return min(max(number, limits.min), limits.max)

    for wanted, got in found.items():
        wide = wanted
        if wanted[1] in "12":
            wide = f"{wanted[0] if dtype == 'f2' else 'i'}4"
        limits = np.iinfo(wide)
        whole = [int(nearest(float(number), limits)) for number in np.asarray(x)]
        np.testing.assert_array_equal(np.asarray(got), np.array(whole, wide).astype(wanted))


def test_float64_is_rounded_to_float16_once():
    every = np.arange(1 << 15, dtype="u2").view("f2").astype("f8")
    finite = every[np.isfinite(every)]
    middles = (finite[1:] + finite[:-1]) / 2
    numbers = [finite, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)]
    # The least number that is no zero, those about the largest, and some far out of range.
    numbers += [[2.0**-25, 2.0**-1074, 65519.999, 65520.0, 1e39, 1e300, np.inf, np.nan]]
    x = np.concatenate(numbers)
    x = np.concatenate([x, -x])
    with np.errstate(over="ignore", under="ignore"):
        wanted = x.astype("f2")
    found = np.asarray(ft.jit(lambda x: x.astype("f2")).compile(x)(x))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
