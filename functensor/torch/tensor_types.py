"""PyTorch's classes of tensors by dtype, and the shapes of tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.dtypes import named
from ..backends.errors.public_functions import entry
from ..primitives.core.errors import failure
from ..tensors import Tensor as AnyTensor
from ..tensors.default_dtypes import TENSOR_DTYPES
from ..tensors.tensor_kinds import TensorKind, every_tensor
from .creation import empty

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "Size", "Tensor",
]  # fmt: skip


class Size(tuple[int, ...]):
    """A shape that knows its number of elements. The shapes of tensors are plain tuples.

    >>> import functensor.torch as torch
    >>> size = torch.Size([2, 3])
    >>> size, size.numel(), torch.zeros(size).shape == size
    (torch.Size([2, 3]), 6, True)
    """

    __slots__ = ()

    def numel(self) -> builtins.int:
        """Returns the number of elements of a tensor of this shape."""
        return prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


def maker_of_kind(name: str, dtype: str | None) -> Callable[..., AnyTensor]:
    """Returns the constructor of tensors of a dtype, by default that of Python's floats."""

    def made(*data: Any, device: str | None = None) -> AnyTensor:
        wanted = TENSOR_DTYPES["f"] if dtype is None else named(dtype)
        place = None if device is None else str(device)
        if all(isinstance(size, builtins.int | np.integer) for size in data):
            zeros: AnyTensor = empty(data or (0,), dtype=wanted, device=place)
            return zeros
        if len(data) > 1 or isinstance(data[0], builtins.float | builtins.complex | str):
            raise failure(
                TypeError,
                f"{name} takes one sequence of numbers, or the lengths of axes",
                fix=f"torch.{name}([1, 2])",
            )
        given = data[0]
        here = isinstance(given, AnyTensor) and (place is None or given.device == place)
        if here and (dtype is None or given.dtype == wanted):
            # A view of all of it.
            return given[...]  # type: ignore[no-any-return]
        return AnyTensor(given, False, wanted, place)

    return entry(made, f"functensor.torch.{name}")  # type: ignore[no-any-return]


def kind_of_dtype(name: str, dtype: str) -> Any:
    """Returns the class of tensors of a dtype."""
    doc = (
        f"Tensors of {dtype}: made of numbers, or of the lengths of axes, and zeros then.\n\n"
        "Args:\n    data: a sequence of numbers, an array, or lengths of axes.\n"
        "    device: the default device by default."
    )
    members = {
        "__doc__": doc,
        "__slots__": (),
        "__module__": __name__,
        "_made": staticmethod(maker_of_kind(name, dtype)),
        "_includes": staticmethod(lambda x: x.dtype.name == dtype and x.device.type == "cpu"),
    }
    return TensorKind(name, (AnyTensor,), members)


if TYPE_CHECKING:
    Tensor = AnyTensor
else:

    class Tensor(AnyTensor, metaclass=TensorKind):
        """A tensor, which `functensor.Tensor` is too; made of numbers it is one of float32.

        Args:
            data: a sequence of numbers, an array, or the lengths of axes: elements are zeros then.
            device: the default device by default.

        >>> import functensor.torch as torch
        >>> torch.Tensor([1, 2]), torch.Tensor(2, 3).shape
        (Tensor([1., 2.], dtype=float32), (2, 3))
        >>> isinstance(torch.ones(2), torch.Tensor)
        True
        """

        __slots__ = ()

        _made = staticmethod(maker_of_kind("Tensor", None))
        _includes = staticmethod(every_tensor)


BFloat16Tensor = kind_of_dtype("BFloat16Tensor", "bfloat16")
BoolTensor = kind_of_dtype("BoolTensor", "bool")
ByteTensor = kind_of_dtype("ByteTensor", "uint8")
CharTensor = kind_of_dtype("CharTensor", "int8")
ShortTensor = kind_of_dtype("ShortTensor", "int16")
IntTensor = kind_of_dtype("IntTensor", "int32")
LongTensor = kind_of_dtype("LongTensor", "int64")
HalfTensor = kind_of_dtype("HalfTensor", "float16")
FloatTensor = kind_of_dtype("FloatTensor", "float32")
DoubleTensor = kind_of_dtype("DoubleTensor", "float64")
