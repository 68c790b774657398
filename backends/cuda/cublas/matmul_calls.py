"""Products of two strided arrays as calls of cuBLAS, with few copies.

Every axis belongs to one of four groups: rows are the left operand's and the result's, columns the
right one's and the result's, summed axes those of both operands, and batch axes are everybody's.
Neighbouring axes that are one piece of memory everywhere are merged. One axis of rows, one of
columns and one summed axis then make matrices, transposed or not as their strides say; the other
axes of rows and columns join the batch, with stride 0 where an operand lacks one. An operand is
copied only if its strides fit no matrix, or if that costs less than many calls.

This module knows shapes and strides alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as combinations
from math import prod
from typing import NamedTuple

from ..strides import strides_without_gaps

__all__ = ["ProductAxis", "ProductCalls", "product_calls"]

# Calls are chosen by their time: that of a call, of a copy's launch, and of the bytes of traffic.
CALL_MICROSECONDS, COPY_MICROSECONDS, BYTES_PER_MICROSECOND = 4.0, 12.0, 3e6
# The largest batch and the longest axis that cuBLAS takes.
MOST_BATCH_MATRICES, LONGEST_MATRIX_AXIS = 65535, 2**31 - 1


class ProductAxis(NamedTuple):
    """An axis of a product: its length and its places in the operands and the result, or None."""

    length: int
    x: int | None
    y: int | None
    out: int | None


class Strided(NamedTuple):
    """An axis with strides counted in elements, 0 where it is missing."""

    length: int
    x: int
    y: int
    out: int


class Calls(NamedTuple):
    """Calls that compute a product, in the terms of cuBLAS, whose matrices are column-major.

    Attributes:
        cost: their time, roughly, in microseconds.
        x_first: whether x is cuBLAS's first operand; otherwise y is.
        transposed: for the first and second operand, 1 where it is.
        sizes: the rows, columns and summed elements.
        leading: the leading dimensions of the first, second operand and the result.
        strides: theirs from matrix to matrix.
        each: for every call how many matrices, and offsets of x, y and the result in elements.
    """

    cost: float
    x_first: bool
    transposed: tuple[int, int]
    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]
    strides: tuple[int, int, int]
    each: tuple[tuple[int, int, int, int], ...]


class ProductCalls(NamedTuple):
    """The calls that compute a product.

    Attributes:
        x_order, y_order: the axes in whose order an operand is copied first; None for none.
        calls: the calls.
        shape: the shape in which the result is made.
        axes: the order in which its axes are returned; None for as they are.
    """

    x_order: tuple[int, ...] | None
    y_order: tuple[int, ...] | None
    calls: Calls
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None


NO_AXIS = Strided(1, 0, 0, 0)


def merged_group(axes: list[Strided], by: int) -> list[Strided]:
    """Returns axes of one group, outermost first by one of the strides, with neighbours joined."""
    out: list[Strided] = []
    for axis in sorted(axes, key=lambda a: -abs(a[by])):
        if axis.length == 1:
            continue
        last = out[-1] if out else None
        if last and all(last[i] == axis[i] * axis.length for i in (1, 2, 3)):
            out[-1] = Strided(last.length * axis.length, *axis[1:])
        else:
            out.append(axis)
    return out


def matrix(inner: int, inner_stride: int, outer: int, outer_stride: int) -> int | None:
    """Returns the leading dimension of a matrix whose inner axis is without gaps, else None."""
    if inner > 1 and inner_stride != 1:
        return None
    if outer == 1:
        return max(inner, 1)
    return outer_stride if max(inner, 1) <= outer_stride <= LONGEST_MATRIX_AXIS else None


def groups(axes: Sequence[Strided]) -> tuple[list[Strided], ...]:
    """Returns batch axes, rows, columns and summed axes, merged."""
    batch, rows, columns, summed = [], [], [], []
    for axis in axes:
        if not axis.out:
            summed.append(axis)
        elif axis.x and axis.y:
            batch.append(axis)
        elif axis.x:
            rows.append(axis)
        elif axis.y:
            columns.append(axis)
        else:
            batch.append(axis)
    return (
        merged_group(batch, 3), merged_group(rows, 3), merged_group(columns, 3),
        merged_group(summed, 1),
    )


def ways(axes: Sequence[Strided], itemsize: int) -> Iterator[Calls]:
    """Yields all ways to compute a product of strided operands without a copy."""
    batch, rows, columns, summed = groups(axes)
    if len(summed) > 1:
        return
    k = summed[0] if summed else NO_AXIS
    for row, column in combinations(rows or [NO_AXIS], columns or [NO_AXIS]):
        rest = merged_group([*batch, *(a for a in (*rows, *columns) if a not in (row, column))], 3)
        for x_first in (False, True):
            p, q = (row, column) if x_first else (column, row)
            first, second = (1, 2) if x_first else (2, 1)
            ld_out = matrix(p.length, p.out, q.length, q.out)
            if ld_out is None:
                continue
            found = []
            for inner, outer, i in ((p, k, first), (k, q, second)):
                ld = matrix(inner.length, inner[i], outer.length, outer[i])
                flag = 0
                if ld is None:
                    ld, flag = matrix(outer.length, outer[i], inner.length, inner[i]), 1
                found.append((ld, flag))
            (ld_first, t_first), (ld_second, t_second) = found
            if ld_first is None or ld_second is None:
                continue
            sizes = p.length, q.length, k.length
            if max(sizes) > LONGEST_MATRIX_AXIS:
                continue
            # The longest axis is the batch of a call; a loop goes over the others.
            if any(a.x < 0 or a.y < 0 for a in rest):
                continue
            long = max(rest, key=lambda a: a.length, default=NO_AXIS)
            others = [a for a in rest if a is not long]
            starts = [(0, 0, 0)]
            for axis in others:
                starts = [
                    (s[0] + i * axis.x, s[1] + i * axis.y, s[2] + i * axis.out)
                    for s in starts
                    for i in range(axis.length)
                ]
            if len(starts) > 4096:
                continue
            calls = tuple(
                (
                    min(MOST_BATCH_MATRICES, long.length - at),
                    s[0] + at * long.x,
                    s[1] + at * long.y,
                    s[2] + at * long.out,
                )
                for s in starts
                for at in range(0, long.length, MOST_BATCH_MATRICES)
            )
            m, n, d = sizes
            traffic = len(starts) * long.length * (m * d + d * n + m * n) * itemsize
            yield Calls(
                len(calls) * CALL_MICROSECONDS + traffic / BYTES_PER_MICROSECOND,
                x_first,
                (t_first, t_second),
                sizes,
                (ld_first, ld_second, ld_out),
                (long[first], long[second], long.out),
                calls,
            )


def copy_order(
    axes: Sequence[ProductAxis], strided: Sequence[Strided], which: int
) -> tuple[int, ...]:
    """Returns the order of axes in which a copy of an operand is a stack of matrices."""
    other = 3 - which
    own = [i for i, axis in enumerate(axes) if axis[which] is not None]
    kept = [i for i in own if axes[i].out is not None]
    summed = sorted((i for i in own if axes[i].out is None), key=lambda i: -abs(strided[i][other]))
    kept.sort(key=lambda i: -strided[i].out)
    shared = [i for i in kept if axes[i][other] is not None]
    alone = [i for i in kept if axes[i][other] is None]
    return tuple(axes[i][which] or 0 for i in (*shared, *alone, *summed))


def with_strides(axes: Sequence[ProductAxis], strides: Sequence[Sequence[int]]) -> list[Strided]:
    """Returns axes with their strides in x, y and the result."""
    return [
        Strided(
            axis.length,
            *(
                0 if place is None or axis.length == 1 else strides[i][place]
                for i, place in enumerate(axis[1:])
            ),
        )
        for axis in axes
    ]


class Choice(NamedTuple):
    """A way of calls, with the operands that are copied for it."""

    cost: float
    orders: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    calls: Calls


def cheapest(
    axes: Sequence[ProductAxis], strides: Sequence[Sequence[int]], itemsize: int
) -> Choice | None:
    """Returns the cheapest choice; None where no way leads to a result of these strides."""
    found: Choice | None = None
    for which in ((), (1,), (2,), (1, 2)):
        made: list[Sequence[int]] = list(strides)
        orders: list[tuple[int, ...] | None] = [None, None]
        cost = 0.0
        for i in which:
            order = copy_order(axes, with_strides(axes, made), i)
            own = {a[i]: a.length for a in axes if a[i] is not None}
            lengths = [own[a] for a in order]
            steps = dict(zip(order, strides_without_gaps(lengths)))
            rank = range(len(made[i - 1]))
            made[i - 1] = [steps.get(a, 0) for a in rank]
            # Broadcast axes of length 1 belong to neither operand.
            orders[i - 1] = (*(a for a in rank if a not in steps), *order)
            cost += COPY_MICROSECONDS + 2 * prod(lengths) * itemsize / BYTES_PER_MICROSECOND
        for way in ways(with_strides(axes, made), itemsize):
            if found is None or cost + way.cost < found.cost:
                found = Choice(cost + way.cost, (orders[0], orders[1]), way)
    return found


def product_calls(
    axes: Sequence[ProductAxis], x_strides: Sequence[int], y_strides: Sequence[int], itemsize: int
) -> ProductCalls:
    """Returns the calls of a product.

    Args:
        axes: all axes but those of length 0; those of the result number it from 0 on. An operand
            that is broadcast along one lacks it.
        x_strides, y_strides: the operands', in elements.
        itemsize: the bytes of an element.
    """
    kept = sorted((a for a in axes if a.out is not None), key=lambda a: a.out or 0)
    shape = tuple(a.length for a in kept)
    choice = cheapest(axes, (x_strides, y_strides, strides_without_gaps(shape)), itemsize)
    # The result as a stack of matrices, whose axes are then transposed.
    order = sorted(
        range(len(kept)), key=lambda i: (None in (kept[i].x, kept[i].y), kept[i].x is None)
    )
    turned = tuple(order.index(i) for i in range(len(order)))
    if order != sorted(order):
        stacked = tuple(kept[i].length for i in order)
        steps = strides_without_gaps(stacked)
        own = [steps[place] for place in turned]
        other = cheapest(axes, (x_strides, y_strides, own), itemsize)
        later = COPY_MICROSECONDS + 2 * prod(shape) * itemsize / BYTES_PER_MICROSECOND
        if other and (choice is None or other.cost + later < choice.cost):
            return ProductCalls(*other.orders, other.calls, stacked, turned)
    if choice is None:
        raise ValueError(f"a product of shape {shape} has an axis that is too long for cuBLAS")
    return ProductCalls(*choice.orders, choice.calls, shape, None)
