"""The dtypes of safetensors files, by the codes that stand for them there."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import DType
from ..backends.dtypes import bfloat16

__all__ = ["READ_DTYPES", "dtype_code", "dtype_of", "is_stored"]

# All numbers in files are little-endian. Half of a complex number is a real one.
WRITTEN_DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
# Other libraries write complex64 under a code of its own.
READ_DTYPES = {**WRITTEN_DTYPES, "BF16": "bfloat16", "C64": "<c8"}
CODE_OF_DTYPE = {np.dtype(name): code for code, name in WRITTEN_DTYPES.items()}


def dtype_of(code: str) -> DType:
    """Returns the dtype of a code.

    Raises:
        BackendUnavailable: it is bfloat16, and the package that has it is not installed.
    """
    return bfloat16() if code == "BF16" else np.dtype(READ_DTYPES[code])


def dtype_code(dtype: DType) -> str:
    """Returns the code of a dtype that is real."""
    return "BF16" if dtype.name == "bfloat16" else CODE_OF_DTYPE[dtype.newbyteorder("<")]


def is_stored(dtype: DType) -> bool:
    """Says whether files hold a dtype, complex ones as pairs of real ones.

    >>> is_stored(np.dtype("complex128")), is_stored(np.dtype("longdouble"))
    (True, False)
    """
    if dtype.name in ("bfloat16", "complex64", "complex128"):
        return True
    return dtype.newbyteorder("<") in CODE_OF_DTYPE
