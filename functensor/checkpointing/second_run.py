"""The second run of a checkpointed function with a policy computes only values that are asked for.

The function runs on values of known shape and dtype. Saved values are there; all others are
computed when a rule of a derivative, or Python, asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..backends.restoring import setting
from ..primitives.core.annotations import Value, Values
from ..primitives.core.buffers import device_of, wrap
from ..primitives.core.errors import MissingRuleError
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import Trace, new, slot, under
from ..programs.program import argument_type
from ..random.key_reuse import ledger
from ..traces.device_scalars import watch_scalars
from ..traces.reverse import NO_PARAMS, Node, ReverseTracer, is_inexact, joint_node, make_node
from .capture import ReplayTrace, signature
from .first_run import Saved

if TYPE_CHECKING:
    from ..backends.annotations import DType
    from ..primitives.core.primitive_like import Call

__all__ = ["SelectiveTrace", "SelectiveTracer"]


class Deferred:
    """A value that is computed when it is asked for.

    Args:
        work: computes it of the operands' values.
        operands: values, deferred or not.
        known: its shape and dtype; None where it is no array.
        device: where it will be.
    """

    __slots__ = ("device", "done", "known", "operands", "result", "work")

    def __init__(
        self, work: Callable[[Values], Any] | None, operands: Sequence[Any], known: Any, device: str
    ) -> None:
        self.work = work
        self.operands = operands
        self.known: ShapeDtype = known
        self.device = device
        self.done = False
        self.result: Any = None

    @classmethod
    def of(cls, value: Value) -> Deferred:
        """Returns a value that is there already."""
        out = cls(None, (), argument_type(value), device_of(value))
        out.done, out.result = True, value
        return out

    @property
    def shape(self) -> tuple[int, ...]:
        return self.known.shape

    @property
    def dtype(self) -> DType:
        return self.known.dtype

    def value(self) -> Any:
        """Returns the value, computed if it was not."""
        if not self.done:
            # Random keys are used again, for the same numbers.
            with ledger.replaying(), setting(slot, replaying=True):
                self.compute()
        return self.result

    def compute(self) -> None:
        """Computes it and its operands; chains may be longer than Python recurses."""
        waiting = [self]
        while waiting:
            last = waiting[-1]
            missing = [x for x in last.operands if type(x) is Deferred and not x.done]
            if missing and not last.done:
                waiting += missing
                continue
            waiting.pop()
            if not last.done:
                assert last.work is not None
                last.result = last.work(list(map(computed_value, last.operands)))
                last.done, last.work, last.operands = True, None, ()


def computed_value(x: Value | Deferred) -> Any:
    """Returns a value as such, computed if need be."""
    return x.value() if type(x) is Deferred else x


def place_of(operands: Sequence[Any], params: dict[str, Any]) -> str:
    """Returns where an operation of operands will put its output."""
    given = params.get("device")
    places = (x.device if type(x) is Deferred else device_of(x) for x in operands)
    return given or next((place for place in places if place != "cpu"), "cpu")


def type_behind(x: Any) -> ShapeDtype:
    """Returns the shape and dtype of a value, without computing it."""
    return x.known if type(x) is Deferred else argument_type(x)


def output_of_call(i: int, found: Values) -> Any:
    """Returns one of the outputs of a call, of ``[(outputs, pullback)]``."""
    return found[0][0][i]


class SelectiveNode(Node):
    """A node whose residuals are computed when the walk comes by."""

    __slots__ = ("kept",)

    @property
    def saved(self) -> Any:
        kept = self.kept
        return tuple(map(computed_value, kept)) if type(kept) is tuple else kept

    @saved.setter
    def saved(self, kept: Any) -> None:
        self.kept = kept


class SelectiveTracer(ReverseTracer):
    """A value of the second run, which may not be computed yet; without a node, a constant."""

    __slots__ = ("deferred",)

    deferred: Deferred
    node: Any

    @property
    def value(self) -> Any:
        return self.deferred.value()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.deferred.shape

    @property
    def dtype(self) -> DType:
        return self.deferred.dtype

    @property
    def device(self) -> str:
        return self.deferred.device

    def origin(self) -> str:
        return super().origin() if self.node is not None else "made within a checkpointed function"

    def dependence(self) -> str:
        return super().dependence() if self.node is not None else ""


class SelectiveTrace(ReplayTrace):
    """Reverse mode of a function that ran before, with some of what it computed.

    Args:
        parent, name, fun, log: as for `ReplayTrace`.
        places: for every output of the first run's operations its saved form.
        saved: the arrays that were saved.
    """

    __slots__ = ("places", "saved")

    tracer = SelectiveTracer

    def __init__(
        self,
        parent: Trace,
        name: str,
        fun: Callable[..., Any] | None,
        log: list[Any],
        within: Trace,
        places: Sequence[Sequence[Saved | None]],
        saved: Sequence[Any],
    ) -> None:
        super().__init__(parent, name, fun, log, within)
        self.places = places
        self.saved = saved

    def wrap(self, value: Any, node: Any) -> SelectiveTracer:
        """Returns the tracer of a value and its node, which is None for constants."""
        out = new(SelectiveTracer)
        out.owner = self
        out.deferred = value if type(value) is Deferred else Deferred.of(value)
        out.node = node
        return out

    def constant(self, value: Value | Deferred) -> SelectiveTracer:
        """Returns the tracer of a value that depends on an input, but has no derivative."""
        return self.wrap(value, None)

    def process1(self, primitive: Primitive, x: Value) -> Any:
        return self.process(primitive, (x,), NO_PARAMS)

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Any:
        return self.process(primitive, (x, y), NO_PARAMS)

    def taken(self, args: Sequence[Any]) -> tuple[Values, tuple[Any, ...], int]:
        """Returns the operands, their nodes, and a bit for each that depends on an input."""
        mine = [self.owns(a) for a in args]
        operands = [a.deferred if m else self.lift(a) for a, m in zip(args, mine, strict=True)]
        nodes = tuple(a.node if m else None for a, m in zip(args, mine, strict=True))
        return operands, nodes, sum(1 << i for i, m in enumerate(mine) if m)

    def kept(self, args: Iterable[Any]) -> tuple[Values, tuple[Any, ...]]:
        operands, nodes, _ = self.taken(list(args))
        return operands, nodes

    def saved_by(self, node: Node) -> Any:
        return node.kept if isinstance(node, SelectiveNode) else node.saved

    def opened(self, kept: Values) -> Values:
        return list(map(computed_value, kept))

    def owns(self, x: Value) -> bool:
        """Says whether a value is one of this run's that depend on an input."""
        return type(x) is SelectiveTracer and x.owner is self

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        operands, nodes, found = self.taken(args)
        if not found:
            return wrap(self.below(primitive, operands, params))
        out = self.deferred(primitive, operands, params)
        (kept,) = self.again(signature(primitive.name, out))
        if kept is not None:
            out = self.taken_from(kept)
        mask = sum(1 << i for i, node in enumerate(nodes) if node is not None)
        keep = primitive.keepers[mask] if mask else None
        if keep is None or not is_inexact(out):
            return self.constant(out)
        saved = keep(out, tuple(operands))
        return self.wrap(out, make_node(primitive, nodes, saved, params, out, SelectiveNode))

    def deferred(self, primitive: Primitive, operands: Values, params: dict[str, Any]) -> Deferred:
        """Returns an operation's output: computed later, or now where its type is not sure."""

        def work(values: Values) -> Any:
            return self.below(primitive, values, params)

        wanted = self.log[self.position] if self.position < len(self.log) else None
        try:
            known = primitive.infer(primitive, *map(type_behind, operands), **params)
        except MissingRuleError:
            return Deferred.of(work(list(map(computed_value, operands))))
        out = Deferred(work, operands, known, place_of(operands, params))
        return out if signature(primitive.name, out) == wanted else Deferred.of(out.value())

    def again(self, got: tuple[Any, ...]) -> Sequence[Saved | None]:
        """Checks the next operation, and returns the saved forms of its outputs."""
        self.expect(got)
        return self.places[self.position - 1]

    def taken_from(self, saved: Saved) -> Deferred:
        """Returns a value of which something was saved."""
        assert saved.place is not None
        arrays = self.saved[saved.place]
        if saved.how is None:
            return Deferred.of(self.argument(arrays[0]))
        return Deferred(lambda _: saved.restored(arrays, self), (), saved.known, saved.device)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        if call.dissolves:
            with under(self):
                return call.program.run(args)  # type: ignore[no-any-return]
        done = call.in_parts(self, args)
        if done is not None:
            return done
        operands, nodes, found = self.taken(args)
        if not found:
            return [wrap(out) for out in self.parent.custom(call, operands)]
        wanted = [node is not None for node in nodes]
        place = self.position
        expected = self.log[place] if place < len(self.log) else None

        def work(values: Values) -> tuple[Values, Any]:
            if True not in wanted:
                outs, pull = self.parent.custom(call, values), None
            else:
                outs, pull = call.reverse(self.parent, values, wanted)
            got = signature(call.name, *outs)
            if got != expected:
                self.position = place
                self.expect(got)
            return outs, pull

        both = Deferred(work, operands, None, place_of(operands, {}))
        # A function with a rule of its own runs now: it tells the structure of its results.
        both.value()
        assert expected is not None
        places = self.again(expected)
        outs = []
        for i, (each, known) in enumerate(zip(places, expected[1:], strict=True)):
            work_of_one = partial(output_of_call, i)
            out = Deferred(work_of_one, (both,), ShapeDtype(*known), both.device)
            outs.append(out if each is None else self.taken_from(each))
        if True not in wanted:
            return [self.constant(out) for out in outs]
        joint = joint_node(call.name, nodes, lambda gs: both.value()[1](gs), outs)
        return self.outputs(joint, outs, self.constant)


watch_scalars(SelectiveTrace, "process")
