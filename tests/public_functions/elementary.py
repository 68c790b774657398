"""Cases of functions of numbers, element by element, that are made of primitives."""

from functensor.primitives.core.test_samples import INTEGER, POSITIVE, UNIT

from .harness import Case, Operand

CASES = [
    Case("numpy.sinc", lambda np, x: np.sinc(x), (2, 3), domain=UNIT),
    Case(
        "numpy.float_power",
        lambda np, x, y: np.float_power(x, y),
        (2, 3),
        (3,),
        domain=POSITIVE,
    ),
    Case(
        "numpy.float_power",
        lambda np, x: np.float_power(x, 2),
        Operand((3,), INTEGER),
        smooth=False,
    ),
    Case("numpy.polyval", lambda np, p, x: np.polyval(p, x), (3,), (2, 2)),
]
