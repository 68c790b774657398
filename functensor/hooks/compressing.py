"""A hook that keeps what the backward pass needs in a dtype of fewer bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.dtypes import bfloat16, finfo
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from .operation import Operation
from .residuals import ResidualHook

__all__ = ["CompressHook"]

DTYPES = ("float32", "float16", "bfloat16", "int8")
# A residual in int8 is a whole number from -127 to 127, times a scale.
STEPS = 127


class CompressHook(ResidualHook):
    """Keeps residuals in a dtype of fewer bytes until the backward pass needs them.

    Gradients are off by what that rounds away; the loss is not. Each residual has a scale of its
    own where the dtype needs one: in int8 the largest magnitude is 127 steps, and in float16 it
    comes down to the largest number where it is larger. Residuals that are not real, or have no
    more bytes than the dtype, stay as they are; so do those with NaN or infinity under int8.

    Args:
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"int8"``.

    Raises:
        ValueError: it is another one.

    >>> import functensor as ft, functensor.numpy as np
    >>> x = np.linspace(-2.0, 2.0, 5)
    >>> with ft.hooks.use(ft.hooks.CompressHook("float16")):
    ...     gradient = ft.grad(lambda x: np.sum(np.tanh(np.sin(x))))(x)
    >>> exact = ft.grad(lambda x: np.sum(np.tanh(np.sin(x))))(x)
    >>> bool(np.allclose(gradient, exact, rtol=1e-3))
    True
    """

    def __init__(self, dtype: Any = "float16") -> None:
        super().__init__()
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        if name not in DTYPES:
            raise ValueError(f"CompressHook keeps {', '.join(DTYPES)}, not {dtype!r}")
        self.dtype = bfloat16() if name == "bfloat16" else np.dtype(name)
        # Python asks a residual for NaN, which is not known while a program is staged.
        self.traceable = name != "int8"

    def __repr__(self) -> str:
        return f"CompressHook({self.dtype.name!r})"

    def pack(self, op: Operation, value: Array) -> Any:
        """Returns a residual in the dtype, with its scale and its own dtype."""
        if value.dtype.kind != "f" or value.dtype.itemsize <= self.dtype.itemsize:
            return value
        scale: Any = None
        if self.dtype.name == "int8":
            largest = ops.max(ops.abs(value))
            if not bool(ops.isfinite(largest)):
                return value
            scale = ops.where(largest > 0, largest, 1) / STEPS
            packed = ops.round(value / scale).astype(self.dtype)
        elif self.dtype.name == "float16":
            # Infinity among the numbers stays infinity, and changes no scale.
            finite = ops.where(ops.isfinite(value), ops.abs(value), 0)
            scale = ops.maximum(ops.max(finite) / float(finfo(self.dtype).max), 1)
            packed = (value / scale).astype(self.dtype)
        else:
            packed = value.astype(self.dtype)
        return packed, scale, value.dtype

    def unpack(self, op: Operation, packed: Any) -> Array:
        """Returns the residual in its own dtype."""
        held, scale, dtype = packed
        out: Array = held.astype(dtype)
        return out if scale is None else (out * scale).astype(dtype)
