"""Results of statistics by name, ties, NaN, and probabilities at the ends of their domains."""

import copy
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.signal
import scipy.special
import scipy.stats

import functensor as ft
from functensor.scipy import fft, interpolate, signal, special, stats
from functensor.scipy.spatial import distance
from functensor.testing import check_grads

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(9, 2)), RNG.normal(size=(9, 2)) + 0.3
INF = np.inf

RESULTS = {
    "ttest_1samp": lambda s: s.ttest_1samp(X, 0.2, alternative="less"),
    "ttest_ind": lambda s: s.ttest_ind(X, Y[:6], equal_var=False, alternative="greater"),
    "ttest_rel": lambda s: s.ttest_rel(X, Y),
    "pearsonr": lambda s: s.pearsonr(X, Y, alternative="less"),
    "pearsonr of three": lambda s: s.pearsonr(X[:3, 0], Y[:3, 0]),
    "linregress": lambda s: s.linregress(X[:, 0], Y[:, 0]),
    "spearmanr": lambda s: s.spearmanr(X[:, 0], Y[:, 0]),
    "f_oneway": lambda s: s.f_oneway(X, Y),
    "chisquare": lambda s: s.chisquare(np.exp(X)),
    "describe": lambda s: s.describe(X),
    "normaltest": lambda s: s.normaltest(X),
}
FIELDS = (
    "statistic", "pvalue", "df", "correlation", "slope", "intercept", "rvalue", "stderr",
    "intercept_stderr", "nobs", "mean", "variance", "skewness", "kurtosis",
)  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_scipys_names(name):
    mine, theirs = RESULTS[name](stats), RESULTS[name](scipy.stats)
    assert len(mine) == len(theirs)
    found = [field for field in FIELDS if hasattr(theirs, field)]
    assert found
    for field in found:
        np.testing.assert_allclose(getattr(mine, field), getattr(theirs, field), 1e-9, 1e-12)
    if hasattr(theirs, "confidence_interval"):
        for part, wanted in zip(mine.confidence_interval(0.9), theirs.confidence_interval(0.9)):
            np.testing.assert_allclose(part, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_trees_and_can_be_copied(name):
    result = RESULTS[name](stats)
    leaves, tree = ft.tree.flatten(result)
    again = [ft.tree.unflatten(tree, leaves), pickle.loads(pickle.dumps(result))]
    again.append(copy.deepcopy(result))
    for other in again:
        assert type(other) is type(result)
        assert [*map(str, ft.tree.flatten(other)[0])] == [*map(str, leaves)]
    assert type(result).__name__ in repr(result)


def test_results_come_out_of_jit_and_vmap():
    staged = ft.jit(lambda x: stats.ttest_1samp(x, 0.0))(X)
    eager = stats.ttest_1samp(X, 0.0)
    np.testing.assert_allclose(staged.df, eager.df)
    rows = ft.vmap(lambda x: stats.ttest_1samp(x, 0.0), in_axes=1)(X)
    np.testing.assert_allclose(rows.pvalue, eager.pvalue)
    np.testing.assert_allclose(rows.confidence_interval().low, eager.confidence_interval().low)


def test_curves_are_trees():
    made = ft.jit(lambda y: interpolate.CubicSpline(np.arange(4.0), y))(X[:4, 0])
    wanted = scipy.interpolate.CubicSpline(np.arange(4.0), X[:4, 0])
    np.testing.assert_allclose(made(1.3), wanted(1.3))
    np.testing.assert_allclose(ft.jit(lambda curve, x: curve(x, 1))(made, 0.4), wanted(0.4, 1))
    assert ft.grad(lambda c: c(1.3))(made).c.shape == (4, 3)


TIES = np.array([[3.0, 1, 3, 2], [1, 1, 1, 1], [4, 2, np.nan, 2]])


# Samples at the ends of what there is, and functions of one and of two rows of them.
ENDS = {
    "empty": [],
    "one": [2.0],
    "two": [1.0, 3.0],
    "three": [1.0, 3.0, 2.0],
    "constant": [2.0] * 9,
    "symmetric": [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0],
    "infinite": [1.0, 2.0, np.inf, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    "nan": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    "huge": [1e300, 2e300, 3e300, 1.5e300] * 3,
    "tiny": [1e-300, 2e-300, 3e-300, 5e-300] * 3,
}
OF_ONE = [
    "gmean", "hmean", "skew", "kurtosis", "variation", "sem", "zscore", "iqr", "entropy",
    "median_abs_deviation", "skewtest", "kurtosistest", "normaltest", "jarque_bera", "moment",
    "kstat", "kstatvar", "gstd", "differential_entropy", "circmean", "circvar", "circstd",
]  # fmt: skip
OF_TWO = ["pearsonr", "spearmanr", "linregress", "ttest_ind", "ttest_rel", "f_oneway", "bartlett"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in OF_ONE + OF_TWO if hasattr(stats, n)])
def test_statistics_of_samples_at_the_ends(name):
    for kind, values in ENDS.items():
        rows = (np.array(values),) * (1 if name in OF_ONE else 2)
        rows = rows if name in OF_ONE else (rows[0], rows[0][::-1])
        try:
            wanted = getattr(scipy.stats, name)(*rows)
        except ValueError:
            continue
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        try:
            got = getattr(stats, name)(*rows)
        except ValueError:
            # Too few samples are an error here, which says so; there they are NaN.
            got, wanted = (np.full(np.shape(x), np.nan) for x in wanted), wanted
        for mine, theirs in zip((got,) if isinstance(got, ft.Array) else got, wanted):
            theirs = np.asarray(theirs, float)
            fixed = np.isfinite(theirs)
            mine = np.broadcast_to(np.asarray(mine), theirs.shape)
            # Of angles that are all the same, the spread is the root of a rounding error.
            atol = 2e-8 if name == "circstd" else 1e-12
            np.testing.assert_allclose(mine[fixed], theirs[fixed], 1e-8, atol, err_msg=kind)
            if kind in ("nan", "empty", "one"):
                np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs))


METHODS = ["average", "min", "max", "dense", "ordinal"]


@pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
@pytest.mark.parametrize("method", METHODS)
def test_ranks_of_ties_and_nan(method, nan_policy):
    known = TIES[:2]
    rows = [TIES, known, TIES[:, 2], known[:, :0], known[:1, :1], known.astype(int), known > 1]
    for given in rows:
        for axis in (None, *range(given.ndim)):
            rank = partial(stats.rankdata, method=method, axis=axis, nan_policy=nan_policy)
            wanted = scipy.stats.rankdata(given, method, axis=axis, nan_policy=nan_policy)
            for got in (rank(given), ft.jit(rank)(given), ft.vmap(rank)(given[None])[0]):
                np.testing.assert_array_equal(got, wanted)
                # By all methods, as in SciPy 1.18.
                assert got.dtype == np.float64


@pytest.mark.parametrize("method", METHODS)
def test_ranks_have_the_samples_dtype(method):
    for dtype in ("float32", "float16", "float64"):
        got = stats.rankdata(np.array([3.0, 1.0, 3.0, np.nan], dtype), method, nan_policy="omit")
        assert got.dtype == dtype
        np.testing.assert_array_equal(got[1::2], [1.0, np.nan])
    assert stats.rankdata(np.zeros(0, "float32"), method).dtype == "float32"
    with pytest.raises(ValueError, match="contains nan"):
        stats.rankdata([1.0, np.nan], method, nan_policy="raise")
    with pytest.raises(ValueError, match="nan_policy='drop'"):
        stats.rankdata([1.0], method, nan_policy="drop")


def test_a_line_through_two_points_has_no_error():
    line = stats.linregress([1.0, 3.0], [5.0, 4.0])
    np.testing.assert_allclose(line, (-0.5, 5.5, -1.0, 0.0, 0.0))
    assert line.intercept_stderr == 0.0


def test_correlation_of_ties_and_nan():
    a, b = np.array([1.0, 2, 2, 3, 5]), np.array([2.0, 1, 1, 4, 4])
    np.testing.assert_allclose(stats.spearmanr(a, b), scipy.stats.spearmanr(a, b))
    wide = np.stack([a, b, a * b], 1)
    for mine, theirs in zip(stats.spearmanr(wide), scipy.stats.spearmanr(wide)):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert np.isnan(stats.spearmanr([1.0, np.nan, 2], [1.0, 2, 3]).statistic)
    assert np.isnan(stats.pearsonr([1.0, np.nan, 2], [1.0, 2, 3]).statistic)


def test_samples_that_are_all_the_same():
    same = np.ones((5, 2))
    for name in ("skew", "kurtosis"):
        assert np.isnan(getattr(stats, name)(same)).all()
        assert not np.isnan(ft.grad(lambda x, f=name: getattr(stats, f)(x)[1])(X)).any()
    assert np.isposinf(stats.ttest_1samp([1.0, 1.0], 0.0).statistic)


DF = [-1, 0, 0.3, 1, 2.5, 10, 1e4]
PLACES = [-INF, -2, -0.5, 0, 1e-10, 0.3, 0.5, 0.9, 1, 1.5, 3, 50, 1e5, INF, np.nan]
LEVELS = [-0.1, 0, 1e-12, 0.1, 0.5, 0.7, 1 - 1e-9, 1, 1.1, np.nan]
COUNTS, TRIALS = [-1, 0, 0.5, 1, 2, 3, 7], [0, 1, 3, 6]
POWERS = [0, -2, -1, -0.3, 1e-9, 0.5, 1, 3, -50]
GRIDS = {
    "chdtr": (DF, PLACES),
    "chdtrc": (DF, PLACES),
    "chdtri": (DF, LEVELS),
    "stdtr": ([*DF, INF], PLACES),
    "stdtrit": (DF, LEVELS[2:]),
    "fdtr": (DF, DF, PLACES),
    "fdtrc": (DF, DF, PLACES),
    "fdtri": (DF, DF, LEVELS),
    "gdtr": ([0.5, 2], DF, PLACES),
    "gdtrc": ([0.5, 2], DF, PLACES),
    "gdtrix": ([0.5, 2], DF[2:], LEVELS),
    "bdtr": (COUNTS, TRIALS, LEVELS),
    "bdtrc": (COUNTS, TRIALS, LEVELS),
    "bdtri": (COUNTS, TRIALS, LEVELS),
    "nbdtr": (COUNTS, TRIALS, LEVELS),
    "nbdtrc": (COUNTS, TRIALS, LEVELS),
    "nbdtri": (COUNTS, TRIALS[1:], LEVELS),
    "pdtr": (COUNTS, PLACES),
    "pdtrc": (COUNTS, PLACES),
    # SciPy has NaN for the probability 1, whose mean is 0, and inf for stdtrit of 0.
    "pdtri": (COUNTS, LEVELS[:7]),
    "boxcox": ([0, 1e-10, 0.3, 1, 1.5, 3, 50, 1e5, INF, np.nan, -1], POWERS),
    "boxcox1p": ([-1, -1e-9, 0, 1e-10, 0.5, 3, 1e5, INF, -2], POWERS),
    "inv_boxcox": ([0, -3, -0.5, 0.5, 1e-10, 1, 10], POWERS),
    "inv_boxcox1p": ([0, -3, -0.5, 0.5, 1e-10, 1, 10, 2], POWERS),
    "exprel": ([0, -1e-3, 0.49, 0.51, -0.5, 3, -40, 710, 800, INF, -INF, np.nan],),
}


@pytest.mark.parametrize("name", GRIDS)
def test_probabilities_at_their_ends(name):
    grid = np.meshgrid(*[np.array(axis, float) for axis in GRIDS[name]], indexing="ij")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = getattr(scipy.special, name)(*grid)
    got = getattr(special, name)(*grid)
    np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-300)


def test_quantiles_of_students_distribution_at_the_ends():
    assert special.stdtrit(3.0, [0.0, 1.0]).tolist() == [-INF, INF]
    assert special.pdtri([0, 3], 1.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"])
def test_derivatives_where_the_power_is_zero(name):
    function, x = getattr(special, name), np.array([0.2, 0.7, 1.6])
    check_grads(lambda x, power: function(x, power), (x, np.zeros(3)), order=2)
    # Of log(x) (exp(u) - 1) / u with u = power log(x) the slope at 0 is log(x)**2 / 2.
    level = {"boxcox": np.log(x), "boxcox1p": np.log1p(x)}
    if name in level:
        slope = ft.vmap(ft.grad(function, 1))(x, np.zeros(3))
        np.testing.assert_allclose(slope, level[name] ** 2 / 2, rtol=1e-12)


@pytest.mark.parametrize("metric", sorted(distance.METRICS))
def test_vectors_that_coincide_have_no_nan(metric):
    options = {"V": np.ones(2)} if metric == "seuclidean" else {}
    options = {"VI": np.eye(2)} if metric == "mahalanobis" else options
    options = {"p": 1.5} if metric == "minkowski" else options
    x = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.5]])

    def total(x):
        return distance.pdist(x, metric, **options).sum()

    if metric in ("cosine", "correlation", "jensenshannon"):
        # Vectors of one direction differ by rounding.
        assert np.isfinite(ft.grad(total)(x)).all()
        return
    assert distance.pdist(x, metric, **options)[0] == 0
    assert np.isfinite(ft.grad(total)(x)).all()
    assert np.isfinite(ft.hessian(total)(x)).all()


def test_orthogonal_scales_of_complex_transforms():
    z = X[:, 0] + 1j * Y[:, 0]
    for name in ("dct", "idst"):
        parts = [getattr(fft, name)(part, orthogonalize=True) for part in (z.real, z.imag)]
        got = getattr(fft, name)(z, orthogonalize=True)
        np.testing.assert_allclose(got, np.asarray(parts[0]) + 1j * np.asarray(parts[1]))


def test_filters_take_scipys_designs():
    b, a = scipy.signal.butter(4, 0.2)
    sos = scipy.signal.butter(4, 0.2, output="sos")
    x = RNG.normal(size=(3, 60))
    for name, arguments in (("lfilter", (b, a, x)), ("filtfilt", (b, a, x))):
        np.testing.assert_allclose(
            getattr(signal, name)(*arguments), getattr(scipy.signal, name)(*arguments), rtol=1e-9
        )
    for name in ("sosfilt", "sosfiltfilt"):
        got, wanted = (getattr(m, name)(sos, x) for m in (signal, scipy.signal))
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


def test_half_precision_is_filtered_in_single():
    out = signal.lfilter(np.float16([1.0]), np.float16([1, -0.5]), np.ones(4, np.float16))
    assert out.dtype == np.float16
    assert out.tolist() == [1.0, 1.5, 1.75, 1.875]


def test_nan_is_not_cut_off():
    samples = np.array([[1.0, np.nan, 2.0, 3.0, 4.0], [1.0, 4.0, 2.0, 3.0, 5.0]])
    found = stats.trim_mean(samples, 0.2, axis=1)
    np.testing.assert_array_equal(found, [np.nan, 3.0])
