"""The choices for machine code that earlier processes have made, on the disk beside its plans.

A file has the keys of the plans that were chosen. It is found by a short text of a program, which
others may share, so that a first call of a program that none is known of waits for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from ..backends.native.object_cache import CHOSEN_PLANS, user_cache

if TYPE_CHECKING:
    from ..programs.program import Program

__all__ = ["chosen_keys", "note_choice"]

# The plans that were chosen last, of programs with the same text.
MOST_KEYS = 16


def chosen_keys(program: Program) -> list[str]:
    """Returns the keys of plans of machine code that were chosen, for programs like one."""
    contents = user_cache().get(short_name(program), CHOSEN_PLANS)
    return [] if contents is None else contents.decode().split()


def note_choice(program: Program, key: str) -> None:
    """Notes that machine code was chosen for a program, whose plan is kept by a key."""
    known = [other for other in chosen_keys(program) if other != key]
    contents = " ".join([key, *known[: MOST_KEYS - 1]])
    user_cache().put(short_name(program), contents.encode(), CHOSEN_PLANS)


def short_name(program: Program) -> str:
    """Returns a name that few programs share."""
    types = [(x.type.dtype.char, x.type.shape) for x in program.inputs]
    about = program.name, types, len(program.equations), len(program.outputs)
    return f"{crc32(repr(about).encode()):08x}"
