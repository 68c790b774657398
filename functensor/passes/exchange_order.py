"""Checks the order of what several processes do together, which no pass may change."""

from __future__ import annotations

from ..programs.program import Program, ProgramError

__all__ = ["check_exchanges"]


def check_exchanges(before: Program, after: Program) -> None:
    """Checks that a program does what processes do together as another does, in the same order.

    Raises:
        ProgramError: it does not.
    """
    first, second = ([e.outputs for e in p.equations if e.exchanges()] for p in (before, after))
    if first != second:
        raise ProgramError(f"{after.name}: operations of several processes changed their order")
