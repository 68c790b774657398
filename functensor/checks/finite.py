"""``ft.config.check_finite``: which operation was the first to make NaN or infinity.

A hook sees the results of all operations, forward. For the way back it replaces the primitive of
each node by one that checks its rules. While the switch is on, jitted functions run operation by
operation, as they do under any hook; while it is off, nothing asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.config import config
from ..backends.devices import to_host
from ..hooks import Handle, Hook, Operation
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import BUFFER_TYPES
from ..primitives.core.errors import NonFiniteError, describe, message
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.python_numbers import BASES, as_python_number
from ..primitives.core.trace import RAW, slot, under
from ..primitives.shape.index import Scatter
from ..traces.reverse import PROJECTION, OutputPart

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["checking_finite"]

FINITE_FIX = (
    "keep operands in the domain: np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the "
    "operation"
)


def checking_finite() -> Handle:
    """Returns a handle by which this thread begins to check the results of operations."""
    return Handle(Finite(), None)


class Finite(Hook):
    """Raises an error where an operation makes NaN or infinity of finite operands."""

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        if not config.check_finite:
            return
        for part, of in (("", plain_values_of), ("the tangent of ", tangents_of)):
            found = newly_not_finite(of(output), [*inputs, *op.params.values()])
            if found:
                raise error(f"{part}{op.name}", found, op.line, inputs)
        watch_rules(output, op)


def levels_of(x: Any) -> Iterator[Any]:
    """Yields a value and the values that it stands for at the levels below."""
    while isinstance(x, Tracer):
        yield x
        if x.owner.standing:
            return
        x = None if x.owner.staging else getattr(x, "value", None)
    yield x


def plain_values_of(x: Value | None) -> Iterator[Any]:
    """Returns the buffer of a value, if there is one already."""
    for level in levels_of(x):
        if type(level) is Array or (isinstance(level, Tracer) and level.owner.standing):
            yield level._data
        elif type(level) in BUFFER_TYPES or type(level) in BASES:
            yield as_python_number(level)


def tangents_of(x: Value) -> Iterator[Any]:
    """Returns the buffers of a value's tangents, at all levels."""
    for level in levels_of(x):
        tangent = getattr(level, "tangent", None)
        yield from plain_values_of(tangent)
        if tangent is not None:
            yield from tangents_of(tangent)


def seen(buffers: Iterator[Any]) -> tuple[bool, bool]:
    """Says whether there is NaN among numbers, and whether there is infinity."""
    nan = inf = False
    for buffer in buffers:
        x = np.asarray(to_host(buffer))
        if x.dtype.kind in "fcV" and not np.isfinite(x).all():
            nan = nan or bool(np.isnan(x).any())
            inf = inf or bool(np.isinf(x).any())
    return nan, inf


def newly_not_finite(out: Iterator[Any], inputs: Sequence[Any]) -> str:
    """Returns the word for NaN or infinity that no input has; empty if there is none."""
    nan, inf = seen(out)
    if not (nan or inf):
        return ""
    given = [seen(of(x)) for x in inputs for of in (plain_values_of, tangents_of)]
    had_nan, had_inf = (any(flags) for flags in zip(*given, strict=True)) if given else (0, 0)
    if nan and not had_nan:
        return "NaN"
    return "infinity" if inf and not (had_inf or had_nan) else ""


def span(x: Value) -> str:
    """Returns an operand's type and the range of its values, for messages."""
    x = as_python_number(x)
    numbers = [np.asarray(to_host(buffer)).reshape(-1) for buffer in plain_values_of(x)]
    known = numbers[-1] if numbers else np.zeros(0)
    if known.dtype.kind == "c":
        known = np.abs(known)
    finite = known[np.isfinite(known)]
    if not finite.size:
        return describe(x)
    text = f"{describe(x)} from {finite.min():.6g} to {finite.max():.6g}"
    missing = known.size - finite.size
    return f"{text}, {missing} of {known.size} not finite" if missing else text


def error(what: str, found: str, line: str, inputs: Sequence[Any]) -> NonFiniteError:
    """Returns the error for an operation that made NaN or infinity."""
    operands = " and ".join(span(x) for x in inputs if any(True for _ in plain_values_of(x)))
    where, of = "", f" of {operands}" if operands else ""
    if what.startswith("the gradient"):
        where, of = f", which was computed at {line},", f" of the cotangent {operands}"
    return NonFiniteError(message(f"{what}{where} made {found}{of}", fix=FINITE_FIX, number=18))


# -- the way back


def nodes_of(output: Value) -> Iterator[tuple[Any, Any]]:
    """Returns the levels of reverse mode that recorded an operation, each with its node."""
    for level in levels_of(output):
        node = getattr(level, "node", None)
        if node is not None and node.primitive is PROJECTION:
            (node,) = node.parents
        if node is not None and node.primitive is not None:
            yield level, node


def watch_rules(output: Value, op: Operation) -> None:
    """Has the rules of an operation checked, at every level of reverse mode that recorded it."""
    for _, node in nodes_of(output):
        if not is_checked(node.primitive):
            node.primitive = Checked(node.primitive, op)


def is_checked(primitive: Any) -> bool:
    """Says whether a node's primitive, or one that it stands for, has checked rules."""
    while primitive is not None and type(primitive) is not Checked:
        primitive = vars(primitive).get("primitive") if hasattr(primitive, "__dict__") else None
    return primitive is not None


class Watching(Hook):
    """Checks the rules of operations that rules make themselves, at levels further out."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        watch_rules(output, self.op)


class Standing(PrimitiveLike):
    """Stands as the primitive of a node, and sees the operands and results of its rules.

    ``primitive`` may itself be another one that stands there; ``op`` made the node.
    """

    def __init__(self, primitive: Any, op: Operation) -> None:
        self.primitive = primitive
        self.op = op
        self.name = primitive.name
        self.broadcasts = primitive.broadcasts

    @property
    def vjps(self) -> Iterator[Any] | None:
        """The rules of the operands one by one: an operation may take any number of them."""
        rules = self.primitive.vjps
        if rules is None:
            return None
        return (rule and partial(self.called, rule, i) for i, rule in enumerate(rules))

    def called(
        self, rule: Callable[..., Any], place: int, g: Any, saved: Any, params: dict[str, Any]
    ) -> Any:
        """Returns the cotangent of one operand."""
        out = self.ran(rule, g, saved, params)
        self.check(out, place, g, saved)
        return out

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> Any:
        """Returns the cotangents of all operands."""
        outs = self.ran(self.primitive.pullback, g, saved, params)
        for place, out in enumerate(outs):
            self.check(out, place, g, saved)
        return outs

    def ran(self, rule: Callable[..., Any], *args: Any) -> Any:
        """Returns the result of a rule."""
        self.before()
        return rule(*args)

    def before(self) -> None:
        """Runs before a rule does."""

    def check(self, out: Any, place: int, g: Any, saved: Any) -> None:
        """Checks the cotangent of an operand."""


class Checked(Standing):
    """Stands as the primitive of a node whose cotangents are checked."""

    def ran(self, rule: Callable[..., Any], *args: Any) -> Any:
        if not config.check_finite or slot.trace is None or slot.trace is RAW:
            return rule(*args)
        with under(Handle(Watching(self.op), None)._trace):
            return rule(*args)

    def check(self, out: Any, place: int, g: Any, saved: Any) -> None:
        if not config.check_finite:
            return
        if type(out) in (Scatter, OutputPart):
            out = out.g
        kept = saved if isinstance(saved, tuple | list) else ()
        inputs = [*(g if isinstance(g, list) else [g]), *kept]
        for part, of in (
            ("the gradient", plain_values_of),
            ("the gradient's tangent", tangents_of),
        ):
            found = newly_not_finite(of(out), inputs)
            if found:
                what = f"{part} of {self.name} by operand {place}"
                raise error(what, found, self.op.line, inputs)
