"""Changes of tensors in place: the same object gets a new value and a new node.

Buffers never change, so that what was computed from the tensor before, and what the backward pass
will need of it, stay as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..backends.devices import device_of, on_device
from ..backends.errors.tracebacks import tidy
from ..backends.errors.words import WRAPPER_CODES
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import beside, required_on, to_buffer, wrap
from ..primitives.core.errors import BackwardError, OperandError, ShapeError, failure
from ..primitives.core.numpy_protocols import conversion_error
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import RAW, slot, under
from .buffers import check_holds, tensor_buffer
from .functions import pointwise
from .functions.index_axes import axes_of_index
from .functions.indexing import as_elements
from .functions.looked_at import check_divisor, with_masks, with_numbers
from .grad_mode import mode, no_grad
from .recast import as_dtype, conjugated, part
from .short_views import (
    at_key,
    flattened,
    in_shape,
    short_view,
    with_axes_permuted,
    with_axes_swapped,
)
from .strides import as_strided, unfold
from .tape import LeafNode, receiver_of
from .torch_memory import TorchMemory
from .views import changed, fall_behind, is_basic, is_there, taken, viewing, within

if TYPE_CHECKING:
    from ..primitives.core.annotations import ArrayLike

__all__ = ["InPlace", "take_buffer"]

next_tensor = count(1).__next__
numbering = threading.Lock()


def _changing_method(call: str, name: str) -> Callable[[Any, Any], Any]:
    """Returns the method that puts the result of a function in the tensor's place."""

    def method(self: InPlace, other: Any) -> Any:
        return self._change(lambda: getattr(ops, name)(self, other), call)

    method.__doc__ = f"Puts ``functensor.numpy.{name}`` in the tensor's place."
    return method


def _operator(symbol: str, name: str, whole: bool = False) -> Callable[[Any, Any], Any]:
    """Returns the operator of a method, which leaves foreign operands to their own class.

    A ``whole`` one divides no integers by zero.
    """
    method = _changing_method(symbol, name)

    def operator(self: InPlace, other: Any) -> Any:
        if whole:
            check_divisor(name, self, other)
        try:
            return method(self, other)
        except OperandError:
            return NotImplemented
        except Exception as error:
            tidy(error)
            raise

    operator.__doc__ = method.__doc__
    return operator


def _function(name: str) -> Callable[[Any], Any]:
    """Returns the method that puts a function of the tensor in its place."""

    def method(self: InPlace) -> Any:
        return self._change(lambda: getattr(ops, name)(self), f"x.{name}_()")

    method.__doc__ = f"Puts ``functensor.numpy.{name}`` of the tensor in its place."
    return method


def _diagonal_view(
    self: InPlace, offset: int = 0, dim1: int = 0, dim2: int = 1, *, axis1: int | None = None,
    axis2: int | None = None,
) -> Any:  # fmt: skip
    """Returns a view of a diagonal of the matrices on two axes, as a last axis."""
    axes = dim1 if axis1 is None else axis1, dim2 if axis2 is None else axis2
    out: Any = TorchMemory.diagonal(self, offset, *axes)
    # The function copies, but the tensor is to share memory, by which views of it are told.
    out._data = self._data.diagonal(offset, *axes)
    return out


_diagonal_view.__name__ = _diagonal_view.__qualname__ = "diagonal"
WRAPPER_CODES.add(_diagonal_view.__code__)


view_in_shape = viewing(TorchMemory.view, short=in_shape)


def _view(self: Any, *shape: Any, **options: Any) -> Any:
    """Returns the elements in another shape, or their bits in another dtype; a view.

    Args:
        shape: as one sequence or several integers, of which one may be -1; or a dtype.
        options: ``dtype``, in place of that.
    """
    kind = shape[0] if shape else options.get("dtype")
    if isinstance(kind, np.dtype):
        return as_dtype(self, kind)
    return view_in_shape(self, *shape, **options)


_view.__name__ = _view.__qualname__ = "view"
WRAPPER_CODES.add(_view.__code__)


def take_buffer(x: InPlace, buffer: Any) -> None:
    """Gives a tensor a buffer of its shape, dtype and device that nobody writes to.

    It is `Tensor.take_value` without the frame of a public method.
    """
    alone = slot.trace is None and getattr(x, "_source", None) is None
    if alone and x._data.strides == buffer.strides:
        exchange_buffer(x, buffer)
    else:
        x.copy_value(wrap(buffer))


def take_buffers(xs: Iterable[InPlace], buffers: Iterable[Any]) -> None:
    """Does what `take_buffer` does for several tensors, which is written out here.

    Optimizers give a hundred tensors a buffer in each step.
    """
    traced = slot.trace is not None
    for x, buffer in zip(xs, buffers):
        if traced or x._data.strides != buffer.strides or getattr(x, "_source", None):
            take_buffer(x, buffer)
        elif getattr(x, "_views", None) is not None:
            exchange_buffer(x, buffer)
        else:
            x._changes = getattr(x, "_changes", 0) + 1
            x._data = buffer


def exchange_buffer(x: InPlace, buffer: Any) -> None:
    """Gives a tensor that is no view another buffer, and lets its views fall behind."""
    views = getattr(x, "_views", None)
    x._changes = getattr(x, "_changes", 0) + 1
    if views is None:
        x._data = buffer
        return
    with views.lock:
        x._data = buffer
        fall_behind(x)


class InPlace(TorchMemory):
    """The methods of `Tensor` that change it, and how they are counted."""

    __slots__ = ("_changes", "_hooks", "_id", "_memory", "_resting", "_source", "_views", "node")

    _changes: int
    _memory: Any
    _hooks: dict[int, Any]
    _source: Any
    _views: Any
    # The node and the receiver of a leaf that requires no gradient any more.
    _resting: Any
    _id: int
    node: Any
    # The trace under which the tensor's operations give tensors; None outside of all.
    home: Any = None

    @property
    def id(self) -> int:
        """A number that no other tensor of the process has."""
        with numbering:
            if not hasattr(self, "_id"):
                self._id = next_tensor()
            return self._id

    def name(self) -> str:
        """Returns what messages call the tensor."""
        return f"tensor {self.id} ({self.describe()})"

    @property
    def _version(self) -> int:
        """The number of times the tensor, or what it is a view of, was changed in place."""
        tensor = self
        while (source := getattr(tensor, "_source", None)) is not None:
            tensor = source[0]
        return getattr(tensor, "_changes", 0)

    def _change(self, compute: Callable[[], Any], what: str) -> Self:
        """Gives the tensor the value, and the node, of what ``compute`` returns."""
        if isinstance(self.node, LeafNode) and mode.enabled:
            raise failure(
                BackwardError,
                f"{what}: {self.name()}, at version {self._version}, is a leaf that requires "
                "grad: a change in place would cut it off from its gradient",
                fix="with no_grad(): for an update, or change a copy: y = x.clone()",
            )
        result = compute()
        if isinstance(result, Tracer) and not isinstance(result, InPlace):
            raise conversion_error(result, what)
        if result.shape != self.shape:
            raise failure(
                ShapeError,
                f"{what}: the result has shape {result.shape}, but {self.name()} keeps its own",
                fix="x = x + y makes a new tensor",
            )
        if result.dtype != self.dtype:
            whole = result.dtype.kind in "iu" and self.dtype.kind in "iu"
            # NumPy would cast complex numbers to bfloat16.
            lost = result.dtype.kind == "c" != self.dtype.kind
            if lost or not (whole or np.can_cast(result.dtype, self.dtype, "same_kind")):
                raise TypeError(
                    f"{what}: the result is {result.dtype}, which {self.name()} cannot hold; "
                    "x = x + y makes a new tensor"
                )
            result = ops.astype(result, self.dtype)
        if isinstance(result, InPlace) and result.owner is not self.owner:
            raise conversion_error(result, what)
        if self.node is not None and mode.enabled and getattr(result, "node", None) is None:
            # What was there before has no part in the gradient: it is zero, and not missing.
            result = ops.index_set(self, ..., result)
        if slot.trace is not None and slot.trace is not RAW:
            # Neither transformations nor hooks see what becomes of views.
            with under(self.home):
                return self._put(result, what)
        return self._put(result, what)

    def _put(self, result: Array, what: str) -> Self:
        """Takes a value, and has all tensors that share memory with this one take theirs."""
        if getattr(self, "_source", None) is None:
            if getattr(self, "_views", None) is None:
                self._settle(result)
                # Another thread may have taken the first view meanwhile.
                if getattr(self, "_views", None) is not None:
                    with self._views.lock:
                        fall_behind(self)
                return self
            with self._views.lock:
                self._settle(result)
                fall_behind(self)
            return self
        # Between reading a base and writing it no other thread may write to it.
        with self._source[0]._views.lock:
            changes = changed(self, result, what)
            for tensor, value, grad_mode in changes:
                with grad_mode:
                    tensor._settle(value)
            fall_behind(changes[-1][0])
        return self

    def _settle(self, result: Array) -> Self:
        """Takes a value, and its node where tensors record; a leaf stays a leaf."""
        buffer, node = self._data, self.node
        if isinstance(result, InPlace):
            self._data, made = result._data, result.node
        else:
            self._data, made = to_buffer(result), None
        in_memory = self.home is None and getattr(self, "_source", None) is None
        if in_memory and self._data.strides != buffer.strides:
            # Another shape is a view or not by the strides, whatever was written.
            in_order = buffer.copy("K")
            in_order[...] = self._data
            self._data = in_order
        if mode.enabled and not isinstance(node, LeafNode):
            kept = None if node is None else receiver_of(node)
            self.node = made
            if made is not None and kept is not None and kept.keeps:
                receiver_of(made, make=True).keeps = True
        self._changes = getattr(self, "_changes", 0) + 1
        return self

    # -- values without a graph

    def copy_value(self, value: ArrayLike) -> None:
        """Sets the value, without recording it; the tensor keeps its shape, dtype and ``grad``."""

        here = device_of(self._data)

        def new() -> Any:
            buffer = tensor_buffer(value, None)
            if not getattr(value, "shape", ()):
                return on_device(buffer, here)
            return required_on(buffer, here, "x.data = value: the value")

        with no_grad():
            self._change(new, "x.data = value")

    def take_value(self, value: Array) -> None:
        """Sets the value to an array of the same shape, dtype and device that nobody writes to."""
        take_buffer(self, value._data)

    def put_buffer(self, buffer: Any) -> None:
        """Takes a buffer of the same shape, dtype and device, whatever transformation runs."""
        if getattr(self, "_source", None) is not None:
            with under(RAW), no_grad():
                self._put(wrap(buffer), "a gradient")
        else:
            exchange_buffer(self, buffer)

    # -- elements

    def __setitem__(self, key: Any, value: Any) -> None:
        try:
            value = as_elements(value, self) if type(value) is float else value
            if not is_basic(key):
                key = with_masks(key)
                axes = axes_of_index(key, self.ndim)
                if axes is not None and np.ndim(value):
                    value = axes.of_value(value)
            # After x[key] += y the view has written its elements already.
            if not is_there(self, key, value):
                self._change(lambda: ops.index_set(self, key, value), "x[...] = value")
        except Exception as error:
            tidy(error)
            raise

    # -- views

    def __getitem__(self, key: Any) -> Any:
        if not is_basic(key):
            key = with_numbers(key)
            if not is_basic(key):
                key = with_masks(key)
                axes = axes_of_index(key, self.ndim)
                if axes is None:
                    return super().__getitem__(key)
                found: Any = super().__getitem__(axes.integers)
                return super(InPlace, found).__getitem__(axes.arrays).contiguous()
        seen = self._data
        view = short_view(self, seen, at_key, (key,))
        if view is not None:
            return taken(self, view, seen, None, key)
        if within(self):
            with under(self.home):
                return taken(self, super().__getitem__(key), seen, None, key)
        return taken(self, super().__getitem__(key), seen, None, key)

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            return super().__iter__()
        return map(self.__getitem__, range(self.shape[0]))

    T = property(viewing(lambda self: ops.transpose(self)), doc=TorchMemory.T.__doc__)
    mT = property(viewing(lambda self: ops.swapaxes(self, -1, -2)), doc=TorchMemory.mT.__doc__)
    flat = property(viewing(lambda self: ops.reshape(self, -1)), doc=TorchMemory.flat.__doc__)
    real: Any = part("real", "The real part; the tensor itself where it is real.")
    imag: Any = part("imag", "The imaginary part; 0 where the tensor is real.")
    view: Any = _view
    conj = conjugated
    reshape = viewing(TorchMemory.reshape, copies=True, short=in_shape)
    ravel = viewing(TorchMemory.ravel, copies=True)
    flatten = viewing(TorchMemory.flatten, copies=True, short=flattened)
    expand = viewing(TorchMemory.expand)
    permute = viewing(TorchMemory.permute, short=with_axes_permuted)
    transpose = viewing(TorchMemory.transpose, short=with_axes_swapped)
    swapaxes = viewing(TorchMemory.swapaxes, short=with_axes_swapped)
    diagonal = viewing(_diagonal_view)
    t = viewing(TorchMemory.t)
    unsqueeze = viewing(TorchMemory.unsqueeze)
    squeeze = viewing(TorchMemory.squeeze)
    unfold = unfold
    as_strided = as_strided

    # -- operators and methods

    __iadd__ = _operator("x += y", "add")
    __isub__ = _operator("x -= y", "subtract")
    __imul__ = _operator("x *= y", "multiply")
    __itruediv__ = _operator("x /= y", "divide")
    __ifloordiv__ = _operator("x //= y", "floor_divide", whole=True)
    __imod__ = _operator("x %= y", "remainder", whole=True)
    __ipow__ = _operator("x **= y", "power")
    __iand__ = _operator("x &= y", "bitwise_and")
    __ior__ = _operator("x |= y", "bitwise_or")
    __ilshift__ = _operator("x <<= y", "bitwise_left_shift")
    __irshift__ = _operator("x >>= y", "bitwise_right_shift")
    __ixor__ = _operator("x ^= y", "bitwise_xor")

    mul_ = _changing_method("x.mul_(y)", "multiply")
    pow_ = _changing_method("x.pow_(y)", "power")
    exp_ = _function("exp")
    sqrt_ = _function("sqrt")
    relu_ = _function("relu")
    sigmoid_ = _function("sigmoid")
    tanh_ = _function("tanh")
    abs_ = _function("abs")

    def neg_(self) -> Self:
        """Changes the sign."""
        return self._change(lambda: -self, "x.neg_()")

    def add_(self, other: ArrayLike, *, alpha: float = 1) -> Self:
        """Adds ``alpha`` times another."""
        return self._change(lambda: self.add(other, alpha=alpha), "x.add_(y)")

    def sub_(self, other: ArrayLike, *, alpha: float = 1) -> Self:
        """Subtracts ``alpha`` times another."""
        return self._change(lambda: self.sub(other, alpha=alpha), "x.sub_(y)")

    def div_(self, other: ArrayLike, *, rounding_mode: str | None = None) -> Self:
        """Divides by another, and rounds the quotients ``"floor"`` down or ``"trunc"`` to zero."""
        return self._change(
            lambda: pointwise.div(self, other, rounding_mode=rounding_mode), "x.div_(y)"
        )

    def clamp_(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Self:
        """Limits the elements to an interval."""
        return self._change(lambda: pointwise.clamp(self, min, max), "x.clamp_()")

    def masked_fill_(self, mask: ArrayLike, value: ArrayLike) -> Self:
        """Puts a value wherever a mask is true."""
        return self._change(lambda: self.masked_fill(mask, value), "x.masked_fill_()")

    def copy_(self, other: ArrayLike, non_blocking: bool = False) -> Self:
        """Takes the values of another that broadcasts to the shape, of any dtype and device."""
        return self._change(lambda: self._spread(other), "x.copy_(y)")

    def _spread(self, value: ArrayLike) -> Array:
        """Returns a value in the tensor's shape and dtype, on its device."""
        here = ops.to_device(value, self.device)
        same = here.dtype == self.dtype
        return ops.broadcast_to(here if same else ops.astype(here, self.dtype), self.shape)  # type: ignore[no-any-return]

    def fill_(self, value: ArrayLike) -> Self:
        """Sets all elements to a number."""
        if type(value) in (int, float):
            check_holds(np.asarray(value), self.dtype)
        return self._change(lambda: self._spread(value), "x.fill_(y)")

    def zero_(self) -> Self:
        """Sets all elements to zero."""
        return self._change(lambda: beside(self, np.zeros(self.shape, self.dtype)), "x.zero_()")
