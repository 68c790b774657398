"""Kernels of users: the kind of device of each, and its call there.

Kernels of CuPy are known by their classes, which an array module has or has not; CuPy itself is not
imported for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .protocol import BACKENDS

if TYPE_CHECKING:
    from .annotations import ArrayModule, Buffer

__all__ = ["call_kernel", "kernel_kind", "kind_of_module"]

THREADS_PER_BLOCK = 256


def kernel_kind(kernel: Any) -> str:
    """Returns the kind of device on which a kernel computes: ``cuda`` if CuPy made it, or ``cpu``.

    >>> kernel_kind(np.sin)
    'cpu'
    """
    return kind_of_module(type(kernel).__module__.partition(".")[0])


def kind_of_module(name: str) -> str:
    """Returns the kind of device where the buffers of a backend's array module are, or ``cpu``.

    >>> kind_of_module("cupy")
    'cuda'
    """
    return next((kind for kind, backend in BACKENDS.items() if backend == name), "cpu")


def call_kernel(
    kernel: Any,
    xp: ArrayModule,
    operands: Sequence[Any],
    outputs: Callable[[], Sequence[Any]],
    launch: Callable[..., Any] | None,
    static: dict[str, Any],
) -> Any:
    """Calls a kernel with the buffers of an array module and returns its outputs.

    Args:
        kernel: a ``RawKernel`` or an ``ElementwiseKernel``, or a function of buffers.
        xp: the array module.
        operands: the buffers.
        outputs: makes buffers for the outputs, which a kernel writes into and a function does not.
        launch: returns the launch of a ``RawKernel`` for operands and outputs;
            None for a thread an element and their number as last argument.
        static: what the call has beside operands.
    """
    # Nothing is an instance of no class.
    raw, elementwise = (getattr(xp, name, ()) for name in ("RawKernel", "ElementwiseKernel"))
    if isinstance(kernel, raw):
        made = outputs()
        if all(out.size for out in made):
            operands = [xp.ascontiguousarray(x) for x in operands]
            given = tuple((launch or launch_by_element)(*operands, *made, **static))
            grid, block, numbers, shared = given + ((), 0)[len(given) - 2 :]
            kernel(sizes(grid), sizes(block), (*operands, *made, *numbers), shared_mem=shared)
        return tuple(made)
    if isinstance(kernel, elementwise):
        made = outputs()
        kernel(*operands, *made, **static)
        return tuple(made)
    return kernel(*operands, **static)


def sizes(given: Any) -> tuple[int, ...]:
    """Returns the size of a grid or of a block as a tuple."""
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def launch_by_element(*arrays: Buffer, **static: Any) -> tuple[int, int, tuple[Any, ...]]:
    """Launches a thread for every element of the last output."""
    size = arrays[-1].size
    return -(-size // THREADS_PER_BLOCK), THREADS_PER_BLOCK, (np.int64(size),)
