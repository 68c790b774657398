"""``checkpoint``: memory for time, in every transformation."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"{__name__} has no {name!r}")
    # Pickles of earlier versions look for the functions of `checkpointed` here.
    return getattr(import_module(".checkpointed", __name__), name)
