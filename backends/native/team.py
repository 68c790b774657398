"""Threads that share the work of one function of machine code, with no Python between them.

The thread that runs the function lays its team's memory on a desk, and enters one piece of work
there after the other: a function, its arguments, and the number of its parts. It takes parts itself
until none is left, and waits for those that others have taken. Helpers look for teams on the desk,
and take parts from the last one on, so that a core finds in its cache what it read and wrote in the
call before. A hand-off takes less than a microsecond that way; by the interpreter's threads it
takes tens of them. Helpers look for a while after the last work, so that the next call finds them.

A helper may look at a team's memory at any time. So that memory is never freed. Nobody works on a
part when the function goes on, and whatever a helper reads in between, it takes no part of it.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..processor import ARM
from .array_objects import OBJECT_HEADER, never_freed
from .c_library import c_function
from .desk import (
    APART,
    AWAKE,
    CALLED_AWAY,
    MOST_TEAMS,
    PLACE_OF_PIECES,
    TEAM_PLACES,
    awake,
    desk,
    desk_address,
)
from .entry import ObjectsCall, objects_call
from .machine import FEW_PASSES, machine_code
from .told_flags import flag_texts, flags_told_to, forgotten_flags

if TYPE_CHECKING:
    from .instructions import Lines
    from .printer import Module

__all__ = [
    *("TOLD_PLACE", "Team", "TeamOfPieces", "opened_and_closed", "serve_teams", "server"),
    "shared_call",
]

# The claim has a number of 32 bits that tells pieces of work apart, and where the parts that nobody
# has taken end and begin; 16 bits for each of these. The desk is where the team is to lie, or null;
# the place is that on the desk where it lies, or null. The last word is what the processor has told
# of the arithmetic of parts.
CLAIM_PLACE, FINISHED, DESK, PLACE, FUNCTION, ARGUMENTS_PLACE, TOLD_PLACE = (
    APART * i for i in range(7)
)
MOST_PARTS = (1 << 16) - 1
# A helper looks so often for the next piece of the team of pieces, for two milliseconds or more, so
# often for work of other teams on the desk, for a quarter of that, and so often for another team.
MOST_LOOKS_FOR_PIECES, MOST_LOOKS, MOST_LOOKS_AT_EMPTY = 120_000, 30_000, 3_000
# Who waits for others looks so often, and then lets them have the core: they wait for one.
LOOKS_BEFORE_REST = 3_000
PAUSES = {True: ("llvm.aarch64.hint", "i32 1"), False: ("llvm.x86.sse2.pause", "")}

TAKE_TEXT = """
define internal i1 @team_take(ptr %team, i1 %behind) noinline {{
  %claim = load atomic i64, ptr %team acquire, align 8
  %first = and i64 %claim, {most}
  %above = lshr i64 %claim, 16
  %end = and i64 %above, {most}
  %more = icmp ult i64 %first, %end
  br i1 %more, label %some, label %none
some:
  %function_place = getelementptr i8, ptr %team, i64 {function}
  %function = load atomic ptr, ptr %function_place monotonic, align 8
  %arguments_place = getelementptr i8, ptr %team, i64 {arguments}
  %arguments = load atomic ptr, ptr %arguments_place monotonic, align 8
  %last = sub i64 %end, 1
  %number = select i1 %behind, i64 %last, i64 %first
  %without = select i1 %behind, i64 {without_last}, i64 1
  %next = add i64 %claim, %without
  %pair = cmpxchg ptr %team, i64 %claim, i64 %next acq_rel monotonic, align 8
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %run, label %again
run:
  call void %function(ptr %arguments, i64 %number)
  %told = getelementptr i8, ptr %team, i64 {told}
  {tell}
  %finished = getelementptr i8, ptr %team, i64 {finished}
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
  %took = call i1 @team_take(ptr %team, i1 false)
  br i1 %took, label %work, label %wait
wait:
  %looks = phi i64 [ 0, %work ], [ %more_looks, %short ], [ %more_looks, %long ]
  %done = load atomic i64, ptr %finished acquire, align 8
  %all = icmp eq i64 %done, %parts
  br i1 %all, label %end, label %again
again:
  %more_looks = add i64 %looks, 1
  %soon = icmp slt i64 %looks, {soon}
  br i1 %soon, label %short, label %long
short:
  call void @{pause}({given})
  br label %wait
long:
  {rest}
  br label %wait
end:
  ret void
}}"""

OPEN_TEXT = f"""
define internal void @team_open(ptr %team) noinline {{
  %desk_place = getelementptr i8, ptr %team, i64 {DESK}
  %desk = load ptr, ptr %desk_place, align 8
  %own = getelementptr i8, ptr %team, i64 {PLACE}
  store ptr null, ptr %own, align 8
  %none = icmp eq ptr %desk, null
  br i1 %none, label %end, label %begin
begin:
  %first = getelementptr i8, ptr %desk, i64 {TEAM_PLACES}
  br label %look
look:
  %number = phi i64 [ 0, %begin ], [ %next, %taken ]
  %place = getelementptr ptr, ptr %first, i64 %number
  %pair = cmpxchg ptr %place, ptr null, ptr %team acq_rel monotonic, align 8
  %free = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %free, label %found, label %taken
taken:
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, {MOST_TEAMS}
  br i1 %more, label %look, label %end
found:
  store ptr %place, ptr %own, align 8
  br label %end
end:
  ret void
}}"""

CLOSE_TEXT = f"""
define internal void @team_close(ptr %team) noinline {{
  %own = getelementptr i8, ptr %team, i64 {PLACE}
  %place = load ptr, ptr %own, align 8
  %none = icmp eq ptr %place, null
  br i1 %none, label %end, label %leave
leave:
  store atomic ptr null, ptr %place release, align 8
  br label %end
end:
  ret void
}}"""

SERVE_TEXT = """
define i64 @team_serve(ptr %objects) {{
entry:
  %object = load ptr, ptr %objects
  %data_place = getelementptr i8, ptr %object, i64 {data}
  %desk = load ptr, ptr %data_place
  %awake = getelementptr i8, ptr %desk, i64 {awake}
  %before = atomicrmw add ptr %awake, i64 1 acq_rel, align 8
  {forget}
  %first = getelementptr i8, ptr %desk, i64 {places}
  br label %look
look:
  %looks = phi i64 [ 0, %entry ], [ 0, %worked ], [ %left, %idle ]
  br label %scan
scan:
  %number = phi i64 [ 0, %look ], [ %next, %on ]
  %busy = phi i1 [ false, %look ], [ %lies, %on ]
  %place = getelementptr ptr, ptr %first, i64 %number
  %team = load atomic ptr, ptr %place acquire, align 8
  %empty = icmp eq ptr %team, null
  br i1 %empty, label %on, label %work
work:
  %took = call i1 @team_take(ptr %team, i1 true)
  br i1 %took, label %worked, label %on
worked:
  br label %look
on:
  %lies = phi i1 [ %busy, %scan ], [ true, %work ]
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, {teams}
  br i1 %more, label %scan, label %idle
idle:
  call void @{pause}({given})
  %pieces_place = getelementptr i8, ptr %desk, i64 {pieces}
  %pieces = load atomic ptr, ptr %pieces_place monotonic, align 8
  %no_pieces = icmp eq ptr %pieces, null
  %other_step = select i1 %lies, i64 {slow}, i64 {fast}
  %step = select i1 %no_pieces, i64 %other_step, i64 1
  %left = add i64 %looks, %step
  %waits = icmp slt i64 %left, {looks}
  %called_place = getelementptr i8, ptr %desk, i64 {called}
  %called = load atomic i64, ptr %called_place monotonic, align 8
  %stays = icmp eq i64 %called, 0
  %looks_on = and i1 %waits, %stays
  br i1 %looks_on, label %look, label %end
end:
  %after = atomicrmw sub ptr %awake, i64 1 acq_rel, align 8
  ret i64 0
}}"""


def pause() -> tuple[str, str]:
    """Returns the function by which a thread waits for a moment, and what it takes."""
    return PAUSES[platform.machine().lower() in ARM]


def pause_declaration() -> str:
    """Returns its declaration."""
    name, given = pause()
    return f"declare void @{name}({given.split(' ')[0]})"


def yielding_call() -> str:
    """Returns the call by which a thread lets others have its core, where the system has it."""
    return "%rested = call i32 @sched_yield()" if c_function("sched_yield") else ""


def yielding_declaration() -> dict[str, str]:
    """Returns the declaration of what it calls, by the name."""
    return {"sched_yield": "declare i32 @sched_yield()"} if yielding_call() else {}


def take_texts() -> dict[str, str]:
    """Returns the function by which a thread takes a part of a team's work, and what it calls."""
    take = TAKE_TEXT.format(
        most=MOST_PARTS, function=FUNCTION, arguments=ARGUMENTS_PLACE, finished=FINISHED,
        told=TOLD_PLACE, tell=flags_told_to("%told"), without_last=-(MOST_PARTS + 1),
    )  # fmt: skip
    return {**flag_texts(), "team_take": take}


def shared_call(
    lines: Lines, module: Module, team: str, function: str, arguments: str, parts: int | str
) -> None:
    """Writes the call of a function for each of its parts, which a team shares.

    Args:
        lines: where it is written.
        module: takes the team's functions.
        team: the name of the address of the team's memory.
        function: the name of a function of the address of its arguments and the number of a part.
        arguments: the name of that address.
        parts: how many parts there are; a number, or its name.
    """
    name, given = pause()
    places = {"function": FUNCTION, "arguments": ARGUMENTS_PLACE, "finished": FINISHED}
    module.declared[name] = pause_declaration()
    module.functions.update(take_texts())
    module.functions["team_share"] = SHARE_TEXT.format(
        pause=name, given=given, rest=yielding_call(), soon=LOOKS_BEFORE_REST, **places
    )
    module.declared.update(yielding_declaration())
    lines.add(f"call void @team_share(ptr {team}, ptr @{function}, ptr {arguments}, i64 {parts})")


def opened_and_closed(lines: Lines, module: Module, object_place: int) -> None:
    """Writes that a function's team lies on the desk from its beginning to each of its ends.

    Args:
        lines: the function, which takes ``%objects``, the addresses of array objects.
        module: takes the team's functions.
        object_place: the number of the address of the array that is the team's memory.
    """
    module.functions["team_open"], module.functions["team_close"] = OPEN_TEXT, CLOSE_TEXT
    found = [
        lines.text[0],
        f"  %team_place = getelementptr ptr, ptr %objects, i64 {object_place}",
        "  %team_object = load ptr, ptr %team_place, align 8",
        f"  %team_data = getelementptr i8, ptr %team_object, i64 {OBJECT_HEADER}",
        "  %team = load ptr, ptr %team_data, align 8",
        "  call void @team_open(ptr %team)",
    ]
    for line in lines.text[1:]:
        if line.startswith("  ret "):
            found.append("  call void @team_close(ptr %team)")
        found.append(line)
    lines.text[:] = found


class Team:
    """The memory of a team, which is never freed.

    Attributes:
        memory: the array.
        address: where it lies.
    """

    # Those that nobody uses now.
    idle: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.memory: Any = never_freed(np.zeros((TOLD_PLACE + APART) // 8, np.uintp))
        self.address = int(self.memory.ctypes.data)

    @classmethod
    def taken(cls, helped: bool) -> Self:
        """Returns a team for the next call; ``helped`` says whether helpers may find it."""
        try:
            team: Self = cls.idle.pop()
        except IndexError:
            team = cls()
        team.memory[DESK // 8] = desk_address if helped else 0
        return team

    def give_back(self) -> None:
        """Lets another call have it."""
        self.idle.append(self)


class TeamOfPieces(Team):
    """The team of work that is called from Python piece by piece.

    It stays on the desk after a piece, as long as helpers look for the next one. If several threads
    have pieces at once, helpers find the team of the last one that has begun.
    """

    idle: ClassVar[list[Any]] = []

    def show(self) -> None:
        """Lays it on the desk."""
        desk[PLACE_OF_PIECES // 8] = self.address


def serve_teams() -> None:
    """Takes parts of the work of all teams on the desk, until there is none for a while."""
    server()(desk)
    if not awake() and not desk[CALLED_AWAY // 8]:
        # The pieces are over, or the next one puts their team back.
        desk[PLACE_OF_PIECES // 8] = 0


@cache
def server() -> ObjectsCall:
    """Returns the function that does so, of the desk."""
    name, given = pause()
    text = SERVE_TEXT.format(
        forget=forgotten_flags(),
        pause=name, given=given, data=OBJECT_HEADER, awake=AWAKE, places=TEAM_PLACES,
        teams=MOST_TEAMS + 1, pieces=PLACE_OF_PIECES, called=CALLED_AWAY,
        looks=MOST_LOOKS_FOR_PIECES, slow=MOST_LOOKS_FOR_PIECES // MOST_LOOKS,
        fast=MOST_LOOKS_FOR_PIECES // MOST_LOOKS_AT_EMPTY,
    )  # fmt: skip
    text = "\n".join([pause_declaration(), *take_texts().values(), text])
    code = machine_code(FEW_PASSES + text, ["team_serve"])
    return objects_call(code, "team_serve", 1)
