"""Code of functions: its instructions, and the cells of the variables that it closes over.

Python says nowhere whether a result is dropped, stored in ``buf[i]`` or taken by ``+=``. The
caller's bytecode does, and errors for code that was written for mutable arrays depend on it. Python
says nowhere either whether two functions do the same: their code and closures do. This is the one
module that reads instructions. Their names and places in the code belong to a version of CPython.
With an unknown one such an error may be missed, and the write of a library lost:
``tests/core/test_augmented_assignment.py`` and ``test_array_api.py`` run such libraries.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

__all__ = [
    "assigned_names", "closed_over", "compares_with_none", "does_nothing", "drops_result",
    "is_filled", "reads_after", "reads_item", "stores_globals", "stores_item", "written_names",
]  # fmt: skip

# Since Python 3.12 an assignment to a slice with a colon is an instruction of its own.
STORES = frozenset({"STORE_SUBSCR", "STORE_SLICE"})
# Python 3.14 writes a subscript as an operator, which its argument names.
SUBSCRIPT = list(dis.get_instructions(lambda x, i: x[i]))[-2]
# Attributes that a write to the elements does not change.
TYPE_ATTRIBUTES = frozenset({"device", "dtype", "ndim", "shape", "size"})
NOTHING = (lambda g: None).__code__


def does_nothing(function: Callable[..., Any]) -> bool:
    """Says whether a function is written as one that only returns None, like ``lambda g: None``."""
    code = function.__code__
    return code.co_code == NOTHING.co_code and code.co_consts == (None,)


def stores_item(frame: FrameType) -> bool:
    """Says whether a frame is at an assignment to an item or a slice, ``buf[i] = x``."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in STORES


def reads_item(frame: FrameType) -> bool:
    """Says whether a frame is at a subscript that is read, ``buf[i]``."""
    instruction, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return instruction == SUBSCRIPT.opcode and argument == (SUBSCRIPT.arg or 0)


def drops_result(frame: FrameType) -> bool:
    """Says whether a frame pops the result of the call that it is at."""
    code = frame.f_code.co_code
    position = frame.f_lasti + 2
    while position < len(code) and dis.opname[code[position]] == "CACHE":
        position += 2
    return position < len(code) and dis.opname[code[position]] == "POP_TOP"


def compares_with_none(frame: FrameType) -> bool:
    """Says whether a frame is where a value is read to ask whether it is None.

    So are ``x.grad is None``, and ``g = x.grad`` with ``if g is None`` as the next statement.
    """
    return asks_for_none(frame.f_code, frame.f_lasti)


@lru_cache(256)
def asks_for_none(code: CodeType, at: int) -> bool:
    """Says whether the instructions behind an offset compare what is read there with None."""
    steps = list(dis.get_instructions(code))
    place = next(i for i, step in enumerate(steps) if step.offset >= at)
    stored = set()
    for step, following in zip(steps[place + 1 : place + 6], steps[place + 2 : place + 7]):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if "IF_NONE" in step.opname or "IF_NOT_NONE" in step.opname:
            return True
        if step.opname == "LOAD_CONST":
            return step.argval is None and following.opname == "IS_OP"
        if step.opname.startswith("STORE_"):
            stored |= set(names)
        elif step.opname not in ("COPY", "NOP") and not (
            step.opname.startswith("LOAD_") and stored.issuperset(names)
        ):
            return False
    return False


@lru_cache(256)
def reads_after(code: CodeType, at: int) -> tuple[str, frozenset[str]]:
    """Returns the variable that the instruction at an offset goes to, and those read afterwards.

    A variable counts as read if it is read before it is assigned to, in the order of the code; at
    the end of a loop around the offset the loop begins anew.
    """
    steps = list(dis.get_instructions(code))
    place = next(i for i, step in enumerate(steps) if step.offset >= at)
    rest = steps[place + 1 :]
    starts = [s.argval for s in rest if "JUMP_BACKWARD" in s.opname and s.argval <= at]
    if starts:
        rest = rest + [s for s in steps[:place] if s.offset >= min(starts)]
    store = next((s for s in rest if s.opname.startswith("STORE_")), None)
    if store is None or "FAST" not in store.opname:
        return "", frozenset()
    target = store.argval[0] if isinstance(store.argval, tuple) else store.argval
    first: dict[str, str] = {}
    for step, following in zip(rest, [*rest[1:], rest[-1]], strict=True):
        asks_type = following.opname == "LOAD_ATTR" and following.argval in TYPE_ATTRIBUTES
        if asks_type and "LOAD" in step.opname:
            continue
        words = [word for word in step.opname.split("_") if word in ("LOAD", "STORE", "DELETE")]
        if "FAST" not in step.opname and "DEREF" not in step.opname:
            continue
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        for word, name in zip(words, names, strict=False):
            first.setdefault(name, word)
    return target, frozenset(name for name, word in first.items() if word == "LOAD")


def is_filled(cell: CellType) -> bool:
    """Says whether a variable of a closure has a value yet."""
    try:
        cell.cell_contents  # noqa: B018 - it raises where there is none
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def stores_globals(code: CodeType) -> bool:
    """Says whether a function, or one within it, assigns to globals."""
    if any(step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in dis.get_instructions(code)):
        return True
    return any(stores_globals(x) for x in code.co_consts if isinstance(x, CodeType))


@lru_cache(maxsize=1024)
def assigned_names(code: CodeType) -> frozenset[str]:
    """Returns the variables of outer functions that a function, or one within it, assigns to."""
    steps = dis.get_instructions(code)
    stored = {step.argval for step in steps if step.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = [assigned_names(x) for x in code.co_consts if isinstance(x, CodeType)]
    return frozenset(code.co_freevars).intersection(stored.union(*inner))


@lru_cache(maxsize=1024)
def written_names(code: CodeType) -> frozenset[str]:
    """Returns the variables of outer functions to whose elements a function may write.

    So does one within it: ``calls[0] += 1``, ``np.exp(x, out=buf)``, and a call whose result is
    dropped, which is made for what it changes.
    """
    steps = list(dis.get_instructions(code))
    written = set()
    # A subscript begins with the name of what it is one of.
    begun = {span_of(step)[0] for step in steps if step.opname in STORES}
    dropped = [
        span_of(step)
        for step, following in pairwise(steps)
        if step.opname.startswith("CALL") and following.opname == "POP_TOP"
    ]
    for step, following in pairwise(steps):
        if step.opname == "LOAD_DEREF":
            place = span_of(step)[0]
            # Names of keywords follow the last of their values.
            keywords: Any = None
            if following.opname in ("KW_NAMES", "LOAD_CONST"):
                keywords = code.co_consts[following.arg or 0]
            as_out = isinstance(keywords, tuple) and keywords[-1:] == ("out",)
            if as_out or place in begun or any(start <= place < end for start, end in dropped):
                written.add(step.argval)
    inner = [written_names(x) for x in code.co_consts if isinstance(x, CodeType)]
    return frozenset(code.co_freevars).intersection(written.union(*inner))


def span_of(step: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns where what an instruction is for begins, and ends: lines and columns."""
    where = step.positions or dis.Positions()
    start = where.lineno or 0, where.col_offset or 0
    return start, (where.end_lineno or 0, where.end_col_offset or 0)


def closed_over(fun: FunctionType) -> dict[str, Any]:
    """Returns the values that a function closes over, by their variables that have one."""
    found: dict[str, Any] = {}
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        # No call of `is_filled`: gradients and plans look at closures in every call.
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
