"""PyTorch's optimizers, each by the pure one that computes for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar

from ... import optim as pure
from ...primitives.core.errors import failure
from .pure_steps import PureOptimizer

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop",
]  # fmt: skip

# The options that two arguments of Adam and its kin stand for.
BETAS = {"b1": "betas[0]", "b2": "betas[1]"}
ALPHA, RHO = {"b1": "alpha"}, {"b1": "rho"}


def with_group_options(optimizer: Any, group: dict[str, Any]) -> Any:
    """Returns a pure optimizer that adds decaying weights to gradients, or goes upwards."""
    if group["weight_decay"]:
        optimizer = pure.with_weight_decay(optimizer, group["weight_decay"])
    return pure.maximized(optimizer) if group["maximize"] else optimizer


def decoupled(make: Callable[[float], Any], group: dict[str, Any]) -> Any:
    """Returns a pure optimizer of a weight decay, which may be by itself or part of gradients."""
    if not group["decoupled_weight_decay"]:
        return with_group_options(make(0.0), group)
    made = make(group["weight_decay"])
    return pure.maximized(made) if group["maximize"] else made


def check_ways(
    optimizer: PureOptimizer, differentiable: bool, foreach: Any = None, fused: Any = None
) -> None:
    """Refuses steps that gradients would go through, and two ways of computing at once.

    Raises:
        NotImplementedError: steps are to be differentiable.
        RuntimeError: both ``foreach`` and ``fused`` are True; neither has an effect.
    """
    if fused and foreach:
        raise RuntimeError(f"{type(optimizer).__name__}: foreach and fused are both True")
    if differentiable:
        name = type(optimizer).__name__
        raise failure(
            NotImplementedError,
            f"{name}: differentiable=True is not here, since step() is not recorded",
            fix="functensor.grad goes through params, state = opt.update(params, state, grads) "
            "of an optimizer of functensor.optim",
            number=None,
        )


class SGD(PureOptimizer):
    """Gradient descent, with momentum.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        momentum: how much of the velocity is left after a step.
        dampening: what part of a gradient does not enter the velocity.
        weight_decay: how much of a parameter is added to its gradient.
        nesterov: look ahead.
        maximize: go upwards.
        foreach, fused: no effect.
        differentiable: must be False.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([4.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([x], lr=0.25)
    >>> (x * x / 2).sum().backward()
    >>> optimizer.step()
    >>> x.tolist()
    [3.0]
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov=True takes a momentum and no dampening")
        check_ways(self, differentiable, foreach, fused)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        if not group["momentum"]:
            return with_group_options(pure.sgd(rate), group)
        options = group["momentum"], group["nesterov"], group["dampening"]
        return with_group_options(pure.momentum(rate, *options), group)


class Adam(PureOptimizer):
    """Adam (Kingma and Ba, 2015).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        betas: the decays of the means of gradients and of their squares.
        eps: a number added to the denominator.
        weight_decay: how much of a parameter is added to its gradient.
        amsgrad: whether to divide by the largest mean of squares so far.
        maximize: go upwards.
        decoupled_weight_decay: let weights decay by themselves, as `AdamW`.
        foreach, capturable, fused: no effect.
        differentiable: must be False.
    """

    option_names: ClassVar = BETAS

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable, foreach, fused)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        (b1, b2), eps = group["betas"], group["eps"]

        def make(decay: float) -> Any:
            if group["amsgrad"]:
                return pure.amsgrad(rate, b1, b2, eps, decay)
            return pure.adamw(rate, b1, b2, eps, decay) if decay else pure.adam(rate, b1, b2, eps)

        return decoupled(make, group)


class AdamW(Adam):
    """Adam with weights that decay by themselves (Loshchilov and Hutter, 2019).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        betas: the decays of the means of gradients and of their squares.
        eps: a number added to the denominator.
        weight_decay: how fast weights decay, for each unit of the learning rate.
        amsgrad: whether to divide by the largest mean of squares so far.
        maximize: go upwards.
        foreach, capturable, fused: no effect.
        differentiable: must be False.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize,
            decoupled_weight_decay=True, foreach=foreach, capturable=capturable,
            differentiable=differentiable, fused=fused,
        )  # fmt: skip


class NAdam(PureOptimizer):
    """Adam with Nesterov's look ahead (Dozat, 2016).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        betas: the decays of the means of gradients and of their squares.
        eps: a number added to the denominator.
        weight_decay: how much of a parameter is added to its gradient.
        momentum_decay: how fast the momentum grows.
        decoupled_weight_decay: let weights decay by themselves.
        maximize: go upwards.
        foreach, capturable: no effect.
        differentiable: must be False.
    """

    option_names: ClassVar = BETAS

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        (b1, b2), eps, growth = group["betas"], group["eps"], group["momentum_decay"]
        return decoupled(lambda decay: pure.nadam(rate, b1, b2, eps, growth, decay), group)


class RAdam(PureOptimizer):
    """Adam whose first steps are rectified (Liu et al., 2020).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        betas: the decays of the means of gradients and of their squares.
        eps: a number added to the denominator.
        weight_decay: how much of a parameter is added to its gradient.
        decoupled_weight_decay: let weights decay by themselves.
        maximize: go upwards.
        foreach, capturable: no effect.
        differentiable: must be False.
    """

    option_names: ClassVar = BETAS

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        (b1, b2), eps = group["betas"], group["eps"]
        return decoupled(lambda decay: pure.radam(rate, b1, b2, eps, decay), group)


class Adamax(PureOptimizer):
    """Adam by the maximum norm (Kingma and Ba, 2015).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        betas: the decays of the mean of gradients and of the maximum of their sizes.
        eps: a number added to sizes.
        weight_decay: how much of a parameter is added to its gradient.
        maximize: go upwards.
        foreach, capturable: no effect.
        differentiable: must be False.
    """

    option_names: ClassVar = BETAS

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        (b1, b2), eps = group["betas"], group["eps"]
        return with_group_options(pure.adamax(rate, b1, b2, eps), group)


class RMSprop(PureOptimizer):
    """RMSprop (Tieleman and Hinton, 2012).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        alpha: the decay of the mean of squares.
        eps: a number added to the denominator.
        weight_decay: how much of a parameter is added to its gradient.
        momentum: how much of the last step is left.
        centered: whether the square of the mean of gradients is taken off.
        maximize: go upwards.
        capturable, foreach: no effect.
        differentiable: must be False.
    """

    option_names: ClassVar = ALPHA

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        options = group["alpha"], group["eps"], group["momentum"], group["centered"]
        return with_group_options(pure.rmsprop(rate, *options), group)

    def _hidden(self, group: dict[str, Any], p: Any) -> Collection[str]:
        by_option = (("momentum_buffer", "momentum"), ("grad_avg", "centered"))
        return [name for name, option in by_option if not group[option]]


class Adagrad(PureOptimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011).

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        lr_decay: the rate is divided by 1 and this for every step before.
        weight_decay: how much of a parameter is added to its gradient.
        initial_accumulator_value: the sums of squares at the beginning.
        eps: a number added to the denominator.
        maximize: go upwards.
        foreach, fused: no effect.
        differentiable: must be False.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable, foreach, fused)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        self.begin_states()

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        decay = group["lr_decay"]

        def slower(step: Any) -> Any:
            return (rate(step) if callable(rate) else rate) / (1 + step * decay)

        start, eps = group["initial_accumulator_value"], group["eps"]
        return with_group_options(pure.adagrad(slower if decay else rate, start, eps), group)


class Adadelta(PureOptimizer):
    """Adadelta (Zeiler, 2012).

    Args:
        params: tensors, or groups of them.
        lr: by what steps are multiplied.
        rho: the decay of the means of squares.
        eps: a number added to them.
        weight_decay: how much of a parameter is added to its gradient.
        maximize: go upwards.
        foreach, capturable: no effect.
        differentiable: must be False.
    """

    option_names: ClassVar = RHO

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        return with_group_options(pure.adadelta(rate, group["rho"], group["eps"]), group)
