"""The options that NumPy's ufuncs have, for calls of elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.annotations import DTypeLike
from .annotations import ArrayLike, operations
from .array import Array
from .buffers import DEVICE_TYPES, SEQUENCES, device_of
from .errors import refuse_out, refuse_where
from .registry import registry
from .shape_dtype import ShapeDtype, number_dtype, shape_dtype
from .ufunc_facts import LoopSignature, check_casting, check_order, checked_axes, loop_of
from .ufunc_methods import on_axes

if TYPE_CHECKING:
    from .array_annotations import Casting

__all__ = ["binary_arguments", "call_with_options", "joined_after_error", "unary_arguments",
    "with_lists_joined"]



def unary_arguments(
    x: ArrayLike,
    /,
    out: None = None,
    where: ArrayLike | None = None,
    casting: Casting | None = None,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool | None = None,
    signature: LoopSignature = None,
    sig: LoopSignature = None,
    axes: Sequence[Any] | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, ...]:
    """Returns the arguments of `call_with_options` for a call of a ``Unary`` with options."""
    return (x,), out, where, casting, dtype, order, (signature, sig), (axes, axis, keepdims)


def binary_arguments(
    x: ArrayLike,
    y: ArrayLike,
    /,
    out: None = None,
    where: ArrayLike | None = None,
    casting: Casting | None = None,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool | None = None,
    signature: LoopSignature = None,
    sig: LoopSignature = None,
    axes: Sequence[Any] | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, ...]:
    """Returns the arguments of `call_with_options` for a call of a ``Binary`` with options."""
    return (x, y), out, where, casting, dtype, order, (signature, sig), (axes, axis, keepdims)


def with_lists_joined(args: Sequence[Any]) -> list[Any]:
    """Returns operands with lists made into arrays, so that traced values in them are seen.

    A list goes where the arrays beside it are.
    """
    place = None
    if DEVICE_TYPES:
        arrays = (a for a in args if not isinstance(a, SEQUENCES))
        place = next((d for d in map(device_of, arrays) if d != "cpu"), None)
    return [registry.asarray(a, device=place) if isinstance(a, SEQUENCES) else a for a in args]


def joined_after_error(args: Sequence[ArrayLike], error: Exception) -> list[Any]:
    """Does the same after an error, which is raised again if there is no list."""
    if not any(isinstance(a, SEQUENCES) for a in args):
        raise error
    return with_lists_joined(args)


def call_with_options(
    primitive: Any,
    args: Sequence[ArrayLike],
    out: None,
    where: ArrayLike | None,
    casting: Casting | None,
    dtype: DTypeLike | None,
    order: str | None,
    signatures: tuple[LoopSignature, LoopSignature],
    places: tuple[Any, Any, Any],
) -> Array:
    """Applies a ``Unary`` or ``Binary`` with the options that NumPy's ufuncs have.

    Args:
        primitive, args: the primitive and its operands.
        out, where, order: refused, or without effect: nothing is written into an array.
        casting: which casts ``dtype`` may make of the operands, by default ``same_kind``.
        dtype: the result's dtype, in which it is computed; None for the usual one.
        signatures: the dtypes by which NumPy's loop is chosen, under both names of that.
        places: ``axes``, ``axis`` and ``keepdims``, of products alone.

    Raises:
        ImmutableArrayError: there is an array to write into, or a condition for it.
        TypeError: the dtype is not one that the operands may be cast to, or that comes out.
    """
    apply: Callable[..., Array] = primitive
    refuse_out(primitive.name, out, primitive.namespace)
    refuse_where(primitive.name, where, primitive.namespace)
    args = with_lists_joined(args)
    check_order(primitive.name, order)
    if any(x is not None for x in places):
        axes = checked_axes(primitive, *places)
        return on_axes(lambda *xs: apply(*xs, dtype=dtype), axes[0], args, axes[1])
    known = [shape_dtype(x) for x in args]
    if any(x is not None for x in signatures):
        kinds, result = loop_of(primitive.name, known, signatures, dtype, casting)
        args = [operations.astype(x, kind) for x, kind in zip(args, kinds, strict=True)]
        return operations.astype(apply(*args), result)
    if casting is not None:
        check_casting(primitive.name, known, dtype, casting)
    if dtype is None:
        return apply(*args)
    wanted = number_dtype(dtype)
    if primitive.infer(primitive, *known).dtype != wanted:
        for x in known:
            if not np.can_cast(x.dtype, wanted, casting or "same_kind"):
                raise TypeError(
                    f"{primitive.name}: dtype={wanted} does not hold the operands' {x.dtype}; "
                    f"np.{primitive.name}(...).astype({wanted}) casts the result"
                )
        cast = (ShapeDtype(x.shape, wanted) for x in known)
        if primitive.infer(primitive, *cast).dtype != wanted:
            raise TypeError(f"{primitive.name}: no result of operands has dtype {wanted}")
        args = [operations.astype(x, wanted) for x in args]
    return apply(*args)
