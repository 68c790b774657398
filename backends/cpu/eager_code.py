"""Large convolutions and pools in eager mode, which machine code may compute where it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any

from ..config import config

if TYPE_CHECKING:
    from ..annotations import Buffer, DType

__all__ = ["COMPILED", "by_machine_code"]

# Convolutions of fewer multiplications, and pools of fewer elements, stay with NumPy.
SMALLEST_WORK = 1 << 18
FEWEST_POOLED = 1 << 16
# Of fewer channels too few elements are computed at a time.
FEWEST_CHANNELS = 8
# The kernel of a larger window would have a long text.
MOST_WINDOW_ELEMENTS = 16
COMPUTED_DTYPES = "fd"
COMPILED_CONVOLUTIONS = ("conv", "conv_input_grad", "conv_kernel_grad")
COMPILED = (*COMPILED_CONVOLUTIONS, "max_pool", "max_pool_argmax", "pool_scatter")


def by_machine_code(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a kernel that hands large work to machine code once that is there.

    With ``config.deterministic`` it computes all by itself.

    Args:
        name: the name of the primitive.
        kernel: computes it by NumPy. Plans call this one: they become machine code as a whole.
    """
    takes = takes_convolution if name in COMPILED_CONVOLUTIONS else takes_pool

    @wraps(kernel)
    def eager(*operands: Buffer, **params: Any) -> Any:
        if not takes(name, operands, params):
            return kernel(*operands, **params)
        from .plan.native.eager_kernels import eager_kernel  # only for large work

        return eager_kernel(name, operands, params)(kernel, operands)

    eager.in_plans = kernel  # type: ignore[attr-defined]
    return eager


def takes_convolution(name: str, operands: tuple[Buffer, ...], params: Mapping[str, Any]) -> bool:
    """Says whether machine code may compute a convolution, or a derivative of one."""
    x, y = operands
    if name == "conv_kernel_grad":
        work = y.size * x.shape[1] * prod(params["kernel"])
    else:
        work = x.size // max(x.shape[1], 1) * y.size
    if work < SMALLEST_WORK or config.deterministic or not is_computed(x.dtype):
        return False
    return x.dtype == y.dtype and x.flags.aligned and y.flags.aligned


def takes_pool(name: str, operands: tuple[Buffer, ...], params: Mapping[str, Any]) -> bool:
    """Says whether machine code may compute a primitive of pooling."""
    x, *winner = operands
    windows = params["windows"]
    many = x.size * prod(windows.window) if winner else x.size
    if many < FEWEST_POOLED or not is_computed(x.dtype) or config.deterministic:
        return False
    if any(map(any, windows.padding)) or not 1 < prod(windows.window) <= MOST_WINDOW_ELEMENTS:
        return False
    if winner:
        x = winner[0]
        if x.dtype.char != "b" or any(s < k for k, s in zip(windows.window, windows.stride)):
            return False
    return x.flags.aligned and x.shape[1] >= FEWEST_CHANNELS and has_channels_last(x)


def has_channels_last(x: Buffer) -> bool:
    """Says whether an array (N, C, *spatial) lies in memory as (N, *spatial, C) in C order."""
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def is_computed(dtype: DType) -> bool:
    """Says whether machine code computes in a dtype."""
    return dtype.char in COMPUTED_DTYPES and dtype.isnative
