"""Cases of functions applied to slices, to elements, and to indices."""

from functensor.primitives.core.test_samples import NONZERO, POSITIVE

from .harness import Case, Operand


def last_minus_first(row):
    """A function of one axis that returns a number."""
    return row[-1] - row[0] * row[1]


def signed_root(np, x):
    """Returns roots, with a function for each sign; NumPy's calls each on its own elements."""
    return np.piecewise(x, [x < 0, x > 1], [lambda x: -((-x) ** 0.5), np.sqrt, lambda x: x * x])


CASES = [
    Case("numpy.apply_along_axis",
         lambda np, x: np.apply_along_axis(last_minus_first, 0, x), (3, 2), dtypes="fdD"),
    Case("numpy.apply_along_axis",
         lambda np, x: np.apply_along_axis(lambda row: np.outer(row, row[:2]), 1, x), (2, 3, 2),
         dtypes="d"),
    Case("numpy.apply_over_axes", lambda np, x: np.apply_over_axes(np.sum, x, (0, -1)), (2, 3, 2)),
    Case("numpy.apply_over_axes", lambda np, x: np.apply_over_axes(np.cumsum, x, 1), (2, 3)),
    Case("numpy.fromfunction",
         lambda np, a: a * np.fromfunction(lambda i, j: i + 2 * j, (2, 3)), ()),
    Case("numpy.piecewise", signed_root, Operand((2, 4), NONZERO)),
    Case("numpy.piecewise", lambda np, x: np.piecewise(x, [x < 0], [-1.0, lambda x, k: x**k], 3),
         Operand((), POSITIVE)),
    Case("numpy.vectorize", lambda np, x, y: np.vectorize(lambda a, b: a * b + a)(x, y),
         (2, 1), (3,)),
    Case(
        "numpy.vectorize",
        lambda np, a, x: np.vectorize(lambda a, x: a @ x, signature="(m,n),(n)->(m)")(a, x),
        (2, 2, 3),
        (3,),
        dtypes="d",
    ),
    Case(
        "numpy.vectorize",
        lambda np, x, p: np.vectorize(
            lambda x, p: p[0] + p[1] * x, excluded=["p"], otypes=["float64"]
        )(x, p=p),
        (4,),
        (2,),
        dtypes="d",
    ),
    Case(
        "numpy.vectorize",
        lambda np, x: np.vectorize(lambda x: (x * x, 1 / x), otypes="dd")(x),
        Operand((2, 2), NONZERO),
        dtypes="d",
    ),
]
