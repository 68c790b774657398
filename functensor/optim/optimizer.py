"""Optimizers of trees of parameters, made of rules for one parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from ..backends.annotations import Buffer, DType
from ..backends.errors.public_functions import check_function, entry, guarded
from ..backends.protocol import loaded
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of, wrap
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import GradientInputError, describe, failure, misfit
from ..primitives.core.shape_dtype import INEXACT, REAL, finfo, result_type, shape_dtype
from ..primitives.core.trace import slot
from ..transforms.grad import differentiated
from ..tree import containers as tree
from .argument_order import ArgumentOrder, wrong_state
from .arithmetic import Buffers, Primitives, in_order_of
from .compiled_rules import CompiledRule

__all__ = ["Optimizer", "Rate", "Reach", "elementwise", "rate_at"]

# A tree of parameters, or one that matches it.
Tree = TypeVar("Tree")
State = TypeVar("State", bound="OptimizerState")
# A number: one of Python's, or a traced one.
Scalar: TypeAlias = float | Array
# A learning rate: a number, or a function of how many updates were made before.
Rate: TypeAlias = Scalar | Callable[[Any], Scalar]
# Takes arithmetic, a parameter, its gradient, slots, numbers, and places for the results; returns
# the new parameter and slots.
UpdateRule: TypeAlias = Callable[
    [Any, Value, Value, Sequence[Value], Sequence[Scalar], Sequence[Any]], Sequence[Any]
]

# Operands of ufuncs that may be told where to write.
UFUNC_OPERANDS = (np.ndarray, np.floating)

new_array = object.__new__


class OptimizerState(Protocol):
    """A named tuple of how many updates were made, the last loss, and trees of slots."""

    @property
    def step(self) -> Array: ...
    @property
    def loss(self) -> Array: ...
    def _replace(self, *, loss: Array = ...) -> Self: ...
    def __getitem__(self, slots: slice, /) -> tuple[Any, ...]: ...


class Arithmetic(Protocol):
    """The functions that rules compute with; each may write into its last argument.

    They are add, subtract, multiply, divide, maximum, minimum, sign, sqrt and square_abs, and
    less and where, which do not write.
    """

    def __getattr__(self, name: str) -> Callable[..., Value]: ...


Reach: TypeAlias = Literal["element", "parameter", "tree", "unknown"]
# Makes of a parameter and its gradient another gradient.
Change: TypeAlias = Callable[[Any, Any], Any]


class UpdateFunction(Protocol[State]):
    """Makes one update of parameters and of a state."""

    def __call__(self, params: Tree, state: State, grads: Tree) -> tuple[Tree, State]: ...


class Optimizer(Generic[State]):
    """An optimizer as pure functions of trees: nothing is hidden, nothing is changed in place.

    Attributes:
        name: the algorithm's name.
        init: ``init(params)`` returns the state before the first update: a named tuple of arrays
            and trees with at least ``step``, how many updates were made, and ``loss``, the last
            loss that `minimize` saw (NaN before).
        reach: what an update of an element looks at: that element alone (``"element"``), all of
            its parameter (``"parameter"``), all parameters (``"tree"``), or ``"unknown"``.
        update: ``update(params, state, grads)`` returns ``(params, state)`` after one update. All
            three trees match; every parameter keeps its shape and dtype; parameters of integers,
            which have no gradient, stay as they are. The order of the arguments is not Optax's:
            gradients in the first place are an error wherever they are known for such.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.sgd(0.1)
    >>> params = {"w": np.array([1.0, 2.0])}
    >>> state = opt.init(params)
    >>> grads = ft.grad(lambda p: np.sum(p["w"] ** 2))(params)
    >>> params, state = opt.update(params, state, grads)
    >>> params["w"], int(state.step)
    (Array([0.8, 1.6], dtype=float64, device='cpu'), 1)
    """

    __slots__ = ("_planned", "_updating", "init", "name", "reach", "update")

    def __init__(
        self,
        name: str,
        init: Callable[[Any], State],
        update: Callable[[Any, State, Any], tuple[Any, State]],
        *,
        reach: Reach = "unknown",
    ) -> None:
        check_function("Optimizer", init, "init")
        check_function("Optimizer", update, "update")
        self.name = name
        self.reach: Reach = reach
        self.init: Callable[[Any], State] = entry(init, "Optimizer.init")
        self.update: UpdateFunction[State] = entry(update, "Optimizer.update")
        # Makes an update that changes every gradient first, once its arguments are checked.
        self._updating: Callable[[Any], Any] | None = None
        # Makes an update of columns of buffers that are known to fit, by a plan, if there is one by
        # now.
        self._planned: Callable[[Sequence[list[Buffer]], int], Any] | None = None

    def minimize(self, loss: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
        """Returns a function that makes one step towards the minimum of a loss.

        Args:
            loss: ``loss(params, *batch)`` returns a scalar, with ``has_aux`` a pair of that and
                extras.
            has_aux: whether it does.

        Returns:
            A pure function: ``step(params, state, *batch)`` returns ``(params, state)``, with
            ``has_aux`` ``(params, state, extras)``. ``state.loss`` is the loss before the step.

        >>> import functensor as ft, functensor.numpy as np
        >>> opt = ft.optim.momentum(0.1)
        >>> step = opt.minimize(lambda w, target: np.sum((w - target) ** 2))
        >>> w = np.zeros(2)
        >>> state = opt.init(w)
        >>> for _ in range(200):
        ...     w, state = step(w, state, np.array([1.0, -1.0]))
        >>> print(np.round(w, 3), bool(state.loss < 1e-6))
        [ 1. -1.] True
        """
        value_and_grad = differentiated("minimize", loss, has_aux=has_aux)
        update = self.update

        def step(params: Any, state: Any, *batch: Any, **kwargs: Any) -> Any:
            value, grads = value_and_grad(params, *batch, **kwargs)
            aux = None
            if has_aux:
                value, aux = value
            params, after = update(params, state, grads)
            if value.dtype != state.loss.dtype:
                value = ops.astype(value, state.loss.dtype)
            after = after._replace(loss=value)
            return (params, after, aux) if has_aux else (params, after)

        return guarded(step, f"{self.name}.minimize(loss)")

    def __repr__(self) -> str:
        return f"<optimizer {self.name}>"


def elementwise(
    name: str,
    state_type: Callable[..., State],
    starts: Sequence[Callable[[Value], Value]],
    coefficients: Callable[[Scalar], Sequence[Scalar]],
    rule: UpdateRule,
    *,
    kernel: str = "",
    by_primitives: bool = False,
) -> Optimizer[State]:
    """Returns the optimizer that updates every parameter by itself, element by element.

    A backend may have the rule in its ``updates``: then it updates all parameters at once.

    Args:
        name: the algorithm's name.
        state_type: a named tuple of ``step``, ``loss``, and one tree for each of ``starts``.
        starts: ``start(parameter)`` returns what a tree of the state holds for it at first.
        coefficients: ``coefficients(step)`` returns the numbers that the rule needs; ``step`` is
            how many updates were made before.
        rule: ``rule(xp, p, g, slots, numbers, out)`` returns the new parameter and slots.
            ``xp`` computes, each function writing into its last argument if it can; ``out`` has a
            place for the new parameter, scratch until then, and one for each slot.
        kernel: the rule's name among a backend's updates, where it is not the algorithm's.
        by_primitives: whether the rule needs more than arithmetic; then it always takes arrays.
    """

    order = ArgumentOrder()
    wanted: Any = state_type

    def init(params: Any) -> State:
        leaves, treedef = tree.flatten(params)
        order.begin(leaves)
        dtypes: list[Any] = [np.float32]
        device = "cpu"
        for i, leaf in enumerate(leaves):
            if not is_array_like(leaf):
                raise failure(
                    GradientInputError,
                    f"{name}: {_path(params, i)} is a {type(leaf).__name__}, not an array",
                    fix="give the optimizer a tree of arrays alone",
                )
            # A loss is at least float32, which holds all that bfloat16 does.
            if shape_dtype(leaf).dtype.kind in INEXACT:
                dtypes.append(finfo(shape_dtype(leaf).dtype).dtype)
                device = device_of(leaf)
        loss = loss_to_come(result_type(*dtypes), device)
        trees = [treedef.unflatten([wrap(start(leaf)) for leaf in leaves]) for start in starts]
        return state_type(wrap(np.int64(0)), loss, *trees)

    def one_by_one(columns: Sequence[list[Value]], numbers: Sequence[Scalar], known: bool) -> Any:
        given = _Numbers(numbers)
        rows = zip(*columns, strict=True)
        after = [_updated(rule, p, g, slots, given, known) for p, g, *slots in rows]
        return list(map(list, zip(*after, strict=True)))

    compiled = CompiledRule(partial(one_by_one, known=False))

    def updating(change: Change | None) -> UpdateFunction[State]:
        def update(params: Tree, state: State, grads: Tree) -> tuple[Tree, State]:
            if type(state) is not wanted:
                raise wrong_state(name, state, wanted)
            leaves, treedef = tree.flatten(params)
            columns = [_column(name, params, treedef, t) for t in (grads, *state[2:])]
            step = _python_scalar(state.step)
            order.check(name, step, leaves, columns[0])
            numbers = [_python_scalar(c) for c in coefficients(step)]
            columns = [leaves, *columns]
            held = [[x._data if type(x) is Array else x for x in column] for column in columns]
            shapes, given = (list(map(shape_of, column)) for column in held[:2])
            if shapes != given:
                i = [x == y for x, y in zip(shapes, given, strict=True)].index(False)
                raise misfit(
                    f"{name}: {_path(params, i)} is {describe(leaves[i])}, "
                    f"but its gradient is {describe(columns[1][i])}",
                    "give gradients of the parameters' shapes",
                )
            if change is not None:
                changed = [
                    change(p, g) if shape_dtype(p).dtype.kind in INEXACT else g
                    for p, g in zip(leaves, columns[1], strict=True)
                ]
                columns[1] = changed
                held[1] = [x._data if type(x) is Array else x for x in changed]
            known = slot.trace is None and not any(isinstance(c, Array) for c in numbers)
            known = known and not by_primitives
            made = _together(kernel or name, held, numbers) if known else None
            if not made:
                kind = compiled.kind_of(held) if known else None
                if compiled.is_due(kind):
                    made = compiled(columns, numbers)
                else:
                    begun = perf_counter()
                    made = one_by_one(columns, numbers, known)
                    compiled.note(kind, perf_counter() - begun)
            else:
                for i in [i for i, x in enumerate(made[0]) if x is None]:
                    p, g, *slots = [column[i] for column in columns]
                    row = _updated(rule, p, g, slots, _Numbers(numbers), known)
                    for column, x in zip(made, row, strict=True):
                        column[i] = x
            if made:
                order.made(made[0])
            params, *trees = map(treedef.unflatten, made) if made else (params,)
            # The host counts, so that no update waits for a GPU.
            following = step + 1 if isinstance(step, Tracer) else wrap(np.int64(step + 1))
            return params, state_type(following, state.loss, *(trees or state[2:]))

        return update

    def planned(columns: Sequence[list[Buffer]], step: int) -> Any:
        if slot.trace is not None or by_primitives:
            return None
        kind = compiled.kind_of(columns)
        if not compiled.is_due(kind):
            return None
        numbers = [_python_scalar(c) for c in coefficients(step)]
        known = not any(isinstance(c, Array) for c in numbers)
        return compiled.on_buffers(kind, columns, numbers) if known else None

    made = made_of(name, init, updating, "parameter" if by_primitives else "element")
    made._planned = planned
    return made


def loss_to_come(dtype: DType, device: str) -> Array:
    """Returns NaN in memory of its own, where the loss of a step will be."""
    loss: Array = wrap(np.full((), np.nan, dtype))
    return loss if device == "cpu" else ops.to_device(loss, device)


def made_of(
    name: str, init: Callable[[Any], State], updating: Callable[[Any], Any], reach: Reach
) -> Optimizer[State]:
    """Returns an optimizer whose updates may change gradients once arguments are checked."""
    made = Optimizer(name, init, updating(None), reach=reach)
    made._updating = updating
    return made


def _together(
    kernel: str, columns: Sequence[list[Value]], numbers: Sequence[Scalar]
) -> list[Any] | None:
    """Returns parameters with their slots after an update that backends make of many at once.

    Args:
        kernel: the rule's name among a backend's updates.
        columns: the buffers of parameters, of their gradients, and a column for each of the slots.
        numbers: what the rule needs in this step.

    Returns:
        A column of new values and one for each slot, with None for parameters that are left to the
        rule; None if all are.
    """
    made: list[Any] = [[None] * len(columns[0]) for _ in columns[1:]]
    for kind in set(map(type, columns[0])):
        backend = loaded(kind)
        if backend is None or kernel not in backend.updates:
            continue
        members: Sequence[int] = range(len(columns[0]))
        whole = all(set(map(type, column)) == {kind} for column in columns)
        if not whole:
            members = [i for i in members if all(type(column[i]) is kind for column in columns)]
            if not members:
                continue
        part = columns if whole else [[column[i] for i in members] for column in columns]
        after = [_as_arrays(column) for column in backend.updates[kernel](part, numbers)]
        if whole:
            return after
        for column, own in zip(made, after, strict=True):
            for i, x in zip(members, own, strict=True):
                column[i] = x
    return made if any(x is not None for x in made[0]) else None


def _as_arrays(buffers: Sequence[Buffer | None]) -> list[Array | None]:
    """Returns a backend's buffers as arrays, and None as it is."""
    out: list[Any] = []
    for buffer in buffers:
        array = None
        if buffer is not None:
            array = new_array(Array)
            array._data = buffer
        out.append(array)
    return out


class _Numbers:
    """The numbers that a rule needs in a step, in the dtypes of parameters.

    Traced numbers are float64, and would have all be computed so that they meet.

    Args:
        given: Python scalars, which decide no dtype, and tracers.
    """

    def __init__(self, given: Sequence[Scalar]) -> None:
        self.given = given
        self._made: dict[DType, Sequence[Scalar]] = {}

    def of(self, dtype: DType) -> Sequence[Scalar]:
        """Returns the numbers for parameters of a dtype; made once."""
        if dtype not in self._made:
            real = finfo(dtype).dtype if dtype.kind == "c" else dtype
            self._made[dtype] = [
                ops.astype(x, real) if isinstance(x, Tracer) and x.dtype != real else x
                for x in self.given
            ]
        return self._made[dtype]


def _updated(
    rule: UpdateRule, p: Value, g: Value, slots: Sequence[Value], numbers: _Numbers, known: bool
) -> Sequence[Any]:
    """Returns one parameter and its slots after an update."""
    if known:
        buffers: list[Any] = [x._data if type(x) is Array else x for x in (p, g, *slots)]
        if all(isinstance(b, UFUNC_OPERANDS) and b.dtype.kind in REAL for b in buffers):
            buffers[1] = in_order_of(buffers[0], buffers[1])
            if buffers[0].dtype.itemsize == 2:
                # Half precision cannot hold the square of a small gradient.
                single = [b.astype(np.float32) for b in buffers]
                out = [np.empty_like(b) for b in (single[0], *single[2:])]
                made = rule(Buffers, single[0], single[1], single[2:], numbers.given, out)
                kept = [buffers[0].dtype, *(b.dtype for b in buffers[2:])]
                return [wrap(b.astype(d)) for b, d in zip(made, kept, strict=True)]
            # Large arrays cost more to allocate than to compute with: no temporaries.
            out = [np.empty_like(b) for b in (buffers[0], *buffers[2:])]
            made = rule(Buffers, buffers[0], buffers[1], buffers[2:], numbers.given, out)
            return [wrap(buffer) for buffer in made]
    dtype = shape_dtype(p).dtype
    if dtype.kind not in INEXACT and dtype.name != "bfloat16":
        return [p, *slots]
    if dtype.kind == "c":
        # Steepest descent goes along the conjugate of a gradient in JAX's convention.
        g = ops.conj(g)
    kept = [dtype, *(shape_dtype(x).dtype for x in slots)]
    if dtype.itemsize == 2:
        p, g, *slots = [ops.astype(x, np.float32) for x in (p, g, *slots)]
    given = numbers.of(shape_dtype(p).dtype)
    made = rule(Primitives, p, g, slots, given, [None] * (1 + len(slots)))
    return [x if x.dtype == d else ops.astype(x, d) for x, d in zip(made, kept, strict=True)]


def _python_scalar(x: Any) -> Scalar:
    """Returns a number as a Python scalar, which decides no dtype, unless it is a tracer."""
    number: Scalar = x if isinstance(x, Tracer) or type(x) in (int, float) else x.item()
    return number


def _column(name: str, params: Any, treedef: tree.TreeDef, other: Any) -> list[Value]:
    """Returns the leaves of a tree that has the parameters' structure."""
    leaves, found = tree.flatten(other)
    if found != treedef:
        try:
            tree.map(lambda p, x: None, params, other)
        except ValueError as error:
            raise ValueError(f"{name}: gradients and state match the parameters: {error}") from None
    return leaves


def is_updated(x: Value) -> bool:
    """Says whether a leaf is of floats or complex numbers, so that updates change it."""
    return shape_dtype(x).dtype.kind in INEXACT


def _path(params: Any, index: int) -> str:
    path, _ = tree.leaves_with_path(params)[index]
    return f"params{tree.keystr(path)}"


def rate_at(lr: Rate, step: Scalar) -> Scalar:
    """Returns the learning rate of the update after ``step`` others."""
    return lr(step) if callable(lr) else lr
