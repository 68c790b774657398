"""PyTorch's schedules that go up and down, of rates and of momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, floor, pi
from numbers import Integral
from typing import Any

from ...backends.errors.public_functions import check_function
from .optimizer import Optimizer
from .schedules import LRScheduler

__all__ = ["CyclicLR", "OneCycleLR"]


def one_for_each_group(name: str, values: Any, count: int) -> list[float]:
    """Returns a number for each group, of one for all or of one for each.

    Raises:
        ValueError: there is another number of them.
    """
    several = list(values) if isinstance(values, Sequence) else [values] * count
    if len(several) != count:
        raise ValueError(f"{name}: {len(several)} values for {count} groups")
    return several


def set_momentum(group: dict[str, Any], value: float) -> None:
    """Sets the momentum of a group, or the first decay of Adam and its kin."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def begin_momentum(
    name: str, optimizer: Optimizer, base: Any, top: Any, last_epoch: int
) -> tuple[list[float], list[float]]:
    """Writes the limits of momentum to all groups, and returns them.

    A schedule that goes on leaves groups as they are.

    Raises:
        ValueError: the optimizer has no momentum to change.
    """
    if not {"betas", "momentum"} & optimizer.defaults.keys():
        raise ValueError(f"{name}: the optimizer has no momentum; give cycle_momentum=False")
    count = len(optimizer.param_groups)
    low = one_for_each_group(f"{name}: base_momentum", base, count)
    high = one_for_each_group(f"{name}: max_momentum", top, count)
    if last_epoch == -1:
        for group, least, most in zip(optimizer.param_groups, low, high):
            set_momentum(group, most)
            group |= {"max_momentum": most, "base_momentum": least}
    return low, high


class OneCycleLR(LRScheduler):
    """One cycle: rates go up to ``max_lr``, and down to almost nothing (Smith and Topin, 2018).

    Args:
        optimizer: its groups' ``"lr"`` is set, and their momentum.
        max_lr: the greatest rate, or one for each group.
        total_steps: the length of the cycle; by default ``epochs * steps_per_epoch``.
        epochs, steps_per_epoch: of these.
        pct_start: the part of the cycle in which rates go up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether momentum goes the other way.
        base_momentum, max_momentum: its limits, or one for each group.
        div_factor: rates begin at ``max_lr`` over this.
        final_div_factor: they end at what they began with over this.
        three_phase: whether they first come down to where they began.
        last_epoch: how many steps were made, less one.

    Raises:
        ValueError: the length is not given, an argument is out of its range, or a step comes after
            the cycle.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}"
            )
        counts: dict[str, Any] = {"total_steps": total_steps}
        if total_steps is None:
            counts = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        for name, count in counts.items():
            if not isinstance(count, Integral) or count <= 0:
                raise ValueError(f"OneCycleLR: {name} is {count}: it must be a positive integer")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start is {pct_start}: it must be from 0 to 1")
        total = (epochs or 0) * (steps_per_epoch or 0) if total_steps is None else total_steps
        self.total_steps, self.anneal_strategy = total, anneal_strategy
        turn = float(pct_start * total)
        # Where each phase ends, and the options of groups from which and to which rates go.
        self.phases = [(turn - 1, "initial_lr", "max_lr")]
        if three_phase:
            self.phases.append((2 * turn - 2, "max_lr", "initial_lr"))
            self.phases.append((total - 1, "initial_lr", "min_lr"))
        else:
            self.phases.append((total - 1, "max_lr", "min_lr"))
        rates = one_for_each_group("OneCycleLR: max_lr", max_lr, len(optimizer.param_groups))
        # A schedule that goes on finds these options in the groups.
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, rates):
                start = rate / div_factor
                group |= {"initial_lr": start, "max_lr": rate, "min_lr": start / final_div_factor}
        self.cycles_momentum = cycle_momentum
        if cycle_momentum:
            begin_momentum("OneCycleLR", optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def between(self, start: float, end: float, part: float) -> float:
        """Returns the number at a part of the way from one to another."""
        share = (1 - cos(pi * part)) / 2 if self.anneal_strategy == "cos" else part
        return start + (end - start) * share

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps, and sets the group's momentum."""
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of a cycle of {self.total_steps} steps")
        options = self.optimizer.param_groups[group]
        begin = 0.0
        for number, (end, low, high) in enumerate(self.phases):
            last = number == len(self.phases) - 1
            if step <= end or last:
                part = (step - begin) / (end - begin)
                if self.cycles_momentum:
                    limits = [options[f"{name}_momentum"] for name in ("max", "base", "max")]
                    start, stop = limits[number], limits[min(number + 1, 2)]
                    set_momentum(options, self.between(start, stop, part))
                return self.between(options[low], options[high], part)
            begin = end
        raise AssertionError("a cycle has a last phase")


class CyclicLR(LRScheduler):
    """Cycles between two rates (Smith, 2017).

    Args:
        optimizer: its groups' ``"lr"`` is set, and their momentum.
        base_lr, max_lr: the limits, or one for each group.
        step_size_up, step_size_down: how many steps a cycle goes up, and down; by default as many.
        mode: ``"triangular"``, ``"triangular2"``, which halves the height in every cycle, or
            ``"exp_range"``, which multiplies it by ``gamma`` in every step.
        gamma: for that.
        scale_fn: takes the number of the cycle, or of the step, and returns by what the height is
            multiplied; in place of ``mode``.
        scale_mode: ``"cycle"`` or ``"iterations"``, which of them ``scale_fn`` takes.
        cycle_momentum: whether momentum goes the other way.
        base_momentum, max_momentum: its limits, or one for each group.
        last_epoch: how many steps were made, less one.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        ways: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 0.5 ** (cycle - 1), "cycle"),
            "exp_range": (lambda step: gamma**step, "iterations"),
        }
        if scale_fn is None and mode not in ways:
            raise ValueError(f"CyclicLR: mode is one of {', '.join(ways)}, not {mode!r}")
        if scale_fn is not None:
            check_function("CyclicLR", scale_fn, "scale_fn")
        given = (scale_fn, scale_mode) if scale_fn is not None else ways[mode]
        self.scale_fn, self.scale_mode = given
        count = len(optimizer.param_groups)
        self.max_lrs = one_for_each_group("CyclicLR: max_lr", max_lr, count)
        self.up = float(step_size_up)
        self.length = self.up + (step_size_up if step_size_down is None else step_size_down)
        self.cycles_momentum = cycle_momentum
        if cycle_momentum:
            self.low, self.high = begin_momentum(
                "CyclicLR", optimizer, base_momentum, max_momentum, last_epoch
            )
        bases = one_for_each_group("CyclicLR: base_lr", base_lr, count)
        for group, base in zip(optimizer.param_groups, bases):
            group["initial_lr"] = base
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps, and sets the group's momentum."""
        cycle = floor(1 + step / self.length)
        place = step - (cycle - 1) * self.length
        down = self.length - self.up
        height = place / self.up if place <= self.up else (self.length - place) / down
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else step)
        if self.cycles_momentum:
            low, high = self.low[group], self.high[group]
            set_momentum(self.optimizer.param_groups[group], high - (high - low) * height)
        return base + (self.max_lrs[group] - base) * height
