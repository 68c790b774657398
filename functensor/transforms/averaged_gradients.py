"""Means of gradients over processes, which begin while the backward pass still runs.

Within ``ft.distributed.data_parallel`` the outermost ``grad``, ``value_and_grad`` or ``minimize``
returns means. Gradients are put into buckets in the order in which the backward pass comes to them,
that of the first process. A bucket goes on its way when the pass has come to the last of its
gradients, and all buckets before it are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .. import tree
from ..backends.restoring import setting
from ..functions.arguments import Selection
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of, to_buffer
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import failure
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import base_trace, slot
from ..primitives.gradient_buckets import begin_mean, end_mean, keep, let_go, shard_length
from ..primitives.random.bits import SPLIT, random_keys
from ..traces.forward import zeros_like
from ..traces.reverse import Node

__all__ = ["Buckets", "Means", "averaged_over_processes", "first_users", "means_of_now"]

# The orders of gradients on which processes have agreed, by the inputs' shapes and dtypes.
_agreed: dict[Any, tuple[int, ...]] = {}


@dataclass(frozen=True)
class Means:
    """Says over which processes gradients are averaged, and how.

    Attributes:
        axes: the axes of processes.
        bucket_bytes: how large a bucket is, at least, before it goes on its way.
        parts: how many parts of the batch are gone through one after the other.
        scatter: whether each process gets its part of each gradient alone, as one axis.
    """

    axes: tuple[Any, ...]
    bucket_bytes: int
    parts: int = 1
    scatter: bool = False

    @property
    def count(self) -> int:
        """The number of processes."""
        return prod(axis.size for axis in self.axes)


def means_of_now(name: str) -> Means | None:
    """Returns how gradients are averaged that are taken now; None where they are not.

    Raises:
        ValueError: they are those of single examples of a ``vmap``.
    """
    axes = slot.axes
    if axes is None or axes.means is None:
        return None
    trace = base_trace()
    while trace is not trace.parent and trace.parent is not None:
        if trace.batching:
            raise failure(
                ValueError,
                f"{name} of single examples, under vmap, within data_parallel: their means over "
                "processes would be those of other examples",
                fix="spmd of the step, with ft.pmean of the mean gradient",
            )
        trace = trace.parent
    means: Means = axes.means
    return means


def averaged_over_processes(once: Callable[..., Any], means: Means, selection: Selection) -> Any:
    """Returns the value, the extras and the gradients of a function, as means over processes.

    Args:
        once: ``once(selection, buckets)`` returns them for this process, and has buckets take the
            value and the gradients.
        means: how they are averaged.
        selection: the arguments. Where there are several parts of the batch, those that are not
            differentiated are cut along their first axes.
    """
    buckets = Buckets(means)
    try:
        with setting(slot, axes=replace(slot.axes, means=None)):
            if means.count == means.parts == 1 and not means.scatter:
                return once(selection)
            *others, last = [selection] if means.parts == 1 else cut_calls(selection, means.parts)
            for other in others:
                value, _, gradients = once(other)
                buckets.add(value, gradients)
            _, aux, gradients = once(last, buckets)
            return buckets.value(), aux, gradients
    finally:
        buckets.let_go()


def cut_calls(selection: Selection, count: int) -> list[Selection]:
    """Returns calls with a part of the batch each; numbers and what is no array are in all.

    Raises:
        ValueError: an axis is not a multiple of the parts, or there is no batch.
    """
    chosen = set(tree.leaves(selection.places))
    batch = (
        {i: x for i, x in enumerate(selection.args) if i not in chosen},
        {name: x for name, x in selection.kwargs.items() if name not in chosen},
    )
    leaves, treedef = tree.flatten(batch)
    cut = [is_array_like(leaf) and bool(shape_of(leaf)) for leaf in leaves]
    if not any(cut):
        raise failure(
            ValueError,
            f"data_parallel: accumulate={count} has nothing to cut: the function that is "
            "differentiated takes no array beside those that it is differentiated by",
            fix="give the loss its batch as an argument: loss(params, x, y)",
        )
    keys = [has_axes and _is_like_a_key(leaf) for leaf, has_axes in zip(leaves, cut)]
    batches = [x for x, has_axes, key in zip(leaves, cut, keys) if has_axes and not key]
    if any(keys) and any(shape_of(x)[0] == 2 for x in batches):
        raise failure(
            ValueError,
            f"data_parallel: accumulate={count} cannot tell whether uint64[2] beside a batch of "
            "two examples is a random key or a number of each",
            fix="numbers.astype('int64'); or random.split(key, 2), a key of each example",
        )
    pieces = [
        _split_key(leaf, count) if key else _pieces(leaf, count) if has_axes else [leaf] * count
        for leaf, has_axes, key in zip(leaves, cut, keys)
    ]
    made = []
    for by_place, by_name in map(treedef.unflatten, zip(*pieces, strict=True)):
        part = copy(selection)
        part.args = [by_place.get(i, x) for i, x in enumerate(selection.args)]
        part.kwargs = {**selection.kwargs, **by_name}
        made.append(part)
    return made


def _is_like_a_key(leaf: Any) -> bool:
    """Says whether an array has a random key's shape and dtype; nothing else tells one."""
    known = shape_dtype(leaf)
    return known.shape == (2,) and known.dtype == np.uint64


def _split_key(key: Any, count: int) -> list[Any]:
    """Returns the keys that a random key is split into."""
    params = {"shape": (count, 2), "bits": 64, "stream": SPLIT}
    keys = random_keys.bind((key, 0), params)
    return [keys[i] for i in range(count)]


def _pieces(leaf: Any, count: int) -> list[Any]:
    """Returns the parts of an array of a batch."""
    length = shape_of(leaf)[0]
    if length % count:
        raise failure(
            ValueError,
            f"data_parallel: accumulate={count} cuts the first axes of batches, and one has the "
            f"length {length}",
            fix=f"batches of a multiple of {count}",
        )
    step = length // count
    return [leaf[i * step : (i + 1) * step] for i in range(count)]


def first_users(roots: Sequence[Node], inputs: Collection[Node]) -> dict[Node, int]:
    """Returns the numbers of the operations that used inputs first, of inputs that are reached.

    On the way back they are the last ones. Inputs that are roots themselves have a number above
    their own.
    """
    first = {node: node.number + 1 for node in roots if node in inputs}
    seen = set(roots)
    waiting = list(seen)
    while waiting:
        node = waiting.pop()
        for parent in node.parents:
            if parent is None:
                continue
            if parent in inputs:
                first[parent] = min(first.get(parent, node.number), node.number)
            elif parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return first


def arrivals(
    means: Means, leaves: Sequence[Any], nodes: Sequence[Node | None], first: dict[Node, int]
) -> tuple[int, ...]:
    """Returns the numbers of inputs in the order in which a pass completes their cotangents.

    It is the first process's order, by which all make their buckets. It says it once. Parts of a
    batch of one process alone go in its own order.

    Args:
        means: how gradients are averaged.
        leaves: the inputs.
        nodes: their nodes, None of those without a gradient.
        first: the numbers of the operations that used inputs first.
    """
    chosen = [i for i, node in enumerate(nodes) if node is not None]
    kinds = [shape_dtype(leaves[i]) for i in chosen]
    key = means, *chosen, *((kind.shape, kind.dtype) for kind in kinds)
    known = _agreed.get(key)
    if known is None:
        # What the pass does not reach is there from the beginning.
        unreached = max(first.values(), default=0) + 1
        chosen.sort(key=lambda i: -first.get(nodes[i], unreached))  # type: ignore[arg-type]
        size = sum(prod(kind.shape) * kind.dtype.itemsize for kind in kinds)
        if means.axes and size > means.bucket_bytes:
            # A process that stages the step alone, to look at its program, is to wait for nobody.
            said = means.axes[0].order_of_first(f"{key}", chosen, means.axes)
            chosen = [*said]
        known = _agreed[key] = tuple(chosen)
    return known


class _Arrived(PrimitiveLike):
    """Stands as the primitive of an input's node, whose cotangent is complete.

    Args:
        take: is called with it.
    """

    name = "gradient"
    broadcasts = False
    vjps = None

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> tuple[()]:
        """Takes the cotangent, which goes on to no operand."""
        self._take(g)
        return ()


class Bucket:
    """Gradients of one dtype that go together.

    Attributes:
        members: the numbers of their leaves.
        missing: how many of them have not come yet.
        handle: what stands for the sum that is on its way.
    """

    def __init__(self) -> None:
        self.members: list[int] = []
        self.missing = 0
        self.bytes = 0
        self.handle: Any = None


class Buckets:
    """The gradients of one backward pass.

    Args:
        means: how they are averaged.
    """

    def __init__(self, means: Means) -> None:
        self._means = means
        self._shape: tuple[int, ...] = ()
        self._of: dict[int, Bucket] = {}
        self._missing: set[int] = set()
        self._leaves: list[Any] = []
        self._found: dict[int, Any] = {}
        self._sums: list[Any] | None = None
        self._sum: Any = None
        self._buckets: list[Bucket] = []
        self._begun = 0
        self._watched: list[tuple[Node, int]] = []
        self._handle: Any = None

    def add(self, value: Any, gradients: Sequence[Any]) -> None:
        """Adds the value and the gradients of a part of the batch that is not the last one."""
        if self._sums is None:
            self._sum, self._sums = value, list(gradients)
        else:
            self._sum = ops.add(self._sum, value)
            self._sums = [ops.add(x, g) for x, g in zip(self._sums, gradients, strict=True)]

    def begin_value(self, value: Value) -> None:
        """Sends the function's value on its way; its mean is there when the pass has ended."""
        if self._sum is not None:
            value = ops.add(self._sum, value)
        self._shape = shape_of(value)
        self._handle = self._begin([value], scatter=False)

    def begin(
        self, leaves: Sequence[Any], nodes: Sequence[Node | None], first: dict[Node, int]
    ) -> None:
        """Gets ready for a backward pass, which hands over cotangents once they are complete.

        Args:
            leaves: the inputs.
            nodes: their nodes, None of those without a gradient.
            first: what `first_users` returned of the nodes from which the pass begins.
        """
        self._leaves = list(leaves)
        open_ones: dict[Any, Bucket] = {}
        filled: list[Bucket] = []
        for i in arrivals(self._means, leaves, nodes, first):
            known = shape_dtype(leaves[i])
            size = prod(known.shape) * known.dtype.itemsize
            bucket = open_ones.get(known.dtype)
            # What fills a bucket goes alone, and is not copied where a plan sees that it need not.
            if bucket is None or (bucket.bytes and size >= self._means.bucket_bytes):
                bucket = Bucket()
            else:
                del open_ones[known.dtype]
            bucket.members.append(i)
            bucket.missing += 1
            bucket.bytes += size
            if bucket.bytes < self._means.bucket_bytes:
                open_ones[known.dtype] = bucket
            filled.append(bucket)
        # In the order of their last gradients.
        self._buckets = [*dict.fromkeys(reversed(filled))][::-1]
        self._of = {i: bucket for bucket in self._buckets for i in bucket.members}
        self._missing = set(self._of)
        places = {node: i for i, node in enumerate(nodes) if node is not None}
        for order, (node, i) in enumerate(places.items(), 1):
            if node not in first:
                self._take(i, zeros_like(self._leaves[i]))
                continue
            self._watched.append((node, node.number))
            # Numbers of other nodes are integers.
            node.number = first[node] - order / (len(places) + 1)  # type: ignore[assignment]
            node.primitive = _Arrived(partial(self._take, i))

    def unwatch(self) -> None:
        """Makes the nodes of inputs what they were, after a pass or an error in it."""
        for node, number in self._watched:
            node.number, node.primitive = number, None
            node.saved = None
        self._watched.clear()

    def let_go(self) -> None:
        """Has nobody wait for what an error left on its way."""
        for handle in [self._handle, *(bucket.handle for bucket in self._buckets)]:
            if handle is not None and not isinstance(handle, Tracer):
                let_go(to_buffer(handle))
        self._handle = None
        self._buckets = []

    def _take(self, i: int, g: Any) -> None:
        if self._sums is not None:
            g = ops.add(self._sums[i], g)
        self._found[i] = g
        self._missing.discard(i)
        self._of[i].missing -= 1
        self._send()

    def _send(self) -> None:
        """Sends buckets on their way that are full, in their order."""
        while self._begun < len(self._buckets) and not self._buckets[self._begun].missing:
            bucket = self._buckets[self._begun]
            gs = [self._sent(i, self._found.pop(i)) for i in bucket.members]
            bucket.handle = self._begin(gs, scatter=self._means.scatter)
            self._begun += 1

    def _sent(self, i: int, g: Any) -> Any:
        """Returns a gradient as it is sent: MPI adds up half-precision ones in single precision."""
        half = shape_dtype(g).dtype.itemsize == 2
        return ops.astype(g, np.float32) if half and device_of(self._leaves[i]) == "cpu" else g

    def _begin(self, xs: Sequence[Any], scatter: bool) -> Any:
        params = {"axis_name": self._means.axes, "scatter": scatter, "lead": 0}
        handle = begin_mean.bind(xs, params)
        if not isinstance(handle, Tracer):
            keep(to_buffer(handle))
        return handle

    def _end(self, handle: Any) -> Any:
        """Returns the mean of what was sent."""
        params = {"axis_name": self._means.axes, "parts": self._means.parts}
        return end_mean.bind((handle,), params)

    def value(self) -> Any:
        """Returns the mean of the function's value, if it was sent."""
        if self._handle is None:
            return None
        handle, self._handle = self._handle, None
        return ops.reshape(self._end(handle), self._shape)

    def end(self) -> list[Any]:
        """Returns the means of the gradients, once the pass has ended."""
        self.unwatch()
        # An operation that uses an input may have no cotangent for it.
        for i in sorted(self._missing):
            self._take(i, zeros_like(self._leaves[i]))
        out = [None if i in self._of else zeros_like(x) for i, x in enumerate(self._leaves)]
        for bucket in self._buckets:
            handle, bucket.handle = bucket.handle, None
            flat, end = self._end(handle), 0
            for i in bucket.members:
                shape = shape_of(self._leaves[i])
                if self._means.scatter:
                    shape = (shard_length(prod(shape), self._means.count),)
                start, end = end, end + prod(shape)
                part = ops.reshape(flat[start:end], shape)
                dtype = shape_dtype(self._leaves[i]).dtype
                out[i] = part if shape_dtype(part).dtype == dtype else ops.astype(part, dtype)
        return out
