"""The names of what loops and branches run: their programs, and the inputs and outputs of those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..control.call import ControlCall
from ..control.scan_rules import ScanCall
from ..control.while_rules import WhileCall
from ..programs.program import Equation, type_of

__all__ = ["BodyNames", "body_names", "control_title"]


class BodyNames(NamedTuple):
    """The name of a body, and those of its inputs and outputs."""

    title: str
    inputs: list[str]
    outputs: list[str]


def control_title(call: ControlCall) -> str:
    """Returns the title of a loop or a branch: its name, and how often it runs."""
    if isinstance(call, ScanCall):
        return f"{call.name}, {times(call.length)}"
    if isinstance(call, WhileCall) and call.max_steps is not None:
        return f"{call.name}, at most {times(call.max_steps)}"
    return call.name


def times(trips: int) -> str:
    """Returns how often a body runs, in words."""
    return "once" if trips == 1 else f"{trips} times"


def body_names(equation: Equation) -> list[BodyNames]:
    """Returns the names of the bodies of a loop or a branch, in their order."""
    call = equation.primitive
    if isinstance(call, ScanCall):
        body = call.body
        shared = len(body.inputs) - call.carries - call.slices
        inputs = numbered(carry=call.carries, slice=call.slices, shared=shared)
        stacked = call.added - call.carries
        outputs = numbered(carry=call.carries, stacked=stacked, summed=call.sums)
        return [BodyNames("body", inputs, outputs)]
    if isinstance(call, WhileCall):
        carries = call.carries
        parts = []
        for title, program in (("condition", call.condition), ("body", call.body)):
            inputs = numbered(carry=carries, shared=len(program.inputs) - carries)
            parts.append((title, inputs))
        (first, given), (second, taken) = parts
        return [
            BodyNames(first, given, ["continue"]),
            BodyNames(second, taken, numbered(carry=carries)),
        ]
    titles: Sequence[Any] = range(len(call.bodies))
    if len(call.bodies) == 2 and type_of(equation.operands[0]).dtype == bool:
        titles = (False, True)
    return [
        BodyNames(
            f"branch {title}",
            numbered(operand=len(body.inputs)),
            numbered(result=len(body.outputs)),
        )
        for title, body in zip(titles, call.bodies, strict=True)
    ]


def numbered(**counts: int) -> list[str]:
    """Returns names with their numbers: a name alone where there is only one of it.

    >>> numbered(carry=1, slice=2)
    ['carry', 'slice 0', 'slice 1']
    """
    names = []
    for name, count in counts.items():
        names += [name] if count == 1 else [f"{name} {i}" for i in range(count)]
    return names
