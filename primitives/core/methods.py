"""The methods of arrays that are functions of the same name, and those that NumPy's have in place.

Where NumPy's function takes more than is named here (``where``, ``initial``, ``keepdims``), its
method does too: ``options`` are passed on to the function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.devices import resolved
from ...backends.errors.public_functions import wrap_methods
from .errors import ImmutableArrayError, message
from .registry import registry as ops
from .shape_dtype import INEXACT, number_dtype

__all__ = ["Methods"]


class Methods:
    """The methods that arrays share with NumPy's; they are differentiated as the functions are."""

    __slots__ = ()

    # -- dtype, device and shape

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True
    ) -> Any:
        """Returns the array with its elements cast to a dtype.

        Args:
            dtype: the dtype.
            order, copy: without a meaning for immutable arrays; there for code written for NumPy.
            casting: which casts are allowed, as for ``numpy.can_cast``.

        Raises:
            TypeError: ``casting`` does not allow it.
        """
        known: Any = self
        if casting != "unsafe" and not np.can_cast(known.dtype, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(f"astype: casting={casting!r} forbids {known.dtype} to {dtype}")
        return ops.astype(self, dtype)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Returns the array on a device: itself, where it is there.

        Args:
            device: the device's name, ``"cpu"`` or ``"cuda:0"``.
            stream: None; copies are queued on CuPy's current stream.

        Raises:
            BackendUnavailable: the device's backend is not installed.
            DeviceError: there is no such device.
        """
        known: Any = self
        return self if device == known.device else ops.to_device(self, device)

    def block_until_ready(self) -> Any:
        """Returns the array once it is computed: waits for the work on its device."""
        known: Any = self
        resolved(known.device)[0].synchronize()
        return self

    def copy(self, order: str = "C") -> Any:
        """Returns an array with memory of its own."""
        return ops.copy(self)

    def view(self, dtype: Any = None) -> Any:
        """Returns the array, or its bytes as elements of another dtype.

        Raises:
            MissingRuleError: a derivative is asked for, which bytes of numbers have not.
            ShapeError: the last axis holds no whole number of elements of the dtype.
            TracerConversionError: for the same reason, where the value is known.
        """
        known: Any = self
        if dtype is None or known.dtype == number_dtype(dtype):
            return self
        _without_derivative(known)
        return ops["bytes_as"].bind((self,), {"dtype": number_dtype(dtype)})

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Returns the elements in another shape; one length may be -1."""
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape, **options)

    def transpose(self, *axes: Any) -> Any:
        """Returns the array with its axes permuted, reversed by default."""
        if not axes or axes == (None,):
            return ops.transpose(self)
        return ops.transpose(self, axes[0] if len(axes) == 1 else axes)

    def squeeze(self, axis: Any = None) -> Any:
        """Returns the array without axes of length 1."""
        return ops.squeeze(self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Returns the array with two axes swapped."""
        return ops.swapaxes(self, axis1, axis2)

    def ravel(self, order: str = "C") -> Any:
        """Returns the elements along one axis."""
        return ops.ravel(self, order)

    def flatten(self, order: str = "C") -> Any:
        """Returns the elements along one axis."""
        return ops.ravel(self, order)

    @property
    def flat(self) -> Any:
        """The elements along one axis, to go over or to index."""
        return ops.reshape(self, -1)

    # -- over axes

    def sum(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the sum over axes."""
        return ops.sum(self, axis, dtype, **options)

    def prod(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the product over axes."""
        return ops.prod(self, axis, dtype, **options)

    def mean(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the mean over axes."""
        return ops.mean(self, axis, dtype, **options)

    def var(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the variance over axes; ``ddof`` is subtracted from the number of elements."""
        return ops.var(self, axis, dtype, **options)

    def std(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the standard deviation over axes."""
        return ops.std(self, axis, dtype, **options)

    def max(self, axis: Any = None, **options: Any) -> Any:
        """Returns the maximum over axes."""
        return ops.max(self, axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Any:
        """Returns the minimum over axes."""
        return ops.min(self, axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Any:
        """Returns whether any element is true."""
        return ops.any(self, axis, **options)

    def all(self, axis: Any = None, **options: Any) -> Any:
        """Returns whether all elements are true."""
        return ops.all(self, axis, **options)

    def argmax(self, axis: Any = None, **options: Any) -> Any:
        """Returns the index of the first maximum."""
        return ops.argmax(self, axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:
        """Returns the index of the first minimum."""
        return ops.argmin(self, axis, **options)

    def cumsum(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the cumulative sum."""
        return ops.cumsum(self, axis, dtype, **options)

    def cumprod(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """Returns the cumulative product."""
        return ops.cumprod(self, axis, dtype, **options)

    def argsort(self, axis: Any = -1, **options: Any) -> Any:
        """Returns the indices that sort along an axis."""
        return ops.argsort(self, axis, **options)

    def argpartition(self, kth: Any, axis: Any = -1, **options: Any) -> Any:
        """Returns the indices that partition along an axis."""
        return ops.argpartition(self, kth, axis, **options)

    # -- elements

    def clip(self, min: Any = None, max: Any = None, **options: Any) -> Any:
        """Returns the elements limited to an interval."""
        return ops.clip(self, min, max, **options)

    def conj(self) -> Any:
        """Returns the complex conjugate."""
        return ops.conj(self)

    conjugate = conj

    def round(self, decimals: int = 0, **options: Any) -> Any:
        """Returns the elements rounded to decimals."""
        return ops.round(self, decimals, **options)

    def dot(self, other: Any) -> Any:
        """Returns the dot product."""
        return ops.dot(self, other)

    def take(self, indices: Any, axis: int | None = None, **options: Any) -> Any:
        """Returns elements along an axis."""
        return ops.take(self, indices, axis, **options)

    def choose(self, choices: Any, **options: Any) -> Any:
        """Returns elements of the choices that the array's integers number."""
        return ops.choose(self, choices, **options)

    def compress(self, condition: Any, axis: int | None = None, **options: Any) -> Any:
        """Returns the slices along an axis where a condition is true."""
        return ops.compress(condition, self, axis, **options)

    def repeat(self, repeats: Any, axis: int | None = None, **options: Any) -> Any:
        """Returns every element repeated, in its place."""
        return ops.repeat(self, repeats, axis, **options)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """Returns a diagonal of the matrices on two axes."""
        return ops.diagonal(self, offset, axis1, axis2)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, **options: Any
    ) -> Any:
        """Returns the sum of a diagonal."""
        return ops.trace(self, offset, axis1, axis2, dtype, **options)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """Returns where values would be inserted into the sorted array."""
        return ops.searchsorted(self, v, side, sorter)

    def nonzero(self, **options: Any) -> Any:
        """Returns for every axis the indices of the elements that are not zero."""
        return ops.nonzero(self, **options)

    # -- what NumPy's arrays do in place

    def fill(self, value: Any) -> None:
        """Refuses to set all elements: arrays are immutable."""
        raise _in_place(self, "fill(value)", "x = np.full_like(x, value)")

    def sort(self, *args: Any, **options: Any) -> None:
        """Refuses to sort in place: arrays are immutable."""
        raise _in_place(self, "sort()", "x = np.sort(x)")

    def partition(self, *args: Any, **options: Any) -> None:
        """Refuses to partition in place: arrays are immutable."""
        raise _in_place(self, "partition(kth)", "x = np.partition(x, kth)")

    def put(self, *args: Any, **options: Any) -> None:
        """Refuses to set elements: arrays are immutable."""
        fix = "x = x.at[i].set(values), x.ravel() for flat indices"
        raise _in_place(self, "put(i, values)", fix)

    def itemset(self, *args: Any) -> None:
        """Refuses to set an element: arrays are immutable."""
        raise _in_place(self, "itemset(i, value)", "x = x.at[i].set(value)")

    def resize(self, *shape: Any, **options: Any) -> None:
        """Refuses to change the number of elements: arrays are immutable."""
        raise _in_place(self, "resize(shape)", "x = np.resize(x, shape)")

    def setfield(self, *args: Any, **options: Any) -> None:
        """Refuses to set parts of the elements: arrays are immutable."""
        raise _in_place(self, "setfield(value, dtype)", "x = x.view(dtype).at[i].set(value)")

    def setflags(self, *args: Any, **options: Any) -> None:
        """Refuses to make the memory writeable: arrays are immutable."""
        fix = "y = numpy.array(x), a NumPy array with memory of its own"
        raise _in_place(self, "setflags()", fix)

    def byteswap(self, inplace: bool = False) -> Any:
        """Returns the elements with their bytes in the other order."""
        if inplace:
            raise _in_place(self, "byteswap(inplace=True)", "x = x.byteswap()")
        _without_derivative(self)
        return ops.bytes_swapped(self)

    def tobytes(self, order: str = "C") -> bytes:
        """Returns the elements' memory as bytes."""
        known: Any = self
        memory: bytes = known.__array__().tobytes(order)
        return memory


def _without_derivative(x: Any) -> None:
    """Refuses a traced value that has a derivative, and whose bytes are asked for."""
    if not hasattr(x, "_data") and x.concrete and x.dtype.kind in INEXACT:
        x.__array__()


# What tensors, which are not immutable, have in place of NumPy's methods.
WRITES = {
    "fill(value)": "x[...] = value",
    "put(i, values)": "x[i] = values",
    "itemset(i, value)": "x[i] = value",
}


def _in_place(x: Any, call: str, fix: str) -> ImmutableArrayError:
    if getattr(x, "mutable", False):
        what = f"x.{call} is not among the methods of tensors that change them"
        return ImmutableArrayError(message(what, fix=WRITES.get(call, fix), number=None))
    return ImmutableArrayError(
        message(f"x.{call} would change x, but arrays are immutable", fix=fix, number=3)
    )


wrap_methods(Methods, "Array")
