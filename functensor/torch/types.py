"""PyTorch's names of dtypes and constants, and its objects for devices."""

from __future__ import annotations

from math import e, inf, nan, pi
from typing import Any

import numpy as np

from ..backends.dtypes import finfo, named
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import INEXACT
from ..primitives.core.shape_dtype import result_type as dtype_of_both
from ..tensors import GradMode, tensor
from ..tensors.default_dtypes import TENSOR_DTYPES, set_default_dtype
from ..tensors.device_names import device
from ..tensors.grad_mode import mode as grad_mode

__all__ = [
    "bool", "cdouble", "cfloat", "complex64", "complex128", "device", "double", "dtype", "e",
    "finfo", "float", "float16", "float32", "float64", "get_default_dtype", "half", "iinfo", "inf",
    "inference_mode", "int", "int8", "int16", "int32", "int64", "is_complex", "is_floating_point",
    "is_nonzero", "long", "nan", "newaxis", "pi", "promote_types", "result_type",
    "set_default_dtype", "set_grad_enabled", "short", "strided", "uint8", "uint16", "uint32",
    "uint64",
]  # fmt: skip

dtype = np.dtype
iinfo = np.iinfo
newaxis = None
strided = "strided"

bool = np.dtype(np.bool_)
uint8, uint16 = np.dtype(np.uint8), np.dtype(np.uint16)
uint32, uint64 = np.dtype(np.uint32), np.dtype(np.uint64)
int8 = np.dtype(np.int8)
int16 = short = np.dtype(np.int16)
int32 = int = np.dtype(np.int32)
int64 = long = np.dtype(np.int64)
float16 = half = np.dtype(np.float16)
float32 = float = np.dtype(np.float32)
float64 = double = np.dtype(np.float64)
complex64 = cfloat = np.dtype(np.complex64)
complex128 = cdouble = np.dtype(np.complex128)


def get_default_dtype() -> np.dtype[Any]:
    """Returns the dtype of tensors that are made of Python's floats: float32, unless it was set."""
    return TENSOR_DTYPES["f"]


class set_grad_enabled(GradMode):
    """Sets whether operations are recorded: at once, and back at the end of a ``with`` block.

    Args:
        mode: whether they are.

    >>> import functensor.torch as torch
    >>> with torch.set_grad_enabled(False):
    ...     print(torch.is_grad_enabled())
    False
    >>> torch.is_grad_enabled()
    True
    """

    __slots__ = ("_before",)

    def __init__(self, mode: Any) -> None:
        super().__init__(True if mode else False)  # noqa: SIM210  # bool is a dtype here
        self._before = grad_mode.enabled
        grad_mode.enabled = self._enabled

    def __enter__(self) -> None:
        grad_mode.enabled = self._before
        super().__enter__()

    def __call__(self, fun: Any) -> Any:
        """Returns a function that runs under this mode, which is set back here."""
        grad_mode.enabled = self._before
        return GradMode(self._enabled)(fun)


def inference_mode(mode: Any = True) -> GradMode:
    """Stops tensors from recording, as `no_grad` does, for a ``with`` block or a function."""
    return GradMode(mode is False)


def is_floating_point(input: Array) -> Any:
    """Says whether a tensor's elements are floats."""
    return input.dtype.kind in "fV"


def is_complex(input: Array) -> Any:
    """Says whether a tensor's elements are complex numbers."""
    return input.dtype.kind == "c"


def is_nonzero(input: Array) -> Any:
    """Says whether a tensor's only element is not zero."""
    return input.item() != 0


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """Returns the dtype of a sum of tensors of two dtypes."""
    a, b = named(type1), named(type2)
    if a.kind in INEXACT and b.kind in "iub":
        return a
    if b.kind in INEXACT and a.kind in "iub":
        return b
    return dtype_of_both(a, b)


def result_type(tensor1: Any, tensor2: Any) -> np.dtype[Any]:
    """Returns the dtype of a sum of two tensors, of a tensor and a number, or of two numbers."""
    if not (hasattr(tensor1, "dtype") or hasattr(tensor2, "dtype")):
        return promote_types(tensor(tensor1).dtype, tensor(tensor2).dtype)
    return (tensor1 + tensor2).dtype  # type: ignore[no-any-return]
