"""Gamma numbers and what is made of them: their laws, their derivatives, their keys."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

import functensor as ft
import functensor.numpy as fnp
from functensor import random
from functensor.primitives.random.rejection import gamma_moment
from functensor.random.gamma_family import loggamma_grad
from functensor.testing import assert_allclose, check_grads

KEY = random.key(2026)
RARE = 1e-6
DRAWS = 20_000
# name: parameters, and the law in SciPy.
LAWS = {
    "gamma": [((a,), stats.gamma(a)) for a in (0.1, 0.7, 1.0, 1.4, 5.0, 3e4)],
    "beta": [((a, b), stats.beta(a, b)) for a, b in ((0.3, 0.4), (1.0, 1.0), (2.0, 30.0))],
    "chisquare": [((df,), stats.chi2(df)) for df in (0.5, 1.0, 8.0)],
    "student_t": [((df,), stats.t(df)) for df in (0.6, 3.0, 40.0)],
    "f": [((d, e), stats.f(d, e)) for d, e in ((1.0, 3.0), (6.0, 2.5))],
    "pareto": [((b,), stats.pareto(b)) for b in (0.5, 3.0)],
    "rayleigh": [((s,), stats.rayleigh(scale=s)) for s in (0.5, 2.0)],
    "weibull_min": [((s, c), stats.weibull_min(c, scale=s)) for s, c in ((1.0, 0.7), (2.0, 3.0))],
    "lognormal": [((s,), stats.lognorm(s)) for s in (0.2, 1.5)],
    "triangular": [
        ((a, m, b), stats.triang((m - a) / (b - a), a, b - a))
        for a, m, b in ((0.0, 1.0, 4.0), (-1.0, -1.0, 2.0), (0.0, 1.0, 1.0))
    ],
}
CASES = [(name, *case) for name, cases in LAWS.items() for case in cases]
IDS = [f"{name}{parameters}" for name, parameters, _ in CASES]
# Methods by which a number is the quantile of one uniform or normal number, or moves as such a one.
BY_QUANTILE = ["gamma", "chisquare", "pareto", "rayleigh", "weibull_min", "lognormal", "triangular"]

# A triangle whose top is at an end moves to one side only.
MOVING = [
    (name, parameters, law)
    for name, parameters, law in CASES
    if name in BY_QUANTILE and not (name == "triangular" and parameters[1] in parameters[::2])
]


def host(x):
    return np.asarray(x)


@pytest.mark.parametrize(("name", "parameters", "law"), CASES, ids=IDS)
def test_law(name, parameters, law):
    draw = getattr(random, name)
    for dtype in ("float32", "float64"):
        x = draw(KEY, *parameters, (DRAWS,), dtype)
        assert (x.shape, x.dtype) == ((DRAWS,), dtype)
        x = host(x).astype(float)
        if dtype == "float32" and 0 <= law.ppf(0.01) < 1e-3:
            # Numbers that single precision rounds to 0 or 1 are left to double precision.
            x = x[(x > 0) & (x < 1)] if name == "beta" else x[x > 0]
            assert len(x) > 0.9 * DRAWS
            continue
        assert stats.kstest(x, law.cdf).pvalue > RARE


@pytest.mark.parametrize("name", LAWS)
def test_shapes_defaults_and_keys(name):
    draw, parameters = getattr(random, name), LAWS[name][0][0]
    assert draw(KEY, *parameters).shape == ()
    assert draw(KEY, *parameters).dtype == np.float64
    assert draw(KEY, *parameters, 3).shape == (3,)
    assert draw(KEY, *parameters, (2, 0)).shape == (2, 0)
    wide = [np.full((2, 1), p) for p in parameters]
    assert draw(KEY, *wide).shape == (2, 1)
    assert draw(KEY, *([p, p] for p in parameters)).shape == (2,)
    drawn = host(draw(KEY, *wide, (2, 3)))
    assert len(np.unique(drawn)) == 6
    with pytest.raises(ValueError, match="do not broadcast"):
        draw(KEY, *wide, (3,))
    with pytest.raises(TypeError, match=f"{name} draws float16"):
        draw(KEY, *parameters, (), int)
    for keys in (random.split(KEY, 3), random.split(KEY, 60)):
        got = ft.vmap(lambda k: draw(k, *parameters, (2, 3)))(keys)
        np.testing.assert_array_equal(got, [host(draw(k, *parameters, (2, 3))) for k in keys])
    every = ft.vmap(lambda k, *p: draw(k, *p, (2,)))(keys, *(np.full(60, p) for p in parameters))
    np.testing.assert_array_equal(every, [host(draw(k, *parameters, (2,))) for k in keys])
    program = ft.make_program(lambda k, *p: draw(k, *p, (4,)))(KEY, *parameters)
    np.testing.assert_array_equal(program(keys[1], *parameters), draw(keys[1], *parameters, (4,)))


def test_numbers_do_not_depend_on_their_neighbours():
    alone = host(random.gamma(KEY, 0.5, (40_000,)))
    shapes = np.full(40_000, 0.5)
    shapes[1::3] = 7.0
    mixed = host(random.gamma(KEY, shapes))
    np.testing.assert_array_equal(mixed[::3], alone[::3])
    np.testing.assert_array_equal(host(random.gamma(KEY, 0.5, (100,))), alone[:100])


def test_small_parameters_do_not_underflow():
    y = host(random.loggamma(KEY, 1e-3, (DRAWS,)))
    assert np.isfinite(y).all()
    assert stats.kstest(y, stats.loggamma(1e-3).cdf).pvalue > RARE
    assert (host(random.dirichlet(KEY, np.full(3, 1e-4), (100,))).sum(axis=-1) == 1).all()
    assert random.gamma(KEY, 1e-3, (5,), "float32").dtype == np.float32


def test_what_is_no_parameter_gives_nan():
    x = host(random.gamma(KEY, np.array([1.0, 0.0, -1.0, np.nan, np.inf, 2.0])))
    assert np.isnan(x).tolist() == [False, True, True, True, True, False]


def test_dirichlet():
    alpha = np.array([0.5, 2.0, 4.0])
    x = host(random.dirichlet(KEY, alpha, (DRAWS,)))
    np.testing.assert_allclose(x.sum(axis=-1), 1, rtol=1e-14)
    for i in range(3):
        law = stats.beta(alpha[i], alpha.sum() - alpha[i])
        assert stats.kstest(x[:, i], law.cdf).pvalue > RARE
    assert random.dirichlet(KEY, np.ones((2, 3))).shape == (2, 3)
    assert random.dirichlet(KEY, np.ones(3), (4,), "float32").dtype == np.float32
    with pytest.raises(ValueError, match="alpha is a vector"):
        random.dirichlet(KEY, 1.0)
    with pytest.raises(ValueError, match="do not broadcast"):
        random.dirichlet(KEY, np.ones((2, 3)), (3,))


# -- derivatives


@pytest.mark.parametrize(
    ("name", "parameters", "law"), MOVING, ids=[f"{name}{values}" for name, values, _ in MOVING]
)
def test_numbers_move_as_their_quantiles(name, parameters, law):
    """The derivative by each parameter is that of the quantile at a fixed probability."""
    draw = getattr(random, name)
    frozen = LAWS[name][0][1].dist

    def quantile(p, *parameters):
        if name == "rayleigh":
            return frozen.ppf(p, scale=parameters[0])
        if name == "weibull_min":
            return frozen.ppf(p, parameters[1], scale=parameters[0])
        if name == "triangular":
            a, m, b = parameters
            return frozen.ppf(p, (m - a) / (b - a), a, b - a)
        return frozen.ppf(p, *parameters)

    x = host(draw(KEY, *parameters, (50,)))
    p = law.cdf(x)
    keep = (p > 1e-3) & (p < 0.999)
    every = tuple(range(len(parameters)))
    slopes = ft.jacfwd(lambda *ps: draw(KEY, *ps, (50,)), every)(*parameters)
    for i, slope in enumerate(slopes):
        step = 1e-4 * max(parameters[i], 0.1)
        above, below = (
            quantile(p, *(v + s * (i == j) for j, v in enumerate(parameters)))
            for s in (step, -step)
        )
        wanted = (above - below) / (2 * step)
        np.testing.assert_allclose(host(slope)[keep], wanted[keep], rtol=2e-5, atol=1e-8)


def test_slopes_of_gamma_numbers_are_precise():
    mp = pytest.importorskip("mpmath")
    with mp.workdps(40):
        for a in (1e-6, 0.05, 0.9, 1.5, 1.6, 10.0, 1e4):
            for p in (1e-6, 0.2, 0.5, 0.9, 1 - 1e-6):
                x = special.gammaincinv(a, p)
                y = np.log(x) if x > 1e-200 else (np.log(p) + special.gammaln(a + 1)) / a
                point, step = mp.e ** mp.mpf(y), mp.mpf(a) * mp.mpf(10) ** -18
                ends = (0, point) if point < a else (point, mp.inf)
                high, low = (
                    mp.gammainc(a + s, *ends, regularized=True) for s in (step, -step)
                )
                height = point ** mp.mpf(a) * mp.exp(-point) / mp.gamma(a)
                wanted = (high - low) / (2 * step) / height * (-1 if point < a else 1)
                assert float(loggamma_grad(a, y)) == pytest.approx(float(wanted), rel=3e-13)


def test_slopes_have_derivatives_of_their_own():
    a = np.array([0.3, 1.2, 2.0, 9.0, 4.0, 0.4])
    y = np.array([-2.0, 0.1, 0.5, 2.0, 1.7, 0.9])
    check_grads(loggamma_grad, (a, y), order=3, rtol=1e-6)
    with np.errstate(all="raise"):
        assert np.isfinite(host(gamma_moment.bind((a, y + 600), {"n": 1}))).all()


@pytest.mark.parametrize("a", [0.4, 1.0, 2.5, 30.0])
def test_the_second_derivative_is_that_of_the_quantile(a):
    def draw(a):
        return random.gamma(KEY, a, (20,))

    x = host(draw(a))
    p = special.gammainc(a, x)
    h = 1e-3 * a
    ends = [special.gammaincinv(a + s, p) for s in (h, 0, -h)]
    wanted = (ends[0] - 2 * ends[1] + ends[2]) / h**2
    got = ft.jacfwd(ft.jacfwd(draw))(a)
    np.testing.assert_allclose(host(got), wanted, rtol=1e-3, atol=1e-5)
    reverse = ft.grad(ft.grad(lambda a: fnp.sum(draw(a))))(a)
    assert float(reverse) == pytest.approx(host(got).sum(), rel=1e-10)


def test_expectations_have_the_right_derivatives():
    """Of numbers that are made of two, the derivative is right on average."""
    many = (100_000,)
    cases = [
        # E[beta] = a / (a + b)
        (lambda a: random.beta(KEY, a, 3.0, many).mean(), 2.0, 3 / 25),
        (lambda b: random.beta(KEY, 2.0, b, many).mean(), 3.0, -2 / 25),
        # E[x**2] = df / (df - 2) for Student's t
        (lambda df: (random.student_t(KEY, df, many) ** 2).mean(), 9.0, -2 / 49),
        # E[x_0] = alpha_0 / sum(alpha)
        (lambda a: random.dirichlet(KEY, [a, 1.0, 2.0], many)[:, 0].mean(), 2.0, 3 / 25),
        (lambda d: random.f(KEY, 4.0, d, many).mean(), 20.0, -2 / 18**2),
    ]
    for mean, at, wanted in cases:
        assert float(ft.grad(mean)(at)) == pytest.approx(wanted, rel=0.05)


def test_scipy_is_not_needed():
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "import functensor as ft\nfrom functensor import random\n"
        "k = random.key(0)\n"
        "g = ft.grad(ft.grad(lambda a: random.gamma(k, a)))(1.5)\n"
        "b = ft.grad(lambda a: random.beta(k, a, 2.0) + random.student_t(k, a))(1.5)\n"
        "d = random.dirichlet(k, [1.0, 2.0]), random.poisson(k, 20.0), random.binomial(k, 9, 0.5)\n"
        "print(float(g), float(b), d[0].tolist(), d[1].item(), d[2].item())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == 6


def test_both_modes_and_batches_agree():
    a = np.array([0.3, 1.0, 4.0])
    forward = ft.jacfwd(lambda a: random.gamma(KEY, a))(a)
    assert_allclose(ft.jacrev(lambda a: random.gamma(KEY, a))(a), forward)
    slopes = ft.vmap(ft.grad(lambda a, k: random.gamma(k, a)), (0, 0))(a, random.split(KEY, 3))
    loop = [ft.grad(lambda a, k: random.gamma(k, a))(x, k) for x, k in zip(a, random.split(KEY, 3))]
    assert_allclose(slopes, np.array(loop))
    single = ft.grad(lambda a: random.gamma(KEY, a, (3,), "float32").sum())(np.float32(2.0))
    assert single.dtype == np.float32
