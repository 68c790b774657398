"""The standing trace of tensors: what they record, and what becomes of their gradients.

Tensors use the nodes of reverse mode. The nodes are reached from the results alone, so there is no
tape to clear: a graph is gone when its results are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..custom.call import Pullback
from ..primitives.core.array import Array, Tracer
from ..primitives.core.augmented_assignment import watch
from ..primitives.core.buffers import ARRAY_TYPES, BUFFER_TYPES, owned, to_buffer, wrap
from ..primitives.core.errors import BackwardError, TracerConversionError, failure, user_line
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call
from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import INEXACT
from ..primitives.core.trace import RAW, base_trace, new, slot, under
from ..traces.device_scalars import watch_scalars
from ..traces.reverse import (
    NO_PARAMS,
    PROJECTION,
    Node,
    ReverseTrace,
    joint_node,
    make_node,
    maker_of,
    next_number,
    projection_node,
)
from ..traces.stand_ins import StandIn
from ..transforms.tensor_entrance import entrance
from .flat_steps import FLAT_STEPS
from .grad_mode import mode, no_grad
from .leaf_means import averaged_backward
from .widening import may_be_too_wide, without_widening

if TYPE_CHECKING:
    from ..backends.annotations import Buffer
    from ..primitives.core.annotations import ArrayLike

__all__ = [
    "TAPE", "LeafNode", "OutdatedReceiver", "Receiver", "TapeTrace", "add_totals", "lost",
    "note_call", "receiver_of", "run_tape_backward", "turned",
]  # fmt: skip

# Threads may go back to the same leaves at the same time.
adding = threading.Lock()


def turned(g: Any) -> Any:
    """Returns the gradient of a cotangent, or the cotangent of a gradient: its conjugate.

    Rules are those of JAX, in whose convention the derivative of a real function of z = x + iy has
    the parts d/dx and -d/dy. In PyTorch's the second is d/dy, so that steps go along ``-grad``.
    """
    if g is None or g.dtype.kind != "c":
        return g
    return ops.conj(g) if isinstance(g, Tracer) else g.conj()


class Receiver:
    """The end of one tensor's gradient: hooks see it, and it is added to ``grad``.

    Attributes:
        hooks: functions from a gradient to a gradient, by the ids of their handles. Gradients are
            buffers, and tensors where the pass is recorded.
        after: functions that are called once ``grad`` has what a pass adds, by the same.
        keeps: whether there is a ``grad``.
        grad: a tensor, or None before the first backward pass.
        cleared: the number of nodes there were when ``grad`` was last set to None.
    """

    __slots__ = ("after", "cleared", "grad", "hooks", "keeps")

    def __init__(self, keeps: bool) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.after: dict[int, Callable[[], Any]] = {}
        self.keeps = keeps
        self.clear()

    def clear(self) -> None:
        """Sets ``grad`` to None."""
        self.grad: Any = None
        self.cleared = next_number()

    def missed(self) -> bool:
        """Says whether a backward pass has ended since, and has not come here."""
        return self.grad is None and self.cleared < mode.last_pass

    def shown(self, g: Any) -> Any:
        """Returns a cotangent after all hooks have seen its gradient."""
        if not self.hooks:
            return g
        g = turned(g)
        for hook in tuple(self.hooks.values()):
            g = hook(g)
        return turned(g)

    def add(self, g: Any) -> None:
        """Adds to ``grad``, which stays the same tensor unless the pass was recorded.

        ``g`` is a cotangent.
        """
        g = turned(g)
        with adding:
            if isinstance(g, TAPE.tracer):
                self.grad = g if self.grad is None else self.grad + g
            elif self.grad is None:
                self.grad = TAPE.wrap(g, None)
            elif self.grad.node is None:
                before = self.grad._data
                if g.shape != before.shape:
                    raise failure(
                        BackwardError,
                        f"backward() adds a gradient of shape {g.shape} to one of shape "
                        f"{before.shape}: the leaf has another shape since",
                        fix="x.grad = None",
                    )
                self.grad.put_buffer(before + g)
            else:
                self.grad = self.grad + TAPE.wrap(g, None)

    def end_pass(self) -> None:
        """Calls what is to be called once ``grad`` is there."""
        for hook in tuple(self.after.values()):
            hook()


class OutdatedReceiver(Receiver):
    """The end of a leaf's gradient in graphs from before the leaf was given another shape or dtype.

    Attributes:
        what: how it was given that.
    """

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        super().__init__(keeps=True)
        self.what = what

    def shown(self, g: Any) -> Any:
        """Raises an error, as the gradient fits the leaf no more."""
        raise failure(
            BackwardError,
            f"backward() comes to a leaf that has another shape or dtype since {self.what}",
            fix="backward() before the leaf is changed",
        )


class LeafNode(Node):
    """The node of a tensor that requires grad by itself."""

    __slots__ = ("receiver",)

    def __init__(self, value: Array | Buffer) -> None:
        self.primitive = None
        self.parents = ()
        self.saved = None
        self.params = NO_PARAMS
        self.number = next_number()
        self.shape = value.shape
        self.dtype = value.dtype
        self.receiver = Receiver(keeps=True)


class Received(StandIn):
    """Stands as the primitive of a node whose gradient somebody wants to see.

    The walk hands a node's gradient to its primitive once, when all of it has come together.
    """

    vjps = None

    def __init__(self, node: Node) -> None:
        super().__init__(node.primitive)
        self.receiver = Receiver(keeps=False)
        self.name = maker_of(node)
        self.wanted = [parent is not None for parent in node.parents]

    def pullback(self, g: Buffer, saved: Any, params: dict[str, Any]) -> Any:
        """Returns the cotangents of the operands, once the receiver has seen that of the output."""
        g = self.receiver.shown(g)
        if self.receiver.keeps:
            self.receiver.add(g)
        if self.primitive.vjps is None:
            return self.primitive.pullback(g, saved, params)
        return [
            vjp(g, saved, params) if wanted else None
            for vjp, wanted in zip(self.primitive.vjps, self.wanted)
        ]


def receiver_of(node: Node, *, make: bool = False) -> Any:
    """Returns the receiver of a node, None if it has none and none is to be made."""
    if isinstance(node, LeafNode):
        return node.receiver
    if not isinstance(node.primitive, Received):
        if not make:
            return None
        node.primitive = Received(node)
    return node.primitive.receiver


def run_tape_backward(
    roots: Sequence[tuple[Node, Buffer]], *, consume: bool, named: Callable[[], str]
) -> None:
    """Walks back from nodes and adds to the gradients of the leaves.

    Nothing is added if a hook raises. ``named`` returns what messages call the pass.
    """
    with under(RAW), no_grad():
        grads = averaged_backward(roots, consume=consume, line=user_line(), named=named)
        totals = [
            (leaf.receiver, leaf.receiver.shown(g))
            for leaf, g in grads.items()
            if isinstance(leaf, LeafNode)
        ]
    add_totals(totals)


def add_totals(totals: Sequence[tuple[Receiver, Any]]) -> None:
    """Adds what a pass has come to, to the gradients of tensors."""
    for receiver, total in totals:
        receiver.add(total)
    mode.last_pass = next_number()
    for receiver, _ in totals:
        receiver.end_pass()


class TapeTrace(ReverseTrace):
    """Processes primitives that meet a tensor, whenever no transformation runs.

    Results are tensors, with a node if an operand has one and the thread's switch is on.
    """

    __slots__ = ()

    standing = True
    # Higher modules put these here: the class of tensors, the classes of views that are behind
    # their base, by those that they have else, the class of tensors in memory that others may write
    # to, the level on which transformations of tensors stand, and the class of those on which
    # functions compute with tensors within them; and what runs a pass for `Tensor.backward`, and
    # what `Tensor.numpy` calls.
    tracer: Any = Tracer
    late: ClassVar[Mapping[type, type]] = MappingProxyType({})
    in_memory: Any = None
    array_over: Any = None
    level: Any = None
    face: Any = None
    run_backward: Any = None

    def wrap(self, value: Any, node: Node | None) -> Any:
        """Returns the tensor of a buffer and its node."""
        out = new(self.tracer)
        out._data = value
        out.node = node
        # Read in each step of an optimizer, where what is not there takes ten times as long.
        out._source = out._views = None
        return out

    def all_wrapped(self, buffers: Iterable[Any]) -> list[Any]:
        """Returns the tensors of what plans return, which require no gradient."""
        tensor, kinds = self.tracer, ARRAY_TYPES
        outs = []
        for buffer in buffers:
            out = new(tensor)
            out._data = buffer if type(buffer) in kinds else wrap(buffer)._data
            out.node = out._source = out._views = None
            outs.append(out)
        return outs

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        tensor = self.tracer
        values: list[Any] = []
        parents: list[Node | None] = []
        mask = 0
        bit = 1
        for a in args:
            node = None
            if isinstance(a, tensor):
                values.append(a._data)
                node = a.node
                if node is not None:
                    mask |= bit
            else:
                # As tensor users expect, a NumPy float decides no more of the dtype than Python's.
                a = float(a) if type(a) is np.float64 else a
                value = a if type(a) in BUFFER_TYPES else to_buffer(a)
                # Its owner may change it before the backward pass, or with what is a view of it.
                values.append(value if type(a) is Array else owned(value))
            parents.append(node)
            bit += bit
        if mask and primitive.ahead is not None and mode.enabled:
            ans, kept = RAW.process_ahead(primitive, values, params)
        else:
            ans = kept = RAW.process(primitive, values, params)
        if primitive.broadcasts and may_be_too_wide(ans.dtype.char, values):
            narrow = without_widening(primitive, values, ans.dtype)
            if narrow is not None:
                values = narrow
                ans = kept = RAW.process(primitive, values, params)
        out = new(tensor)
        out._data = ans
        out.node = out._source = out._views = None
        if mask and mode.enabled:
            keep = primitive.keepers[mask]
            if keep is None:
                step = FLAT_STEPS.get(primitive.name)
                if step is not None and ans.dtype.kind in INEXACT:
                    out.node = make_node(step, tuple(parents), (), params, ans)
            elif ans.dtype.kind in INEXACT:
                # `make_node` is written out, as in reverse mode: a call costs 3 to 5 %.
                out.node = node = new(Node)
                node.primitive = primitive
                node.parents = tuple(parents)
                node.saved = keep(kept, values)
                node.params = params
                node.number = next_number()
                node.shape = ans.shape
                node.dtype = ans.dtype
        return out

    def process1(self, primitive: Primitive, x: ArrayLike) -> Any:
        return self.process(primitive, (x,), NO_PARAMS)

    def process2(self, primitive: Primitive, x: ArrayLike, y: ArrayLike) -> Any:
        return self.process(primitive, (x, y), NO_PARAMS)

    def unwrap(self, args: Iterable[Any]) -> tuple[list[Any], tuple[Node | None, ...], int]:
        """Returns the operands' buffers and nodes, and a bit for each that has a node to record."""
        values: list[Any] = []
        parents: list[Node | None] = []
        mask = 0
        recording = mode.enabled
        for i, a in enumerate(args):
            node = None
            if isinstance(a, self.tracer):
                values.append(a._data)
                if recording and a.node is not None:
                    node = a.node
                    mask |= 1 << i
            else:
                value = a if type(a) in BUFFER_TYPES else to_buffer(a)
                values.append(value if type(a) is Array else owned(value))
            parents.append(node)
        return values, tuple(parents), mask

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        of_program: Any = call
        if hasattr(call, "recorded"):
            values, nodes, mask = self.unwrap(args)
            buffers = of_program.buffers_of(values) if mask else None
            if buffers is not None:
                return recorded_call(call, buffers, nodes)
        outs = super().custom(call, args)
        note_call(call, [x._data if isinstance(x, self.tracer) else x for x in args], outs)
        if any(getattr(x, "node", None) is not None for x in outs):
            # Those that were detached within a program require no gradient.
            reached = call.reached(tuple([getattr(x, "node", None) is not None for x in args]))
            for x, flag in zip(outs, reached or (), strict=False):
                if not flag and isinstance(x, self.tracer):
                    x.node = None
        return [x if isinstance(x, self.tracer) else self.wrap(to_buffer(x), None) for x in outs]

    def leave(self, tracer: Any) -> Any:
        """Returns the buffer of a tensor that is used where only arrays are.

        Raises:
            TracerConversionError: it requires grad, and its gradient would get lost.
        """
        if tracer.node is None or not mode.enabled:
            if slot.face is None and base_trace() is not RAW:
                watch()
                slot.met_tensor = True
            return tracer._data
        raise lost(tracer.name())

    def entered(self, tensor: Any) -> Array:
        """Returns the value of a tensor that is an argument of a transformation.

        Raises:
            TracerConversionError: it requires grad, and no transformation out there was given one.
        """
        trace = slot.trace
        while trace is not None and trace is not RAW:
            if trace is self.level:
                level: Any = trace
                return wrap(level.entered(tensor))
            trace = trace.parent
        return wrap(self.leave(tensor))


def recorded_call(call: Any, buffers: list[Any], nodes: tuple[Node | None, ...]) -> list[Any]:
    """Returns the outputs of a `ProgramCall` of tensors alone, of their buffers, as tensors."""
    reverse = call.recorded(tuple([node is not None for node in nodes]))
    outs, pull_back = reverse(call, buffers)
    joint = joint_node(call.name, nodes, pull_back, outs)
    return [
        TAPE.wrap(out, projection_node(joint, i, out) if reached else None)
        for i, (out, reached) in enumerate(zip(outs, reverse.reached, strict=True))
    ]


entrance.mode = mode
entrance.recorded = recorded_call


def note_call(call: Call, values: Sequence[Any], outs: Sequence[Any]) -> None:
    """Notes at the node of a call how it is called again, for gradients that are recorded."""
    node = next((x.node for x in outs if getattr(x, "node", None) is not None), None)
    if node is None or node.primitive is not PROJECTION:
        return
    joint = node.parents[0]
    pull_back = joint.saved
    if not isinstance(pull_back, Pullback):
        joint.saved = Pullback(lambda kept, gs: pull_back(gs), [])
    joint.saved.repeated = call, list(values), None


def lost(what: str) -> TracerConversionError:
    """Returns the error for a tensor that is used where its gradient would get lost."""
    stack = base_trace().stack()
    where = "inside a transformation" if stack else "where a plain array is wanted"
    return failure(
        TracerConversionError,
        f"{what} requires grad and was used {where}: its gradient would get lost",
        fix="pass it as an argument of the transformed function, or x.detach()"
        if stack
        else "x.detach(), or functensor.numpy.stack for a list of tensors",
        under=stack,
    )


watch_scalars(TapeTrace, "process")
TAPE = TapeTrace(RAW, "a tensor")
