"""Functions of tensors with a rule of their own for the way back, as PyTorch's users write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ...backends.errors.public_functions import check_function
from ...custom.rules import custom_vjp
from ...primitives.core.array import Tracer
from ...primitives.core.buffers import beside, to_buffer, wrap
from ...primitives.core.errors import BackwardError, RuleResultError, describe, failure
from ...primitives.core.shape_dtype import INEXACT
from ...primitives.core.trace import as_written, under
from ...tensors.grad_mode import GradMode, is_grad_enabled
from ...tensors.recorded_backward import FunctionPull
from ...tensors.tape import TAPE, turned
from ...tensors.tensor import Tensor
from ...traces.forward import zeros_like
from ...traces.reverse import Node, joint_node, projection_node
from ...transforms.tensor_entrance import entrance

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """The object that `Function.forward` and ``backward`` share; it takes any attributes.

    Attributes:
        needs_input_grad: for every argument whether its gradient is wanted.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._saved: tuple[Tensor | None, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._changed: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps arguments, results or other tensors, with the values that they have now."""
        for i, x in enumerate(tensors):
            if x is not None and not isinstance(x, Tensor | Tracer):
                raise TypeError(
                    f"save_for_backward: argument {i} is of type {type(x).__name__}, not a "
                    "tensor; set an attribute of ctx for other values"
                )
        self._saved = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Does nothing that ``backward`` sees: `functensor.custom_jvp` has rules of that mode."""

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that `save_for_backward` was given."""
        return self._saved

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says that results have no gradient."""
        self._constant = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which arguments ``forward`` has changed in place, each of which it returns.

        As after every write, gradients go to what the tensor was, through ``backward``.
        """
        self._changed = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Says whether ``backward`` gets zeros, and not None, for results without a gradient."""
        self._materialize = bool(value)


class Function:
    """The base of functions with a rule of their own, which are called by ``apply``.

    A subclass has static methods: ``forward(ctx, *args)``, or ``forward(*args)`` beside
    ``setup_context(ctx, inputs, output)``, and ``backward(ctx, *grads)``. The last returns a
    gradient, or None, for each argument. What it does with tensors is recorded under
    ``create_graph=True``, so that the gradient is differentiated too.

    >>> import functensor.torch as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return grad * 3 * x**2
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad.item()
    12.0
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the results; a subclass has its own."""
        raise NotImplementedError("a subclass of Function defines the static method forward")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps what ``backward`` needs, where ``forward`` takes no ``ctx``."""
        raise NotImplementedError("a subclass of Function defines the static method setup_context")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Returns the gradients by the arguments; a subclass has its own."""
        raise NotImplementedError("a subclass of Function defines the static method backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Computes the function; gradients go back through its ``backward``.

        Args:
            args: tensors, and other values, which have no gradient.

        Returns:
            A tensor or a tuple, as ``forward`` returns it.

        Raises:
            RuleResultError: ``backward`` returns another number of gradients, or another shape.
            RuntimeError: an argument that was marked as changed in place is not returned.
            BackwardError: such an argument is a leaf that requires grad.
        """
        if any(isinstance(x, Tracer) and not is_recorded(x) for x in args):
            return traced(cls, args)
        needs = tuple([
            isinstance(x, Tensor) and x.requires_grad and is_grad_enabled() for x in args
        ])
        # Before the function changes any of them.
        parents = tuple([x.node if flag else None for x, flag in zip(args, needs)])
        ctx, out = forward_run(cls, args, needs)
        several = isinstance(out, tuple)
        results = list(out) if several else [out]
        lost = [x for x in ctx._changed if not any(x is y for y in results)]
        if lost:
            raise RuntimeError(
                f"{cls.__name__}.forward: {lost[0].name()} is marked by mark_dirty, but is not "
                "among the results"
            )
        if any(needs):
            results = with_nodes(cls, ctx, args, needs, parents, results)
        return tuple(results) if several else results[0]


def is_recorded(x: Tracer) -> bool:
    """Says whether a value is a tensor outside of transformations, which records its graph."""
    return isinstance(x, Tensor) and x.home is None


def forward_run(
    cls: type[Function], args: Sequence[Any], needs: tuple[bool, ...]
) -> tuple[FunctionCtx, Any]:
    """Returns what the two methods share, and the result, of which nothing was recorded."""
    ctx = FunctionCtx()
    ctx.needs_input_grad = needs
    with GradMode(False):
        if cls.setup_context is Function.setup_context:
            return ctx, cls.forward(ctx, *args)
        out = cls.forward(*args)
        cls.setup_context(ctx, tuple(args), out)
    return ctx, out


def with_nodes(
    cls: type[Function],
    ctx: FunctionCtx,
    args: Sequence[Any],
    needs: tuple[bool, ...],
    parents: tuple[Node | None, ...],
    results: list[Any],
) -> list[Any]:
    """Returns the results of a function as tensors with nodes."""
    constant = {id(x) for x in ctx._constant}
    changed = {id(x) for x in ctx._changed}
    saved_results = {id(x): i for i, x in enumerate(results)}
    given = {id(x) for x in args} - changed
    kept: list[Any] = []
    for x in ctx._saved:
        place = None if x is None or id(x) in given else saved_results.get(id(x))
        # What the tensor is now: it may be changed in place before the way back.
        kept.append(x if x is None else (x._data, x.node, place))
    ctx._saved = ctx._changed = ()
    pull = RulePull(cls, ctx, kept, args, needs)
    buffers = [x._data if isinstance(x, Tensor) else None for x in results]
    joint = joint_node(f"{cls.__name__}Backward", parents, pull, [
        0.0 if b is None else b for b in buffers
    ])  # fmt: skip
    pull.types = [None if b is None else (b.shape, b.dtype) for b in buffers]
    found = []
    for i, (x, b) in enumerate(zip(results, buffers)):
        if b is None:
            found.append(x)
            continue
        differentiated = b.dtype.kind in INEXACT and id(x) not in constant
        result = TAPE.wrap(b, projection_node(joint, i, b) if differentiated else None)
        # A tensor that was changed in place is the result itself.
        found.append(x.copy_(result) if id(x) in changed else result)
    return found


class RulePull(FunctionPull):
    """The way back through one call of a function.

    Attributes:
        types: the shape and dtype of every result that is a tensor.
    """

    def __init__(
        self,
        cls: type[Function],
        ctx: FunctionCtx,
        kept: Sequence[Any],
        args: Sequence[Any],
        needs: tuple[bool, ...],
    ) -> None:
        self.function = cls
        self.ctx = ctx
        self.kept = kept
        self.needs = needs
        self.operands = [
            (x.shape, x.dtype) if isinstance(x, Tensor) else None for x in args
        ]
        self.types: list[Any] = []

    def __call__(self, gs: Sequence[Any]) -> list[Any]:
        if any(isinstance(g, Tracer) for g in gs):
            found: list[Any] = entrance.faced(lambda *gs: self.cotangents(gs, None))(*gs)
            return found
        given = [g if g is None else TAPE.wrap(g, None) for g in gs]
        with under(None), GradMode(False):
            found = self.cotangents(given, None)
        return [c if c is None else c._data for c in found]

    def recorded(self, gs: Sequence[Any], outputs: dict[int, Node]) -> list[Any]:
        return self.cotangents(gs, outputs)

    def cotangents(self, gs: Sequence[Any], outputs: dict[int, Node] | None) -> list[Any]:
        """Returns the rule's gradients, each in the shape of its operand.

        ``outputs`` are the nodes of the results where the pass is recorded, None elsewhere.
        """
        ctx = self.ctx
        ctx._saved = tuple([x if x is None else saved_tensor(x, outputs) for x in self.kept])
        filled = list(map(turned, gs))
        if ctx._materialize:
            for i, (g, known) in enumerate(zip(gs, self.types)):
                if g is None and known is not None:
                    filled[i] = zeros_of(gs, *known)
        try:
            out = self.function.backward(ctx, *filled)
        finally:
            # Saved results know this object.
            ctx._saved = ()
        found = list(out) if isinstance(out, tuple) else [out]
        return list(map(turned, checked(self.function, found, self.operands, self.needs)))


def saved_tensor(
    kept: tuple[Any, Node | None, int | None], outputs: dict[int, Node] | None
) -> Tensor:
    """Returns a saved tensor, with its node in the graph, which results have where it is recorded.

    Args:
        kept: its buffer, its node, and its number among the results, whose nodes came later.
        outputs: the nodes of the results.
    """
    buffer, node, place = kept
    if place is not None:
        node = None if outputs is None else outputs.get(place)
    if place is not None and node is None and outputs:
        # Nobody holds this result any more, but the way back goes through it again.
        some = next(iter(outputs.values()))
        joint: Any = some.parents[0]
        node = projection_node(joint, place, buffer)
    return TAPE.wrap(buffer, node)  # type: ignore[no-any-return]


def zeros_of(gs: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Returns zeros beside gradients that are there."""
    some = next(g for g in gs if g is not None)
    return TAPE.wrap(to_buffer(beside(some, np.zeros(shape, dtype))), None)  # type: ignore[no-any-return]


def checked(
    cls: type[Function], found: list[Any], operands: Sequence[Any], needs: Sequence[bool]
) -> list[Any]:
    """Returns the gradients that a rule has returned for those operands that want one.

    Raises:
        RuleResultError: there are too many or too few, or one has not its operand's shape.
    """
    name = f"{cls.__name__}.backward"
    while len(found) > len(operands) and found[-1] is None:
        found.pop()
    if len(found) != len(operands):
        raise failure(
            RuleResultError,
            f"{name} returned {len(found)} gradients for {len(operands)} arguments",
            fix="return one for each argument of forward, None where there is none",
        )
    out: list[Any] = []
    for i, (c, known, needed) in enumerate(zip(found, operands, needs)):
        if c is None or not needed:
            if c is not None and known is None:
                raise failure(
                    RuleResultError,
                    f"{name} returned a gradient for argument {i}, which is no tensor",
                    fix="return None in its place",
                )
            out.append(None)
            continue
        if not isinstance(c, Tensor):
            c = Tensor(c)
        shape, dtype = known
        if c.shape != shape:
            raise failure(
                RuleResultError,
                f"{name} returned {describe(c)} for argument {i}, whose shape is {shape}",
                fix="a gradient has the shape of its argument",
            )
        out.append(c if c.dtype == dtype else c.to(dtype))
    return out


def once_differentiable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a ``backward`` of which nothing is recorded, as it uses more than tensors.

    Under ``create_graph=True`` its gradients raise a `BackwardError` where they are differentiated.
    """
    check_function("once_differentiable", fun)

    @wraps(fun)
    def backward(ctx: Any, *grads: Any) -> Any:
        parents = [x.node for x in (*grads, *ctx.saved_tensors) if x is not None and x.node]
        with GradMode(False):
            out = fun(ctx, *[g if g is None else g.detach() for g in grads])
        if not parents or not is_grad_enabled():
            return out

        def refuse(gs: Sequence[Any]) -> list[Any]:
            raise failure(
                BackwardError,
                f"the gradient of {fun.__qualname__}, which is marked as once_differentiable, is "
                "differentiated",
                fix="compute with tensors alone in backward, and leave out the mark",
            )

        found = list(out) if isinstance(out, tuple) else [out]
        joint = joint_node("once_differentiable", tuple(parents), refuse, [
            0.0 if x is None else x._data for x in found
        ])  # fmt: skip
        return tuple([
            x if x is None else TAPE.wrap(x._data, projection_node(joint, i, x._data))
            for i, x in enumerate(found)
        ])

    return backward


def traced(cls: type[Function], args: Sequence[Any]) -> Any:
    """Computes a function of values that a transformation traces, by a rule of its own."""
    places = [i for i, x in enumerate(args) if isinstance(x, Tensor | Tracer)]
    shared: list[FunctionCtx] = []
    several: list[bool] = []

    def filled(some: Sequence[Any]) -> list[Any]:
        out = list(args)
        for i, x in zip(places, some, strict=True):
            out[i] = x
        return out

    def run(some: Sequence[Any]) -> tuple[FunctionCtx, tuple[Any, ...]]:
        needs = tuple([i in places for i in range(len(args))])
        ctx, out = forward_run(cls, filled(some), needs)
        several[:] = [isinstance(out, tuple)]
        return ctx, tuple(out) if several[0] else (out,)

    def value(*some: Any) -> Any:
        return run(some)[1]

    def forward(*some: Any) -> Any:
        ctx, outs = run(some)
        shared[:] = [ctx]
        saved, ctx._saved = ctx._saved, ()
        return outs, (saved, some)

    def backward(kept: Any, gs: Any) -> Any:
        saved, some = kept
        (ctx,) = shared
        ctx._saved = saved
        out = cls.backward(ctx, *map(turned, gs))
        found = list(out) if isinstance(out, tuple) else [out]
        return tuple([
            zeros_like(x) if found[i] is None else turned(found[i])
            for i, x in zip(places, some, strict=True)
        ])

    # Within a transformation of tensors the methods get tensors.
    call = custom_vjp(as_written(value))
    call.defvjp(as_written(forward), as_written(backward))
    outs = call(*[wrap(args[i]) for i in places])
    return tuple(outs) if several and several[0] else outs[0]
