"""PyTorch's functions that set how the process computes and prints, and its control of flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.config import config
from ..backends.devices import resolved
from ..backends.devices import set_default_device as set_device

__all__ = [
    "are_deterministic_algorithms_enabled", "cond", "convolution", "get_default_device",
    "get_float32_matmul_precision", "set_default_device", "set_float32_matmul_precision",
    "set_printoptions", "use_deterministic_algorithms", "while_loop",
]  # fmt: skip

PRECISION_OF = {"highest": "highest", "high": "tf32", "medium": "tf32"}


def set_default_device(device: Any) -> None:
    """Makes tensors on a device from here on, where nothing says where, in this thread.

    ``None`` stands for the CPU.
    """
    set_device("cpu" if device is None else str(device))


def get_default_device() -> Any:
    """Returns the device on which tensors are made where nothing says where."""
    from .types import device

    return device(resolved()[1])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Sets whether equal calls give equal bits; see ``functensor.config.deterministic``.

    ``warn_only`` has no effect: every operation here has a way that does.
    """
    config.deterministic = mode


def are_deterministic_algorithms_enabled() -> bool:
    """Says whether equal calls give equal bits."""
    return config.deterministic


def set_float32_matmul_precision(precision: str) -> None:
    """Sets how products of float32 matrices are computed on a GPU.

    Args:
        precision: ``"highest"`` for float32; ``"high"`` and ``"medium"`` allow TF32.

    Raises:
        RuntimeError: there is no such precision.
    """
    if precision not in PRECISION_OF:
        raise RuntimeError(f"precision is 'highest', 'high' or 'medium', not {precision!r}")
    config.matmul_precision = PRECISION_OF[precision]


def get_float32_matmul_precision() -> str:
    """Returns ``"highest"``, or ``"high"`` where TF32 is allowed."""
    return "highest" if config.matmul_precision == "highest" else "high"


def set_printoptions(
    precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Sets how arrays and tensors are printed, those of NumPy too.

    Args:
        precision: digits behind the point.
        threshold: how many elements are printed before the middle is left out.
        edgeitems: how many are printed at each end then.
        linewidth: the number of characters in a line.
        profile: ``"default"``, ``"short"`` or ``"full"``, for all that is not given.
        sci_mode: False for no exponents.
    """
    profiles = {
        None: {}, "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
        "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3, "linewidth": 80},
    }  # fmt: skip
    given = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth, "suppress": None if sci_mode is None else not sci_mode,
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value is not None}
    np.set_printoptions(**{**profiles[profile], **chosen})  # type: ignore[arg-type]


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Returns what one of two functions gives, as a boolean says; see `functensor.cond`."""
    from ..control import cond as choose

    return choose(pred, true_fn, false_fn, *operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """Returns carried values, changed as long as a function of them is true."""
    from ..control import while_loop as loop

    return loop(
        lambda carry: cond_fn(*carry), lambda carry: tuple(body_fn(*carry)), tuple(carried_inputs)
    )


def convolution(
    input: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """Returns a convolution over the spatial axes, or the transpose of one."""
    from .nn import functional as F

    n = input.ndim - 2
    if transposed:
        return getattr(F, f"conv_transpose{n}d")(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return getattr(F, f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)
