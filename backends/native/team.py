"""Threads that share the work of one function of machine code, with no Python between them.

The thread that runs the function enters a piece of work in the team's memory: a function, its
arguments, and the number of its parts. It takes parts itself until none is left, and waits for those
that others have taken. Helpers look for pieces of work until the function ends. A hand-off takes
less than a microsecond that way; by the interpreter's threads it takes tens of them.
"""

from __future__ import annotations

import platform
from functools import cache

from .array_objects import OBJECT_HEADER
from .entry import ObjectsCall, objects_call
from .instructions import Lines
from .machine import ARM, machine_code
from .printer import Module

__all__ = ["TEAM_BYTES", "close_at_ends", "serve", "shared_call"]

# The bytes between the parts of the team's memory, so that no two share a line of a cache.
APART = 128
# The claim has a number of 32 bits that tells pieces of work apart, the count of parts, and the
# number of the next part; 16 bits for each of these.
CLAIM, FINISHED, CLOSED, FUNCTION, ARGUMENTS = (APART * i for i in range(5))
TEAM_BYTES = 5 * APART
MOST_PARTS = (1 << 16) - 1
# A helper that has looked for work so often, for a millisecond or more, does not wait for the end.
MOST_LOOKS = 30_000
PAUSES = {True: ("llvm.aarch64.hint", "i32 1"), False: ("llvm.x86.sse2.pause", "")}

TAKE_TEXT = f"""
define internal i1 @team_take(ptr %team) noinline {{
  %claim = load atomic i64, ptr %team acquire, align 8
  %number = and i64 %claim, {MOST_PARTS}
  %above = lshr i64 %claim, 16
  %parts = and i64 %above, {MOST_PARTS}
  %more = icmp ult i64 %number, %parts
  br i1 %more, label %some, label %none
some:
  %function_place = getelementptr i8, ptr %team, i64 {FUNCTION}
  %function = load atomic ptr, ptr %function_place monotonic, align 8
  %arguments_place = getelementptr i8, ptr %team, i64 {ARGUMENTS}
  %arguments = load atomic ptr, ptr %arguments_place monotonic, align 8
  %next = add i64 %claim, 1
  %pair = cmpxchg ptr %team, i64 %claim, i64 %next acq_rel monotonic, align 8
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %run, label %again
run:
  call void %function(ptr %arguments, i64 %number)
  %finished = getelementptr i8, ptr %team, i64 {FINISHED}
  %before = atomicrmw add ptr %finished, i64 1 release, align 8
  br label %again
again:
  ret i1 true
none:
  ret i1 false
}}"""

SHARE_TEXT = """
define internal void @team_share(ptr %team, ptr %function, ptr %arguments, i64 %parts) noinline {{
  %function_place = getelementptr i8, ptr %team, i64 {function}
  store atomic ptr %function, ptr %function_place monotonic, align 8
  %arguments_place = getelementptr i8, ptr %team, i64 {arguments}
  store atomic ptr %arguments, ptr %arguments_place monotonic, align 8
  %finished = getelementptr i8, ptr %team, i64 {finished}
  store atomic i64 0, ptr %finished monotonic, align 8
  %old = load atomic i64, ptr %team monotonic, align 8
  %piece = lshr i64 %old, 32
  %next_piece = add i64 %piece, 1
  %high = shl i64 %next_piece, 32
  %middle = shl i64 %parts, 16
  %claim = or i64 %high, %middle
  store atomic i64 %claim, ptr %team release, align 8
  br label %work
work:
  %took = call i1 @team_take(ptr %team)
  br i1 %took, label %work, label %wait
wait:
  %done = load atomic i64, ptr %finished acquire, align 8
  %all = icmp eq i64 %done, %parts
  br i1 %all, label %end, label %pause
pause:
  call void @{pause}({given})
  br label %wait
end:
  ret void
}}"""

SERVE_TEXT = """
define i64 @team_serve(ptr %objects) {{
entry:
  %object = load ptr, ptr %objects
  %data_place = getelementptr i8, ptr %object, i64 {data}
  %team = load ptr, ptr %data_place
  %closed_place = getelementptr i8, ptr %team, i64 {closed}
  br label %look
look:
  %looks = phi i64 [ 0, %entry ], [ 0, %work ], [ %more_looks, %idle ]
  %closed = load atomic i64, ptr %closed_place acquire, align 8
  %open = icmp eq i64 %closed, 0
  br i1 %open, label %work, label %end
work:
  %took = call i1 @team_take(ptr %team)
  br i1 %took, label %look, label %idle
idle:
  call void @{pause}({given})
  %more_looks = add i64 %looks, 1
  %waits = icmp slt i64 %more_looks, {looks}
  br i1 %waits, label %look, label %end
end:
  ret i64 0
}}"""


def pause() -> tuple[str, str]:
    """Returns the function by which a thread waits for a moment, and what it takes."""
    return PAUSES[platform.machine().lower() in ARM]


def pause_declaration() -> str:
    """Returns its declaration."""
    name, given = pause()
    return f"declare void @{name}({given.split(' ')[0]})"


def shared_call(
    lines: Lines, module: Module, team: str, function: str, arguments: str, parts: int
) -> None:
    """Writes the call of a function for each of its parts, which a team shares.

    Args:
        lines: where it is written.
        module: takes the team's functions.
        team: the name of the address of the team's memory.
        function: the name of a function of the address of its arguments and the number of a part.
        arguments: the name of that address.
        parts: how many parts there are.
    """
    name, given = pause()
    places = {"function": FUNCTION, "arguments": ARGUMENTS, "finished": FINISHED}
    module.declared[name] = pause_declaration()
    module.functions["team_take"] = TAKE_TEXT
    module.functions["team_share"] = SHARE_TEXT.format(pause=name, given=given, **places)
    lines.add(
        f"call void @team_share(ptr {team}, ptr @{function}, ptr {arguments}, i64 {parts})"
    )


def close_at_ends(lines: Lines, object_place: int) -> None:
    """Writes before each end of a function that its helpers need not look for work any more.

    Args:
        lines: the function, which takes ``%objects``, the addresses of array objects.
        object_place: the number of that of the team's memory.
    """
    found = [lines.text[0]]
    found += [
        f"  %team_place = getelementptr ptr, ptr %objects, i64 {object_place}",
        "  %team_object = load ptr, ptr %team_place, align 8",
        f"  %team_data = getelementptr i8, ptr %team_object, i64 {OBJECT_HEADER}",
        "  %team = load ptr, ptr %team_data, align 8",
        f"  %team_closed = getelementptr i8, ptr %team, i64 {CLOSED}",
    ]
    for line in lines.text[1:]:
        if line.startswith("  ret "):
            found.append("  store atomic i64 1, ptr %team_closed release, align 8")
        found.append(line)
    lines.text[:] = found


@cache
def serve() -> ObjectsCall:
    """Returns what a helper calls with a team's memory, an array: it works until there is an end."""
    name, given = pause()
    text = SERVE_TEXT.format(
        pause=name, given=given, data=OBJECT_HEADER, closed=CLOSED, looks=MOST_LOOKS
    )
    code = machine_code("\n".join([pause_declaration(), TAKE_TEXT, text]), ["team_serve"])
    return objects_call(code, "team_serve", 1)

