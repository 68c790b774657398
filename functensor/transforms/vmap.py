"""``vmap``: a function of one example becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from ..functions.argument_names import argument_name, positional_names
from ..functions.type_variables import Batched, P, R
from ..functions.wrapping import transformed
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import apart_from, as_array, owned, wrap
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import AxisSizeError, describe, function_name, message
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.shape_dtype import canonical_axis
from ..primitives.core.trace import as_written, base_trace, run, under
from ..traces.batch import BatchTrace, BatchTracer, NamedBatchTrace, batch_trace
from ..tree import TreeDef
from ..tree import containers as tree
from .tensor_entrance import entrance

__all__ = ["vmap"]


def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    axis_name: Hashable | None = None,
) -> Batched[P, R]:
    """Returns a function that maps ``fun`` over axes of its arguments, all examples at once.

    Args:
        fun: takes and returns trees of arrays of one example.
        in_axes: which axis to map over: an integer, None for an argument that all examples
            share, or a tuple with one entry for each positional argument; an entry may be a tree
            of those that the argument's structure begins with. Keyword arguments are mapped over
            axis 0.
        out_axes: where the batch axis goes in the outputs, likewise; None for outputs that do not
            depend on the example.
        axis_size: how many examples there are, where no argument tells.
        axis_name: a name for the axis, by which the examples speak of each other: `psum`, `pmean`,
            `pmax`, `pmin`, `axis_index`, `all_gather` and their kin take it.

    Returns:
        A function of the same arguments with the additional axes.

    Raises:
        AxisSizeError: the mapped axes have different lengths, or there is none.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(np.dot, in_axes=(0, None))(np.ones((2, 3)), np.arange(3.0))
    Array([3., 3.], dtype=float64, device='cpu')
    >>> ft.vmap(lambda x: x / ft.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float64, device='cpu')
    """
    if isinstance(axis_name, tuple | list):
        raise TypeError(f"vmap of {function_name(fun)}: axis_name={axis_name!r} is not one name")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        if entrance.classes and entrance.is_met(leaves):
            again = vmap(fun, in_axes, out_axes, axis_size=axis_size, axis_name=axis_name)
            return entrance.lift(again, args, kwargs)
        axes = _input_axes(fun, in_axes, args, kwargs)
        for leaf, axis in zip(leaves, axes, strict=True):
            if axis is not None and not is_array_like(leaf):
                raise TypeError(
                    f"vmap of {function_name(fun)} over {type(leaf).__name__} {leaf!r:.40}: "
                    "not an array; give it the axis None"
                )
        size = _common_size(fun, treedef, leaves, axes, axis_size)
        trace = batch_trace(base_trace(), "vmap", fun, size, axis_name)
        trace.names = partial(_paths, fun, treedef, leaves, axes)
        with under(trace.parent):
            tracers = [
                as_array(leaf)
                if axis is None
                else trace.wrap(_moved_axis(trace.argument(leaf), axis, 0))
                for leaf, axis in zip(leaves, axes, strict=True)
            ]
        if isinstance(trace, NamedBatchTrace):
            trace.inputs = tracers
        new_args, new_kwargs = treedef.unflatten(tracers)
        out = run(trace, as_written(fun), new_args, new_kwargs)
        out_leaves, out_treedef = tree.flatten(out)
        places = _output_axes(fun, out_axes, out)
        with under(trace.parent):
            results = [
                _batched_output(trace, leaf, place) for leaf, place in zip(out_leaves, places)
            ]
        plain = plain_arrays(leaves)
        return out_treedef.unflatten(
            [apart_from(r, plain) if is_array_like(r) else r for r in results]
        )

    return transformed(
        mapped, fun, vmap, fun, in_axes, out_axes, axis_size=axis_size, axis_name=axis_name
    )


def _is_none(x: Any) -> bool:
    return x is None


def _input_axes(
    fun: Callable[..., Any], in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """Returns an axis or None for every leaf of ``(args, kwargs)``."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        what = f"in_axes={in_axes} has {len(in_axes)} entries for {len(args)} positional arguments"
        each = f"an entry, an axis or None, for each argument: in_axes={(0,) * len(args)}"
        text = message(f"vmap of {function_name(fun)}: {what}", fix=each, number=10)
        raise ValueError(text)
    axes = tree.broadcast_prefix(in_axes, args, _is_none) + [0] * len(tree.leaves(kwargs))
    return _checked_axes("in_axes", axes)


def _output_axes(fun: Callable[..., Any], out_axes: Any, out: Any) -> list[Any]:
    """Returns an axis or None for every leaf of the output."""
    try:
        axes = tree.broadcast_prefix(out_axes, out, _is_none)
    except ValueError as error:
        returned = "a single array" if is_array_like(out) else f"{tree.structure(out)}"
        raise ValueError(
            f"vmap of {function_name(fun)}: out_axes={out_axes} does not fit the output, which is "
            f"{returned}: give one axis, or the structure with which the output begins"
        ) from error
    return _checked_axes("out_axes", axes)


def _checked_axes(name: str, axes: list[Any]) -> list[Any]:
    for axis in axes:
        if axis is not None and not isinstance(axis, int):
            raise TypeError(f"{name} holds integers and None, not {axis!r}")
    return axes


def _common_size(
    fun: Callable[..., Any], treedef: TreeDef, leaves: list[Any], axes: list[Any], size: int | None
) -> int:
    """Returns the length that all mapped axes share."""
    sizes: dict[int, int] = {}
    for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is not None:
            shape = shape_of(leaf)
            if not shape:
                what = f"{_paths(fun, treedef, leaves)[i]} is a scalar and has no axis to map over"
                raise _axis_error(fun, what, "in_axes=None for arguments that all examples share")
            sizes[i] = shape[canonical_axis(axis, len(shape))]
    lengths = [*sizes.values()] + ([size] if size is not None else [])
    if not lengths:
        fix = "map at least one argument, or give axis_size="
        raise _axis_error(fun, "no argument is mapped", fix)
    usual = max(set(lengths), key=lengths.count)
    if any(n != usual for n in lengths):
        paths = _paths(fun, treedef, leaves)
        rows = [
            f"    {paths[i]}: {describe(leaves[i])}, axis {axes[i]} has length {n}"
            + ("   <- differs" if n != usual else "")
            for i, n in sizes.items()
        ]
        if size is not None:
            rows.append(f"    axis_size={size}" + ("   <- differs" if size != usual else ""))
        raise _axis_error(
            fun,
            "\n".join(["the mapped axes differ in length", *rows]),
            "give every mapped argument the same length, or in_axes=None to share one",
        )
    return usual


def _axis_error(fun: Callable[..., Any] | None, what: str, fix: str) -> AxisSizeError:
    return AxisSizeError(message(f"vmap of {function_name(fun)}: {what}", fix=fix, number=10))


def _paths(
    fun: Callable[..., Any], treedef: TreeDef, leaves: list[Any], axes: list[Any] | None = None
) -> list[str]:
    """Returns the names of leaves of ``(args, kwargs)`` in messages: all, or those with axes."""
    parameters = positional_names(fun)
    names = [
        argument_name(parameters, path[1].value, path[2:])
        for path, _ in tree.leaves_with_path(treedef.unflatten(leaves))
    ]
    return names if axes is None else [n for n, a in zip(names, axes, strict=True) if a is not None]


def _moved_axis(value: Array, source: int, destination: int) -> Array:
    """Returns a value with one axis elsewhere."""
    ndim = len(shape_of(value))
    source %= ndim
    if source == destination:
        return value
    order = [i for i in range(ndim) if i != source]
    order.insert(destination, source)
    return ops.transpose(value, order)


def _batched_output(trace: BatchTrace, leaf: ArrayLike, place: int | None) -> Any:
    """Returns an output with its batch axis in place."""
    if isinstance(leaf, BatchTracer) and leaf.owner is trace:
        if place is None:
            what = "out_axes is None for an output that depends on the example"
            raise _axis_error(trace.fun, what, "out_axes=0")
        return _moved_axis(leaf.value, 0, canonical_axis(place, len(leaf.value.shape)))
    leaf = owned(leaf)
    if place is None:
        return leaf
    if type(leaf) is int:
        wrap(leaf)  # raises where no dtype holds it
    value = trace.lift(leaf)
    shape = shape_of(value)
    place = canonical_axis(place, len(shape) + 1)
    widened = ops.reshape(value, (*shape[:place], 1, *shape[place:]))
    return ops.broadcast_to(widened, (*shape[:place], trace.size, *shape[place:]))
