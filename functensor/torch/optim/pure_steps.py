"""Optimizers whose steps pure optimizers of `functensor.optim` compute."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import repeat
from operator import is_
from typing import Any, ClassVar

import numpy as np

from ...backends.devices import device_of, on_device
from ...optim.stateful import updated_columns
from ...primitives.core.array import Array
from ...primitives.core.buffers import all_wrapped, to_buffer, wrap
from ...primitives.core.errors import MissingGradientWarning, message
from ...tensors import Tensor, enable_grad, gradient_of, missing_reason, no_grad
from ...tensors.in_place import take_buffer, take_buffers
from ...tensors.pairs import AS_NUMBERS, AS_PAIRS
from ...tensors.tape import TAPE
from .optimizer import Optimizer, loaded_part

__all__ = ["PureOptimizer"]

# PyTorch's names of what pure optimizers keep for a parameter, by the names of their states.
SLOT_NAMES = {
    "AdafactorState": ("row_var", "col_var", "variance"),
    "AdadeltaState": ("square_avg", "acc_delta"),
    "AdagradState": ("sum",),
    "AdamState": ("exp_avg", "exp_avg_sq"),
    "AdamaxState": ("exp_avg", "exp_inf"),
    "AmsgradState": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "AsgdState": ("eta", "mu", "ax"),
    "MomentumState": ("momentum_buffer",),
    "MuonState": ("momentum_buffer",),
    "NadamState": ("exp_avg", "exp_avg_sq", "mu_product"),
    "RmspropState": ("square_avg", "grad_avg", "momentum_buffer"),
    "RpropState": ("prev", "step_size"),
    "SgdState": (),
}
# How a pure optimizer begins to say which argument is wrong.
PURE_FAULT = re.compile(r"\w+: (\w+) is ")
NO_OTHER_NAMES: dict[str, str] = {}
# PyTorch's order of these names in states, where it is another one.
SAVED_ORDER = {
    "NadamState": ("mu_product", "exp_avg", "exp_avg_sq"),
    "RmspropState": ("square_avg", "momentum_buffer", "grad_avg"),
}
# Buffers of numbers on the host, which are replaced without a look.
HOST_BUFFERS, SINGLES = frozenset({np.float32, np.ndarray}), np.dtype(np.float32)
# As PyTorch, these do not count their steps: a parameter was updated if it has a velocity.
UNCOUNTED = frozenset({"MomentumState", "MuonState", "SgdState"})


class GroupUpdate:
    """The pure optimizer of a group's options.

    Attributes:
        group: the group; its rate is read in every step.
        options: those of which the optimizer was made.
        pure: the optimizer.
        start: its state of a matrix of one number, which has the kind of all others.
        names: PyTorch's names of what it keeps.
        order: their order in PyTorch's states.
        counted: whether steps are counted in a parameter's state.
    """

    def __init__(self, make: Callable[..., Any], group: dict[str, Any], options: Any) -> None:
        self.group = group
        self.options = options
        self.pure = make(group, lambda step: group["lr"])
        self.start = self.pure.init(wrap(np.zeros((1, 1), np.float32)))
        kind = type(self.start).__name__
        self.names = SLOT_NAMES[kind]
        self.order = SAVED_ORDER.get(kind, self.names)
        self.counted = kind not in UNCOUNTED

    def begin(self, p: Tensor, stores: dict[str, dict[str, Any]], state: dict[str, Any]) -> None:
        """Adds to a parameter's state what it lacks.

        Args:
            p: the parameter.
            stores: where each of the names is kept, by the names.
            state: where the number of steps is.
        """
        if self.counted and "step" not in state:
            state["step"] = TAPE.wrap(np.float32(0), None)
        first = self.pure.init(updated_arrays([p])[0])
        for name in self.order:
            if stores[name].get(name) is None:
                x = first[2 + self.names.index(name)]
                stores[name][name] = TAPE.wrap(unpaired(x, p)._data, None)


class PureOptimizer(Optimizer):
    """Updates parameters by pure optimizers, whose arithmetic is the only one.

    Complex tensors are updated as pairs of real numbers, each by itself, as in PyTorch, or refused.
    """

    # Whether complex parameters are refused.
    real_alone = False
    # The options that stand for arguments of the pure optimizer by other names.
    option_names: ClassVar = NO_OTHER_NAMES

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self._updates: list[GroupUpdate] = []
        # What pure optimizers keep for parameters, and PyTorch's do not.
        self._unsaved: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        super().__init__(params, defaults)

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        """Returns the pure optimizer of a group's options and a rate; a subclass has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no pure optimizer")

    def _hidden(self, group: dict[str, Any], p: Tensor) -> Collection[str]:
        """Returns names of what PyTorch does not keep for a parameter; a subclass may have some."""
        return ()

    def check_group(self, group: dict[str, Any]) -> None:
        """Checks the ranges of a group's options."""
        try:
            self._pure(group, group["lr"])
        except ValueError as error:
            found = PURE_FAULT.match(str(error))
            if found is None:
                raise
            option = self.option_names.get(found[1], found[1])
            text = str(error)[found.end(1) :]
            raise ValueError(f"{type(self).__name__}: {option}{text}") from None

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
        together: dict[int, list[Any]] = {}
        rows: list[Any] = []
        last: Any = None
        for p in self.param_groups[i]["params"]:
            gradient = gradient_of(p)
            if gradient is None:
                continue
            # Where nothing is kept there is no state, as in PyTorch.
            state = self.state[p] if names or counted else {}
            slots = [state.get(name) for name in names]
            lacking = [x for x in slots if x is None]
            count = state.get("step") if counted else not lacking
            if lacking or count is None:
                slots = self._completed(update, p, state)
                count = state["step"] if counted else False
            held = count._data if isinstance(count, Tensor) else count
            # Those that were updated together have one and the same count.
            if held is not last or not together:
                last = held
                rows = together.setdefault(int(held), [])
            rows.append((p, gradient, state, *slots))
        for number, rows in together.items():
            self._update_together(update, number, *zip(*rows, strict=True))
        return bool(together)

    def _completed(self, update: GroupUpdate, p: Tensor, state: dict[str, Any]) -> list[Any]:
        """Returns what is kept for a parameter, once what it lacks is added."""
        if self.real_alone and p.dtype.kind == "c":
            raise RuntimeError(f"{type(self).__name__} does not support complex parameters")
        hidden = self._hidden(update.group, p)
        unsaved = self._unsaved[p] if hidden else state
        stores = {name: unsaved if name in hidden else state for name in update.names}
        lacking = [name for name in update.names if stores[name].get(name) is None]
        if lacking or (update.counted and "step" not in state):
            update.begin(p, stores, state)
        return [stores[name][name] for name in update.names]

    def _update_together(
        self, update: GroupUpdate, number: int, params: Any, gradients: Any, states: Any,
        *slots: Any,
    ) -> None:  # fmt: skip
        """Updates parameters that were updated equally often before."""
        columns = [updated_buffers(xs) for xs in (params, gradients, *slots)]
        values, *kept = updated_columns(update.pure, update.start, number, columns)
        put_all(params, values)
        for name, column, buffers in zip(update.names, slots, kept, strict=True):
            if all(isinstance(x, Tensor) for x in column):
                put_all(column, buffers)
                continue
            for state, x, buffer in zip(states, column, buffers, strict=True):
                if isinstance(x, Tensor):
                    put(x, buffer)
                else:
                    state[name] = TAPE.wrap(buffer, None)
        if update.counted:
            count_steps(states, number + 1)

    def begin_states(self) -> None:
        """Makes the states of all parameters, before the first step."""
        for i, group in enumerate(self.param_groups):
            update = self._update_of(i)
            if update.names or update.counted:
                for p in group["params"]:
                    self._completed(update, p, self.state[p])

    def _loaded(self, p: Tensor | None, number: Any, value: Any) -> Any:
        if p is None or not isinstance(value, dict):
            return loaded_part(value, p, "")
        place = next(i for i, g in enumerate(self.param_groups) if any(x is p for x in g["params"]))
        update = self._update_of(place)
        own = type(self).__module__.startswith("functensor.")
        first = update.pure.init(updated_arrays([p])[0])
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
                    f"{('step', *update.order)}"
                )
            else:
                loaded[name] = loaded_part(x, p, name)
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        # Pure optimizers read this object's groups; a copy has its own.
        own = ("_updates", "_unsaved")
        return {k: v for k, v in super().__getstate__().items() if k not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._updates = []
        self._unsaved = defaultdict(dict)


def count_steps(states: Sequence[dict[str, Any]], number: int) -> None:
    """Writes into states how many steps were made."""
    replaced = []
    for state in states:
        count = state["step"]
        buffer: Any = count._data if isinstance(count, Tensor) else None
        if buffer is None:
            state["step"] = number
        elif type(buffer) in HOST_BUFFERS and buffer.dtype == SINGLES and not buffer.shape:
            replaced.append(count)
        else:
            with no_grad():
                count.fill_(number)
    take_buffers(replaced, repeat(np.float32(number)))


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


def updated_arrays(xs: Iterable[Any]) -> list[Array]:
    """Returns the arrays that are updated for tensors, of the buffers that are."""
    return all_wrapped(updated_buffers(xs))


def updated_buffers(xs: Iterable[Any]) -> list[Any]:
    """Returns the buffers that are updated for tensors: pairs of real numbers for complex ones.

    A tensor's gradient goes upwards in both parts.
    """
    buffers = [x._data if isinstance(x, Tensor) else to_buffer(x) for x in xs]
    if "c" not in {x.dtype.kind for x in buffers}:
        return buffers
    return [x if x.dtype.kind != "c" else AS_PAIRS(wrap(x))._data for x in buffers]


def put_all(xs: Sequence[Tensor], buffers: Sequence[Any]) -> None:
    """Gives tensors their new values, each in its own dtype."""
    if all(map(is_, [x._data.dtype for x in xs], [x.dtype for x in buffers])):
        take_buffers(xs, buffers)
        return
    for x, buffer in zip(xs, buffers, strict=True):
        put(x, buffer)


def put(x: Tensor, buffer: Any) -> None:
    """Gives a tensor its new value, in its own dtype."""
    if buffer.dtype is x._data.dtype:
        take_buffer(x, buffer)
        return
    value = unpaired(wrap(buffer), x)
    if value.dtype == x.dtype:
        take_buffer(x, value._data)
    else:
        with no_grad():
            x.copy_(TAPE.wrap(value._data, None))


def unpaired(x: Array, p: Tensor) -> Array:
    """Returns what is of a complex tensor's pairs as complex numbers, and others as they are."""
    of_pairs = p.dtype.kind == "c" and x.shape == (*p.shape, 2)
    return AS_NUMBERS(x) if of_pairs else x
