"""Sums and exchanges among the examples of a vmap with a named axis: ``psum`` and its kin.

Derivatives are those of the function of the whole batch. Within the mapped function ``grad`` means
the derivative of the sum of all examples' outputs by an example's own inputs, since what an example
sends along the axis reaches all of them: ``grad`` of ``psum(x)`` is the length of the axis.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .. import tree
from ..primitives.collectives import axis_device, axis_length, resolved_axis
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.buffers import WEAK_TYPES
from ..primitives.core.shape_dtype import canonical_axis, shape_dtype

if TYPE_CHECKING:
    from ..primitives.core.array import Array

__all__ = [
    *("all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean"),
    *("pmin", "ppermute", "psum", "psum_scatter"),
]


def _names(function: str, axis_name: Hashable) -> tuple[tuple[Any, ...], int]:
    """Returns axes as primitives take them, and how many examples they have together."""
    names = tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)
    if len(set(names)) < len(names):
        raise ValueError(f"{function}: axis_name={axis_name!r} names an axis twice")
    found = [resolved_axis(function, name) for name in names]
    return tuple([axis for axis, _ in found]), prod([size for _, size in found])


def axis_size(axis_name: Hashable) -> int:
    """Returns the length of a named axis, a Python integer.

    Args:
        axis_name: a name that a surrounding `vmap` gave its axis, or a tuple of several.

    Raises:
        NameError: there is no axis of that name.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: x * ft.axis_size("i"), axis_name="i")(np.ones(3))
    Array([3., 3., 3.], dtype=float64, device='cpu')
    """
    return _names("axis_size", axis_name)[1]


def axis_index(axis_name: Hashable) -> Any:
    """Returns the position of the example along a named axis.

    Args:
        axis_name: as for `axis_size`; the last of several names counts fastest.

    Returns:
        An integer scalar, which differs from example to example.

    Raises:
        NameError: there is no axis of that name.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: x + ft.axis_index("i"), axis_name="i")(np.zeros(3))
    Array([0., 1., 2.], dtype=float64, device='cpu')
    """
    names, _ = _names("axis_index", axis_name)
    place = next((d for d in map(axis_device, names) if d != "cpu"), "cpu")
    index: Array | int = 0 if place == "cpu" else ops.to_device(0, place)
    for name in names:
        index = ops.axis_index(index * axis_length("axis_index", name), axis_name=(name,))
    return index


def psum(x: Any, axis_name: Hashable) -> Any:
    """Returns the sum over the examples along named axes.

    Args:
        x: a tree of arrays or numbers; integers stay integers, booleans are counted.
        axis_name: as for `axis_size`.

    Returns:
        The same tree of sums, the same for every example. A leaf that does not depend on the
        example gives its value times the number of examples. The sum of a Python number is a Python
        number.

    Raises:
        NameError: there is no axis of that name.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: ft.psum(x, "i"), axis_name="i")(np.arange(3.0))
    Array([3., 3., 3.], dtype=float64, device='cpu')
    """
    names, size = _names("psum", axis_name)

    def total(leaf: Any) -> Any:
        if type(leaf) in WEAK_TYPES:
            return leaf * size
        if shape_dtype(leaf).dtype.kind == "b":
            leaf = ops.astype(leaf, int)
        return ops.psum(leaf, axis_name=names)

    return tree.map(total, x)


def pmean(x: Any, axis_name: Hashable) -> Any:
    """Returns the mean over the examples along named axes.

    Args:
        x: a tree of arrays or numbers.
        axis_name: as for `axis_size`.

    Returns:
        The same tree of means, the same for every example.

    Raises:
        NameError: there is no axis of that name.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: x - ft.pmean(x, "i"), axis_name="i")(np.arange(3.0))
    Array([-1.,  0.,  1.], dtype=float64, device='cpu')
    """
    _, size = _names("pmean", axis_name)
    return tree.map(lambda total: total / size, psum(x, axis_name))


def pmax(x: Any, axis_name: Hashable) -> Any:
    """Returns the largest value of all examples along named axes.

    Its derivative is shared equally by the examples that attain it.

    Args:
        x: a tree of arrays of real numbers.
        axis_name: as for `axis_size`.

    Returns:
        The same tree of maxima, the same for every example.

    Raises:
        NameError: there is no axis of that name.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: x == ft.pmax(x, "i"), axis_name="i")(np.array([1.0, 4.0, 2.0]))
    Array([False,  True, False], dtype=bool, device='cpu')
    """
    names, _ = _names("pmax", axis_name)
    return tree.map(lambda leaf: ops.pmax(leaf, axis_name=names), x)


def pmin(x: Any, axis_name: Hashable) -> Any:
    """Returns the smallest value of all examples along named axes; otherwise as `pmax`.

    Args:
        x: a tree of arrays.
        axis_name: as for `axis_size`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: x - ft.pmin(x, "i"), axis_name="i")(np.array([1.0, 4.0, 2.0]))
    Array([0., 3., 1.], dtype=float64, device='cpu')
    """
    names, _ = _names("pmin", axis_name)
    return tree.map(lambda leaf: ops.pmin(leaf, axis_name=names), x)


def all_gather(x: Any, axis_name: Hashable, *, axis: int = 0, tiled: bool = False) -> Any:
    """Returns the values of all examples, stacked.

    Args:
        x: a tree of arrays.
        axis_name: as for `axis_size`; the last of several names counts fastest.
        axis: where the axis of the examples goes.
        tiled: whether they are concatenated along the axis, instead of stacked along a new one.

    Returns:
        The same tree of arrays with one axis more, the same for every example.

    Raises:
        NameError: there is no axis of that name.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda x: np.max(ft.all_gather(x, "i") - x), axis_name="i")(np.arange(3.0))
    Array([2., 1., 0.], dtype=float64, device='cpu')
    """
    names, size = _names("all_gather", axis_name)

    def gathered(leaf: ArrayLike) -> Any:
        shape = shape_dtype(leaf).shape
        place = canonical_axis(axis, len(shape) + (not tiled))
        for name in reversed(names):
            length = axis_length("all_gather", name)
            leaf = ops.all_gather(leaf, axis_name=(name,), axis=place, size=length)
        joined = shape[place] * size if tiled else size
        rest = shape[place + 1 :] if tiled else shape[place:]
        if tiled or len(names) > 1:
            leaf = ops.reshape(leaf, (*shape[:place], joined, *rest))
        return leaf

    return tree.map(gathered, x)


def psum_scatter(
    x: Any, axis_name: Hashable, *, scatter_dimension: int = 0, tiled: bool = False
) -> Any:
    """Returns of the sum over the examples the part at the example's own position.

    Args:
        x: a tree of arrays that are as long as the named axis along ``scatter_dimension``, or, if
            ``tiled``, a multiple of that.
        axis_name: the name of one axis.
        scatter_dimension: the axis that disappears, or is cut.
        tiled: whether it is cut into as many parts as there are examples, and stays.

    Returns:
        The same tree of arrays without that axis, or with a part of it.

    Raises:
        NameError: there is no axis of that name.
        ValueError: the lengths do not fit.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.vmap(lambda row: ft.psum_scatter(row, "i"), axis_name="i")(np.arange(4.0).reshape(2, 2))
    Array([2., 4.], dtype=float64, device='cpu')
    """
    name, size = resolved_axis("psum_scatter", axis_name)

    def part(leaf: ArrayLike) -> Array:
        shape = shape_dtype(leaf).shape
        place = canonical_axis(scatter_dimension, len(shape))
        if tiled:
            leaf = _cut_in_parts("psum_scatter", leaf, place, axis_name, size)
        elif shape[place] != size:
            raise _other_length("psum_scatter", shape, place, axis_name, size)
        return ops.psum_scatter(leaf, axis_name=(name,), axis=place, size=size)

    return tree.map(part, x)


def _other_length(
    function: str, shape: tuple[int, ...], place: int, axis_name: Hashable, size: int
) -> ValueError:
    """Returns the error for an axis that is not as long as the named one."""
    return ValueError(
        f"{function}: axis {place} of an array of shape {shape} has length "
        f"{shape[place]}, the axis named {axis_name!r} {size}"
    )


def _cut_in_parts(
    function: str, leaf: ArrayLike, place: int, axis_name: Hashable, size: int
) -> ArrayLike:
    """Returns an array with an axis in front of another one, which goes over parts of that."""
    shape = shape_dtype(leaf).shape
    if shape[place] % size:
        raise ValueError(
            f"{function}: axis {place} of an array of shape {shape} has length {shape[place]}, "
            f"no multiple of the length {size} of the axis named {axis_name!r}"
        )
    parts = (*shape[:place], size, shape[place] // size, *shape[place + 1 :])
    return ops.reshape(leaf, parts)


def all_to_all(
    x: Any, axis_name: Hashable, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> Any:
    """Sends each example a part of every example's array: exchanges two axes.

    Args:
        x: a tree of arrays that are as long as the named axis along ``split_axis``, or, if
            ``tiled``, a multiple of that.
        axis_name: the name of one axis.
        split_axis: the axis whose elements, or parts, go to the examples in their order.
        concat_axis: where the axis of the examples that they come from goes.
        tiled: whether the parts of ``split_axis`` are concatenated along ``concat_axis``.

    Returns:
        The same tree. Untiled, an array loses ``split_axis``, and has an axis of the same length
        at the place ``concat_axis`` of the result.

    Raises:
        NameError: there is no axis of that name.
        ValueError: the lengths do not fit.

    >>> import functensor as ft, functensor.numpy as np
    >>> rows = np.arange(4.0).reshape(2, 2)
    >>> ft.vmap(lambda row: ft.all_to_all(row, "i", 0, 0), axis_name="i")(rows)
    Array([[0., 2.],
           [1., 3.]], dtype=float64, device='cpu')
    """
    name, size = resolved_axis("all_to_all", axis_name)

    def exchanged(leaf: ArrayLike) -> Array:
        shape = shape_dtype(leaf).shape
        split = canonical_axis(split_axis, len(shape))
        concat = canonical_axis(concat_axis, len(shape))
        if tiled:
            leaf = _cut_in_parts("all_to_all", leaf, split, axis_name, size)
        elif shape[split] != size:
            raise _other_length("all_to_all", shape, split, axis_name, size)
        out = ops.all_to_all(
            leaf, axis_name=(name,), split_axis=split, concat_axis=concat, size=size
        )
        if not tiled:
            return out
        shape = shape_dtype(out).shape
        joined = (*shape[:concat], size * shape[concat + 1], *shape[concat + 2 :])
        return ops.reshape(out, joined)

    return tree.map(exchanged, x)


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends the values of examples to other examples.

    Args:
        x: a tree of arrays.
        axis_name: the name of one axis.
        perm: pairs ``(source, destination)`` of positions; none is a source or a destination
            twice.

    Returns:
        The same tree with what was sent to the example; zeros where nothing was.

    Raises:
        NameError: there is no axis of that name.
        ValueError: the pairs are not as said.

    >>> import functensor as ft, functensor.numpy as np
    >>> shift = [(i, (i + 1) % 3) for i in range(3)]
    >>> ft.vmap(lambda x: ft.ppermute(x, "i", shift), axis_name="i")(np.arange(3.0))
    Array([2., 0., 1.], dtype=float64, device='cpu')
    """
    name, size = resolved_axis("ppermute", axis_name)
    pairs = tuple((int(source), int(destination)) for source, destination in perm)
    for positions in zip(*pairs):
        if len(set(positions)) < len(pairs) or not all(0 <= i < size for i in positions):
            raise ValueError(
                f"ppermute: perm={list(pairs)} is to hold each position of the axis "
                f"{axis_name!r} of length {size} at most once as source and as destination"
            )
    return tree.map(lambda leaf: ops.ppermute(leaf, axis_name=(name,), perm=pairs), x)
