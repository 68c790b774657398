"""Functions that are made of a line of a table: their names and what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import CodeType
from typing import Any

import numpy as np

from ...backends.errors.words import WRAPPER_CODES
from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops
from ..default_dtypes import TENSOR_DTYPES
from ..tape import TAPE

__all__ = [
    "as_floats", "as_tensor_result", "binary", "copied", "error_of", "first_places",
    "floating", "in_memory_of_its_own", "on_host", "on_numbers", "scipy_special", "signs", "unary",
    "with_numpy_names", "with_words",
]  # fmt: skip


def as_tensor_result(x: Any) -> Any:
    """Returns what functions of plain arrays give, as a tensor."""
    return TAPE.wrap(x._data, None) if type(x) is Array else x


def copied(x: Any) -> Any:
    """Returns a copy, through which gradients flow back."""
    return ops.copy(x) if x.dtype.kind == "b" else ops.positive(x)


def in_memory_of_its_own(x: Any) -> Any:
    """Returns a result that lies in memory from its first element on, as PyTorch's flipped ones do.

    So `contiguous` returns the tensor itself, which shows what is written to a view of that.
    """
    if getattr(x, "home", x) is None:
        x._data = x._data.copy("K")
    return x


def first_places(x: Any) -> Any:
    """Returns a tensor of zeros, int64, of the shape and on the device of another."""
    return as_tensor_result(ops.zeros_like(x, dtype=np.dtype(np.int64)))


def on_host(x: Any) -> np.ndarray[Any, Any]:
    """Returns the values of a tensor, which must be known, as a NumPy array."""
    return np.asarray(ops.to_device(ops.stop_gradient(x), "cpu"))


def as_floats(x: Any) -> Any:
    """Returns integers and booleans in the default dtype of floats, and others as they are."""
    return ops.astype(x, TENSOR_DTYPES["f"]) if x.dtype.kind in "iub" else x


def error_of(x: Any, y: Any) -> Any:
    """Returns a difference, of whole numbers as floats: bytes would wrap around below zero."""
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        return as_floats(x) - as_floats(y)
    return x - y


def with_words(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """Returns a function under another name, with a docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# NumPy's names of parameters that functions take as well.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def with_numpy_names(namespace: dict[str, Any]) -> None:
    """Has a module's functions take ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``."""
    for name in namespace["__all__"]:
        function = namespace[name]
        code = getattr(function, "__code__", None)
        if code is not None and {"dim", "keepdim"} & {*code.co_varnames[: _parameters(code)]}:
            namespace[name] = _renaming(function)


def _parameters(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount


def _renaming(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that takes parameters by NumPy's names too."""

    def renamed(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for name in NUMPY_NAMES.keys() & kwargs.keys():
                # Both together are left to the function, which has no such parameter.
                if NUMPY_NAMES[name] not in kwargs:
                    kwargs[NUMPY_NAMES[name]] = kwargs.pop(name)
        return function(*args, **kwargs)

    WRAPPER_CODES.add(renamed.__code__)
    return update_wrapper(renamed, function)


def unary(name: str, doc: str, primitive: str | None = None) -> Callable[[Any], Any]:
    """Returns the function of one tensor that a primitive computes, or a function made of some."""
    key = primitive or name

    def function(input: Array) -> Any:
        return getattr(ops, key)(input)

    return with_words(function, name, f"Returns {doc}, element by element.")


def on_numbers(
    name: str, doc: str, primitive: str | None = None, counted: bool = False
) -> Callable[[Any], Any]:
    """Returns the function of one tensor that a primitive computes, but not of booleans.

    Booleans are taken as numbers; the result is int64 where they are ``counted``, else boolean.
    """
    key = primitive or name

    def function(input: Array) -> Any:
        if input.dtype.kind != "b":
            return getattr(ops, key)(input)
        found = getattr(ops, key)(ops.astype(input, np.dtype(np.int64)))
        return found if counted else ops.astype(found, np.dtype(np.bool_))

    return with_words(function, name, f"Returns {doc}, element by element.")


def signs(name: str, doc: str) -> Callable[[Any], Any]:
    """Returns the function of the signs of one tensor's elements; those of NaN are 0."""
    of_numbers = on_numbers(name, doc, "sign")

    def function(input: Array) -> Any:
        floats = input.dtype.kind in "fV"
        return of_numbers(ops.where(ops.isnan(input), 0, input) if floats else input)

    return with_words(function, name, f"Returns {doc}, element by element.")


def floating(name: str, doc: str) -> Callable[[Any], Any]:
    """Returns the function of one tensor that a primitive computes in floats."""

    def function(input: Array) -> Any:
        return getattr(ops, name)(as_floats(input))

    return with_words(function, name, f"Returns {doc}, element by element.")


def binary(name: str, doc: str, primitive: str | None = None) -> Callable[[Any, Any], Any]:
    """Returns the function of two tensors, or a tensor and a number, that a primitive computes."""
    key = primitive or name

    def function(input: Array, other: Any) -> Any:
        return getattr(ops, key)(input, other)

    return with_words(function, name, f"Returns {doc}, element by element.")


def scipy_special(name: str, doc: str, function: str | None = None) -> Callable[..., Any]:
    """Returns a function of one tensor by its name in ``functensor.scipy.special``."""
    key = function or name

    def computed(input: Array) -> Any:
        from ...scipy import special as functions

        x = as_floats(input)
        found = getattr(functions, key)(x)
        # SciPy computes halves in single or double precision.
        return found if found.dtype == x.dtype else ops.astype(found, x.dtype)

    return with_words(computed, name, f"Returns {doc}, element by element.")
