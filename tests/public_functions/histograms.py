"""Cases of histograms, whose weights and edges have derivatives."""

import numpy

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, POSITIVE, UNIT

from .harness import Case, Operand

EDGES = numpy.array([-2.0, -0.5, 0.1, 1.9])

CASES = [
    Case("numpy.histogram", lambda np, x: np.histogram(x, 4), Operand((9,), DISTINCT)),
    Case("numpy.histogram", lambda np, x: np.histogram(x, EDGES), (2, 4), smooth=False),
    Case("numpy.histogram", lambda np, x: np.histogram(x, 3, range=(-1.0, 1.0), density=True),
         (7,), smooth=False),
    Case("numpy.histogram", lambda np, x: np.histogram(x, 3, density=True),
         Operand((7,), DISTINCT), dtypes="d"),
    Case("numpy.histogram", lambda np, x, w: np.histogram(x, EDGES, weights=w),
         Operand((6,), INTEGER), (6,), dtypes="dD"),
    Case("numpy.histogram", lambda np, x, w: np.histogram(x, EDGES, weights=w, density=True),
         Operand((6,), INTEGER), Operand((6,), POSITIVE)),
    Case("numpy.histogram_bin_edges", lambda np, x: np.histogram_bin_edges(x, 3),
         Operand((5,), DISTINCT)),
    Case("numpy.histogram2d", lambda np, x, y: np.histogram2d(x, y, (2, EDGES)),
         Operand((5,), DISTINCT), (5,), dtypes="d"),
    Case("numpy.histogram2d", lambda np, x, y, w: np.histogram2d(x, y, EDGES, weights=w)[0],
         Operand((5,), INTEGER), Operand((5,), INTEGER), (5,)),
    Case(
        "numpy.histogramdd",
        lambda np, x, w: np.histogramdd(
            x, bins=2, range=[(-2, 2), (-1, 1)], density=True, weights=w
        )[0],
        Operand((6, 2), UNIT),
        Operand((6,), POSITIVE),
    ),
    Case("numpy.histogramdd", lambda np, x: np.histogramdd(x, bins=(2, 3))[0],
         Operand((6, 2), DISTINCT), smooth=False),
]
