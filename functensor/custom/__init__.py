"""Functions with derivative rules, batching rules or kernels of their own."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"{__name__} has no {name!r}")
    # Pickles of earlier versions look for the functions of `rules` here.
    return getattr(import_module(".rules", __name__), name)
