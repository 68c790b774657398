"""Runs equations of a segment by NumPy, where machine code of it failed: one of them raises."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..codegen.operands import constant, is_variable
from ..labels import check_read
from .layouts import identity_of

if TYPE_CHECKING:
    from ..annotations import EquationLike, VariableLike
    from ..labels import LabelRead

__all__ = ["check_computed", "equations_needed", "run_with_operands", "runs_on_buffers"]


def runs_on_buffers(equation: EquationLike) -> bool:
    """Says whether an equation is a primitive, or a region of those."""
    return equation.primitive.impl is not None or equation.primitive.fused


def compute_again(
    wanted: Iterable[VariableLike], before: Sequence[EquationLike], known: dict[Any, Any]
) -> None:
    """Computes variables, by the equations that make them and their operands.

    Args:
        wanted: the variables.
        before: the equations that there are, in order.
        known: the buffers that are there, by what they are; results are added.
    """
    needed = equations_needed(wanted, before, known)
    for equation in needed:
        run_on_known(equation, known)


def equations_needed(
    wanted: Iterable[VariableLike], before: Sequence[EquationLike], known: Collection[Any] = ()
) -> list[EquationLike]:
    """Returns the equations that make variables and the operands of these, in order.

    Args:
        wanted: the variables.
        before: the equations that there are, in order.
        known: what need not be made.
    """
    found: list[EquationLike] = []
    values = set(wanted)
    for equation in reversed(before):
        if any(x in values and x not in known for x in equation.outputs):
            found.append(equation)
            values.update(filter(is_variable, equation.operands))
    return found[::-1]


def run_with_operands(
    wanted: EquationLike, objects: Sequence[Any], there: Sequence[EquationLike],
    arrays: Sequence[Any],
) -> None:  # fmt: skip
    """Runs an equation, and those before it that make its operands.

    Args:
        wanted: the equation.
        objects: the variables and constants of other places.
        there: the equations that there are, in order.
        arrays: the buffers of the objects, and others behind them.
    """
    known: dict[Any, Any] = dict(zip(map(identity_of, objects), arrays))
    compute_again(filter(is_variable, wanted.operands), there, known)
    run_on_known(wanted, known)


def check_computed(
    read: LabelRead, objects: Sequence[Any], there: Sequence[EquationLike], arrays: Sequence[Any]
) -> None:
    """Tests labels that are computed, once they are computed again.

    Args:
        read: the labels.
        objects, there, arrays: as `run_with_operands` takes them.
    """
    known: dict[Any, Any] = dict(zip(map(identity_of, objects), arrays))
    compute_again([read.operand], there, known)
    check_read(read, known[read.operand])


def run_on_known(equation: EquationLike, known: dict[Any, Any]) -> None:
    """Runs an equation on buffers by what they are; results are added."""
    buffers = [known[x] if is_variable(x) else constant(x) for x in equation.operands]
    primitive = equation.primitive
    if primitive.impl is None:
        outs = primitive.on_buffers(buffers)
    else:
        outs = [primitive.impl(*buffers, **equation.params)]
    known.update(zip(equation.outputs, outs))
