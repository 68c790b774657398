"""Loops that run plainly: Python's own, on values and on the tracers of derivatives and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..backends.devices import to_host
from ..backends.restoring import quiet
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import WEAK_TYPES, wrap
from ..primitives.core.python_numbers import as_number
from ..primitives.elementwise.cast_and_complex import cast
from ..programs.program import argument_type
from ..random.key_reuse import ledger
from .body import Flat, known
from .carry_types import Carry

__all__ = ["body_step", "holds_anywhere", "scanned", "stacked_steps", "whiled"]


def body_step(carry: Carry, run: Callable[[Values], Values], values: Values, first: bool) -> Values:
    """Runs a loop's body once and returns what it returned, the next carry cast to its types.

    Args:
        carry: what is known of the carry.
        run: runs the body on the carry.
        values: the carry.
        first: whether this is the first step: it is done again with a weak scalar cast to the
            type that comes out.
    """
    count = len(carry.types)
    outs = run(values)
    changed = carry.meet([argument_type(out) for out in outs[:count]])
    while changed and first:
        values = carry.cast(values)
        with ledger.replaying():
            outs = run(values)
        changed = carry.meet([argument_type(out) for out in outs[:count]])
    return [*carry.cast(outs[:count]), *outs[count:]]


def stacked_steps(rows: Sequence[Values]) -> Values:
    """Returns, for every value of a step, those of all steps along a new first axis."""
    out = []
    for column in zip(*rows):
        strong = next((x for x in column if type(x) not in WEAK_TYPES), None)
        if strong is not None:
            # A weak scalar decides no dtype, in whichever step it comes.
            dtype = wrap(strong).dtype
            column = tuple(cast(x, dtype) if type(x) in WEAK_TYPES else x for x in column)
        out.append(ops.stack(column))
    return out


def scanned(
    carry: Carry, body: Flat, xs: Values, length: int, backwards: bool
) -> tuple[Values, list[Values]]:
    """Runs a scan's body for every slice.

    Args:
        carry: the carry to begin with.
        body: takes the carry and a slice of every array, returns the next carry and other values.
        xs: the arrays.
        length: how many slices there are.
        backwards: whether the last slice comes first.

    Returns:
        The last carry, and the other values of every step, in the order of the slices.
    """
    values = carry.leaves
    rows: list[Values] = []
    steps = range(length)
    for number, i in enumerate(reversed(steps) if backwards else steps):
        slices = [ops.index(x, i) for x in xs]

        def run(values: Values, slices: Values = slices) -> Values:
            return body([*map(as_number, values), *slices])

        outs = body_step(carry, run, values, not number)
        values = outs[: len(values)]
        rows.append(outs[len(values) :])
    if backwards:
        rows.reverse()
    return values, rows


def holds_anywhere(holds: Value) -> bool:
    """Says whether a condition holds for any example of the batches at whatever level."""
    while isinstance(holds, Tracer):
        holds = holds.value
    return bool(np.any(to_host(wrap(holds)._data)))


def whiled(carry: Carry, condition: Flat, body: Flat, max_steps: int | None) -> Values:
    """Runs a loop's body as long as the condition, a scalar for the carry, holds.

    Under vmap it runs until the condition holds for no example; those that are done stay.
    """
    values = carry.leaves
    weak = any(x.weak for x in carry.types)
    done = 0

    def step(values: Values) -> Values:
        return body(list(map(as_number, values)))

    active: Array | None = None
    while max_steps is None or done < max_steps:
        (holds,) = condition(list(map(as_number, values)))
        if active is not None or not known(holds):
            active = holds if active is None else ops.logical_and(active, holds)
            if not holds_anywhere(active):
                break
            values = _masked_step(carry, step, values, active, done == 0, weak)
        else:
            if not holds:
                break
            values = body_step(carry, step, values, done == 0)
        done += 1
    return values


def _masked_step(
    carry: Carry, body: Flat, values: Values, active: Array | None, first: bool, weak: bool
) -> Values:
    """Does a step for the examples that are not done."""

    def run(values: Values) -> Values:
        entering = [
            ops.where(active, x, ops.stop_gradient(x))
            if not known(x) and kind.dtype.kind in "fcV"
            else x
            for x, kind in zip(values, carry.types, strict=True)
        ]
        outs = body(entering)
        if weak and not first:
            # What was a weak scalar differs by example now, and decides promotions.
            return [
                cast(out, kind.dtype) if argument_type(out).dtype != kind.dtype else out
                for out, kind in zip(outs, carry.types, strict=True)
            ]
        return outs

    # What finished examples would give is no concern of the user's.
    with quiet():
        outs = body_step(carry, run, values, first)
    types = carry.types
    before = carry.cast(values) if first else values
    return [
        cast(ops.where(active, new, old), kind.dtype)
        for new, old, kind in zip(outs, before, types, strict=True)
    ]
