"""PyTorch's older names: constructors of one dtype, and orders of memory.

Images lie channel by channel here, whatever order is asked for: no result depends on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.dtypes import named as dtype_named
from ..tensors import Tensor
from .creation import made, sizes_of

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "channels_last", "channels_last_3d",
    "contiguous_format", "preserve_format",
]  # fmt: skip

channels_last, channels_last_3d = "channels_last", "channels_last_3d"
contiguous_format, preserve_format = "contiguous_format", "preserve_format"


def constructor_of(name: str, dtype: str) -> Any:
    """Returns the function that makes tensors of a dtype, of data or of a shape."""

    def function(*data: Any) -> Tensor:
        wanted = dtype_named(dtype)
        sizes = bool(data) and all(isinstance(n, int) for n in data)
        if sizes or not data:
            return made(np.zeros(sizes_of(data) if data else (0,)), wanted, None, False)
        (values,) = data
        array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
        return made(array, wanted, None, False)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Returns a tensor of {dtype}: of data, or of zeros where integers give its shape."
    )
    return function


BFloat16Tensor = constructor_of("BFloat16Tensor", "bfloat16")
BoolTensor = constructor_of("BoolTensor", "bool")
ByteTensor = constructor_of("ByteTensor", "uint8")
CharTensor = constructor_of("CharTensor", "int8")
DoubleTensor = constructor_of("DoubleTensor", "float64")
FloatTensor = constructor_of("FloatTensor", "float32")
HalfTensor = constructor_of("HalfTensor", "float16")
IntTensor = constructor_of("IntTensor", "int32")
LongTensor = constructor_of("LongTensor", "int64")
ShortTensor = constructor_of("ShortTensor", "int16")
