"""The rules of `algebra` for elements and slices of arrays that were sliced or joined."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..primitives.core.buffers import wrap
from ..primitives.core.index_key import ARRAY, FULL, IndexKey
from ..primitives.core.registry import registry
from ..programs.program import Equation, Variable, type_of
from .constants import constant_buffer
from .rewriter import Rewritten, Sweep, behind

if TYPE_CHECKING:
    from ..backends.annotations import Buffer

__all__ = ["INDEX_RULES"]

# Larger index arrays are left as they are: while staging nobody waits for them.
MOST_JOINED_INDICES = 1 << 20
JOINED_KEY = IndexKey((ARRAY,), 1)


def _one_index_array(sweep: Sweep, equation: Equation) -> Rewritten:
    """Joins constant index arrays for all axes to one for the array's elements in a row.

    NumPy takes elements by one index array in a fifth of the time that it needs for two.
    """
    x, *indices = equation.operands
    out = equation.outputs[0]
    if type(x) is not Variable or out.device != "cpu" or len(indices) < 2:
        return None
    if equation.params["key"].native != (ARRAY,) * x.type.ndim:
        return None
    if not 0 < out.type.size <= MOST_JOINED_INDICES:
        return None
    places = [constant_buffer(i) for i in indices]
    if any(type(i) is not np.ndarray or i.dtype.kind not in "iu" for i in places):
        return None
    # Numbers of uint64 beside others are floats to NumPy.
    if not all(np.can_cast(i.dtype, np.intp) for i in places):
        return None
    places = [i + (i < 0) * n for i, n in zip(places, x.type.shape, strict=True)]
    source = sweep.maker(x, "index")
    within = None if source is None else _places_within(source, places)
    if source is not None and within is not None:
        x, places = source.operands[0], within
    shape = type_of(x).shape
    joined = np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), shape)
    flat = sweep.add("reshape", [x], {"shape": (prod(shape),)}, equation)
    return equation.by(registry["index"], [flat, wrap(joined)], {"key": JOINED_KEY})


def _places_within(source: Equation, places: list[Buffer]) -> list[Buffer] | None:
    """Returns the places, in the array that was sliced, of places in a slice of it."""
    x, key = source.operands[0], source.params["key"]
    if key.arrays or type(x) is not Variable:
        return None
    native, shape = key.native, x.type.shape
    if any(type(item) not in (int, slice) for item in native):
        return None
    found, rest = [], iter(places)
    for item, length in zip((*native, *(FULL,) * (len(shape) - len(native))), shape, strict=True):
        if type(item) is int:
            found.append(np.asarray(item % length))
        else:
            first, _, step = item.indices(length)
            found.append(first + step * next(rest))
    return found


@behind("concatenate")
def _slice_of_a_part(sweep: Sweep, equation: Equation) -> Any:
    """Takes a slice that lies within one of several joined arrays of that array."""
    x, key = equation.operands[0], equation.params["key"]
    source = sweep.maker(x, "concatenate")
    if source is None or key.arrays:
        return None
    axis, shape = source.params["axis"], type_of(x).shape
    if len(key.native) <= axis or any(type(item) not in (int, slice) for item in key.native):
        return None
    item = key.native[axis]
    first, last, step = item.indices(shape[axis]) if type(item) is slice else (item, item + 1, 1)
    if step != 1 or not 0 <= first < last:
        return None
    begin = 0
    for part in source.operands:
        length = type_of(part).shape[axis]
        if begin <= first and last <= begin + length:
            break
        begin += length
    else:
        return None
    if type_of(part).dtype != type_of(x).dtype or type_of(part).weak:
        return None
    own = first - begin if type(item) is int else slice(first - begin, last - begin)
    native = (*key.native[:axis], own, *key.native[axis + 1 :])
    whole = [i == slice(0, n) or i == FULL for i, n in zip(native, type_of(part).shape)]
    if all(whole) and type_of(part) == equation.outputs[0].type:
        return part
    return equation.by(equation.primitive, [part], {"key": IndexKey(native)})


INDEX_RULES = (_one_index_array, _slice_of_a_part)
