"""The kinds of values that pictures look into, and what stands for some in them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from random import Random
from threading import local
from typing import Any

import numpy as np

from ...backends.frames import is_users
from ...random.generator import Generator

__all__ = [
    "HIDDEN_KINDS", "MODULE_TABLES", "NOTHING_THERE", "NOT_LOOKED_INTO", "PLAIN_KINDS",
    "ArrayElements", "Same", "is_hidden", "is_looked_into", "is_of_package", "said_of_hidden",
]  # fmt: skip

PLAIN_KINDS = frozenset({type(None), bool, int, float, complex, str, bytes})
# The attributes that modules have for themselves.
MODULE_TABLES = frozenset({
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks",
    "_backward_hooks", "_backward_pre_hooks", "_with_kwargs", "_state_hooks",
})  # fmt: skip
# Values that may differ from what they were without a sign of it, or that change when looked at.
HIDDEN_KINDS = (
    Iterator, Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator,
    ContextVar, Generator, array, bytearray, memoryview,
)  # fmt: skip
# Libraries of tables and sparse arrays, which change in place.
LIBRARIES_OF_TABLES = "pandas.", "scipy.", "xarray."
# Stands for what is not there.
NOTHING_THERE = object()
# Python's own modules are not looked into, but for their namespaces, which hold settings.
NOT_LOOKED_INTO = sys.stdlib_module_names - {
    "__main__",
    "argparse",
    "collections",
    "queue",
    "types",
}
PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})


class Same:
    """A value in a picture that is alike to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class ArrayElements:
    """The elements of an array of NumPy as they were."""

    __slots__ = ("_bytes", "_form")

    def __init__(self, x: Any) -> None:
        self._form = x.shape, x.dtype
        self._bytes = bytearray(x.tobytes())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayElements):
            return False
        return self._form == other._form and self._bytes == other._bytes

    __hash__ = None  # type: ignore[assignment]

    def are_of(self, x: Any) -> bool:
        """Says whether an array has the same ones."""
        # Bytes are compared with the memory of an array as fast as it is read.
        now: Any = x if x.flags.c_contiguous else x.tobytes()
        return self._form == (x.shape, x.dtype) and self._bytes == now

    def put_into(self, x: Any) -> None:
        """Writes them to the array."""
        shape, dtype = self._form
        x[...] = np.frombuffer(self._bytes, dtype).reshape(shape)


def is_looked_into(module: str | None) -> bool:
    """Says whether functions and objects of classes of a module are more than their identity."""
    name = module or ""
    return is_users(name) and name.partition(".")[0] not in NOT_LOOKED_INTO


@cache
def is_of_package(module: str) -> bool:
    """Says whether a module is in a folder of installed packages, which seldom change."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not PACKAGE_FOLDERS.isdisjoint(Path(file).parts)


def is_hidden(x: Any) -> bool:
    """Says whether a value may differ from what it was without a sign of it."""
    kind = type(x)
    in_library = kind.__module__.startswith(LIBRARIES_OF_TABLES)
    return in_library or kind is local or isinstance(x, HIDDEN_KINDS)


def said_of_hidden(x: Any) -> str:
    """Returns what is said where code reads a value that may change without a sign of it."""
    return f"it reads an object of {type(x).__name__}, which may change"
