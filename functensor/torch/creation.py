"""Functions of PyTorch that make tensors of numbers, shapes and other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.devices import placement
from ..backends.dtypes import named as dtype_named
from ..primitives.core.array import Array, Tracer
from ..tensors import Tensor, tensor_over
from ..tensors.buffers import check_holds
from ..tensors.default_dtypes import TENSOR_DTYPES

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_numpy", "full",
    "full_like", "is_tensor", "linspace", "logspace", "ones", "ones_like", "scalar_tensor",
    "tril_indices", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


def made(values: Any, dtype: Any, device: Any, requires_grad: bool, default: Any = None) -> Tensor:
    """Returns a tensor of values; without a dtype of the default one."""
    wanted = default if dtype is None else dtype_named(dtype)
    where = None if device is None else str(device)
    return Tensor(np.asarray(values), requires_grad, wanted, where)


def sizes_of(size: Sequence[Any]) -> tuple[int, ...]:
    """Returns a shape that was given as one sequence or as several integers."""
    one = len(size) == 1 and isinstance(size[0], Sequence)
    return tuple([int(n) for n in (size[0] if one else size)])


def constant_maker(name: str, value: float, doc: str) -> Any:
    """Returns `zeros` or `ones`."""

    def function(
        *sizes: Any, size: Any = None, dtype: DTypeLike | None = None, layout: Any = None,
        device: str | None = None, requires_grad: bool = False, pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        shape = sizes_of(sizes if size is None else (size,))
        values = np.full(shape, value, TENSOR_DTYPES["f"])
        return made(values, dtype, device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + (
        "\n\nArgs:\n    sizes: its shape, as one sequence or several integers.\n"
        "    size: the shape, in place of these.\n"
        "    dtype: float32 by default.\n    device: the default device by default.\n"
        "    requires_grad: whether ``backward`` adds to ``grad``.\n"
        "    layout, pin_memory, memory_format: no effect.\n"
    )
    return function


zeros = constant_maker("zeros", 0, "Returns a tensor of zeros.")
ones = constant_maker("ones", 1, "Returns a tensor of ones.")
empty = constant_maker(
    "empty", 0, "Returns a tensor whose values mean nothing; here they are zeros."
)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns a tensor of one number.

    >>> import functensor.torch as torch
    >>> torch.full((2,), 3)
    Tensor([3, 3], dtype=int64)
    """
    number = fill_value.item() if isinstance(fill_value, Array) else fill_value
    kind = "f" if isinstance(number, float) else "c" if isinstance(number, complex) else ""
    default = TENSOR_DTYPES.get(kind)
    if dtype is not None:
        check_holds(np.asarray(number), dtype_named(dtype))
    return made(np.full(tuple(size), number), dtype, device, requires_grad, default)


def constant_like(name: str, value: float, doc: str) -> Any:
    """Returns `zeros_like` or `ones_like`."""

    def function(
        input: Array, *, dtype: DTypeLike | None = None, layout: Any = None,
        device: str | None = None, requires_grad: bool = False, pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        return full_like(input, value, dtype=dtype, device=device, requires_grad=requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}, of the shape, dtype and device of another, unless they are given."
    return function


def full_like(
    input: Array,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Returns a tensor of one number, of the shape, dtype and device of another."""
    wanted = input.dtype if dtype is None else dtype_named(dtype)
    if not isinstance(fill_value, Array):
        check_holds(np.asarray(fill_value), wanted)
    values = np.full(input.shape, fill_value, wanted)
    return made(values, None, input.device if device is None else device, requires_grad)


zeros_like = constant_like("zeros_like", 0, "Returns a tensor of zeros")
ones_like = constant_like("ones_like", 1, "Returns a tensor of ones")
empty_like = constant_like("empty_like", 0, "Returns a tensor whose values mean nothing")


def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns the numbers from ``start`` to before ``end``; of one number, from 0.

    >>> import functensor.torch as torch
    >>> torch.arange(1, 7, 2)
    Tensor([1, 3, 5], dtype=int64)
    """
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"arange: no steps of {step} lead from {start} to {end}")
    given = (start, end, step)
    values = np.arange(*[x.item() if getattr(x, "dtype", 0) == "bfloat16" else x for x in given])
    default = TENSOR_DTYPES["f"] if values.dtype.kind == "f" else None
    return made(values, dtype, device, requires_grad, default)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns numbers at equal distances, both ends among them."""
    return made(np.linspace(start, end, steps), dtype, device, requires_grad, TENSOR_DTYPES["f"])


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns powers of a base whose exponents stand at equal distances."""
    values = np.logspace(start, end, steps, base=base)
    return made(values, dtype, device, requires_grad, TENSOR_DTYPES["f"])


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns a matrix with ones on its diagonal."""
    return made(np.eye(n, m), dtype, device, requires_grad, TENSOR_DTYPES["f"])


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Returns data as a tensor: one that fits as it is, one in the memory of an array that fits."""
    wanted = None if dtype is None else dtype_named(dtype)
    where = None if device is None else str(device)
    if isinstance(data, Tensor):
        return data.to(dtype=wanted, device=where)
    fits = isinstance(data, np.ndarray) and (wanted is None or wanted == data.dtype)
    if fits and (placement.device if where is None else where) == "cpu":
        return tensor_over(data)
    return Tensor(data, False, wanted, where)


def asarray(
    obj: Any, *, dtype: DTypeLike | None = None, device: str | None = None,
    copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """Returns data as a tensor; see `as_tensor`.

    Args:
        obj: a tensor, an array, or numbers in nested lists.
        dtype, device: what the tensor is to have.
        copy: True for memory of its own.
        requires_grad: whether ``backward`` adds to its ``grad``.
    """
    out = as_tensor(obj, dtype, device)
    if copy:
        out = out.clone()
    return out.requires_grad_() if requires_grad else out


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """Returns a tensor in the memory of an array: a write to one is seen by both.

    An array that is read-only is copied; so is every array, to the default device, where that is a
    GPU.

    Raises:
        TypeError: it is no array of NumPy.

    >>> import numpy
    >>> import functensor.torch as torch
    >>> a = numpy.zeros(2)
    >>> x = torch.from_numpy(a)
    >>> a[0] = 5
    >>> x
    Tensor([5., 0.], dtype=float64)
    """
    given: Any = ndarray
    if isinstance(given, Tracer) and not isinstance(given, Tensor):
        # It stands for an array whose memory is not known, and says so.
        given = np.asarray(given)
    if not isinstance(given, np.ndarray):
        raise TypeError(
            f"from_numpy: an array of NumPy is wanted, not {type(given).__name__}; "
            "torch.tensor(data) takes lists and numbers"
        )
    return tensor_over(given) if placement.device == "cpu" else Tensor(given)


def scalar_tensor(
    s: Any, *, dtype: DTypeLike | None = None, device: str | None = None,
    requires_grad: bool = False
) -> Tensor:
    """Returns a tensor of one number."""
    return made(s, dtype, device, requires_grad, TENSOR_DTYPES["f"])


def is_tensor(obj: Any) -> bool:
    """Says whether something is a tensor."""
    return isinstance(obj, Tensor)


def tri_places(places: Any, dtype: Any, device: Any) -> Tensor:
    """Returns rows and columns of places as a matrix of two rows."""
    return made(np.stack(places), dtype, device, False, np.dtype(np.int64))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike | None = None,
    device: str | None = None
) -> Tensor:
    """Returns the rows and columns of a matrix's places on and below a diagonal."""
    return tri_places(np.tril_indices(row, offset, col), dtype, device)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike | None = None,
    device: str | None = None
) -> Tensor:
    """Returns the rows and columns of a matrix's places on and above a diagonal."""
    return tri_places(np.triu_indices(row, offset, col), dtype, device)
