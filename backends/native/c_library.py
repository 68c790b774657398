"""Addresses of functions of the C library and of Python, which compiled kernels call."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["c_functions", "load_library", "python_functions"]

# For float64; those for float32 have an f behind the name.
MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign"),
    *("cos", "cosh", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fdim", "floor", "fma"),
    *("fmax", "fmin", "fmod", "frexp", "hypot", "ldexp", "lgamma", "log", "log10", "log1p"),
    *("log2", "modf", "nearbyint", "pow", "remainder", "rint", "round", "roundeven", "sin"),
    *("sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
)
# LLVM writes calls of these itself: loops that copy, large frames, conversions of short floats.
COMPILER_SUPPORT = (
    *("__bzero", "bzero", "memcmp", "memcpy", "memmove", "memset", "__chkstk", "__sincos_stret"),
    *("__sincosf_stret", "__exp10", "__exp10f", "__extendhfsf2", "__truncdfbf2", "__truncdfhf2"),
    *("__truncsfbf2", "__truncsfhf2", "__gnu_f2h_ieee", "__gnu_h2f_ieee", "memset_pattern16"),
)
# What lets other threads have the core, and what tells of numbers that overflowed or are none.
SYSTEM = ("sched_yield", "feclearexcept", "fetestexcept")
# What takes the lock of the interpreter, handles signals, and makes and holds objects.
PYTHON = (
    *("PyErr_CheckSignals", "PyErr_Occurred", "PyGILState_Ensure", "PyGILState_Release"),
    *("PyList_GetItem", "PyList_SetItem", "PyList_Size", "PyType_GenericAlloc"),
    *("Py_DecRef", "Py_IncRef"),
)
C_NAMES = frozenset({*MATH, *[f"{name}f" for name in MATH], *COMPILER_SUPPORT, *SYSTEM})
WINDOWS = ("ucrtbase", "vcruntime140", "ntdll")
# Beside the process itself, which has the C library and its mathematical functions.
POSIX = ("libm.so.6", "libgcc_s.so.1")


def c_libraries() -> Iterator[ctypes.CDLL]:
    """Yields the libraries that may have the functions, those to be asked first in front."""
    names: tuple[str | None, ...] = WINDOWS
    if sys.platform != "win32":
        names = (None, *POSIX) if sys.platform == "linux" else (None,)
    for name in names:
        with suppress(OSError):
            yield ctypes.CDLL(name)


@cache
def c_functions() -> dict[str, int]:
    """Returns the addresses of the functions that this system's libraries have, by their names.

    >>> {"sin", "sinf", "pow", "powf", "memcpy"} <= c_functions().keys()
    True
    """
    found = {name: c_function(name) for name in C_NAMES}
    return {name: address for name, address in found.items() if address}


@cache
def c_function(name: str) -> int:
    """Returns the address of one of them; 0 where there is none."""
    for library in known_libraries() if name in C_NAMES else ():
        with suppress(AttributeError):
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            if address:
                return address
    return 0


@cache
def known_libraries() -> list[ctypes.CDLL]:
    """Returns the libraries that may have the functions."""
    return list(c_libraries())


@cache
def python_functions() -> dict[str, int]:
    """Returns the addresses of functions of CPython, by their names; none of other Pythons."""
    python = getattr(ctypes, "pythonapi", None)
    found = {
        name: ctypes.cast(getattr(python, name), ctypes.c_void_p).value
        for name in PYTHON
        if hasattr(python, name)
    }
    return {name: address for name, address in found.items() if address}


def load_library(path: Path) -> None:
    """Loads a library, if it is there, while other threads of Python go on.

    Python itself keeps its lock meanwhile. It finds the library loaded, when it is to be imported.
    """
    # Windows has no such function.
    with suppress(AttributeError, OSError, TypeError):
        load = ctypes.CDLL(None).dlopen
        load.argtypes, load.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
        load(os.fsencode(path), os.RTLD_NOW)
