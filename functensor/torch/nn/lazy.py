"""Modules that learn the number of their inputs from the first input."""

from __future__ import annotations

from typing import Any

from ...primitives.core.array import Array
from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from .layers import Linear
from .module import Module
from .normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_state_hooks", "_with_kwargs",
)  # fmt: skip


def lazily(base: Any, axis: int) -> Any:
    """Returns the class like another whose first argument is a length of the first input.

    Args:
        base: the class.
        axis: the axis of that length; for images counted from the end, since batches may lack.
    """

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        object.__setattr__(self, "_waiting", (args, kwargs))

    def forward(self: Any, input: Array, *more: Any) -> Any:
        if self._waiting is not None:
            args, kwargs = self._waiting
            made = base(input.shape[axis], *args, **kwargs)
            kept = {name: self.__dict__[name] for name in (*HOOKS, "training")}
            self.__dict__.update({**made.__dict__, **kept, "_waiting": None})
            self.to(input.device)
        return base.forward(self, input, *more)

    def extra_repr(self: Any) -> str:
        if self._waiting is None:
            return str(base.extra_repr(self))
        args, kwargs = self._waiting
        return ", ".join(["?", *map(str, args), *[f"{k}={v}" for k, v in kwargs.items()]])

    name = f"Lazy{base.__name__}"
    doc = f"A `{base.__name__}` without its first argument, which the first input tells."
    forward.__doc__ = "Returns the result; the first call makes the parameters."
    extra_repr.__doc__ = "Returns the options."
    body = {
        "__doc__": f"{doc}\n\nThere are no parameters before the first call.",
        "__module__": __name__, "__init__": __init__, "forward": forward, "extra_repr": extra_repr,
    }  # fmt: skip
    return type(name, (base,), body)


LazyLinear = lazily(Linear, -1)
LazyConv1d, LazyConv2d, LazyConv3d = (
    lazily(base, -1 - n) for n, base in enumerate((Conv1d, Conv2d, Conv3d), 1)
)
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    lazily(base, -1 - n)
    for n, base in enumerate((ConvTranspose1d, ConvTranspose2d, ConvTranspose3d), 1)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    lazily(base, 1) for base in (BatchNorm1d, BatchNorm2d, BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    lazily(base, -1 - n)
    for n, base in enumerate((InstanceNorm1d, InstanceNorm2d, InstanceNorm3d), 1)
)
