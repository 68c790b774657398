"""Complex numbers as pairs of real ones, and pairs as complex numbers: views of the same tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.core.errors import failure
from ..primitives.core.registry import registry as ops
from .functions.naming import as_tensor_result
from .functions.pointwise import complex as complex_of
from .recast import recast
from .tape import TAPE
from .views import Recast

__all__ = ["view_as_complex", "view_as_real"]


class Pairs(Recast):
    """Takes complex numbers as pairs on a last axis."""

    __slots__ = ()

    def __call__(self, x: Any) -> Any:
        out = ops.stack([ops.real(x), ops.imag(x)], -1)
        if isinstance(x, TAPE.tracer) and x.home is None:
            # The pairs lie as the numbers do, by which views of them are told.
            out._data = self.of_array(np.asarray(x._data) if not x.ndim else x._data)
        return out

    def put(self, x: Any, value: Any) -> Any:
        return complex_of(value[..., 0], value[..., 1])

    def of_array(self, x: Any) -> Any:
        return x[..., None].view(x.real.dtype)


class Joined(Recast):
    """Takes pairs on a last axis as complex numbers."""

    __slots__ = ()

    def __call__(self, x: Any) -> Any:
        return complex_of(x[..., 0], x[..., 1])

    def put(self, x: Any, value: Any) -> Any:
        return ops.stack([ops.real(value), ops.imag(value)], -1)

    def of_array(self, x: Any) -> Any:
        return x.view(np.result_type(x.dtype, np.complex64))[..., 0]


AS_PAIRS, AS_NUMBERS = Pairs(), Joined()


def view_as_real(input: Any) -> Any:
    """Returns real and imaginary parts on a last axis of length two; a view.

    Raises:
        RuntimeError: the tensor is not complex.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([1 + 2j])
    >>> torch.view_as_real(x)[0, 1] = 5.0
    >>> x.tolist()
    [(1+5j)]
    """
    if input.dtype.kind != "c":
        raise failure(
            RuntimeError,
            f"view_as_real: {input.describe()} is not complex",
            fix="torch.complex(x, torch.zeros_like(x)) makes complex numbers",
            number=None,
        )
    return recast(as_tensor_result(input), AS_PAIRS)


def view_as_complex(input: Any) -> Any:
    """Returns complex numbers of pairs on a last axis; a view.

    Raises:
        RuntimeError: the last axis has not two elements, or they are not real floats.

    >>> import functensor.torch as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """
    if input.dtype.kind != "f" or input.shape[-1:] != (2,):
        raise failure(
            RuntimeError,
            f"view_as_complex: {input.describe()} has no pairs of floats on its last axis",
            fix="torch.stack([real, imag], -1) makes pairs",
            number=None,
        )
    return recast(as_tensor_result(input), AS_NUMBERS)
