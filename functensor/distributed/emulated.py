"""A mesh in one process: the function is mapped over all positions by nested ``vmap``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..backends.config import config
from ..backends.devices import to_host
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import describe, function_name
from ..transforms.vmap import vmap
from .checking import first_other, not_the_same
from .partition import (
    PartitionSpec,
    broadcast_specs,
    check_entries,
    check_names,
    checked_argument,
    is_as_it_is,
)

if TYPE_CHECKING:
    from .mesh import Mesh

__all__ = ["emulated_spmd"]


def emulated_spmd(
    fun: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    """Returns what `spmd` does, in one process; specs that are local cut whole arrays too."""
    words = f"spmd of {function_name(fun)}"
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)

    def emulated(*args: Any, **kwargs: Any) -> Any:
        check_names(words, mesh.axes)
        found_leaves, treedef = tree.flatten(args)
        specs = broadcast_specs(f"{words}: in_specs", in_specs, args, mesh.shape)
        leaves = [
            checked_argument(words, leaf, PartitionSpec(*spec.entries), mesh.shape)
            for leaf, spec in zip(found_leaves, specs, strict=True)
        ]
        arrays = [i for i, leaf in enumerate(leaves) if not is_as_it_is(leaf)]
        stacked = [_stacked(leaves[i], specs[i], mesh.shape) for i in arrays]
        found: list[Any] = []

        def one(*parts: Any) -> list[Any]:
            given = list(leaves)
            for i, part in zip(arrays, parts):
                given[i] = part
            outs, out_treedef = tree.flatten(fun(*treedef.unflatten(given), **kwargs))
            found[:] = outs, out_treedef
            return [out for out in outs if is_array_like(out)]

        mapped = one
        for name, length in reversed(mesh.shape.items()):
            axes = tuple(0 if name in specs[i].names() else None for i in arrays)
            mapped = vmap(mapped, axes or 0, 0, axis_size=length, axis_name=name)
        results = iter(mapped(*stacked))
        outs, out_treedef = found
        whole = broadcast_specs(
            f"{words}: out_specs", out_specs, out_treedef.unflatten(outs), mesh.shape
        )
        for out, spec in zip(outs, whole):
            if is_array_like(out):
                check_entries(words, out, spec)
        return out_treedef.unflatten([
            _unstacked(next(results), spec, mesh.shape) if is_array_like(out) else out
            for out, spec in zip(outs, whole)
        ])

    return emulated


def _stacked(x: Any, spec: PartitionSpec, shape: dict[Hashable, int]) -> Any:
    """Returns an array with the axes of the mesh that cut it in front, in the mesh's order."""
    if not shape_of(x):
        # A number stays one that gives way to the dtypes of arrays.
        return x
    lengths: list[int] = []
    places: dict[Hashable, int] = {}
    own: list[int] = []
    entries = (*spec.entries, *((),) * (len(shape_of(x)) - len(spec.entries)))
    for length, entry in zip(shape_of(x), entries, strict=True):
        for name in entry:
            places[name] = len(lengths)
            lengths.append(shape[name])
        own.append(len(lengths))
        lengths.append(length // prod(shape[name] for name in entry))
    x = ops.reshape(x, tuple(lengths))
    return ops.transpose(x, (*(places[name] for name in shape if name in places), *own))


def _check_positions(x: Any, names: Sequence[Hashable], shape: dict[Hashable, int]) -> None:
    """Checks that stacked parts are the same along the axes that cut nothing."""
    rest = [name for name in shape if name not in names]
    order = [place for place, name in enumerate(shape) if name in rest]
    order += [place for place in range(x.ndim) if place not in order]
    stacked = np.asarray(to_host(x._data)).transpose(order)
    rows = stacked.reshape(prod(shape[name] for name in rest), -1)
    odd = first_other(rows) if rest else None
    if odd is not None:
        part = x[(0,) * len(shape)]
        raise not_the_same(f"an output {describe(part)}", rest, odd, 0)


def _unstacked(x: Any, spec: PartitionSpec, shape: dict[Hashable, int]) -> Any:
    """Returns the whole array of parts that are stacked along all axes of the mesh."""
    names = spec.names()
    if config.check_collectives and type(x) is Array:
        _check_positions(x, names, shape)
    kept = [name for name in shape if name in names]
    x = x[tuple(slice(None) if name in names else 0 for name in shape)]
    own = shape_of(x)[len(kept) :]
    entries = (*spec.entries, *((),) * (len(own) - len(spec.entries)))
    order: list[int] = []
    for place, entry in enumerate(entries):
        order += [kept.index(name) for name in entry]
        order.append(len(kept) + place)
    joined = [n * prod(shape[name] for name in entry) for n, entry in zip(own, entries)]
    return ops.reshape(ops.transpose(x, tuple(order)), tuple(joined))
