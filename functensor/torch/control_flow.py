"""PyTorch's control of flow, and its general convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backends.errors.public_functions import check_function

__all__ = ["cond", "convolution", "while_loop"]


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Returns what one of two functions gives, as a boolean says; see `functensor.cond`."""
    from ..control import cond as choose

    check_function("cond", true_fn, "true_fn")
    check_function("cond", false_fn, "false_fn")
    return choose(pred, true_fn, false_fn, *operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """Returns carried values, changed as long as a function of them is true."""
    from ..control import while_loop as loop

    check_function("while_loop", cond_fn, "cond_fn")
    check_function("while_loop", body_fn, "body_fn")
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
