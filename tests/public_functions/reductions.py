"""Cases of reductions of some elements, from an initial value, about a mean that is given."""

import numpy

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, LOGICAL, POSITIVE

from .harness import Case, Operand

SOME = numpy.array([[True, False, True], [True, True, False]])
FIRST = SOME[0]

CASES = [
    Case("numpy.sum", lambda np, x: np.sum(x, where=np.asarray(SOME)), (2, 3), dtypes="fdD"),
    Case("numpy.sum", lambda np, x, w: np.sum(x, 1, where=w), (2, 3), Operand((3,), LOGICAL)),
    Case("numpy.sum", lambda np, x, c: np.sum(x, 0, initial=c[()]), (2, 3), (), dtypes="d"),
    Case("numpy.prod", lambda np, x: np.prod(x, 1, where=np.asarray(FIRST), initial=2.0), (2, 3)),
    Case(
        "numpy.max",
        lambda np, x: np.max(x, 0, where=np.asarray(SOME), initial=-0.5),
        (2, 3),
        domain=DISTINCT,
    ),
    Case("numpy.max", lambda np, x: np.max(x, 0, initial=0.25), (0, 3)),
    Case(
        "numpy.min",
        lambda np, x: np.min(x, keepdims=True, where=np.asarray(SOME), initial=0.5),
        (2, 3),
        domain=DISTINCT,
    ),
    Case("numpy.mean", lambda np, x: np.mean(x, axis=0, where=np.asarray(SOME)), (2, 3),
         dtypes="fdD"),
    Case(
        "numpy.mean",
        lambda np, x: np.mean(x, 1, keepdims=True, where=np.asarray(FIRST)),
        Operand((2, 3), INTEGER),
        dtypes="d",
        smooth=False,
    ),
    Case("numpy.var", lambda np, x: np.var(x, 1, where=np.asarray(SOME), ddof=1), (2, 3),
         dtypes="fdD"),
    Case(
        "numpy.var",
        lambda np, x, m: np.var(x, 0, mean=m, keepdims=True),
        (3, 2),
        (1, 2),
        dtypes="d",
    ),
    Case("numpy.std", lambda np, x: np.std(x, 1, where=np.asarray(SOME)), (2, 3), domain=POSITIVE),
    Case("numpy.any", lambda np, x: np.any(x > 0, 0, where=np.asarray(SOME)), (2, 3), smooth=False),
    Case("numpy.all", lambda np, x: np.all(x > 0, where=np.asarray(FIRST)), (2, 3), smooth=False),
    Case("numpy.ptp", lambda np, x: np.ptp(x, 0, None, True), (3, 2), domain=DISTINCT),
]
