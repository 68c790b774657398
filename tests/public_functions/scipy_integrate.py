"""Cases of integrals of samples."""

import numpy
from support.run_on_device import beside

from functensor.primitives.core.test_samples import POSITIVE

from .harness import Case, Operand

TIMES = numpy.array([0.0, 0.3, 1.0])


def places(steps):
    """Returns ascending places from positive steps."""
    return steps.cumsum(-1)


CASES = [
    *[
        Case("scipy.integrate.simpson", lambda sp, y: sp.integrate.simpson(y, dx=0.5), (n, 2)[:r])
        for n, r in ((1, 1), (2, 1), (3, 1), (5, 1))
    ],
    Case("scipy.integrate.simpson", lambda sp, y: sp.integrate.simpson(y), (2, 6), dtypes="d"),
    Case("scipy.integrate.simpson", lambda sp, y: sp.integrate.simpson(y, axis=0), (5, 2)),
    *[
        Case(
            "scipy.integrate.simpson",
            lambda sp, y, h, a=axis: sp.integrate.simpson(y, x=places(h), axis=a),
            shape,
            Operand(steps, POSITIVE),
            dtypes="d",
        )
        for shape, steps, axis in (
            ((2,), (2,), -1),
            ((2, 5), (5,), 1),
            ((4, 2), (4,), 0),
            ((2, 4), (2, 4), -1),
        )
    ],
    Case(
        "scipy.integrate.simpson",
        lambda sp, y: sp.integrate.simpson(y, x=beside(y, [0.0, 1.0, 1.0, 1.0, 2.0, 2.0])),
        (6,),
        dtypes="d",
    ),
    Case("scipy.integrate.trapezoid", lambda sp, y: sp.integrate.trapezoid(y, axis=0), (3, 2)),
    Case(
        "scipy.integrate.trapezoid",
        lambda sp, y, h: sp.integrate.trapezoid(y, places(h)),
        (2, 3),
        Operand((3,), POSITIVE),
    ),
    Case(
        "scipy.integrate.cumulative_trapezoid",
        lambda sp, y: sp.integrate.cumulative_trapezoid(y, dx=0.5, axis=0),
        (3, 2),
    ),
    Case(
        "scipy.integrate.cumulative_trapezoid",
        lambda sp, y, h: sp.integrate.cumulative_trapezoid(y, places(h), initial=0),
        (2, 3),
        Operand((3,), POSITIVE),
    ),
    *[
        Case(
            "scipy.integrate.cumulative_simpson",
            lambda sp, y, a=axis: sp.integrate.cumulative_simpson(y, dx=0.5, axis=a, initial=0),
            shape,
        )
        for shape, axis in (((2,), 0), ((3,), 0), ((2, 4), 1), ((5, 2), 0))
    ],
    *[
        Case(
            "scipy.integrate.cumulative_simpson",
            lambda sp, y, h, a=axis: sp.integrate.cumulative_simpson(y, x=places(h), axis=a),
            shape,
            Operand(steps, POSITIVE),
            dtypes="d",
        )
        for shape, steps, axis in (((2,), (2,), 0), ((4, 2), (4,), 0), ((2, 5), (2, 5), 1))
    ],
    Case(
        "scipy.integrate.cumulative_simpson",
        lambda sp, y, d, i: sp.integrate.cumulative_simpson(y, dx=d, axis=0, initial=i),
        (4, 2),
        Operand((1, 2), POSITIVE),
        (1, 2),
        dtypes="d",
    ),
    Case(
        "scipy.integrate.odeint",
        lambda sp, y, p: sp.integrate.odeint(
            lambda y, t, p: -p * y, y, beside(y, TIMES), p, rtol=1e-12, atol=1e-12
        ),
        (2,),
        Operand((), POSITIVE),
        reference=lambda y, p: y * numpy.exp(-p * TIMES[:, None]).astype(y.dtype),
        # Errors of the solutions add up, from one equation to the next.
        grad_rtol=1e-6,
    ),
]
