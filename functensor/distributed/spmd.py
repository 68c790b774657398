"""``spmd``: one function, run by all processes of a mesh, each on its part of the arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import tree
from ..backends.config import config
from ..backends.errors.public_functions import check_function
from ..backends.restoring import setting
from ..functions.wrapping import transformed
from ..primitives.core.array import Array, Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of
from ..primitives.core.errors import function_name, message
from ..primitives.core.trace import is_staged, slot
from ..primitives.sharding import join_shards, shard
from ..programs.program import argument_type, as_weak
from ..programs.python_numbers import as_numbers
from .checking import begin_checks, check_raised, check_spmd_end
from .emulated import emulated_spmd
from .mesh import Mesh
from .partition import (
    PartitionSpec,
    broadcast_specs,
    check_entries,
    check_names,
    checked_argument,
    is_as_it_is,
)

__all__ = ["spmd"]


def spmd(
    fun: Callable[..., Any], mesh: Mesh, in_specs: Any = None, out_specs: Any = None
) -> Callable[..., Any]:
    """Returns a function that all processes of a mesh run together, each on its own part.

    Within ``fun`` the axes of the mesh have names, as the axis of a `vmap` has one: `psum`,
    `all_gather` and their kin take them. A derivative that is taken within ``fun`` is that of the
    sum of all processes' outputs, as under `vmap`. One that is taken outside is that of the
    function of the whole arrays, which all processes compute alike.

    Args:
        fun: takes and returns trees of arrays of one process.
        mesh: the processes; see `mesh`.
        in_specs: a spec `P` for each positional argument, or for all, or trees of those with which
            the arguments begin. An argument is a whole array, the same on all processes, of which
            each takes its part: ``P("data")`` cuts the first axis along the mesh's axis ``data``,
            and ``P()``, or None, cuts nothing. ``P.local("data")`` says that each process gives
            its own part, which is taken as it is.
        out_specs: likewise for the outputs. ``P("data")`` puts the whole array together on all
            processes; ``P()`` says that it is the same on all processes, and
            ``P.local("data")`` leaves each with its own part.

    Returns:
        A function of the same positional arguments, to be called by all processes in the same
        order. Keyword arguments are given to ``fun`` as they are.

    Raises:
        ValueError: an axis of an argument is not a multiple of the axes that cut it, or specs do
            not fit.

    >>> import functensor as ft, functensor.numpy as np
    >>> from functensor.distributed import P
    >>> mesh = ft.distributed.mesh({"data": 4}, emulated=True)
    >>> mean = ft.distributed.spmd(lambda x: ft.pmean(np.mean(x), "data"), mesh, P("data"), P())
    >>> print(mean(np.arange(8.0)))
    3.5
    """
    check_function("spmd", fun)
    if not isinstance(mesh, Mesh):
        raise TypeError(
            message(
                f"spmd of {function_name(fun)}: the mesh is {mesh!r}",
                fix="mesh = ft.distributed.mesh({'data': -1})",
            )
        )
    if mesh.emulated:
        run = emulated_spmd(fun, mesh, in_specs, out_specs)
    else:
        run = _ProcessRun(fun, mesh, in_specs, out_specs).__call__
    return transformed(run, fun, spmd, fun, mesh, in_specs, out_specs)


class _ProcessRun:
    """A function that a process runs on its part of the arguments."""

    def __init__(self, fun: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any) -> None:
        self.fun = fun
        self.mesh = mesh
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs = out_specs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        words = f"spmd of {function_name(self.fun)}"
        if slot.axes is not None and slot.axes.axes:
            what = f"{words} runs within another spmd"
            raise ValueError(message(what, fix="one mesh with all axes, and one spmd over it"))
        check_names(words, self.mesh.axes)
        specs = broadcast_specs(f"{words}: in_specs", self.in_specs, args, self.mesh.shape)
        leaves, treedef = tree.flatten(args)
        parts = [self._part(words, leaf, spec) for leaf, spec in zip(leaves, specs)]
        device = next((d for d in map(_place, parts) if d != "cpu"), "cpu")
        # What is staged on one process alone is no fault.
        if not config.check_collectives or is_staged():
            return self._run(words, treedef.unflatten(parts), kwargs, device)
        begin_checks()
        try:
            out = self._run(words, treedef.unflatten(parts), kwargs, device)
        except Exception as error:
            check_raised(words, error)
            raise
        check_spmd_end(words)
        return out

    def _run(self, words: str, parts: Any, kwargs: dict[str, Any], device: str) -> Any:
        """Returns the outputs as all processes see them, of parts that are on a device."""
        with setting(slot, axes=self.mesh.axes_on(device)):
            out = self.fun(*parts, **kwargs)
        outs, out_treedef = tree.flatten(out)
        specs = broadcast_specs(f"{words}: out_specs", self.out_specs, out, self.mesh.shape)
        return out_treedef.unflatten(
            [self._whole(words, leaf, spec) for leaf, spec in zip(outs, specs)]
        )

    def _part(self, words: str, leaf: Any, spec: PartitionSpec) -> Any:
        """Returns the part of an argument that this process has."""
        leaf = checked_argument(words, leaf, spec, self.mesh.shape)
        if is_as_it_is(leaf) or spec.is_local:
            return leaf
        params = self._cuts(spec)
        cut = partial(shard, **params)
        weak = argument_type(leaf).weak if isinstance(leaf, Tracer) else None
        # A number stays one that gives way to the dtypes of arrays.
        part = cut(leaf) if weak is None else as_weak(as_numbers(cut, leaf), weak)
        if params["rest"] and type(part) is Array and not is_staged():
            params["rest"][0].check_same("argument", part._data, params["rest"])
        return part

    def _whole(self, words: str, leaf: Any, spec: PartitionSpec) -> Any:
        """Returns an output as all processes see it."""
        if not is_array_like(leaf) or spec.is_local:
            return leaf
        check_entries(words, leaf, spec)
        return join_shards(leaf, adds=False, **self._cuts(spec))

    def _cuts(self, spec: PartitionSpec) -> dict[str, Any]:
        """Returns the parameters of the primitives that cut an array and join its parts."""
        axes = self.mesh.axes
        cuts = tuple(tuple(axes[name] for name in entry) for entry in spec.entries)
        return {"cuts": cuts, "rest": tuple(axes[n] for n in axes if n not in spec.names())}


def _place(leaf: Any) -> str:
    """Returns the device of a leaf."""
    return device_of(leaf) if is_array_like(leaf) else "cpu"
