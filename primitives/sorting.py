"""Elements in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .primitive import Primitive
from .registry import registry as ops
from .rules import shape_of
from .samples import DISTINCT, Operand, Sample
from .types import ShapeDtype, canonical_axis

__all__ = ["argsort", "sort"]


def _prepare_sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    if order is not None:
        raise ValueError("order names fields of structured arrays; arrays hold numbers")
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    stable = bool(stable) or kind in ("stable", "mergesort")
    return (a,), {"axis": canonical_axis(axis, len(shape_of(a))), "stable": stable}


def _batch_sort(
    primitive: Primitive, values: Sequence[Any], flags: Sequence[bool], params: dict[str, Any]
) -> Any:
    return primitive.bind(values, {**params, "axis": params["axis"] + 1})


def _argsort_samples() -> list[Sample]:
    shapes = [((4,), 0), ((3, 4), -1), ((3, 2, 4), 1), ((0, 3), 0), ((2, 1), 0)]
    return [
        Sample(Operand(shape, DISTINCT), axis=axis % len(shape), stable=False)
        for shape, axis in shapes
    ]


# What both say of their arguments.
ARGUMENTS = """
    Args:
        a: an array.
        axis: along which axis; None flattens the array first.
        kind: ``stable`` (or ``mergesort``), or any other of NumPy's for the fastest.
        order: None; arrays have no fields to order by.
        stable: whether equal elements stay in their order.
"""

argsort = Primitive(
    "argsort",
    compute=lambda xp, x, *, axis, stable=False: xp.argsort(x, axis=axis, stable=stable),
    prepare=_prepare_sort,
    infer=lambda primitive, x, *, axis, stable=False: ShapeDtype(x.shape, "intp"),
    batch=_batch_sort,
    constant=True,
    samples=_argsort_samples(),
    doc=f"""Returns the indices that sort an array along an axis.
{ARGUMENTS}
    Returns:
        An array of integers of a's shape, for ``take_along_axis``.

    >>> import functensor.numpy as np
    >>> np.argsort(np.array([3.0, 1.0, 2.0]))
    Array([1, 2, 0], dtype=int64, device='cpu')
    """,
)


def _in_order(values: Any, x: Any, axis: int, stable: bool) -> Any:
    """Returns values that belong to x's elements in the order in which those are sorted."""
    order = argsort.bind((x,), {"axis": axis, "stable": stable})
    return ops.take_along_axis(values, order, axis)


def _back_in_place(g: Any, x: Any, axis: int, stable: bool) -> Any:
    """Returns values that belong to sorted elements in the places that those came from."""
    order = argsort.bind((x,), {"axis": axis, "stable": stable})
    return ops.take_along_axis(g, argsort.bind((order,), {"axis": axis, "stable": False}), axis)


sort = Primitive(
    "sort",
    compute=lambda xp, x, *, axis, stable=False: xp.sort(x, axis=axis, stable=stable),
    prepare=_prepare_sort,
    infer=lambda primitive, x, *, axis, stable=False: ShapeDtype(x.shape, x.dtype),
    batch=_batch_sort,
    vjp=(lambda g, x, *, axis, stable: _back_in_place(g, x, axis, stable),),
    jvp=(lambda t, x, *, axis, stable: _in_order(t, x, axis, stable),),
    samples=_argsort_samples(),
    doc=f"""Returns an array with its elements sorted along an axis.
{ARGUMENTS}
    Returns:
        An array of a's shape and dtype. Of equal elements each gets one cotangent of its own.

    >>> import functensor.numpy as np
    >>> np.sort(np.array([3.0, 1.0, 2.0]))
    Array([1., 2., 3.], dtype=float64, device='cpu')
    """,
)
