"""Kernels over stacks, an item at a time in the cache: by NumPy, or as lists of its own loops.

An item is a matrix of a stack, or a block of rows. NumPy computes the first calls of a kind. A
thread that nobody waits for then notes what a kernel calls, and compares what both ways compute of
random numbers; where one bit differs NumPy goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blas_threads import alone, controlled, held
from ..restoring import quiet
from .block_loops import PRODUCTS_OF_LOOPS, RUNS_ALONE, KnownKernel, NotNoted
from .noted_calls import bytes_of_item, noted_calls
from .parallel import ThreadMemory, side_by_side

if TYPE_CHECKING:
    from ..annotations import Buffer, Shape

__all__ = ["StackCalls", "is_listed", "known_stacks", "over_stack"]

# Kernels that fill fewer elements take NumPy less time than it takes to find their list.
FEWEST_LISTED_ELEMENTS = 1 << 15
# NumPy works on items of so many elements at once.
ELEMENTS_AT_ONCE = 1 << 17
# Items are handed on in so many parts.
MOST_STACK_PARTS = 8
MOST_KNOWN_STACKS = 256
ITEMS_OF_A_TRIAL = 3

stack_memory = ThreadMemory()


class StackCalls:
    """The calls of a kernel for all items of a stack.

    Args:
        kernel, spares, params, stack: see `over_stack`.
        arrays: operands, and memory of results, that lie as those of all calls do.

    Raises:
        NotNoted: machine code cannot make the calls.
    """

    def __init__(
        self,
        kernel: Callable[..., None],
        arrays: Sequence[Buffer],
        spares: Sequence[Shape],
        params: Mapping[str, Any],
        stack: int,
    ) -> None:
        from ..native.call_lists import list_runner

        run = list_runner()
        if run is None:
            raise NotNoted("no machine code")
        self.run = run
        self.notes, self.spare = noted_calls(kernel, arrays, spares, params, stack)
        lead = arrays[-1].shape[:stack]
        items = prod(lead)
        in_part = -(-items // MOST_STACK_PARTS)
        self.parts = -(-items // in_part)
        # Where every item's memories begin: those of arrays, spare memory, and all that there is.
        columns = [
            sum(
                (i * s for i, s, n in zip(np.indices(lead), x.strides, x.shape) if n > 1),
                np.zeros(lead, int),
            ).ravel()
            for x in arrays
        ]
        columns += [np.arange(items) // in_part * self.spare, np.zeros(items, int)]
        self.begins = np.stack(columns, axis=1).astype(np.int64)
        head = [self.parts, items, in_part, len(columns), self.notes.number]
        self.words = np.array([*head, *self.notes.words], np.int64)
        # The times of runs on one thread.
        self.times: list[float] = []

    def __repr__(self) -> str:
        return f"<{self.notes} for each of {len(self.begins)} items>"

    def __call__(self, *arrays: Buffer) -> int:
        """Fills the memory of results, and returns what the processor told of the arithmetic."""
        products = import_module(PRODUCTS_OF_LOOPS)
        spare = stack_memory.bytes(self.parts * self.spare)
        addresses = [x.__array_interface__["data"][0] for x in (*arrays, spare)]
        places = np.empty(1 + self.begins.size, np.int64)
        np.add(self.begins, [*addresses, 0], out=places[1:].reshape(self.begins.shape))
        begun = perf_counter()
        # Several threads may have measured the last one.
        known = len(self.times) >= RUNS_ALONE
        balance = products.balance
        number = products.threads.number if known and begun >= balance.rests_until else 1
        number = min(number, self.parts)
        products.multiplied(self.run, (self.words, places), number)
        end = perf_counter()
        if number > 1:
            balance.add(min(self.times) - (end - begun), end)
        elif not known:
            self.times.append(end - begun)
        return int(places[0])


# What is known of kernels of stacks that lie in some way.
known_stacks: dict[Any, KnownKernel] = {}


def over_stack(
    kernel: Callable[..., None],
    operands: Sequence[Buffer],
    results: Sequence[Buffer],
    spares: Sequence[Shape],
    params: Mapping[str, Any],
    stack: int = 1,
) -> None:
    """Fills memory with what a kernel makes of every item of a stack.

    Args:
        kernel: ``kernel(*operands, *results, *spares, **params)`` for arrays with one axis of items
            in front, which do not depend on each other. It calls ufuncs with ``out``, and takes
            views.
        operands: arrays with the axes of the stack in front, all of one dtype. Where such an axis
            has length 1, items share what lies there.
        results: memory of the same kind.
        spares: the shapes of arrays that the kernel uses for each item.
        params: its parameters.
        stack: how many axes of the stack there are.
    """
    arrays = [*operands, *results]
    lead = arrays[-1].shape[:stack]
    items = prod(lead)
    filled = sum([x.size for x in results]) + items * sum(map(prod, spares))
    if filled >= FEWEST_LISTED_ELEMENTS and is_listed(
        kernel, arrays, spares, params, stack, len(operands)
    ):
        return
    flat = [with_one_axis(x, lead) for x in arrays]
    dtype, most = flat[0].dtype, max([prod(s) for s in spares] + [x[:1].size for x in flat])
    together = min(max(ELEMENTS_AT_ONCE // max(most, 1), 1), max(items, 1))

    def some(starts: Iterable[int]) -> None:
        kept = [np.empty((together, *shape), dtype) for shape in spares]
        for start in starts:
            own = [x[start : start + together] for x in flat]
            kernel(*own, *[s[: len(own[0])] for s in kept], **params)

    starts = range(0, items, together)
    if held():
        side_by_side(some, starts)
    else:
        # BLAS may have threads of its own.
        some(starts)
    for x, own in zip(results, flat[len(operands) :], strict=True):
        if not np.may_share_memory(x, own):
            x[...] = own.reshape(x.shape)


def with_one_axis(x: Buffer, lead: Shape) -> Buffer:
    """Returns an array whose first axes, those of a stack, are one: a view, or else a copy."""
    own = x.shape[len(lead) :]
    if x.shape[: len(lead)] != lead:
        x = np.broadcast_to(x, lead + own)
    return x.reshape(prod(lead), *own)


def is_listed(
    kernel: Callable[..., None],
    arrays: Sequence[Buffer],
    spares: Sequence[Shape],
    params: Mapping[str, Any],
    stack: int,
    operands: int,
) -> bool:
    """Does the same by a list of calls, if there is one; False where NumPy is to do it."""
    own = [x.dtype.char in "fd" and x.dtype.isnative and x.flags.aligned for x in arrays]
    if not all(own) or controlled() is None:
        return False
    key = kernel, stack, *params.items(), *[(x.shape, x.strides, x.dtype.char) for x in arrays]
    known = known_stacks.get(key)
    if known is None:
        if len(known_stacks) >= MOST_KNOWN_STACKS:
            known_stacks.clear()
        known = known_stacks[key] = KnownKernel()
    if known.loops is None:
        layouts = [(x.shape, x.strides) for x in arrays]
        given = layouts, arrays[0].dtype, (*spares,), dict(params), stack, operands
        known.count(partial(tried_calls, kernel, *given))
        return False
    told: int = known.loops(*arrays)
    return not told or set(np.geterr().values()) == {"ignore"}


def tried_calls(
    kernel: Callable[..., None],
    layouts: Sequence[tuple[Shape, Sequence[int]]],
    dtype: Any,
    spares: Sequence[Shape],
    params: Mapping[str, Any],
    stack: int,
    operands: int,
) -> StackCalls:
    """Returns the calls of a kernel, once they have made its bits of random numbers.

    Raises:
        NotNoted: they do not, or there are none.
    """
    random = np.random.default_rng(0)
    # Arrays that lie like others, and of which nothing is read.
    alike = [
        np.ndarray(shape, dtype, np.empty(span(shape, strides, dtype), np.uint8), 0, (*strides,))
        for shape, strides in layouts
    ]
    tried = []
    for x in alike:
        size = -(-bytes_of_item(x, stack) // dtype.itemsize)
        numbers = random.standard_normal(ITEMS_OF_A_TRIAL * size).astype(dtype)
        strides = size * dtype.itemsize, *x.strides[stack:]
        tried.append(np.ndarray((ITEMS_OF_A_TRIAL, *x.shape[stack:]), dtype, numbers, 0, strides))
    calls = StackCalls(kernel, tried, spares, params, 1)
    # NumPy is given copies of what is no view. BLAS may add vectors up as they lie.
    lead = alike[-1].shape[:stack]
    views = [np.may_share_memory(x, with_one_axis(x, lead)) for x in alike[:operands]]
    given = [x if view else x.copy() for x, view in zip(tried[:operands], views, strict=True)]
    expected = [x.copy() for x in tried[operands:]]
    memory = [np.empty((ITEMS_OF_A_TRIAL, *shape), dtype) for shape in spares]
    with alone(), quiet():
        kernel(*given, *expected, *memory, **params)
        calls(*tried)
    for found, right in zip(tried[operands:], expected, strict=True):
        if found.tobytes() != right.tobytes():
            raise NotNoted("other bits")
    return StackCalls(kernel, alike, spares, params, stack)


def span(shape: Shape, strides: Sequence[int], dtype: Any) -> int:
    """Returns how many bytes there are from the first element of an array to its last one."""
    if min(strides, default=0) < 0:
        raise NotNoted("an array that lies backward")
    return sum((n - 1) * s for n, s in zip(shape, strides)) + int(dtype.itemsize)
