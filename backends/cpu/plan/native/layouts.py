"""The places of values in memory: offsets and strides, and the orders that these make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..codegen.operands import is_variable

if TYPE_CHECKING:
    from ..annotations import EquationLike

__all__ = [
    *("LayOut", "below", "broadcast_strides", "c_strides", "extent", "flip_key"),
    *("identity_of", "in_c_order", "in_grid_order", "memory_strides", "reshaped_strides"),
    "unjoined",
]


class LayOut(NamedTuple):
    """The place of a value in memory.

    Attributes:
        owner: the variable, or the constant array, whose memory it is.
        offset: the number of the first element.
        shape, strides: the lengths of axes, and their strides in elements.
    """

    owner: Any
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def part(self, key: tuple[Any, ...]) -> LayOut:
        """Returns where the part lies that a key of slices and numbers takes."""
        sample = np.lib.stride_tricks.as_strided(
            np.empty((), np.int8), self.shape, self.strides, writeable=False
        )
        # With an ellipsis a single element is a view, too.
        part = sample[key if any(k is Ellipsis for k in key) else (*key, ...)]
        begin = part.__array_interface__["data"][0] - sample.__array_interface__["data"][0]
        return LayOut(self.owner, self.offset + begin, part.shape, part.strides)

    def reshaped(self, shape: Sequence[int]) -> LayOut | None:
        """Returns where the elements lie as those of another shape; None where they are copied."""
        strides = c_strides(shape)
        if not in_c_order(self.shape, self.strides):
            found = reshaped_strides(self.shape, self.strides, shape)
            if found is None:
                return None
            strides = found
        return LayOut(self.owner, self.offset, tuple(shape), strides)

    def matrix(self, axis: int) -> tuple[bool, int] | None:
        """Returns whether the last two axes, from one on, are transposed, and the distance of rows.

        None for memory that BLAS does not take.
        """
        rows, columns = self.shape[axis:]
        down, right = self.strides[axis:]
        if right == 1 or columns == 1:
            step = down if rows > 1 else max(columns, 1)
            return (False, step) if step >= columns else None
        if down == 1 or rows == 1:
            step = right if columns > 1 else max(rows, 1)
            return (True, step) if step >= rows else None
        return None


def identity_of(x: Any) -> Any:
    """Returns what tells a variable or a constant array from others."""
    return x if is_variable(x) else id(x)


def memory_strides(x: Any) -> tuple[int, ...] | None:
    """Returns the strides of an input that has steps in memory; None of all else."""
    return getattr(x, "strides", None) if is_variable(x) else None


def in_c_order(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Says whether elements lie one behind the other."""
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of an array in C order."""
    return tuple([prod(shape[i + 1 :]) for i in range(len(shape))])


def reshaped_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Returns the strides of elements as of another shape; None where no strides give their order.

    Neighbouring axes that lie one behind the other are joined first, and then parted.
    """
    joined: list[tuple[int, int]] = []
    for length, stride in zip(shape, strides, strict=True):
        if joined and joined[-1][1] == length * stride:
            joined[-1] = joined[-1][0] * length, stride
        elif length != 1:
            joined.append((length, stride))
    left, step = joined.pop() if joined else (1, 1)
    found = []
    for length in reversed(wanted):
        if left == 1 and length != 1 and joined:
            left, step = joined.pop()
        if not length or left % length:
            return None
        found.append(step)
        left, step = left // length, step * length
    return tuple(reversed(found))


def broadcast_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> list[int]:
    """Returns the strides of an array as one of another shape, along which it is the same."""
    given = [0 if n == 1 else stride for n, stride in zip(shape, strides, strict=True)]
    return [0] * (len(wanted) - len(shape)) + given


def in_grid_order(strides: Mapping[int, int], lengths: Sequence[int]) -> bool:
    """Says whether elements lie one behind the other, in the order of the grid's axes."""
    expected = 1
    for axis in sorted(strides, reverse=True):
        if strides[axis] != expected:
            return False
        expected *= lengths[axis]
    return True


def unjoined(strides: Mapping[int, int], lengths: Sequence[int]) -> Iterator[frozenset[int]]:
    """Yields all axes from one on, for each that no single stride joins with the axis before it."""
    axes = sorted(strides)
    for before, axis in pairwise(axes):
        if strides[before] != strides[axis] * lengths[axis]:
            yield frozenset(range(axis, len(lengths)))


def extent(lengths: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the number of elements from the lowest to the highest of some axes."""
    last = sum((n - 1) * abs(stride) for n, stride in zip(lengths, strides))
    return 0 if 0 in lengths else 1 + last


def flip_key(equation: EquationLike) -> tuple[slice, ...]:
    """Returns the key that takes the elements of an array as a flip does."""
    rank, axes = len(equation.outputs[0].type.shape), equation.params["axis"]
    return tuple([slice(None, None, -1 if i in axes else None) for i in range(rank)])


def below(lengths: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements lie before the first one, along axes that go backwards."""
    return -sum((n - 1) * min(stride, 0) for n, stride in zip(lengths, strides))
