"""Tests of labels that machine code reads, with errors that tell the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cross_entropy import check_labels

if TYPE_CHECKING:
    from .annotations import EquationLike
    from .codegen.source import Source

__all__ = ["LabelRead", "write_label_tests"]


class LabelRead(NamedTuple):
    """Labels that an equation reads.

    Attributes:
        operand: the number of the operand, or the operand itself.
        classes: the number of classes.
        equation: the equation.
    """

    operand: Any
    classes: int
    equation: EquationLike


def write_label_tests(
    source: Source, reads: Sequence[LabelRead], shown: Callable[[Any], str], indent: str = ""
) -> None:
    """Writes the tests of labels; an error of one tells the line of the equation that reads them.

    Args:
        source: where they are written.
        reads: the labels.
        shown: returns the text of an operand.
        indent: stands before each line.
    """
    for operand, classes, equation in reads:
        check = source.bind(check_labels)
        source.add(f"{indent}{check}({shown(operand)}, {classes})", equation)
