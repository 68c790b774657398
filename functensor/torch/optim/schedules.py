"""Schedules of learning rates: each sets ``"lr"`` of an optimizer's groups."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import cos, isnan, pi
from typing import Any

from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

# The attributes of every schedule.
OF_BASE = frozenset({"_set", "_step_count", "base_lrs", "last_epoch", "optimizer"})


class LRScheduler:
    """The base of schedules, which are functions of how many steps were made.

    Args:
        optimizer: its groups' ``"lr"`` is set, by their ``"initial_lr"``.
        last_epoch: how many steps were made, less one.

    Attributes:
        last_epoch: how many steps were made.
        chains: whether rates that others change meanwhile are multiplied, and not set.
    """

    chains = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch != -1 and "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: last_epoch is {last_epoch}, and a group has no "
                    "'initial_lr': load the optimizer's state first"
                )
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        # What the rates would be by this schedule alone.
        self._set = list(self.base_lrs)
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps; a subclass has its own, or `get_lr`."""
        raise NotImplementedError(f"{type(self).__name__} has no method get_lr")

    def get_lr(self) -> list[float]:
        """Returns the rates of all groups for the next step; a subclass may have its own.

        It may read ``base_lrs``, ``last_epoch`` and ``optimizer``.
        """
        return [self.rate(base, self.last_epoch, i) for i, base in enumerate(self.base_lrs)]

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates for the next step of the optimizer."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if is_overridden(self):
            for i, (group, rate) in enumerate(
                zip(self.optimizer.param_groups, self.get_lr(), strict=True)
            ):
                group["lr"] = self._set[i] = rate
            return
        for i, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs)):
            before, now = self._set[i], self.rate(base, self.last_epoch, i)
            others = self.chains and epoch is None and before and group["lr"] != before
            group["lr"] = group["lr"] * (now / before) if others else now
            self._set[i] = now

    def get_last_lr(self) -> list[float]:
        """Returns the rates of all groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Returns how far the schedule is.

        It has the attributes of a user's own schedule too, but for functions.
        """
        return {
            **own_attributes(self), "last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs),
            "_last_lr": self.get_last_lr(), "_set": list(self._set),
            "_step_count": self._step_count,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict`, or PyTorch's, returned."""
        own = own_attributes(self).items()
        vars(self).update({name: state_dict.get(name, x) for name, x in own})
        self.base_lrs = list(state_dict["base_lrs"])
        self.last_epoch = state_dict["last_epoch"]
        self._set = list(state_dict.get("_set", state_dict["_last_lr"]))
        self._step_count = state_dict.get("_step_count", self.last_epoch + 1)
        for group, rate in zip(self.optimizer.param_groups, state_dict["_last_lr"]):
            group["lr"] = rate


def own_attributes(schedule: LRScheduler) -> dict[str, Any]:
    """Returns the attributes that a user's own schedule has beside those of the base."""
    if type(schedule).__module__.startswith("functensor."):
        return {}
    return {
        name: x for name, x in vars(schedule).items() if name not in OF_BASE and not callable(x)
    }


def is_overridden(schedule: LRScheduler) -> bool:
    """Says whether a schedule has a method ``get_lr`` of a user's."""
    return not type(schedule).get_lr.__module__.startswith("functensor.")


class LambdaLR(LRScheduler):
    """Multiplies rates by a function of the number of steps, or by one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        several = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * count
        if len(several) != count:
            raise ValueError(f"LambdaLR: {len(several)} functions for {count} groups")
        self.lr_lambdas: list[Callable[[int], float]] = several
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        return base * self.lr_lambdas[group](step)


class MultiplicativeLR(LRScheduler):
    """Multiplies rates in every step by a function of its number, or by one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        several = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * count
        if len(several) != count:
            raise ValueError(f"MultiplicativeLR: {len(several)} functions for {count} groups")
        self.lr_lambdas: list[Callable[[int], float]] = several
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        now: float = self.optimizer.param_groups[group]["lr"]
        return now * self.lr_lambdas[group](step) if step > 0 else now


class StepLR(LRScheduler):
    """Multiplies rates by ``gamma`` every ``step_size`` steps.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([x], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    chains = True

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplies rates by ``gamma`` at each of some numbers of steps."""

    chains = True

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        return base * self.gamma ** bisect_right(self.milestones, step)


class ConstantLR(LRScheduler):
    """Multiplies rates by ``factor`` for the first ``total_iters`` steps."""

    chains = True

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        return base * self.factor if step < self.total_iters else base


class LinearLR(LRScheduler):
    """Multiplies rates by a factor that goes from one to another in ``total_iters`` steps."""

    chains = True

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        part = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class ExponentialLR(LRScheduler):
    """Multiplies rates by ``gamma`` in every step."""

    chains = True

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        return base * self.gamma**step


class PolynomialLR(LRScheduler):
    """Lets rates fall to zero in ``total_iters`` steps, by a power of what is left of them."""

    chains = True

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        left: float = (1 - min(step, self.total_iters) / self.total_iters) ** self.power
        return base * left


class CosineAnnealingLR(LRScheduler):
    """Lets rates fall to ``eta_min`` in ``T_max`` steps, along half a cosine."""

    chains = True

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        return self.eta_min + (base - self.eta_min) * (1 + cos(pi * step / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Begins the half cosine anew after ``T_0`` steps, each ``T_mult`` times as long as the last.

    I. Loshchilov and F. Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        length = self.T_0
        while step >= length:
            step -= length
            length *= self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + cos(pi * step / length)) / 2


class SequentialLR:
    """Follows several schedules, the next from each of some numbers of steps on.

    Args:
        optimizer: that of the schedules.
        schedulers: the schedules.
        milestones: where each but the first begins.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules have {len(schedulers) - 1} milestones, "
                f"not {len(milestones)}"
            )
        self.optimizer, self.schedulers = optimizer, list(schedulers)
        self.milestones, self.last_epoch = list(milestones), last_epoch
        self.step()

    def step(self) -> None:
        """Sets the rates for the next step of the optimizer."""
        self.last_epoch += 1
        place = bisect_right(self.milestones, self.last_epoch)
        begin = self.milestones[place - 1] if place else 0
        self.schedulers[place].step(self.last_epoch - begin)

    def get_last_lr(self) -> list[float]:
        """Returns the rates of all groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Returns how far the schedules are."""
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        self.last_epoch = state_dict["last_epoch"] - 1
        self.step()


class ChainedScheduler:
    """Steps several schedules of one optimizer, one after another: their factors are multiplied.

    Args:
        schedulers: the schedules.
        optimizer: theirs, by default.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._schedulers = list(schedulers)
        self.optimizer = optimizer or self._schedulers[0].optimizer
        if any(schedule.optimizer is not self.optimizer for schedule in self._schedulers):
            raise ValueError("ChainedScheduler: the schedules are of several optimizers")

    def step(self) -> None:
        """Sets the rates for the next step of the optimizer."""
        for schedule in self._schedulers:
            schedule.step()

    def get_last_lr(self) -> list[float]:
        """Returns the rates of all groups."""
        return self._schedulers[-1].get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Returns how far the schedules are."""
        return {"_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(state)


class ReduceLROnPlateau(LRScheduler):
    """Multiplies rates by ``factor`` once a figure has not improved for ``patience`` steps.

    Args:
        optimizer: its groups' ``"lr"`` is set.
        mode: ``"min"`` where the figure is to fall, ``"max"`` where it is to rise.
        factor: by what rates are multiplied.
        patience: for how many steps nothing happens.
        threshold: by how much the figure has to improve.
        threshold_mode: ``"rel"`` for a part of the best, ``"abs"`` for an amount.
        cooldown: for how many steps nothing is counted after a change.
        min_lr: the least rate, or a list of those of all groups.
        eps: the least change.

    Raises:
        ValueError: a word is none of those, the factor is 1 or more, or ``min_lr`` has another
            length than there are groups.
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                "ReduceLROnPlateau: mode is 'min' or 'max', threshold_mode 'rel' or 'abs'"
            )
        if factor >= 1:
            raise ValueError(f"ReduceLROnPlateau: factor is {factor}, it must be below 1")
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, Sequence) and len(min_lr) != groups:
            raise ValueError(
                f"ReduceLROnPlateau: min_lr has {len(min_lr)} rates for {groups} groups"
            )
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.best: float | None = None
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    @property
    def in_cooldown(self) -> bool:
        """True for some steps after a change, in which nothing is counted."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float) -> bool:
        """Says whether a figure has improved."""
        if self.best is None:
            return not isnan(value)
        sign = 1 if self.mode == "max" else -1
        # A part of a negative figure is negative, as in PyTorch.
        margin = self.best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return sign * (value - self.best) > margin

    def get_lr(self) -> list[float]:
        """Raises an error: the rates depend on the figures.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("ReduceLROnPlateau: get_last_lr() has the rates")

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Looks at a figure, and changes the rates if it is time.

        Args:
            metrics: the figure.
            epoch: the number of the step, which is kept as ``last_epoch``; by default the next one.
        """
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for i, group in enumerate(self.optimizer.param_groups):
                least = self.min_lr[i] if isinstance(self.min_lr, Sequence) else self.min_lr
                new = max(group["lr"] * self.factor, least)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> list[float]:
        """Returns the rates of all groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Returns how far the schedule is."""
        names = (
            "factor", "patience", "cooldown", "cooldown_counter", "mode", "threshold",
            "threshold_mode", "best", "num_bad_epochs", "eps", "last_epoch",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        for name, value in state_dict.items():
            setattr(self, name, value)
