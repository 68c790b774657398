"""Cases of Hessenberg's form, of products with Q and of functions of matrices."""

import numpy as np
import scipy.linalg

from functensor.primitives.linalg.stacks import near

from .harness import Case

APART = near(np.diag([1.0, 4.0, 8.0]))
FORM = near(np.array([[0.0, 1, 2, 0], [1, -2, 0, 1], [2, 0, 1, 3], [0, 1, 1, 4]]))


def case(name, call, *operands, **options):
    return Case(f"scipy.linalg.{name}", lambda sp, *xs: call(sp.linalg, *xs), *operands, **options)


def like(function):
    """Returns the reference that computes in double precision."""

    def reference(x):
        wide = scipy.linalg.funm(x.astype("D" if x.dtype.kind == "c" else "d"), function)
        return (wide if x.dtype.kind == "c" else wide.real).astype(x.dtype)

    return reference


CASES = [
    case("hessenberg", lambda s, a: s.hessenberg(a), FORM, dtypes="fdD"),
    case("hessenberg", lambda s, a: s.hessenberg(a, calc_q=True), FORM, dtypes="dD"),
    case("hessenberg", lambda s, a: s.hessenberg(a, True), (2, 2), dtypes="d"),
    case("qr_multiply", lambda s, a, c: s.qr_multiply(a, c), (4, 2), (3, 4), dtypes="fdD"),
    case("qr_multiply", lambda s, a, c: s.qr_multiply(a, c, "left"), (4, 2), (2, 3), dtypes="dD"),
    case("qr_multiply", lambda s, a, c: s.qr_multiply(a, c, conjugate=True), (3, 2), (3,)),
    *[
        case("funm", lambda s, a, f=f: s.funm(a, f), APART, reference=like(f), dtypes="dD")
        for f in (np.exp, np.sqrt, np.sin)
    ],
    case("funm", lambda s, a: s.funm(a, np.exp), near(np.diag([0.0, 2.0])), reference=like(np.exp)),
]
