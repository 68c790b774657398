"""Derivatives of numbers of the CPU that meet arrays on a GPU: they belong on the CPU.

A number without axes goes to a GPU by itself, as an argument of a kernel: nothing is moved that a
rule of derivatives could bring back. So the traces that carry derivatives look at what meets once
there is a backend beside NumPy's, and not before: on the CPU this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.protocol import Backend, when_registered
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import BUFFER_TYPES, WEAK_TYPES, device_of
from ..primitives.core.patching import patch
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.trace import Trace, under
from .forward import ForwardTracer
from .reverse import NO_PARAMS, Node, ReverseTrace, make_node

if TYPE_CHECKING:
    from ..primitives.core.primitive import Primitive

__all__ = ["watch_scalars"]


class _Crossing(PrimitiveLike):
    """Stands as the primitive of the node of a number that goes to a GPU."""

    name = "number"
    broadcasts = False
    vjps = (lambda g, saved, params: ops.to_device(g, "cpu"),)


CROSSING = _Crossing()


def is_scalar_operand(x: Any) -> bool:
    """Says whether an operand has no axes, and is more than one of Python's numbers."""
    kind = type(x)
    if kind in WEAK_TYPES:
        return False
    # Nodes and arrays are asked first: this runs for every operand.
    if kind is Array:
        x = x._data
    elif kind not in BUFFER_TYPES and type(node := getattr(x, "node", None)) is Node:
        x = node
    return getattr(x, "shape", None) == ()


def met(trace: Trace, args: Sequence[Any]) -> Sequence[Any]:
    """Returns operands among which numbers of the CPU are ready to meet arrays on a GPU."""
    place = next((d for d in map(device_of, args) if d != "cpu"), "cpu")
    if place == "cpu":
        return args
    return [
        ready(trace, a, place) if is_scalar_operand(a) and device_of(a) == "cpu" else a
        for a in args
    ]


def ready(trace: Trace, x: Value, place: str) -> Any:
    """Returns a number of the CPU that is to meet arrays on a GPU."""
    if type(x) is ForwardTracer and x.owner is trace:
        with under(trace.parent):
            return trace.wrap(numpy_scalar(x.value), ops.to_device(x.tangent, place))
    if isinstance(trace, ReverseTrace) and type(x) is trace.tracer and x.owner is trace:
        value = numpy_scalar(x.value)
        node = x.node and make_node(CROSSING, (x.node,), None, NO_PARAMS, value)
        return trace.wrap(value, node)
    return numpy_scalar(x)


def numpy_scalar(x: Value) -> Value:
    """Returns a number as one of NumPy's scalars, which meet arrays of every library."""
    value = x._data if type(x) is Array else x
    return value[()] if type(value) is np.ndarray else x


def watched(process: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a trace's way to process a primitive with operands that are ready to meet."""

    def watching(
        self: Trace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        # One operand alone meets no other.
        if len(args) > 1:
            for a in args:
                if is_scalar_operand(a):
                    args = met(self, args)
                    break
        return process(self, primitive, args, params)

    return watching


def watched_pair(process: Callable[..., Any]) -> Callable[..., Any]:
    """Does the same for the way of primitives of two operands."""

    def watching(self: Trace, primitive: Primitive, x: Value, y: Value) -> Any:
        if is_scalar_operand(x) or is_scalar_operand(y):
            x, y = met(self, (x, y))
        return process(self, primitive, x, y)

    return watching


WAYS = {"process": watched, "process2": watched_pair}


def watch_scalars(trace: type[Trace], *ways: str) -> None:
    """Has methods of a class of traces look at what meets, once there is a second backend."""

    def install(backend: Backend) -> None:
        made = {way: WAYS[way](getattr(trace, way)) for way in ways}
        patch(trace, "numbers of devices", lambda: made)

    when_registered(install)
