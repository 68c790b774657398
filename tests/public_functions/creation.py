"""Cases of what makes arrays out of numbers and lists, and of evenly spaced numbers."""

from functensor.primitives.core.test_samples import POSITIVE

from .harness import Case, Operand

CASES = [
    Case(
        "numpy.array",
        lambda np, x: np.array([[x[0], 2.0], [x[1] * x[2], x[0]]]),
        (3,),
        dtypes="fdD",
    ),
    Case("numpy.array", lambda np, x, y: np.array([x, [1, 2, 3], (y, 0, y * y)]), (3,), ()),
    Case("numpy.array", lambda np, x: np.array([x, x * x], ndmin=4), (2, 3), dtypes="fdD"),
    Case(
        "numpy.array",
        lambda np, x: np.array([x if i % 9 == 0 else i for i in range(40)]),
        (),
    ),
    Case("numpy.asarray", lambda np, x: np.asarray([[x[0]], [x[1]]], dtype="float64"), (2,)),
    Case("numpy.copy", lambda np, x: np.copy(x), (2, 3), dtypes="fdD"),
    Case("numpy.full", lambda np, x: np.full((2, 3), x), (3,), dtypes="fdD"),
    Case("numpy.full_like", lambda np, x, y: np.full_like(x, y), (2, 3), ()),
    Case("numpy.zeros_like", lambda np, x: np.zeros_like(x), (2, 3), smooth=False),
    Case("numpy.ones_like", lambda np, x: np.ones_like(x), (2, 3), smooth=False),
    Case("numpy.linspace", lambda np, x, y: np.linspace(x, y, 4), (3,), ()),
    Case("numpy.linspace", lambda np, x, y: np.linspace(x, y, 3, False, axis=1), (2,), (2,)),
    Case("numpy.logspace", lambda np, x: np.logspace(x, 1.0, 3, base=2.0), ()),
    Case("numpy.geomspace", lambda np, x, y: np.geomspace(x, y, 4), *[Operand((2,), POSITIVE)] * 2),
]
