"""The choices for machine code that earlier processes have made, on the disk beside its plans.

A file has the keys of the plans that were chosen. It is found by a short text of a program, which
others may share, so that a first call of a program that none is known of waits for nothing.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING
from zlib import crc32

from ..backends.native.object_cache import CHOSEN_PLANS, user_cache

if TYPE_CHECKING:
    from ..programs.program import Program

__all__ = ["chosen_keys", "note_choice"]

# The plans that were chosen last, of programs with the same text.
MOST_KEYS = 16
# What a choice is taken by. A fork waits until it is imported: in the child of a fork in the middle
# of an import nobody could import the module.
NEEDED_BY_CHOICES = "hashlib", "..backends.native.machine", "..backends.native.object_loader"
_imports = threading.RLock()


def chosen_keys(program: Program) -> list[str]:
    """Returns the keys of plans of machine code that were chosen, for programs like one."""
    cache, name = user_cache(), short_name(program)
    if cache.folder is None or not os.path.exists(cache.folder / f"{name}{CHOSEN_PLANS}"):
        return []
    with _imports:
        for module in NEEDED_BY_CHOICES:
            import_module(module, __package__)
    contents = cache.get(name, CHOSEN_PLANS)
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


def let_import() -> None:
    """Lets others import again. A fork may have begun before this module was imported."""
    with suppress(RuntimeError):
        _imports.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_imports.acquire, after_in_parent=let_import, after_in_child=let_import
    )
