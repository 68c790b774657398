"""The base of PyTorch's optimizers: groups of parameters, each with options of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...backends.devices import on_device
from ...optim.stateful import StatefulOptimizer
from ...primitives.core.array import Array
from ...primitives.core.buffers import to_buffer, wrap
from ...primitives.core.errors import MissingGradientWarning, message
from ...tensors import Tensor, enable_grad, gradient_of, missing_reason
from ...tensors.missing_gradients import clear_gradient
from ...tensors.pairs import AS_NUMBERS, AS_PAIRS

__all__ = ["Optimizer"]

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


class PairwiseOptimizer(StatefulOptimizer):
    """Updates complex tensors as pairs of real numbers, each by itself, as PyTorch does."""

    def value_of(self, p: Tensor) -> Array:
        return paired(wrap(p._data))

    def slope_of(self, gradient: Tensor) -> Array:
        # A tensor's gradient goes upwards in both parts.
        return paired(wrap(gradient._data))

    def put(self, p: Tensor, value: Array) -> None:
        p.take_value(unpaired(value, p))


def paired(x: Array) -> Array:
    """Returns complex numbers as pairs of real ones, and others as they are."""
    return AS_PAIRS(x) if x.dtype.kind == "c" else x


def unpaired(x: Array, p: Tensor) -> Array:
    """Returns what is of a complex tensor's pairs as complex numbers, and others as they are."""
    of_pairs = p.dtype.kind == "c" and x.shape == (*p.shape, 2)
    return AS_NUMBERS(x) if of_pairs else x


class Optimizer:
    """Updates parameters by their gradients; pure optimizers of `functensor.optim` compute.

    Args:
        params: tensors; or dictionaries with ``"params"`` and options of their own; or pairs of
            names and tensors.
        defaults: the options of groups that have none of their own.

    Attributes:
        param_groups: dictionaries with ``"params"`` and the options; these may be changed.
        defaults: the options of groups that have none of their own.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._workers: list[StatefulOptimizer] = []
        self._made: list[tuple[Any, ...]] = []
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params is a list of tensors, not a tensor; give [x]"
            )
        given = [x[1] if isinstance(x, tuple) else x for x in params]
        if not given:
            raise ValueError(f"{type(self).__name__} was given no parameters")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        """Returns the pure optimizer of a group's options and a rate; a subclass has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no pure optimizer")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters.

        Args:
            param_group: ``"params"``, and options that are not the defaults.

        Raises:
            ValueError: a parameter is in another group already, or an option is unknown.
        """
        own = param_group["params"]
        several = [own] if isinstance(own, Tensor) else own
        own = [x[1] if isinstance(x, tuple) else x for x in several]
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in known for p in own):
            raise ValueError(f"{type(self).__name__}: a parameter is in two groups")
        unknown = set(param_group) - {"params", "initial_lr", *self.defaults}
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no option {sorted(unknown)[0]!r}; it has "
                f"{', '.join(self.defaults)}"
            )
        group = {**self.defaults, **param_group, "params": own}
        worker = self._worker(group)
        self.param_groups.append(group)
        self._workers.append(worker)
        self._made.append(options_of(group))

    def _worker(self, group: dict[str, Any]) -> StatefulOptimizer:
        """Returns what updates a group's parameters."""
        own, rate = group["params"], group["lr"]
        return PairwiseOptimizer(own, rate, lambda rate: self._pure(group, rate))

    def __getstate__(self) -> dict[str, Any]:
        # Workers read this object's groups; a copy has its own.
        kept = {k: v for k, v in vars(self).items() if k not in ("_workers", "_made")}
        return {"kept": kept, "states": [worker._states for worker in self._workers]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["kept"])
        self._workers = [self._worker(group) for group in self.param_groups]
        self._made = [options_of(group) for group in self.param_groups]
        for worker, states in zip(self._workers, state["states"], strict=True):
            worker._states = [
                of_kind(new, old) for new, old in zip(worker._states, states, strict=True)
            ]

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
        moved = False
        for i, (group, worker) in enumerate(zip(self.param_groups, self._workers)):
            if all(gradient_of(p) is None for p in worker.params):
                continue
            moved = True
            if self._made[i] != options_of(group):
                worker._pure = self._pure(group, lambda step, group=group: group["lr"])
                worker._states = [
                    of_kind(worker._pure.init(worker.value_of(p)), state)
                    for p, state in zip(worker.params, worker._states, strict=True)
                ]
                self._made[i] = options_of(group)
            worker.lr = group["lr"]
            worker.step()
        if not moved:
            every = [p for group in self.param_groups for p in group["params"]]
            reasons = "\n".join([f"    {p.name()}: {missing_reason(p)}" for p in every])
            text = f"{type(self).__name__}.step(): no parameter has a gradient\n{reasons}"
            fix = "loss.backward() before step(), and zero_grad() after it"
            warnings.warn(message(text, fix=fix, number=13), MissingGradientWarning, stacklevel=2)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients to None, or to zeros where ``set_to_none`` is False."""
        for worker in self._workers:
            for p in worker.params:
                clear_gradient(p, set_to_none)

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The state of every parameter that was updated, as arrays, which cannot be written to."""
        return {
            p: named_slots(state, p)
            for worker in self._workers
            for p, state in zip(worker.params, worker._states)
            if int(state.step)
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns the options, and the state of every updated parameter by its number.

        Names are PyTorch's: ``{"state": {0: {"step": ..., "exp_avg": ...}}, "param_groups": ...}``.
        """
        states = [
            (p, state)
            for worker in self._workers
            for p, state in zip(worker.params, worker._states, strict=True)
        ]
        groups, start = [], 0
        for group in self.param_groups:
            numbers = list(range(start, start + len(group["params"])))
            groups.append({**group, "params": numbers})
            start += len(numbers)
        saved = {
            i: {name: Tensor(x) for name, x in named_slots(state, p).items()}
            for i, (p, state) in enumerate(states)
            if int(state.step)
        }
        return {"state": saved, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict`, or PyTorch's, returned.

        Raises:
            ValueError: it belongs to other parameters or another optimizer; nothing is changed.
        """
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ValueError(f"load_state_dict: groups of {sizes} parameters, not of {own}")
        saved = state_dict["state"]
        loaded = [
            [
                with_slots(worker._pure.init(worker.value_of(p)), saved.get(i, {}), i)
                for p, i in zip(worker.params, group["params"], strict=True)
            ]
            for worker, group in zip(self._workers, groups)
        ]
        for worker, states in zip(self._workers, loaded):
            worker._states = states
        for group, other in zip(self.param_groups, groups):
            group.update({k: v for k, v in other.items() if k != "params"})

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k != "params"]
        return "\n".join([*lines, ")"])


def options_of(group: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the options of which a pure optimizer is made, without the rate."""
    return tuple([v for k, v in group.items() if k not in ("params", "lr", "initial_lr")])


def of_kind(start: Any, state: Any) -> Any:
    """Returns a state; where an optimizer now keeps something else, the start with its step."""
    return state if type(state) is type(start) else start._replace(step=state.step)


def named_slots(state: Any, p: Tensor) -> dict[str, Any]:
    """Returns the parts of a pure optimizer's state of a parameter by PyTorch's names."""
    names = SLOT_NAMES[type(state).__name__]
    slots = [unpaired(x, p) for x in state[2:]]
    return {"step": wrap(np.float32(state.step)), **dict(zip(names, slots, strict=True))}


def with_slots(state: Any, saved: dict[str, Any], number: int) -> Any:
    """Returns the state of a parameter with the parts that were saved, in its own dtypes.

    Raises:
        ValueError: a part is unknown, or has another shape.
    """
    kind = type(state).__name__
    names = SLOT_NAMES[kind]
    given = {
        name: to_buffer(paired(wrap(to_buffer(x)))) for name, x in saved.items() if x is not None
    }
    for name in given.keys() - {"step", *names}:
        raise ValueError(f"load_state_dict: parameter {number} has no {name!r}, it has {names}")
    slots = []
    for name, old in zip(names, state[2:], strict=True):
        found = given.get(name, old)
        if found.shape != old.shape:
            raise ValueError(
                f"load_state_dict: {name!r} of parameter {number} has the shape {found.shape}, not "
                f"{old.shape}"
            )
        slots.append(wrap(on_device(to_buffer(found).astype(old.dtype), old.device)))
    # PyTorch's gradient descent does not count its steps: it has a velocity after the first.
    step = int(given["step"]) if "step" in given else int(bool(given))
    return type(state)(wrap(np.int64(step)), state.loss, *slots)
