"""Cases of decompositions: what they are made for, whichever signs and phases vectors have."""

from functensor.primitives.linalg.stacks import near

from .harness import Case
from .linalg import adjoint, definite


def spread(np, a):
    """Returns Hermitian matrices whose eigenvalues differ clearly."""
    return (a + adjoint(np, a)) / 2 + np.diag(np.arange(a.shape[-1]) * 5.0).astype(a.dtype)


def of_vectors(np, w, v):
    """Returns eigenvalues and what does not depend on the vectors' signs and phases."""
    return w, (v * w**2) @ adjoint(np, v), abs(v) ** 2


def eigen(np, a, **options):
    return of_vectors(np, *np.linalg.eigh(spread(np, a), **options))


def singular(np, a, **options):
    """Returns singular values, the matrix, its polar factor, and the spaces' projections."""
    u, s, vh = np.linalg.svd(a, **options)
    k = s.shape[-1]
    polar = u[..., :k] @ vh[..., :k, :]
    rest = u[..., k:] @ adjoint(np, u[..., k:]), adjoint(np, vh[..., k:, :]) @ vh[..., k:, :]
    return s, (u[..., :k] * s) @ vh[..., :k, :], polar, abs(u[..., :k]) ** 2, *rest


def rectangular(np, a):
    """Returns matrices whose singular values differ clearly."""
    return a + (np.eye(*a.shape[-2:]) * 5.0 * np.arange(1, a.shape[-1] + 1)).astype(a.dtype)


def case_of_svd(shape, dtypes, **options):
    return Case(
        "numpy.linalg.svd",
        lambda np, x: singular(np, rectangular(np, x), **options),
        shape,
        dtypes=dtypes,
    )


def factors(np, a, mode):
    """Returns R, and of Q what does not depend on the choice of the columns behind R's rows."""
    q, r = np.linalg.qr(a, mode=mode)
    k = min(a.shape[-2:])
    return r, q[..., :k], q[..., k:] @ adjoint(np, q[..., k:])


def case_of_qr(shape, mode="reduced", dtypes="fdD"):
    def call(np, x):
        return factors(np, rectangular(np, x), mode)

    return Case("numpy.linalg.qr", call, shape, dtypes=dtypes)


def ordered(np, a):
    """Returns eigenvalues by falling size, and the projection for the first one."""
    w, v = np.linalg.eig(a)
    order = np.argsort(-abs(w))
    w, first = np.take(w, order), np.take(v, order[0], axis=1)
    return w + 0j, abs(first) + 0j, first / first[0] + 0j


CASES = [
    Case("numpy.linalg.eigh", eigen, (3, 3), dtypes="fdD"),
    Case("numpy.linalg.eigh", lambda np, x: eigen(np, x, UPLO="U"), (3, 3), dtypes="dD"),
    Case(
        "numpy.linalg.eigh",
        lambda np, x: np.linalg.eigh(definite(np, x)).eigenvalues,
        (2, 2, 2),
    ),
    Case("numpy.linalg.eigh", lambda np, x: tuple(np.linalg.eigh(x)), (0, 0)),
    Case(
        "numpy.linalg.eigvalsh",
        lambda np, x: np.linalg.eigvalsh(spread(np, x)),
        (3, 3),
        dtypes="fdD",
    ),
    Case(
        "numpy.linalg.eigvalsh",
        lambda np, x: np.linalg.eigvalsh(definite(np, x), UPLO="U"),
        (2, 2, 2),
    ),
    case_of_svd((3, 3), "fdD"),
    case_of_svd((3, 2), "dD"),
    case_of_svd((2, 3), "dD"),
    case_of_svd((3, 2), "dD", full_matrices=False),
    case_of_svd((2, 3), "dD", full_matrices=False),
    Case(
        "numpy.linalg.svd",
        lambda np, x: np.linalg.svd(x, compute_uv=False),
        (2, 3, 2),
        dtypes="fdD",
    ),
    Case(
        "numpy.linalg.svd",
        lambda np, x: singular(np, spread(np, x), hermitian=True),
        (3, 3),
        dtypes="dD",
    ),
    Case(
        "numpy.linalg.svd",
        lambda np, x: np.linalg.svd(spread(np, x), compute_uv=False, hermitian=True),
        (3, 3),
    ),
    Case("numpy.linalg.svdvals", lambda np, x: np.linalg.svdvals(x), (2, 3), dtypes="fdD"),
    case_of_qr((3, 3)),
    case_of_qr((3, 2)),
    case_of_qr((2, 3)),
    case_of_qr((3, 1), "complete"),
    case_of_qr((2, 3), "complete", "d"),
    Case("numpy.linalg.qr", lambda np, x: np.linalg.qr(x, mode="r"), (2, 3, 2)),
    Case(
        "numpy.linalg.eig",
        lambda np, x: ordered(np, x + np.diag(np.arange(3) * 3.0).astype(x.dtype)),
        (3, 3),
        dtypes="dD",
    ),
    Case(
        "numpy.linalg.eig",
        lambda np, x: ordered(np, x),
        # A pair of conjugate eigenvalues, which a stable sort leaves in LAPACK's order.
        near([[5.0, 2.0, 0.0], [-3.0, 5.0, 0.0], [0.0, 0.0, 1.0]]),
        dtypes="d",
    ),
    Case(
        "numpy.linalg.eigvals",
        lambda np, x: np.linalg.eigvals(x + np.diag(np.arange(3) * 3.0).astype(x.dtype)) + 0j,
        (3, 3),
        dtypes="dD",
    ),
]
