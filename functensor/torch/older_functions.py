"""Functions of PyTorch's that older programs call, and newer ones by other names."""

from __future__ import annotations

import warnings
from math import floor, isfinite
from typing import Any

import numpy as np

from ..backends.annotations import DTypeLike
from ..tensors import Tensor
from ..tensors.default_dtypes import TENSOR_DTYPES, set_default_dtype
from .creation import made
from .settings import set_default_device

__all__ = ["range", "set_default_tensor_type"]

# The dtypes of kinds of tensors that others may be of by default.
DEFAULT_KINDS = {
    "BFloat16Tensor": "bfloat16", "DoubleTensor": "float64", "FloatTensor": "float32",
    "HalfTensor": "float16",
}  # fmt: skip


def range(
    start: float, end: float, step: float = 1, *, dtype: DTypeLike | None = None,
    device: str | None = None, layout: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Returns the numbers from ``start`` to ``end``, that one too, and warns: use `arange`.

    Raises:
        RuntimeError: no steps lead there.

    >>> import warnings
    >>> import functensor.torch as torch
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.range(1, 2, 0.5)
    Tensor([1. , 1.5, 2. ], dtype=float32)
    """
    if step == 0 or not isfinite(end - start) or (end - start) * step < 0:
        raise RuntimeError(f"range: no steps of {step} lead from {start} to {end}")
    text = "torch.range is deprecated, as it has its end too: use torch.arange, which leaves it out"
    warnings.warn(text, UserWarning, stacklevel=3)
    numbers = start + step * np.arange(floor((end - start) / step) + 1, dtype=np.float64)
    return made(numbers, dtype, device, requires_grad, TENSOR_DTYPES["f"])


def set_default_tensor_type(t: Any) -> None:
    """Makes tensors of numbers of one kind from here on; newer programs set dtype and device.

    Args:
        t: a kind of tensors of floats, or its name: ``"torch.DoubleTensor"``. With a name
            ``"torch.cuda.FloatTensor"`` tensors are made on the GPU.

    Raises:
        TypeError: it is nothing of the kind.

    >>> import functensor.torch as torch
    >>> torch.set_default_tensor_type(torch.DoubleTensor)
    >>> torch.ones(1).dtype
    dtype('float64')
    >>> torch.set_default_tensor_type("torch.FloatTensor")
    """
    text = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    place, _, name = text.rpartition(".")
    wanted = DEFAULT_KINDS.get(name)
    if wanted is None or place not in ("", "torch", "torch.cuda"):
        raise TypeError(
            f"set_default_tensor_type: {text} is not one of torch.{', torch.'.join(DEFAULT_KINDS)}"
        )
    set_default_dtype(wanted)
    if isinstance(t, str):
        set_default_device("cuda" if place == "torch.cuda" else None)
