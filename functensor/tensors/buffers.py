"""The buffers of tensors: made of what users give, and moved between devices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.devices import device_of, on_device, placement
from ..backends.dtypes import named
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import OperandError, failure
from ..primitives.core.numpy_protocols import conversion_error
from ..primitives.core.shape_dtype import is_number_dtype, result_type
from .default_dtypes import TENSOR_DTYPES

if TYPE_CHECKING:
    from ..backends.annotations import Buffer, DTypeLike
    from ..primitives.core.annotations import ArrayLike

__all__ = ["check_holds", "check_is_bool", "is_dtype", "tensor_buffer"]

# The dtypes of Python's numbers; those of letters are kinds, whose dtype may be set.
PYTHON_DTYPES: dict[type, Any] = {bool: np.bool_, int: np.int64, float: "f", complex: "c"}


def tensor_buffer(data: ArrayLike, dtype: DTypeLike | None) -> Buffer:
    """Returns a buffer that nobody else will write to.

    Args:
        data: an array, a tensor, or numbers in nested lists, which go to the default device.
        dtype: the dtype that it is to have; None keeps that of arrays.

    Raises:
        OperandError: the data are no numbers.
    """
    if isinstance(data, Tracer) and not data.owner.standing:
        raise conversion_error(data, "Tensor(...)")
    if isinstance(data, Array):
        buffer = data._data
        # An array that was donated says so when it is asked.
        dtype = data.dtype if dtype is None else dtype
    else:
        buffer = to_buffer(data)
        if device_of(buffer) == "cpu":
            buffer = np.array(buffer)
            if not is_number_dtype(buffer.dtype):
                raise OperandError(f"tensors hold numbers, not dtype {buffer.dtype}: {data!r:.60}")
        if dtype is not None and device_of(buffer) == "cpu" and _is_plain(data):
            check_holds(buffer, dtype)
        elif dtype is None and isinstance(data, list | tuple):
            dtype = _dtype_of_items(data)
        elif dtype is None and _is_plain(data):
            dtype = TENSOR_DTYPES.get(buffer.dtype.kind)
        if placement.device != "cpu":
            buffer = on_device(buffer, placement.device)
    return buffer if dtype is None else buffer.astype(dtype, copy=False)


def check_holds(values: Any, dtype: DTypeLike) -> None:
    """Raises a ``RuntimeError`` where a dtype of integers is too small for numbers.

    Negative numbers may come round to the largest of unsigned ones, as in PyTorch.
    """
    wanted = np.dtype(dtype)
    if wanted.kind not in "iu" or values.dtype.kind not in "iuf" or not values.size:
        return
    limits = np.iinfo(wanted)
    low = int(limits.min) or -int(limits.max)
    least, most = values.min(), values.max()
    if not (low <= least and most <= limits.max):
        raise RuntimeError(f"numbers from {least} to {most}, which {wanted} does not hold")


def _dtype_of_items(data: list[Any] | tuple[Any, ...]) -> np.dtype[Any] | None:
    """Returns the dtype of a tensor of nested lists; None for that of the array that they make.

    Python's floats are of the default dtype, and integers do not widen floats.
    """
    found = set(_dtypes_in(data))
    if not found:
        return TENSOR_DTYPES["f"]
    if found <= {bool, int}:
        return None
    dtypes = {PYTHON_DTYPES.get(each, each) for each in found}
    dtypes = {TENSOR_DTYPES[each] if type(each) is str else np.dtype(each) for each in dtypes}
    inexact = {each for each in dtypes if each.kind not in "biu"}
    whole: np.dtype[Any] = reduce(result_type, inexact or dtypes)
    return whole


def _dtypes_in(items: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    """Yields dtypes of arrays in nested lists, and the classes of Python's numbers there."""
    types = set(map(type, items))
    if types <= PYTHON_DTYPES.keys():
        yield from types
        return
    for item in items:
        if isinstance(item, list | tuple):
            yield from _dtypes_in(item)
        else:
            yield getattr(item, "dtype", type(item) if type(item) in PYTHON_DTYPES else float)


def _is_plain(data: Any) -> bool:
    """Says whether data is made of Python's own numbers, which have no dtype yet."""
    while isinstance(data, list | tuple):
        if not data:
            return True
        data = data[0]
    return type(data) in (float, int, bool, complex)


def is_dtype(name: str) -> bool:
    """Says whether a name is a dtype's.

    >>> is_dtype("float32"), is_dtype("cuda")
    (True, False)
    """
    try:
        named(name)
    except TypeError:
        return False
    return True


def check_is_bool(data: Any, requires_grad: Any) -> None:
    """Checks that a constructor was not given a shape, as PyTorch's takes one.

    Raises:
        TypeError: ``requires_grad`` is something else than True or False.
    """
    if type(requires_grad) is not bool and not isinstance(requires_grad, np.bool_):
        from ..backends.errors.words import shown  # which only messages need

        raise failure(
            TypeError,
            f"Tensor({shown(data)}, {shown(requires_grad)}): the second argument is "
            "requires_grad, True or False, and the first is the data",
            fix="ft.tensor(np.zeros((2, 3))) is a tensor of a shape, ft.Tensor([2, 3]) one of "
            "two numbers",
        )
