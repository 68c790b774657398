"""Cases of linear algebra: systems, inverses, determinants, products and norms."""

import numpy

from functensor.primitives.core.test_samples import INTEGER, NONZERO, Domain

from .harness import Case, Operand


def adjoint(np, a):
    """Returns matrices transposed and conjugated."""
    return np.conj(np.swapaxes(a, -1, -2))


def regular(np, a):
    """Returns matrices that are far from singular ones."""
    return a + 4 * np.eye(a.shape[-1], dtype=a.dtype)


def definite(np, a):
    """Returns positive definite matrices."""
    return regular(np, a @ adjoint(np, a))


def of_rank(np, a, b):
    """Returns matrices of the rank that their factors have in common."""
    return a @ adjoint(np, b)


def exponential(x):
    """The exponential by eigenvectors, for matrices without coinciding eigenvalues."""
    w, v = numpy.linalg.eig(x)
    out = v * numpy.exp(w) @ numpy.linalg.inv(v)
    return (out if x.dtype.kind == "c" else out.real).astype(x.dtype)


PRODUCTS = [
    Case("numpy.linalg.matmul", lambda np, x, y: np.linalg.matmul(x, y), (2, 3), (3, 2)),
    Case(
        "numpy.linalg.vecdot",
        lambda np, x, y: np.linalg.vecdot(x, y),
        (2, 3),
        (3,),
        dtypes="fdD",
    ),
    Case("numpy.linalg.vecdot", lambda np, x, y: np.linalg.vecdot(x, y, axis=0), (3, 2), (3, 2)),
    Case(
        "numpy.linalg.tensordot",
        lambda np, x, y: np.linalg.tensordot(x, y, axes=1),
        (2, 3),
        (3,),
    ),
    Case("numpy.linalg.outer", lambda np, x, y: np.linalg.outer(x, y), (2,), (3,)),
    Case("numpy.linalg.cross", lambda np, x, y: np.linalg.cross(x, y), (2, 3), (3,)),
    Case("numpy.linalg.cross", lambda np, x, y: np.linalg.cross(x, y, axis=0), (3, 2), (3, 2)),
    Case("numpy.linalg.diagonal", lambda np, x: np.linalg.diagonal(x, offset=1), (2, 2, 3)),
    Case("numpy.linalg.trace", lambda np, x: np.linalg.trace(x), (2, 2, 3)),
    Case("numpy.linalg.trace", lambda np, x: np.linalg.trace(x, offset=-1), (3, 2)),
    Case("numpy.linalg.matrix_transpose", lambda np, x: np.linalg.matrix_transpose(x), (2, 2, 3)),
    Case("numpy.linalg.matrix_power", lambda np, x: np.linalg.matrix_power(x, 3), (2, 2, 2)),
    Case(
        "numpy.linalg.matrix_power",
        lambda np, x: np.linalg.matrix_power(x, 0),
        (2, 2),
        smooth=False,
    ),
    Case(
        "numpy.linalg.matrix_power",
        lambda np, x: np.linalg.matrix_power(regular(np, x), -2),
        (2, 2),
    ),
    Case(
        "numpy.linalg.matrix_power",
        lambda np, x: np.linalg.matrix_power(x, 5),
        Operand((2, 2), INTEGER),
        smooth=False,
    ),
    Case(
        "numpy.linalg.multi_dot",
        lambda np, x, y, z: np.linalg.multi_dot([x, y, z]),
        (2, 3),
        (3, 4),
        (4, 1),
    ),
    Case(
        "numpy.linalg.multi_dot",
        lambda np, x, y, z: np.linalg.multi_dot([x, y, z]),
        (3,),
        (3, 2),
        (2,),
    ),
]


def systems(name, a, b):
    """Returns a case of a system with a regular matrix."""
    return Case(name, lambda np, x, y: np.linalg.solve(regular(np, x), y), a, b, dtypes="fdD")


SYSTEMS = [
    systems("numpy.linalg.solve", (3, 3), (3,)),
    systems("numpy.linalg.solve", (3, 3), (3, 2)),
    systems("numpy.linalg.solve", (2, 2, 2), (2,)),
    systems("numpy.linalg.solve", (2, 2), (3, 2, 1)),
    systems("numpy.linalg.solve", (0, 0), (0, 2)),
    Case("numpy.linalg.inv", lambda np, x: np.linalg.inv(regular(np, x)), (3, 3), dtypes="fdD"),
    Case("numpy.linalg.inv", lambda np, x: np.linalg.inv(regular(np, x)), (2, 2, 2)),
    Case("numpy.linalg.inv", lambda np, x: np.linalg.inv(x), (0, 0)),
    Case("numpy.linalg.pinv", lambda np, x: np.linalg.pinv(x), (3, 2), dtypes="dD"),
    Case(
        "numpy.linalg.pinv",
        lambda np, x, y: np.linalg.pinv(of_rank(np, x, y), rtol=1e-6),
        (3, 2),
        (4, 2),
        dtypes="dD",
    ),
    Case(
        "numpy.linalg.pinv",
        lambda np, x: np.linalg.pinv(definite(np, x), hermitian=True),
        (3, 3),
        dtypes="dD",
    ),
    Case(
        "numpy.linalg.pinv",
        lambda np, x: np.linalg.pinv(x, rcond=numpy.array([1e-3, 1e-4])),
        (2, 2, 3),
    ),
    Case("numpy.linalg.lstsq", lambda np, x, y: np.linalg.lstsq(x, y), (4, 2), (4, 2)),
    Case("numpy.linalg.lstsq", lambda np, x, y: np.linalg.lstsq(x, y), (4, 2), (4,), dtypes="fdD"),
    Case("numpy.linalg.lstsq", lambda np, x, y: np.linalg.lstsq(x, y)[0], (2, 4), (2, 1)),
    Case(
        "numpy.linalg.lstsq",
        lambda np, x, y, b: np.linalg.lstsq(of_rank(np, x, y), b, rcond=1e-6)[0],
        (4, 1),
        (3, 1),
        (4, 2),
    ),
    Case("numpy.linalg.det", lambda np, x: np.linalg.det(x), (3, 3), dtypes="fdD", order=3),
    Case("numpy.linalg.det", lambda np, x: np.linalg.det(x), (2, 2, 2)),
    Case("numpy.linalg.det", lambda np, x: np.linalg.det(x), (0, 0)),
    Case("numpy.linalg.slogdet", lambda np, x: tuple(np.linalg.slogdet(x)), (3, 3), dtypes="fdD"),
    Case("numpy.linalg.slogdet", lambda np, x: tuple(np.linalg.slogdet(x)), (2, 2, 2)),
    Case(
        "numpy.linalg.cholesky",
        lambda np, x: np.linalg.cholesky(definite(np, x)),
        (3, 3),
        dtypes="fdD",
    ),
    Case(
        "numpy.linalg.cholesky",
        lambda np, x: np.linalg.cholesky(definite(np, x), upper=True),
        (2, 2, 2),
        dtypes="dD",
    ),
    Case(
        "numpy.linalg.expm",
        lambda np, x: np.linalg.expm(x),
        (3, 3),
        reference=exponential,
        dtypes="fdD",
    ),
    Case(
        "numpy.linalg.tensorinv",
        lambda np, x: np.linalg.tensorinv(np.reshape(regular(np, x), (2, 2, 4)), ind=2),
        (4, 4),
    ),
    Case(
        "numpy.linalg.tensorsolve",
        lambda np, x, b: np.linalg.tensorsolve(np.reshape(regular(np, x), (2, 2, 4)), b),
        (4, 4),
        (2, 2),
    ),
    Case(
        "numpy.linalg.tensorsolve",
        lambda np, x, b: np.linalg.tensorsolve(
            np.reshape(regular(np, x), (2, 2, 2, 2)), b, axes=(0, 1)
        ),
        (4, 4),
        (2, 2),
    ),
]


def norms(shape, *, dtypes="fd", domain=NONZERO, **options):
    """Returns a case of `norm` with options."""
    return Case(
        "numpy.linalg.norm",
        lambda np, x: np.linalg.norm(x, **options),
        shape,
        dtypes=dtypes,
        domain=domain,
    )


NORMS = [
    norms((2, 3), dtypes="fdD"),
    norms((3,), ord=2),
    norms((3,), ord=1),
    norms((3,), ord=numpy.inf),
    norms((3,), ord=-numpy.inf),
    norms((3,), ord=3, dtypes="fdD"),
    norms((3,), ord=-1.5),
    norms((3,), ord=0.5),
    norms((2, 3), axis=1, keepdims=True),
    norms((2, 3), axis=0, ord=4),
    norms((2, 3), ord="fro", keepdims=True),
    norms((2, 3), ord="nuc", dtypes="fdD"),
    norms((2, 3), ord=1),
    norms((2, 3), ord=-1),
    norms((2, 3), ord=2, dtypes="fdD"),
    norms((2, 3), ord=-2),
    norms((2, 3), ord=numpy.inf),
    norms((2, 3), ord=-numpy.inf),
    norms((2, 3, 2), axis=(2, 0), ord="nuc", keepdims=True),
    norms((2, 3, 2), axis=(0, 2), ord=1),
    norms((0,)),
    Case("numpy.linalg.norm", lambda np, x: np.linalg.norm(x, ord=0), (3,), smooth=False),
    Case(
        "numpy.linalg.vector_norm",
        lambda np, x: np.linalg.vector_norm(x, axis=(0, 2), ord=3),
        (2, 3, 2),
        domain=NONZERO,
    ),
    Case(
        "numpy.linalg.vector_norm",
        lambda np, x: np.linalg.vector_norm(x, keepdims=True),
        (2, 3),
        dtypes="fdD",
    ),
    Case(
        "numpy.linalg.matrix_norm",
        lambda np, x: np.linalg.matrix_norm(x, ord="nuc", keepdims=True),
        (2, 2, 3),
    ),
    Case("numpy.linalg.matrix_norm", lambda np, x: np.linalg.matrix_norm(x), (2, 2, 3)),
    Case("numpy.linalg.cond", lambda np, x: np.linalg.cond(x), (2, 3), dtypes="dD"),
    Case("numpy.linalg.cond", lambda np, x: np.linalg.cond(regular(np, x), -2), (3, 3)),
    Case(
        "numpy.linalg.cond",
        lambda np, x: np.linalg.cond(regular(np, x), 1),
        (2, 2),
        domain=Domain(0.3, 1.0),
    ),
    Case("numpy.linalg.cond", lambda np, x: np.linalg.cond(regular(np, x), "fro"), (2, 2, 2)),
    Case(
        "numpy.linalg.matrix_rank",
        lambda np, x: np.linalg.matrix_rank(x),
        (2, 3, 2),
        smooth=False,
    ),
    Case(
        "numpy.linalg.matrix_rank",
        lambda np, x, y: np.linalg.matrix_rank(of_rank(np, x, y), rtol=1e-5),
        (3, 2),
        (3, 2),
        smooth=False,
    ),
    Case(
        "numpy.linalg.matrix_rank",
        lambda np, x: np.linalg.matrix_rank(definite(np, x), hermitian=True, tol=1e-3),
        (3, 3),
        smooth=False,
    ),
    Case("numpy.linalg.matrix_rank", lambda np, x: np.linalg.matrix_rank(x), (3,), smooth=False),
]

CASES = PRODUCTS + SYSTEMS + NORMS
