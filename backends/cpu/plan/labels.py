"""Tests of labels and indices that machine code reads, with errors that tell the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..cross_entropy import check_labels

if TYPE_CHECKING:
    from .annotations import EquationLike
    from .codegen.source import Source

__all__ = ["LabelRead", "check_read", "write_label_tests"]


class LabelRead(NamedTuple):
    """Labels or indices that an equation reads.

    Attributes:
        operand: the number of the operand, or the operand itself.
        low, end: the smallest number, and the one behind the largest.
        equation: the equation.
        axis: the axis that indices are for; None for labels.
    """

    operand: Any
    low: int
    end: int
    equation: EquationLike
    axis: int | None = None


def write_label_tests(
    source: Source, reads: Sequence[LabelRead], shown: Callable[[Any], str], indent: str = ""
) -> None:
    """Writes the tests of labels and indices, whose errors tell the line of who reads them.

    Args:
        source: where they are written.
        reads: the labels and indices.
        shown: returns the text of an operand.
        indent: stands before each line.
    """
    for operand, _, end, equation, axis in reads:
        check = source.bind(check_labels if axis is None else check_indices)
        rest = "" if axis is None else f", {axis}"
        source.add(f"{indent}{check}({shown(operand)}, {end}{rest})", equation)


def check_read(read: LabelRead, found: Any) -> None:
    """Tests labels or indices, of the equation that reads them.

    Raises:
        IndexError: one is out of bounds.
    """
    if read.axis is None:
        check_labels(found, read.end)
    else:
        check_indices(found, read.end, read.axis)


def check_indices(indices: Any, length: int, axis: int) -> None:
    """Tests indices along an axis of some length.

    Raises:
        IndexError: one is out of bounds; the error is NumPy's own.
    """
    array = np.asarray(indices).astype(np.int64, copy=False)
    if array.size and not (-length <= array.min() and array.max() < length):
        like = np.broadcast_to(np.int8(0), (*(1,) * axis, length))
        key: Any = (*(slice(None),) * axis, array)
        like[key]
