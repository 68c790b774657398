"""Cases of medians, quantiles and partial orders."""

import numpy

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, Domain

from .harness import Case, Operand

METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint",
    "nearest",
)
SHARE = Domain(0.05, 0.95)
SEVERAL = numpy.array([[0.0, 0.3, 0.5], [1.0, 0.8, 0.25]])


def by(method):
    """Returns a call for quantiles by a method."""
    return lambda np, x: np.quantile(x, SEVERAL[0], method=method)


CASES = [
    Case("numpy.median", lambda np, x: np.median(x), Operand((5,), DISTINCT)),
    Case("numpy.median", lambda np, x: np.median(x, axis=0), Operand((4, 2), DISTINCT)),
    Case("numpy.median", lambda np, x: np.median(x, axis=(0, -1), keepdims=True),
         Operand((2, 2, 3), DISTINCT), dtypes="dD"),
    Case("numpy.median", lambda np, x: np.median(x), Operand((4,), INTEGER), smooth=False),
    Case("numpy.quantile", lambda np, x: np.quantile(x, 0.4), Operand((6,), DISTINCT)),
    Case("numpy.quantile", lambda np, x: np.quantile(x, SEVERAL, axis=1, keepdims=True),
         Operand((2, 4), DISTINCT), dtypes="d"),
    Case("numpy.quantile", lambda np, x, q: np.quantile(x, q, axis=(0, 2)),
         Operand((2, 2, 3), DISTINCT), Operand((2,), SHARE), dtypes="d"),
    *[Case("numpy.quantile", by(name), Operand((7,), DISTINCT), dtypes="d") for name in METHODS],
    Case("numpy.quantile", lambda np, x: np.quantile(x, [0.1, 0.5], method="lower"),
         Operand((4,), INTEGER), smooth=False),
    Case(
        "numpy.quantile",
        lambda np, x, w: np.quantile(
            x, [0.0, 0.4, 1.0], axis=1, weights=np.abs(w), method="inverted_cdf"
        ),
        Operand((2, 4), DISTINCT),
        Operand((2, 4), DISTINCT),
        dtypes="d",
    ),
    Case(
        "numpy.percentile",
        lambda np, x, w: np.percentile(x, 30, axis=0, weights=abs(w), method="inverted_cdf"),
        Operand((4, 2), DISTINCT),
        Operand((4,), DISTINCT),
    ),
    Case("numpy.percentile", lambda np, x: np.percentile(x, 70), Operand((6,), DISTINCT)),
    Case("numpy.percentile", lambda np, x: np.percentile(x, [10, 90], axis=0),
         Operand((4, 2), DISTINCT), dtypes="d"),
    # Only places that are asked for are in a definite order.
    Case("numpy.partition", lambda np, x: np.partition(x, 2)[..., 2], Operand((2, 5), DISTINCT)),
    Case("numpy.partition", lambda np, x: np.partition(x, (0, 1), axis=None)[:2],
         Operand((2, 3), DISTINCT)),
    Case("numpy.argpartition", lambda np, x: np.argpartition(x, 1, axis=0)[1],
         Operand((4, 2), DISTINCT), smooth=False),
    Case("numpy.lexsort", lambda np, x, y: np.lexsort((x, y)), Operand((6,), INTEGER),
         Operand((6,), Domain(0, 2, kind="i")), smooth=False),
    Case("numpy.lexsort", lambda np, x: np.lexsort(x, axis=0),
         Operand((2, 3, 2), Domain(0, 2, kind="i")), smooth=False),
    Case("numpy.sort_complex", lambda np, x: np.sort_complex(x), (2, 3), dtypes="D"),
    Case("numpy.sort_complex", lambda np, x: np.sort_complex(x), Operand((4,), DISTINCT)),
]
