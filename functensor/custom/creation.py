"""Large arrays made of numbers alone, which every run of a program makes anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..backends.devices import resolved
from ..primitives.core.shape_dtype import ShapeDtype
from .call import CustomCall

if TYPE_CHECKING:
    pass

__all__ = ["created"]


class Creation(CustomCall):
    """A call that makes an array of no operands.

    Args:
        name: the function's name.
        make: makes the array.
        known: what comes out.
        device: where.
    """

    def __init__(self, name: str, make: Callable[[], Any], known: ShapeDtype, device: str) -> None:
        super().__init__(name, lambda values: [make()])
        self.known = known
        self.device = device

    def infer(self, *types: ShapeDtype) -> list[ShapeDtype]:
        """Returns the output's type."""
        return [self.known]


def created(
    name: str, make: Callable[[], Any], known: ShapeDtype, device: str | None = None
) -> Any:
    """Returns an array that a program makes when it runs.

    Args:
        name: what programs call it.
        make: makes the array.
        known: its type.
        device: where it is; None for the default device.
    """
    (out,) = Creation(name, make, known, resolved(device)[1]).bind([])
    return out
