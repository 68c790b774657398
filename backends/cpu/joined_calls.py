"""Noted calls of NumPy's loops, of which neighbours become one pass over memory.

They are joined if they go over the same elements, by arithmetic that is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

__all__ = ["LoopCall", "with_joined_calls"]


class LoopCall(NamedTuple):
    """Some calls of a loop.

    Attributes:
        ufunc: whose loop it is.
        loop: the addresses of the loop and of its data.
        times: how often it is called.
        dims: the lengths of its loops.
        begins: where each operand begins: the number of its memory, and a place there in bytes.
        moves: how many bytes further each operand begins the next time.
        strides: as the loop takes them.
    """

    ufunc: np.ufunc
    loop: tuple[int, int]
    times: int
    dims: list[int]
    begins: list[tuple[int, int]]
    moves: list[int]
    strides: list[int]


class ElementPlaces(NamedTuple):
    """The elements of an operand: its memory, where it begins, how it moves, and its stride."""

    memory: int
    begin: int
    move: int
    stride: int


def places_of_elements(call: LoopCall) -> list[ElementPlaces]:
    """Returns the elements of a call's operands, of a loop over elements."""
    return [
        ElementPlaces(*begin, move, stride)
        for begin, move, stride in zip(call.begins, call.moves, call.strides)
    ]


def range_of(call: LoopCall, place: int, itemsize: int) -> tuple[int, int, int]:
    """Returns the memory of an operand, and its first byte and the one behind its last there."""
    memory, begin = call.begins[place]
    steps = [(call.times, call.moves[place]), (call.dims[0], call.strides[place])]
    own = call.strides[len(call.begins) :]
    if len(call.dims) == 2:
        # A product of vectors has two of them, and a number.
        steps += [(call.dims[1], s) for s in own[place : place + 1]]
    elif len(call.dims) > 2:
        _, rows, terms, columns = call.dims
        lengths = [(rows, terms), (terms, columns), (rows, columns)][place]
        steps += zip(lengths, own[2 * place :])
    return memory, begin, begin + sum((n - 1) * s for n, s in steps) + itemsize


def is_joinable(call: LoopCall, itemsize: int) -> bool:
    """Says whether a call is one of those that are joined."""
    from ..native.joined_loops import JOINABLE_UFUNCS

    return (
        call.ufunc.__name__ in JOINABLE_UFUNCS
        and len(call.dims) == 1
        and call.strides[-1] == itemsize
        and all(s in (0, itemsize) for s in call.strides)
    )


def in_rows(call: LoopCall, like: LoopCall) -> LoopCall:
    """Returns a call that goes over as many elements as another in rows as that one does."""
    length = like.dims[0]
    if call.times > 1 or call.dims[0] != like.times * length:
        return call
    return call._replace(times=like.times, dims=like.dims, moves=[s * length for s in call.strides])


def fits_behind(calls: Sequence[LoopCall], call: LoopCall, itemsize: int, most: int) -> bool:
    """Says whether a call goes over the same elements as others, and touches no neighbours."""
    first = calls[0]
    if (first.times, first.dims) != (call.times, call.dims):
        return False
    known = {}
    written = set()
    for one in (*calls, call):
        own = places_of_elements(one)
        written.add(own[-1])
        for place, elements in enumerate(own):
            known[elements] = range_of(one, place, itemsize)
    if len(known) > most:
        return False
    return not any(
        x != y and shares_places(a, b)
        for x, a in known.items()
        if x in written
        for y, b in known.items()
    )


def with_joined_calls(
    calls: Sequence[LoopCall], spare: int, itemsize: int, most: int
) -> tuple[list[LoopCall], Any]:
    """Returns calls of which neighbours are joined, and the machine code that they need.

    Args:
        calls: those of a kernel, in order.
        spare: the number of the memory that nobody reads behind the last call.
        itemsize: the size of an element.
        most: how many operands a call has at most.

    Raises:
        NativeUnavailable: there is no compiler.
        NotCompiled: it refused.
    """
    from ..native.joined_loops import JoinedLoop, joined_code

    groups: list[list[LoopCall]] = []
    for call in calls:
        before = groups[-1] if groups else []
        if before and all(is_joinable(one, itemsize) for one in (before[-1], call)):
            behind = in_rows(call, before[0])
            rows = [in_rows(one, call) for one in before]
            if fits_behind(rows, behind, itemsize, most):
                groups[-1] = [*rows, behind]
                continue
        groups.append([call])
    # What later calls read, the last group first.
    read: list[list[tuple[int, int, int]]] = [[]]
    for group in groups[:0:-1]:
        ranges = [
            range_of(call, place, itemsize)
            for call in group
            for place in range(len(call.begins) - 1)
        ]
        read.append(read[-1] + ranges)
    read.reverse()
    loops, made = [], []
    for group, ahead in zip(groups, read, strict=True):
        if len(group) == 1:
            continue
        order: dict[ElementPlaces, int] = {}
        reach: dict[ElementPlaces, tuple[int, int, int]] = {}
        steps = []
        for call in group:
            own = places_of_elements(call)
            for place, elements in enumerate(own):
                order.setdefault(elements, len(order))
                reach[elements] = range_of(call, place, itemsize)
            steps.append((call.ufunc.__name__, tuple(order[x] for x in own)))
        written = {order[places_of_elements(call)[-1]] for call in group}
        kept = {
            i
            for x, i in order.items()
            if i in written
            and (x.memory != spare or any(shares_places(reach[x], other) for other in ahead))
        }
        single = frozenset(i for x, i in order.items() if x.stride == 0)
        loops.append(JoinedLoop(itemsize, tuple(steps), single, frozenset(kept)))
        made.append(list(order))
    if not loops:
        return list(calls), None
    code, addresses = joined_code(loops)
    found, waiting = [], iter(zip(addresses, made, strict=True))
    for group in groups:
        first = group[0]
        if len(group) == 1:
            found.append(first)
            continue
        address, operands = next(waiting)
        begins = [(x.memory, x.begin) for x in operands]
        moves, strides = [x.move for x in operands], [x.stride for x in operands]
        found.append(
            LoopCall(first.ufunc, (address, 0), first.times, first.dims, begins, moves, strides)
        )
    return found, code


def shares_places(x: tuple[int, int, int], y: tuple[int, int, int]) -> bool:
    """Says whether two ranges of memory have a byte in common."""
    return x[0] == y[0] and x[1] < y[2] and y[1] < x[2]
