"""Views of tensors over NumPy's arrays, made at once, with the nodes that primitives would make."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..primitives.core.index_key import STATIC, basic_index_key
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import slot
from ..traces.reverse import make_node
from .grad_mode import mode
from .tape import TAPE

__all__ = [
    "at_key", "flattened", "in_shape", "short_view", "with_axes_permuted", "with_axes_swapped",
]  # fmt: skip

PLAIN_INTEGERS = frozenset({int})

# The name of a primitive, its parameters, and its result.
ShortResult: TypeAlias = tuple[str, dict[str, Any], Any]


def short_view(x: Any, data: Any, short: Any, args: tuple[Any, ...]) -> Any:
    """Returns a view of a tensor; None where the primitive is to be asked.

    That is so within transformations and under hooks, for tensors of other classes and buffers of
    other backends, and for arguments that are given in a rarer way, or do not fit.

    Args:
        x: the tensor.
        data: its buffer.
        short: one of the functions below.
        args: the arguments.
    """
    if slot.trace is not None or type(x) is not TAPE.tracer or x.home is not None:
        return None
    found = short(data, args) if type(data) is np.ndarray else None
    if found is None:
        return None
    name, params, buffer = found
    node = x.node
    if node is not None and mode.enabled:
        primitive = ops[name]
        saved = primitive.keepers[1](buffer, (data,))
        return TAPE.wrap(buffer, make_node(primitive, (node,), saved, params, buffer))
    return TAPE.wrap(buffer, None)


def in_shape(data: Any, args: tuple[Any, ...]) -> ShortResult | None:
    """Returns an array in a shape that is given as whole numbers, or as a tuple of them."""
    shape = args[0] if len(args) == 1 and type(args[0]) is tuple else args
    if not PLAIN_INTEGERS.issuperset(map(type, shape)):
        return None
    if prod(shape) != data.size or min(shape, default=0) < 0:
        return None
    return "reshape", {"shape": shape}, data.reshape(shape)


def flattened(data: Any, args: tuple[Any, ...]) -> ShortResult | None:
    """Returns an array with axes in a row made into one, from the first to the last of two."""
    rank = data.ndim
    if len(args) > 2 or not PLAIN_INTEGERS.issuperset(map(type, args)):
        return None
    first = args[0] if args else 0
    last = args[1] if len(args) > 1 else -1
    if not (-rank <= first < rank and -rank <= last < rank):
        return None
    first, last = first % rank, last % rank
    if first >= last:
        return None
    lengths = data.shape
    shape = (*lengths[:first], prod(lengths[first : last + 1]), *lengths[last + 1 :])
    return "reshape", {"shape": shape}, data.reshape(shape)


def with_axes_permuted(data: Any, args: tuple[Any, ...]) -> ShortResult | None:
    """Returns an array with its axes in an order that is given as `in_shape` takes a shape."""
    order = args[0] if len(args) == 1 and type(args[0]) is tuple else args
    rank = data.ndim
    if not PLAIN_INTEGERS.issuperset(map(type, order)) or not rank:
        return None
    axes = tuple([axis % rank for axis in order])
    if sorted(axes) != [*range(rank)] or not -rank <= min(order) <= max(order) < rank:
        return None
    return "transpose", {"axes": axes}, data.transpose(axes)


def with_axes_swapped(data: Any, args: tuple[Any, ...]) -> ShortResult | None:
    """Returns an array with two axes swapped, which are whole numbers."""
    rank = data.ndim
    if len(args) != 2 or not PLAIN_INTEGERS.issuperset(map(type, args)):
        return None
    i, j = args
    if not (-rank <= i < rank and -rank <= j < rank):
        return None
    order = [*range(rank)]
    order[i], order[j] = order[j], order[i]
    axes = tuple(order)
    return "transpose", {"axes": axes}, data.transpose(axes)


def at_key(data: Any, args: tuple[Any, ...]) -> ShortResult | None:
    """Returns what lies at a key of whole numbers, slices, None and Ellipsis."""
    (key,) = args
    items = key if type(key) is tuple else (key,)
    if not STATIC.issuperset(map(type, items)):
        return None
    static = basic_index_key(items)
    try:
        buffer = data[static.native]
    except IndexError:
        return None
    return "index", {"key": static}, buffer
