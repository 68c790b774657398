"""Methods of tensors that PyTorch has beside its functions: kinds, casts, and parts put in."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np

from ..primitives.core.array_annotations import AnyOperand
from ..primitives.core.operators import binary_operator
from ..primitives.core.registry import registry as ops
from .absent_names import AbsentMethods
from .functions import kinds, placing, pointwise, short_time, solving
from .functions.looked_at import check_divisor
from .tape import LeafNode, receiver_of
from .torch_methods import TorchNames

__all__ = ["TorchKinds"]


def whole_operators(name: str) -> tuple[Any, Any]:
    """Returns an operator that divides no integers by zero, and its reflection."""
    plain, turned = binary_operator(name)

    def operator(self: Any, other: Any) -> Any:
        check_divisor(name, self, other)
        return plain(self, other)

    def reflected(self: Any, other: Any) -> Any:
        check_divisor(name, other, self)
        return turned(self, other)

    return operator, reflected


def number_of_one(name: str) -> Any:
    """Returns the conversion of a tensor of one element, whatever its axes, to a number."""
    plain = getattr(TorchNames, name)

    def convert(self: Any) -> Any:
        return plain(ops.reshape(self, ()) if self.ndim and self.size == 1 else self)

    return convert


class TorchKinds(AbsentMethods, TorchNames):
    """The methods of `Tensor` that tell what it is, and those that put a part into it."""

    __slots__ = ()

    node: Any

    # Integers divided by zero are an error, as in PyTorch, where the values are known.
    __floordiv__, __rfloordiv__ = whole_operators("floor_divide")
    __mod__, __rmod__ = whole_operators("remainder")

    def __pow__(self, other: AnyOperand) -> Self:
        # NumPy's squares of booleans are int8.
        if type(other) is int and (other < 0 or self.dtype.kind == "b"):
            return pointwise.pow(self, other)  # type: ignore[no-any-return]
        return super().__pow__(other)

    __int__ = number_of_one("__int__")
    __float__ = number_of_one("__float__")
    __complex__ = number_of_one("__complex__")
    __index__ = number_of_one("__index__")

    as_strided_scatter = placing.as_strided_scatter
    diagonal_scatter = placing.diagonal_scatter
    index_reduce = placing.index_reduce
    narrow_copy = placing.narrow_copy
    nonzero_static = placing.nonzero_static
    put = placing.put
    select_scatter = placing.select_scatter
    slice_scatter = placing.slice_scatter
    sum_to_size = placing.sum_to_size
    unsafe_chunk = placing.unsafe_chunk
    unsafe_split = placing.unsafe_split
    unsafe_split_with_sizes = placing.unsafe_split_with_sizes

    conj_physical = kinds.conj_physical
    get_device = kinds.get_device
    is_conj = kinds.is_conj
    is_inference = kinds.is_inference
    is_neg = kinds.is_neg
    is_same_size = kinds.is_same_size
    is_signed = kinds.is_signed
    resolve_conj = kinds.resolve_conj
    resolve_neg = kinds.resolve_neg

    def __pos__(self) -> Self:
        return self

    def is_nonzero(self) -> bool:
        """Says whether the only element is not zero."""
        return bool(self.item() != 0)

    def ndimension(self) -> int:
        """Returns the number of axes."""
        return self.ndim

    def element_size(self) -> int:
        """Returns the number of bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def layout(self) -> str:
        """The layout of memory: ``torch.strided``."""
        return "strided"

    @property
    def retains_grad(self) -> bool:
        """True of a result whose ``grad`` is kept, as `retain_grad` asks for."""
        if self.node is None or isinstance(self.node, LeafNode):
            return False
        receiver = receiver_of(self.node)
        return bool(receiver is not None and receiver.keeps)

    def pin_memory(self) -> Self:
        """Returns the tensor: there is no memory that only a GPU needs."""
        return self

    def to_dense(self) -> Self:
        """Returns the tensor, which is dense."""
        return self

    is_meta: Final = False
    is_mkldnn: Final = False
    is_mps: Final = False
    is_nested: Final = False
    is_quantized: Final = False
    is_sparse: Final = False
    is_sparse_csr: Final = False
    is_xla: Final = False
    is_xpu: Final = False

    @property
    def is_cpu(self) -> bool:
        """True if the tensor is on the CPU."""
        return not self.is_cuda

    @property
    def H(self) -> Self:
        """The conjugate transpose of a matrix; a view."""
        if self.ndim not in (0, 2):
            raise RuntimeError(f"H of a tensor of {self.ndim} axes; mH swaps the last two")
        return self.permute(*reversed(range(self.ndim))).conj()

    @property
    def mH(self) -> Self:
        """The conjugate transposes of matrices; a view."""
        return self.transpose(-1, -2).conj()  # type: ignore[no-any-return]

    # -- linear systems

    cholesky_inverse = solving.cholesky_inverse
    cholesky_solve = solving.cholesky_solve
    hardshrink = pointwise.hardshrink
    istft = short_time.istft
    lu = solving.lu
    lu_solve = solving.lu_solve
    matrix_exp = solving.matrix_exp
    prelu = pointwise.prelu
    stft = short_time.stft
    triangular_solve = solving.triangular_solve

    # -- casts

    def short(self) -> Self:
        """Returns the elements as int16; the tensor itself where they are."""
        return self.to(np.dtype(np.int16))

    def char(self) -> Self:
        """Returns the elements as int8; the tensor itself where they are."""
        return self.to(np.dtype(np.int8))

    def byte(self) -> Self:
        """Returns the elements as uint8; the tensor itself where they are."""
        return self.to(np.dtype(np.uint8))

    def cfloat(self) -> Self:
        """Returns the elements as complex64; the tensor itself where they are."""
        return self.to(np.dtype(np.complex64))

    def cdouble(self) -> Self:
        """Returns the elements as complex128; the tensor itself where they are."""
        return self.to(np.dtype(np.complex128))

    def bfloat16(self, memory_format: Any = None) -> Self:
        """Returns the elements as bfloat16; the tensor itself where they are."""
        return self.to("bfloat16")
