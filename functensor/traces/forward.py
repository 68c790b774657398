"""Forward mode: every value travels with its tangent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.restoring import quiet
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import all_apart_from, apart_from, beside, wrap
from ..primitives.core.errors import OPERAND_ERRORS, missing_rule, note_rule
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import Trace, new, slot, under
from ..primitives.elementwise.cast_and_complex import cast
from .reverse import is_inexact

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import Call

__all__ = ["ForwardTrace", "ForwardTracer", "zeros_like"]


# The beginning of the clause about arguments.
DEPENDENCE = ", which depends on "


def depends_on(names: Sequence[str], exactly: bool) -> str:
    """Returns the words for what a value depends on: all of the names, or at least one."""
    if not names:
        return ""
    if exactly or len(names) == 1:
        return f"{DEPENDENCE}{' and '.join(names)}"
    shown = [*names[:4], "others"] if len(names) > 5 else names
    return f"{DEPENDENCE}at least one of {', '.join(shown)}"


class ForwardTracer(Tracer):
    """A value of forward mode: the value and its tangent at the parent's level."""

    __slots__ = ("owner", "tangent", "value")

    tangent: Value | None

    def origin(self) -> str:
        return self.value.origin() if isinstance(self.value, Tracer) else "made by forward mode"

    def dependence(self) -> str:
        return depends_on(self.owner.names(), exactly=False)


class ForwardTrace(Trace):
    """Runs a function on pairs of a value and a tangent.

    Attributes:
        names: returns what messages call its inputs.
    """

    __slots__ = ("names",)

    in_parts = True
    differentiates = True

    def __init__(self, parent: Trace, name: str, fun: Callable[..., Any] | None) -> None:
        super().__init__(parent, name, fun)
        self.names: Callable[[], list[str]] = list

    def wrap(self, value: Value, tangent: Value | None) -> Any:
        """Returns the tracer of a value and its tangent; None stands for a tangent of zero."""
        if tangent is None:
            return wrap(value)
        out = new(ForwardTracer)
        out.owner = self
        out.value = value
        out.tangent = tangent
        return out

    def unwrap(self, args: Iterable[Any]) -> tuple[list[Any], list[Any], bool]:
        """Returns the operands' values, their tangents, and whether there is any."""
        values: list[Any] = []
        tangents: list[Any] = []
        found = False
        for a in args:
            if type(a) is ForwardTracer and a.owner is self:
                values.append(a.value)
                tangents.append(a.tangent)
                found = True
            else:
                values.append(self.lift(a))
                tangents.append(None)
        return values, tangents, found

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, tangents, found = self.unwrap(args)
        parent = self.parent
        ans = self.below(primitive, values, params)
        if not found:
            return apart_from(ans, plain_arrays(args))
        if primitive.constant or not is_inexact(ans):
            return wrap(ans)
        before = slot.trace
        slot.trace = parent
        try:
            # Rules may overflow on the way; the user did not ask for that.
            with quiet():
                tangent = tangent_of(primitive, ans, values, tangents, params)
        except OPERAND_ERRORS as error:
            note_rule(error, primitive.name)
            raise
        finally:
            slot.trace = before
        return self.wrap(ans, tangent)

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        values, tangents, found = self.unwrap(args)
        if not found:
            outs = all_apart_from(self.parent.custom(call, values), args)
            return list(map(wrap, outs))
        outs, out_tangents = call.forward(self.parent, values, tangents)
        outs = all_apart_from(outs, args)
        with under(self.parent):
            out_tangents = [
                fitted_tangent(tangent, out) if tangent is not None and is_inexact(out) else None
                for out, tangent in zip(outs, out_tangents, strict=True)
            ]
        return [self.wrap(out, tangent) for out, tangent in zip(outs, out_tangents, strict=True)]


def tangent_of(
    primitive: Primitive, ans: Value, values: list[Any], tangents: list[Any], params: dict[str, Any]
) -> Any:
    """Returns the tangent of a primitive's output, or None where it is zero."""
    saved = (ans, *values)
    if primitive.pushforward is not None:
        filled = [zeros_like(v) if t is None else t for v, t in zip(values, tangents, strict=True)]
        return fitted_tangent(primitive.pushforward(filled, saved, params), ans)
    total: Any = None
    for i, t in enumerate(tangents):
        if t is None:
            continue
        if primitive.linear:
            term: Any = primitive.bind([*values[:i], t, *values[i + 1 :]], params)
        elif primitive.jvps is None or primitive.jvps[i] is None:
            raise missing_rule(primitive.name, "jvp", i)
        else:
            term = primitive.jvps[i](t, saved, params)
        if term is not None:
            term = fitted_tangent(term, ans)
            total = term if total is None else total + term
    return total


def fitted_tangent(t: Value, ans: Value) -> Value:
    """Returns a tangent in the shape and dtype of the output that it belongs to."""
    got, wanted = shape_dtype(t), shape_dtype(ans)
    if got.shape != wanted.shape:
        t = ops.broadcast_to(t, wanted.shape)
    if got.dtype != wanted.dtype or got.weak:
        t = cast(t, wanted.dtype)
    return t


def zeros_like(value: Value) -> Value:
    """Returns zeros of a value's shape and dtype, beside it, without memory for them."""
    known = shape_dtype(value)
    return ops.broadcast_to(beside(value, known.dtype.type(0)), known.shape)
