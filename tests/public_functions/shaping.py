"""Cases of functions that move, join, split and repeat elements."""

import numpy

from functensor.primitives.core.test_samples import DISTINCT, INDEX

from .harness import Case, Operand

PLACES = Operand((2, 2), INDEX(3))

CASES = [
    Case("numpy.append", lambda np, x, y: np.append(x, y), (2, 3), (2,)),
    Case("numpy.append", lambda np, x, y: np.append(x, y, axis=1), (2, 3), (2, 1)),
    Case("numpy.array_split", lambda np, x: np.array_split(x, 2), (5, 2)),
    Case("numpy.array_split", lambda np, x: np.array_split(x, [1, 3], axis=-1), (2, 4)),
    Case("numpy.atleast_1d", lambda np, x: np.atleast_1d(x), ()),
    Case("numpy.atleast_2d", lambda np, x: np.atleast_2d(x), (3,)),
    Case("numpy.atleast_3d", lambda np, x: np.atleast_3d(x), (3,)),
    Case("numpy.atleast_3d", lambda np, x: np.atleast_3d(x), (2, 3)),
    Case(
        "numpy.broadcast_arrays",
        lambda np, x, y: np.broadcast_arrays(x, y),
        *((2, 1), (3,)),
        # NumPy warns of writing into its own.
        reference=lambda x, y: tuple(z.copy() for z in numpy.broadcast_arrays(x, y)),
    ),
    Case("numpy.column_stack", lambda np, x, y: np.column_stack([x, y]), (3,), (3, 2)),
    Case("numpy.copy", lambda np, x: np.copy(x), (2, 3)),
    Case("numpy.delete", lambda np, x: np.delete(x, 1, axis=0), (3, 2)),
    Case("numpy.delete", lambda np, x: np.delete(x, [0, -1]), (2, 3)),
    *[
        Case("numpy.pad", lambda np, x, m=mode: np.pad(x, [(1, 2), (0, 3)], m), (2, 3))
        for mode in ("edge", "reflect", "symmetric", "wrap", "maximum", "mean", "minimum")
    ],
    Case("numpy.pad", lambda np, x: np.pad(x, [(1, 0), (2, 3)], "median", stat_length=[(2, 1)]),
         (3, 2), domain=DISTINCT),
    Case("numpy.pad", lambda np, x: np.pad(x, 2, "mean", stat_length=2), (3, 4), dtypes="fdD"),
    Case("numpy.pad", lambda np, x: np.pad(x, 2, "linear_ramp", end_values=(1.5, -1)), (2, 3),
         dtypes="fdD"),
    Case("numpy.diag", lambda np, x: np.diag(x), (3,)),
    Case("numpy.diag", lambda np, x: np.diag(x, -1), (3, 4)),
    Case("numpy.diagflat", lambda np, x: np.diagflat(x, 1), (2, 2)),
    Case("numpy.diagonal", lambda np, x: np.diagonal(x), (3, 4)),
    Case("numpy.diagonal", lambda np, x: np.diagonal(x, 1, 2, 0), (2, 3, 4)),
    Case("numpy.dsplit", lambda np, x: np.dsplit(x, 2), (2, 1, 4)),
    Case("numpy.dstack", lambda np, x, y: np.dstack([x, y]), (2, 3), (2, 3)),
    Case("numpy.expand_dims", lambda np, x: np.expand_dims(x, (0, -1)), (2, 3)),
    Case("numpy.fliplr", lambda np, x: np.fliplr(x), (2, 3)),
    Case("numpy.flipud", lambda np, x: np.flipud(x), (2, 3)),
    Case("numpy.hsplit", lambda np, x: np.hsplit(x, 2), (2, 4)),
    Case("numpy.hstack", lambda np, x, y: np.hstack([x, y]), (2, 1), (2, 3)),
    Case("numpy.hstack", lambda np, x, y: np.hstack([x, y]), (1,), (3,)),
    Case("numpy.insert", lambda np, x, v: np.insert(x, 1, v, axis=1), (2, 3), (2,)),
    Case("numpy.insert", lambda np, x, v: np.insert(x, [0, 2], v), (3,), (2,)),
    Case("numpy.insert", lambda np, x, v: np.insert(x, [1], v, axis=1), (2, 3), (2, 2)),
    Case("numpy.insert", lambda np, x: np.insert(x, slice(0, 3, 2), 1.0, axis=0), (3, 2)),
    Case("numpy.insert", lambda np, x: np.insert(x, 0, [1.0, 2.0]), (0,)),
    Case(
        "numpy.matrix_transpose", lambda np, x: np.matrix_transpose(x), (2, 3, 4), dtypes="fdD"
    ),
    Case("numpy.moveaxis", lambda np, x: np.moveaxis(x, [0, -1], [1, 0]), (2, 3, 4)),
    Case("numpy.put_along_axis", lambda np, x, v: put(np, x, v), (3, 2), (1, 2)),
    Case("numpy.ravel", lambda np, x: np.ravel(x), (2, 3)),
    Case("numpy.repeat", lambda np, x: np.repeat(x, 2, axis=1), (2, 3)),
    Case("numpy.repeat", lambda np, x: np.repeat(x, [1, 0, 2], axis=0), (3, 2)),
    Case("numpy.rot90", lambda np, x: np.rot90(x), (2, 3)),
    Case("numpy.rot90", lambda np, x: np.rot90(x, -1, axes=(2, 0)), (2, 3, 4)),
    Case("numpy.split", lambda np, x: np.split(x, 2, axis=1), (2, 4)),
    Case("numpy.squeeze", lambda np, x: np.squeeze(x, axis=(0, -1)), (1, 3, 1)),
    Case("numpy.swapaxes", lambda np, x: np.swapaxes(x, 0, -1), (2, 3, 4)),
    Case("numpy.take", lambda np, x, i: np.take(x, i, axis=0), (3, 2), PLACES),
    Case("numpy.take", lambda np, x, i: np.take(x, i), (3,), PLACES),
    Case(
        "numpy.take_along_axis",
        lambda np, x, i: np.take_along_axis(x, i, axis=1),
        (2, 3),
        PLACES,
    ),
    Case("numpy.tile", lambda np, x: np.tile(x, (2, 1, 2)), (2, 3)),
    Case("numpy.unstack", lambda np, x: np.unstack(x, axis=1), (2, 3)),
    Case("numpy.vsplit", lambda np, x: np.vsplit(x, [1]), (3, 2)),
    Case("numpy.vstack", lambda np, x, y: np.vstack([x, y]), (3,), (2, 3)),
]


def put(np, x, values):
    """Puts values along an axis; NumPy changes the array and returns nothing."""
    indices = numpy.array([[2, 0]])
    if np is not numpy:
        return np.put_along_axis(x, indices, values, axis=0, inplace=False)
    out = x.copy()
    numpy.put_along_axis(out, indices, values, axis=0)
    return out
