"""Messages about wrong arguments of functions with SciPy's names have the function's name."""

import numpy as np
import pytest

import functensor as ft
from functensor.primitives.core.errors import ConcretizationError
from functensor.scipy import fft, integrate, interpolate, linalg, signal, special, stats
from functensor.scipy.spatial import distance

FIVE = np.arange(5.0)
SECTION = [[1.0, 0, 0, 1.0, -0.5, 0]]

SIGNAL = {
    "a zero in front": (lambda: signal.lfilter([1.0], [0.0, 1.0], FIVE), r"lfilter.*a\[0\] is 0"),
    "a matrix": (lambda: signal.lfilter(np.ones((2, 2)), 1.0, FIVE), "polynomial b has shape"),
    "no coefficients": (lambda: signal.lfilter([1.0], [], FIVE), "polynomial a has shape"),
    "a number": (lambda: signal.lfilter([1.0], [1.0], 2.0), "x is a number"),
    "a state": (lambda: signal.lfilter([1.0, 1], [1.0], FIVE, zi=[1.0, 2]), "initial state of"),
    "no steady state": (lambda: signal.lfilter_zi([1.0], [1.0, -1]), "lfilter_zi.*sums up to 0"),
    "short": (lambda: signal.filtfilt([1.0, 1], [1.0], FIVE), "more than padlen, 6"),
    "padtype": (lambda: signal.filtfilt([1.0], [1.0], FIVE, padtype="x"), "filtfilt: padtype='x'"),
    "gust": (lambda: signal.filtfilt([1.0], [1.0], FIVE, method="gust"), "method='gust' is not"),
    "method": (lambda: signal.filtfilt([1.0], [1.0], FIVE, method="x"), "filtfilt: method='x'"),
    "sections": (lambda: signal.sosfilt([[1.0, 2.0]], FIVE), "sosfilt: sos array must be"),
    "section's lead": (lambda: signal.sosfilt([[1.0, 0, 0, 2, 0, 0]], FIVE), "all ones"),
    "states": (lambda: signal.sosfilt(SECTION, FIVE, zi=np.ones(2)), "Invalid zi shape"),
    "degree": (lambda: signal.savgol_coeffs(3, 3), "savgol_coeffs: polyorder"),
    "place": (lambda: signal.savgol_coeffs(3, 1, pos=3), "savgol_coeffs: pos"),
    "use": (lambda: signal.savgol_coeffs(3, 1, use="x"), "savgol_coeffs: `use`"),
    "window": (lambda: signal.savgol_filter(FIVE, 7, 2), "savgol_filter: If mode is 'interp'"),
    "mode": (lambda: signal.savgol_filter(FIVE, 3, 2, mode="x"), "savgol_filter: mode must"),
    "complex": (lambda: signal.hilbert(FIVE * 1j), "hilbert: x must be real"),
    "length": (lambda: signal.hilbert(FIVE, 0), "hilbert: N must be positive"),
    "axes": (lambda: signal.hilbert2(np.eye(2), axes=(0, 0)), "hilbert2: axes"),
    "lengths": (lambda: signal.hilbert2(np.eye(2), N=(1, 0)), "hilbert2: N"),
    "rank": (lambda: signal.hilbert2(FIVE), "hilbert2: x of shape"),
    "domain": (lambda: signal.resample(FIVE, 3, domain="x"), "resample: domain='x'"),
    "number": (lambda: signal.resample(FIVE, 0), "resample: num=0"),
    "weights": (lambda: signal.resample(FIVE, 3, window=np.ones(4)), "a window of shape"),
    "overlap": (lambda: signal.oaconvolve(FIVE, np.eye(2)), "oaconvolve: in1 and in2"),
}
FFT = {
    "type": (lambda: fft.dct(FIVE, 5), "dct: type=5"),
    "norm": (lambda: fft.idst(FIVE, norm="x"), "idst: norm='x'"),
    "points": (lambda: fft.dct(FIVE, n=0), r"dct: invalid number of data points \(0\)"),
    "one point": (lambda: fft.dct([1.0], 1), "dct: type 1 is not defined"),
    "lengths": (lambda: fft.dctn(np.eye(2), s=(2,), axes=(0, 1)), "dctn: when given, axes"),
    "the same axis": (lambda: fft.dstn(np.eye(2), axes=(0, 0)), "dstn: .*unique"),
    "plan": (lambda: fft.fft(FIVE, plan=1), "fft: there are no plans"),
    "axes": (lambda: fft.fftn(np.eye(2), axes=(0, 0)), "fftn: all axes must be unique"),
    "hermitian norm": (lambda: fft.hfftn(np.eye(2), norm="x"), "hfftn: norm='x'"),
    "target": (lambda: fft.next_fast_len(0), "next_fast_len: Target"),
    "target before": (lambda: fft.prev_fast_len(0), "prev_fast_len: Target"),
}
TWO = np.eye(2)
TTEST = stats.ttest_1samp(FIVE, 0.0)
STATS = {
    "policy": (lambda: stats.zscore(FIVE, nan_policy="x"), "zscore: nan_policy='x'"),
    "NaN": (lambda: stats.skew([1.0, np.nan], nan_policy="raise"), "skew: .*nan values"),
    "omit": (lambda: stats.gmean(FIVE, nan_policy="omit"), "gmean: nan_policy='omit' is not"),
    "power": (lambda: stats.pmean(FIVE, "x"), "pmean: Power mean"),
    "trim": (lambda: stats.trim_mean(FIVE[1:], 0.5), "trim_mean: Proportion too big"),
    "order": (lambda: stats.moment(FIVE, 1.5), "moment: All elements"),
    "kstat": (lambda: stats.kstat(FIVE, 5), "kstat: k-statistics"),
    "kstatvar": (lambda: stats.kstatvar(FIVE, 3), "kstatvar: Only"),
    "range": (lambda: stats.iqr(FIVE, rng=(1, 2, 3)), "iqr: quantile range"),
    "scale": (lambda: stats.iqr(FIVE, scale="x"), "iqr: 'x' not a valid scale"),
    "deviation": (lambda: stats.median_abs_deviation(FIVE, scale="x"), "median_abs_deviation: x"),
    "nothing": (lambda: stats.describe(np.zeros(0)), "describe: The input must not be empty"),
    "alternative": (lambda: stats.ttest_rel(FIVE, FIVE + 1, alternative="x"), "ttest_rel: alter"),
    "lengths": (lambda: stats.ttest_rel(FIVE, FIVE[1:]), "ttest_rel: unequal length"),
    "resampling": (lambda: stats.ttest_ind(FIVE, FIVE, method=1), "ttest_ind: trim= and method="),
    "level": (lambda: TTEST.confidence_interval(2), "confidence_level must be between"),
    "one sample": (lambda: stats.f_oneway(FIVE), "f_oneway: at least two inputs"),
    "correlation": (lambda: stats.pearsonr(FIVE, FIVE[1:]), "pearsonr: `x` and `y`"),
    "its method": (lambda: stats.pearsonr(FIVE, FIVE, method=1), "pearsonr: method= is not"),
    "ranks": (lambda: stats.rankdata(FIVE, "x"), "rankdata: method='x'"),
    "axes": (lambda: stats.spearmanr(np.ones((2, 2, 2))), "spearmanr: only handles"),
    "variables": (lambda: stats.spearmanr(FIVE), "spearmanr: needs at least 2"),
    "line": (lambda: stats.linregress(FIVE, FIVE[1:]), "linregress: x and y have 5 and 4"),
    "base": (lambda: stats.entropy(FIVE, base=-1), "entropy: `base`"),
    "estimator": (lambda: stats.differential_entropy(FIVE, method="x"), "entropy: method='x'"),
    "window": (lambda: stats.differential_entropy(FIVE, window_length=3), r"Window length \(3\)"),
    "statistic": (lambda: stats.power_divergence(FIVE, lambda_="x"), "divergence: lambda_='x'"),
    "sums": (lambda: stats.chisquare(FIVE, FIVE + 1), "chisquare: the sums of the observed"),
    "methods": (lambda: stats.false_discovery_control(FIVE, method="x"), "control: method='x'"),
    "p-values": (lambda: stats.false_discovery_control(FIVE), "control: `ps` must"),
    "weights": (lambda: stats.wasserstein_distance(FIVE, FIVE, FIVE[1:]), "with weights of shape"),
    "variance": (lambda: stats.bartlett(FIVE), "bartlett: Must enter at least two"),
    "center": (lambda: stats.levene(FIVE, FIVE, center="x"), "levene: center='x'"),
    "one": (lambda: stats.levene(FIVE), "levene: Must enter at least two"),
    "few": (lambda: stats.skewtest(FIVE), "skewtest: requires at least 8"),
}
DISTANCE = {
    "rank": (lambda: distance.pdist(FIVE), "pdist: X has shape"),
    "metric": (lambda: distance.pdist(TWO, "x"), "pdist: Unknown Distance Metric"),
    "option": (lambda: distance.cdist(TWO, TWO, p=3), "cdist: euclidean takes no p="),
    "out": (lambda: distance.pdist(TWO, out=TWO), "pdist: out= is not there"),
    "complex": (lambda: distance.pdist(TWO * 1j), "pdist: X is complex"),
    "columns": (lambda: distance.cdist(TWO, np.eye(3)), "cdist: XA and XB"),
    "power": (lambda: distance.pdist(TWO, "minkowski", p=0), "minkowski: p=0"),
    "observations": (lambda: distance.pdist(TWO, "mahalanobis"), "observations .* too small"),
    "vector": (lambda: distance.squareform(FIVE), "squareform: 5 distances"),
    "matrix": (lambda: distance.squareform(np.ones((2, 3))), "squareform: the matrix"),
    "diagonal": (lambda: distance.squareform(TWO), "squareform: Distance matrix"),
    "force": (lambda: distance.squareform(TWO, "tomatrix"), "squareform: Forcing"),
}
INTERPOLATE = {
    "falling": (lambda: interpolate.CubicSpline(-FIVE, FIVE), "CubicSpline: `x` must be strictly"),
    "lengths": (lambda: interpolate.CubicSpline(FIVE, FIVE[1:]), "CubicSpline: 5 places"),
    "word": (lambda: interpolate.CubicSpline(FIVE, FIVE, 0, "x"), "bc_type='x' is not"),
    "half": (lambda: interpolate.CubicSpline(FIVE, FIVE, 0, ("periodic", "natural")), "both curve"),
    "open": (lambda: interpolate.CubicSpline(FIVE, FIVE, 0, "periodic"), "must be identical"),
    "order": (lambda: interpolate.CubicSpline(FIVE, FIVE, 0, ((3, 0), "natural")), "order 1 or 2"),
    "shape": (lambda: interpolate.CubicSpline(FIVE, FIVE, 0, ((1, TWO), "natural")), "deriv_value"),
    "beyond": (lambda: interpolate.PchipInterpolator(FIVE, FIVE, 0, "x"), "extrapolate='x'"),
    "method": (lambda: interpolate.Akima1DInterpolator(FIVE, FIVE, method="x"), "`method`='x'"),
    "slopes": (lambda: interpolate.CubicHermiteSpline(FIVE, FIVE, TWO), "The shapes of `y`"),
    "pieces": (lambda: interpolate.PPoly(TWO, FIVE), "PPoly: coefficients of shape"),
    "negative": (lambda: interpolate.CubicSpline(FIVE, FIVE)(1.0, -1), "CubicSpline: nu=-1"),
    "roots": (lambda: interpolate.CubicSpline(FIVE, FIVE).roots(), "CubicSpline.roots: their"),
}
REST = {
    "initial": (lambda: integrate.cumulative_simpson(FIVE, initial=FIVE), "`initial` must"),
    "falling": (lambda: integrate.cumulative_simpson(FIVE, x=-FIVE), "strictly increasing"),
    "nothing": (lambda: integrate.cumulative_simpson(FIVE[:0]), "at least one sample"),
    "mode": (lambda: linalg.qr_multiply(TWO, TWO, "x"), "qr_multiply: Mode"),
    "columns": (lambda: linalg.qr_multiply(TWO, FIVE), "qr_multiply: Array shapes"),
    "square": (lambda: linalg.hessenberg(np.ones((2, 3))), "hessenberg"),
    "complex": (lambda: linalg.funm(-TWO, np.sqrt), "funm: the result for a real matrix"),
    "vectors": (lambda: linalg.funm([[0.0, 1], [0, 0]], np.exp), "funm: .* too few eigenvectors"),
    "error": (lambda: linalg.funm(TWO, np.exp, disp=False), "funm: disp=False"),
    "surplus": (lambda: special.chdtr(1.0), "lacks its argument 'x'"),
}
CASES = {f"signal, {what}": case for what, case in SIGNAL.items()}
CASES |= {f"fft, {what}": case for what, case in FFT.items()}
CASES |= {f"stats, {what}": case for what, case in STATS.items()}
CASES |= {f"distance, {what}": case for what, case in DISTANCE.items()}
CASES |= {f"interpolate, {what}": case for what, case in INTERPOLATE.items()}
CASES |= {f"else, {what}": case for what, case in REST.items()}


@pytest.mark.parametrize("what", CASES)
def test_wrong_argument_is_named(what):
    call, words = CASES[what]
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=words):
        call()


def test_padding_that_depends_on_unknown_sections_is_asked_for():
    staged = ft.jit(lambda sos, x: signal.sosfiltfilt(sos, x))
    with pytest.raises(ConcretizationError, match=r"padlen=9"):
        staged(np.array(SECTION), np.arange(30.0))


def test_a_long_filter_costs_no_equation_per_sample():
    program = ft.make_program(ft.grad(lambda x: signal.lfilter([1.0], [1.0, -0.9], x).sum()))
    assert len(program(np.ones(10_000)).equations) < 20
