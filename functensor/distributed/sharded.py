"""Optimizers whose states, gradients and parameters are spread over processes.

S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from math import prod
from typing import Any

from .. import tree
from ..backends.restoring import setting
from ..optim.clipping import clipped_to_norm, sum_of_squares
from ..optim.optimizer import Optimizer, is_updated
from ..primitives.core.annotations import operations as ops
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import describe, failure
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import slot
from ..primitives.gradient_buckets import shard_length
from ..programs.staging import eval_shape
from ..transforms.averaged_gradients import Means
from ..transforms.grad import differentiated
from .data_parallel import MEGABYTE, bucket_bytes
from .mesh import axes_by_name, axes_of_step
from .shards import (
    Shard,
    axes_of_now,
    gather,
    is_shard,
    join,
    names_of,
    own_part,
    position,
    shard_tree,
)

__all__ = ["ShardedOptimizer", "sharded"]

REASONS = {
    "parameter": "looks at whole parameters, of which each process has a part",
    "tree": "looks at all parameters together, of which each process has a part",
    "unknown": "may look at more than an element of a parameter at a time",
}


class ShardedOptimizer(Optimizer[Any]):
    """An optimizer whose state is spread over processes; `sharded` makes it.

    Attributes:
        inner: the optimizer that updates parts.
        stage: what is spread: 1 states, 2 gradients too, 3 parameters too.
    """

    __slots__ = ("_bytes", "_gathers", "_max_norm", "_names", "inner", "stage")

    def __init__(
        self,
        inner: Optimizer[Any],
        names: tuple[Hashable, ...],
        stage: int,
        max_norm: Any,
        gathers: bool,
        bucket_megabytes: float,
    ) -> None:
        super().__init__(inner.name, self._init, self._update, reach="tree")
        self.inner = inner
        self.stage = stage
        self._names = names
        self._max_norm = max_norm
        self._gathers = gathers
        self._bytes = bucket_bytes("sharded", bucket_megabytes)

    def shard(self, params: Any) -> Any:
        """Returns a tree with a `Shard` in the place of each array; shards stay as they are."""
        return shard_tree(params, axes_of_now(self._names))

    def gather(self, values: Any) -> Any:
        """Returns a tree of parameters, or a state, with whole arrays; all processes call it."""
        return gather(values, self._names, bucket_megabytes=self._bytes / MEGABYTE)

    def _init(self, params: Any) -> Any:
        axes = axes_of_now(self._names)
        shards = shard_tree(params, axes)
        return _marked(self.inner, shards, axes)

    def _update(self, params: Any, state: Any, grads: Any) -> tuple[Any, Any]:
        axes = axes_of_now(self._names)
        shards = shard_tree(params, axes)
        parts, gradients = _without_shards(shards), _without_shards(shard_tree(grads, axes))
        return self._updated(params, shards, parts, state, gradients, axes)

    def _updated(
        self, params: Any, shards: Any, parts: Any, state: Any, gradients: Any, axes: Any
    ) -> tuple[Any, Any]:
        """Returns parameters and a state after an update of parts by their mean gradients."""
        if self._max_norm is not None:
            gradients = _clipped_parts(gradients, self._max_norm, axes)
        parts, after = self.inner.update(parts, _without_shards(state), gradients)
        leaves, treedef = tree.flatten(state, is_leaf=is_shard)
        after = treedef.unflatten(
            replace(old, part=new) if is_shard(old) else new
            for old, new in zip(leaves, tree.leaves(after), strict=True)
        )
        old, treedef = tree.flatten(shards, is_leaf=is_shard)
        new = [replace(x, part=part) for x, part in zip(old, tree.leaves(parts), strict=True)]
        if self.stage == 3 and any(map(is_shard, tree.leaves(params, is_leaf=is_shard))):
            return treedef.unflatten(new), after
        wholes = join([x.part for x in new], [x.shape for x in new], axes, self._bytes)
        return treedef.unflatten(wholes), after

    def minimize(self, loss: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
        """Returns a step, as of `Optimizer`, of which each process does its part.

        The loss and the gradient are means over the processes. At stage 3 the step takes and
        returns the parameters that `shard` made; ``loss`` is given whole ones.

        Args:
            loss, has_aux: as for `Optimizer.minimize`.
        """

        def step(params: Any, state: Any, *batch: Any, **kwargs: Any) -> Any:
            axes = axes_of_step(params, self._names)
            own = axes_by_name("sharded", axes, self._names)
            given = axes.means
            means = Means(own, self._bytes, 1 if given is None else given.parts, self.stage > 1)
            with setting(slot, axes=replace(axes, means=means)):
                value, aux, gradients, shards = self._gradients(
                    loss, has_aux, own, (params, *batch), kwargs
                )
                # From here on no gradient is taken.
                params, after = self._updated(
                    params, shards, _without_shards(shards), state, gradients, own
                )
            if value.dtype != state.loss.dtype:
                value = ops.astype(value, state.loss.dtype)
            after = after._replace(loss=value)
            return (params, after, aux) if has_aux else (params, after)

        return step

    def _gradients(
        self, loss: Any, has_aux: bool, own: tuple[Any, ...], args: tuple[Any, ...], kwargs: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Returns the mean loss, extras, the parts of mean gradients, and shards of parameters."""
        shards = shard_tree(args[0], own)
        structure = tree.structure(shards, is_leaf=is_shard)
        if self.stage < 3:
            both = differentiated("minimize", loss, has_aux=has_aux)
            value, grads = both(*args, **kwargs)
            value, aux = value if has_aux else (value, None)
            if self.stage == 1:
                grads = tree.map(lambda g: own_part(g, own), grads)
            return value, aux, grads, shards
        count = prod(axis.size for axis in own)

        def of_shards(shards: Any, *batch: Any, **kwargs: Any) -> Any:
            # The way back of a gather adds up over processes.
            whole = self.gather(shards) if self._gathers else shards
            out = loss(whole, *batch, **kwargs)
            value, aux = out if has_aux else (out, None)
            return ops.divide(value, count), aux

        # Each part of a batch sends its own gradients.
        axes = slot.axes
        parts = axes.means.parts
        local = None if parts == 1 else Means((), self._bytes, parts)
        with setting(slot, axes=replace(axes, means=local)):
            both = differentiated("minimize", of_shards, has_aux=True)
            (value, aux), grads = both(shards, *args[1:], **kwargs)
        value = ops.psum(value, axis_name=own)
        grads = structure.unflatten([x.part for x in tree.leaves(grads, is_leaf=is_shard)])
        return value, aux, grads, shards


def sharded(
    optimizer: Optimizer[Any],
    axis: Hashable | tuple[Hashable, ...] = "data",
    *,
    stage: int = 1,
    max_norm: Any = None,
    gathers: bool = True,
    bucket_megabytes: float = 25.0,
) -> ShardedOptimizer:
    """Returns an optimizer that spreads its state over the processes of an axis.

    The results are those of the optimizer alone, to rounding. Each process updates its part of each
    parameter.

    Args:
        optimizer: a pure optimizer whose rule looks at one element at a time, as those of `sgd`,
            `momentum`, `adam`, `adamw`, `lion`, `adagrad` and `rmsprop` do, also within
            `accumulated`, `lookahead`, `with_average`, `with_weight_decay`, `clipped_by_value` or
            `masked`.
        axis: the axis of processes, or several.
        stage: 1 spreads the state. 2 spreads gradients too: ``minimize`` gives each process its
            part of the mean alone. 3 spreads parameters too: steps take and return what `shard`
            makes of them, and each process has the whole ones for the length of a step.
        max_norm: the norm to which all gradients together are clipped; None for no limit.
        gathers: at stage 3, whether a step gathers all parameters before it calls the loss. With
            False the loss is given shards, and calls `gather` for those that it needs, layer by
            layer. Within `functensor.checkpoint` they are gathered anew on the way back.
        bucket_megabytes: as for `data_parallel`; gradients and gathered parameters go in buckets
            of this size.

    Returns:
        An `Optimizer` whose ``minimize`` makes steps of all processes, alone or within
        `data_parallel`. Its ``update`` takes mean gradients.

    Raises:
        TypeError: ``optimizer`` is none, or one that keeps its own state, as those of tensors do.
        ValueError: the optimizer looks at more than one element at a time.

    >>> import functensor as ft, functensor.numpy as np
    >>> optimizer = ft.distributed.sharded(ft.optim.adam(0.1), stage=2)
    >>> step = ft.jit(optimizer.minimize(lambda w, x: np.sum((w - x) ** 2)))
    >>> w = np.zeros(3)
    >>> w, state = step(w, optimizer.init(w), np.ones(3))
    >>> print(np.round(w, 3), state[2])
    [0.1 0.1 0.1] <one of 1 shards of float64[3]>
    """
    if not isinstance(optimizer, Optimizer):
        raise failure(
            TypeError,
            f"sharded: the optimizer is a {describe(optimizer)}, no pure one",
            fix="sharded(ft.optim.adam(1e-3))",
        )
    if stage not in (1, 2, 3):
        raise ValueError(f"sharded: stage is 1, 2 or 3, not {stage!r}")
    if not gathers and stage != 3:
        raise ValueError("sharded: gathers=False is for stage=3, whose parameters are spread")
    if optimizer.reach != "element":
        fix = "adam, or another optimizer whose rule looks at one element at a time"
        if optimizer.reach == "tree":
            fix = "sharded(optim.adam(1e-3), max_norm=1.0) for gradients clipped by a global norm"
        raise failure(
            ValueError, f"sharded: {optimizer.name} {REASONS[optimizer.reach]}", fix=fix
        )
    names = axis if isinstance(axis, tuple) else (axis,)
    return ShardedOptimizer(optimizer, names, stage, max_norm, gathers, bucket_megabytes)


def _without_shards(values: Any) -> Any:
    """Returns a tree with the parts themselves in the place of shards."""
    return tree.map(lambda x: x.part if is_shard(x) else x, values, is_leaf=is_shard)


def _clipped_parts(gradients: Any, limit: Any, axes: tuple[Any, ...]) -> Any:
    """Returns parts of gradients times what brings the norm of all parts to a limit, at most 1."""
    squares = [sum_of_squares(g) for g in tree.leaves(gradients) if is_updated(g)]
    if not squares:
        return gradients
    total = squares[0]
    for square in squares[1:]:
        total = ops.add(total, square)
    total = ops.psum(total, axis_name=axes)
    return tree.map(lambda g: clipped_to_norm(g, total, limit) if is_updated(g) else g, gradients)


def _marked(optimizer: Optimizer[Any], shards: Any, axes: tuple[Any, ...]) -> Any:
    """Returns an optimizer's first state, with shards where it has as many elements as a part.

    What it has of a parameter is found by its length: states are made of other lengths too.
    """
    leaves, treedef = tree.flatten(shards, is_leaf=is_shard)
    count, place = prod(axis.size for axis in axes), position(axes)

    def shapes(lengths: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        made = treedef.unflatten(
            ShapeDtype(shape, x.dtype) for shape, x in zip(lengths, leaves, strict=True)
        )
        return list(map(shape_of, tree.leaves(eval_shape(optimizer.init, made))))

    state = optimizer.init(_without_shards(shards))
    found = list(map(shape_of, tree.leaves(state)))
    longer = shapes([(shard_length(prod(x.shape), count) + 1,) for x in leaves])
    whole = shapes([x.shape for x in leaves])
    values, structure = tree.flatten(state)
    rows = zip(values, found, longer, whole, strict=True)
    return structure.unflatten(
        Shard(value, shape, count, place, names_of(axes)) if length != other else value
        for value, length, other, shape in rows
    )
