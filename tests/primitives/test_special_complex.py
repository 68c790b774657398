"""Special functions of complex numbers, and zeta's derivatives by its exponent, against mpmath."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import functensor as ft
from functensor.scipy import special
from functensor.testing import check_grads

ERROR_FUNCTIONS = ["erf", "erfc", "erfcx", "erfi", "ndtr", "wofz"]
Z = np.array([0.3 - 0.4j, -2.0 + 1.0j, 0.1j, 1.5 + 0j, -0.5 - 2.0j, 0j])


@pytest.mark.parametrize("name", ERROR_FUNCTIONS)
def test_error_functions_of_complex_numbers(name):
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    np.testing.assert_allclose(ours(Z), theirs(Z), rtol=1e-13)
    np.testing.assert_allclose(ft.jit(ours)(Z), theirs(Z), rtol=1e-13)
    np.testing.assert_allclose(ft.vmap(ours)(Z), theirs(Z), rtol=1e-13)
    assert ours(1j) == pytest.approx(theirs(1j), rel=1e-14)
    assert ours(Z.astype("complex64")).dtype == "complex64"
    if name != "wofz":
        assert ours(Z.real).dtype == "float64"
        assert ours(Z.real.astype("float32")).dtype == "float32"
    check_grads(ours, (Z,), order=2)


@pytest.mark.parametrize(
    "z", [30 + 0.1j, 1e5 + 1j, 1e150j, 8.5 - 0.1j, -9 + 2j, 3 - 8j, 20 - 19.9j, 7.9 + 0.5j]
)
def test_the_derivative_of_faddeevas_function_does_not_cancel(z):
    with mp.workdps(400):
        exact = mp.mpc(z)
        value = mp.exp(-exact * exact) * mp.erfc(-1j * exact) if abs(z) < 1e4 else None
        wanted = -2 * exact * value + 2j / mp.sqrt(mp.pi) if value is not None else None
        if wanted is None:
            wanted = -1j / mp.sqrt(mp.pi) / exact**2 * (1 + 1.5 / exact**2)
    got = ft.jvp(special.wofz, (z,), (1 + 0j,))[1].item()
    assert abs(got - complex(wanted)) <= 1e-12 * abs(complex(wanted))


@pytest.mark.parametrize(
    "options", [{}, {"axis": 0}, {"b": [[1.0, -2.0, 1j]]}, {"axis": 1, "keepdims": True}]
)
def test_logarithms_of_complex_sums(options):
    a = (Z * 3).reshape(2, 3) + 700
    ours, theirs = special.logsumexp, scipy.special.logsumexp
    np.testing.assert_allclose(ours(a, **options), theirs(a, **options), rtol=1e-13)
    got = ours(a, return_sign=True, **options)
    for mine, other in zip(got, theirs(a, return_sign=True, **options), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    check_grads(lambda a: ours(a, **options), (a,), order=2)
    assert ours(np.array([0j, np.pi * 1j])).real < -30
    assert ours(np.array([-np.inf + 0j])) == -np.inf


def test_elements_that_do_not_count():
    a = np.array([[1.0, np.nan, 2.0], [np.inf, np.nan, 0.5]])
    kept = np.isfinite(a)
    given = np.where(kept, a, 0)

    def total(a):
        return special.logsumexp(a, axis=1, where=kept)

    wanted = np.log(np.sum(np.exp(given) * kept, axis=1))
    np.testing.assert_allclose(total(a), wanted)
    np.testing.assert_allclose(ft.jit(total)(a), wanted)
    got = ft.grad(lambda a: total(a).sum())(a)
    np.testing.assert_allclose(got, np.where(kept, np.exp(given - wanted[:, None]), 0))
    check_grads(total, (given,), order=2)
    nothing = np.zeros((2, 3), bool)
    assert special.logsumexp(given, axis=1, where=nothing).tolist() == [-np.inf, -np.inf]
    got, sign = special.logsumexp(given, axis=1, b=[1.0, 1.0, -1.0], where=kept, return_sign=True)
    np.testing.assert_allclose(sign * np.exp(got), [np.e - np.exp(2), -np.exp(0.5)])


def test_weights_of_zero_have_derivatives():
    a, b = np.array([1.0, -2.0, 800.0]), np.array([2.0, 0.0, 1.0])
    check_grads(lambda a, b: special.logsumexp(a, b=b), (a, b), order=2)


# -- zeta


@pytest.mark.parametrize(
    ("x", "q"),
    [(1.001, 1.0), (2.5, 0.01), (5.0, 7.0), (30.0, 1.0), (3.0, 1e5), (1.5, 3.7), (60.0, 2.0)],
)
def test_derivatives_of_hurwitz_zeta_by_its_exponent(x, q):
    first, second = ft.grad(special.zeta), ft.grad(ft.grad(special.zeta))
    assert first(x, q).item() == pytest.approx(float(mp.zeta(x, q, 1)), rel=1e-13)
    assert second(x, q).item() == pytest.approx(float(mp.zeta(x, q, 2)), rel=1e-13)
    mixed = [ft.grad(ft.grad(special.zeta, i), 1 - i)(x, q).item() for i in (0, 1)]
    wanted = float(-mp.zeta(x + 1, q) - x * mp.zeta(x + 1, q, 1))
    # Next to the pole the terms of one of them cancel.
    assert mixed == pytest.approx([wanted, wanted], rel=1e-12 if x > 1.1 else 1e-9)


@pytest.mark.parametrize("x", [-0.5, -3.3, -10.1, 0.5, 0.0, -2.0, -20.5, 1.5, 4.0, 60.0])
def test_derivatives_of_riemanns_zeta(x):
    assert ft.grad(special.zeta)(x).item() == pytest.approx(float(mp.zeta(x, 1, 1)), rel=1e-13)
    with mp.workdps(40):
        wanted = float(mp.diff(mp.zeta, x, 2))
    assert ft.grad(ft.grad(special.zeta))(x).item() == pytest.approx(wanted, rel=1e-11)
