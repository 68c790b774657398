"""Kernels over stacks, an item at a time in the cache: by NumPy, or as lists of its own loops.

An item is a matrix of a stack, a block of rows, or one of elements. NumPy computes the first calls
of a kind. A thread that nobody waits for then notes what a kernel calls, and compares what both
ways compute of random numbers; where one bit differs NumPy goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..blas_threads import alone, controlled, held
from ..restoring import quiet
from .parallel import ThreadMemory, side_by_side

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape
    from ..native.background import BackgroundJob
    from .noted_calls import ItemLayout

__all__ = [
    "BYTES_OF_STACK_BLOCK",
    "StackCalls",
    "has_listed_blocks",
    "is_listed",
    "known_stacks",
    "over_stack",
    "stack_run",
]

PRODUCTS_OF_LISTS = f"{__package__}.plan.threads.eager_products"
POOL_OF_LISTS = f"{__package__}.plan.threads.pool"
NATIVE = f"{__package__.removesuffix('cpu')}native"
# Listing calls needs them, and a trial.
NEEDED_BY_LISTS = (
    *(f"{NATIVE}.ufunc_loops", f"{NATIVE}.call_lists", f"{NATIVE}.joined_loops"),
    *(f"{__package__}.noted_calls", PRODUCTS_OF_LISTS, "hashlib", "numpy.random"),
)
# NumPy computes so many calls of a kind before a list is made.
CALLS_BEFORE = 4
# So many runs of a stack are measured on one thread, before threads share others; so many stacks.
RUNS_ALONE, MOST_STACKS = 3, 64
# Kernels that fill fewer elements take NumPy less time than it takes to find their list.
FEWEST_LISTED_ELEMENTS = 1 << 15
# NumPy works on items of so many elements at once.
ELEMENTS_AT_ONCE = 1 << 17
# Items are handed on in so many parts.
MOST_STACK_PARTS = 8
MOST_KNOWN_STACKS = 256
# A trial is of so many items. So many numbers lie between zeros.
ITEMS_OF_A_TRIAL, SPACING_OF_ZEROS = 3, 61
# Blocks of so many bytes stay in the nearest cache, with those beside them.
BYTES_OF_STACK_BLOCK = 1 << 14

stack_memory = ThreadMemory()


class Described(NamedTuple):
    """Describes the run of a list for a stack.

    Attributes:
        words: what machine code is told.
        begins: where every item's memories begin.
        parts: in how many parts items are handed on.
        times: the times of runs on one thread.
    """

    words: Buffer
    begins: Buffer
    parts: int
    times: list[float]


class StackCalls:
    """The calls of a kernel for an item, and their runs for all items of stacks.

    Args:
        kernel, spares, params: see `over_stack`.
        layouts, dtype: see `noted_calls`.

    Raises:
        NotNoted: machine code cannot make the calls.
    """

    def __init__(
        self,
        kernel: Callable[..., None],
        layouts: Sequence[ItemLayout],
        dtype: DType,
        spares: Sequence[Shape],
        params: Mapping[str, Any],
    ) -> None:
        from ..native.call_lists import MOST_LISTED_ARRAYS, list_runner
        from .noted_calls import NotNoted, noted_calls

        run = list_runner()
        if run is None:
            raise NotNoted("no machine code")
        # The spare memory is one more array.
        self.missing = MOST_LISTED_ARRAYS - len(layouts) - 1
        if self.missing < 0:
            raise NotNoted("too many arrays")
        self.run, self.products = run, import_module(PRODUCTS_OF_LISTS)
        self.pool = import_module(POOL_OF_LISTS)
        self.notes, self.spare = noted_calls(kernel, layouts, dtype, spares, params)
        self.words = self.notes.words()
        self.stacks: dict[Any, Described] = {}

    def __repr__(self) -> str:
        return f"<{self.notes} for each item>"

    def described(self, arrays: Sequence[Buffer], stack: int, key: Any) -> Described:
        """Returns what describes the run for arrays whose first axes are those of a stack."""
        found = self.stacks.get(key)
        if found is None:
            lead = arrays[-1].shape[:stack]
            moves = [
                [0 if n == 1 else s for n, s in zip(x.shape[:stack], x.strides)] for x in arrays
            ]
            items = prod(lead)
            in_part = -(-items // MOST_STACK_PARTS)
            parts = -(-items // in_part)
            index = np.indices(lead).reshape(stack, items)
            # Memories of arrays, spare memory, and all that there is.
            columns = [np.array(own, np.int64) @ index for own in moves]
            columns += [np.arange(items) // in_part * self.spare, np.zeros(items, np.int64)]
            head = parts, items, in_part, len(columns), len(self.notes.calls)
            if len(self.stacks) >= MOST_STACKS:
                self.stacks.clear()
            words = np.array([*head, *self.words], np.int64)
            found = Described(words, np.stack(columns, axis=1), parts, [])
            self.stacks[key] = found
        return found

    def __call__(self, arrays: Sequence[Buffer], stack: int, key: Any = None) -> int:
        """Fills the memory of results, and returns what the processor told of the arithmetic.

        Arrays of one key have the same shapes and strides.
        """
        return self.run_described(arrays, self.described(arrays, stack, key))

    def run_described(self, arrays: Sequence[Buffer], described: Described) -> int:
        """Does the same for arrays whose memories lie as is described."""
        products = self.products
        words, begins, parts, times = described
        spare, told = stack_memory.bytes(parts * self.spare), np.empty(1, np.int64)
        operands = words, begins, told
        others = *arrays, *[spare] * (1 + self.missing)
        begun = perf_counter()
        # Several threads may have measured the last one.
        known = len(times) >= RUNS_ALONE
        balance = products.balance
        shares = known and begun >= balance.rests_until and not self.pool.has_callers()
        number = min(self.pool.threads.number, parts) if shares else 1
        products.multiplied(self.run, operands, number, others)
        end = perf_counter()
        if number > 1:
            balance.add(min(times) - (end - begun), end)
        elif not known:
            times.append(end - begun)
        return int(told[0])


class KnownKind:
    """All that is known of a kernel for items that lie in some way.

    Attributes:
        calls: its list; None where NumPy computes it.
        job: the work that makes it; None before.
    """

    def __init__(self) -> None:
        self.computed = 0
        self.calls: StackCalls | None = None
        self.job: BackgroundJob | None = None

    def count(self, make: Callable[[], StackCalls]) -> None:
        """Counts a call of NumPy's, and has the list made behind some."""
        self.computed += 1
        dropped = self.job is not None and self.job.dropped
        if self.computed >= CALLS_BEFORE and (self.job is None or dropped):
            from ..native.background import later  # only where machine code is made
            from ..native.machine import in_step

            # In the child of a fork in the middle of an import nobody could import the modules.
            imported = [partial(in_step, import_module, name) for name in NEEDED_BY_LISTS]
            self.job = later(partial(self.make, make, imported))

    def make(self, make: Callable[[], StackCalls], imported: Iterable[Callable[[], Any]]) -> None:
        """Makes the list, if it makes NumPy's bits; before that it imports what it needs."""
        from ..native.instruction_sets import NativeUnavailable
        from ..native.machine import NotCompiled, why_not  # only where machine code is made

        if why_not():
            return
        for load in imported:
            load()
        from .noted_calls import NotNoted

        try:
            self.calls = make()
        except (NativeUnavailable, NotCompiled, NotNoted):
            return


# What is known of kernels, by how their items lie, and again by how a whole stack lies.
known_stacks: dict[Any, KnownKind] = {}


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
        kernel, operands, results, spares, params, stack
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


def is_one_axis(x: Buffer, stack: int) -> bool:
    """Says whether the first axes of an array become one without a copy."""
    shape, strides = x.shape, x.strides
    return all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(stack - 1))


def is_listed(
    kernel: Callable[..., None],
    operands: Sequence[Buffer],
    results: Sequence[Buffer],
    spares: Sequence[Shape],
    params: Mapping[str, Any],
    stack: int = 1,
) -> bool:
    """Does the same by a list of calls, if there is one; False where NumPy is to do it."""
    arrays = [*operands, *results]
    key = key_of_stack(kernel, arrays, params, stack)
    known = known_stacks.get(key)
    if known is None:
        plain = [x.dtype.char in "fd" and x.dtype.isnative for x in arrays]
        if not all(plain) or controlled() is None:
            return False
        moved = [not is_one_axis(x, stack) for x in operands]
        known = kind_of_stack(kernel, arrays, moved, params, key)
    if not all([x.flags.aligned for x in arrays]):  # noqa: C419 - quicker
        return False
    if known.calls is None:
        layouts = [(x.shape[stack:], x.strides[stack:]) for x in arrays]
        copied = [not is_one_axis(x, stack) for x in operands]
        given = layouts, copied, arrays[0].dtype, (*spares,), dict(params)
        known.count(partial(tried_calls, kernel, *given))
        return False
    told = known.calls(arrays, stack, key)
    return not told or set(np.geterr().values()) == {"ignore"}


def kind_of_stack(
    kernel: Callable[..., None],
    arrays: Sequence[Buffer],
    copied: Sequence[bool],
    params: Mapping[str, Any],
    key: tuple[Any, ...],
) -> KnownKind:
    """Returns what is known of a kernel for items that lie as those of arrays, in any stack.

    Args:
        kernel, params: see `over_stack`.
        arrays: the operands and results.
        copied: for each operand, whether NumPy computes with a copy: BLAS may add vectors up as
            they lie.
        key: what the kind is to be found by for such stacks.
    """
    stack = key[1]
    layouts = [(x.shape[stack:], x.strides[stack:]) for x in arrays]
    shared = kernel, arrays[0].dtype.char, *layouts, *copied, *params.items()
    if len(known_stacks) >= MOST_KNOWN_STACKS:
        known_stacks.clear()
    known = known_stacks.setdefault(shared, KnownKind())
    known_stacks[key] = known
    return known


def stack_run(
    kernel: Callable[..., None], arrays: Sequence[Buffer], params: Mapping[str, Any], stack: int
) -> Callable[[Sequence[Buffer]], bool] | None:
    """Returns what runs the list of a kernel for arrays that lie as these do; None without a list.

    It takes arrays of any shapes whose memories lie so, and says as `is_listed` if it has run.

    Args:
        kernel, params, stack: see `over_stack`.
        arrays: the operands and results.
    """
    key = key_of_stack(kernel, arrays, params, stack)
    known = known_stacks.get(key)
    calls = None if known is None else known.calls
    if calls is None:
        return None
    described = calls.described(arrays, stack, key)

    def run(given: Sequence[Buffer]) -> bool:
        if not all([x.flags.aligned for x in given]):  # noqa: C419 - quicker
            return False
        told = calls.run_described(given, described)
        return not told or set(np.geterr().values()) == {"ignore"}

    return run


def key_of_stack(
    kernel: Callable[..., None], arrays: Sequence[Buffer], params: Mapping[str, Any], stack: int
) -> tuple[Any, ...]:
    """Returns what tells kernels for stacks apart that lie in different ways."""
    return kernel, stack, *params.items(), *[(x.shape, x.strides, x.dtype) for x in arrays]


def has_listed_blocks(
    kernel: Callable[..., None], operands: Sequence[Buffer], out: Buffer, spare: int, params: Any
) -> int:
    """Fills memory by a kernel of elements, block by block, if there is a list of its calls.

    Args:
        kernel: ``kernel(*operands, out, *spares, **params)`` for arrays of one shape.
        operands, out: arrays of one dtype, with one axis and no gaps.
        spare: how many spare arrays the kernel uses.
        params: its parameters.

    Returns:
        How many elements from the first one on are there. The caller computes the others.
    """
    length = BYTES_OF_STACK_BLOCK // out.itemsize
    whole = out.size - out.size % length
    if held() or not whole or not all(x.flags.c_contiguous for x in operands):
        return 0
    *blocks, into = [x[:whole].reshape(-1, length) for x in (*operands, out)]
    return whole if is_listed(kernel, blocks, [into], [(length,)] * spare, params) else 0


def tried_calls(
    kernel: Callable[..., None],
    layouts: Sequence[ItemLayout],
    copied: Sequence[bool],
    dtype: DType,
    spares: Sequence[Shape],
    params: Mapping[str, Any],
) -> StackCalls:
    """Returns the calls of a kernel, once they have made its bits of random numbers.

    Args:
        kernel, spares, params: see `over_stack`.
        layouts, dtype: see `noted_calls`.
        copied: for each operand, whether NumPy computes with a copy in C order.

    Raises:
        NotNoted: they do not, or there are none.
    """
    from .noted_calls import NotNoted, item_bytes

    random = np.random.default_rng(0)
    tried = []
    for shape, strides in layouts:
        size = -(-item_bytes((shape, strides), dtype.itemsize) // dtype.itemsize)
        numbers = random.standard_normal(ITEMS_OF_A_TRIAL * size).astype(dtype)
        numbers[::SPACING_OF_ZEROS], numbers[1::SPACING_OF_ZEROS] = 0.0, -0.0
        steps = size * dtype.itemsize, *strides
        tried.append(np.ndarray((ITEMS_OF_A_TRIAL, *shape), dtype, numbers, 0, steps))
    calls = StackCalls(kernel, layouts, dtype, spares, params)
    operands, results = tried[: len(copied)], tried[len(copied) :]
    given = [x.copy() if copy else x for x, copy in zip(operands, copied, strict=True)]
    expected = [x.copy() for x in results]
    memory = [np.empty((ITEMS_OF_A_TRIAL, *shape), dtype) for shape in spares]
    with alone(), quiet():
        kernel(*given, *expected, *memory, **params)
        calls(tried, 1)
    calls.stacks.clear()
    for found, right in zip(results, expected, strict=True):
        if found.tobytes() != right.tobytes():
            raise NotNoted("other bits")
    return calls
