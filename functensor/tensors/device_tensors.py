"""Tensors by their device: types that make tensors there, and that ``isinstance`` knows."""

from __future__ import annotations

from typing import Any

from ..backends.annotations import DTypeLike
from ..primitives.core.annotations import ArrayLike
from .tensor import Tensor, tensor

__all__ = ["CpuTensor", "CudaTensor"]


class OnDevice(type):
    """The type of such types: an instance is any tensor on the device.

    Attributes:
        kind: the name of the device without a number.
    """

    kind: str

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.device.partition(":")[0] == cls.kind

    def __subclasscheck__(cls, other: type) -> bool:
        return cls in type.mro(other)


class CpuTensor(Tensor, metaclass=OnDevice):
    """A `Tensor` on the CPU; called, it makes one. Arguments are those of `Tensor`.

    >>> import functensor as ft
    >>> x = ft.CpuTensor([1.0])
    >>> x.device, isinstance(x, ft.CpuTensor), isinstance(x, ft.CudaTensor)
    ('cpu', True, False)
    """

    __slots__ = ()

    kind = "cpu"

    def __new__(
        cls, data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
    ) -> Any:
        return tensor(data, dtype, cls.kind, requires_grad)


class CudaTensor(Tensor, metaclass=OnDevice):
    """A `Tensor` on an NVIDIA GPU; called, it makes one on the current GPU.

    Arguments are those of `Tensor`.

    Raises:
        BackendUnavailable: CuPy is not installed; the message has the command that brings it.
    """

    __slots__ = ()

    kind = "cuda"

    def __new__(
        cls, data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
    ) -> Any:
        return tensor(data, dtype, cls.kind, requires_grad)
