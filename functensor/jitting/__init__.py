"""``jit``: signatures, guards, programs as calls, and why it staged again."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    # Pickles of earlier versions look for the functions of `jitted` here.
    return getattr(import_module(".jitted", __name__), name)
