"""A hook that prints a line for every operation."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.errors import describe
from ..programs.labels import label
from .hook import Hook
from .operation import Operation
from .values import magnitudes, output_cotangents, plain_value

__all__ = ["PrintHook"]


class PrintHook(Hook):
    """Prints the phase, name, shapes, dtypes and range of every operation, with its line.

    In the backward pass the line shows the cotangent of the output and those of the operands, of
    which it tells the range. Under `vmap` shapes are those of one example, and the range is that of
    all. Where a program is staged there are no values, and the line says so. A range is the
    least, the mean and the greatest finite number, of complex ones the magnitude; what is not
    finite is counted.

    Args:
        summary: whether ranges are printed. They are read from a GPU, which is waited for.
        file: what is printed to; None for what ``sys.stdout`` is at that time.
        every: prints the first operation, and then one of so many.

    Raises:
        ValueError: ``every`` is less than 1.

    >>> import functensor as ft, functensor.numpy as np
    >>> def f(x):
    ...     with ft.scope("layer"):
    ...         return np.sum(np.exp(x))
    >>> with ft.hooks.use(ft.hooks.PrintHook(), match="exp"):
    ...     gradient = ft.grad(f)(np.array([0.0, 1.0]))  # doctest: +ELLIPSIS
    forward exp: float64[2] -> float64[2], 1 to 2.71828, mean 1.85914, in layer at ...
    backward exp: float64[2] -> float64[2], 1 to 2.71828, mean 1.85914, in layer at ...
    """

    def __init__(self, summary: bool = True, file: TextIO | None = None, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"PrintHook prints one of every {every} operations: every=1 for all")
        if file is not None and not hasattr(file, "write"):
            fix = 'open("hooks.txt", "w")'
            raise TypeError(f"PrintHook prints into an open file, not {file!r}: file={fix}")
        self.summary = summary
        self.file = file
        self.every = every
        self._seen = 0
        self._lock = threading.Lock()

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self._print(op, inputs, [output])

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        self._print(op, output_cotangents(grad_output), grad_inputs)

    def _print(self, op: Operation, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Prints an operation, if it is its turn."""
        with self._lock:
            turn = self._seen % self.every == 0
            self._seen += 1
        if not turn:
            return
        words = [f"{op.phase} {label(op.name, op.params)}: {types(given)} -> "]
        words.append(types(made))
        if op.batch_size is not None:
            words.append(f" for each of {op.batch_size:,} examples")
        if self.summary:
            words += [f", {summary(x)}" for x in made if x is not None]
        scope = f", in {op.scope}" if op.scope else ""
        line = f"{'' if scope else ','} at {op.line}" if op.line else ""
        text = "".join([*words, scope, line, "\n"])
        with self._lock:
            (sys.stdout if self.file is None else self.file).write(text)

    def __repr__(self) -> str:
        return f"PrintHook(summary={self.summary}, file={self.file!r}, every={self.every})"


def types(values: Sequence[Any]) -> str:
    """Returns the dtypes and shapes of values; "None" for a cotangent that there is not."""
    return ", ".join("None" if x is None else describe(x) for x in values)


def summary(x: Any) -> str:
    """Returns the range of a value's numbers, in words."""
    buffer = plain_value(x)
    if buffer is None:
        return "staged"
    numbers = magnitudes(buffer)
    finite = numbers[np.isfinite(numbers)]
    nan = int(np.isnan(numbers).sum())
    inf = numbers.size - finite.size - nan
    parts = []
    if not numbers.size:
        parts.append("empty")
    if finite.size:
        mean = finite.mean() if finite.size > 1 else finite[0]
        parts.append(f"{finite.min():.6g} to {finite.max():.6g}, mean {mean:.6g}")
    parts += [f"{count:,} {name}" for count, name in ((nan, "NaN"), (inf, "infinite")) if count]
    return ", ".join(parts)
