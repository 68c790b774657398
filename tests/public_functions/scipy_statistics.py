"""Cases of statistics of samples: values by SciPy's functions, which have no derivatives."""

import numpy as np
import scipy.stats

from functensor.primitives.core.test_samples import DISTINCT, POSITIVE, Domain

from .harness import Case, Operand

SOME = Operand((5, 2), DISTINCT)
ABOVE = Operand((5, 2), POSITIVE)
ROW = Operand((6,), DISTINCT)
LEVELS = Domain(0.01, 0.4, distinct=True)
ABOVE_ROW = Operand((6,), POSITIVE)
SPREAD = Domain(0.4, 3.0, distinct=True)


def floats(out, kind):
    """Returns a result's arrays, one behind the other, those of floats in a dtype."""
    if isinstance(out, tuple):
        return tuple(part for item in out for part in floats(item, kind))
    out = np.asarray(out)
    return (out.astype(kind) if out.dtype.kind == "f" else out,)


def flat(out):
    """Returns our result's arrays one behind the other, counts left out."""
    if isinstance(out, tuple):
        return tuple(part for item in out for part in flat(item))
    return () if isinstance(out, int) else (out,)


def case(name, call, *operands, **options):
    """Returns a case. Of single precision SciPy makes double in places."""

    def reference(*xs):
        out = call(scipy.stats, *xs)
        kinds = [x.dtype for x in xs if x.dtype.kind == "f"]
        out = out[1:] if name == "describe" else out
        return floats(out if isinstance(out, tuple) else (out,), kinds[0])

    def ours(sp, *xs):
        return flat(call(sp.stats, *xs))

    return Case(f"scipy.stats.{name}", ours, *operands, reference=reference, **options)


def named(name, *operands, order=2, dtypes="fd", smooth=True, **keywords):
    """Returns the case of a function of arrays alone, with keywords."""
    options = {"order": order, "dtypes": dtypes, "smooth": smooth}
    return case(name, lambda s, *xs: getattr(s, name)(*xs, **keywords), *operands, **options)


CASES = [
    named("gmean", ABOVE),
    case("gmean", lambda s, x, w: s.gmean(x, None, weights=w), ABOVE, ABOVE, dtypes="d"),
    named("hmean", ABOVE, axis=1, keepdims=True),
    case("hmean", lambda s, x, w: s.hmean(x, weights=w), ABOVE, ABOVE, dtypes="d"),
    named("pmean", ABOVE, p=2.5),
    named("pmean", ABOVE, p=0, axis=1),
    named("trim_mean", SOME, proportiontocut=0.2),
    case("moment", lambda s, x: s.moment(x, 3), SOME),
    case("moment", lambda s, x: s.moment(x, [0, 1, 2], axis=1, keepdims=True), SOME, dtypes="d"),
    case("moment", lambda s, x: s.moment(x, 2, center=0.5), SOME),
    named("skew", SOME),
    named("skew", SOME, axis=None, bias=False, dtypes="d"),
    named("kurtosis", SOME),
    named("kurtosis", SOME, axis=(0, 1), bias=False, fisher=False, dtypes="d"),
    *[case("kstat", lambda s, x, n=n: s.kstat(x, n, axis=0), SOME) for n in range(1, 5)],
    *[case("kstatvar", lambda s, x, n=n: s.kstatvar(x, n), SOME, dtypes="d") for n in (1, 2)],
    named("sem", SOME),
    named("sem", SOME, axis=1, ddof=0, keepdims=True),
    named("variation", ABOVE),
    named("variation", ABOVE, ddof=1, axis=None),
    named("zscore", SOME),
    named("zscore", SOME, axis=None, ddof=1),
    named("zmap", SOME, SOME),
    named("gzscore", ABOVE),
    named("iqr", SOME),
    named("iqr", SOME, axis=0, rng=(10, 60), scale="normal", keepdims=True, dtypes="d"),
    named("median_abs_deviation", SOME, order=1),
    named("median_abs_deviation", ROW, scale="normal", order=1, dtypes="d"),
    named("describe", SOME, dtypes="d"),
    named("describe", SOME, axis=1, bias=False, ddof=0, dtypes="d"),
    named("rankdata", SOME, smooth=False, dtypes="d"),
    # Of integers before SciPy 1.18.
    *[
        case(
            "rankdata",
            lambda s, x, m=m: 1.0 * s.rankdata(x, m, axis=0),
            SOME,
            smooth=False,
            dtypes="d",
        )
        for m in ("min", "max", "dense", "ordinal")
    ],
    # Tests of means.
    *[named("ttest_1samp", SOME, popmean=0.5, alternative=a) for a in ("two-sided", "less")],
    named("ttest_1samp", SOME, popmean=0.5, alternative="greater", axis=None, keepdims=True),
    case("ttest_1samp", lambda s, x, m: s.ttest_1samp(x, m), SOME, Operand((1, 2)), dtypes="d"),
    named("ttest_rel", SOME, SOME),
    named("ttest_ind", SOME, Operand((4, 2), DISTINCT)),
    named("ttest_ind", SOME, Operand((4, 2), DISTINCT), equal_var=False, alternative="less"),
    named("ttest_ind", SOME, Operand((5, 3), DISTINCT), axis=1, equal_var=False, keepdims=True),
    *[
        case(
            "ttest_ind_from_stats",
            lambda s, m, d, n, v, e=e: s.ttest_ind_from_stats(m, d, 5, n, v, 7, equal_var=e),
            Operand((2,)),
            Operand((2,), POSITIVE),
            Operand((2,)),
            Operand((2,), POSITIVE),
            dtypes="d",
        )
        for e in (True, False)
    ],
    named("f_oneway", SOME, Operand((4, 2), DISTINCT), Operand((3, 2), DISTINCT)),
    named("f_oneway", ROW, Operand((4,), DISTINCT), equal_var=False, dtypes="d"),
    named("f_oneway", SOME, SOME, axis=1, keepdims=True, dtypes="d"),
    named("bartlett", SOME, Operand((4, 2), DISTINCT)),
    named("levene", SOME, Operand((4, 2), DISTINCT), order=1),
    named("levene", ROW, ROW, center="trimmed", proportiontocut=0.2, order=1, dtypes="d"),
    # Angles, distances, p-values.
    named("circmean", ABOVE, axis=0),
    named("circvar", ABOVE, high=3.0, low=-1.0),
    named("circstd", ABOVE, high=3.0, axis=1, keepdims=True),
    *[
        named("false_discovery_control", Operand((4, 2), LEVELS), method=m, dtypes="d")
        for m in ("bh", "by")
    ],
    named("wasserstein_distance", ROW, Operand((4,), DISTINCT), dtypes="d"),
    named("wasserstein_distance", ROW, ROW, ABOVE_ROW, ABOVE_ROW, order=1, dtypes="d"),
    # Correlation.
    named("pearsonr", ROW, ROW),
    named("pearsonr", SOME, SOME, alternative="greater", dtypes="d"),
    named("pearsonr", Operand((2,), DISTINCT), Operand((2,), DISTINCT), smooth=False),
    named("spearmanr", ROW, ROW, smooth=False, dtypes="d"),
    case(
        "spearmanr",
        lambda s, x: s.spearmanr(x, alternative="less").statistic,
        Operand((6, 3), DISTINCT),
        smooth=False,
        dtypes="d",
    ),
    named("linregress", ROW, ROW),
    named("linregress", SOME, SOME, alternative="less", dtypes="d"),
    # A line through two points has no error; from SciPy 1.18 on that is NaN, and before it 0.
    case(
        "linregress",
        lambda s, x, y: s.linregress(x, y)[:3],
        Operand((2,), DISTINCT),
        Operand((2,), DISTINCT),
        order=1,
        dtypes="d",
    ),
    # Frequencies.
    named("entropy", ABOVE),
    named("entropy", ABOVE, ABOVE, base=2, axis=1, keepdims=True),
    *[
        named("differential_entropy", Operand((7, 2), SPREAD), method=m, order=1)
        for m in ("auto", "vasicek", "ebrahimi", "correa")
    ],
    named("differential_entropy", ROW, window_length=2, base=2, order=1, dtypes="d"),
    case("boxcox_llf", lambda s, x: s.boxcox_llf(0.7, x), ABOVE),
    case("boxcox_llf", lambda s, x: s.boxcox_llf(0, x), Operand((5,), POSITIVE), dtypes="d"),
    *[
        named("power_divergence", ABOVE, lambda_=power, dtypes="d")
        for power in (None, "log-likelihood", "neyman", "mod-log-likelihood", 0.5)
    ],
    case(
        "power_divergence",
        lambda s, x, y: s.power_divergence(x, y * x.sum(0) / y.sum(0), ddof=1, lambda_=0.5),
        ABOVE,
        ABOVE,
        dtypes="d",
    ),
    named("chisquare", ABOVE, axis=1, keepdims=True),
    case("chisquare", lambda s, x, y: s.chisquare(x, y, sum_check=False), ABOVE, ABOVE),
    # Normality.
    named("skewtest", Operand((9, 2), DISTINCT), alternative="less"),
    named("kurtosistest", Operand((9, 2), DISTINCT)),
    named("normaltest", Operand((9,), DISTINCT), keepdims=True, dtypes="d"),
    named("jarque_bera", ROW),
]
