"""PyTorch's methods that tell of a tensor's memory: its dtype, order and place."""

from __future__ import annotations

from math import prod
from typing import Any, Self

from ..backends.dtypes import named
from ..primitives.core.errors import failure
from .functions.naming import copied
from .places import lies_in_order, repeats, steps_in_memory
from .torch_functions import TorchFunctions

__all__ = ["TorchMemory"]

# The names of PyTorch's classes of tensors, by their dtypes.
CLASS_OF_DTYPE = {
    "bfloat16": "BFloat16Tensor", "bool": "BoolTensor", "complex64": "ComplexFloatTensor",
    "complex128": "ComplexDoubleTensor", "float16": "HalfTensor", "float32": "FloatTensor",
    "float64": "DoubleTensor", "int8": "CharTensor", "int16": "ShortTensor", "int32": "IntTensor",
    "int64": "LongTensor", "uint8": "ByteTensor",
}  # fmt: skip
DTYPE_OF_CLASS = {name: dtype for dtype, name in CLASS_OF_DTYPE.items()}


class TorchMemory(TorchFunctions):
    """The methods of `Tensor` that tell of its memory."""

    __slots__ = ()
    # The level on which the tensor is traced, None outside of transformations.
    home: Any

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Returns the name of PyTorch's class of such tensors; with a dtype the tensor in that.

        Args:
            dtype: a dtype, or the name of a class, as ``"torch.FloatTensor"``.
            non_blocking: of no effect.

        Raises:
            TypeError: there is no such dtype or class.

        >>> import functensor as ft
        >>> x = ft.Tensor([1.5])
        >>> x.type(), x.type("torch.LongTensor")
        ('torch.FloatTensor', Tensor([1], dtype=int64))
        """
        if dtype is None:
            place = "" if self.is_cpu else "cuda."
            return f"torch.{place}{CLASS_OF_DTYPE.get(self.dtype.name, self.dtype.name)}"
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        return self.to(named(DTYPE_OF_CLASS.get(name.rpartition(".")[2], dtype)))

    def stride(self, dim: int | None = None) -> Any:
        """Returns how many elements lie in memory from each to the next along every axis, or one.

        Raises:
            NotImplementedError: of a view within a transformation whose memory is not known.

        >>> import functensor as ft
        >>> ft.Tensor([[1.0, 2.0, 3.0]]).t().stride()
        (1, 3)
        """
        steps = self._strides()
        return steps if dim is None else steps[dim]

    def _strides(self) -> tuple[int, ...]:
        if repeats(self) and (steps := steps_in_memory(self)) is not None:
            return steps
        if self.home is None:
            return tuple([step // self.dtype.itemsize for step in self._data.strides])
        if not lies_in_order(self):
            raise failure(
                NotImplementedError,
                f"stride() of {self.describe()}: a transformation does not know how it will lie "
                "in memory",
                fix="x.contiguous().stride()",
            )
        return tuple([prod(self.shape[i + 1 :]) for i in range(self.ndim)])

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Says whether the elements lie in memory in their order, without gaps."""
        if self.home is not None or repeats(self):
            return lies_in_order(self)
        return bool(self._data.flags.c_contiguous)

    def contiguous(self, memory_format: Any = None) -> Self:
        """Returns a copy whose elements lie in order; the tensor itself where they do so.

        ``memory_format`` has no effect: images lie channel by channel.
        """
        if self.is_contiguous():
            return self
        out: Self = copied(self)
        if self.home is None:
            out._data = out._data.copy("C")
        return out
