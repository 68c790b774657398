"""Averages of a model's parameters over its training: ``torch.optim.swa_utils``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from math import cos, pi
from typing import Any

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from ...tensors import Tensor, no_grad
from ..nn.module import Module
from ..nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .optimizer import Optimizer
from .schedules import LRScheduler

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

# Averages two values, given how many the first is the average of.
Average = Callable[[Any, Any, Any], Any]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Returns what averages a parameter exponentially: ``decay`` of the average stays.

    Raises:
        ValueError: the decay is not between 0 and 1.
    """
    check_decay("get_ema_avg_fn", decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Returns what averages a parameter over all updates, each with the same weight."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Returns what averages lists of parameters exponentially, in place.

    Raises:
        ValueError: the decay is not between 0 and 1.

    >>> import functensor.torch as torch
    >>> from functensor.torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    >>> layer = torch.nn.Linear(1, 1, bias=False)
    >>> _ = layer.weight.data.fill_(4.0)
    >>> ema = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(0.75))
    >>> for _ in range(2):
    ...     ema.update_parameters(layer)
    ...     _ = layer.weight.data.fill_(8.0)
    >>> ema.module.weight.item()
    5.0
    """
    check_decay("get_ema_multi_avg_fn", decay)

    @no_grad()
    def ema_update(ema_params: Any, current_params: Any, num_averaged: Any) -> None:
        for average, current in zip(ema_params, current_params, strict=True):
            if average.dtype.kind in "fcV":
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Returns what averages lists of parameters over all updates, in place."""

    @no_grad()
    def swa_update(averaged_params: Any, current_params: Any, num_averaged: Any) -> None:
        share = 1 / (float(num_averaged) + 1)
        for average, current in zip(averaged_params, current_params, strict=True):
            if average.dtype.kind in "fcV":
                average.lerp_(current, share)
            else:
                average.copy_(average + (current - average) * share)

    return swa_update


def check_decay(who: str, decay: float) -> None:
    """Checks the decay of an average."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"{who}: decay is {decay}, it is from 0 to 1")


class AveragedModel(Module):
    """A copy of a module whose parameters are averages of that one's.

    Args:
        model: the module.
        device: where the averages are; by default where the model is.
        avg_fn: averages one parameter: ``avg_fn(average, parameter, number)``.
        multi_avg_fn: averages lists of them in place; by default each update has the same weight.
        use_buffers: whether buffers are averaged too; else they are the model's.

    Attributes:
        module: the copy.
        n_averaged: how many updates were made.

    P. Izmailov et al., "Averaging weights leads to wider optima and better generalization", 2018.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.Linear(2, 3)
    >>> averaged = torch.optim.swa_utils.AveragedModel(layer)
    >>> averaged.update_parameters(layer)
    >>> averaged(torch.ones(4, 2)).shape
    (4, 3)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        for name, given in (("avg_fn", avg_fn), ("multi_avg_fn", multi_avg_fn)):
            if given is not None:
                check_function("AveragedModel", given, name)
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", Tensor(0, dtype="int64", device=device))
        self.avg_fn, self.multi_avg_fn = avg_fn, multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the averaged module returns."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the present parameters of the model into the averages."""
        averaged, current = (
            [*m.parameters(), *(m.buffers() if self.use_buffers else ())]
            for m in (self.module, model)
        )
        values = [
            x.detach().to(device=average.device)
            for average, x in zip(averaged, current, strict=True)
        ]
        averages = [x.detach() for x in averaged]
        with no_grad():
            if int(self.n_averaged) == 0:
                for average, x in zip(averages, values, strict=True):
                    average.copy_(x)
            elif self.avg_fn is not None:
                for average, x in zip(averages, values, strict=True):
                    average.copy_(self.avg_fn(average, x, self.n_averaged))
            else:
                together = self.multi_avg_fn or get_swa_multi_avg_fn()
                together(averages, values, self.n_averaged)
            if not self.use_buffers:
                for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    own.copy_(other.detach())
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the statistics of batch normalisation anew, as means over some data.

    Args:
        loader: batches; of a list or a tuple the first element is what the model is called with.
        model: the module.
        device: where batches are moved.
    """
    norms = [
        m for m in model.modules() if isinstance(m, BatchNorm1d | BatchNorm2d | BatchNorm3d)
    ]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    training = model.training
    model.train()
    try:
        for m in norms:
            m.reset_running_stats()
            m.momentum = None
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, list | tuple) else batch
                model(x if device is None else x.to(device))
    finally:
        for m, momentum in zip(norms, momenta, strict=True):
            m.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """Lets rates go to a constant one in some steps.

    Args:
        optimizer: its groups' ``"lr"`` is set.
        swa_lr: the rate at the end, or those of all groups.
        anneal_epochs: in how many steps it is reached.
        anneal_strategy: ``"cos"``, along half a cosine, or ``"linear"``.
        last_epoch: how many steps were made, less one.

    Raises:
        ValueError: there is no such strategy, a number is negative, or the rates are not as many
            as the groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, Sequence) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"SWALR: {len(rates)} rates for {len(groups)} groups")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"SWALR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs is {anneal_epochs}, a number of steps")
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """Returns how far the way to the last rate is made after some steps, from 0 to 1."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self.anneal_strategy == "linear" else (1 - cos(pi * part)) / 2

    def rate(self, base: float, step: int, group: int) -> float:
        """Returns the rate after some steps."""
        options = self.optimizer.param_groups[group]
        now, last = options["lr"], options["swa_lr"]
        step = max(1, step) if self.anneal_epochs == 0 else step
        before, after = self._share(step - 1), self._share(step)
        first = last if before == 1 else (now - before * last) / (1 - before)
        rate: float = last * after + first * (1 - after)
        return rate


publish(globals())
