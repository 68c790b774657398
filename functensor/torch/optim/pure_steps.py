"""Optimizers whose steps pure optimizers of `functensor.optim` compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...backends.devices import device_of, on_device
from ...optim.stateful import updated_columns
from ...primitives.core.array import Array
from ...primitives.core.buffers import to_buffer, wrap
from ...primitives.core.errors import MissingGradientWarning, message
from ...primitives.core.trace import slot
from ...tensors import Tensor, enable_grad, gradient_of, missing_reason, no_grad
from ...tensors.pairs import AS_NUMBERS, AS_PAIRS
from ...tensors.tape import TAPE
from .optimizer import Optimizer, loaded_part

__all__ = ["PureOptimizer"]

# PyTorch's names of what pure optimizers keep for a parameter, by the names of their states.
SLOT_NAMES = {
    "AdadeltaState": ("square_avg", "acc_delta"),
    "AdagradState": ("sum",),
    "AdamState": ("exp_avg", "exp_avg_sq"),
    "AdamaxState": ("exp_avg", "exp_inf"),
    "AmsgradState": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "MomentumState": ("momentum_buffer",),
    "NadamState": ("exp_avg", "exp_avg_sq", "mu_product"),
    "RmspropState": ("square_avg", "grad_avg", "momentum_buffer"),
    "SgdState": (),
}
# As PyTorch, these do not count their steps: a parameter was updated if it has a velocity.
UNCOUNTED = frozenset({"MomentumState", "SgdState"})


class GroupUpdate:
    """The pure optimizer of a group's options.

    Attributes:
        group: the group; its rate is read in every step.
        options: those of which the optimizer was made.
        pure: the optimizer.
        start: its state of a number, which has the kind of all others.
        names: PyTorch's names of what it keeps.
        counted: whether steps are counted in a parameter's state.
    """

    def __init__(self, make: Callable[..., Any], group: dict[str, Any], options: Any) -> None:
        self.group = group
        self.options = options
        self.pure = make(group, lambda step: group["lr"])
        self.start = self.pure.init(wrap(np.float32(0)))
        kind = type(self.start).__name__
        self.names = SLOT_NAMES[kind]
        self.counted = kind not in UNCOUNTED

    def begin(self, p: Tensor, state: dict[str, Any]) -> None:
        """Adds to a parameter's state what it lacks."""
        if self.counted and "step" not in state:
            state["step"] = TAPE.wrap(np.float32(0), None)
        first = self.pure.init(updated_array(p))
        for name, x in zip(self.names, first[2:], strict=True):
            if state.get(name) is None:
                state[name] = TAPE.wrap(unpaired(x, p)._data, None)


class PureOptimizer(Optimizer):
    """Updates parameters by pure optimizers, whose arithmetic is the only one.

    Complex tensors are updated as pairs of real numbers, each by itself, as in PyTorch.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self._updates: list[GroupUpdate] = []
        super().__init__(params, defaults)

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        """Returns the pure optimizer of a group's options and a rate; a subclass has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no pure optimizer")

    def check_group(self, group: dict[str, Any]) -> None:
        """Checks the ranges of a group's options."""
        self._pure(group, group["lr"])

    def _update_of(self, i: int) -> GroupUpdate:
        """Returns the pure optimizer of a group, a new one if its options have changed."""
        group = self.param_groups[i]
        options = [group[name] for name in self.defaults if name != "lr"]
        known = self._updates[i] if i < len(self._updates) else None
        if known is None or known.group is not group or known.options != options:
            known = GroupUpdate(self._pure, group, options)
            self._updates[i:] = [known, *self._updates[i + 1 :]]
        return known

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient.

        Args:
            closure: computes the loss anew, with gradients, and returns it.

        Returns:
            What the closure returned.

        Where no parameter has a gradient, it does nothing but warn.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        moved = [self._move(i) for i in range(len(self.param_groups))]
        if not any(moved):
            every = [p for group in self.param_groups for p in group["params"]]
            reasons = "\n".join([f"    {p.name()}: {missing_reason(p)}" for p in every])
            text = f"{type(self).__name__}.step(): no parameter has a gradient\n{reasons}"
            fix = "loss.backward() before step(), and zero_grad() after it"
            warnings.warn(message(text, fix=fix, number=13), MissingGradientWarning, stacklevel=2)
        return loss

    def _move(self, i: int) -> bool:
        """Updates the parameters of a group that have gradients, and says whether any has."""
        update = self._update_of(i)
        names, counted = update.names, update.counted
        # All parameters that were updated equally often go together, as lists.
        together: dict[int, list[list[Any]]] = {}
        columns: list[list[Any]] = []
        last: Any = None
        for p in self.param_groups[i]["params"]:
            gradient = gradient_of(p)
            if gradient is None:
                continue
            state = self.state[p]
            lacking = [name for name in names if state.get(name) is None]
            count = state.get("step") if counted else not lacking
            if lacking or count is None:
                update.begin(p, state)
                count = state["step"] if counted else False
            slots = [state[name] for name in names]
            held = count._data if isinstance(count, Tensor) else count
            # Those that were updated together have one and the same count.
            if held is not last or not together:
                last = held
                columns = together.setdefault(int(held), [[] for _ in range(3 + len(names))])
            for column, x in zip(columns, (p, gradient, state, *slots), strict=True):
                column.append(x)
        for number, columns in together.items():
            self._update_together(update, number, *columns)
        return bool(together)

    def _update_together(
        self, update: GroupUpdate, number: int, params: Any, gradients: Any, states: Any,
        *slots: Any,
    ) -> None:  # fmt: skip
        """Updates parameters that were updated equally often before."""
        start = update.start
        kept, *columns = [[updated_array(x) for x in column] for column in (params, *slots)]
        before = type(start)(wrap(np.int64(number)), start.loss, *columns)
        slopes = [slope_of(g) for g in gradients]
        values, after = updated_columns(update.pure, before, kept, slopes)
        put_all(params, values)
        for name, column, arrays in zip(update.names, slots, after[2:], strict=True):
            tensors = column
            if not all(isinstance(x, Tensor) for x in column):
                # What a user has put there becomes a tensor.
                tensors = [TAPE.wrap(x._data, None) for x in arrays]
                for state, x in zip(states, tensors, strict=True):
                    state[name] = x
            put_all(tensors, arrays)
        if update.counted:
            following = np.float32(number + 1)
            for state in states:
                count = state["step"]
                buffer: Any = count._data if isinstance(count, Tensor) else None
                if buffer is None:
                    state["step"] = number + 1
                elif type(buffer) is np.float32 and is_alone(count):
                    count._data = following
                else:
                    with no_grad():
                        count.fill_(number + 1)

    def begin_states(self) -> None:
        """Makes the states of all parameters, before the first step."""
        for i, group in enumerate(self.param_groups):
            for p in group["params"]:
                self._update_of(i).begin(p, self.state[p])

    def _loaded(self, p: Tensor | None, number: Any, value: Any) -> Any:
        if p is None or not isinstance(value, dict):
            return loaded_part(value, p, "")
        place = next(i for i, g in enumerate(self.param_groups) if any(x is p for x in g["params"]))
        update = self._update_of(place)
        own = type(self).__module__.startswith("functensor.")
        first = update.pure.init(updated_array(p))
        loaded = {}
        for name, x in value.items():
            if x is None:
                continue
            if name in update.names:
                like = unpaired(first[2 + update.names.index(name)], p)
                loaded[name] = slot_like(x, like, f"{name!r} of parameter {number}")
            elif name == "step":
                if update.counted:
                    loaded[name] = TAPE.wrap(np.float32(to_buffer(x)), None)
            elif own:
                raise ValueError(
                    f"load_state_dict: parameter {number} has no {name!r}, it has "
                    f"{('step', *update.names)}"
                )
            else:
                loaded[name] = loaded_part(x, p, name)
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        # Pure optimizers read this object's groups; a copy has its own.
        return {k: v for k, v in super().__getstate__().items() if k != "_updates"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._updates = []


def slot_like(x: Any, like: Array, what: str) -> Tensor:
    """Returns a copy of a loaded part of a state, with the dtype and the device of another.

    Raises:
        ValueError: it has another shape.
    """
    found = wrap(to_buffer(x))
    if found.shape != like.shape:
        raise ValueError(
            f"load_state_dict: {what} has the shape {found.shape}, not {like.shape}"
        )
    copied = to_buffer(found).astype(like.dtype, copy=True)
    return TAPE.wrap(on_device(copied, device_of(like._data)), None)  # type: ignore[no-any-return]


def updated_array(x: Any) -> Array:
    """Returns the array that is updated for a tensor: pairs of real numbers for complex ones."""
    buffer: Any = x._data if isinstance(x, Tensor) else to_buffer(x)
    return wrap(buffer) if buffer.dtype.kind == "f" else paired(wrap(buffer))


def slope_of(gradient: Tensor) -> Array:
    """Returns a gradient as updates take it; a tensor's goes upwards in both parts."""
    buffer: Any = gradient._data
    return wrap(buffer) if buffer.dtype.kind == "f" else paired(wrap(buffer))


def put_all(tensors: Sequence[Tensor], values: Sequence[Array]) -> None:
    """Gives tensors their new values, each in its own dtype."""
    known = slot.trace is None
    for x, value in zip(tensors, values, strict=True):
        old: Any = x._data
        new: Any = value._data
        if old.dtype is not new.dtype and old.dtype != new.dtype:
            fit(x, unpaired(value, x))
        elif known and old.strides == new.strides and is_alone(x):
            # As `take_value`, for all of them without further calls.
            x._changes = getattr(x, "_changes", 0) + 1
            x._data = new
        else:
            x.take_value(value)


def is_alone(x: Tensor) -> bool:
    """Says whether no other tensor, and no array of NumPy's, has a part in a tensor's memory."""
    return not (hasattr(x, "_source") or hasattr(x, "_views") or isinstance(x, TAPE.in_memory))


def fit(x: Tensor, value: Array) -> None:
    """Gives a tensor a value of another dtype."""
    if value.dtype == x.dtype:
        x.take_value(value)
    else:
        with no_grad():
            x.copy_(TAPE.wrap(value._data, None))


def paired(x: Array) -> Array:
    """Returns complex numbers as pairs of real ones, and others as they are."""
    return AS_PAIRS(x) if x.dtype.kind == "c" else x


def unpaired(x: Array, p: Tensor) -> Array:
    """Returns what is of a complex tensor's pairs as complex numbers, and others as they are."""
    of_pairs = p.dtype.kind == "c" and x.shape == (*p.shape, 2)
    return AS_NUMBERS(x) if of_pairs else x
