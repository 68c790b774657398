"""Tensors that lie in the memory of a NumPy array, as after ``from_numpy`` and ``x.numpy()``.

Buffers never change, but an array's owner may write to it. So such a tensor holds a copy, which it
compares with the memory whenever it is read, and takes anew where the two differ. What is written
to the tensor is written to the memory too. Views of the tensor lie in views of the array. All of
this ends when nobody else holds the array any more.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import ref

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.buffers import same_bits
from ..primitives.core.errors import failure
from ..primitives.core.reference_counts import ALONE, references_in
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import RAW, new, slot, under
from ..transforms.tensor_entrance import entrance
from .copies import added_to, with_state
from .grad_mode import GradMode, mode
from .recast import is_conjugated
from .tape import TAPE, TapeTrace
from .tensor import Tensor
from .views import Overlapping, Recast, fall_behind, is_basic, places_of, views_of

__all__ = ["InMemory", "array_over", "tensor_over"]

# Where every tensor has its buffer.
BUFFER: Any = Array.__dict__["_data"]


def address(array: Any) -> int:
    """Returns where in memory the first element of an array lies."""
    return int(array.__array_interface__["data"][0])


def strided(array: Any, places: Any) -> Any:
    """Returns the view of an array whose elements are those at given places in its order.

    For what comes as a copy or read-only where buffers are computed with: numbers, diagonals,
    elements that are there several times.

    Returns:
        The view; None where the places lie at no regular distances in memory.
    """
    at = np.unravel_index(places, array.shape) if array.ndim else ()
    bytes_at = sum([i * step for i, step in zip(at, array.strides)], np.zeros(places.shape, int))
    steps, regular = [], bytes_at.flat[0]
    for axis, length in enumerate(places.shape):
        second = [0] * places.ndim
        second[axis] = min(1, length - 1)
        steps.append(int(bytes_at[tuple(second)] - bytes_at.flat[0]))
        along = np.arange(length).reshape([-1 if i == axis else 1 for i in range(places.ndim)])
        regular = regular + along * steps[-1]
    if not np.array_equal(np.broadcast_to(regular, places.shape), bytes_at):
        return None
    first = array[(*[int(i.flat[0]) for i in at], ...)]
    return np.lib.stride_tricks.as_strided(first, places.shape, steps)


class Memory:
    """Memory in which a tensor lies with all of its views.

    Attributes:
        held: an array over all of it, alone in a list, where references to it are counted.
        block: the bytes, where they were made here; None where the memory is another's.
        given: references to the arrays over ``block`` that others were given.
    """

    __slots__ = ("block", "given", "held")

    def __init__(self, array: Any, block: bytearray | None = None) -> None:
        self.held = [array]
        self.block = block
        self.given: list[ref[Any]] = []

    def give(self, part: Any) -> Any:
        """Returns an array for others over a part of the memory, which they may write to."""
        if self.block is None:
            return part.view()
        # The base is no array, so that views of this one refer to it, and to none of ours.
        start = address(part) - address(self.held[0])
        out = np.ndarray(part.shape, part.dtype, self.block, start, part.strides)
        self.given = [array for array in self.given if array() is not None]
        self.given.append(ref(out))
        return out

    def is_shared(self) -> bool:
        """Says whether others may still write to the memory."""
        if self.block is not None:
            return any(array() is not None for array in self.given)
        base = self.held[0].base
        if references_in(self.held, 0) >= ALONE:
            return True
        if base is not None and (type(base) is not np.ndarray or base.base is not None):
            # What holds the memory is no array that could be counted.
            return True
        # The array, this frame and the list refer to the base.
        return base is not None and references_in([base], 0) > ALONE + 1


def elements_of(x: Any) -> Any:
    """Returns the array over the elements of a tensor in shared memory."""
    lying = getattr(x, "_memory", None)
    if lying is None:
        return np.asarray(BUFFER.__get__(x))
    memory, part = lying
    return memory.held[0] if part is None else part


class Watching:
    """The class of a tensor has this base while others may change what it holds."""

    __slots__ = ()

    def __new__(cls, *args: Any, **options: Any) -> Any:
        # A new tensor of the class of this one lies in its own memory.
        return cls.__bases__[1](*args, **options)

    # What a copy is made of lies in memory of its own.

    def _copy(self) -> Tensor:
        return _by_itself(self)._copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return with_state(_by_itself(self), added_to(self, Tensor)).__reduce__()


class ComputedWhenRead(Watching):
    """The base of the class of conjugates of what others may write to: each read computes them.

    Their own views have it too.
    """

    __slots__ = ()

    @property
    def _data(self) -> Any:
        source: Any = self._source  # type: ignore[attr-defined]
        base, take, key, *_ = source
        with GradMode(False), under(None):
            whole = TAPE.wrap(base._data, None)
            buffer = (ops.index(whole, key) if take is None else take(whole))._data
        BUFFER.__set__(self, buffer)
        return buffer

    @_data.setter
    def _data(self, buffer: Any) -> None:
        BUFFER.__set__(self, buffer)

    value = _data

    def has_view(self, take: Any) -> bool:
        """Says whether what is taken of the tensor is a view, or has to be copied."""
        buffer = np.asarray(self._data)
        with GradMode(False), under(None):
            return bool(np.may_share_memory(take(TAPE.wrap(buffer, None))._data, buffer))

    def take_in(self, view: Any) -> bool:
        """Has a view of the tensor computed, too."""
        compute_when_read(view)
        return True

    def bring_in(self, other: Any) -> None:
        """Has another tensor computed, which is a view of this one."""
        compute_when_read(other)

    def hand_over(self, other: Any) -> None:
        """Has another tensor computed in place of this one."""
        self._rest()
        if other is not None:
            compute_when_read(other)

    def _rest(self) -> None:
        """Keeps the value that is there."""
        buffer = self._data
        self.__class__ = kind_of(self)  # type: ignore[assignment]
        BUFFER.__set__(self, buffer)


class InMemory(Watching):
    """The class of a tensor has this base while others may write to the tensor's memory."""

    __slots__ = ()

    # What the tensor lies in, and the array over its own elements, None where these are all; None
    # in place of both once sharing has ended, for threads that are still at it.
    _memory: Any

    @property
    def _data(self) -> Any:
        if self._memory is not None and not self._memory[0].is_shared():
            end_sharing(self)
        try:
            buffer, elements = BUFFER.__get__(self), elements_of(self)
        except AttributeError:
            # Sharing has ended meanwhile, and the tensor is a view that is behind its base.
            with lock_of(root_of(self)):
                return self._data
        if not same_bits(buffer, elements):
            buffer = elements.copy("K")[()]
            BUFFER.__set__(self, buffer)
        return buffer

    @_data.setter
    def _data(self, buffer: Any) -> None:
        elements = elements_of(self)
        if buffer.dtype != elements.dtype:
            # Memory holds numbers of one kind: a module that was cast lies elsewhere.
            end_sharing(self, at_once=True)
            self._data = buffer
            return
        if not same_bits(buffer, elements):
            elements[...] = buffer
        BUFFER.__set__(self, buffer)

    value = _data

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return elements_of(self).shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return elements_of(self).dtype

    def __getitem__(self, key: Any) -> Any:
        quiet = slot.trace is None or slot.trace is RAW
        lying = self._memory
        if quiet and self.node is None and lying is not None:  # type: ignore[attr-defined]
            # Nothing is kept for a backward pass, so that only what is asked for is read.
            out = self._part(key, lying[0]) if is_basic(key) else self._picked(key)
            if out is not None:
                return out
        return super().__getitem__(key)  # type: ignore[misc]

    def _put(self, result: Any, what: str) -> Any:
        """Takes a value; where nothing is recorded, no more than the tensor's elements is written.

        Others may write to other elements of the same memory meanwhile.
        """
        tensor: Any = self
        alone = getattr(result, "node", None) is None and tensor.home is None
        while alone and tensor is not None:
            source = getattr(tensor, "_source", None)
            tensor, alone = (
                (None, tensor.node is None)
                if source is None
                else (source[0], tensor.node is None and type(source[1]) is not Overlapping)
            )
        steps = zip(self.shape, elements_of(self).strides)
        if alone and not any(step == 0 and length > 1 for length, step in steps):
            return self._settle(result)  # type: ignore[attr-defined]
        return super()._put(result, what)  # type: ignore[misc]

    def _part(self, key: Any, memory: Memory) -> Any:
        """Returns the view at a key; None where there is none."""
        keys = key if type(key) is tuple else (key,)
        if not any(part is ... for part in keys):
            # Then the view of one element is an array too.
            keys = (*keys, ...)
        try:
            part = elements_of(self)[keys]
        except IndexError:
            return None
        view = TAPE.wrap(part.copy("K")[()], None)
        view._source = (self, None, key, mode.enabled, None)
        views = views_of(self)
        views.append(ref(view))
        if len(views) > views.most:
            views.drop()
        lie_in(view, memory, part)
        return view

    def _picked(self, key: Any) -> Any:
        """Returns a copy of the elements at a key; None where it would be none."""
        elements = elements_of(self)
        out = Tensor.__getitem__(TAPE.wrap(elements, None), key)
        return None if np.may_share_memory(out._data, elements) else out

    def has_view(self, take: Any) -> bool:
        """Says whether what is taken of the tensor lies in its memory, or has to be copied."""
        elements = elements_of(self)
        with GradMode(False), under(None):
            part = take(TAPE.wrap(elements, None))._data
        return part.size < 2 or np.may_share_memory(part, elements)

    def take_in(self, view: Any) -> bool:
        """Puts a view of the tensor into its memory; says whether it can lie there."""
        _, take, key, *_ = view._source
        elements = elements_of(self)
        if isinstance(take, Recast):
            part = take.of_array(elements)
            if part is None:
                compute_when_read(view)
                return True
        else:
            with GradMode(False), under(None):
                whole = TAPE.wrap(elements, None)
                part = (ops.index(whole, key) if take is None else take(whole))._data
        fits = np.may_share_memory(part, elements) and part.flags.writeable
        if part.size and not fits:
            places = places_of(whole, take or (lambda x: ops.index(x, key)), np.arange(whole.size))
            part = strided(elements, places._data.reshape(part.shape))
        lying = self._memory
        if part is not None and lying is not None:
            lie_in(view, lying[0], part)
        return part is not None

    def bring_in(self, other: Any) -> None:
        """Lets another tensor lie where this one does."""
        lying = self._memory
        if lying is not None:
            lie_in(other, *lying)

    def hand_over(self, other: Any) -> None:
        """Leaves the memory, to another tensor where there is one."""
        lying, value = self._memory, self._data
        if lying is not None:
            self._memory = None
            self.__class__ = kind_of(self)  # type: ignore[assignment]
            BUFFER.__set__(self, value)
            if other is not None:
                lie_in(other, *lying)

    def _strides(self) -> tuple[int, ...]:
        return tuple([step // self.dtype.itemsize for step in elements_of(self).strides])

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Says whether the elements lie in memory in their order, without gaps."""
        return bool(elements_of(self).flags.c_contiguous)


def _by_itself(x: Any) -> Tensor:
    """Returns a tensor of the class that one in shared memory had, with its value and node."""
    out: Tensor = new(kind_of(x))
    out._data, out.node = x._data, x.node
    return out


def kind_of(x: Any) -> type[Tensor]:
    """Returns the class that a tensor has when it lies in memory of its own."""
    kind: Any = type(x).__bases__[1]
    return kind  # type: ignore[no-any-return]


@cache
def kind_watching(base: Any, kind: Any) -> Any:
    """Returns the class that tensors of a class have while others may change what they hold."""
    names = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind)(kind.__name__, (base, kind), names)


@cache
def classes_of(kind: Any) -> frozenset[Any]:
    """Returns the classes that a tensor has, also while others may change what it holds."""
    own = kind.__bases__[1] if issubclass(kind, Watching) else kind
    return frozenset({own, kind_watching(InMemory, own), kind_watching(ComputedWhenRead, own)})


def lie_in(x: Any, memory: Memory, part: Any = None) -> None:
    """Lets a tensor lie in memory that holds its value already.

    Args:
        x: the tensor.
        memory: the memory.
        part: the array over the tensor's elements; None where these are all.
    """
    x._memory = (memory, part)
    kind: Any = type(x)
    x.__class__ = kind_watching(InMemory, kind)


def compute_when_read(x: Any) -> None:
    """Has a view computed whenever it is read."""
    if not isinstance(x, ComputedWhenRead):
        kind: Any = type(x)
        x.__class__ = kind_watching(ComputedWhenRead, kind)


def root_of(x: Any) -> Any:
    """Returns the tensor that a tensor is a view of, at the end of all views; itself if of none."""
    while (source := getattr(x, "_source", None)) is not None:
        x = source[0]
    return x


def lock_of(root: Any) -> Any:
    """Returns the lock by which a tensor and its views are written, and change their class."""
    return views_of(root).lock


def end_sharing(x: Any, at_once: bool = False) -> None:
    """Lets a tensor and its views lie in their own memory again, as nobody else can write.

    Args:
        x: the tensor.
        at_once: do so although others can write.
    """
    root = root_of(x)
    with lock_of(root):
        if x._memory is None or (x._memory[0].is_shared() and not at_once):
            return
        left: list[Any] = [root]
        while left:
            tensor = left.pop()
            if isinstance(tensor, ComputedWhenRead):
                tensor._rest()
            elif isinstance(tensor, InMemory):
                elements = elements_of(tensor)
                if not same_bits(BUFFER.__get__(tensor), elements):
                    BUFFER.__set__(tensor, elements.copy("K")[()])
                tensor._memory = None
                tensor.__class__ = kind_of(tensor)  # type: ignore[assignment]
            views = getattr(tensor, "_views", None) or ()
            left += [view for r in views if (view := r()) is not None]
        fall_behind(root)


def array_over(x: Any) -> Any:
    """Returns a NumPy array in whose memory a tensor lies from then on.

    Raises:
        DeviceError: the tensor is on a GPU.
        TracerConversionError: it requires grad, or is traced.
    """
    x.__array__()
    if is_conjugated(x):
        raise failure(
            RuntimeError,
            f"numpy() of {x.name()}: its elements are conjugates of those in memory",
            fix="x.resolve_conj().numpy()",
            number=None,
        )
    root = root_of(x)
    if not x.size or root.home is not None:
        return np.array(x._data)
    with lock_of(root):
        if isinstance(root, InMemory) and root._memory is not None:
            shown = root._memory[0].give(elements_of(root))
        else:
            buffer = np.asarray(root._data)
            block = bytearray(buffer.nbytes)
            strides = np.empty_like(buffer).strides
            array = np.ndarray(buffer.shape, buffer.dtype, block, 0, strides)
            array[...] = buffer
            memory = Memory(array, block)
            # Held until the array that is returned is there: sharing ends without one.
            shown = memory.give(array)
            lie_in(root, memory)
        if root is x:
            return shown
        fall_behind(root)
        # A view that is behind comes into the memory of its base when it is read.
        x._data  # noqa: B018
        return x._memory[0].give(elements_of(x)) if isinstance(x, InMemory) else np.array(x._data)


def tensor_over(array: Any) -> Tensor:
    """Returns a tensor that lies in the memory of a NumPy array; a copy of what is read-only.

    Raises:
        OperandError: the array holds no numbers.
    """
    out = Tensor(array, device="cpu")
    plain = array if type(array) is np.ndarray else np.asarray(array)
    fits = plain.flags.writeable and plain.dtype == out.dtype and plain.size > 0
    # Within a transformation tensors are traced, and lie nowhere.
    if fits and out.home is None and np.may_share_memory(plain, array):
        lie_in(out, Memory(plain))
    return out


TapeTrace.in_memory = Watching
entrance.alike = classes_of
TapeTrace.array_over = staticmethod(array_over)
