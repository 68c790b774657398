"""Cases of products, and of differences and integrals along an axis."""

from functensor.primitives.core.test_samples import DISTINCT, POSITIVE

from .harness import Case, Operand

ASCENDING = [0.0, 0.7, 1.0, 2.5]

CASES = [
    Case("numpy.cross", lambda np, x, y: np.cross(x, y), (2, 3), (3,)),
    Case("numpy.cross", lambda np, x, y: np.cross(x, y, axis=0), (3, 2), (3, 2)),
    Case("numpy.dot", lambda np, x, y: np.dot(x, y), (2, 3), (4, 3, 2)),
    Case("numpy.dot", lambda np, x, y: np.dot(x, y), (), (3,)),
    Case("numpy.inner", lambda np, x, y: np.inner(x, y), (2, 3), (4, 3), dtypes="fdD"),
    Case("numpy.kron", lambda np, x, y: np.kron(x, y), (2, 3), (2,)),
    Case("numpy.kron", lambda np, x, y: np.kron(x, y), (2, 1), (2, 3)),
    Case("numpy.outer", lambda np, x, y: np.outer(x, y), (2, 2), (3,)),
    Case("numpy.tensordot", lambda np, x, y: np.tensordot(x, y), (2, 3, 4), (3, 4, 2)),
    Case(
        "numpy.tensordot",
        lambda np, x, y: np.tensordot(x, y, ([2, 0], [0, 1])),
        (2, 3, 4),
        (4, 2),
    ),
    Case("numpy.trace", lambda np, x: np.trace(x, 1, 0, 2), (3, 2, 3)),
    Case("numpy.vdot", lambda np, x, y: np.vdot(x, y), (2, 3), (6,)),
    Case("numpy.vecdot", lambda np, x, y: np.vecdot(x, y), (2, 3), (3,)),
    Case("numpy.vecdot", lambda np, x, y: np.vecdot(x, y, axis=0), (3, 2), (3, 1)),
    Case("numpy.cumulative_prod", lambda np, x: np.cumulative_prod(x, axis=1), (2, 3)),
    Case(
        "numpy.cumulative_sum",
        lambda np, x: np.cumulative_sum(x, axis=0, include_initial=True),
        (2, 3),
    ),
    Case("numpy.diff", lambda np, x: np.diff(x, 2, axis=0), (4, 2)),
    Case("numpy.diff", lambda np, x, y: np.diff(x, prepend=0.0, append=y), (2, 3), (2, 1)),
    Case("numpy.ediff1d", lambda np, x: np.ediff1d(x, to_begin=1.0), (2, 2), dtypes="d"),
    Case(
        "numpy.interp",
        lambda np, x, y: np.interp(x, ASCENDING, y),
        Operand((2, 2), POSITIVE),
        (4,),
        dtypes="d",
    ),
    Case("numpy.trapezoid", lambda np, y: np.trapezoid(y, dx=0.5, axis=0), (3, 2)),
    Case("numpy.trapezoid", lambda np, y, x: np.trapezoid(y, x), (2, 3), (3,)),
    Case("numpy.average", lambda np, x: np.average(x, axis=0), (3, 2)),
    Case(
        "numpy.average",
        lambda np, x, w: np.average(x, axis=1, weights=w, returned=True),
        Operand((2, 3)),
        Operand((3,), POSITIVE),
    ),
    Case("numpy.ptp", lambda np, x: np.ptp(x, axis=1), (2, 3), domain=DISTINCT),
    Case("numpy.std", lambda np, x: np.std(x, axis=0, ddof=1), (3, 2)),
]
