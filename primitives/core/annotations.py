"""The types of operands and results, for signatures, and the registry as typed code sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from ...backends.annotations import Buffer, Number
from .array import Array
from .registry import registry

__all__ = ["ArrayLike", "Number", "Operations", "Prepared", "Value", "Values", "operations"]

# An argument of a function of arrays: an array of ours or another's, a number, or nested lists.
ArrayLike: TypeAlias = Array | Buffer | np.generic | Number | Sequence[Any]
# A call as a primitive's ``prepare`` returns it: its operands and its static parameters.
Prepared: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
# A value that a trace works on: an array of its parent's level, at the bottom a buffer or a number.
Value: TypeAlias = Array | Buffer | np.generic | Number
# A flat list of what calls take and give: values, None where one is missing, and residuals.
Values: TypeAlias = list[Any]


if TYPE_CHECKING:

    class RegisteredFunction(Protocol):
        """A primitive, or a function that is made of primitives."""

        impl: Callable[..., Buffer]

        def __call__(self, *operands: Any, **params: Any) -> Array:
            """Applies it."""

        def bind(self, args: Sequence[Any], params: dict[str, Any]) -> Array:
            """Applies a primitive to operands and parameters that are prepared already."""

    class Operations(Protocol):
        """The primitives and functions of the registry, which return arrays."""

        def __getattr__(self, name: str) -> RegisteredFunction: ...

        def __getitem__(self, name: str) -> Any: ...


operations = cast("Operations", registry)
