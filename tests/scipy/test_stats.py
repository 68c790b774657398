"""SciPy's distributions at the edges: supports, parameters, tails, dtypes, errors, documents."""

import copy
import doctest
import inspect
import pickle

import numpy as np
import pytest
import scipy.stats

import functensor as ft
from functensor.primitives.core.errors import ShapeError
from functensor.scipy import stats
from functensor.scipy.stats.distribution import Law
from functensor.testing import check_grads

LAWS = [name for name in stats.__all__ if isinstance(getattr(stats, name), Law)]
CONTINUOUS = [name for name in LAWS if hasattr(getattr(stats, name), "pdf")]
DISCRETE = [name for name in LAWS if name not in CONTINUOUS]
DISTRIBUTIONS = [name for name in stats.__all__ if not inspect.isfunction(getattr(stats, name))]
INF = np.inf
PARAMETERS = {
    "lognorm": [(0.5,), (2.0,)],
    "truncnorm": [(-1.0, 2.0), (-INF, 1.0), (0.5, INF), (-8.0, -3.0), (5.0, 9.0)],
    "pareto": [(0.5,), (3.0,)],
    "weibull_min": [(0.5,), (1.0,), (3.0,)],
    "vonmises": [(0.0,), (0.5,)],
    "gamma": [(0.3,), (1.0,), (4.0,)],
    "chi2": [(0.5,), (2.0,), (7.0,)],
    "invgamma": [(1.0,), (3.0,)],
    "beta": [(0.5, 0.5), (1.0, 1.0), (1.0, 3.0), (4.0, 2.0)],
    "t": [(0.3,), (1.0,), (5.0,), (200.0,), (1e6,)],
    "bernoulli": [(0.3,), (0.0,), (1.0,)],
    "binom": [(10, 0.3), (10, 0.0), (10, 1.0), (0, 0.5)],
    "nbinom": [(4, 0.3), (2.5, 1.0), (0.5, 0.9)],
    "geom": [(0.3,), (1.0,)],
    "poisson": [(0.0,), (0.5,), (8.0,)],
}
POINTS = np.r_[-800, -50.0, -10, -3, -1, -0.5, -0.1, 0, 1e-3, 0.1, 0.5, 0.9, 1, 1.1, 2, 7, 50, 800]
LEVELS = np.r_[-0.1, 0, 1e-12, 1e-3, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.999, 1, 1.2, np.nan]
COUNTS = np.r_[-1, -0.5, 0, 0.5, 1, 2, 3, 5, 7, 9, 10, 11, 20, 50, -INF, np.nan]
# SciPy rounds to 0 here, or to 1 before it takes the logarithm, and we do not.
OURS_IS_FINER = {
    ("halfnorm", "logsf"),
    ("laplace", "logpdf"),
    ("laplace", "logcdf"),
    ("laplace", "logsf"),
    ("gumbel_r", "logsf"),
    ("gumbel_l", "logcdf"),
    ("geom", "logcdf"),
    ("poisson", "logcdf"),
    ("truncnorm", "ppf"),
    ("truncnorm", "isf"),
}


def cases(names):
    return [(name, p) for name in names for p in PARAMETERS.get(name, [()])]


def assert_like_scipy(name, kind, at, *arguments):
    got = np.asarray(getattr(getattr(stats, name), kind)(at, *arguments))
    name = "gumbel_r" if name == "gumbel" else name
    with np.errstate(all="ignore"):
        wanted = getattr(getattr(scipy.stats, name), kind)(at, *arguments)
    if (name, kind) in OURS_IS_FINER:
        coarse = np.abs(at - 0.5) >= 0.49 if kind in ("ppf", "isf") else wanted > -1e-5
        compared = np.isfinite(wanted) & ~coarse
        got, wanted = got[compared], wanted[compared]
    # A logarithm of nearly 1 is as good as what it is the sum of.
    atol = 3e-16 if kind == "logpmf" else 1e-300
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=atol, err_msg=kind)


@pytest.mark.parametrize(("name", "parameters"), cases(CONTINUOUS), ids=str)
def test_continuous_at_the_edges(name, parameters):
    for loc, scale in ((0, 1), (0.5, 2.0)):
        for kind in getattr(stats, name).methods:
            at = LEVELS if kind in ("ppf", "isf") else np.r_[POINTS, np.nan]
            assert_like_scipy(name, kind, at, *parameters, loc, scale)


@pytest.mark.parametrize(("name", "parameters"), cases(DISCRETE), ids=str)
def test_discrete_at_the_edges(name, parameters):
    for loc in (0, 2):
        for kind in getattr(stats, name).methods:
            assert_like_scipy(name, kind, COUNTS, *parameters, loc)


def test_infinite_values_have_no_density():
    for name, parameters in cases(CONTINUOUS):
        for x in (INF, -INF):
            assert getattr(stats, name).logpdf(x, *parameters) == -INF
            assert getattr(stats, name).pdf(x, *parameters) == 0


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("norm", (0.0, -1.0)),
        ("norm", (0.0, 0.0)),
        ("gamma", (-1.0,)),
        ("gamma", (np.nan,)),
        ("beta", (1.0, 0.0)),
        ("truncnorm", (1.0, 1.0)),
        ("truncnorm", (2.0, 1.0)),
        ("t", (0.0,)),
        ("bernoulli", (1.2,)),
        ("binom", (2.5, 0.5)),
        ("geom", (0.0,)),
        ("poisson", (-1.0,)),
    ],
)
def test_what_is_no_parameter_gives_nan(name, bad):
    for kind in getattr(stats, name).methods:
        call = getattr(getattr(stats, name), kind)
        assert np.isnan(call(0.5 if kind in ("ppf", "isf") else 1.0, *bad))
        arrays = [np.array([p, 1.0]) for p in bad]
        assert np.isnan(np.asarray(call(np.full(2, 0.5), *arrays)))[0]


@pytest.mark.parametrize("name", LAWS)
def test_no_derivative_is_nan_in_or_outside_of_the_support(name):
    law = getattr(stats, name)
    parameters = PARAMETERS.get(name, [()])[-1]
    parameters = tuple(float(p) for p in parameters)
    for kind in law.methods:
        call = getattr(law, kind)
        places = (-0.5, 0.0, 0.3, 1.0, 1.5) if kind in ("ppf", "isf") else (-1e3, -5, 0, 1, 3, 1e3)
        for x in places:
            slopes = ft.grad(lambda *a, f=call: f(*a), tuple(range(1 + len(parameters))))
            assert not np.isnan(np.asarray(slopes(float(x), *parameters))).any(), (kind, x)
    if name in CONTINUOUS and name not in ("vonmises", "t"):
        low = float(law.ppf(0.0, *parameters))
        if np.isfinite(low):
            every = tuple(range(3 + len(parameters)))
            slopes = ft.grad(law.logpdf, every)(low - 1, *parameters, 0.0, 1.0)
            assert np.asarray(slopes).tolist() == [0.0] * len(every)


def test_tails_are_precise():
    mp = pytest.importorskip("mpmath")
    with mp.workdps(40):
        for x, kappa in ((-3, 4), (-1, 45), (-0.5, 45), (2.0, 0.5), (-1, 1e-9)):
            height = 2 * mp.pi * mp.besseli(0, kappa)
            density = [-mp.pi, -1, x] if x > -1 else [-mp.pi, x]
            mass = mp.quad(lambda t, k=kappa: mp.exp(k * mp.cos(t)), density) / height
            assert float(stats.vonmises.cdf(x, kappa)) == pytest.approx(float(mass), rel=2e-13)
        for a, q in ((0.5, 1e-300), (5.0, 1e-12), (-3.0, 1e-30)):
            z = mp.mpf(float(stats.truncnorm.isf(q, a, INF)))
            tail = mp.erfc(z / mp.sqrt(2)) / mp.erfc(mp.mpf(a) / mp.sqrt(2))
            assert float(mp.log(tail)) == pytest.approx(np.log(q), rel=1e-13)
        for a, b, z in ((-3.0, -2.8, -3 + 2.0**-40), (-0.68, -0.67, -0.6799), (0.1, 0.9, 0.10001)):
            first, point, last = (mp.erfc(-mp.mpf(end) / mp.sqrt(2)) for end in (a, z, b))
            share = float((point - first) / (last - first))
            assert float(stats.truncnorm.cdf(z, a, b)) == pytest.approx(share, rel=1e-13)
        for df in (0.3, 3.0, 41.0, 1e4, 1e6, 1e12):
            half = mp.mpf(df) / 2
            height = mp.loggamma(half + 0.5) - mp.loggamma(half) - mp.log(df * mp.pi) / 2
            wanted = height - (half + 0.5) * mp.log1p(mp.mpf(4) / df)
            assert float(stats.t.logpdf(2.0, df)) == pytest.approx(float(wanted), rel=3e-15)
        assert float(stats.t.ppf(1e-300, 1.0)) == pytest.approx(-1 / (np.pi * 1e-300), rel=1e-12)
    assert float(stats.gumbel_r.logsf(800.0)) == -800
    assert float(stats.t.ppf(0.1, INF)) == pytest.approx(scipy.stats.norm.ppf(0.1), rel=1e-12)
    assert float(stats.norm.logcdf(-50.0)) == pytest.approx(scipy.stats.norm.logcdf(-50), rel=1e-13)


def test_students_t_is_smooth_in_the_middle():
    df = np.array([0.3, 2.0, 30.0, 1e3])
    for x in (0.0, 1e-9, 0.05, 0.2, 0.4, 1.0):
        check_grads(stats.t.cdf, (np.full(4, x), df), order=2, rtol=1e-5)
    check_grads(stats.t.ppf, (np.array([0.01, 0.3, 0.5, 0.8]), df), order=2, rtol=1e-5)


@pytest.mark.parametrize("name", LAWS)
def test_single_precision_stays(name):
    law = getattr(stats, name)
    parameters = PARAMETERS.get(name, [()])[-1]
    single = [np.float32(p) for p in parameters]
    for kind in law.methods:
        call = getattr(law, kind)
        assert call(np.float32(0.5), *parameters).dtype == np.float32
        assert call(np.full(2, 0.5, "f"), *single, np.float32(0)).dtype == np.float32
        assert call(0, *parameters).dtype == np.float64
        if single:
            assert call(np.array([0, 1]), *single).dtype == np.float32


def test_arguments_go_by_name_and_broadcast():
    assert stats.norm.logpdf(1.0, scale=2.0) == stats.norm.logpdf(1.0, 0.0, 2.0)
    assert stats.gamma.pdf(1.0, a=2.0, scale=3.0) == stats.gamma.pdf(1.0, 2.0, 0.0, 3.0)
    assert stats.beta.pdf(np.full((3, 1), 0.5), np.array([1.0, 2.0]), 2).shape == (3, 2)
    assert stats.binom.pmf([1, 2], n=3, p=0.5).tolist() == pytest.approx([0.375, 0.375])
    assert str(inspect.signature(stats.beta.logpdf)) == "(x, a, b, loc=0.0, scale=1.0)"
    assert str(inspect.signature(stats.poisson.pmf)) == "(k, mu, loc=0.0)"
    with pytest.raises(TypeError, match="lacks its argument 'a'"):
        stats.gamma.pdf(0.5)
    with pytest.raises(TypeError, match="has no argument 'b'"):
        stats.gamma.pdf(0.5, 1.0, b=3)
    with pytest.raises(TypeError, match=r"argument 3, 3\.0, is one too many"):
        stats.norm.pdf(0.5, 1.0, 2.0, 3.0)
    with pytest.raises(AttributeError, match="vonmises has no ppf here; it has pdf, logpdf, cdf"):
        stats.vonmises.ppf(0.5, 1.0)
    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        stats.norm.fit([1.0])
    with pytest.raises(ShapeError, match="do not broadcast"):
        stats.norm.logpdf(np.zeros(3), np.zeros(2))


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0, 2.0])
def test_quantiles_of_bernoulli_are_scipys(p):
    levels = np.r_[LEVELS, 0.3, 0.7, 0.30001, 0.70001]
    for kind in ("ppf", "isf"):
        assert_like_scipy("bernoulli", kind, levels, p)
        assert_like_scipy("bernoulli", kind, levels, p, 2)


def test_entropies():
    rates = np.r_[0.0, 1e-3, 0.999, 1.0, 30.0, 59.9, 60.1, 100.0, -1.0]
    # SciPy's sums end where terms are 1e-10.
    with np.errstate(all="ignore"):
        wanted = scipy.stats.poisson.entropy(rates)
    np.testing.assert_allclose(stats.poisson.entropy(rates), wanted, rtol=1e-10, atol=1e-12)
    # Computed with 60 digits by the definition.
    exact = [3.2612680129376856, 3.7206860722602589, 4.4144622121795826]
    np.testing.assert_allclose(stats.poisson.entropy([40.0, 100.0, 400.0]), exact, rtol=2e-14)
    np.testing.assert_allclose(stats.bernoulli.entropy([0.0, 0.3, 1.0]), [0, 0.6108643020548935, 0])
    check_grads(stats.poisson.entropy, (np.r_[0.5, 3.0, 59.0, 70.0],), order=2)
    assert np.isinf(ft.grad(stats.poisson.entropy)(0.0))
    assert stats.poisson.entropy(np.float32(3)).dtype == np.float32
    with pytest.raises(AttributeError, match="binom has no entropy here"):
        stats.binom.entropy(3, 0.5)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_documents_and_copies(name):
    law = getattr(stats, name)
    for copied in (copy.deepcopy(law), pickle.loads(pickle.dumps(law))):
        assert copied is law
    assert repr(law) == f"<functensor.scipy.stats.{'gumbel_r' if name == 'gumbel' else name}>"
    assert ">>>" in inspect.getdoc(law)
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(law), {}, name, None, None)
    assert doctest.DocTestRunner().run(test).failed == 0
    kinds = law.methods if isinstance(law, Law) else ("logpdf", "pdf", "logpmf", "pmf")
    for kind in kinds:
        if hasattr(law, kind):
            text = inspect.getdoc(getattr(law, kind))
            assert text.startswith("Returns the ")
            assert "Args:" in text
            assert "Returns:" in text


# -- vectors

COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 3.0]])
MEAN = np.array([0.3, -1.0, 2.0])


@pytest.mark.parametrize(
    "arguments",
    [
        (np.ones((4, 5, 3)), MEAN, COVARIANCE),
        (np.arange(3.0), MEAN, COVARIANCE),
        (np.ones((4, 3)), None, COVARIANCE),
        (np.ones((4, 3)), MEAN, 2.5),
        (np.ones((4, 3)), MEAN, np.array([1.0, 2.0, 3.0])),
        (np.arange(4.0),),
        (np.arange(4.0), 0.5, 2.0),
        (np.arange(4.0), [1.0], [[2.0]]),
        (1.5, 0.5, 2.0),
    ],
)
def test_multivariate_normal(arguments):
    for kind in ("logpdf", "pdf"):
        got = getattr(stats.multivariate_normal, kind)(*arguments)
        wanted = getattr(scipy.stats.multivariate_normal, kind)(*arguments)
        assert got.shape == np.shape(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_multivariate_normal_over_batches_and_without_rank():
    x, covs = np.ones((2, 3)), np.stack([COVARIANCE, 2 * COVARIANCE])
    wanted = [scipy.stats.multivariate_normal.logpdf(x[i], MEAN, covs[i]) for i in range(2)]
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, MEAN, covs), wanted, rtol=1e-12)
    mapped = ft.vmap(stats.multivariate_normal.logpdf, (0, None, 0))(x, MEAN, covs)
    np.testing.assert_allclose(mapped, wanted, rtol=1e-12)
    flat = np.outer([1, 2, 3.0], [1, 2, 3]) + np.outer([0, 1, -1.0], [0, 1, -1])
    points = np.array([[1, 2, 3.0], [0, 1, -1], [1, 3, 2], [1, 0, 0]])
    got = stats.multivariate_normal.logpdf(points, np.zeros(3), flat, allow_singular=True)
    wanted = scipy.stats.multivariate_normal.logpdf(points, np.zeros(3), flat, allow_singular=True)
    np.testing.assert_allclose(got, wanted, rtol=1e-10)
    assert got[3] == -INF
    check_grads(
        lambda x, m, c: stats.multivariate_normal.logpdf(x, m, (c + c.T) / 2, True),
        (x, MEAN, COVARIANCE),
    )
    with pytest.raises(np.linalg.LinAlgError):
        stats.multivariate_normal.logpdf(points, np.zeros(3), -flat)
    with pytest.raises(ShapeError, match=r"normal: x of shape \(2, 3\), mean of shape \(2,\)"):
        stats.multivariate_normal.logpdf(x, np.zeros(2), np.eye(2))


def test_dirichlet():
    alpha = np.array([0.5, 1.0, 3.0])
    x = np.random.default_rng(0).dirichlet(alpha, size=4).T
    wanted = scipy.stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), wanted, rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x[:2], alpha), wanted, rtol=1e-12)
    assert stats.dirichlet.logpdf([0.0, 0.5, 0.5], [2.0, 1.0, 1.0]) == -INF
    beside = np.array([0.5, 0.6, 0.1])
    assert stats.dirichlet.pdf(beside, alpha) == 0
    slopes = ft.grad(stats.dirichlet.logpdf, (0, 1))(beside, alpha)
    assert np.asarray(slopes).tolist() == [[0.0] * 3] * 2
    assert np.isnan(stats.dirichlet.pdf(x[:, 0], [1.0, -1.0, 1.0]))
    assert stats.dirichlet.pdf(x.astype("f"), alpha.astype("f")).dtype == np.float32
    with pytest.raises(ShapeError, match=r"dirichlet: x of shape \(5,\), alpha of shape \(3,\)"):
        stats.dirichlet.pdf(np.full(5, 0.2), alpha)


def test_multinomial():
    p = np.array([0.2, 0.5, 0.3])
    x = np.random.default_rng(0).multinomial(8, p, size=5)
    got = stats.multinomial.logpmf(x, 8, p)
    np.testing.assert_allclose(got, scipy.stats.multinomial.logpmf(x, 8, p), rtol=1e-12)
    assert stats.multinomial.logpmf([1, 2, 2], 8, p) == -INF
    assert stats.multinomial.pmf([1, 4, 3], 8, [0.0, 0.5, 0.5]) == 0
    assert stats.multinomial.pmf([[1, 1]], [2, 3], [0.5, 0.5]).tolist() == [0.5, 0]
    g = ft.grad(lambda p: stats.multinomial.logpmf(np.array([0, 4, 4]), 8, p))(
        np.array([0.0, 0.5, 0.5])
    )
    assert g.tolist() == [0, 8, 8]
    assert np.isnan(stats.multinomial.pmf([1, 1], 2, [-0.5, 1.5]))
    assert np.isnan(stats.multinomial.pmf([1, 1], 2.5, [0.5, 0.5]))
    with pytest.raises(ShapeError, match=r"multinomial: x of shape \(2,\), p of shape \(3,\)"):
        stats.multinomial.pmf([1, 1], 2, p)


def test_a_model_of_several_distributions():
    """A log-posterior with gradients in all parameters, eager, mapped and staged."""
    data = np.random.default_rng(1).gamma(2.0, 1.5, 30)

    def posterior(shape, scale):
        prior = stats.lognorm.logpdf(shape, 1.0) + stats.halfnorm.logpdf(scale, scale=3.0)
        return prior + stats.gamma.logpdf(data, shape, scale=scale).sum()

    check_grads(posterior, (1.8, 1.3), order=2)
    wanted = scipy.stats.gamma.logpdf(data, 1.8, scale=1.3).sum() + (
        scipy.stats.lognorm.logpdf(1.8, 1.0) + scipy.stats.halfnorm.logpdf(1.3, scale=3.0)
    )
    assert float(posterior(1.8, 1.3)) == pytest.approx(wanted, rel=1e-12)
    shapes = np.array([1.0, 1.8])
    mapped = ft.vmap(ft.grad(posterior), (0, None))(shapes, 1.3)
    loop = [float(ft.grad(posterior)(s, 1.3)) for s in shapes]
    np.testing.assert_allclose(mapped, loop, rtol=1e-12)
    program = ft.make_program(posterior)(1.0, 1.0)
    assert float(program(1.8, 1.3)) == pytest.approx(wanted, rel=1e-12)
