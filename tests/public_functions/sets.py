"""Cases of sets, and of what is found by its value."""

from functools import partial

import numpy

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, LOGICAL, Domain

from .harness import Case, Operand

FEW = Domain(0, 3, kind="i")


def filled(function, size, fill):
    """Returns NumPy's function with results of a fixed length, as ours has it by size=."""

    def one(out):
        out = numpy.asarray(out)[:size]
        rest = numpy.full((size - len(out), *out.shape[1:]), fill, out.dtype)
        return numpy.concatenate([out, rest])

    def call(*operands):
        out = function(*operands)
        return tuple(map(one, out)) if isinstance(out, tuple) else one(out)

    return call


def sized(name, *operands, size=4, fill=-7, dtypes="d", smooth=False, **options):
    """Returns a case of a function with a size, whose results NumPy's are filled up to."""
    return Case(
        f"numpy.{name}",
        lambda np, *xs: getattr(np, name)(*xs, size=size, fill_value=fill, **options),
        *operands,
        reference=filled(partial(getattr(numpy, name), **options), size, fill),
        dtypes=dtypes,
        smooth=smooth,
    )


def five(values, first, inverse, counts, smallest):
    """Returns what NumPy found as a result of five elements has it."""
    fills = (values, 9), (first, smallest), (counts, 0)
    values, first, counts = (filled(lambda x: x, 5, fill)(x) for x, fill in fills)
    return values, first, inverse, counts


def apart(np, x):
    """Returns an array with pairs of equal elements, which differ clearly otherwise."""
    return np.concatenate([x, x[1:]])


CASES = [
    sized("nonzero", Operand((2, 3), LOGICAL)),
    sized("nonzero", Operand((5,), LOGICAL), size=2),
    sized("flatnonzero", Operand((2, 3), LOGICAL), size=7),
    sized("argwhere", Operand((2, 2), LOGICAL)),
    sized("unique", Operand((6,), FEW)),
    sized("unique", Operand((4,), DISTINCT), size=6, smooth=True),
    sized("unique", Operand((2, 3), FEW), size=2),
    sized("unique", Operand((4, 2), Domain(0, 1, kind="i")), size=3, axis=0),
    Case(
        "numpy.unique",
        lambda np, x: np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, size=5, fill_value=9
        ),
        Operand((2, 4), FEW),
        reference=lambda x: five(*numpy.unique(x, True, True, True), numpy.argmin(x)),
        smooth=False,
        dtypes="d",
    ),
    Case(
        "numpy.unique_all",
        lambda np, x: np.unique_all(x, size=5, fill_value=9),
        Operand((2, 4), FEW),
        reference=lambda x: five(*numpy.unique_all(x), numpy.argmin(x)),
        smooth=False,
        dtypes="d",
    ),
    Case(
        "numpy.unique_counts",
        lambda np, x: np.unique_counts(x, size=5, fill_value=9),
        Operand((6,), FEW),
        reference=lambda x: five(*numpy.unique(x, True, True, True), 0)[::3],
        smooth=False,
        dtypes="d",
    ),
    Case(
        "numpy.unique_inverse",
        lambda np, x: np.unique_inverse(x, size=5, fill_value=9),
        Operand((6,), FEW),
        reference=lambda x: five(*numpy.unique(x, True, True, True), 0)[::2],
        smooth=False,
        dtypes="d",
    ),
    Case(
        "numpy.extract",
        lambda np, m, x: np.extract(m, x, size=3, fill_value=2.0),
        Operand((2, 2), LOGICAL),
        (2, 2),
        reference=lambda m, x: filled(numpy.extract, 3, 2.0)(m, x),
    ),
    *[
        Case(f"numpy.{name}", lambda np, x, name=name: getattr(np, name)(x),
             Operand((6,), FEW), smooth=False, static=True, dtypes="d")
        for name in (
            "unique", "unique_all", "unique_counts", "unique_inverse", "nonzero", "flatnonzero",
        )
    ],
    # NumPy's own has no order.
    Case("numpy.unique_values", lambda np, x: np.unique_values(x), Operand((6,), FEW),
         reference=numpy.unique, smooth=False, static=True),
    Case("numpy.unique_values", lambda np, x: np.unique_values(x, size=5, fill_value=-7),
         Operand((6,), FEW), reference=filled(numpy.unique, 5, -7), smooth=False),
    Case("numpy.unique", lambda np, x: np.unique(apart(np, x)), Operand((3,), DISTINCT),
         static=True),
    *[
        Case(f"numpy.{name}", lambda np, x, y, name=name: getattr(np, name)(x, y),
             Operand((6,), FEW), Operand((2, 2), FEW), smooth=False, static=True, dtypes="d")
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")
    ],
    *[
        sized(name, Operand((5,), FEW), Operand((3,), FEW), size=6, fill=-1)
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")
    ],
    Case("numpy.setdiff1d", lambda np, x, y: np.setdiff1d(x, y), Operand((4,), DISTINCT),
         Operand((2,), DISTINCT), static=True),
    Case("numpy.isin", lambda np, x, y: np.isin(x, y), Operand((2, 3), FEW),
         Operand((2,), FEW), smooth=False),
    Case("numpy.isin", lambda np, x, y: np.isin(x, y, invert=True), Operand((), INTEGER),
         Operand((2, 2), INTEGER), smooth=False),
    Case("numpy.in1d", lambda np, x, y: np.in1d(x, y), Operand((2, 3), FEW), Operand((2,), FEW),
         reference=lambda x, y: numpy.isin(x.ravel(), y), smooth=False),
    Case("numpy.compress", lambda np, m, x: np.compress(m, x, axis=1), Operand((3,), LOGICAL),
         (2, 4), static=True),
    Case("numpy.extract", lambda np, m, x: np.extract(m, x), Operand((2, 2), LOGICAL), (2, 2),
         static=True),
    Case(
        "numpy.compress",
        lambda np, m, x: np.compress(m, x, axis=0, size=3, fill_value=2.0),
        Operand((4,), LOGICAL),
        (4, 2),
        reference=lambda m, x: filled(lambda: numpy.compress(m, x, axis=0), 3, 2.0)(),
    ),
    Case("numpy.delete", lambda np, m, x: np.delete(x, m), Operand((4,), LOGICAL), (4,),
         static=True),
    Case(
        "numpy.delete",
        lambda np, m, x: np.delete(x, m, axis=0, size=3, fill_value=2.0),
        Operand((4,), LOGICAL),
        (4, 2),
        reference=lambda m, x: filled(lambda: numpy.delete(x, m, axis=0), 3, 2.0)(),
    ),
    Case(
        "numpy.delete",
        lambda np, i, x: np.delete(x, i, size=5, fill_value=2.0),
        Operand((2,), FEW),
        (2, 3),
        reference=lambda i, x: filled(lambda: numpy.delete(x, i), 5, 2.0)(),
    ),
    Case("numpy.delete", lambda np, i, x: np.delete(x, i, axis=1), Operand((), FEW), (2, 4)),
    Case("numpy.digitize", lambda np, x, b: np.digitize(x, np.sort(b)), (2, 3),
         Operand((4,), DISTINCT), smooth=False),
    Case("numpy.digitize", lambda np, x, b: np.digitize(x, np.sort(b)[::-1], right=True), (3,),
         Operand((3,), DISTINCT), smooth=False),
]
