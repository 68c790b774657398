"""Buffers and how they are computed with: the lowest floor.

It knows nothing of arrays, traces or derivatives.
"""

from __future__ import annotations

import numpy

if int(numpy.__version__.partition(".")[0]) < 2:
    raise ImportError(
        f"functensor needs NumPy 2, and NumPy {numpy.__version__} is installed: "
        "pip install 'numpy>=2'; the command `functensor doctor` says what else does not fit"
    )
if __name__ != "functensor.backends":
    raise ImportError(f"'{__name__}' imported bare: write 'import functensor.backends' instead")

from . import import_time as import_time
from .protocol import (
    Backend,
    BackendUnavailable,
    DeviceError,
    Loop,
    LoopPrograms,
    get,
    info,
    register,
    when_registered,
)

__all__ = [
    "Backend", "BackendUnavailable", "DeviceError", "Loop", "LoopPrograms", "get", "info",
    "register", "when_registered",
]  # fmt: skip
