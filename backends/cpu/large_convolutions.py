"""Large convolutions in eager mode, which machine code may compute where it is to be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any

from ..config import config

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["by_machine_code"]

# Convolutions of fewer multiplications stay with NumPy.
SMALLEST_WORK = 1 << 18
COMPUTED_DTYPES = "fd"


def by_machine_code(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a kernel of convolutions that hands large ones to machine code once it is there.

    With ``config.deterministic`` it computes all by itself.

    Args:
        name: the name of the primitive.
        kernel: computes it by NumPy. Plans call this one: they become machine code as a whole.
    """

    @wraps(kernel)
    def eager(x: Buffer, y: Buffer, **params: Any) -> Any:
        if work_of(name, x, y, params) < SMALLEST_WORK or not is_computed(x, y):
            return kernel(x, y, **params)
        from .plan.native.eager_convolutions import eager_convolution  # only for large work

        return eager_convolution(name, x, y, params)(kernel, x, y)

    eager.in_plans = kernel  # type: ignore[attr-defined]
    return eager


def work_of(name: str, x: Buffer, y: Buffer, params: Mapping[str, Any]) -> int:
    """Returns about how many multiplications a convolution, or a derivative of one, takes."""
    if name == "conv_kernel_grad":
        return y.size * x.shape[1] * prod(params["kernel"])
    return x.size // max(x.shape[1], 1) * y.size


def is_computed(x: Buffer, y: Buffer) -> bool:
    """Says whether machine code may compute a convolution of such operands."""
    dtype = x.dtype
    if config.deterministic or dtype.char not in COMPUTED_DTYPES or not dtype.isnative:
        return False
    return dtype == y.dtype and x.flags.aligned and y.flags.aligned
