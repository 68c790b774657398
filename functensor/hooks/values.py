"""The plain arrays behind the values that hooks see, under whatever transformations these are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.devices import backend_of, device_of, to_host
from ..backends.finiteness import has_infinity, has_nan
from ..primitives.core.array import Array, Tracer, concrete
from ..primitives.core.buffers import BUFFER_TYPES, owned, wrap
from ..primitives.core.errors import describe
from ..primitives.core.python_numbers import BASES, as_python_number
from ..traces.batch import BatchTracer

if TYPE_CHECKING:
    from ..backends.annotations import Buffer
    from ..primitives.core.annotations import Value

__all__ = [
    "Range", "examples_in", "levels_of", "magnitudes", "output_cotangents", "plain_value",
    "plain_values_of", "tangents_of", "value", "wait_for",
]  # fmt: skip


def levels_of(x: Any) -> Iterator[Any]:
    """Yields a value and the values that it stands for at the levels below."""
    while isinstance(x, Tracer):
        yield x
        if x.owner.standing:
            return
        x = None if x.owner.staging else getattr(x, "value", None)
    yield x


def plain_values_of(x: Value | None) -> Iterator[Any]:
    """Returns the buffer of a value, if there is one already."""
    for level in levels_of(x):
        if type(level) is Array or (isinstance(level, Tracer) and level.owner.standing):
            yield level._data
        elif type(level) in BUFFER_TYPES or type(level) in BASES:
            yield as_python_number(level)


def tangents_of(x: Value | None) -> Iterator[Any]:
    """Returns the buffers of a value's tangents, at all levels."""
    for level in levels_of(x):
        tangent = getattr(level, "tangent", None)
        yield from plain_values_of(tangent)
        if tangent is not None:
            yield from tangents_of(tangent)


def plain_value(x: Value | None) -> Any:
    """Returns the buffer of a value, batch axes in front; None while a program is staged."""
    return next(plain_values_of(x), None)


def value(x: Value) -> Array:
    """Returns the plain array behind a value that a hook is shown.

    Under ``vmap`` it has the axes of the batches in front, the outermost first, if it depends on
    the example. Nothing flows back through it.

    Args:
        x: an array, a traced value or a number.

    Raises:
        ConcretizationError: there is no value yet, while a program is staged.

    >>> import functensor as ft, functensor.numpy as np
    >>> def largest(op, inputs, output):
    ...     print(op.name, np.max(ft.hooks.value(output)))
    >>> with ft.hooks.use(ft.hooks.FnHook(forward=largest)):
    ...     _ = ft.vmap(np.square)(np.array([1.0, -3.0]))
    square 9.0
    """
    if type(x) is Array:
        return x
    found = plain_value(x)
    return wrap(owned(concrete(x, "hooks.value()") if found is None else found))


class Range:
    """The words that messages have for a value, also when it is gone.

    Attributes:
        words: its type and the range of its numbers.
        bad: what it has of NaN and infinity, one of each.
    """

    __slots__ = ("bad", "words")

    def __init__(self, x: Value) -> None:
        x = as_python_number(x)
        numbers = [np.asarray(to_host(buffer)).reshape(-1) for buffer in plain_values_of(x)]
        known = numbers[-1] if numbers else np.zeros(0)
        if known.dtype.kind == "c":
            known = np.abs(known)
        elif known.dtype.kind == "O":
            # A whole number of Python's that takes more than 64 bits.
            known = known.astype(np.float64)
        finite = known[np.isfinite(known)]
        self.words = describe(x)
        if finite.size:
            self.words += f" from {finite.min():.6g} to {finite.max():.6g}"
            missing = known.size - finite.size
            if missing:
                self.words += f", {missing} of {known.size} not finite"
        tests = ((np.nan, has_nan), (np.inf, has_infinity))
        self.bad = [number for number, test in tests if any(map(test, numbers))]


def examples_in(x: Value | None) -> int:
    """Returns how many examples of ``vmap`` a value holds, those of all batch axes."""
    return prod(level.owner.size for level in levels_of(x) if isinstance(level, BatchTracer))


def output_cotangents(grad_output: Any) -> Sequence[Any]:
    """Returns the cotangents of an operation's outputs, of which hooks are shown one alone."""
    return grad_output if isinstance(grad_output, tuple) else (grad_output,)


def magnitudes(buffer: Buffer) -> np.ndarray:
    """Returns the numbers of a buffer in one row, as float64; of complex ones the magnitude."""
    x = np.asarray(to_host(buffer)).reshape(-1)
    # A dtype that NumPy does not know, bfloat16, converts to those that it knows.
    return np.abs(x).astype(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)


def wait_for(values: Iterable[Value | None]) -> None:
    """Waits until the devices have computed values; those in the memory of the CPU are there."""
    buffers = [buffer for x in values for buffer in plain_values_of(x)]
    for name, buffer in {device_of(b): b for b in buffers if type(b) is not np.ndarray}.items():
        backend = backend_of(buffer)
        with backend.current(name):
            backend.synchronize()
