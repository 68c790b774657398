"""``data_parallel``: a training step whose gradients are means over processes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from dataclasses import replace
from numbers import Real
from typing import Any

from ..backends.errors.public_functions import check_function
from ..backends.restoring import setting
from ..functions.wrapping import transformed
from ..primitives.core.errors import message
from ..primitives.core.trace import slot
from ..transforms.averaged_gradients import Means
from .mesh import Mesh, axes_by_name, axes_of_step

__all__ = ["bucket_bytes", "data_parallel"]

MEGABYTE = 2**20


def data_parallel(
    step: Callable[..., Any],
    mesh: Mesh | None = None,
    axis: Hashable | tuple[Hashable, ...] = "data",
    *,
    accumulate: int = 1,
    bucket_megabytes: float = 25.0,
) -> Callable[..., Any]:
    """Returns a training step that all processes make together, each with its own part of a batch.

    Within ``step`` the outermost `grad` or `value_and_grad`, or that of an optimizer's
    ``minimize``, returns means over the processes, of values and of gradients. Extras of
    ``has_aux`` are those of this process. So processes that begin with the same parameters have
    the same ones after each step. Gradients are added up in buckets, while the backward pass still
    runs. Other transformations within ``step`` are as they are outside; a derivative within a
    function that is differentiated is no mean.

    Args:
        step: the step of one process, or what `functensor.jit` made of one.
        mesh: the processes; by default all, along one axis ``"data"``. Within an `spmd` its mesh.
        axis: over which of its axes means are taken, one name or several.
        accumulate: into how many parts batches are cut, which are gone through one after the other
            before gradients are averaged. Arrays among the arguments that are not differentiated
            are cut along their first axes. A random key, known by ``uint64`` and the shape
            ``(2,)``, is split: each part has its own. What a function closes over is not cut.
            Extras are those of the last part.
        bucket_megabytes: how large a bucket is, in units of 1,048,576 bytes.

    Returns:
        A function of the same arguments. It may be given to `functensor.jit`.

    Raises:
        TypeError: ``accumulate`` is no whole number, or ``bucket_megabytes`` no number.
        ValueError: one of them is out of its range, a batch cannot be cut, or is no argument, or
            gradients are those of single examples of a `vmap`; or beside a batch of two examples
            there is an array that may be a key or numbers of the batch.

    >>> import functensor as ft, functensor.numpy as np
    >>> optimizer = ft.optim.sgd(0.1)
    >>> loss = lambda w, x: np.mean((w - x) ** 2)
    >>> step = ft.jit(ft.distributed.data_parallel(optimizer.minimize(loss)))
    >>> w = np.zeros(())
    >>> w, state = step(w, optimizer.init(w), np.array([1.0, 3.0]))
    >>> print(w, state.loss)
    0.4 5.0
    """
    check_function("data_parallel", step, "step")
    if operator.index(accumulate) < 1:
        raise ValueError(f"data_parallel: accumulate is {accumulate}, it must be positive")
    size = bucket_bytes("data_parallel", bucket_megabytes)
    names = axis if isinstance(axis, tuple) else (axis,)
    if mesh is not None and mesh.emulated:
        raise ValueError(
            message("data_parallel is for processes, not for an emulated mesh", fix="mesh=None")
        )

    def parallel_step(*args: Any, **kwargs: Any) -> Any:
        axes = axes_of_step((args, kwargs), names, mesh)
        means = Means(axes_by_name("data_parallel", axes, names), size, accumulate)
        with setting(slot, axes=replace(axes, means=means)):
            return step(*args, **kwargs)

    return transformed(parallel_step, step, data_parallel, step, mesh, axis)


def bucket_bytes(function: str, megabytes: float) -> int:
    """Returns the size of buckets in bytes, for a function that messages name.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative, or infinite.
    """
    size: Any = megabytes
    if not isinstance(size, Real):
        raise TypeError(f"{function}: bucket_megabytes is a number, not {size!r}")
    if not 0 <= megabytes < float("inf"):
        raise ValueError(
            f"{function}: bucket_megabytes is {size}, it must be finite, and 0 or more"
        )
    return int(megabytes * MEGABYTE)
