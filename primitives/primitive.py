"""Primitives: operations with all their rules, which hand themselves to the running trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import Any

from ..backends import get as get_backend
from .array import Array, Tracer
from .buffers import BUFFER_TYPES, WEAK_TYPES, to_buffer
from .core import RAW, Trace, explained, slot
from .errors import missing_rule
from .registry import registry
from .rules import compile_rules, keeper

__all__ = ["Binary", "Keepers", "Primitive", "Unary", "evaluate"]

new = object.__new__


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Computes a primitive at the public face: buffers are unwrapped and the result wrapped."""
    buffers = []
    for a in args:
        if isinstance(a, Tracer):
            trace = a.trace
            return trace.process(primitive, args, params) if trace.standing else trace.leave(a)
        buffers.append(a._data if type(a) is Array else to_buffer(a))
    out = new(Array)
    out._data = RAW.process(primitive, buffers, params)
    return out


def implementation(name: str, compute: str | Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that computes a primitive on the NumPy backend's buffers.

    Args:
        name: the primitive's name, under which a backend may offer a better kernel.
        compute: the array module's function by name, or ``compute(xp, *buffers, **params)``.
    """
    backend = get_backend("numpy")
    if name in backend.kernels:
        return backend.kernels[name]
    if isinstance(compute, str):
        function: Callable[..., Any] = getattr(backend.xp, compute)
        return function
    return partial(_computed, compute, backend.xp)


def _computed(compute: Callable[..., Any], xp: Any, *buffers: Any, **params: Any) -> Any:
    """Calls a declaration's own function, whose Python scalars become the array module's."""
    out = compute(xp, *buffers, **params)
    return xp.asarray(out)[()] if type(out) in WEAK_TYPES else out


class Keepers(dict[int, Any]):
    """For every set of operands, as bits, the function that saves what their rules need.

    An entry is made when it is first looked up; it is None for primitives without a derivative.

    Args:
        primitive: whose rules they are.
        keep: what the primitive declares to be saved, whichever operands it is for; by default
            what the letters of the rules say.
    """

    def __init__(
        self, primitive: Primitive, keep: Callable[[Any, Any], tuple[Any, ...]] | None = None
    ) -> None:
        super().__init__()
        self.primitive = primitive
        self.declared = keep

    def __missing__(self, mask: int) -> Any:
        primitive = self.primitive
        if primitive.constant:
            keep = None
        elif self.declared is not None:
            keep = self.declared
        elif primitive.pullback is not None:
            keep = keeper(primitive.pullback_needs[0])
        else:
            operands = [i for i in range(mask.bit_length()) if mask >> i & 1]
            for i in operands:
                if primitive.vjps is None or primitive.vjps[i] is None:
                    raise missing_rule(primitive.name, "vjp", i)
            keep = keeper(frozenset().union(*(primitive.vjp_needs[i] for i in operands)))
        self[mask] = keep
        return keep


def _unruled(name: str, mode: str) -> Callable[..., Any]:
    """Returns what stands in for a rule that was not declared: it raises ``MissingRuleError``."""

    def rule(*args: Any, **params: Any) -> Any:
        raise missing_rule(name, mode, 0)

    return rule


class Primitive:
    """One operation with all its rules, called like NumPy's function of the same name.

    Arrays are positional, static parameters go by keyword. Families (``families.py``) build
    primitives; each declaration enters the registry, and with it every test.

    Attributes:
        name: the name, unique in the registry.
        impl: computes the operation on raw buffers.
        prepare: the public signature; turns a call's arguments into ``(operands, params)``.
        infer: ``infer(primitive, *operands, **params)`` of ``ShapeDtype``: the result's, without
            computing; raises ``ShapeError`` where shapes do not fit.
        batch: ``batch(primitive, values, flags, params)``; batch axes lead.
        vjps, pullback: rules of reverse mode, one for each operand, or one for all together.
        jvps, pushforward: the same for forward mode.
        keep: ``keep(ans, operands)``: what is saved for the rules, where their letters do not tell.
        constant: True where the derivative is zero or does not exist: outputs carry none.
        broadcasts: True where a cotangent is summed down to a broadcast operand's shape.
        linear: True where it is linear in each operand, so that it is its own jvp.
        family: the name of the family that built it, for tests that draw their own shapes.
        reference: NumPy's or SciPy's function to compare with, or its dotted name.
        samples: what the registry-driven tests call it with.
        dtypes: the dtypes, of ``fdD``, for which it is tested and its derivatives hold.
    """

    def __init__(
        self,
        name: str,
        *,
        compute: str | Callable[..., Any] | None = None,
        prepare: Callable[..., Any] | None = None,
        infer: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        vjp: Sequence[Callable[..., Any] | None] | Callable[..., Any] | None = None,
        jvp: Sequence[Callable[..., Any] | None] | Callable[..., Any] | None = None,
        pullback: Callable[..., Any] | None = None,
        pushforward: Callable[..., Any] | None = None,
        keep: Callable[[Any, Any], tuple[Any, ...]] | None = None,
        constant: bool = False,
        broadcasts: bool = False,
        linear: bool = False,
        family: str = "",
        reference: str | Callable[..., Any] | None = None,
        samples: Sequence[Any] = (),
        dtypes: str = "fd",
        doc: str | None = None,
    ) -> None:
        self.name = self.__name__ = name
        self.impl = implementation(name, compute or name)
        self.prepare = prepare
        self.infer = infer or _unruled(name, "infer")
        self.batch = batch or _unruled(name, "batch")
        self.vjps, self.vjp_needs = compile_rules(vjp)
        self.jvps, _ = compile_rules(jvp)
        (self.pullback,), self.pullback_needs = compile_rules((pullback,))
        (self.pushforward,), _ = compile_rules((pushforward,))
        self.constant = constant
        self.broadcasts = broadcasts
        self.linear = linear
        self.family = family
        self.reference = reference
        self.samples = samples
        self.dtypes = dtypes
        self.__doc__ = doc
        self.keepers = Keepers(self, keep)
        registry.add_primitive(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.prepare is not None:
            if args and isinstance(args[0], list | tuple):
                args = (registry.asarray(args[0]), *args[1:])
            args, kwargs = self.prepare(*args, **kwargs)
        trace = slot.trace
        if trace is None:
            return evaluate(self, args, kwargs)
        return trace.process(self, args, kwargs)

    def bind(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Applies the primitive to operands and parameters that are prepared already."""
        trace = slot.trace
        if trace is None:
            return evaluate(self, args, params)
        return self.under(trace, args, params)

    def under(self, trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Hands the primitive to a trace in the form that its class has."""
        return trace.process(self, args, params)

    @property
    def __signature__(self) -> Any:
        """The public signature, for ``help`` and ``inspect``."""
        import inspect  # costs milliseconds

        return inspect.signature(self.prepare or type(self).__call__.__get__(self))

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> Any:
        return getitem, (registry, self.name)


class Unary(Primitive):
    """A primitive of one operand without parameters: the short way through the hot path."""

    def __call__(self, x: Any, /) -> Any:
        trace = slot.trace
        if trace is not None:
            return trace.process1(self, x)
        if type(x) is Array:
            x = x._data
        elif type(x) not in BUFFER_TYPES:
            return evaluate(self, (x,), {})
        out = new(Array)
        out._data = self.impl(x)
        return out


    def under(self, trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Hands the primitive to a trace in the form that its class has."""
        return trace.process1(self, args[0])


class Binary(Primitive):
    """A primitive of two operands without parameters: the short way through the hot path."""

    def under(self, trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Hands the primitive to a trace in the form that its class has."""
        return trace.process2(self, args[0], args[1])

    def __call__(self, x: Any, y: Any, /) -> Any:
        trace = slot.trace
        if trace is not None:
            return trace.process2(self, x, y)
        a = x._data if type(x) is Array else x
        b = y._data if type(y) is Array else y
        if type(a) not in BUFFER_TYPES or type(b) not in BUFFER_TYPES:
            return evaluate(self, (x, y), {})
        out = new(Array)
        try:
            out._data = self.impl(a, b)
        except ValueError as error:
            raise explained(self, (a, b), {}, error) from error
        return out
