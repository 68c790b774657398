"""Methods of our own classes that are replaced while a program runs.

Some programs use tensors inside of transformations, a second backend, or libraries that write into
arrays. Methods have to look for that. The others would pay for the look at every call, on the
hottest paths. So a class gets the longer methods when they are first needed, for the whole process
and for good. Code that took a method before has the short one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["patch"]

patches: set[tuple[type, str]] = set()
patching = threading.Lock()


def patch(kind: type, purpose: str, methods: Callable[[], Mapping[str, Any]]) -> None:
    """Gives a class other methods, the first time that they are asked for.

    Args:
        kind: the class.
        purpose: tells one patch of a class from another.
        methods: returns the methods by their names, made of those that the class has now.
    """
    if (kind, purpose) in patches:
        return
    with patching:
        if (kind, purpose) not in patches:
            for name, method in methods().items():
                setattr(kind, name, method)
            patches.add((kind, purpose))
