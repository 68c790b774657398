"""Elements that stand where they would if all were sorted, for less than sorting costs."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from ..core.annotations import ArrayLike, Prepared
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import along_one_axis, batch_along
from ..core.primitive import of_parameters
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import DISTINCT, Operand, Sample

__all__ = ["argpartition"]


def _places_from_front(kth: int | Sequence[int], length: int) -> tuple[int, ...]:
    """Returns the places, counted from the front and each once."""
    # Without elements there is no order to look for.
    wanted = [operator.index(k) for k in np.asarray(kth).reshape(-1) if length]
    for k in wanted:
        if not -length <= k < length:
            raise misfit(
                f"partition: kth={k} is out of bounds for an axis of length {length}",
                f"np.partition(x, {max(length - 1, 0)})",
            )
    return tuple(sorted({k % length for k in wanted}))


def _argpartition_arguments(
    a: ArrayLike,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> Prepared:
    if order is not None:
        raise ValueError("order names fields of structured arrays; arrays hold numbers")
    if kind != "introselect":
        raise ValueError(f"partition: kind is 'introselect', not {kind!r}")
    a, axis = along_one_axis(a, axis)
    return (a,), {"kth": _places_from_front(kth, shape_of(a)[axis]), "axis": axis}


argpartition = of_parameters(
    "argpartition",
    compute=lambda xp, x, *, kth, axis: (
        xp.argpartition(x, kth, axis=axis) if kth else xp.argsort(x, axis=axis)
    ),
    prepare=_argpartition_arguments,
    infer=lambda primitive, x, *, kth, axis: ShapeDtype(x.shape, "intp"),
    batch=batch_along, constant=True,
    reference=lambda x, *, kth, axis: np.argpartition(x, kth, axis=axis),
    samples=[
        Sample(Operand((5,), DISTINCT), kth=(2,), axis=0),
        Sample(Operand((3, 6), DISTINCT), kth=(1, 4), axis=1),
        Sample(Operand((4, 2), DISTINCT), kth=(0,), axis=0),
        Sample(Operand((3, 0), DISTINCT), kth=(1,), axis=0),
    ],
    doc="""Returns indices that put some elements of an array where sorting would put them.

    Args:
        a: an array.
        kth: which places get the element that sorting would put there, one or several; in front of
            each stand smaller or equal elements, behind it larger or equal ones.
        axis: along which axis; None flattens the array first.
        kind: ``introselect``, NumPy's only algorithm.
        order: None; arrays have no fields to order by.

    Returns:
        An array of integers of a's shape, for ``take_along_axis``.

    Raises:
        ShapeError: there is no such place.

    >>> import functensor.numpy as np
    >>> x = np.array([3.0, 1.0, 2.0])
    >>> x[np.argpartition(x, 1)]
    Array([1., 2., 3.], dtype=float64, device='cpu')
    """,
)
