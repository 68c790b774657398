"""Elements in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.families import along_one_axis, batch_along
from ..core.primitive import of_parameters
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import DISTINCT, Operand, Sample

__all__ = ["argsort", "sort"]

# NumPy finds a stable order of so many elements in hardly more time than another one.
FEW_SORTED = 256


def _prepare_sort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Prepared:
    if order is not None:
        raise ValueError("order names fields of structured arrays; arrays hold numbers")
    a, axis = along_one_axis(a, axis)
    stable = bool(stable) or kind in ("stable", "mergesort")
    return (a,), {"axis": axis, "stable": stable, "descending": bool(descending)}


def _prepare_argsort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Prepared:
    # The order of equal numbers is not seen, but the order of their places is.
    stable = True if kind is None and stable is None else stable
    return _prepare_sort(a, axis, kind, order, stable=stable, descending=descending)


def _argsort_samples() -> list[Sample]:
    shapes = [((4,), 0), ((3, 4), -1), ((3, 2, 4), 1), ((0, 3), 0), ((2, 1), 0)]
    return [
        Sample(Operand(shape, DISTINCT), axis=axis % len(shape), stable=False, descending=down)
        for shape, axis in shapes
        for down in (False, True)
    ]


# The arguments of both functions, for their documentation.
SORT_ARGUMENTS = """
    Args:
        a: an array.
        axis: along which axis; None flattens the array first.
        kind: ``stable`` (or ``mergesort``), or any other of NumPy's for the fastest.
        order: None; arrays have no fields to order by.
        stable: whether equal elements stay in their order, by default those of ``argsort`` alone.
        descending: whether the largest come first (NaN before them).
"""


def _argsort(xp: ArrayModule, x: Buffer, *, axis: int, stable: bool, descending: bool) -> Buffer:
    if not descending:
        return xp.argsort(x, axis=axis, stable=stable)
    # The array is reversed before and after, so that equal elements stay in their order.
    order = xp.flip(xp.argsort(xp.flip(x, axis), axis=axis, stable=stable), axis)
    return xp.subtract(x.shape[axis] - 1, order)


def _sort(xp: ArrayModule, x: Buffer, *, axis: int, stable: bool, descending: bool) -> Buffer:
    out = xp.sort(x, axis=axis, stable=stable)
    return xp.flip(out, axis) if descending else out


def _sort_reference(function: Callable[..., Buffer]) -> Callable[..., Buffer]:
    """Returns NumPy's function, which sorts upwards alone, for elements that are not equal."""

    def reference(x: Buffer, axis: int, stable: bool, descending: bool) -> Buffer:
        out = function(x, axis=axis, stable=stable)
        return np.flip(out, axis) if descending else out

    return reference

argsort = of_parameters(
    "argsort",
    compute=_argsort, prepare=_prepare_argsort,
    infer=lambda primitive, x, **params: ShapeDtype(x.shape, "intp"),
    batch=batch_along, constant=True, reference=_sort_reference(np.argsort),
    samples=_argsort_samples(),
    doc=f"""Returns the indices that sort an array along an axis.
{SORT_ARGUMENTS}
    Returns:
        An array of integers of a's shape, for ``take_along_axis``.

    >>> import functensor.numpy as np
    >>> np.argsort(np.array([3.0, 1.0, 2.0]))
    Array([1, 2, 0], dtype=int64, device='cpu')
    """,
)


def _order(x: Array, axis: int, stable: bool, descending: bool) -> Array:
    """Returns the order of elements; of few the stable one, in which nothing is left to chance."""
    stable = stable or shape_of(x)[axis] <= FEW_SORTED
    return argsort.bind((x,), {"axis": axis, "stable": stable, "descending": descending})


def _sort_jvp(t: Array, x: Array, *, axis: int, stable: bool, descending: bool) -> Array:
    """Returns values that belong to x's elements in the order in which those are sorted."""
    return ops.take_along_axis(t, _order(x, axis, stable, descending), axis)


def _sort_vjp(g: Array, x: Array, *, axis: int, stable: bool, descending: bool) -> Array:
    """Returns values that belong to sorted elements in the places that those came from."""
    order = _order(x, axis, stable, descending)
    return ops.take_along_axis(g, _order(order, axis, False, False), axis)


sort = of_parameters(
    "sort",
    compute=_sort, prepare=_prepare_sort,
    infer=lambda primitive, x, **params: ShapeDtype(x.shape, x.dtype),
    batch=batch_along,
    vjp=(_sort_vjp,), jvp=(_sort_jvp,), reference=_sort_reference(np.sort),
    samples=_argsort_samples(),
    doc=f"""Returns an array with its elements sorted along an axis.
{SORT_ARGUMENTS}
    Returns:
        An array of a's shape and dtype. Of equal elements each gets one cotangent of its own.

    >>> import functensor.numpy as np
    >>> np.sort(np.array([3.0, 1.0, 2.0]))
    Array([1., 2., 3.], dtype=float64, device='cpu')
    """,
)
