"""The memory that arrays hand out to NumPy: nobody writes to it."""

from __future__ import annotations

from types import FrameType
from typing import Any

import numpy as np

from ...backends.annotations import Buffer
from ...backends.frames import module_of

__all__ = ["is_overwriting", "sealed"]

# Libraries that ask on behalf of compiled code, and how many frames away the called function is.
COMPILED = ("functensor.", "numpy.", "scipy.")
FRAMES = 5


def is_overwriting(frame: FrameType | None) -> bool:
    """Says whether SciPy asks for memory that its compiled code writes to: ``overwrite_a=True``.

    That code does not look whether an array is read-only.

    Args:
        frame: what asks for an array: a function of SciPy's, or of NumPy's that it calls.
    """
    for _ in range(FRAMES):
        if frame is None or not module_of(frame).startswith(COMPILED):
            return False
        known = frame.f_locals
        named = [known, *(x for x in known.values() if type(x) is dict)]
        if "f" in known and "args" in known:
            # A decorator, which is given some by position.
            names = getattr(getattr(known["f"], "__code__", None), "co_varnames", ())
            named.append(dict(zip(names, known["args"], strict=False)))
        for names in named:
            for key, x in names.items():
                # Any other value may be true, and a copy is never wrong.
                if x is not False and x is not None and str(key).startswith("overwrite_"):
                    return True
        frame = frame.f_back
    return False


def sealed(x: Any) -> Buffer:
    """Returns a view of a NumPy array that nobody can make writable.

    NumPy lets a view be written to if the array below it may be. Below this one is a buffer that
    is exported for reading alone.
    """
    try:
        return np.asarray(memoryview(x).toreadonly())
    except ValueError:  # bfloat16 and swapped long doubles have no format of buffers
        memory = memoryview(x.view(f"V{x.dtype.itemsize}")).toreadonly()
        return np.asarray(memory).view(x.dtype)
