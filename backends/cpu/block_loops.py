"""Kernels of blocks as lists of NumPy's loops, which machine code runs without Python between.

A kernel is called once with blocks that note what it does with them. NumPy computes the first calls
of a kernel. A thread that nobody waits for then makes the list, and compares what both ways compute
of random numbers; where one bit differs NumPy goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blas_threads import held
from .parallel import ThreadMemory

if TYPE_CHECKING:
    from ..annotations import Buffer, DType
    from ..native.background import BackgroundJob

__all__ = ["has_run_loops"]

PRODUCTS_OF_LOOPS = f"{__package__}.plan.threads.eager_products"
# Listing loops needs them, and a trial.
NEEDED_BY_LOOPS = (
    *(f"{__package__.removesuffix('cpu')}native.ufunc_loops", PRODUCTS_OF_LOOPS),
    f"{__package__.removesuffix('cpu')}native.call_lists",
    *("hashlib", "numpy.random"),
)
# NumPy computes so many calls of a kernel before a list is made.
CALLS_BEFORE = 4
# Blocks of so many bytes stay in the nearest cache, with those beside them.
BYTES_OF_LOOPS = 1 << 14
MOST_LOOP_PARTS = 8
# So many runs of a length are measured on one thread, before threads share others; so many lengths.
RUNS_ALONE, MOST_LENGTHS = 3, 64
# The memories in which operands lie, by number: two of the caller's, and two of a list's own.
SOURCE, TARGET, SPARE, CONSTANT = range(4)

loop_memory = ThreadMemory()


class NotNoted(Exception):
    """A kernel does something else than to call ufuncs of whole blocks."""


class NotedBlock(np.ndarray):
    """Stands for a block of memory, and notes the ufuncs that are called with it.

    Attributes:
        lies_in: the number of the memory, and of the block there; None of a part of a block.
        notes: gets each ufunc with its operands; None of a part of a block.
    """

    lies_in: tuple[int, int] | None = None
    notes: list[tuple[np.ufunc, list[Any]]] | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **given: Any) -> Any:
        """Notes a call; it computes nothing."""
        out = given.pop("out", ())
        if method != "__call__" or len(out) != 1 or given or self.notes is None:
            raise NotNoted(f"{ufunc.__name__}.{method} of a part, or with other memory")
        self.notes.append((ufunc, [*inputs, *out]))
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Notes nothing."""
        raise NotNoted(function.__name__)


def noted(
    kernel: Callable[..., None], spare: int, dtype: DType, params: Mapping[str, Any]
) -> list[tuple[np.ufunc, list[Any]]]:
    """Returns the ufuncs that a kernel calls, with their operands.

    Raises:
        NotNoted: it does something else.
    """
    notes: list[tuple[np.ufunc, list[Any]]] = []
    blocks = []
    for place in [(SOURCE, 0), (TARGET, 0), *((SPARE, i) for i in range(spare))]:
        block = np.ones(1, dtype).view(NotedBlock)
        block.lies_in, block.notes = place, notes
        blocks.append(block)
    kernel(*blocks, **params)
    return notes


class BlockLoops:
    """The loops of a kernel for a dtype, as machine code takes them.

    Args:
        kernel, spare, params: see ``blockwise``.
        dtype: that of all operands.

    Raises:
        NotNoted: they cannot be listed.
    """

    def __init__(
        self, kernel: Callable[..., None], spare: int, dtype: DType, params: Mapping[str, Any]
    ) -> None:
        from ..native.ufunc_loops import MOST_OPERANDS, WORDS_OF_RUN, address_of_loop, loops_runner

        run = loops_runner()
        if run is None:
            raise NotNoted("no machine code")
        self.run = run
        self.dtype, self.block = dtype, BYTES_OF_LOOPS // dtype.itemsize
        # The bytes that each part has for itself.
        self.spare = max(spare, 1) * BYTES_OF_LOOPS
        constants: list[Any] = []
        calls: list[int] = []
        for ufunc, operands in noted(kernel, spare, dtype, params):
            loop = address_of_loop(ufunc, dtype.char * len(operands))
            if loop is None or len(operands) > MOST_OPERANDS:
                raise NotNoted(ufunc.__name__)
            calls += loop
            for x in operands:
                calls += self._place(x, constants)
            calls += [0] * (5 * (MOST_OPERANDS - len(operands)))
        self.calls = calls
        self.number = len(calls) // (2 + 5 * MOST_OPERANDS)
        self.constants = np.array(constants or [0], dtype)
        self.head = WORDS_OF_RUN
        # The words that describe runs of a length, and the times of runs on one thread.
        self.lengths: dict[int, tuple[Any, list[float]]] = {}

    def __repr__(self) -> str:
        return f"<{self.number} loops of {self.dtype}>"

    def _place(self, x: Any, constants: list[Any]) -> tuple[int, int, int, int, int]:
        """Returns where an operand lies: see `ufunc_loops`."""
        size = self.dtype.itemsize
        if not isinstance(x, NotedBlock):
            if type(x) not in (int, float):
                raise NotNoted(f"an operand that is a {type(x).__name__}")
            constants.append(x)
            return CONSTANT, (len(constants) - 1) * size, 0, 0, 0
        if x.lies_in is None:
            raise NotNoted("a part of a block")
        memory, number = x.lies_in
        if memory == SPARE:
            return SPARE, number * BYTES_OF_LOOPS, 0, self.spare, size
        return memory, 0, BYTES_OF_LOOPS, 0, size

    def _described(self, length: int) -> tuple[Any, list[float]]:
        """Returns the words of runs of a length, and the times of those on one thread."""
        found = self.lengths.get(length)
        if found is None:
            blocks = -(-length // self.block)
            in_part = -(-blocks // MOST_LOOP_PARTS)
            head = [-(-blocks // in_part), length, self.block, blocks, in_part, self.number]
            if len(self.lengths) >= MOST_LENGTHS:
                self.lengths.clear()
            found = self.lengths[length] = np.array([*head, *self.calls], np.int64), []
        return found

    def __call__(self, x: Buffer, out: Buffer) -> None:
        """Fills memory with the results for an array; both have one axis, and no gaps."""
        products = import_module(PRODUCTS_OF_LOOPS)
        words, times = self._described(x.size)
        spare = loop_memory.bytes(int(words[0]) * self.spare)
        memories = [v.ctypes.data for v in (x, out, spare, self.constants)]
        begun = perf_counter()
        # Several threads may have measured the last one.
        known = len(times) >= RUNS_ALONE
        balance = products.balance
        number = products.threads.number if known and begun >= balance.rests_until else 1
        number = min(number, int(words[0]))
        products.multiplied(self.run, (words, np.array(memories, np.int64)), number)
        end = perf_counter()
        if number > 1:
            balance.add(min(times) - (end - begun), end)
        elif not known:
            times.append(end - begun)


class KnownKernel:
    """All that is known of a kernel for a dtype and some parameters.

    Attributes:
        loops: calls its loops; None where NumPy computes it.
        job: the work that makes them; None before.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.loops: Any = None
        self.job: BackgroundJob | None = None

    def count(self, make: Callable[[], Any]) -> None:
        """Counts a call of NumPy's, and has the loops listed behind some."""
        self.calls += 1
        dropped = self.job is not None and self.job.dropped
        if self.calls >= CALLS_BEFORE and (self.job is None or dropped):
            from ..native.background import later  # only where machine code is made
            from ..native.machine import in_step

            # In the child of a fork in the middle of an import nobody could import the modules.
            imported = [partial(in_step, import_module, name) for name in NEEDED_BY_LOOPS]
            self.job = later(partial(self.make, make, imported))

    def make(self, make: Callable[[], Any], imported: Iterable[Callable[[], Any]]) -> None:
        """Lists the loops, if they make NumPy's bits; before that it imports what they need."""
        from ..native.machine import why_not  # only where machine code is made

        if why_not():
            return
        for load in imported:
            load()
        try:
            self.loops = make()
        except NotNoted:
            return


known_kernels: dict[Any, KnownKernel] = {}


def has_run_loops(
    kernel: Callable[..., None], spare: int, x: Buffer, out: Buffer, params: Mapping[str, Any]
) -> bool:
    """Fills memory with a kernel's results for an array by machine code, if that is there.

    Args:
        kernel, spare, params: see ``blockwise``.
        x, out: the array and the memory, of one axis.

    Returns:
        False where the caller is to compute it.
    """
    if held() or not (x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative):
        return False
    key = kernel, x.dtype.char, *params.items()
    known = known_kernels.get(key) or known_kernels.setdefault(key, KnownKernel())
    if known.loops is None:
        known.count(partial(tried_loops, kernel, spare, x.dtype, dict(params)))
        return False
    known.loops(x, out)
    return True


def tried_loops(
    kernel: Callable[..., None], spare: int, dtype: DType, params: Mapping[str, Any]
) -> BlockLoops:
    """Returns the loops of a kernel, once they have made its bits of random numbers.

    Raises:
        NotNoted: they do not, or cannot be listed.
    """
    from ..restoring import quiet

    loops = BlockLoops(kernel, spare, dtype, params)
    x = 10 * np.random.default_rng(0).standard_normal(3 * loops.block + 77).astype(dtype)
    found, expected = np.empty_like(x), np.empty_like(x)
    with quiet():
        kernel(x, expected, *[np.empty_like(x) for _ in range(spare)], **params)
    loops(x, found)
    if found.tobytes() != expected.tobytes():
        raise NotNoted("other bits")
    return loops
