"""Large arrays made of numbers alone, which every run of a program makes anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.devices import resolved
from ..primitives.core.shape_dtype import ShapeDtype
from .call import CustomCall

__all__ = ["created"]


def created(
    name: str, make: Callable[[], Any], known: ShapeDtype, device: str | None = None
) -> Any:
    """Returns an array that a program makes when it runs.

    Args:
        name: what programs call it.
        make, known: makes the array; its type.
        device: where it is; None for the default device.
    """
    call = CustomCall(name, lambda values: [make()])
    call.infer = lambda *types: [known]
    call.device = resolved(device)[1]
    (out,) = call.bind([])
    return out
