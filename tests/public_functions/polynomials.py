"""Cases of polynomials and fits."""

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, NONZERO, POSITIVE

from .harness import Case, Operand


def simple_roots(np, c):
    """Returns the smaller roots of a polynomial that has two real ones far apart, in order."""
    p = np.concatenate([np.ones(1, c.dtype), c[:1] - 8, c[1:] * 0.1])
    return np.sort(np.real(np.roots(p)))


CASES = [
    Case("numpy.vander", lambda np, x: np.vander(x), (3,), dtypes="dD"),
    Case("numpy.vander", lambda np, x: np.vander(x, 4, increasing=True), (2,), dtypes="fd"),
    Case("numpy.vander", lambda np, x: np.vander(x, 3), Operand((2,), INTEGER), smooth=False),
    Case("numpy.polyadd", lambda np, p, q: np.polyadd(p, q), (2,), (4,), dtypes="fdD"),
    Case("numpy.polysub", lambda np, p, q: np.polysub(p, q), (3,), ()),
    Case("numpy.polymul", lambda np, p, q: np.polymul(p, q), (3,), (2,), dtypes="fdD"),
    Case("numpy.polydiv", lambda np, u, v: np.polydiv(u, v), (4,), (2,), domain=NONZERO,
         dtypes="dD"),
    Case("numpy.polydiv", lambda np, u, v: np.polydiv(u, v)[1], (2,), (3,), domain=NONZERO),
    Case("numpy.polyder", lambda np, p: np.polyder(p), (4,), dtypes="fdD"),
    Case("numpy.polyder", lambda np, p: np.polyder(p, 2), (4,)),
    Case("numpy.polyint", lambda np, p: np.polyint(p), (3,), dtypes="fdD"),
    Case("numpy.polyint", lambda np, p, k: np.polyint(p, 2, k), (3,), (2,), dtypes="d"),
    Case("numpy.poly", lambda np, x: np.poly(x), (3,), dtypes="dD"),
    Case("numpy.roots", simple_roots, (2,), domain=POSITIVE, dtypes="d"),
    Case("numpy.polyfit", lambda np, x, y: np.polyfit(x, y, 2), Operand((5,), DISTINCT), (5,),
         dtypes="d", rtol=1e-8),
    Case(
        "numpy.polyfit",
        lambda np, x, y, w: np.polyfit(x, y, 1, w=w),
        Operand((4,), DISTINCT),
        (4, 2),
        Operand((4,), POSITIVE),
        dtypes="d",
        rtol=1e-8,
    ),
    Case(
        "numpy.polyfit",
        lambda np, x, y: np.polyfit(x, y, 1, cov=True),
        Operand((4,), DISTINCT),
        (4,),
        dtypes="d",
        order=1,
        rtol=1e-8,
    ),
    Case(
        "numpy.polyfit",
        lambda np, x, y: np.polyfit(x, y, 1, full=True)[:2],
        Operand((4,), DISTINCT),
        (4,),
        dtypes="d",
        order=1,
        rtol=1e-8,
    ),
]
