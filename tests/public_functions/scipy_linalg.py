"""Cases of SciPy's linear algebra."""

import numpy
import scipy.linalg
from support.run_on_device import beside, module_of

from functensor.primitives.linalg.stacks import near

from .harness import Case
from .linalg import adjoint, definite, regular


def stacked(function):
    """Returns SciPy's function for each of a stack of matrices, which older versions refuse."""

    def call(*operands):
        stack = numpy.broadcast_shapes(*(x.shape[:-2] for x in operands))
        full = [numpy.broadcast_to(x, (*stack, *x.shape[-2:])) for x in operands]
        outs = [function(*(x[place] for x in full)) for place in numpy.ndindex(*stack)]
        return numpy.stack(outs).reshape(*stack, *outs[0].shape)

    return call


# SciPy's functions do not take our namespace, so that a case's call gets arrays' own operations.
def triangular(a, b, dtypes="fdD", **options):
    return Case(
        "scipy.linalg.solve_triangular",
        lambda sp, x, y: sp.linalg.solve_triangular(regular(module_of(x), x), y, **options),
        a,
        b,
        dtypes=dtypes,
    )


def assumed(assume_a, dtypes="d", make=regular, **options):
    def call(sp, x, y):
        return sp.linalg.solve(make(module_of(x), x), y, assume_a=assume_a, **options)

    def reference(x, y):
        a = make(numpy, x)
        if options.get("transposed"):
            a = a.T
        return numpy.linalg.solve(a, y)

    return Case("scipy.linalg.solve", call, (3, 3), (3, 2), reference=reference, dtypes=dtypes)


def symmetric(np, a):
    return regular(np, a + np.swapaxes(a, -1, -2))


def upper(np, a):
    return np.triu(regular(np, a))


def lower(np, a):
    return np.tril(regular(np, a))


def diagonal(np, a):
    return np.tril(np.triu(regular(np, a)))


def banded(np, a):
    return np.tril(np.triu(regular(np, a), -1), 1)


def bands(l_and_u, shape, rhs, dtypes="d"):
    """Returns a case of a system whose main diagonal, a row of x, is the largest."""

    def call(sp, x, y):
        strong = numpy.zeros(shape[-2:])
        strong[l_and_u[1]] = 8.0
        return sp.linalg.solve_banded(l_and_u, x + beside(x, strong.astype(x.dtype)), y)

    reference = None
    if len(shape) > 2:
        reference = stacked(lambda x, y: call(scipy, x, y))
    options = {"reference": reference} if reference else {}
    return Case("scipy.linalg.solve_banded", call, shape, rhs, dtypes=dtypes, **options)


SYSTEMS = [
    triangular((3, 3), (3, 2), lower=True),
    triangular((3, 3), (3,), trans=1),
    triangular((3, 3), (3, 1), trans="C", lower=True),
    triangular((3, 3), (3, 1), "d", unit_diagonal=True),
    Case(
        "scipy.linalg.solve_triangular",
        lambda sp, x, y: sp.linalg.solve_triangular(regular(module_of(x), x), y),
        (2, 2, 2),
        (2, 1),
        reference=stacked(lambda x, y: scipy.linalg.solve_triangular(regular(module_of(x), x), y)),
    ),
    bands((1, 1), (3, 4), (4, 2), "fdD"),
    bands((2, 0), (3, 3), (3,)),
    bands((0, 1), (2, 2, 3), (3, 1)),
    assumed("gen", "fdD"),
    assumed("sym", make=symmetric),
    assumed("her", "dD", make=definite),
    assumed("pos", "dD", make=definite, lower=True),
    assumed("diagonal", make=diagonal),
    assumed("tridiagonal", make=banded),
    assumed("upper triangular", make=upper, transposed=True),
    assumed("lower triangular", make=lower),
    Case("scipy.linalg.inv", lambda sp, x: sp.linalg.inv(regular(module_of(x), x)), (3, 3)),
    Case("scipy.linalg.det", lambda sp, x: sp.linalg.det(x), (3, 3), dtypes="dD"),
    Case("scipy.linalg.norm", lambda sp, x: sp.linalg.norm(x, 1, axis=0), (3, 2)),
    Case("scipy.linalg.pinv", lambda sp, x: sp.linalg.pinv(x, atol=1e-3, return_rank=True), (3, 2)),
    Case("scipy.linalg.pinv", lambda sp, x: sp.linalg.pinv(x), (2, 3)),
    Case(
        "scipy.linalg.lstsq",
        lambda sp, x, y: [out for i, out in enumerate(sp.linalg.lstsq(x, y)) if i != 2],
        (4, 2),
        (4,),
        dtypes="d",
    ),
    Case(
        "scipy.linalg.cholesky",
        lambda sp, x: sp.linalg.cholesky(definite(module_of(x), x)),
        (3, 3),
        dtypes="fdD",
    ),
    Case(
        "scipy.linalg.cho_factor",
        lambda sp, x: numpy.tril(sp.linalg.cho_factor(definite(module_of(x), x), lower=True)[0]),
        (3, 3),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.cho_solve",
        lambda sp, x, y: sp.linalg.cho_solve(sp.linalg.cho_factor(definite(module_of(x), x)), y),
        (3, 3),
        (3, 2),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.cho_solve",
        lambda sp, x, y: sp.linalg.cho_solve(
            sp.linalg.cho_factor(definite(module_of(x), x), True), y
        ),
        (3, 3),
        (3,),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.lu",
        lambda sp, x: sp.linalg.lu(regular(module_of(x), x)),
        (3, 3),
        dtypes="fdD",
    ),
    Case("scipy.linalg.lu", lambda sp, x: sp.linalg.lu(x, permute_l=True), (4, 2)),
    Case("scipy.linalg.lu", lambda sp, x: sp.linalg.lu(x, p_indices=True)[1:], (2, 4)),
    Case(
        "scipy.linalg.lu_factor",
        lambda sp, x: sp.linalg.lu_factor(regular(module_of(x), x)),
        (3, 3),
    ),
    Case(
        "scipy.linalg.lu_solve",
        lambda sp, x, y: sp.linalg.lu_solve(sp.linalg.lu_factor(x), y),
        near([[0.0, 5.0, 0.0], [0.0, 0.0, 5.0], [5.0, 0.0, 0.0]]),
        (3,),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.lu_solve",
        lambda sp, x, y: sp.linalg.lu_solve(sp.linalg.lu_factor(x), y, trans=2),
        near([[0.0, 5.0, 0.0], [0.0, 0.0, 5.0], [5.0, 0.0, 0.0]]),
        (3, 2),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.solve_sylvester",
        lambda sp, x, y, q: sp.linalg.solve_sylvester(
            regular(module_of(x), x), regular(module_of(y), y), q
        ),
        (3, 3),
        (2, 2),
        (3, 2),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.solve_continuous_lyapunov",
        lambda sp, x, q: sp.linalg.solve_continuous_lyapunov(regular(module_of(x), x), q),
        (2, 2),
        (2, 2),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.solve_lyapunov",
        lambda sp, x, q: sp.linalg.solve_lyapunov(regular(module_of(x), x), q),
        (2, 2),
        (2, 2),
        dtypes="d",
        reference=lambda x, q: scipy.linalg.solve_continuous_lyapunov(regular(module_of(x), x), q),
    ),
    Case(
        "scipy.linalg.solve_discrete_lyapunov",
        lambda sp, x, q: sp.linalg.solve_discrete_lyapunov(regular(module_of(x), x), q),
        (2, 2),
        (2, 2),
        dtypes="dD",
    ),
]

LOW = near([[3.0, 1.0, 0.0], [-2.0, 4.0, 0.0], [0.0, 1.0, 2.0]])
STACK = near([[3.0, 1.0], [-2.0, 4.0]], 2)


def root(x):
    """SciPy's square root, which in older versions is complex for real matrices too."""
    out = scipy.linalg.sqrtm(x)
    return out if x.dtype.kind == "c" else out.real


FUNCTIONS = [
    Case("scipy.linalg.expm", lambda sp, x: sp.linalg.expm(x), (3, 3), dtypes="fdD", order=3),
    Case("scipy.linalg.expm", lambda sp, x: sp.linalg.expm(x), (2, 2, 2)),
    Case(
        "scipy.linalg.expm_frechet",
        lambda sp, x, y: sp.linalg.expm_frechet(x, y),
        (2, 2),
        (2, 2),
        dtypes="dD",
    ),
    Case(
        "scipy.linalg.expm_frechet",
        lambda sp, x, y: sp.linalg.expm_frechet(x, y, compute_expm=False),
        (2, 2),
        (2, 2),
        dtypes="d",
    ),
    Case("scipy.linalg.logm", lambda sp, x: sp.linalg.logm(x), LOW, dtypes="dD"),
    Case(
        "scipy.linalg.logm",
        lambda sp, x: sp.linalg.logm(x),
        STACK,
        dtypes="d",
        reference=stacked(scipy.linalg.logm),
    ),
    Case("scipy.linalg.sqrtm", lambda sp, x: sp.linalg.sqrtm(x), LOW, reference=root, dtypes="dD"),
    Case(
        "scipy.linalg.sqrtm",
        lambda sp, x: sp.linalg.sqrtm(x),
        STACK,
        dtypes="d",
        reference=stacked(root),
    ),
    Case("scipy.linalg.cosm", lambda sp, x: sp.linalg.cosm(x), (2, 2), dtypes="dD"),
    Case("scipy.linalg.sinm", lambda sp, x: sp.linalg.sinm(x), (2, 2), dtypes="dD"),
    Case(
        "scipy.linalg.fractional_matrix_power",
        lambda sp, x: sp.linalg.fractional_matrix_power(x, 0.3),
        LOW,
        dtypes="dD",
        reference=lambda x: scipy.linalg.expm(0.3 * scipy.linalg.logm(x)),
    ),
    Case(
        "scipy.linalg.fractional_matrix_power",
        lambda sp, x: sp.linalg.fractional_matrix_power(x, 2),
        (2, 2),
    ),
    Case("scipy.linalg.polar", lambda sp, x: sp.linalg.polar(x), (3, 2), dtypes="fdD"),
    Case("scipy.linalg.polar", lambda sp, x: sp.linalg.polar(x, side="left"), (2, 3), dtypes="dD"),
]


def spread(a):
    """Returns Hermitian matrices whose eigenvalues differ clearly."""
    levels = numpy.diag(numpy.arange(a.shape[-1]) * 9.0).astype(a.dtype)
    return (a + adjoint(numpy, a)) / 2 + beside(a, levels)


def of_pair(kind):
    def call(sp, x, y):
        w, v = sp.linalg.eigh(spread(x), definite(module_of(y), y), type=kind)
        return w, (v * w**2) @ adjoint(numpy, v), abs(v) ** 2

    return Case("scipy.linalg.eigh", call, (3, 3), (3, 3), dtypes="dD", rtol=1e-9)


def general(sp, x, **options):
    """Returns eigenvalues by falling size, and what does not depend on the vectors' phases."""
    levels = beside(x, numpy.diag(numpy.arange(3) * 5.0).astype(x.dtype))
    w, *vectors = sp.linalg.eig(x + levels, **options)
    order = numpy.argsort(-abs(w))
    columns = order[None, :] + 0 * order[:, None]
    picked = [numpy.take_along_axis(v, columns, axis=1) for v in vectors]
    return numpy.take(w, order) + 0j, *(abs(v) for v in picked)


DECOMPOSITIONS = [
    Case(
        "scipy.linalg.eigh",
        lambda sp, x: sp.linalg.eigh(spread(x), eigvals_only=True, subset_by_index=(1, 2)),
        (3, 3),
        dtypes="fdD",
    ),
    of_pair(1),
    of_pair(2),
    of_pair(3),
    Case(
        "scipy.linalg.eigvalsh",
        lambda sp, x, y: sp.linalg.eigvalsh(spread(x), definite(module_of(y), y)),
        (3, 3),
        (3, 3),
        dtypes="dD",
    ),
    Case("scipy.linalg.eig", general, (3, 3), dtypes="dD"),
    Case("scipy.linalg.eig", lambda sp, x: general(sp, x, left=True), (3, 3), dtypes="dD"),
    Case(
        "scipy.linalg.eig",
        lambda sp, x, y: general(sp, x, b=regular(module_of(y), y), left=True),
        (3, 3),
        (3, 3),
        dtypes="dD",
        rtol=1e-9,
    ),
    Case(
        "scipy.linalg.eigvals",
        lambda sp, x, y: numpy.sum(sp.linalg.eigvals(x, regular(module_of(y), y)) ** 2) + 0j,
        (3, 3),
        (3, 3),
        dtypes="dD",
    ),
    Case("scipy.linalg.svd", lambda sp, x: sp.linalg.svd(x)[1], (2, 3), dtypes="fdD"),
    Case("scipy.linalg.svdvals", lambda sp, x: sp.linalg.svdvals(x), (3, 2)),
    Case(
        "scipy.linalg.qr",
        lambda sp, x: sp.linalg.qr(regular(module_of(x), x), mode="economic"),
        (3, 3),
        dtypes="fdD",
    ),
    Case(
        "scipy.linalg.qr",
        lambda sp, x: sp.linalg.qr(regular(module_of(x), x), mode="economic", pivoting=True),
        (3, 3),
        dtypes="dD",
    ),
    Case("scipy.linalg.qr", lambda sp, x: sp.linalg.qr(x, mode="r", pivoting=True), (2, 3)),
    Case("scipy.linalg.qr", lambda sp, x: sp.linalg.qr(x)[1], (3, 2)),
    Case("scipy.linalg.qr", lambda sp, x: sp.linalg.qr(x, mode="r"), (2, 3)),
]

FORMS = [
    Case(
        "scipy.linalg.toeplitz",
        lambda sp, c, r: sp.linalg.toeplitz(c, r),
        (3,),
        (4,),
        dtypes="fdD",
    ),
    Case("scipy.linalg.toeplitz", lambda sp, c: sp.linalg.toeplitz(c), (3,), dtypes="fdD"),
    Case("scipy.linalg.hankel", lambda sp, c, r: sp.linalg.hankel(c, r), (3,), (2,)),
    Case("scipy.linalg.hankel", lambda sp, c: sp.linalg.hankel(c), (3,)),
    Case("scipy.linalg.circulant", lambda sp, c: sp.linalg.circulant(c), (3,), dtypes="fdD"),
    Case("scipy.linalg.companion", lambda sp, a: sp.linalg.companion(a), near([1.0, 0.0, 0.0])),
    Case(
        "scipy.linalg.block_diag",
        lambda sp, a, b, c: sp.linalg.block_diag(a, b, c),
        (2, 3),
        (2,),
        (),
        dtypes="fdD",
    ),
    Case("scipy.linalg.khatri_rao", lambda sp, a, b: sp.linalg.khatri_rao(a, b), (2, 3), (2, 3)),
    Case("scipy.linalg.hilbert", lambda sp: sp.linalg.hilbert(3), smooth=False, dtypes="d"),
]

CASES = SYSTEMS + FUNCTIONS + DECOMPOSITIONS + FORMS
