"""Loops over elements that do what several of NumPy's do one behind the other, with their bits.

Arithmetic that is rounded once has the same bits wherever it is computed, so that one pass over
memory takes the place of several. The loops have the arguments that NumPy's have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .instructions import FLOAT_ARITHMETIC, FLOAT_TYPES
from .machine import FEW_PASSES, machine_code, vector_bytes

if TYPE_CHECKING:
    from .code import Code

__all__ = ["JOINABLE_UFUNCS", "JoinedLoop", "joined_code"]

# The ufuncs that loops are joined of.
JOINABLE_UFUNCS = frozenset({*FLOAT_ARITHMETIC, "clip", "negative", "positive", "reciprocal"})


class JoinedLoop(NamedTuple):
    """The steps of a loop for one element of each of its operands.

    Attributes:
        itemsize: the size of an element: a number of single or double precision.
        steps: the names of ufuncs, each with the numbers of its operands, the result last.
        single: the operands of which all times have the same element.
        stored: the operands whose last values are kept.
    """

    itemsize: int
    steps: tuple[tuple[str, tuple[int, ...]], ...]
    single: frozenset[int]
    stored: frozenset[int]

    def operands(self) -> list[int]:
        """Returns the numbers of all operands."""
        return sorted({i for _, places in self.steps for i in places})


def joined_code(loops: Sequence[JoinedLoop]) -> tuple[Code, list[int]]:
    """Returns machine code of loops, and the address of each; equal ones are one.

    Raises:
        NativeUnavailable: there is no compiler.
        NotCompiled: it refused.
    """
    names = {loop: f"joined_{i}" for i, loop in enumerate(dict.fromkeys(loops))}
    text = "\n".join(text_of_loop(name, loop) for loop, name in names.items())
    code = machine_code(FEW_PASSES + text, list(names.values()))
    return code, [code.address(names[loop]) for loop in loops]


def text_of_loop(name: str, loop: JoinedLoop) -> str:
    """Returns the text of a loop: over vectors, and then over the elements that are left."""
    element, lanes = FLOAT_TYPES[loop.itemsize], max(vector_bytes() // loop.itemsize, 1)
    head = []
    for i in loop.operands():
        head += [
            f"  %place{i} = getelementptr ptr, ptr %args, i64 {i}",
            f"  %begin{i} = load ptr, ptr %place{i}, align 8",
        ]
        if i in loop.single:
            vector, zeros = f"<{lanes} x {element}>", f"<{lanes} x i32> zeroinitializer"
            head += [
                f"  %one{i} = load {element}, ptr %begin{i}, align {loop.itemsize}",
                f"  %lane{i} = insertelement {vector} poison, {element} %one{i}, i64 0",
                f"  %all{i} = shufflevector {vector} %lane{i}, {vector} poison, {zeros}",
            ]
    begin, vectors, singles = map(
        "\n".join, (head, text_of_body(loop, element, lanes), text_of_body(loop, element, 1))
    )
    return f"""
define void @{name}(ptr %args, ptr %dims, ptr %strides, ptr %data) {{
entry:
  %length = load i64, ptr %dims, align 8
{begin}
  br label %v_head
v_head:
  %v_i = phi i64 [ 0, %entry ], [ %v_next, %v_body ]
  %v_next = add i64 %v_i, {lanes}
  %v_more = icmp sle i64 %v_next, %length
  br i1 %v_more, label %v_body, label %s_head
v_body:
{vectors}
  br label %v_head
s_head:
  %s_i = phi i64 [ %v_i, %v_head ], [ %s_next, %s_body ]
  %s_next = add i64 %s_i, 1
  %s_more = icmp sle i64 %s_next, %length
  br i1 %s_more, label %s_body, label %end
s_body:
{singles}
  br label %s_head
end:
  ret void
}}"""


def text_of_body(loop: JoinedLoop, element: str, lanes: int) -> list[str]:
    """Returns the lines that compute one number of each result, or a vector of them."""
    mark = "s" if lanes == 1 else "v"
    kind = element if lanes == 1 else f"<{lanes} x {element}>"
    one = "1.0" if lanes == 1 else "<" + ", ".join([f"{element} 1.0"] * lanes) + ">"
    lines: list[str] = []
    values = {i: f"%one{i}" if lanes == 1 else f"%all{i}" for i in loop.single}

    def at(i: int) -> str:
        lines.append(f"  %{mark}_at{i} = getelementptr {element}, ptr %begin{i}, i64 %{mark}_i")
        return f"%{mark}_at{i}"

    placed: dict[int, str] = {}
    for number, (name, places) in enumerate(loop.steps):
        *given, out = places
        for i in given:
            if i not in values:
                placed[i] = at(i)
                values[i] = f"%{mark}_read{i}"
                lines.append(f"  {values[i]} = load {kind}, ptr {placed[i]}, align {loop.itemsize}")
        made = f"%{mark}_made{number}"
        x, *others = [values[i] for i in given]
        if name in FLOAT_ARITHMETIC:
            lines.append(f"  {made} = {FLOAT_ARITHMETIC[name]} {kind} {x}, {others[0]}")
        elif name == "reciprocal":
            lines.append(f"  {made} = fdiv {kind} {one}, {x}")
        elif name == "negative":
            lines.append(f"  {made} = fneg {kind} {x}")
        elif name == "clip":
            lines += clipped_lines(made, kind, lanes, x, *others)
        else:
            made = x
        values[out] = made
    for i in sorted(loop.stored):
        place = placed.get(i) or at(i)
        lines.append(f"  store {kind} {values[i]}, ptr {place}, align {loop.itemsize}")
    return lines


def clipped_lines(made: str, kind: str, lanes: int, x: str, low: str, high: str) -> list[str]:
    """Returns the lines of NumPy's ``clip``, which NaN comes through."""
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return [
        f"  {made}_low = fcmp olt {kind} {x}, {low}",
        f"  {made}_raised = select {truth} {made}_low, {kind} {low}, {kind} {x}",
        f"  {made}_high = fcmp ogt {kind} {made}_raised, {high}",
        f"  {made} = select {truth} {made}_high, {kind} {high}, {kind} {made}_raised",
    ]
