"""Kernels as text, for people and tests.

Values are numbered in the order in which they are computed: a fold's value comes behind its loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .kernel import (
    BLOCK_NUMBER,
    Buffer,
    Fold,
    For,
    Index,
    Let,
    Load,
    LoopKernel,
    LoopValue,
    Operand,
    PlaceOf,
    PlaceWithin,
    Statement,
    Store,
    UpdateOf,
)

__all__ = ["KernelNames", "kernel_text", "shown_buffer", "shown_index"]

CONVERSIONS = frozenset({"bits", "cast"})


class KernelNames:
    """The names of a kernel's values: ``v1``, ``v2`` and so on, in order."""

    def __init__(self, body: Sequence[Statement] = ()) -> None:
        self._numbers: dict[LoopValue, int] = {}
        self._add(body)

    def _add(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, For):
                self._add(statement.body)
                for fold in statement.folds:
                    self.of(fold.value)
            elif isinstance(statement, Let | Load | PlaceOf | PlaceWithin):
                self.of(statement.value)

    def of(self, operand: Operand) -> str:
        """Returns the name of a value, or a constant with its dtype."""
        if not isinstance(operand, LoopValue):
            return shown_constant(operand) if isinstance(operand, np.generic) else repr(operand)
        return f"v{self._numbers.setdefault(operand, len(self._numbers) + 1)}"

    def statement(self, statement: Statement) -> str:
        """Returns a statement as one line; of a loop its first line."""
        if isinstance(statement, For):
            return self._loop(statement)
        if isinstance(statement, Load):
            return f"{self.of(statement.value)} = {self._element(statement)}"
        if isinstance(statement, PlaceOf):
            return f"{self.of(statement.value)} = {statement.axis}"
        if isinstance(statement, PlaceWithin):
            number = self.of(statement.operand)
            return f"{self.of(statement.value)} = {number} within {statement.length}"
        if isinstance(statement, Store):
            return f"{self._element(statement)} = {self.of(statement.operand)}"
        if isinstance(statement, UpdateOf):
            element = self._element(statement)
            return f"{element} = {statement.operation}({element}, {self.of(statement.operand)})"
        dtype = f"[{statement.value.dtype}]" if statement.operation in CONVERSIONS else ""
        operands = ", ".join(map(self.of, statement.operands))
        return f"{self.of(statement.value)} = {statement.operation}{dtype}({operands})"

    def fold(self, fold: Fold) -> str:
        """Returns a fold as it stands in its loop's line."""
        folded = " * ".join(map(self.of, fold.operands))
        begin = "" if fold.begin is None else f" from {self.of(fold.begin)}"
        return f"{self.of(fold.value)} = {fold.operation}({folded}){begin}"

    def _element(self, statement: Load | Store | UpdateOf) -> str:
        return f"{statement.buffer.name}[{shown_index(statement.index, self)}]"

    def _loop(self, loop: For) -> str:
        axis = loop.axis
        parts = [f"for {axis} in {'block of ' if axis.block else ''}{axis.extent}"]
        if loop.tile:
            parts.append(f"tiles of {loop.tile}")
        if loop.together != 1:
            parts.append(f"{loop.together} together")
        if loop.lanes != 1:
            parts.append(f"lanes {loop.lanes}")
        if loop.folds:
            parts.append("folding " + ", ".join(map(self.fold, loop.folds)))
        return ", ".join(parts) + ":"


def kernel_text(kernel: LoopKernel) -> str:
    """Returns a kernel as text.

    Args:
        kernel: the kernel.

    Returns:
        A line with its name and buffers, one with its own memory, and its statements. Lines of a
        loop's body are indented by two spaces.

    >>> import numpy as np
    >>> from functensor.backends.kernels.kernel import Buffer, For, Index, Let, Load, LoopAxis
    >>> from functensor.backends.kernels.kernel import LoopKernel, LoopValue, Store
    >>> i, dtype = LoopAxis("i", 100, block=True), np.dtype(np.float32)
    >>> a, b = Buffer("a", dtype, (100,), "in"), Buffer("b", dtype, (100,), "out")
    >>> x, y, index = LoopValue(dtype), LoopValue(dtype), Index([(i, 1)])
    >>> body = [Load(x, a, index), Let(y, "sqrt", [x]), Store(b, index, y)]
    >>> print(kernel_text(LoopKernel("roots", [a, b], [], [For(i, body, lanes=16)])))
    kernel roots(in a: float32[100], out b: float32[100])
    for i in block of 100, lanes 16:
      v1 = a[i]
      v2 = sqrt(v1)
      b[i] = v2
    """
    buffers = ", ".join(f"{buffer.role} {shown_buffer(buffer)}" for buffer in kernel.buffers)
    lines = [f"kernel {kernel.name}({buffers})"]
    lines += [f"scratch {shown_buffer(buffer)}" for buffer in kernel.scratch]
    _add_lines(lines, kernel.body, KernelNames(kernel.body), "")
    return "\n".join(lines)


def _add_lines(
    lines: list[str], body: Sequence[Statement], names: KernelNames, indentation: str
) -> None:
    for statement in body:
        lines.append(indentation + names.statement(statement))
        if isinstance(statement, For):
            _add_lines(lines, statement.body, names, indentation + "  ")


def shown_buffer(buffer: Buffer) -> str:
    """Returns a buffer with its dtype and shape: ``a: float32[64, 128]``."""
    lengths = ["blocks" if n == BLOCK_NUMBER.extent else str(n) for n in buffer.shape]
    kept = f", {buffer.tile} at a time" if buffer.tile else ""
    return f"{buffer.name}: {buffer.dtype}[{', '.join(lengths)}]{kept}"


def shown_index(index: Index, names: KernelNames | None = None) -> str:
    """Returns an index in Python's manner: ``i*128 + j``, with the names of values in it."""
    text = ""
    names = names or KernelNames()
    picks = [(names.of(value), stride) for value, stride in index.picks]
    for name, stride in [*picks, *index.terms]:
        term = f"{name}" if abs(stride) == 1 else f"{name}*{abs(stride)}"
        text = _joined(text, term, stride < 0)
    if index.begin or not text:
        text = _joined(text, str(abs(index.begin)), index.begin < 0)
    return text


def _joined(text: str, term: str, negative: bool) -> str:
    if not text:
        return f"-{term}" if negative else term
    return f"{text} {'-' if negative else '+'} {term}"


def shown_constant(constant: np.generic) -> str:
    """Returns a constant with its dtype: ``float32(0.1)``."""
    number: Any = constant.item()
    if constant.dtype.kind in "fV":
        number = str(constant)
    return f"{constant.dtype}({number})"
