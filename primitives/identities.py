"""The identity that stops derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.annotations import ArrayModule, Buffer
from .core.annotations import Value
from .core.families import batch_filled, unary
from .core.primitive import Primitive
from .core.shape_dtype import ShapeDtype
from .core.test_samples import Sample

__all__ = ["batch_unchanged", "checkpoint_name", "infer_like_first", "optimization_barrier"]

# No rule: the derivative is zero, so that every mode treats the result as a constant.
stop_gradient = unary(
    "stop_gradient",
    compute=lambda xp, x: xp.asarray(x)[()],
    reference=lambda x: x,
    dtypes="fdD",
    doc="Returns its argument as a constant.",
)


def infer_like_first(
    primitive: Primitive, x: ShapeDtype, *others: ShapeDtype, **params: Any
) -> ShapeDtype:
    """Infers the shape and dtype of the first operand, whose result is no weak number."""
    return x.strong()


def _first_operand(xp: ArrayModule, x: Buffer, *others: Buffer, **params: Any) -> Buffer:
    return x if hasattr(x, "shape") else xp.asarray(x)[()]


def batch_unchanged(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    """Batches an operation that does the same to every example, by the same parameters."""
    return primitive.bind(values, params)


# A number of Python's stays one.
checkpoint_name = Primitive(
    "checkpoint_name",
    prepare=lambda x, name: ((x,), {"name": name}),
    compute=lambda xp, x, name: x, infer=lambda primitive, x, name: x, batch=batch_unchanged,
    vjp=(lambda g: g,),
    # The tangent is another value and has no name.
    jvp=(lambda g: g,),
    dtypes="fdD",
    reference=lambda x, name: x,
    samples=[Sample((), name="a"), Sample((2, 3), name="b"), Sample((0, 2), name="c")],
    doc="Returns its argument, known to policies by a name.",
)


# Passes know no more of it than its name, so that none sees through it. A computation on its output
# is another one than the same computation on its operand, and waits for the other operands.
optimization_barrier = Primitive(
    "optimization_barrier",
    prepare=lambda x, *others: ((x, *others), {}),
    compute=_first_operand, infer=infer_like_first, batch=batch_filled,
    vjp=lambda g, i: None if i else g,
    jvp=lambda g, i: None if i else g,
    dtypes="fdD",
    reference=lambda x, *others: x,
    samples=[Sample(()), Sample((2, 3), (2,)), Sample((0, 2), (), (3,))],
    doc="Returns its first argument, once the others are there too.",
)
