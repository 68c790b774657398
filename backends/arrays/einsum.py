"""Sums of products over named axes, computed two operands at a time, as matrices.

A plan is a list of steps, in the order that opt_einsum finds; plans are remembered by shape. Each
step is one matrix multiplication on transposed views.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..blas_calls import product
from .column_times_row import columns_by_rows, is_widened, without_signs

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Axes, Buffer, DType, Shape

__all__ = ["Contract", "compute", "plan", "split"]


def split(subscripts: str) -> tuple[list[str], str]:
    """Returns the terms of the operands and that of the output."""
    inputs, _, out = subscripts.partition("->")
    return inputs.split(","), out


class Tidy(NamedTuple):
    """Takes diagonals of one operand, then sums the axes that nothing else names."""

    diagonals: tuple[tuple[int, int], ...]
    summed: Axes

    def __call__(self, xp: ArrayModule, x: Buffer) -> Buffer:
        for first, second in self.diagonals:
            x = xp.diagonal(x, 0, first, second)
        return xp.sum(x, axis=self.summed, dtype=x.dtype) if self.summed else x


def with_axes_as(xp: ArrayModule, x: Buffer, axes: Axes) -> Buffer:
    """Returns an array with its axes in another order; of NumPy's ways the method costs least."""
    return x.transpose(axes) if xp is np else xp.transpose(x, axes)


class Multiply(NamedTuple):
    """Multiplies two operands without a sum: their axes are put at the output's places.

    Its ``matrices`` are the shapes of columns and rows, or stacks of them, of which the output is
    the product, if there are such.
    """

    x_axes: Axes
    x_at: tuple[slice | None, ...]
    y_axes: Axes
    y_at: tuple[slice | None, ...]
    shape: Shape
    matrices: tuple[Shape, Shape] | None

    def for_blas(self, dtype: DType) -> tuple[Shape, Shape] | None:
        """Returns the shapes of columns and rows if BLAS is quicker."""
        found = self.matrices
        return found if found and is_widened(*found, dtype) else None

    def __call__(self, xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
        x, y = with_axes_as(xp, x, self.x_axes), with_axes_as(xp, y, self.y_axes)
        shapes = self.for_blas(x.dtype) if xp is np and x.dtype == y.dtype else None
        if shapes is not None:
            return columns_by_rows(xp, *map(np.reshape, (x, y), shapes)).reshape(self.shape)
        products = xp.multiply(x[self.x_at], y[self.y_at])
        return without_signs(products) if xp is np else products


class Contract(NamedTuple):
    """Multiplies two operands as (stacks of) matrices; reshaping copies only if it must.

    Its ``terms`` are those of both operands and of the result.
    """

    x_axes: Axes
    x_shape: Shape
    y_axes: Axes
    y_shape: Shape
    shape: Shape
    axes: Axes
    terms: tuple[str, str, str]

    def __call__(self, xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
        x = with_axes_as(xp, x, self.x_axes).reshape(self.x_shape)
        y = with_axes_as(xp, y, self.y_axes).reshape(self.y_shape)
        multiply = product if xp is np else xp.matmul
        return with_axes_as(xp, multiply(x, y).reshape(self.shape), self.axes)


class EinsumStep(NamedTuple):
    """Replaces one or two operands, popped at their positions, by one at the end."""

    positions: Axes
    tidies: tuple[Tidy, ...]
    join: Any
    axes: Axes

    def __call__(self, xp: ArrayModule, operands: list[Any], contract: Any) -> None:
        picked = [tidy(xp, operands.pop(i)) for i, tidy in zip(self.positions, self.tidies)]
        if self.join is None:
            operands.append(xp.transpose(picked[0], self.axes))
        elif contract is not None and type(self.join) is Contract:
            operands.append(contract(*picked, self.join))
        else:
            operands.append(self.join(xp, *picked))


def letter_places(term: str, wanted: str) -> Axes:
    return tuple(map(term.index, wanted))


def _tidy(term: str, keep: str) -> tuple[Tidy, str]:
    diagonals = []
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            diagonals.append((first, second))
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    summed = tuple(i for i, letter in enumerate(term) if letter not in keep)
    return Tidy(tuple(diagonals), summed), "".join(x for x in term if x in keep)


def join_step(a: str, b: str, keep: str, last: bool, sizes: dict[str, int]) -> tuple[Any, str]:
    """Plans the product of two operands whose axes are tidied; returns it and its term."""
    batch = "".join(x for x in a if x in b and x in keep)
    summed = "".join(x for x in a if x in b and x not in keep)
    rows = "".join(x for x in a if x not in b)
    columns = "".join(x for x in b if x not in a)
    made = batch + rows + columns
    out = keep if last else made

    def size(term: str) -> int:
        return prod(map(sizes.__getitem__, term))

    if not summed:
        at = [tuple(slice(None) if x in term else None for x in out) for term in (a, b)]
        own = ["".join(x for x in out if x in term) for term in (a, b)]
        shape = tuple(map(sizes.__getitem__, out))
        matrices = None
        if own == [out[: len(a)], out[: len(batch)] + out[len(a) :]]:
            stack = shape[: len(batch)]
            matrices = (*stack, size(rows), 1), (*stack, 1, size(columns))
        places = letter_places(a, own[0]), at[0], letter_places(b, own[1]), at[1]
        return Multiply(*places, shape, matrices), out

    stack = tuple(map(sizes.__getitem__, batch))
    plan = Contract(
        x_axes=letter_places(a, batch + rows + summed),
        x_shape=(*stack, size(rows), size(summed)),
        y_axes=letter_places(b, batch + summed + columns),
        y_shape=(*stack, size(summed), size(columns)),
        shape=tuple(map(sizes.__getitem__, made)),
        axes=letter_places(made, out),
        terms=(a, b, out),
    )
    return plan, out


@lru_cache(maxsize=4096)
def plan(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[EinsumStep, ...]:
    """Returns the steps that compute an einsum of operands of these shapes."""
    terms, out = split(subscripts)
    sizes = dict(zip("".join(terms), chain.from_iterable(shapes)))
    path: Sequence[Sequence[int]] = [range(len(terms))]
    if len(terms) > 2:
        # Imported here: it takes longer to import than the rest of functensor.
        from opt_einsum import contract_path  # type: ignore[import-untyped]

        path, _ = contract_path(subscripts, *shapes, shapes=True, optimize="auto")
    steps = []
    for group in path:
        waiting = sorted(group, reverse=True)
        while waiting:
            positions, waiting = waiting[:2], waiting[2:]
            picked = [terms.pop(i) for i in positions]
            last = not terms
            if last and len(picked) > 1 and out and out[-1] in picked[0]:
                # The operand that has the output's last axis goes second: its columns end there.
                picked.reverse()
                positions = [positions[1], positions[0] - 1]
            keep = out if last else "".join(dict.fromkeys("".join(terms) + out))
            tidied = [
                _tidy(term, keep + "".join(picked[:i] + picked[i + 1 :]))
                for i, term in enumerate(picked)
            ]
            join, term = None, tidied[0][1]
            if len(picked) > 1:
                join, term = join_step(tidied[0][1], tidied[1][1], keep, last, sizes)
            axes = letter_places(term, out) if last else tuple(range(len(term)))
            steps.append(EinsumStep(tuple(positions), tuple(t for t, _ in tidied), join, axes))
            terms.append(term)
            if waiting:
                waiting = [len(terms) - 1, *waiting]
    return tuple(steps)


class SoleContract(NamedTuple):
    """The plan of NumPy's arrays whose only step is a `Contract`; None for what changes nothing."""

    turned: bool
    x_axes: Axes | None
    x_shape: Shape | None
    y_axes: Axes | None
    y_shape: Shape | None
    shape: Shape | None
    axes: Axes | None

    def __call__(self, x: Buffer, y: Buffer) -> Buffer:
        turned, x_axes, x_shape, y_axes, y_shape, shape, axes = self
        if turned:
            x, y = y, x
        if x_axes is not None:
            x = x.transpose(x_axes)
        if x_shape is not None:
            x = x.reshape(x_shape)
        if y_axes is not None:
            y = y.transpose(y_axes)
        if y_shape is not None:
            y = y.reshape(y_shape)
        out: Buffer = product(x, y)
        if shape is not None:
            out = out.reshape(shape)
        return out if axes is None else out.transpose(axes)


@lru_cache(maxsize=4096)
def sole_contract(subscripts: str, x_shape: Shape, y_shape: Shape) -> SoleContract | None:
    """Returns the plan of two operands as one call, where it is one product of matrices."""
    (step,) = plan(subscripts, (x_shape, y_shape))
    way = step.join
    if type(way) is not Contract or any(t.diagonals or t.summed for t in step.tidies):
        return None
    # A step takes its first operand off a list of both.
    turned = step.positions[0] == 1
    x_given, y_given = (y_shape, x_shape) if turned else (x_shape, y_shape)
    x_moved, y_moved = in_axes_order(x_given, way.x_axes), in_axes_order(y_given, way.y_axes)
    made = (*way.x_shape[:-1], way.y_shape[-1])
    return SoleContract(
        turned,
        unless_in_order(way.x_axes),
        None if way.x_shape == x_moved else way.x_shape,
        unless_in_order(way.y_axes),
        None if way.y_shape == y_moved else way.y_shape,
        None if way.shape == made else way.shape,
        unless_in_order(way.axes),
    )


def in_axes_order(shape: Shape, axes: Axes) -> Shape:
    """Returns a shape with its axes in another order."""
    return tuple([shape[axis] for axis in axes])


def unless_in_order(axes: Axes) -> Axes | None:
    """Returns axes; None where each is at its place."""
    return None if axes == tuple(range(len(axes))) else axes


def compute(xp: ArrayModule, *operands: Any, subscripts: str, contract: Any = None) -> Buffer:
    """Returns an einsum of an array module's arrays and of numbers.

    If it is given, ``contract(x, y, way)`` contracts two operands in place of a `Contract`.
    """
    if xp is np and contract is None and len(operands) == 2:
        x, y = operands
        if type(x) is type(y) is np.ndarray:
            way = sole_contract(subscripts, x.shape, y.shape)
            if way is not None:
                return way(x, y)
    values = [x if hasattr(x, "ndim") else xp.asarray(x) for x in operands]
    steps = plan(subscripts, tuple([x.shape for x in values]))
    if len(values) > 1 and (len(steps) > 1 or any(tidy.summed for tidy in steps[0].tidies)):
        values = of_one_dtype(values)
    for step in steps:
        step(xp, values, contract)
    return values[0]


def of_one_dtype(values: list[Any]) -> list[Any]:
    """Returns operands in the dtype of the result: sums of one alone may be too large for its own.

    The sum of a mask would be a mask.
    """
    first = values[0].dtype
    if all(x.dtype == first for x in values):
        return values
    wide = np.result_type(*[x.dtype for x in values])
    return [x if x.dtype == wide else x.astype(wide) for x in values]
