"""Cases of piecewise cubics, by where they are evaluated, by places and by values."""

import numpy as np
from support.run_on_device import beside

from functensor.primitives.core.test_samples import DISTINCT, POSITIVE, Domain

from .harness import Case, Operand

# Places ascend by positive steps; evaluation lies off them, within and beyond.
STEPS = Operand((5,), POSITIVE)
WHERE = Operand((2, 2), Domain(0.8, 1.6))
VALUES = Operand((5,), DISTINCT)


def case(name, call, *operands, dtypes="d", **options):
    """Returns a case. SciPy's curves are of double precision."""

    def both(sp, *xs):
        return call(sp.interpolate, *xs)

    return Case(f"scipy.interpolate.{name}", both, *operands, dtypes=dtypes, **options)


def curves(name, *arguments, shape=(5,), axis=0, order=2, **keywords):
    """Returns the cases of a curve: values, and of plain ones a derivative and an integral too."""

    def made(s, h, y):
        return getattr(s, name)(h.cumsum(), y, axis, *arguments, **keywords)

    values, steps = Operand(shape, DISTINCT), Operand((shape[axis],), POSITIVE)
    whole = case(name, lambda s, h, y, x: made(s, h, y)(x), steps, values, WHERE, order=order)
    if arguments or shape != (5,) or keywords:
        return [whole]
    return [
        whole,
        case(name, lambda s, h, y, x: made(s, h, y)(x, 1), steps, values, WHERE, order=1),
        case(name, lambda s, h, y: made(s, h, y).integrate(0.9, 1.5, True), steps, values, order=1),
    ]


def closed(y):
    """Returns values of which the last one is the first."""
    return np.concatenate([y, y[:1]])


CASES = [
    *curves("CubicSpline"),
    *curves("CubicSpline", "natural", shape=(2, 4), axis=1, order=1),
    *curves("CubicSpline", ("clamped", (2, 0.5)), shape=(3,), order=1),
    *curves("CubicSpline", shape=(2,), order=1),
    *curves("CubicSpline", shape=(3,), order=1),
    case(
        "CubicSpline",
        lambda s, h, y, x: s.CubicSpline(h.cumsum(), closed(y), bc_type="periodic")(3 * x),
        STEPS,
        (4,),
        WHERE,
    ),
    case(
        "CubicSpline",
        lambda s, y, a, b: s.CubicSpline(beside(y, np.arange(5.0)), y, 0, ((1, a), (2, b)))(1.3),
        (5, 2),
        (2,),
        (2,),
    ),
    case(
        "CubicSpline",
        lambda s, y: s.CubicSpline(beside(y, np.arange(5.0)), y).antiderivative(2)(1.3),
        VALUES,
        order=1,
    ),
    *curves("PchipInterpolator", order=1),
    *curves("PchipInterpolator", shape=(2, 3), axis=1, order=1),
    *curves("PchipInterpolator", shape=(2,), order=1),
    *curves("Akima1DInterpolator", extrapolate=True, order=1),
    *curves("Akima1DInterpolator", method="makima", extrapolate=True, order=1),
    case(
        "CubicHermiteSpline",
        lambda s, h, y, d, x: s.CubicHermiteSpline(h.cumsum(), y, d)(x),
        Operand((3,), POSITIVE),
        (3,),
        (3,),
        WHERE,
    ),
    case(
        "PPoly",
        lambda s, c, h, x: s.PPoly(c, h.cumsum()).derivative()(x),
        (4, 2, 2),
        Operand((3,), POSITIVE),
        WHERE,
    ),
    case(
        "pchip_interpolate",
        lambda s, y, x: s.pchip_interpolate(beside(y, np.arange(5.0)), y, x, [0, 1]),
        VALUES,
        WHERE,
        order=1,
    ),
]
