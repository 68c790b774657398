"""Cases of matrices put together, of their diagonals, and of covariances."""

import numpy

from functensor.primitives.core.test_samples import INTEGER, POSITIVE, Domain

from .harness import Case, Operand

COUNTS = Domain(1, 3, kind="i")


def fill(np, a, v, **options):
    """Calls our function, of which a new array has to be asked for."""
    return np.fill_diagonal(a, v, **options, inplace=False)


def filled(a, v, wrap=False):
    """Returns what NumPy's function makes of its argument."""
    out = a.copy()
    numpy.fill_diagonal(out, v, wrap)
    return out


CASES = [
    Case("numpy.tril", lambda np, x: np.tril(x, 1), (3,)),
    Case("numpy.triu", lambda np, x: np.triu(x), (4,), dtypes="fdD"),
    Case("numpy.block", lambda np, a, b, c: np.block([[a, b], [c]]), (2, 1), (2, 2), (1, 3),
         dtypes="fdD"),
    Case("numpy.block", lambda np, a, b: np.block([a, b, 1.0]), (2,), ()),
    Case("numpy.block", lambda np, a: np.block(a), (2, 2)),
    Case("numpy.fill_diagonal", lambda np, a, v: fill(np, a, v), (3, 3), (),
         reference=filled),
    Case("numpy.fill_diagonal", lambda np, a, v: fill(np, a, v, wrap=True), (7, 2), (4,),
         reference=lambda a, v: filled(a, v, True)),
    Case("numpy.fill_diagonal", lambda np, a, v: fill(np, a, v), (2, 2, 2), (2,),
         reference=filled, dtypes="dD"),
    Case("numpy.matvec", lambda np, a, v: np.matvec(a, v), (2, 3, 4), (4,), dtypes="dD"),
    Case("numpy.vecmat", lambda np, v, a: np.vecmat(v, a), (2, 1, 3), (3, 4), dtypes="dD"),
    Case("numpy.diag_indices_from", lambda np, a: np.diag_indices_from(a), (3, 3), smooth=False),
    Case("numpy.tril_indices_from", lambda np, a: np.tril_indices_from(a, 1), (3, 4),
         smooth=False),
    Case("numpy.triu_indices_from", lambda np, a: np.triu_indices_from(a, -1), (3, 2),
         smooth=False),
    Case("numpy.mask_indices", lambda np: np.mask_indices(3, np.tril, -1), smooth=False),
    Case("numpy.cov", lambda np, x: np.cov(x), (2, 4), dtypes="fdD"),
    Case("numpy.cov", lambda np, x: np.cov(x), (4,)),
    Case("numpy.cov", lambda np, x, y: np.cov(x, y, rowvar=False, bias=True), (3, 2), (3, 2),
         dtypes="d"),
    Case("numpy.cov", lambda np, x: np.cov(x), Operand((2, 4), INTEGER), smooth=False),
    Case("numpy.cov", lambda np, x, w: np.cov(x, aweights=w), (2, 4), Operand((4,), POSITIVE),
         dtypes="d"),
    Case("numpy.cov", lambda np, x, f, w: np.cov(x, fweights=f, aweights=w, ddof=0), (2, 3),
         Operand((3,), COUNTS), Operand((3,), POSITIVE), dtypes="d"),
    Case("numpy.corrcoef", lambda np, x: np.corrcoef(x), (2, 4), dtypes="fdD"),
    Case("numpy.corrcoef", lambda np, x, y: np.corrcoef(x, y), (4,), (4,), dtypes="d"),
]
