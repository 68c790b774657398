"""Functions with derivative rules, batching rules or kernels of their own."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    # Pickles of earlier versions look for the functions of `rules` here.
    return getattr(import_module(".rules", __name__), name)
