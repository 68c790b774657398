"""Cases of minima and roots; references are what they are in closed form."""

import numpy
from support.run_on_device import beside

from .harness import Case


def real_root(a):
    """Returns the real solution of x**3 + x = a, by Cardano's formula."""
    inner = numpy.sqrt(a**2 / 4 + 1 / 27)
    return numpy.cbrt(a / 2 + inner) + numpy.cbrt(a / 2 - inner)


CASES = [
    Case(
        "scipy.optimize.minimize",
        lambda sp, a: sp.optimize.minimize(
            lambda x, a: (x**4 / 4 + x**2 / 2 - a * x).sum(),
            beside(a, [0.0, 0.0]),
            (a,),
            method="trust-exact",
            tol=1e-12,
        ).x,
        (2,),
        reference=real_root,
        dtypes="d",
    ),
    Case(
        "scipy.optimize.root",
        lambda sp, a: sp.optimize.root(
            lambda x, a: {"b": x["b"] ** 3 + x["b"] - a},
            {"b": beside(a, [1.0, 1.0])},
            (a,),
            tol=1e-13,
        ).x["b"],
        (2,),
        reference=real_root,
        dtypes="d",
    ),
]
