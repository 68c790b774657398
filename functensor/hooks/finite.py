"""`check_finite`, and ``ft.config.check_finite``: which operation first made NaN or infinity.

A hook sees the results of all operations, forward, those within rules of the user's too, and what
other hooks put in place of values. For the way back it replaces the primitive of each node by one
that checks its rules. A jitted function keeps its plan, which reports where NaN or
infinity may have been made; then the call is run again, operation by operation, under the hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from itertools import repeat
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.config import config
from ..backends.devices import backend_of, to_host
from ..backends.errors.public_functions import begins
from ..backends.finiteness import has_infinity, has_nan, is_finite
from ..primitives.core.array import Tracer
from ..primitives.core.errors import NonFiniteError, failure
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import RAW, base_trace, calls_hooks_below, slot, under
from ..primitives.shape.index import Scatter
from ..programs.named_scope import active_scope, scoped
from ..traces.fitted_cotangents import fitted_cotangent
from ..traces.reverse import OutputPart
from ..traces.stand_ins import StandIn, stand_ins_of
from .faults import shown
from .finite_fixes import fix_for
from .handle import Handle
from .hook import Hook
from .interceptor import HookTrace
from .matching import Match, Matching
from .nodes import nodes_of
from .operation import Operation
from .registration import registered
from .values import Range, plain_values_of, tangents_of
from .watched_calls import CallWithHooks

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["check_finite", "checking_finite"]

# The types of buffers that NumPy can look at.
ON_HOST = np.ndarray, np.generic, float, int, complex
# Alarms of plans, in NumPy's words and those of `backends.cpu.plan.watched`.
NAN_ALARMS = frozenset({"NaN", "invalid value"})
INFINITY_ALARMS = frozenset({"divide by zero", "infinity", "overflow"})


@begins
def check_finite(
    nan: bool = True, inf: bool = True, where: Matching = None, *, scope: str | None = None
) -> Handle:
    """Makes it an error that an operation makes infinity of finite operands, or NaN without one.

    The operations of this thread are checked from now on, forward and on the way back, under every
    transformation. The error names the first such operation, the line and the ranges of its
    operands. A jitted function runs as a plan, which reports what it meets; then the call is run
    again operation by operation, so that the error is the same. ``ft.config.check_finite`` is the
    switch for all of it.

    Args:
        nan: whether to look for NaN.
        inf: whether to look for infinity.
        where: which operations are checked, as `use` takes them: names, tags, a regular expression
            or a function of an `Operation`; None for all.
        scope: which of them, by the `scope` that they are in.

    Returns:
        A `Handle`: use it in a ``with`` statement, or call its ``remove``.

    Raises:
        TypeError: ``nan`` or ``inf`` is neither True nor False.
        ValueError: there is nothing to look for.

    >>> import functensor as ft, functensor.numpy as np
    >>> step = ft.jit(ft.grad(lambda x: np.sum(np.sqrt(x))))
    >>> with ft.hooks.check_finite():
    ...     _ = step(np.array([1.0, 4.0]))
    ...     try:
    ...         step(np.array([0.0, 4.0]))
    ...     except ft.errors.NonFiniteError as error:
    ...         print(str(error).split(",")[0])
    the gradient of sqrt by operand 0
    """
    choices: dict[str, Any] = {"nan": nan, "inf": inf}
    for name, given in choices.items():
        if not isinstance(given, bool):
            shown = f"where={given!r}" if isinstance(given, str) else f"{name}=True"
            raise TypeError(f"check_finite takes {name} as True or False, not {given!r}: {shown}")
    if not (nan or inf):
        raise ValueError("check_finite has nothing to look for: nan and inf are both False")
    return Handle(Finite(nan, inf), Match(where, scope), on_replay=True)


def checking_finite() -> Handle:
    """Returns a handle by which this thread begins to check what ``config.check_finite`` says."""
    return Handle(Finite(switched=True), Match(), on_replay=True)


class Finite(Hook):
    """Raises an error where an operation makes NaN or infinity of finite operands.

    ``switched`` says whether it does so only while ``config.check_finite`` is on.
    """

    # It looks at all levels of a value.
    compiled = False
    raises = (NonFiniteError,)

    def __init__(self, nan: bool = True, inf: bool = True, switched: bool = False) -> None:
        self.nan = nan
        self.inf = inf
        self.switched = switched
        none: frozenset[str] = frozenset()
        self._alarms = (NAN_ALARMS if nan else none) | (INFINITY_ALARMS if inf else none)

    @property
    def alarms(self) -> frozenset[str]:
        return self._alarms if self.is_on() else frozenset()

    def is_on(self) -> bool:
        """Says whether this thread has it check operations."""
        if self.switched:
            return config.check_finite
        # It is done in C, so that handles which an interrupt has left in the list take no time.
        active = filter(attrgetter("active"), registered.handles)
        return any(map(is_, repeat(self), map(attrgetter("hook"), active)))

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        if self.switched and not config.check_finite:
            return
        for part, of in (("", plain_values_of), ("the tangent of ", tangents_of)):
            found = self.made(of(output), [*inputs, *op.params.values()])
            if found:
                raise error(f"{part}{shown(op, scope=True)}", found, op, inputs, output)
            if not isinstance(output, Tracer):
                return
        self.watch_rules(output, op)

    def made(self, out: Iterator[Any], inputs: Sequence[Any]) -> str:
        """Returns the word for NaN or infinity that no input has; empty if there is none."""
        bad = not_finite(out)
        if not bad:
            return ""
        both = plain_values_of, tangents_of
        given = not_finite(x for v in inputs for of in both for x in of(v))
        if self.nan and any(map(has_nan, bad)) and not any(map(has_nan, given)):
            return "NaN"
        return "infinity" if self.inf and not given and any(map(has_infinity, bad)) else ""

    def look_at_replacement(
        self, by: Callable[[], str], new: Any, old: Any, *, kind: str, line: str, fix: str
    ) -> None:
        """Raises an error where another hook has put NaN or infinity in place of finite values."""
        if not self.is_on():
            return
        known = old.bad if isinstance(old, Range) else [old]
        for part, of in (("", plain_values_of), (" in the tangent", tangents_of)):
            found = self.made(of(new), known)
            if found:
                words = old.words if isinstance(old, Range) else Range(old).words
                what = f"{by()} made {found}{part} in place of {kind}{words}"
                raise failure(NonFiniteError, what, fix=fix, line=line)

    def opened(self, call: Any, handle: Any) -> Any:
        """Returns a call whose function and rules, if they are the user's, are checked too."""
        if type(call) is CallWithHooks:
            return CallWithHooks(self.opened(call.call, handle), call.op, call.handles)
        if not getattr(call, "users", False):
            return call
        scope = active_scope()

        def around(fun: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(fun)
            def checked(*args: Any) -> Any:
                if not (handle.active and self.is_on()) or calls_hooks_below():
                    return fun(*args)
                with scoped(scope), under(HookTrace(base_trace(), handle)):
                    return fun(*args)

            return checked

        return call.within(around)

    def watch_rules(self, output: Value, op: Operation) -> None:
        """Checks the rules of an operation, at every level of reverse mode that recorded it."""
        for _, node in nodes_of(output):
            checked = (x for x in stand_ins_of(node.primitive) if type(x) is CheckedRules)
            if not any(x.hook is self for x in checked):
                node.primitive = CheckedRules(node, op, self)


def not_finite(buffers: Iterable[Any]) -> list[Any]:
    """Returns those of several buffers that have NaN or infinity, where NumPy can look at them."""
    found = []
    for buffer in buffers:
        if not isinstance(buffer, ON_HOST):
            # A device tells by itself; its numbers are fetched only if they are bad.
            isfinite = backend_of(buffer).xp.isfinite
            if buffer.dtype.kind in "biu" or (
                buffer.dtype.kind in "fc" and bool(isfinite(buffer).all())
            ):
                continue
            buffer = np.asarray(to_host(buffer))
        if not is_finite(buffer):
            found.append(buffer)
    return found


def error(
    what: str, found: str, op: Operation, inputs: Sequence[Any], output: Any = None
) -> NonFiniteError:
    """Returns the error for an operation that made NaN or infinity.

    ``output`` is what it made; None for the cotangents of its operands.
    """
    known = [x for x in inputs if any(True for _ in plain_values_of(x))]
    operands = " and ".join(Range(x).words for x in known)
    where, of = "", f" of {operands}" if operands else ""
    if output is None:
        where, of = f", which was computed at {op.line},", f" of the cotangent {operands}"
    fix = fix_for(op.name, found, known, getattr(output, "dtype", None))
    return failure(NonFiniteError, f"{what}{where} made {found}{of}", fix=fix)


# -- the way back


class NestedRules(Hook):
    """Checks the rules of operations that rules make themselves, at levels further out."""

    def __init__(self, op: Operation, hook: Finite) -> None:
        self.op = op
        self.hook = hook

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        self.hook.watch_rules(output, self.op)


class CheckedRules(StandIn):
    """Stands as the primitive of a node whose cotangents a hook checks.

    Attributes:
        operands: the types of the node's parents, to which cotangents are summed and cast.
    """

    def __init__(self, node: Any, op: Operation, hook: Finite) -> None:
        super().__init__(node.primitive, op)
        self.hook = hook
        self.operands = [x and ShapeDtype(x.shape, x.dtype) for x in node.parents]

    def ran(self, rule: Callable[..., Any], *args: Any) -> Any:
        if slot.trace is None or slot.trace is RAW or not self.hook.is_on():
            return rule(*args)
        with under(Handle(NestedRules(self.op, self.hook), Match())._trace):
            return rule(*args)

    def check(self, out: Any, place: int, g: Any, saved: Any) -> None:
        if not self.hook.is_on():
            return
        operand = self.operands[place] if place < len(self.operands) else None
        if type(out) in (Scatter, OutputPart):
            out = out.g
        elif out is not None and operand is not None:
            out = fitted_cotangent(out, operand, self)
        kept = saved if isinstance(saved, tuple | list) else ()
        inputs = [*(g if isinstance(g, list) else [g]), *kept]
        for part, of in (
            ("the gradient", plain_values_of),
            ("the gradient's tangent", tangents_of),
        ):
            found = self.hook.made(of(out), inputs)
            if found:
                what = f"{part} of {self.shown()} by operand {place}"
                raise error(what, found, self.op, inputs)

    def shown(self) -> str:
        """Returns what messages call the operation: it may be one of a rule's, further out."""
        op = self.op
        if self.name != op.name:
            op = Operation(self.name, {}, op.line, op.scope)
        return shown(op, scope=True)
