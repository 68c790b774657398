"""PyTorch's optimizers of rarer kinds: by signs, averaging, of little memory, and of matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

from ... import optim as pure
from ...optim.orthogonal_steps import POLYNOMIAL
from .algorithms import check_ways, with_group_options
from .pure_steps import PureOptimizer

__all__ = ["ASGD", "Adafactor", "Muon", "Rprop"]

# The names of options that pure optimizers call otherwise.
RPROP_OPTIONS = {
    "down": "etas[0]", "up": "etas[1]", "smallest": "step_sizes[0]", "largest": "step_sizes[1]",
}  # fmt: skip
ADAFACTOR_OPTIONS = {"eps": "eps[0]", "smallest_scale": "eps[1]"}
MUON_OPTIONS = {
    "polynomial": "ns_coefficients", "rounds": "ns_steps", "scale": "adjust_lr_fn",
}  # fmt: skip


class Rprop(PureOptimizer):
    """Rprop: steps along the signs of gradients (Riedmiller and Braun, 1993).

    Args:
        params: tensors, or groups of them.
        lr: how long the first steps are.
        etas: the factors of lengths where gradients change their signs, and where they keep them.
        step_sizes: the shortest and the longest step.
        capturable, foreach: no effect.
        maximize: go upwards.
        differentiable: must be False.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([4.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.tolist(), list(optimizer.state[x])
    ([3.5], ['step', 'prev', 'step_size'])
    """

    option_names: ClassVar = RPROP_OPTIONS

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        made = pure.rprop(rate, *group["etas"], *group["step_sizes"])
        return pure.maximized(made) if group["maximize"] else made


class ASGD(PureOptimizer):
    """Averaged gradient descent (Polyak and Juditsky, 1992): the state has averages as ``"ax"``.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        lambd: how fast weights decay, and with ``alpha`` how fast rates fall.
        alpha: the power of that fall.
        t0: how many steps averages leave out.
        weight_decay: how much of a parameter is added to its gradient.
        foreach, capturable: no effect.
        maximize: go upwards.
        differentiable: must be False.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_ways(self, differentiable)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        made = pure.asgd(rate, group["lambd"], group["alpha"], group["t0"])
        return with_group_options(made, group)


class Adafactor(PureOptimizer):
    """Adafactor: means of squares for rows and columns alone (Shazeer and Stern, 2018).

    Args:
        params: tensors, or groups of them.
        lr: the largest rate, relative to the size of parameters.
        beta2_decay: the power, not above 0, by which means become slower.
        eps: a bound of variances, None for the spacing of numbers at 1; and the least size of
            parameters.
        d: the largest root mean square of a step before it is scaled, at least 1.
        weight_decay: how fast weights decay, for each unit of the learning rate.
        foreach: no effect.
        maximize: go upwards.
    """

    real_alone = True
    option_names: ClassVar = ADAFACTOR_OPTIONS

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0,
        weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        })  # fmt: skip

    def check_group(self, group: dict[str, Any]) -> None:
        """Checks the ranges of a group's options."""
        if group["d"] < 1:
            raise ValueError(f"Adafactor: d is {group['d']}: it must be at least 1")
        if group["beta2_decay"] > 0:
            text = f"Adafactor: beta2_decay is {group['beta2_decay']}: it must not be above 0"
            raise ValueError(text)
        super().check_group(group)

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        options = -group["beta2_decay"], *group["eps"], group["d"], group["weight_decay"]
        made = pure.bounded_adafactor(rate, *options)
        return pure.maximized(made) if group["maximize"] else made

    def _hidden(self, group: dict[str, Any], p: Any) -> Collection[str]:
        return ("variance",) if p.ndim > 1 else ("row_var", "col_var")


class Muon(PureOptimizer):
    """Muon (Jordan et al., 2024): steps of matrices, with singular values near one.

    Args:
        params: tensors of two dimensions, or groups of them.
        lr: the learning rate.
        weight_decay: how fast weights decay, for each unit of the learning rate.
        momentum: the decay of the mean of gradients.
        nesterov: look ahead.
        ns_coefficients: the polynomial of singular values, by which steps are computed.
        eps: the norm by which a matrix is divided at first is not below this.
        ns_steps: how often the polynomial is applied.
        adjust_lr_fn: ``"match_rms_adamw"`` for rates as of AdamW; None or ``"original"`` for the
            root of rows over columns.

    Raises:
        ValueError: a parameter has not two dimensions.

    >>> import functensor.torch as torch
    >>> x = torch.zeros(2, 3, requires_grad=True)
    >>> optimizer = torch.optim.Muon([x], lr=0.5)
    >>> (x * torch.tensor([30.0, 0.0, 40.0])).sum().backward()
    >>> optimizer.step()
    >>> bool(torch.allclose(x / x[0, 0], torch.tensor([1.0, 0.0, 4 / 3]), rtol=0.01))
    True
    """

    real_alone = True
    option_names: ClassVar = MUON_OPTIONS

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = POLYNOMIAL, eps: float = 1e-7,
        ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip

    def check_group(self, group: dict[str, Any]) -> None:
        """Checks the ranges of a group's options, and the shapes of its parameters."""
        for p in group["params"]:
            if p.ndim != 2:
                raise ValueError(
                    f"Muon: a parameter has the shape {tuple(p.shape)}; it takes those of two "
                    "dimensions alone, and others go to another optimizer"
                )
        super().check_group(group)

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        return pure.muon(
            rate, group["momentum"], group["weight_decay"], group["nesterov"],
            group["ns_coefficients"], group["eps"], group["ns_steps"],
            group["adjust_lr_fn"] or "original",
        )  # fmt: skip
