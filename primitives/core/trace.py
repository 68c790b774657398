"""The interception point: the slot, traces, and the primitives that hand themselves to them.

``slot.trace`` is None while functions are merely evaluated. A transformation puts its own trace
there for as long as the user's function runs; every primitive then hands itself to that trace,
which unwraps its own tracers, works under its parent, and wraps what comes out. Values at the
bottom are raw buffers; ``Array`` appears at the public face only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from numpy import ndarray

from ...backends.errors.tracebacks import Within
from ...backends.messages import Running
from ...backends.restoring import Restoring, setting
from .annotations import ArrayLike, Value
from .array import Array, Tracer
from .buffers import (
    BUFFER_TYPES,
    WEAK_TYPES,
    apart_from,
    as_array,
    different_devices,
    exposed,
    owned,
    to_buffer,
    wrap,
)
from .errors import (
    DeviceError,
    EscapedTracerError,
    ImmutableArrayError,
    MissingRuleError,
    ShapeError,
    failure,
    function_line,
    is_inner,
)
from .numpy_protocols import Bottom
from .primitive_like import Call, PrimitiveLike
from .refused_indices import refused_index
from .shape_dtype import number_dtype, shape_dtype

__all__ = [
    "RAW", "EvalTrace", "Recalled", "Trace", "as_written", "at_face", "base_trace", "below_hooks",
    "calls_hooks_below", "explained", "interceptors", "is_recalled", "is_staged", "new",
    "note_replaced", "recalling", "run", "slot", "staging_level", "transformation_stack", "under",
    "without_ended_interceptors", "words_for",
]  # fmt: skip

# The errors that `Tracer.__float__` may raise where NumPy stores a number.
BURIED = (ImmutableArrayError, EscapedTracerError)


class Slot(threading.local):
    """Holds the current trace of a thread, and whose function is running, for messages.

    Attributes:
        stood_for: the ids of tracers in whose place a trace that is running puts values.
        face: makes functions of traced values those of tensors; None where none was given.
        axes: the axes of processes that collectives may speak of; None outside of ``spmd``.
        met_tensor: whether a transformation that was given no tensor has met one.
        turn: the node whose rules a backward pass runs, and what lives as long as the pass.
        replaying: whether a function runs again for a backward pass.
        shown: what hooks were shown, by id, while it is watched whether a function takes it back.
        answers: keeps what hooks answer in a run of a plan, or repeats it.
    """

    trace: Trace | None = None
    running: Trace | None = None
    stood_for: Collection[int] = ()
    turn: list[Any] | None = None
    replaying: bool = False
    shown: dict[int, Any] | None = None
    answers: Any = None
    met_tensor: bool = False
    face: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    axes: Any = None


slot = Slot()
# Makes a tracer or a node without a call of its constructor.
new = object.__new__
R = TypeVar("R")


def _pass_up(x: ArrayLike) -> Any:
    """Returns an operand as a value of an outer trace, which will unwrap it in its turn."""
    if isinstance(x, Tracer):
        x = x if x.owner.alive else x.owner.leave(x)
        return x if isinstance(x, Tracer) else wrap(x)
    return x if type(x) in BUFFER_TYPES or type(x) is Array else exposed(to_buffer(x))


class Trace:
    """Processes primitives on behalf of one run of one transformation.

    Signatures write ``Array`` for what a primitive returns. Under ``RAW`` it is a raw buffer.

    Attributes:
        parent: the trace under which this one works; ``RAW`` at the bottom.
        name: what messages call the transformation; empty where they do not mention it.
        fun: the function that is being transformed, for messages.
        alive: False once the transformation has ended.
        lift: turns what is a constant of this trace into a value of its parent.
        within: the trace that messages name before it; None where that is the parent.
    """

    __slots__ = ("__weakref__", "alive", "fun", "lift", "name", "parent", "within")

    # An interceptor has no tracers of its own and always stands innermost.
    interceptor = False
    # A standing trace never ends: its tracers are used outside of any run (the facade's tensors).
    standing = False
    # True where it writes a program and computes nothing, and where it runs once for a batch.
    staging = False
    batching = False
    # True where an operation of a batch above it may be recorded as its parts, though hooks see it.
    in_parts = False
    differentiates = False  # True in reverse and forward mode
    # True where that program has only what tangents go through, and all else is computed.
    linear = False
    # True where that program calls the hooks that see its operations.
    calls_hooks = False
    # True where a hook that is compiled into that program has replaced a value.
    replaced = False

    def __init__(
        self, parent: Trace, name: str, fun: Any = None, within: Trace | None = None
    ) -> None:
        self.parent = parent
        self.name = name
        self.fun = fun
        self.within = within
        self.alive = True
        self.lift: Callable[[ArrayLike], Any] = to_buffer if parent is RAW else _pass_up

    def stack(self) -> str:
        """Returns the transformations down to this one, outermost first, for messages."""
        return transformation_stack(self)

    def in_words(self) -> str:
        """Returns the transformation and its function; empty where messages do not mention it."""
        return "" if not self.name or self.interceptor else words_for(self.name, self.fun)

    def argument(self, x: ArrayLike) -> Any:
        """Returns an argument of the transformed function as a value of the parent's level."""
        if type(x) is ndarray and x.dtype.kind == "V":
            number_dtype(x.dtype)
        return self.lift(as_array(x))

    def note_gradients(self, leaves: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Remembers, while a program is staged, which of its values are gradients, and at which."""

    def released(self, x: Any, given: list[Any] | None = None) -> Any:
        """Returns an extra output of the transformed function as the caller sees it.

        Its memory is that of none of the plain arrays that were given.
        """
        return apart_from(x.value, given or []) if isinstance(x, Tracer) and x.owner is self else x

    def process(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Array:
        """Does a primitive's work for this transformation."""
        raise MissingRuleError(f"{self.name} does not process primitives")

    def process1(self, primitive: Any, x: Any) -> Array:
        """Does the work of a primitive of one operand without parameters."""
        return self.process(primitive, (x,), {})

    def process2(self, primitive: Any, x: Any, y: Any) -> Array:
        """Does the work of a primitive of two operands without parameters."""
        return self.process(primitive, (x, y), {})

    def below(self, primitive: Any, values: Sequence[Any], params: dict[str, Any]) -> Any:
        """Does a primitive's work under the parent, on values of its level."""
        return primitive.under(self.parent, values, params)

    def ended(self) -> bool:
        """Says whether the transformation is over."""
        return not self.alive

    def over(self, trace: Trace) -> Trace:
        """Returns an interceptor that does the same on top of another trace."""
        raise MissingRuleError(f"{self.name} is not an interceptor")

    def settled(self, before: Sequence[Any]) -> Trace | None:
        """Returns what the slot holds once a plan has run; `registrations` was ``before`` it."""
        return without_ended_interceptors(self)

    def registrations(self) -> Sequence[Any]:
        """Returns the registrations by which the thread has interceptors."""
        return ()

    def key(self) -> Hashable:
        """Returns what a program staged under an interceptor depends on; None if none can be."""
        return None

    def alarms(self) -> tuple[frozenset[str], Hashable] | None:
        """Returns what a plan reports in place of calling an interceptor; None if it is called.

        What it reports, in words, is beside what says which operations the interceptor sees.
        """
        return None

    def met(self, taken_back: bool) -> None:
        """Notes that an interceptor has seen all of a function that may be staged next time.

        ``taken_back`` says whether the function took a value that was shown back from it.
        """

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        """Does the work of a function that brings its own derivative rule."""
        raise MissingRuleError(f"{self.name} does not process custom rules")

    def leave(self, tracer: Tracer) -> Value:
        """Answers for a tracer that is used where this trace is not running.

        Raises:
            EscapedTracerError: always, but for traces that stand open (the facade's), and where
                a trace further out puts another value in its place.
        """
        if id(tracer) in slot.stood_for:
            return tracer
        if self.alive:
            raise failure(
                EscapedTracerError,
                f"a tracer {tracer.describe()}, {tracer.origin()} under {self.stack()}, was "
                "used where that is not running: within a list, or by a function with a rule "
                "of its own that was not given it as an argument",
                fix="np.stack for a list; pass the value as an argument of the function",
            )
        raise self.escaped(f"a tracer {tracer.describe()}, {tracer.origin()},", tracer.is_known())

    def escaped(self, what: str, known: bool = False) -> EscapedTracerError:
        """Returns the error for something that was made under this trace and outlived it.

        ``known`` says whether it has a value that could have been stored.
        """
        extras = " (has_aux=True for extras)" if known else ""
        fix = f"return the value from the transformed function{extras} instead of storing it"
        return failure(
            EscapedTracerError,
            f"{what} was used after {self.name} of {function_line(self.fun)} had ended",
            fix=f"{fix}, or store ft.value(x)" if known else fix,
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

    def process(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Computes the primitive."""
        try:
            return primitive.impl(*args, **params)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(primitive, args, params, error) from error

    def process_ahead(
        self, primitive: PrimitiveLike, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Computes a primitive that has an ``ahead``: the output, and what rules get for it."""
        assert primitive.ahead is not None
        try:
            return primitive.ahead(*args, **params)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(primitive, args, params, error) from error

    def process1(self, primitive: Any, x: Any) -> Any:
        """Computes the primitive; a Python scalar stays one, so that it stays weak."""
        ans = primitive.impl(x)
        return ans if type(x) not in WEAK_TYPES else ans.item()

    def process2(self, primitive: Any, x: Any, y: Any) -> Any:
        """Computes the primitive; two Python scalars give one."""
        try:
            ans = primitive.impl(x, y)
        except ValueError as error:
            raise explained(primitive, (x, y), {}, error) from error
        return ans if type(x) not in WEAK_TYPES or type(y) not in WEAK_TYPES else ans.item()

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        """Calls the function at the public face."""
        with under(self):
            return at_face(call.evaluate, args)


RAW = EvalTrace()


class Recalled(Trace):
    """Stands for transformations in messages while no trace does their work.

    A jitted function may run operation by operation, and a plan may call a function of the user's.
    """

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        super().__init__(base_trace(), "", None, slot.running)
        self.words = words

    def in_words(self) -> str:
        return self.words


class under(Restoring):
    """Puts a trace into the slot for the length of a ``with`` block."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace | None) -> None:
        self._trace = trace
        self.close = partial(setattr, slot, "trace", slot.trace)

    def __enter__(self) -> Any:
        slot.trace = self._trace


def base_trace() -> Trace:
    """Returns the trace on which a new transformation stands: interceptors stay on top."""
    trace = slot.trace
    while trace is not None and trace.interceptor:
        trace = trace.parent
    return RAW if trace is None else trace


def below_hooks() -> under:
    """Returns a block in which no interceptor sees what is done."""
    base = base_trace()
    return under(None if base is RAW else base)


def interceptors() -> list[Any]:
    """Returns the interceptors that stand innermost, the last one first."""
    found = []
    trace = slot.trace
    while trace is not None and trace.interceptor:
        found.append(trace)
        trace = trace.parent
    return found


def is_staged() -> bool:
    """Says whether a program of all that is computed is being staged, at whatever level."""
    return staging_level() is not None


def staging_level() -> Trace | None:
    """Returns the trace that stages a program of all that is computed, if there is one."""
    trace = slot.trace
    while trace is not None and trace is not RAW and (trace.linear or not trace.staging):
        trace = trace.parent
    return None if trace is RAW else trace


def calls_hooks_below() -> bool:
    """Says whether a program that calls hooks is being staged, at whatever level."""
    trace = slot.trace
    while trace is not None and trace is not RAW:
        if trace.calls_hooks:
            return True
        trace = trace.parent
    return False


def note_replaced() -> None:
    """Notes in the programs that are being staged that a hook has replaced a value of theirs."""
    trace = slot.trace
    while trace is not None and trace is not RAW:
        if trace.staging:
            trace.replaced = True  # type: ignore[misc]
        trace = trace.parent


def without_ended_interceptors(trace: Trace | None) -> Trace | None:
    """Returns a trace for the slot, without the interceptors on top that are over."""
    while trace is not None and trace.interceptor and trace.ended():
        trace = None if trace.parent is RAW else trace.parent
    return trace


def run(
    trace: Trace, fun: Callable[..., R], args: Sequence[Any], kwargs: dict[str, Any] | None = None
) -> R:
    """Calls a function with a trace in the slot, below the interceptors that are there already.

    However the function ends, the slot is restored and the trace is over.
    """
    before, outer = slot.trace, slot.running
    slot.trace = trace if before is None or not before.interceptor else before.over(trace)
    slot.running = trace
    if trace.within is None and outer is not trace:
        # Traces that stand on lower levels, as those that rules begin, are within it for users.
        trace.within = outer
    try:
        return fun(*args, **(kwargs or {}))
    except ValueError as error:
        # NumPy puts its own error in front of ours where one item of a buffer is set.
        mine = error.__cause__
        if isinstance(mine, BURIED) and "array element" in str(error):
            raise mine.with_traceback(error.__traceback__) from None
        raise
    except TypeError as error:
        asked = refused_index(error)
        if asked is None:
            raise
        asked.__traceback__ = error.__traceback__
    finally:
        # Assignments first, between which no interrupt can come.
        slot.trace, slot.running = before, outer
        trace.alive = False
        if before is not None and before.interceptor:
            slot.trace = without_ended_interceptors(before)
        slot.met_tensor = slot.met_tensor and base_trace() is not RAW
    # Raised within the block it would have NumPy's as its context, which holds what was traced.
    raise asked


def as_written(fun: Callable[..., R]) -> Callable[..., R]:
    """Returns a user's function as transformations call it: of tensors, if they were given some."""
    return fun if slot.face is None else slot.face(fun)


def at_face(fun: Callable[..., Sequence[Any]], *groups: Sequence[Any]) -> list[Any]:
    """Calls a user's function from within a rule, where values may be raw buffers.

    Args:
        fun: takes lists of arrays and returns a list of arrays; None stands for zero.
        groups: lists of values of the level that the slot is at.
    """
    if slot.trace is not RAW:
        return list(map(owned, fun(*groups)))
    with under(None):
        public = [[exposed(v) for v in group] for group in groups]
        return [None if out is None else to_buffer(owned(out)) for out in fun(*public)]


def transformation_stack(trace: Trace | None, outermost: Trace | None = None) -> str:
    """Returns the stack that a trace stands on, from ``outermost`` if it is there, or the first."""
    names = []
    while trace is not None and trace is not RAW:
        names.append(trace.in_words())
        trace = None if trace is outermost else trace.within or trace.parent
    return " of ".join(filter(None, reversed(names)))


def words_for(name: str, fun: Any) -> str:
    """Returns what messages call a transformation of a function; empty for one of ours."""
    return "" if is_inner(fun) else f"{name}({function_line(fun)})"


def recalling(words: str) -> setting:
    """Returns a block in which messages name transformations for which no trace runs."""
    return setting(slot, running=Recalled(words))


def is_recalled() -> bool:
    """Says whether a function runs in such a block."""
    trace = slot.running
    while trace is not None and trace is not RAW:
        if type(trace) is Recalled:
            return True
        trace = trace.within or trace.parent
    return False


Running.stack = staticmethod(lambda: transformation_stack(slot.running))
Within.function = staticmethod(lambda: slot.running is not None)
Bottom.reached = staticmethod(lambda: slot.trace is RAW)


def explained(
    primitive: Any, args: Sequence[ArrayLike], params: dict[str, Any], error: Exception
) -> Exception:
    """Returns the error to raise in place of the array module's, which knows no axis names.

    Shape inference holds the words: whatever it refuses, it refuses by name.
    """
    if type(error) is DeviceError:
        return different_devices(primitive.name, str(error), args)
    try:
        primitive.infer(primitive, *map(shape_dtype, args), **params)
    except (MissingRuleError, ShapeError) as found:
        return found if isinstance(found, ShapeError) else error
    return error
