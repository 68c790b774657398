"""The types of operands and results, for signatures, and the registry as typed code sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from ...backends.annotations import Buffer, Number
from .array import Array
from .registry import registry

__all__ = [
    "ArrayLike",
    "Number",
    "Operations",
    "Prepared",
    "Value",
    "Values",
    "operations",
]

# What functions of arrays take: arrays of ours and of others, numbers, and nested lists of them.
ArrayLike: TypeAlias = Array | Buffer | np.generic | Number | Sequence[Any]
# What a trace works on: an array at its parent's level, at the bottom a buffer or a number.
Value: TypeAlias = Array | Buffer | np.generic | Number
# What a primitive's `prepare` makes of a call: operands, and static parameters.
Prepared: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
# A flat list of what calls take and give: values, None where one is missing, and residuals.
Values: TypeAlias = list[Any]


class Operations(Protocol):
    """The primitives and functions of the registry, which return arrays."""

    def __getattr__(self, name: str) -> Callable[..., Array]: ...

    def __getitem__(self, name: str) -> Any: ...


operations = cast(Operations, registry)
