"""PyTorch's names for what arrays can do already.

Where PyTorch and NumPy mean different things by one name, the argument decides: ``dim`` asks for
PyTorch's meaning, ``axis`` for NumPy's, and a position counts as PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

import numpy as np

from ..backends.devices import is_device, resolved
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.array import Array, Tracer
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import canonical_axis
from .buffers import is_dtype
from .functions import along_axis, indexing, reductions
from .functions.naming import as_tensor_result, copied
from .functions.reductions import at_places

if TYPE_CHECKING:
    from ..backends.annotations import Axis, DTypeLike, Shape

__all__ = ["Size", "TorchNames"]

TensorT = TypeVar("TensorT", bound=Array)


class TensorOperations(Protocol):
    """The registry, as methods of tensors see it: its functions return tensors."""

    def __getattr__(self, name: str) -> Callable[..., TensorT]: ...


tensor_ops = cast(TensorOperations, registry)


class Size(int):
    """The number of elements; called, the shape or one of its lengths, as in PyTorch.

    >>> import functensor as ft
    >>> x = ft.Tensor([[1.0, 2.0, 3.0]])
    >>> x.size, x.size(), x.size(-1)
    (3, (1, 3), 3)
    """

    shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Shape | int:
        return self.shape if dim is None else self.shape[dim]

    __repr__ = int.__repr__


def _named_method(method: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    method.__name__ = name
    method.__doc__ = doc
    return method


def _axis(dim: Axis, axis: Axis) -> Axis:
    """Returns the axes that were given by either name."""
    if dim is not None and axis is not None:
        raise TypeError(f"dim={dim} and axis={axis}: give one of them, they mean the same")
    return axis if dim is None else dim


def _given_shape(sizes: tuple[Any, ...]) -> Shape:
    """Returns a shape that was given as one tuple or as several numbers."""
    nested = len(sizes) == 1 and isinstance(sizes[0], tuple | list)
    return tuple(sizes[0] if nested else sizes)


def _cast_method(name: str, dtype: str) -> Any:
    """Returns the method that casts to a dtype."""

    def method(self: Casts, memory_format: Any = None) -> Any:
        return self.to(np.dtype(dtype))

    doc = f"Returns the elements as {dtype}; the tensor itself where they are."
    return _named_method(method, name, doc)


class Casts(Tracer):
    """The methods that cast; apart from the others, since they have the names of types."""

    __slots__ = ()
    to: Callable[..., Self]

    float: Callable[[], Self] = _cast_method("float", "float32")
    double: Callable[[], Self] = _cast_method("double", "float64")
    half: Callable[[], Self] = _cast_method("half", "float16")
    long: Callable[[], Self] = _cast_method("long", "int64")
    int: Callable[[], Self] = _cast_method("int", "int32")
    bool: Callable[[], Self] = _cast_method("bool", "bool")


def _reduction(name: str, what: str, indexed: bool = False) -> Callable[..., Any]:
    """Returns the method that reduces over axes by the function of a name.

    An indexed one returns the index of each element too, along ``dim``.
    """

    def method(
        self: Array,
        dim: Any = None,
        keepdim: bool = False,
        *,
        axis: Axis = None,
        keepdims: bool = False,
        other: Any = None,
    ) -> Any:
        if other is not None:
            if not indexed or dim is not None:
                raise TypeError(f"{name}() takes either axes or another tensor")
            dim = other
        if indexed and isinstance(dim, Array):
            return getattr(tensor_ops, f"{name}imum")(self, dim)
        stay = keepdim or keepdims
        if indexed and dim is not None and axis is None:
            places = getattr(tensor_ops, f"arg{name}")(self, reductions.axes_of(self, dim))
            return at_places(self, places, dim, stay)
        if axis is None and not indexed:
            return getattr(reductions, name)(self, dim, stay)
        axes = reductions.axes_of(self, dim) if axis is None else _axis(dim, axis)
        return getattr(tensor_ops, name)(self, axes, keepdims=stay)

    where = "; along ``dim``, a pair of it and its indices." if indexed else ", over axes."
    return _named_method(method, name, f"Returns {what}{where}")


def _total_method(name: str, what: str) -> Callable[..., Any]:
    """Returns a method as `_reduction` does, whose result may have another dtype."""

    def method(
        self: Array,
        dim: Axis = None,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
        axis: Axis = None,
        keepdims: bool = False,
    ) -> Any:
        stay = keepdim or keepdims
        if axis is None:
            return getattr(reductions, name)(self, dim, stay, dtype=dtype)
        return getattr(tensor_ops, name)(self, _axis(dim, axis), dtype, keepdims=stay)

    return _named_method(method, name, f"Returns {what}, over axes.")


def _spread_method(name: str, what: str) -> Callable[..., Any]:
    """Returns a method as `_reduction` does, for what divides by the degrees of freedom."""

    def method(
        self: Array,
        dim: Any = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
        axis: Axis = None,
        ddof: float | None = None,
        keepdims: bool = False,
    ) -> Any:
        stay = keepdim or keepdims
        if axis is None and ddof is None:
            return getattr(reductions, name)(self, dim, unbiased, stay, correction=correction)
        return getattr(tensor_ops, name)(self, _axis(dim, axis), ddof=ddof or 0, keepdims=stay)

    return _named_method(
        method,
        name,
        f"Returns {what}, over axes.\n\n"
        "Sums of squares are divided by the number of elements minus ``correction``, 1 by\n"
        "default and 0 where ``unbiased`` is False; where ``axis`` or ``ddof`` is given, minus\n"
        "``ddof``, which is 0 by default.",
    )


class TorchNames(Casts):
    """The methods of `Tensor` that only give names."""

    __slots__ = ()

    # -- together

    def equal(self, other: ArrayLike) -> bool:
        """Says whether another has the same shape and all the same elements."""
        return self.shape == np.shape(other) and bool(tensor_ops.all(tensor_ops.equal(self, other)))

    def allclose(
        self, other: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Says whether all elements differ by at most ``atol + rtol * abs(other)``."""
        return bool(tensor_ops.all(tensor_ops.isclose(self, other, rtol, atol, equal_nan)))

    # -- along axes

    sum: Callable[..., Self] = _total_method("sum", "the sum")
    prod: Callable[..., Self] = _total_method("prod", "the product")
    mean: Callable[..., Self] = _total_method("mean", "the mean")
    any: Callable[..., Self] = _reduction("any", "whether any element is true")
    all: Callable[..., Self] = _reduction("all", "whether all elements are true")
    argmax: Callable[..., Self] = _reduction("argmax", "the index of the first maximum")
    argmin: Callable[..., Self] = _reduction("argmin", "the index of the first minimum")

    def logsumexp(
        self, dim: Any = None, keepdim: bool = False, *, axis: Axis = None, keepdims: bool = False
    ) -> Self:
        """Returns the logarithm of the sum of exponentials, over axes."""
        found: Self = reductions.logsumexp(self, _axis(dim, axis), keepdim or keepdims)
        return found

    var: Callable[..., Self] = _spread_method("var", "the variance")
    std: Callable[..., Self] = _spread_method("std", "the standard deviation")

    max: Callable[..., Any] = _reduction("max", "the maximum", indexed=True)
    min: Callable[..., Any] = _reduction("min", "the minimum", indexed=True)

    def cumsum(  # type: ignore[override]
        self, dim: Any = None, *, dtype: DTypeLike | None = None, axis: Any = None
    ) -> Self:
        """Returns the cumulative sum."""
        along = _axis(dim, axis)
        if along is None:
            return tensor_ops.cumsum(self, along, dtype)
        return along_axis.cumsum(self, along, dtype=dtype)  # type: ignore[no-any-return]

    def softmax(self, dim: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Returns the exponentials divided by their sum along an axis."""
        return along_axis.softmax(self, dim, dtype)  # type: ignore[no-any-return]

    def log_softmax(self, dim: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Returns the logarithm of `softmax`."""
        return along_axis.log_softmax(self, dim, dtype)  # type: ignore[no-any-return]

    # -- shape

    @property
    def size(self) -> Size:
        """The number of elements; called as ``size()`` or ``size(dim)``, the shape."""
        shape = self.shape
        number = Size(super().size)
        number.shape = shape
        return number

    def numel(self) -> int:
        """Returns the number of elements."""
        return int(self.size)

    def dim(self) -> int:
        """Returns the number of axes."""
        return self.ndim

    def view(self, *shape: int | Sequence[int]) -> Self:  # type: ignore[override]  # PyTorch's takes a shape
        """Returns the elements in another shape; one length may be -1."""
        return tensor_ops.reshape(self, _given_shape(shape))

    def expand(self, *sizes: int | Sequence[int]) -> Self:
        """Returns the elements repeated along axes of length 1; -1 keeps a length."""
        wanted = _given_shape(sizes)
        if -1 in wanted[: max(len(wanted) - self.ndim, 0)]:
            raise RuntimeError(f"expand{wanted}: -1 keeps the length of an axis, and this is new")
        own = (1,) * (len(wanted) - self.ndim) + self.shape
        return tensor_ops.broadcast_to(
            self, tuple(o if w == -1 else w for w, o in zip(wanted, own))
        )

    def permute(self, *places: Any, dims: Sequence[int] | None = None) -> Self:
        """Returns the tensor with its axes in another order."""
        order = _given_shape(places) if dims is None else tuple(dims)
        if len(order) != self.ndim:
            raise RuntimeError(f"permute{tuple(order)}: an order of {self.ndim} axes")
        return tensor_ops.transpose(self, order)

    def transpose(
        self, *axes: int | Sequence[int] | None, dim0: int | None = None, dim1: int | None = None
    ) -> Any:
        """Returns the tensor with two axes swapped; of other numbers of axes, in their order."""
        axes += tuple([dim for dim in (dim0, dim1) if dim is not None])
        if len(axes) == 2:
            return tensor_ops.swapaxes(self, *axes)
        return super().transpose(*axes)

    def t(self) -> Self:
        """Returns the transpose of a matrix; a vector as it is."""
        if self.ndim > 2:
            raise ValueError(f"t() of a tensor of {self.ndim} axes; mT swaps the last two")
        return tensor_ops.transpose(self)

    def unsqueeze(self, dim: int) -> Self:
        """Returns the tensor with a new axis of length 1."""
        return tensor_ops.expand_dims(self, dim)

    def squeeze(self, dim: Axis = None, *, axis: Axis = None) -> Self:  # type: ignore[override]
        """Returns the tensor without axes of length 1; a longer ``dim`` stays."""
        if axis is not None or dim is None:
            return tensor_ops.squeeze(self, _axis(dim, axis))
        dims = [
            canonical_axis(d, max(self.ndim, 1))
            for d in (dim if isinstance(dim, tuple | list) else (dim,))
        ]
        if not self.ndim:
            return tensor_ops.squeeze(self)
        return tensor_ops.squeeze(self, tuple(d for d in dims if self.shape[d] == 1))

    def flatten(  # type: ignore[override]
        self, start_dim: int = 0, end_dim: int = -1
    ) -> Self:
        """Returns the tensor with some axes in a row made into one."""
        if not self.ndim:
            return tensor_ops.reshape(self, -1)
        first, last = canonical_axis(start_dim, self.ndim), canonical_axis(end_dim, self.ndim)
        if first > last:
            raise RuntimeError(f"flatten: axis {first} comes after axis {last}")
        if first == last:
            # As in PyTorch the tensor itself, and no view of it.
            return self
        length = prod(self.shape[first : last + 1])
        return tensor_ops.reshape(self, (*self.shape[:first], length, *self.shape[last + 1 :]))

    def repeat(self, *sizes: int | Sequence[int], axis: int | None = None) -> Self:  # type: ignore[override]
        """Returns the tensor beside itself along axes; with ``axis``, its elements repeated."""
        if axis is not None:
            return tensor_ops.repeat(self, *sizes, axis)
        counts = _given_shape(sizes)
        if len(counts) < self.ndim:
            raise RuntimeError(
                f"repeat({', '.join(map(str, counts))}): a number for each of {self.ndim} axes"
            )
        return tensor_ops.tile(self, counts)

    def nonzero(self, as_tuple: bool = False, **options: Any) -> Any:
        """Returns a row of indices for every element that is not zero; as a tuple, as in NumPy."""
        if not self.shape and not options:
            return indexing.nonzero(self, as_tuple=as_tuple)
        found = tuple(map(as_tensor_result, cast(Any, tensor_ops.nonzero(self, **options))))
        return found if as_tuple else tensor_ops.stack(found, 1)

    @property
    def is_cuda(self) -> bool:
        """True if the tensor is on a GPU."""
        return self.device != "cpu"

    def to(
        self,
        *target: Any,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: Any = None,
    ) -> Self:
        """Returns the tensor with another dtype or on another device; itself if it is so already.

        Args:
            target: a dtype, a device (``"cpu"``, ``"cuda"``, ``"cuda:0"``), or a tensor that has
                both; behind these, as in PyTorch, ``non_blocking`` and ``copy``.
            dtype: the dtype.
            device: the device.
            non_blocking: of no effect: nothing waits for a copy to a GPU, and one to the CPU is
                there when the call returns.
            copy: whether to return another tensor in any case.
            memory_format: of no effect: images lie channel by channel.

        Raises:
            BackendUnavailable: the device's backend is not installed.
            DeviceError: there is no such device.
        """
        switches: list[bool] = []
        for wanted in target:
            if isinstance(wanted, Array):
                dtype, device = wanted.dtype, wanted.device
            elif type(wanted) is bool:
                switches.append(wanted)
            elif is_device(wanted) or (isinstance(wanted, str) and not is_dtype(wanted)):
                device = wanted
            elif wanted is not None:
                dtype = wanted
        moved = self if dtype is None or self.dtype == dtype else tensor_ops.astype(self, dtype)
        if device is not None and resolved(device)[1] != self.device:
            moved = tensor_ops.to_device(moved, device)
        return (
            copied(self) if (copy or True in switches[1:]) and moved is self else moved
        )

    def cuda(
        self, device: int | str | None = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Self:
        """Returns the tensor on a GPU, by default on the current one.

        Args:
            device: the GPU's number, or its name.
            non_blocking, memory_format: of no effect: nothing waits for a copy to a GPU.

        Raises:
            BackendUnavailable: CuPy is not installed, or there is no GPU.
            DeviceError: there is no such device.
        """
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def cpu(self, memory_format: Any = None) -> Self:
        """Returns the tensor on the CPU, once it is computed."""
        return self.to("cpu")
