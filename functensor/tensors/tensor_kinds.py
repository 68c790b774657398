"""Names of kinds of tensors, which make them and which ``isinstance`` knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.annotations import DTypeLike
from ..backends.errors.public_functions import entry
from ..backends.errors.tracebacks import tidy
from ..primitives.core.annotations import ArrayLike
from .tensor import Tensor, tensor

__all__ = ["CpuTensor", "CudaTensor", "TensorKind", "every_tensor"]


class TensorKind(type):
    """The type of a name for some tensors: they are instances by what they are, not by their class.

    Attributes:
        _made: returns a tensor of that kind, a `Tensor`.
        _includes: says whether a tensor is of that kind.
    """

    _made: Callable[..., Tensor]
    _includes: Callable[[Tensor], bool]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        # A class of the user's, derived from a kind, is a class as all others.
        if "_made" not in vars(cls):
            return super().__call__(*args, **options)
        try:
            return cls._made(*args, **options)
        except Exception as error:
            tidy(error)
            raise

    def __subclasscheck__(cls, subclass: type) -> bool:
        every = "_includes" in vars(cls) and cls._includes is every_tensor
        return issubclass(subclass, Tensor) if every else super().__subclasscheck__(subclass)

    @property
    def __signature__(cls) -> Any:
        if "_made" not in vars(cls):
            raise AttributeError("__signature__")
        from inspect import signature  # which only help needs

        return signature(cls._made)

    def __instancecheck__(cls, instance: Any) -> bool:
        if "_made" not in vars(cls):
            return super().__instancecheck__(instance)
        return isinstance(instance, Tensor) and cls._includes(instance)


def every_tensor(x: Tensor) -> bool:
    """Includes all tensors in a kind."""
    return True


def _on_cpu(
    data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    return tensor(data, dtype, "cpu", requires_grad)


def _on_gpu(
    data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    return tensor(data, dtype, "cuda", requires_grad)


class CpuTensor(Tensor, metaclass=TensorKind):
    """A `Tensor` on the CPU; arguments as for `Tensor`, without the device.

    >>> import functensor as ft
    >>> x = ft.CpuTensor([1.0])
    >>> x.device, isinstance(x, ft.CpuTensor), isinstance(x, ft.CudaTensor)
    ('cpu', True, False)
    """

    __slots__ = ()

    _made = staticmethod(entry(_on_cpu, "functensor.CpuTensor"))
    _includes = staticmethod(lambda x: x.device.type == "cpu")


class CudaTensor(Tensor, metaclass=TensorKind):
    """A `Tensor` on the current NVIDIA GPU; arguments as for `Tensor`, without the device.

    Raises:
        BackendUnavailable: CuPy is not installed; the message has the command that brings it.
    """

    __slots__ = ()

    _made = staticmethod(entry(_on_gpu, "functensor.CudaTensor"))
    _includes = staticmethod(lambda x: x.device.type == "cuda")
