"""Functions of PyTorch that tell of a tensor, or give it as it is."""

from __future__ import annotations

from typing import Any

from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops
from ..recast import is_conjugated
from .naming import copied

__all__ = [
    "conj_physical", "get_device", "is_conj", "is_inference", "is_neg", "is_same_size",
    "is_signed", "resolve_conj", "resolve_neg",
]  # fmt: skip


def is_signed(input: Array) -> bool:
    """Says whether the dtype has negative numbers."""
    return input.dtype.kind not in "ub"


def is_same_size(input: Array, other: Any) -> bool:
    """Says whether two tensors have one shape."""
    return tuple(input.shape) == tuple(other.shape)


def is_conj(input: Array) -> bool:
    """Says whether a tensor is a view of another's conjugates."""
    return is_conjugated(input)


def is_neg(input: Array) -> bool:
    """Says whether a tensor's sign is still to be changed: never, here it is done at once."""
    return False


def is_inference(input: Array) -> bool:
    """Says whether a tensor may take no part in recording: none is like that."""
    return False


def get_device(input: Array) -> int:
    """Returns the number of the GPU on which a tensor is, or -1 on the CPU."""
    number = str(input.device).partition(":")[2]
    return int(number) if number else -1


def resolve_conj(input: Array) -> Any:
    """Returns the tensor; a copy of a view of another's conjugates."""
    return copied(input) if is_conjugated(input) else input


def resolve_neg(input: Array) -> Any:
    """Returns the tensor, whose sign is changed already."""
    return input


def conj_physical(input: Array) -> Any:
    """Returns the conjugates; a real tensor as it is."""
    return ops.conj(input) if input.dtype.kind == "c" else input
