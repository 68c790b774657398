"""``jit``: signatures, guards, programs as calls, and why it staged again."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"{__name__} has no {name!r}")
    # Pickles of earlier versions look for the functions of `jitted` here.
    return getattr(import_module(".jitted", __name__), name)
