"""The interception point: the slot, traces, and the primitives that hand themselves to them.

``slot.trace`` is None while functions are merely evaluated. A transformation puts its own trace
there for as long as the user's function runs; every primitive then hands itself to that trace,
which unwraps its own tracers, works under its parent, and wraps what comes out. Values at the
bottom are raw buffers; ``Array`` appears at the public face only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import getitem
from typing import Any

import numpy as np

from ..backends import get as get_backend
from .array import Array, Tracer
from .buffers import BUFFER_TYPES, WEAK_TYPES, as_array, expose, to_buffer, wrap
from .errors import (
    EscapedTracerError,
    ImmutableArrayError,
    MissingRuleError,
    Running,
    ShapeError,
    function_line,
    message,
    missing_rule,
)
from .registry import registry
from .rules import compile_rules, keeper
from .types import shape_dtype

__all__ = [
    "RAW",
    "EvalTrace",
    "Primitive",
    "Trace",
    "evaluate",
    "slot",
    "stack_of",
    "under",
]

ndarray = np.ndarray
new = object.__new__

class Slot(threading.local):
    """Holds the current trace of a thread, and whose function is running, for messages."""

    trace: Trace | None = None
    running: Trace | None = None


slot = Slot()


def _pass_up(x: Any) -> Any:
    """Returns an operand as a value of an outer trace, which will unwrap it in its turn."""
    if isinstance(x, Tracer):
        if not x.trace.alive:
            x.trace.leave(x)
        return x
    return x if type(x) in BUFFER_TYPES or type(x) is Array else wrap(to_buffer(x))


class Trace:
    """Processes primitives on behalf of one run of one transformation.

    Attributes:
        parent: the trace under which this one works; ``RAW`` at the bottom.
        name: what messages call the transformation.
        fun: the function that is being transformed, for messages.
        alive: False once the transformation has ended.
        lift: turns what is a constant of this trace into a value of its parent.
    """

    __slots__ = ("alive", "fun", "lift", "name", "parent")

    # An interceptor has no tracers of its own and always stands innermost.
    interceptor = False
    # A standing trace never ends: its tracers are used outside of any run (the facade's tensors).
    standing = False

    def __init__(self, parent: Trace, name: str, fun: Any = None) -> None:
        self.parent = parent
        self.name = name
        self.fun = fun
        self.alive = True
        self.lift: Callable[[Any], Any] = to_buffer if parent is RAW else _pass_up

    def stack(self) -> str:
        """Returns the transformations down to this one, outermost first, for messages."""
        return stack_of(self)

    def argument(self, x: Any) -> Any:
        """Returns an argument of the transformed function as a value of the parent's level."""
        return self.lift(as_array(x))

    def released(self, x: Any) -> Any:
        """Returns an extra output of the transformed function as the caller sees it."""
        return wrap(x.value) if isinstance(x, Tracer) and x.trace is self else x

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Does a primitive's work for this transformation."""
        raise MissingRuleError(f"{self.name} does not process primitives")

    def process1(self, primitive: Primitive, x: Any) -> Any:
        """Does the work of a primitive of one operand without parameters."""
        return self.process(primitive, (x,), {})

    def process2(self, primitive: Primitive, x: Any, y: Any) -> Any:
        """Does the work of a primitive of two operands without parameters."""
        return self.process(primitive, (x, y), {})

    def below(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        """Does a primitive's work under the parent, on values of its level."""
        return primitive.under(self.parent, values, params)

    def ended(self) -> bool:
        """Says whether the transformation is over."""
        return not self.alive

    def over(self, trace: Trace) -> Trace:
        """Returns an interceptor that does the same on top of another trace."""
        raise MissingRuleError(f"{self.name} is not an interceptor")

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        """Does the work of a function that brings its own derivative rule."""
        raise MissingRuleError(f"{self.name} does not process custom rules")

    def leave(self, tracer: Tracer) -> Any:
        """Answers for a tracer that is used where this trace is not running.

        Raises:
            EscapedTracerError: always, but for traces that stand open (the facade's).
        """
        if self.alive:
            raise EscapedTracerError(
                message(
                    f"a tracer {tracer.describe()}, {tracer.origin()} under {self.stack()}, was "
                    "used where that is not running: within a list, or by a function with a rule "
                    "of its own that was not given it as an argument",
                    fix="np.stack for a list; pass the value as an argument of the function",
                    number=6,
                )
            )
        raise self.escaped(f"a tracer {tracer.describe()}, {tracer.origin()},")

    def escaped(self, what: str) -> EscapedTracerError:
        """Returns the error for something that was made under this trace and outlived it."""
        return EscapedTracerError(
            message(
                f"{what} was used after {self.name} of {function_line(self.fun)} had ended",
                fix="return the value from the transformed function (has_aux=True for extras) "
                "instead of storing it, or store ft.value(x)",
                number=6,
            )
        )


class EvalTrace(Trace):
    """The bottom of every stack: computes on raw buffers at once."""

    __slots__ = ()

    def __init__(self) -> None:
        self.parent = self
        self.name = "eval"
        self.fun = None
        self.alive = True
        self.lift = to_buffer

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Computes the primitive."""
        try:
            return primitive.impl(*args, **params)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(primitive, args, params, error) from error

    def process1(self, primitive: Primitive, x: Any) -> Any:
        """Computes the primitive; a Python scalar stays one, so that it stays weak."""
        ans = primitive.impl(x)
        return ans if type(x) not in WEAK_TYPES else ans.item()

    def process2(self, primitive: Primitive, x: Any, y: Any) -> Any:
        """Computes the primitive; two Python scalars give one."""
        try:
            ans = primitive.impl(x, y)
        except ValueError as error:
            raise explained(primitive, (x, y), {}, error) from error
        return ans if type(x) not in WEAK_TYPES or type(y) not in WEAK_TYPES else ans.item()

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        """Calls the function at the public face."""
        with under(self):
            return at_face(call.evaluate, args)


RAW = EvalTrace()


@contextmanager
def under(trace: Trace | None) -> Iterator[None]:
    """Puts a trace into the slot for the length of a ``with`` block."""
    before = slot.trace
    slot.trace = trace
    try:
        yield
    finally:
        slot.trace = before


def base_trace() -> Trace:
    """Returns the trace on which a new transformation stands: interceptors stay on top."""
    trace = slot.trace
    while trace is not None and trace.interceptor:
        trace = trace.parent
    return RAW if trace is None else trace


def settled(trace: Trace | None) -> Trace | None:
    """Returns a trace for the slot, without the interceptors on top that are over."""
    while trace is not None and trace.interceptor and trace.ended():
        trace = None if trace.parent is RAW else trace.parent
    return trace


def run(trace: Trace, fun: Callable[..., Any], args: Sequence[Any], kwargs: Any = None) -> Any:
    """Calls a function with a trace in the slot, below the interceptors that are there already.

    However the function ends, the slot is restored and the trace is over.
    """
    before, outer = slot.trace, slot.running
    slot.trace = trace if before is None or not before.interceptor else before.over(trace)
    slot.running = trace
    try:
        return fun(*args, **(kwargs or {}))
    except ValueError as error:
        # NumPy puts its own error in front of ours where one item of a buffer is set.
        mine = error.__cause__
        if isinstance(mine, ImmutableArrayError) and "array element" in str(error):
            raise mine.with_traceback(error.__traceback__) from None
        raise
    finally:
        slot.trace, slot.running = settled(before), outer
        trace.alive = False


def at_face(fun: Callable[..., Sequence[Any]], *groups: Sequence[Any]) -> list[Any]:
    """Calls a user's function from within a rule, where values may be raw buffers.

    Args:
        fun: takes lists of arrays and returns a list of arrays; None stands for zero.
        groups: lists of values of the level that the slot is at.
    """
    if slot.trace is not RAW:
        return list(fun(*groups))
    with under(None):
        public = [[expose(v) for v in group] for group in groups]
        return [None if out is None else to_buffer(out) for out in fun(*public)]


def stack_of(trace: Trace | None) -> str:
    """Returns the stack of transformations that a trace stands on, outermost first."""
    names: list[str] = []
    while trace is not None and trace is not RAW:
        if not trace.interceptor:
            names.append(f"{trace.name}({function_line(trace.fun)})")
        trace = trace.parent
    return " of ".join(reversed(names))


Running.stack = staticmethod(lambda: stack_of(slot.running))


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


def explained(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], error: Exception
) -> Exception:
    """Returns the error to raise in place of the array module's, which knows no axis names.

    Shape inference holds the words: whatever it refuses, it refuses by name.
    """
    try:
        primitive.infer(primitive, *map(shape_dtype, args), **params)
    except ShapeError as better:
        return better
    except MissingRuleError:
        return error
    return error


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
    """

    def __init__(self, primitive: Primitive) -> None:
        super().__init__()
        self.primitive = primitive

    def __missing__(self, mask: int) -> Any:
        primitive = self.primitive
        if primitive.constant:
            keep = None
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
        self.keepers = Keepers(self)
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
