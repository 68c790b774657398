"""Functions with ``inplace=True``: the tensor that they are given gets their result."""

from __future__ import annotations

from typing import Any

from ....tensors import Tensor

__all__ = ["written"]


def written(input: Any, found: Any, inplace: bool) -> Any:
    """Returns a result; ``inplace`` the tensor that it was computed from, once it holds that.

    An array cannot be written to: its result is an array of its own.
    """
    if inplace and isinstance(input, Tensor) and found is not input:
        return input._change(lambda: found, "inplace=True")
    return found
