"""The methods of arrays that are functions of the same name, and those that NumPy's have in place.

Where NumPy's function takes more than is named here (``where``, ``initial``, ``keepdims``), its
method does too: ``options`` are passed on to the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.annotations import Axis, DTypeLike, ShapeLike
from ...backends.devices import resolved
from ...backends.errors.public_functions import wrap_methods
from .errors import ImmutableArrayError, failure
from .registry import registry
from .shape_dtype import INEXACT, number_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Self, Unpack

    from .array_annotations import (
        AnyArray,
        AnyOperand,
        B,
        Casting,
        ReductionOptions,
        SelectionOptions,
        VarianceOptions,
    )
    from .array_annotations import array_functions as ops
else:
    from .registry import registry as ops

__all__ = ["Methods"]


# Assignments that tensors, which are not immutable, have in place of NumPy's methods.
WRITES = {
    "fill(value)": "x[...] = value",
    "put(i, values)": "x[i] = values",
    "itemset(i, value)": "x[i] = value",
}


def _in_place(x: Methods | AnyArray, call: str, fix: str) -> ImmutableArrayError:
    if getattr(x, "mutable", False):
        what = f"x.{call} is not among the methods of tensors that change them"
        return failure(ImmutableArrayError, what, fix=WRITES.get(call, fix), number=None)
    return failure(
        ImmutableArrayError, f"x.{call} would change x, but arrays are immutable", fix=fix
    )


def _refused(call: str, fix: str) -> Callable[..., None]:
    """Returns a method that NumPy's arrays have, and that would change the array."""

    def method(self: Methods, *args: Any, **options: Any) -> None:
        raise _in_place(self, call, fix)

    method.__name__ = call.partition("(")[0]
    method.__doc__ = f"Refuses ``x.{call}``: arrays are immutable."
    return method


class Methods:
    """The methods that arrays share with NumPy's; they are differentiated as the functions are."""

    __slots__ = ()

    # -- dtype, device and shape

    def astype(
        self: B, dtype: DTypeLike, order: str = "K", casting: Casting = "unsafe", copy: bool = True
    ) -> B:
        """Returns the array with its elements cast to a dtype.

        Args:
            dtype: the dtype.
            order, copy: without a meaning for immutable arrays; there for code written for NumPy.
            casting: which casts are allowed, as for ``numpy.can_cast``.

        Raises:
            TypeError: ``casting`` does not allow it.
        """
        if casting != "unsafe" and not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"astype: casting={casting!r} forbids {self.dtype} to {dtype}")
        return ops.astype(self, dtype)

    def to_device(self: B, device: str, /, *, stream: Any = None) -> B:
        """Returns the array on a device: itself, where it is there.

        Args:
            device: the device's name, ``"cpu"`` or ``"cuda:0"``.
            stream: None; copies are queued on CuPy's current stream.

        Raises:
            BackendUnavailable: the device's backend is not installed.
            DeviceError: there is no such device.
        """
        return self if device == self.device else ops.to_device(self, device)

    def block_until_ready(self: B) -> B:
        """Returns the array once it is computed: waits for the work on its device."""
        resolved(self.device)[0].synchronize()
        return self

    def copy(self, order: str = "C") -> Self:
        """Returns an array with memory of its own."""
        return ops.copy(self)

    def view(self: B, dtype: DTypeLike | None = None) -> B:
        """Returns the array, or its bytes as elements of another dtype.

        Raises:
            MissingRuleError: a derivative is asked for, which bytes of numbers have not.
            ShapeError: the last axis holds no whole number of elements of the dtype.
            TracerConversionError: for the same reason, where the value is known.
        """
        if dtype is None or self.dtype == number_dtype(dtype):
            return self
        _without_derivative(self)
        return ops["bytes_as"].bind((self,), {"dtype": number_dtype(dtype)})

    def reshape(self, *shape: ShapeLike, **options: Any) -> Self:
        """Returns the elements in another shape; one length may be -1."""
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape, **options)

    def transpose(self, *axes: Axis) -> Self:
        """Returns the array with its axes permuted, reversed by default."""
        if not axes or axes == (None,):
            return ops.transpose(self)
        return ops.transpose(self, axes[0] if len(axes) == 1 else axes)

    def squeeze(self, axis: Axis = None) -> Self:
        """Returns the array without axes of length 1."""
        return ops.squeeze(self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Returns the array with two axes swapped."""
        return ops.swapaxes(self, axis1, axis2)

    def ravel(self, order: str = "C") -> Self:
        """Returns the elements along one axis."""
        return ops.ravel(self, order)

    def flatten(self, order: str = "C") -> Self:
        """Returns the elements along one axis."""
        return ops.ravel(self, order)

    @property
    def flat(self) -> Self:
        """The elements along one axis, to go over or to index."""
        return ops.reshape(self, -1)

    # -- over axes

    def sum(
        self, axis: Axis = None, dtype: DTypeLike | None = None, **options: Unpack[SelectionOptions]
    ) -> Self:
        """Returns the sum over axes."""
        return ops.sum(self, axis, dtype, **options)

    def prod(
        self, axis: Axis = None, dtype: DTypeLike | None = None, **options: Unpack[SelectionOptions]
    ) -> Self:
        """Returns the product over axes."""
        return ops.prod(self, axis, dtype, **options)

    def mean(
        self, axis: Axis = None, dtype: DTypeLike | None = None, **options: Unpack[SelectionOptions]
    ) -> Self:
        """Returns the mean over axes."""
        return ops.mean(self, axis, dtype, **options)

    def var(
        self, axis: Axis = None, dtype: DTypeLike | None = None, **options: Unpack[VarianceOptions]
    ) -> Self:
        """Returns the variance over axes; ``ddof`` is subtracted from the number of elements."""
        return ops.var(self, axis, dtype, **options)

    def std(
        self, axis: Axis = None, dtype: DTypeLike | None = None, **options: Unpack[VarianceOptions]
    ) -> Self:
        """Returns the standard deviation over axes."""
        return ops.std(self, axis, dtype, **options)

    def max(self, axis: Axis = None, **options: Unpack[SelectionOptions]) -> Self:
        """Returns the maximum over axes."""
        return ops.max(self, axis, **options)

    def min(self, axis: Axis = None, **options: Unpack[SelectionOptions]) -> Self:
        """Returns the minimum over axes."""
        return ops.min(self, axis, **options)

    def any(self, axis: Axis = None, **options: Unpack[SelectionOptions]) -> Self:
        """Returns whether any element is true."""
        return ops.any(self, axis, **options)

    def all(self, axis: Axis = None, **options: Unpack[SelectionOptions]) -> Self:
        """Returns whether all elements are true."""
        return ops.all(self, axis, **options)

    def argmax(self, axis: int | None = None, **options: Unpack[ReductionOptions]) -> Self:
        """Returns the index of the first maximum."""
        return ops.argmax(self, axis, **options)

    def argmin(self, axis: int | None = None, **options: Unpack[ReductionOptions]) -> Self:
        """Returns the index of the first minimum."""
        return ops.argmin(self, axis, **options)

    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, **options: Any
    ) -> Self:
        """Returns the cumulative sum."""
        return ops.cumsum(self, axis, dtype, **options)

    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, **options: Any
    ) -> Self:
        """Returns the cumulative product."""
        return ops.cumprod(self, axis, dtype, **options)

    def argsort(self, axis: int | None = -1, **options: Any) -> Self:
        """Returns the indices that sort along an axis."""
        return ops.argsort(self, axis, **options)

    def argpartition(self, kth: int | Sequence[int], axis: int | None = -1, **options: Any) -> Self:
        """Returns the indices that partition along an axis."""
        return ops.argpartition(self, kth, axis, **options)

    # -- elements

    def clip(
        self, min: AnyOperand | None = None, max: AnyOperand | None = None, **options: Any
    ) -> Self:
        """Returns the elements limited to an interval."""
        return ops.clip(self, min, max, **options)

    def conj(self) -> Self:
        """Returns the complex conjugate."""
        return ops.conj(self)

    conjugate = conj

    def round(self, decimals: int = 0, **options: Any) -> Self:
        """Returns the elements rounded to decimals."""
        return ops.round(self, decimals, **options)

    def dot(self, other: AnyOperand) -> Self:
        """Returns the dot product."""
        return ops.dot(self, other)

    def take(self, indices: AnyOperand, axis: int | None = None, **options: Any) -> Self:
        """Returns elements along an axis."""
        return ops.take(self, indices, axis, **options)

    def choose(self, choices: AnyOperand, **options: Any) -> Self:
        """Returns elements of the choices that the array's integers number."""
        return ops.choose(self, choices, **options)

    def compress(self, condition: AnyOperand, axis: int | None = None, **options: Any) -> Self:
        """Returns the slices along an axis where a condition is true."""
        out: Self = registry.compress(condition, self, axis, **options)
        return out

    def repeat(self, repeats: AnyOperand, axis: int | None = None, **options: Any) -> Self:
        """Returns every element repeated, in its place."""
        return ops.repeat(self, repeats, axis, **options)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Returns a diagonal of the matrices on two axes."""
        return ops.diagonal(self, offset, axis1, axis2)

    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike | None = None,
        **options: Any,
    ) -> Self:
        """Returns the sum of a diagonal."""
        return ops.trace(self, offset, axis1, axis2, dtype, **options)

    def searchsorted(
        self, v: AnyOperand, side: str = "left", sorter: AnyOperand | None = None
    ) -> Self:
        """Returns where values would be inserted into the sorted array."""
        return ops.searchsorted(self, v, side, sorter)

    def nonzero(self, **options: Any) -> tuple[Self, ...]:
        """Returns for every axis the indices of the elements that are not zero."""
        found: tuple[Self, ...] = registry.nonzero(self, **options)
        return found

    # -- what NumPy's arrays do in place

    fill = _refused("fill(value)", "x = np.full_like(x, value)")
    sort = _refused("sort()", "x = np.sort(x)")
    partition = _refused("partition(kth)", "x = np.partition(x, kth)")
    put = _refused("put(i, values)", "x = x.at[i].set(values), x.ravel() for flat indices")
    itemset = _refused("itemset(i, value)", "x = x.at[i].set(value)")
    resize = _refused("resize(shape)", "x = np.resize(x, shape)")
    setfield = _refused("setfield(value, dtype)", "x = x.view(dtype).at[i].set(value)")
    setflags = _refused("setflags()", "y = numpy.array(x), a NumPy array with memory of its own")

    def byteswap(self: B, inplace: bool = False) -> B:
        """Returns the elements with their bytes in the other order."""
        if inplace:
            raise _in_place(self, "byteswap(inplace=True)", "x = x.byteswap()")
        _without_derivative(self)
        return ops.bytes_swapped(self)

    def tobytes(self: AnyArray, order: Literal["A", "C", "F", "K"] = "C") -> bytes:
        """Returns the elements' memory as bytes."""
        return self.__array__().tobytes(order)


def _without_derivative(x: Any) -> None:
    """Refuses a traced value that has a derivative, and whose bytes are asked for."""
    if not hasattr(x, "_data") and x.concrete and x.dtype.kind in INEXACT:
        x.__array__()


wrap_methods(Methods, "Array")
