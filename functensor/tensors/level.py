"""The level on which transformations of tensors stand: reverse mode with the tensors' own nodes.

A transformation that is given a tensor runs above this level. It sees an ordinary tracer there,
whose node is the tensor's; what it returns becomes tensors again. So one graph goes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import tree
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call
from ..primitives.core.trace import RAW, slot, without_ended_interceptors
from ..traces.reverse import Node, ReverseTracer
from ..transforms.keeping_trace import KeepingTrace
from ..transforms.tensor_entrance import entrance
from .grad_mode import mode
from .tape import TAPE, lost, note_call

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["LEVEL", "outside"]


class LevelTracer(ReverseTracer):
    """A tensor's value within a transformation, with the tensor's node."""

    __slots__ = ()

    def origin(self) -> str:
        return "the value of a tensor"

    def dependence(self) -> str:
        return ""


class TensorLevel(KeepingTrace):
    """Processes what transformations leave of operations on tensors; it never ends."""

    __slots__ = ()

    tracer = LevelTracer

    def entered(self, x: Any) -> Any:
        """Returns a tensor's value at this level: a tracer where it has a node to record."""
        if mode.enabled and x.node is not None:
            return self.wrap(x._data, x.node)
        return x._data

    def operand(self, x: Value) -> Any:
        """Returns an operand without what is not to be recorded."""
        if isinstance(x, TAPE.tracer):
            return self.entered(x)
        if type(x) is LevelTracer and not mode.enabled:
            return x.value
        return x

    def process1(self, primitive: Primitive, x: Value) -> Any:
        return super().process1(primitive, self.operand(x))

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Any:
        return super().process2(primitive, self.operand(x), self.operand(y))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return super().process(primitive, [self.operand(a) for a in args], params)

    def unwrap(self, args: Iterable[Any]) -> tuple[list[Any], tuple[Node | None, ...], int]:
        return super().unwrap([self.operand(a) for a in args])

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        outs = super().custom(call, args)
        note_call(call, [x.value if type(x) is LevelTracer else x for x in args], outs)
        return outs

    def leave(self, tracer: Tracer) -> Any:
        """Returns the value, as of a tensor that is used where only arrays are.

        Raises:
            TracerConversionError: its gradient would get lost.
        """
        if not mode.enabled:
            return tracer.value
        raise lost(f"a tensor's value {tracer.describe()}")


LEVEL = TensorLevel(RAW, "", None)


def lifted(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a transformation on tensors; every array that it returns is a tensor.

    Args:
        fun: makes all its levels on the one in the slot.
        args, kwargs: its arguments, trees with tensors.
    """
    given, named = tree.map(_value_inside, (tuple(args), dict(kwargs)))
    return tree.map(_tensor_outside, admitting(_on_level, fun, given, named))


def admitting(call: Callable[..., Any], *args: Any) -> Any:
    """Calls what runs a transformation on tensors, whose functions get tensors meanwhile."""
    before = slot.face
    try:
        slot.face = entrance.faced
        return call(*args)
    finally:
        slot.face = before


def _on_level(fun: Callable[..., Any], given: Any, named: Any) -> Any:
    before = slot.trace
    try:
        slot.trace = LEVEL if before is None else before.over(LEVEL)
        return fun(*given, **named)
    finally:
        slot.trace = without_ended_interceptors(before)


def _value_inside(x: Any) -> Any:
    # A graph keeps values, which must not change with NumPy's arrays.
    return wrap(LEVEL.entered(x)) if isinstance(x, TAPE.tracer) else owned(x)


def outside(value: Any) -> Any:
    """Returns a value of this level, a tracer, a buffer or an array, as a tensor."""
    if type(value) is LevelTracer:
        return TAPE.wrap(value.value, value.node)
    return TAPE.wrap(value._data if type(value) is Array else value, None)


def _tensor_outside(x: Any) -> Any:
    return outside(x) if type(x) is LevelTracer or type(x) is Array else x


entrance.lift = lifted
entrance.admitting = admitting
