"""Cases of what the Python array API standard adds to NumPy's names, or spells in its own way."""

import numpy

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, LOGICAL, REAL, Domain

from .harness import Case, Operand

CASES = [
    Case(
        "numpy.argsort",
        lambda np, x: np.argsort(x, axis=0, descending=True),
        (4, 2),
        reference=lambda x: numpy.argsort(-x, axis=0),
        domain=DISTINCT,
        smooth=False,
    ),
    Case(
        "numpy.sort",
        lambda np, x: np.sort(x, descending=True),
        (2, 4),
        reference=lambda x: -numpy.sort(-x),
        domain=DISTINCT,
    ),
    Case("numpy.clip", lambda np, x: np.clip(x, min=-0.5, max=0.5), (2, 3)),
    Case("numpy.clip", lambda np, x, y: np.clip(x, None, y), (2, 3), (3,), domain=DISTINCT),
    Case("numpy.fabs", lambda np, x: np.fabs(x), (2, 3), domain=DISTINCT),
    Case("numpy.fabs", lambda np, x: np.fabs(x), Operand((3,), INTEGER), smooth=False),
    Case("numpy.nextafter", lambda np, x: np.nextafter(x, 0.0), (2, 3), domain=Domain(1.0, 1.5)),
    Case("numpy.add", lambda np, x: np.add(x, 1, dtype="complex128"), (2, 3), dtypes="d"),
    Case(
        "numpy.where",
        lambda np, c: np.where(c),
        Operand((2, 3), LOGICAL),
        smooth=False,
        static=True,
    ),
    Case("numpy.round", lambda np, x: np.round(x, decimals=1), (2, 3), domain=REAL, smooth=False),
]
