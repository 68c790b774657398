"""Views of tensors by windows over an axis, and by distances in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..primitives.core.array import Tracer
from ..primitives.core.errors import failure
from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import canonical_axis
from ..primitives.core.trace import under
from .functions.naming import as_tensor_result
from .functions.shapes import places_by_strides
from .grad_mode import GradMode, mode
from .tape import TAPE
from .views import Recast, viewing

__all__ = ["as_strided", "unfold"]


def has_strides(buffer: Any) -> bool:
    """Says whether a tensor's buffer lies in memory, at distances that are known."""
    return not isinstance(buffer, Tracer) and hasattr(buffer, "strides") and bool(buffer.size)


def over_memory(
    x: Any, compute: Callable[[], Any], memory: Any, shape: Sequence[int], strides: Sequence[int]
) -> Any:
    """Returns a tensor that lies in memory that is there; its node is that of what is computed.

    Args:
        x: the tensor that it is a view of.
        compute: computes the same elements from ``x``.
        memory: a buffer that begins with the first element.
        shape: the view's shape.
        strides: its strides, in bytes.
    """
    package = type(memory).__module__.partition(".")[0]
    tricks = import_module(f"{package}.lib.stride_tricks")
    own = tricks.as_strided(memory, tuple(shape), tuple(strides))
    if x.node is None or not mode.enabled:
        return TAPE.wrap(own, None)
    out = compute()
    out._data = own
    return out


# -- windows


def unfolded(x: Any, dimension: int, size: int, step: int) -> Any:
    """Returns windows over an axis, as a last axis; see `torch.Tensor.unfold`."""
    if x.ndim == 0:
        x = ops.reshape(x, 1)
    axis = canonical_axis(dimension, x.ndim)
    length = x.shape[axis]
    if not 0 <= size <= length or step <= 0:
        raise failure(
            RuntimeError,
            f"unfold: windows of {size} at steps of {step} over an axis of {length}",
            fix="a window is no longer than the axis, and the step is positive",
            number=None,
        )
    count = (length - size) // step + 1

    def compute() -> Any:
        places = np.arange(count)[:, None] * step + np.arange(size)
        return ops.moveaxis(ops.take(x, places, axis), axis + 1, -1)

    if not has_strides(x._data):
        return compute()
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], size)
    steps = x._data.strides
    strides = (*steps[:axis], steps[axis] * step, *steps[axis + 1 :], steps[axis])
    return over_memory(x, compute, x._data, shape, strides)


unfold = viewing(unfolded, windows=True)


# -- distances


def axes_in_memory(x: Any) -> tuple[int, ...]:
    """Returns the axes of a tensor as they lie in memory, the outermost first."""
    axes = tuple(range(x.ndim))
    if not has_strides(x._data) or any(stride < 0 for stride in x._data.strides):
        return axes
    return tuple(sorted(axes, key=lambda axis: -x._data.strides[axis]))


def by_distances(
    x: Any, size: tuple[int, ...], stride: tuple[int, ...], start: int, order: tuple[int, ...]
) -> Any:
    """Returns elements by their distances in the memory of a tensor, whose axes lie in an order."""

    def compute() -> Any:
        row = ops.reshape(ops.transpose(x, order), -1)
        return ops.take(row, places_by_strides(size, stride, start), 0)

    if not has_strides(x._data):
        return compute()
    row = x._data.transpose(order).reshape(-1)
    strides = [distance * x.dtype.itemsize for distance in stride]
    return over_memory(x, compute, row[start:], size, strides)


view_by_distances = viewing(by_distances, windows=True)
view_without_graph = viewing(by_distances, recorded=False, windows=True)


def first_place(x: Any, sources: Sequence[Any], root: Any, order: tuple[int, ...]) -> int:
    """Returns where the first element of a view lies in the memory of the tensor behind it."""
    if not sources:
        return 0
    if not x.numel():
        raise failure(
            RuntimeError,
            f"as_strided: {x.describe()} is a view without elements, and so without a first place",
            fix="x.as_strided(size, stride, storage_offset)",
            number=None,
        )
    numbers = np.arange(root.numel()).reshape([root.shape[axis] for axis in order])
    with under(None), GradMode(False):
        found = TAPE.wrap(numbers.transpose(np.argsort(order)) if order else numbers, None)
        for _, take, key, *_ in reversed(sources):
            found = found[key] if take is None else take(found)
    return int(found._data.ravel()[0])


def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Returns elements by their distances in memory; a view.

    Args:
        input: a tensor; the distances are in the memory of the tensor that it is a view of.
        size: the shape.
        stride: the distance of neighbours along each axis, in elements.
        storage_offset: the place of the first element; by default that of ``input``.

    Raises:
        RuntimeError: an element would lie outside of the memory, or a distance is negative.
        NotImplementedError: ``input`` is a view of parts of complex numbers.

    >>> import functensor.torch as torch
    >>> torch.as_strided(torch.arange(4), (3, 2), (1, 1)).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    x = as_tensor_result(input)
    root, sources = x, []
    while (source := getattr(root, "_source", None)) is not None:
        sources.append(source)
        root = source[0]
    if any(isinstance(source[1], Recast) for source in sources):
        raise failure(
            NotImplementedError,
            "as_strided: a view of parts of complex numbers lies between their other parts",
            fix="x.clone().as_strided(size, stride)",
            number=None,
        )
    order = axes_in_memory(root)
    start = storage_offset
    if start is None:
        start = first_place(x, sources, root, order)
    last = start + sum([(n - 1) * distance for n, distance in zip(size, stride, strict=True)])
    fits = not all(size) or (start >= 0 and last < root.numel())
    if min(stride, default=0) < 0 or not fits:
        raise failure(
            RuntimeError,
            f"as_strided: elements {start} to {last} of a memory of {root.numel()}, at distances "
            f"{tuple(stride)}",
            fix="distances that are not negative, and a size that stays within the memory",
            number=None,
        )
    recorded = all(source[3] for source in sources)
    if not isinstance(root, TAPE.tracer):
        return by_distances(root, tuple(size), tuple(stride), start, order)
    view = view_by_distances if recorded else view_without_graph
    with GradMode(mode.enabled and recorded):
        return view(root, tuple(size), tuple(stride), start, order)
