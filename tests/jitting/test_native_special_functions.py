"""Functions of probabilities, steps and integer powers as machine code."""

import mpmath as mp
import numpy as np
import pytest
from support.function_points import errors, exact
from support.native import missing
from support.native_loops import assert_same, compiled, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.tiers import native_program
from functensor.scipy import special, stats

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]


def specials(dtype):
    limits, rng = np.finfo(dtype), np.random.default_rng(0)
    few = [0.0, 1.0, 0.5, 2.0, 0.3, 0.65, 7.0, np.inf, np.nan, limits.max, limits.tiny]
    few += [limits.smallest_subnormal, 1 - limits.epsneg, 1 + limits.eps, *rng.uniform(0, 1, 9)]
    return np.array([*few, *np.negative(few)], dtype)


def assert_bits(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    there = wanted == wanted
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(wanted[there]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["nextafter", "heaviside"])
def test_steps(name, dtype):
    x, y = (v.ravel() for v in np.meshgrid(specials(dtype), specials(dtype)))
    f = getattr(fnp, name)
    assert_bits(compiled(of_slices(f), x, y)(x, y), f(x, y))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["entr", "logit", "ndtr"])
def test_special_values_of_probabilities(name, dtype):
    x, f = specials(dtype), getattr(special, name)
    found, wanted = compiled(of_slices(f), x)(x), f(x)
    assert_same(found, wanted)
    ends = ~np.isfinite(wanted) | (np.asarray(wanted) == 0)
    assert_bits(np.asarray(found)[ends], np.asarray(wanted)[ends])


REFERENCES = {
    "entr": lambda x: -x * mp.log(x),
    "logit": lambda x: mp.log(x / (1 - x)),
    "ndtr": mp.ncdf,
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_are_those_of_scipy_or_smaller(name, dtype):
    rng, f = np.random.default_rng(1), getattr(special, name)
    x = np.concatenate([rng.uniform(0.01, 0.99, 300), rng.uniform(0.45, 0.55, 100)])
    if name == "ndtr":
        x = np.concatenate([rng.normal(size=200), rng.uniform(-12, 6, 300)])
    x = x.astype(dtype)
    reference = exact(REFERENCES[name], [x])
    found = errors(np.asarray(compiled(of_slices(f), x)(x)), reference)
    assert found.max() <= max(errors(np.asarray(f(x)), reference).max(), 2)


@pytest.mark.parametrize("dtype", [*"bBhHiIqQ"])
def test_powers_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 7, 10, limits.max, limits.min, limits.max - 1], dtype)

    def f(x):
        return [x**n for n in (0, 1, 2, 3, 5, 64, 100)]

    for found, wanted in zip(compiled(of_slices(f), x)(x), f(x), strict=True):
        assert_bits(found, wanted)
    assert_bits(ft.jit(lambda x: x**3 + 1).compile(x)(x), x**3 + 1)


def test_a_power_by_a_negative_number_is_an_error():
    def f(x):
        return ft.fori_loop(0, 2, lambda i, x: x**-1, x)

    with pytest.raises(ValueError, match="negative"):
        ft.jit(f).compile(np.arange(1, 4))(np.arange(1, 4))


@pytest.mark.parametrize("axis", [None, 0, 1, ()])
def test_sums_of_short_floats_and_extrema_of_booleans(axis):
    x = np.random.default_rng(2).normal(size=(5, 40)).astype(np.float16) * 100

    def f(x):
        extrema = [fnp.max(x > 0, axis=axis), fnp.min(x > -1, axis=axis)]
        return [fnp.sum(x, axis=axis), fnp.mean(x, axis=axis), *extrema]

    got, wanted = compiled(of_slices(f), x)(x), f(x)
    for a, b in zip(got, wanted, strict=True):
        assert_same(a, b, 2e-3)


def test_choices_by_a_constant():
    def f(x):
        return fnp.where(False, x, 1.0) + fnp.where(True, x * 2, x)

    x = np.linspace(-1, 1, 5)
    assert_same(compiled(of_slices(f), x)(x), f(x))


def test_distributions():
    def f(x):
        p = special.expit(x)
        return (
            stats.bernoulli.logpmf(1, p), stats.poisson.logpmf(2, x + 3), stats.norm.cdf(x),
            special.entr(p), special.logit(p),
        )  # fmt: skip

    x = np.linspace(-2, 2, 9)
    assert_same(compiled(of_slices(f), x)(x), f(x), 1e-13)
    gradient = ft.grad(lambda x: fnp.sum(fnp.stack(of_slices(f)(x))))
    assert_same(ft.jit(gradient).compile(x)(x), gradient(x), 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [-1.5, -0.5, 1.5, 2.5])
def test_powers_by_halves_are_those_of_eager_mode_within_two_units(exponent, dtype):
    limits = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, limits.max, limits.tiny]
    drawn = np.random.default_rng(0).uniform(-1, 1, 20_000) * np.log2(float(limits.max)) / 3
    x = np.array([*special, *np.exp2(drawn)], dtype)

    def raised(x):
        return x**exponent

    jitted = ft.jit(raised).compile(x)
    assert "power" not in str(native_program(ft.make_program(raised)(x)))
    with np.errstate(all="ignore"):
        got, wanted = np.asarray(jitted(x)), np.asarray(raised(fnp.asarray(x)))
        np.testing.assert_array_equal(got[:6], wanted[:6])
        assert np.signbit(got[:4]).tolist() == np.signbit(wanted[:4]).tolist()
        right = x[6:].astype(np.longdouble) ** np.longdouble(exponent)
    fits = (right < limits.max) & (right > limits.tiny)
    units = np.abs(got[6:][fits] - right[fits]) / np.spacing(right[fits].astype(dtype))
    assert units.max() <= 2
