"""The dtypes of tensors that are made of Python's floats and complex numbers."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.dtypes import named

__all__ = ["TENSOR_DTYPES", "set_default_dtype"]

COMPLEX_OF = {
    "bfloat16": "complex64", "float16": "complex64", "float32": "complex64",
    "float64": "complex128",
}  # fmt: skip

# For the whole process, by the kinds of dtypes.
TENSOR_DTYPES = {"f": np.dtype(np.float32), "c": np.dtype(np.complex64)}


def set_default_dtype(d: DTypeLike) -> None:
    """Sets the dtype of tensors that are made of Python's floats, for the whole process.

    Integers become floats of this dtype too, and complex numbers are of twice its size. Functions
    that were jitted before keep theirs.

    Args:
        d: bfloat16, float16, float32 or float64.

    Raises:
        TypeError: it is another dtype.

    >>> import functensor.torch as torch
    >>> torch.set_default_dtype(torch.float64)
    >>> torch.tensor(1.5).dtype, torch.zeros(2).dtype
    (dtype('float64'), dtype('float64'))
    >>> torch.set_default_dtype(torch.float32)
    """
    dtype = named(d)
    if dtype.name not in COMPLEX_OF:
        raise TypeError(f"set_default_dtype takes {', '.join(COMPLEX_OF)}, not {dtype.name}")
    TENSOR_DTYPES.update(f=dtype, c=np.dtype(COMPLEX_OF[dtype.name]))
