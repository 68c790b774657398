"""The values that reverse mode keeps of a function's run, as a list to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import tree
from ..custom.call import Pullback
from ..primitives.core.annotations import Value, Values
from ..primitives.core.array import Array, Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import WEAK_TYPES, to_buffer, wrap
from ..primitives.core.bytecode import closed_over
from ..primitives.core.errors import user_line
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import Trace, base_trace, run
from ..traces.reverse import Node, ReverseTrace, ReverseTracer, is_inexact
from ..transforms.tensor_entrance import entrance
from .first_run import reached
from .reverse import Pull

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import Call

__all__ = ["Residual", "print_saved_residuals", "saved_residuals"]


class Residual(NamedTuple):
    """An array that is kept for the backward pass.

    Attributes:
        shape, dtype, nbytes: the array's.
        source: what made it: an argument, an operation, a checkpoint's policy.
        line: the user's ``file:line`` that called the operation; empty for arguments and constants.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int
    source: str
    line: str

    def __str__(self) -> str:
        listed = ",".join(map(str, self.shape))
        where = f" at {self.line}" if self.line else ""
        return f"{self.dtype}[{listed}], {self.nbytes:,} bytes: {self.source}{where}"


class ResidualTrace(ReverseTrace):
    """Reverse mode that notes the origin of each value.

    ``made`` has, by the id of a value, the value, what made it and where.
    """

    __slots__ = ("made",)

    def __init__(self, parent: Trace, name: str, fun: Callable[..., Any] | None) -> None:
        super().__init__(parent, name, fun)
        self.made: dict[int, tuple[Any, str, str]] = {}

    def note(self, out: Value, source: str, line: str | None = None) -> Value:
        """Notes a value of this level, which is returned; by default, made at the user's line."""
        line = user_line() if line is None else line
        value = out.value if type(out) is ReverseTracer and out.owner is self else self.lift(out)
        self.made.setdefault(id(value), (value, source, line))
        return out

    def process1(self, primitive: Primitive, x: Value) -> Any:
        return self.note(super().process1(primitive, x), f"output of {primitive.name}")

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Any:
        return self.note(super().process2(primitive, x, y), f"output of {primitive.name}")

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        out = super().process(primitive, args, params)
        marked = primitive.name == "checkpoint_name"
        source = f"named {params['name']!r}" if marked else f"output of {primitive.name}"
        return self.note(out, source)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        source, outs = f"output of {call.name}", super().custom(call, args)
        return [self.note(out, source) for out in outs]


def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Residual]:
    """Returns the list of arrays that reverse mode keeps of a run, for the backward pass.

    The function runs once, and everything that it computes stays alive until it has ended.

    Args:
        fun: takes and returns trees of arrays.
        args, kwargs: its arguments; it is differentiated by all that are real or complex.

    Returns:
        A `Residual` for each array, in the order in which they were made; arguments first. Arrays
        that share memory are listed each by itself.

    >>> import functensor as ft, functensor.numpy as np
    >>> for kept in ft.saved_residuals(lambda w, x: np.sum(np.tanh(w @ x)), np.eye(2), np.ones(2)):
    ...     print(kept.shape, kept.nbytes, kept.source)
    (2, 2) 32 argument 0
    (2,) 16 argument 1
    (2,) 16 output of tanh
    """
    trace = ResidualTrace(base_trace(), "saved_residuals", fun)
    leaves, treedef = tree.flatten_with_path((args, kwargs))
    given = []
    for path, leaf in leaves:
        if isinstance(leaf, entrance.classes):
            # A list of arrays takes no part in the tensor's graph.
            leaf = wrap(leaf.value)
        if is_inexact(leaf) or (is_array_like(leaf) and type(leaf) not in WEAK_TYPES):
            name = f"argument {path[1].value!r}{tree.keystr(path[2:])}"
            value = trace.argument(leaf)
            trace.note(value, name, "")
            given.append(trace.input(value) if is_inexact(leaf) else value)
        else:
            given.append(leaf)
    called, named = treedef.unflatten(given)
    outs = tree.leaves(run(trace, fun, called, named))
    roots = [x.node for x in outs if type(x) is ReverseTracer and x.owner is trace]
    found: dict[int, Residual] = {}
    for node in _reached_nodes(roots):
        for value, source, line in _kept_residuals(node, trace):
            if id(value) not in found and type(value) not in WEAK_TYPES:
                known = shape_dtype(value)
                size = known.size * known.dtype.itemsize
                found[id(value)] = Residual(known.shape, known.dtype, size, source, line)
    order = {key: number for number, key in enumerate(trace.made)}
    return [found[key] for key in sorted(found, key=lambda key: order.get(key, len(order)))]


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints the list that `saved_residuals` returns, a line for each, and the sum of its bytes.

    >>> import functensor as ft, functensor.numpy as np
    >>> layer = ft.checkpoint(lambda w, x: np.sin(np.tanh(w @ x)))
    >>> ft.print_saved_residuals(lambda w, x: np.sum(layer(w, x)), np.eye(2), np.ones(2))
    float64[2,2], 32 bytes: argument 0
    float64[2], 16 bytes: argument 1
    48 bytes in 2 arrays
    """
    found = saved_residuals(fun, *args, **kwargs)
    for each in found:
        print(each)
    print(f"{sum(each.nbytes for each in found):,} bytes in {len(found)} arrays")


def _reached_nodes(roots: Sequence[Node]) -> list[Node]:
    """Returns the nodes of a backward pass, in the order in which they were made."""
    met = reached(roots, lambda node: [p for p in node.parents if p is not None])
    return sorted(met, key=lambda node: node.number)


def _kept_residuals(node: Node, trace: ResidualTrace) -> list[tuple[Any, str, str]]:
    """Returns the arrays that a node keeps, with their origins and lines."""
    if node.primitive is None:
        return []
    saved = node.saved
    if isinstance(saved, Pull):
        policy = f"saved by the policy of {node.primitive.name}, "
        told = [(policy + source, line) for source, line in saved.sources()]
        values = list(map(_residual_value, saved.residuals))
        plain = len(values) - len(told)
        return [
            *(trace.made.get(id(x), (x, "constant", "")) for x in values[:plain]),
            *((x, *each) for x, each in zip(values[plain:], told, strict=True)),
        ]
    other = "constant"
    if node.primitive.vjps is None and not isinstance(node.primitive, Primitive):
        other = f"kept by the rule of {node.primitive.name}"
    return [trace.made.get(id(x), (x, other, "")) for x in _held_arrays(saved, set())]


def _residual_value(x: Any) -> Any:
    return to_buffer(x) if isinstance(x, Array) and not isinstance(x, Tracer) else x


def _held_arrays(x: Any, seen: set[int]) -> Values:
    """Returns the arrays that an object holds; a function holds those in its closure."""
    if id(x) in seen:
        return []
    seen.add(id(x))
    if is_array_like(x):
        return [_residual_value(x)]
    parts: list[Any] = []
    if isinstance(x, list | tuple):
        parts += x
    elif isinstance(x, dict):
        parts += x.values()
    elif isinstance(x, Pullback):
        parts += [x.run, x.kept]
    elif isinstance(x, partial):
        parts += [x.func, *x.args, *x.keywords.values()]
    elif isinstance(x, FunctionType):
        parts += closed_over(x).values()
    return [array for part in parts for array in _held_arrays(part, seen)]
