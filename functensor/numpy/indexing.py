"""Helpers that make index arrays, grids and ranges by indexing, and choose by number."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy import index_exp, ndindex, s_

from ..backends.annotations import Buffer, ShapeLike
from ..backends.errors.public_functions import wrap_methods
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, is_unknown
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import refuse_out
from ..primitives.core.shape_dtype import broadcast_shapes, result_type
from .arguments import arrays_together, device_of_first
from .creation import asarray
from .known_values import is_at_hand, value_of
from .ranges import arange, linspace
from .reshaping import meshgrid

__all__ = [
    "c_", "choose", "index_exp", "mgrid", "ndenumerate", "ndindex", "ogrid", "r_",
    "ravel_multi_index", "s_", "unravel_index",
]  # fmt: skip


def _range(item: slice, device: str | None = None) -> Array:
    """Returns the numbers of a slice; an imaginary step says how many there are to be."""
    start = 0 if item.start is None else item.start
    step = 1 if item.step is None else item.step
    if isinstance(step, complex):
        return linspace(start, item.stop, int(abs(step)), device=device)
    return arange(start, item.stop, step, device=device)


class _Grid:
    """Makes coordinates of a grid by indexing: ``mgrid`` all of them, ``ogrid`` those that differ.

    >>> import functensor.numpy as np
    >>> np.mgrid[0:2, 0:2].shape, [x.shape for x in np.ogrid[0:2, 0:3]]
    ((2, 2, 2), [(2, 1), (1, 3)])
    """

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if not isinstance(key, tuple):
            return _range(key)
        ranges = [_range(item) for item in key]
        if not ranges:
            return () if self.sparse else asarray(np.zeros(0, np.intp))
        kind = result_type(*(x.dtype for x in ranges))
        grid = meshgrid(*[ops.astype(x, kind) for x in ranges], sparse=self.sparse, indexing="ij")
        return tuple(grid) if self.sparse else ops.stack(grid)


wrap_methods(_Grid, "functensor.numpy.mgrid", ("__getitem__",))
mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


class _Joined:
    """Joins what stands between brackets: slices become ranges, numbers arrays of one element.

    A string in front says along which axis, to how many axes arrays are extended, and where the
    axes that they have are put, as in NumPy: ``"1,2,0"``; or ``"r"`` or ``"c"`` for a matrix.

    >>> import functensor.numpy as np
    >>> np.r_[np.array([1.0, 2.0]), 0.0, 3:5]
    Array([1., 2., 0., 3., 4.], dtype=float64, device='cpu')
    >>> np.c_[np.array([1, 2]), np.array([3, 4])].tolist()
    [[1, 3], [2, 4]]
    """

    def __init__(self, axis: int, least: int, first: int) -> None:
        self.defaults = (axis, least, first)

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, least, first = self.defaults
        matrix = ""
        if items and isinstance(items[0], str):
            matrix, (axis, least, first) = self._directive(items[0])
            items = items[1:]
        if not items:
            raise ValueError("r_ and c_ join something: np.r_[1:3, 0.0]")
        # Python's numbers do not decide the dtype where there is an array.
        weak = [type(x) in (bool, int, float, complex) for x in items]
        place = device_of_first(items)
        ready = [_range(x, place) if isinstance(x, slice) else x for x in items]
        parts = arrays_together(ready)
        kinds = [x if w else p.dtype for x, p, w in zip(items, parts, weak, strict=True)]
        kind = result_type(*kinds)
        if matrix:
            least = 2
            flat = all(len(x.shape) < 2 for x in parts)
            if matrix == "c" and flat:
                parts, axis = [ops.reshape(x, (-1, 1)) for x in parts], 0
        extended = [self._extended(ops.astype(x, kind), least, first) for x in parts]
        return ops.concatenate(extended, axis=axis)

    def _directive(self, text: str) -> tuple[str, tuple[int, int, int]]:
        if text in ("r", "c"):
            return text, (-1, 2, -1)
        axis, least, first = self.defaults
        try:
            numbers = [int(word) for word in text.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise ValueError(f"{text!r} says nothing: 'r', 'c' or up to three integers, '0,2,1'")
        axis, least, first = (*numbers, *(axis, least, first)[len(numbers) :])
        return "", (axis, least, first)

    @staticmethod
    def _extended(x: Array, least: int, first: int) -> Array:
        """Returns an array with axes of length 1 added, its own ones beginning at a place."""
        missing = least - len(x.shape)
        if missing <= 0:
            return x
        before = first if first >= 0 else missing + 1 + first
        before = min(max(before, 0), missing)
        return ops.reshape(x, (1,) * before + x.shape + (1,) * (missing - before))


wrap_methods(_Joined, "functensor.numpy.r_", ("__getitem__",))
r_ = _Joined(0, 1, -1)
c_ = _Joined(-1, 2, 0)


def ndenumerate(arr: ArrayLike) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yields pairs of an element's indices and the element.

    Args:
        arr: an array.

    >>> import functensor.numpy as np
    >>> [(i, x.item()) for i, x in np.ndenumerate(np.array([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """
    x = asarray(arr)
    for place in np.ndindex(*x.shape):
        yield place, x[place]


def _lengths_of_shape(shape: Any) -> tuple[Any, ...]:
    """Returns a shape, of which lengths may be traced, as a tuple."""
    if isinstance(shape, Sequence) or shape_of(shape):
        return tuple([x if is_unknown(x) else operator.index(x) for x in shape])
    return (shape if is_unknown(shape) else operator.index(shape),)


# -- indices of elements and of the flattened array


@ops.add_function
def unravel_index(
    indices: ArrayLike, shape: ShapeLike | ArrayLike, order: str = "C"
) -> tuple[Array, ...]:
    """Returns the indices along each axis of elements of the flattened array.

    Args:
        indices: integers from 0 up.
        shape: that of the array.
        order: ``C``: the last axis moves fastest; ``F``: the first one.

    Returns:
        A tuple with an array of the shape of ``indices`` for each axis.

    Raises:
        ValueError: an index is out of bounds, if the values are known and on the CPU.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.unravel_index([5, 2], (2, 3))]
    [[1, 0], [2, 2]]
    """
    lengths = _lengths_of_shape(shape)
    place = asarray(indices)
    if place.dtype.kind not in "iu":
        raise TypeError(f"unravel_index: indices are integers, not {place.dtype}")
    if is_at_hand(place) and not is_unknown(lengths):
        value, size = value_of("unravel_index", place, ""), int(np.prod(lengths, dtype=object))
        if np.any((value < 0) | (value >= size)):
            raise ValueError(f"unravel_index: there are indices out of bounds for shape {lengths}")
    place = ops.astype(place, np.intp)
    out = []
    for length in lengths if order == "F" else lengths[::-1]:
        least = ops.maximum(length, 1) if is_unknown(length) else max(length, 1)
        out.append(ops.remainder(place, least))
        place = ops.floor_divide(place, least)
    return tuple(out if order == "F" else out[::-1])


@ops.add_function
def ravel_multi_index(
    multi_index: Sequence[ArrayLike] | Array | Buffer,
    dims: ShapeLike | ArrayLike,
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> Array:
    """Returns the indices into the flattened array of elements given by their indices.

    Args:
        multi_index: integers for each axis: a tuple of arrays, or an array whose first axis is that
            of the axes.
        dims: the array's shape.
        mode: what becomes of indices out of bounds: ``raise``, ``wrap`` or ``clip``; a tuple for
            one for each axis.
        order: ``C``: the last axis moves fastest; ``F``: the first one.

    Raises:
        ValueError: an index is out of bounds, if the values are known and on the CPU.

    >>> import functensor.numpy as np
    >>> np.ravel_multi_index(([1, 0], [2, 2]), (2, 3))
    Array([5, 2], dtype=int64, device='cpu')
    """
    lengths = _lengths_of_shape(dims)
    rows = [asarray(i) for i in multi_index]
    modes = [mode] * len(lengths) if isinstance(mode, str) else list(mode)
    if len(rows) != len(lengths) or len(modes) != len(lengths):
        raise ValueError(f"ravel_multi_index: {len(rows)} index arrays for shape {lengths}")
    total: Array | int = 0
    terms = list(zip(rows, lengths, modes, strict=True))
    for row, length, how in terms if order == "C" else terms[::-1]:
        row = ops.astype(_indices_in_bounds("ravel_multi_index", row, length, how), np.intp)
        total = ops.add(ops.multiply(total, length), row)
    return asarray(total)


def _indices_in_bounds(name: str, index: Array, length: int, mode: str) -> Array:
    """Returns indices from 0 up to a length, as a mode says."""
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: indices are integers, not {index.dtype}")
    if mode == "wrap":
        return ops.remainder(index, length)
    if mode == "clip":
        return ops.clip(index, 0, length - 1)
    if mode != "raise":
        raise ValueError(f"{name}: mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    if is_at_hand(index) and not is_unknown(length):
        value = value_of(name, index, "")
        if np.any((value < 0) | (value >= length)):
            raise ValueError(f"{name}: there are indices out of bounds for length {length}")
    return index


@ops.add_function
def choose(
    a: ArrayLike,
    choices: Sequence[ArrayLike] | Array | Buffer,
    out: None = None,
    mode: str = "raise",
) -> Array:
    """Returns for every place the element of that array whose number stands there.

    Args:
        a: integers from 0 up.
        choices: a sequence of arrays, or an array whose first axis is that of the choices; they
            broadcast to each other and to a.
        out: None; arrays are immutable.
        mode: what becomes of numbers out of bounds: ``raise``, ``wrap`` or ``clip``.

    Returns:
        An array of the dtype to which the choices promote. Derivatives flow to what is chosen.

    Raises:
        ValueError: a number is out of bounds, if the values are known and on the CPU.

    >>> import functensor.numpy as np
    >>> np.choose(np.array([1, 0]), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    Array([3., 2.], dtype=float64, device='cpu')
    """
    refuse_out("choose", out)
    listed = choices if isinstance(choices, Array | np.ndarray | Sequence) else list(choices)
    options = arrays_together(listed)
    if not options:
        raise ValueError("choose: there are no choices")
    number = asarray(a)
    if number.dtype.kind == "b":
        number = ops.astype(number, np.intp)
    number = _indices_in_bounds("choose", number, len(options), mode)
    shape = broadcast_shapes("choose", number.shape, *(x.shape for x in options))
    kind = result_type(*(x.dtype for x in options))
    table = ops.stack([ops.broadcast_to(ops.astype(x, kind), shape) for x in options])
    wide = ops.expand_dims(ops.broadcast_to(number, shape), 0)
    return ops.index(ops.take_along_axis(table, wide, 0), 0)
