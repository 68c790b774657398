"""The base of PyTorch's optimizers: groups of parameters, each with options of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...optim.stateful import StatefulOptimizer
from ...primitives.core.errors import MissingGradientError, failure
from ...tensors import Tensor, enable_grad, gradient_of, missing_reason

__all__ = ["Optimizer"]


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
        worker = StatefulOptimizer(own, group["lr"], lambda rate: self._pure(group, rate))
        self.param_groups.append(group)
        self._workers.append(worker)
        self._made.append(options_of(group))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient.

        Args:
            closure: computes the loss anew, with gradients, and returns it.

        Returns:
            What the closure returned.

        Raises:
            MissingGradientError: no parameter has a gradient; the message says why for each.
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
                self._made[i] = options_of(group)
            worker.lr = group["lr"]
            worker.step()
        if not moved:
            every = [p for group in self.param_groups for p in group["params"]]
            reasons = "\n".join([f"    {p.name()}: {missing_reason(p)}" for p in every])
            raise failure(
                MissingGradientError,
                f"{type(self).__name__}.step(): no parameter has a gradient\n{reasons}",
                fix="loss.backward() before step(), and zero_grad() after it",
            )
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients; ``set_to_none`` has no effect: they are None afterwards."""
        for worker in self._workers:
            for p in worker.params:
                if p.requires_grad:
                    p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the options, and the state of every parameter by its number."""
        states = [state for worker in self._workers for state in worker._states]
        groups, start = [], 0
        for group in self.param_groups:
            numbers = list(range(start, start + len(group["params"])))
            groups.append({**group, "params": numbers})
            start += len(numbers)
        return {"state": dict(enumerate(states)), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned.

        Raises:
            ValueError: it belongs to other parameters or another optimizer; nothing is changed.
        """
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ValueError(f"load_state_dict: groups of {sizes} parameters, not of {own}")
        before = [worker.state_dict() for worker in self._workers]
        try:
            for worker, group in zip(self._workers, groups):
                states = [state_dict["state"][i] for i in group["params"]]
                worker.load_state_dict({"lr": group["lr"], "states": states})
        except (ValueError, KeyError):
            for worker, old in zip(self._workers, before):
                worker.load_state_dict(old)
            raise
        for group, saved in zip(self.param_groups, groups):
            group.update({k: v for k, v in saved.items() if k != "params"})

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k != "params"]
        return "\n".join([*lines, ")"])


def options_of(group: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the options of which a pure optimizer is made, without the rate."""
    return tuple([v for k, v in group.items() if k not in ("params", "lr", "initial_lr")])
