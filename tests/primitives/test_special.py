"""Special functions at their edges: poles, infinities, dtypes, errors, and derivatives there."""

import pickle
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy.special

import functensor as ft
from functensor.primitives.core.errors import MissingRuleError
from functensor.primitives.core.registry import registry
from functensor.scipy import special

EDGES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -1.5, 0.5, 1e308, -1e308, 1e-308, 800.0]
)
UNARY = [
    "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfi", "erfinv", "exp1", "exp10", "expi",
    "expit", "gamma", "gammaln", "gammasgn", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1",
    "k1e", "log_expit", "log_ndtr", "loggamma", "logit", "ndtr", "ndtri", "ndtri_exp", "psi",
    "rgamma", "y0", "y1", "zeta",
]
BINARY = [
    "beta", "betaln", "gammainc", "gammaincc", "gammaincinv", "gammainccinv", "xlogy", "xlog1py",
    "rel_entr", "kl_div", "poch", "binom", "zeta",
]


def second(function, by, then):
    """Returns the derivative of a derivative, by positions."""
    return ft.grad(ft.grad(function, argnums=by), argnums=then)


@pytest.mark.parametrize("name", UNARY)
def test_edges_are_those_of_scipy(name):
    got = np.asarray(getattr(special, name)(EDGES))
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(EDGES)
    np.testing.assert_allclose(got, wanted, rtol=1e-13)


@pytest.mark.parametrize("name", BINARY)
def test_edges_of_two_arguments_are_those_of_scipy(name):
    x, y = np.meshgrid(EDGES[:-4], EDGES[:-4])
    got = np.asarray(getattr(special, name)(x, y))
    np.testing.assert_allclose(got, getattr(scipy.special, name)(x, y), rtol=1e-12)


def test_known_values():
    assert special.gamma(5).item() == 24.0
    assert special.zeta(2).item() == pytest.approx(np.pi**2 / 6, rel=1e-15)
    assert special.multigammaln(2.5, 1).item() == special.gammaln(2.5).item()
    assert special.comb(4, [2, 5, -1]).tolist() == [6.0, 0.0, 0.0]
    assert special.comb(0, 0, repetition=True).item() == 1.0
    assert special.factorial([-1, 0, 3]).tolist() == [0.0, 1.0, 6.0]
    assert special.iv(1, 2.0).item() == pytest.approx(special.i1(2.0).item(), rel=1e-15)
    assert special.jn is special.jv


@pytest.mark.parametrize("name", ["gammaln", "i0", "erfinv", "log_ndtr", "logit", "log_expit"])
def test_dtypes(name):
    function = getattr(special, name)
    assert function(np.float32([0.5])).dtype == np.float32
    assert function(np.array([0, 1])).dtype == np.float64
    assert ft.grad(lambda x: function(x).sum())(np.float32([0.5])).dtype == np.float32
    assert function([0.25, 0.5]).shape == (2,)
    assert function(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("name", ["gammainc", "betaln", "xlogy", "gammaincinv", "poch", "jv"])
def test_numbers_are_weak(name):
    function = getattr(special, name)
    x = np.float32([0.25, 0.5])
    assert function(2.0, x).dtype == np.float32
    assert ft.grad(lambda x: function(2.0, x).sum())(x).dtype == np.float32


def test_multigammaln_and_factorial_keep_single_precision():
    x = np.float32([2.5, 3.5])
    assert special.multigammaln(x, 2).dtype == special.factorial(x).dtype == np.float32
    assert np.isnan(special.multigammaln(0.5, 2).item())
    assert ft.grad(special.multigammaln)(0.5, 2).item() == 0.0


def test_order_has_no_derivative():
    for function in (special.jv, special.iv, special.kve, special.polygamma):
        with pytest.raises(MissingRuleError, match="has no derivative by its order") as caught:
            ft.grad(function)(1.5, 2.0)
        assert "ft.stop_gradient" in str(caught.value)
        with pytest.raises(MissingRuleError, match="has no derivative by its order"):
            ft.jvp(function, (1.5, 2.0), (1.0, 0.0))
        assert np.isfinite(ft.grad(function, argnums=1)(1, 2.0).item())
    assert ft.grad(special.zeta, argnums=1)(2.0, 1.0).item() == pytest.approx(
        -2 * scipy.special.zeta(3.0), rel=1e-14
    )


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"math\.factorial"):
        special.factorial(3, exact=True)
    with pytest.raises(ValueError, match=r"math\.comb"):
        special.comb(3, 2, exact=True)
    with pytest.raises(ValueError, match="dimension d is 0"):
        special.multigammaln(3.0, 0)
    with pytest.raises(ValueError, match=r"gammainc: shapes \(2,\) and \(3,\) do not broadcast"):
        special.gammainc(np.ones(2), np.ones(3))


# Derivatives


def test_incomplete_gamma_in_its_parameter():
    # For a = 1 the integral of exp(-t) (log(t) - digamma(1)) up to x, by parts.
    x = 1.5
    logarithms = -np.euler_gamma - scipy.special.exp1(x) - np.exp(-x) * np.log(x)
    wanted = logarithms + np.euler_gamma * (1 - np.exp(-x))
    assert ft.grad(special.gammainc)(1.0, x).item() == pytest.approx(wanted, rel=1e-13)


def test_third_derivatives_by_parameters_agree_with_differences_of_second():
    h = 1e-4
    for function, operands in (
        (special.gammainc, (1.7, 2.1)),
        (special.betainc, (1.7, 2.1, 0.4)),
    ):
        twice = second(function, 0, 0)
        thrice = ft.grad(twice)(*operands).item()
        a, *rest = operands
        near = (twice(a + h, *rest) - twice(a - h, *rest)).item() / (2 * h)
        assert thrice == pytest.approx(near, rel=1e-6)


def test_mixed_derivatives_are_symmetric():
    a, b, x = 1.3, 2.2, 0.35
    for i in range(3):
        for j in range(i):
            one = second(special.betainc, i, j)(a, b, x).item()
            assert one == pytest.approx(second(special.betainc, j, i)(a, b, x).item(), rel=1e-12)


def test_inverses_undo():
    a, b, y = 2.3, 0.7, np.array([1e-3, 0.2, 0.9])
    chain = ft.jacfwd(lambda a: special.gammainc(a, special.gammaincinv(a, y)))(a)
    np.testing.assert_allclose(chain, np.zeros(3), atol=1e-13)
    for i in range(2):
        chain = ft.jacfwd(
            lambda a, b: special.betaincc(a, b, special.betainccinv(a, b, y)), argnums=i
        )(a, b)
        np.testing.assert_allclose(chain, np.zeros(3), atol=1e-13)


def test_very_small_probabilities_are_inverted():
    # SciPy gives NaN.
    y = 1e-250
    x = special.betaincinv(3.0, 3.0, y)
    assert x.item() == pytest.approx((y / 10) ** (1 / 3), rel=1e-12)
    assert special.betainccinv(3.0, 3.0, y).item() == 1.0


def test_ends_of_intervals_have_derivatives():
    assert ft.grad(special.gammainc, argnums=1)(1.0, 0.0).item() == 1.0
    assert second(special.gammainc, 1, 1)(1.0, 0.0).item() == -1.0
    assert second(special.gammainc, 1, 1)(2.0, 0.0).item() == 1.0
    assert ft.grad(special.gammainc)(2.0, np.inf).item() == 0.0
    assert ft.grad(special.gammainc)(0.0, 1.5).item() == -scipy.special.exp1(1.5)
    assert ft.grad(special.betainc, argnums=2)(1.0, 2.0, 0.0).item() == pytest.approx(2.0)
    assert second(special.betainc, 2, 2)(1.0, 1.0, 0.0).item() == 0.0
    assert second(special.betainc, 2, 2)(2.0, 1.0, 0.0).item() == pytest.approx(2.0)
    assert second(special.betainc, 2, 2)(1.0, 2.0, 1.0).item() == pytest.approx(-2.0)
    assert ft.grad(special.gammaincinv)(2.0, 0.0).item() == 0.0


def test_products_with_logarithms_at_zero():
    gradient = ft.grad(special.xlogy, argnums=(0, 1))
    assert [g.item() for g in gradient(0.0, 0.0)] == [-np.inf, 0.0]
    assert [g.item() for g in gradient(0.0, 2.0)] == [np.log(2.0), 0.0]
    # A branch that is not taken leaves no NaN behind.
    chosen = ft.grad(lambda x: np.where(x > 0, special.xlogy(x, x), 0.0).sum())
    assert chosen(ft.numpy.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert second(special.xlogy, 0, 1)(0.0, 2.0).item() == 0.5
    assert special.entr(-1.0).item() == -np.inf
    assert ft.grad(special.entr)(-1.0).item() == 0.0
    assert [g.item() for g in ft.grad(special.kl_div, argnums=(0, 1))(2.0, -1.0)] == [0.0, 0.0]
    assert [g.item() for g in ft.grad(special.rel_entr, argnums=(0, 1))(0.0, 0.5)] == [-np.inf, 0.0]


def test_kl_div_of_what_is_almost_equal():
    # The second order of the series is exact here.
    assert special.kl_div(1.0 + 2.0**-30, 1.0).item() == pytest.approx(2.0**-61, rel=1e-9)


def test_integrals_where_their_slopes_are_quotients_of_zeros():
    assert [ft.grad(special.spence)(1.0).item(), second(special.spence, 0, 0)(1.0).item()] == [
        -1.0,
        0.5,
    ]
    for x in (0.97, 0.99, 1.01, 1.03):
        assert ft.grad(special.spence)(x).item() == pytest.approx(np.log(x) / (1 - x), rel=1e-14)
    assert ft.grad(lambda x: special.sici(x)[0])(0.0).item() == 1.0
    assert ft.grad(special.expn, argnums=1)(0, 2.0).item() == pytest.approx(-0.75 * np.exp(-2.0))


def test_tails_keep_their_digits():
    # The logarithm of the normal distribution: x + slope is the reciprocal's series, DLMF 7.12.
    x = -1e5
    slope = ft.grad(special.log_ndtr)(x).item()
    assert slope == pytest.approx(-x - 1 / x, rel=1e-15)
    curvature = second(special.log_ndtr, 0, 0)(x).item()
    assert curvature == pytest.approx(-1 + 1 / x**2, rel=1e-14)
    assert second(special.log_ndtr, 0, 0)(40.0).item() == 0.0
    # Likewise of erfcx, whose slope is not the difference of two that are almost equal.
    assert ft.grad(special.erfcx)(1e6).item() == pytest.approx(
        -1 / (np.sqrt(np.pi) * 1e12), rel=1e-11
    )
    assert ft.grad(special.log_expit)(800.0).item() == 0.0
    assert ft.grad(special.log_expit)(-800.0).item() == 1.0


def test_no_poles_of_the_reciprocal():
    # At minus n, the derivative of 1 / gamma is (-1)^n n!.
    slopes = ft.vmap(ft.grad(special.rgamma))(np.array([0.0, -1.0, -2.0, -3.0]))
    np.testing.assert_allclose(slopes, [1.0, -1.0, 2.0, -6.0], rtol=1e-14)


def test_scaled_bessel_functions_have_a_kink_at_zero():
    assert ft.grad(special.i0e)(0.0).item() == 0.0
    assert ft.grad(special.i1e)(0.0).item() == 0.5
    assert ft.grad(special.i1)(0.0).item() == 0.5
    assert ft.grad(special.j1)(0.0).item() == 0.5


# Sums of exponentials


def test_logsumexp_of_signed_and_absent_terms():
    a = np.array([1000.0, 1000.0, np.inf])
    value, sign = special.logsumexp(a, b=np.array([1.0, -3.0, 0.0]), return_sign=True)
    assert value.item() == pytest.approx(1000.0 + np.log(2.0))
    assert sign.item() == -1.0
    assert np.isnan(special.logsumexp(a, b=np.array([1.0, -3.0, 0.0])).item())
    gradient = ft.grad(lambda a: special.logsumexp(a, b=np.array([1.0, 3.0, 0.0])))(a)
    np.testing.assert_allclose(gradient, [0.25, 0.75, 0.0])
    assert special.logsumexp(np.array([-np.inf, -np.inf])).item() == -np.inf
    assert special.logsumexp(np.array([np.inf, 0.0]), b=np.ones(2)).item() == np.inf
    assert special.logsumexp(np.zeros((0, 2)), axis=0).tolist() == [-np.inf, -np.inf]
    got = special.logsumexp(np.zeros((2, 3)), axis=(0, 1), keepdims=True, return_sign=True)
    assert [part.shape for part in got] == [(1, 1), (1, 1)]


def test_axes_of_softmax_are_those_of_scipy():
    x = np.arange(6.0).reshape(2, 3)
    for axis in (None, 0, -1, (0, 1)):
        np.testing.assert_allclose(
            special.softmax(x, axis=axis), scipy.special.softmax(x, axis=axis), rtol=1e-14
        )


# Namespaces


def test_ufuncs_of_scipy_are_ours_on_arrays():
    for ufunc, x in ((scipy.special.gammaln, 2.5), (scipy.special.psi, 2.5)):
        assert ft.grad(ufunc)(x).item() == ft.grad(getattr(special, ufunc.__name__))(x).item()
    assert ft.grad(scipy.special.gammainc)(2.0, 1.5).item() < 0


def test_pickles_name_the_module_that_declares():
    assert special.gammainc.module == "functensor.primitives.special.incomplete"
    code = "import sys, pickle; print(pickle.loads(sys.stdin.buffer.read())(3.0).item())"
    staged = ft.make_program(lambda x: special.gammainc(2.0, x))(1.0)
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(staged), capture_output=True, check=True
    )
    assert float(done.stdout) == special.gammainc(2.0, 3.0).item()
    assert pickle.loads(pickle.dumps(special.erfcx)) is registry["erfcx"]


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("z", [-0.3 + 0.2j, -50.5 + 0.3j, -1e6 - 1.25j, -123456.75 + 0j, -3 - 70j])
def test_complex_polygamma_left_of_zero(n, z):
    with mpmath.workdps(40):
        # Far to the left by the formula of reflection, which mpmath's sum of terms is too slow for.
        right = mpmath.psi(n, 1 - mpmath.mpmathify(z))
        turned = mpmath.diff(lambda t: mpmath.cot(mpmath.pi * t), mpmath.mpmathify(z), n)
        wanted = complex((-1) ** n * right - mpmath.pi * turned)
    np.testing.assert_allclose(special.polygamma(n, z), wanted, rtol=2e-12)


def test_complex_polygamma_of_any_number_ends():
    for z in (complex(-1e300, 1), complex(-1e300, 200), complex(np.inf, 1)):
        assert abs(special.polygamma(1, z)) < 1e2
    for z in (complex(-np.inf, 1), complex(np.nan, 0)):
        assert np.isnan(special.polygamma(1, z))
    for n in (-1, 0.5, np.nan):
        assert np.isnan(special.polygamma(n, 2 + 1j))


@pytest.mark.parametrize("name", ["i0e", "i1e", "k0e", "k1e"])
def test_derivatives_of_scaled_bessel_functions_of_halves(name):
    f = getattr(special, name)
    for x in (2.0, 30.0, 100.0):
        found = ft.grad(f)(np.float16(x))
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, ft.grad(f)(x), rtol=5e-3)
