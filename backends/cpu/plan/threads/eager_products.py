"""Products of matrices outside of plans, in parts that threads share.

A product of two matrices is cut as in plans, one of stacks into those of its matrices. The parts do
not depend on who computes them, and neither do their bits. Where machine code is to be had,
threads hand them on without Python in between; until it is there, and elsewhere, the pool does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.background import later
from ....native.desk import awake
from .balance import balance
from .matmul import cut_up, multiply_each, threaded_matmul
from .pool import call_helpers, threads
from .sharing import MeasuredSharing

if TYPE_CHECKING:
    from ....annotations import Buffer, Shape
    from ....native.background import BackgroundJob

__all__ = ["MeasuredTeam", "product_in_parts"]

# So many layouts of operands are known at once.
MOST_LAYOUTS = 512
# So many products of a layout are measured on one thread, before threads share others.
CALLS_ALONE = 3
# What makes the functions of machine code comes last.
NEEDED_BY_PRODUCTS = "hashlib", "....native.product_parts"
# BLAS's number for operands as they are given; transposed ones have the next one.
AS_GIVEN = 111
# Products of fewer rows, columns, or terms are not computed as those of matrices.
FEWEST_OF_A_MATRIX = 2
# Some BLAS have whole numbers of 32 bits.
LARGEST_SIZE = (1 << 31) - 1
# Stacks of more matrices are cut into as many parts as there are threads.
MOST_MATRICES = 4096


class MeasuredTeam:
    """Runs a function of machine code by a team, unless sharing has cost more than it saves.

    The first calls are measured on one thread.
    """

    __slots__ = ("_times_alone",)

    def __init__(self) -> None:
        self._times_alone: list[float] = []

    def __call__(self, run: Callable[..., Any], operands: tuple[Any, ...]) -> None:
        """Runs the function on some operands."""
        begun = perf_counter()
        known = len(self._times_alone) >= CALLS_ALONE
        number = threads.number if known and begun >= balance.rests_until else 1
        multiplied(run, operands, number)
        end = perf_counter()
        if number > 1:
            balance.add(min(self._times_alone) - (end - begun), end)
        elif not known:
            self._times_alone.append(end - begun)


class ProductLayout:
    """The parts of products of operands with some shapes and strides.

    Attributes:
        shape: the result's.
        numbers: what machine code is told of the parts; None where it does not compute them.
        stack: whether the operands are stacks.
    """

    __slots__ = ("_by_pool", "_by_team", "numbers", "shape", "stack")

    def __init__(self, x: Buffer, y: Buffer) -> None:
        self.stack = x.ndim > 2
        self.shape = (*x.shape[:-1], y.shape[-1])
        matrices = x.ndim > 1 and y.ndim > 1
        self.numbers: Any = in_numbers(x, y, self.shape) if matrices else None
        self._by_team = MeasuredTeam()
        self._by_pool = MeasuredSharing()

    def __repr__(self) -> str:
        return f"<parts of products of shape {self.shape}>"

    def by_code(self, run: Callable[..., Any], x: Buffer, y: Buffer) -> Any:
        """Returns the product by machine code; None where NumPy is to compute it."""
        from ....native.product_parts import AT_ONE_PLACE, SAID_PLACE

        out = np.empty(self.shape, x.dtype)
        # Other threads may have a product of this layout at the same time.
        numbers = self.numbers.copy()
        self._by_team(run, (x, y, out, numbers))
        said = numbers[SAID_PLACE]
        if said and (said == AT_ONE_PLACE or set(np.geterr().values()) != {"ignore"}):
            return None
        return out

    def by_pool(self, x: Buffer, y: Buffer) -> Any:
        """Returns the product by the threads of the pool."""
        if not self.stack:
            return threaded_matmul(x, y, None, self._by_pool)
        out = np.empty(self.shape, x.dtype)
        number = threads.number
        length = len(x)
        edges = [length * i // number for i in range(number + 1)]
        parts = [(x[i:j], y[i:j], out[i:j]) for i, j in pairwise(edges) if i < j]
        self._by_pool(partial(multiply_each, iter(parts)), len(parts))
        return out


@cache
def teams() -> Any:
    """Returns the module of teams, which is loaded where there is machine code."""
    from ....native import team

    return team


def multiplied(
    run: Callable[..., Any], operands: Sequence[Any], number: int = 1, others: Sequence[Any] = ()
) -> None:
    """Runs a function of machine code, on so many threads.

    Args:
        run: the function.
        operands: what it takes before the memory of its team.
        number: how many threads there are.
        others: what it takes behind that.
    """
    module = teams()
    # Helpers that look for the next piece find no other team.
    team = (module.TeamOfPieces if number > 1 else module.Team).taken(helped=False)
    if number > 1:
        team.show()
        if awake() < number - 1:
            call_helpers(module.serve_teams, number - 1)
    run(*operands, team.memory, *others)
    team.give_back()


def distance_of_rows(strides: tuple[int, int], shape: Shape, itemsize: int) -> tuple[bool, int]:
    """Returns if BLAS takes a matrix as a transposed one, and how many elements its rows lie apart.

    The number is 0 where it takes the matrix in no way. The choice is NumPy's.
    """
    for turned in (False, True):
        apart, step = strides[::-1] if turned else strides
        across = shape[0] if turned else shape[1]
        elements, rest = divmod(apart, itemsize)
        if step == itemsize and not rest and across <= elements <= LARGEST_SIZE:
            return turned, elements
    return False, 0


def in_numbers(x: Buffer, y: Buffer, shape: Shape) -> Any:
    """Returns the numbers that machine code takes; None where it does not take such operands."""
    many = prod(shape[:-2]) > MOST_MATRICES
    if many or x.dtype.char not in "fd" or not x.dtype.isnative:
        return None
    out = np.empty(shape, x.dtype)
    if x.ndim == 2:
        parts = cut_up(x, y, out)[1]
    else:
        parts = [(x[at], y[at], out[at]) for at in np.ndindex(*shape[:-2])]
    orders = []
    for a, b, c in parts:
        found = [distance_of_rows(v.strides, v.shape, v.itemsize) for v in (a, b, c)]
        sizes = *a.shape, b.shape[1]
        if min(sizes) < FEWEST_OF_A_MATRIX or max(sizes) > LARGEST_SIZE:
            return None
        if not all(n for _, n in found):
            return None
        orders.append(found)
    (x_turned, x_rows), (y_turned, y_rows), (_, out_rows) = orders[0]
    numbers = [len(parts), 0, x.shape[-1], AS_GIVEN + x_turned, AS_GIVEN + y_turned]
    numbers += [x_rows, y_rows, out_rows]
    for a, b, c in parts:
        starts = [part.ctypes.data - v.ctypes.data for part, v in ((a, x), (b, y), (c, out))]
        numbers += [*c.shape, *starts]
    return np.array(numbers, np.int64)


class Multipliers:
    """The functions of machine code, which a thread makes that nobody waits for.

    Attributes:
        found: the function for each letter of a dtype; None where there is none.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._job: BackgroundJob | None = None

    def __call__(self, char: str) -> Callable[..., Any] | None:
        """Returns the function for a dtype if it is there, and else has it made."""
        if char in self.found:
            return self.found[char]  # type: ignore[no-any-return]
        if self._job is None or self._job.done:
            from ....native.machine import in_step  # only where there is large work

            # In the child of a fork in the middle of an import nobody could import the module.
            import_one = partial(in_step, import_module)
            imported = [partial(import_one, name, __package__) for name in NEEDED_BY_PRODUCTS]
            self._job = later(partial(self.make, char, imported))
        return None

    def make(self, char: str, imported: Sequence[Callable[[], Any]]) -> None:
        """Makes the function for a dtype, once it has imported what it needs."""
        made = None
        try:
            *_, module = [load() for load in imported]
            made = module.multiplier(char)
        finally:
            self.found[char] = made


multipliers = Multipliers()
layouts: dict[Any, ProductLayout] = {}


def product_in_parts(x: Buffer, y: Buffer) -> Any:
    """Returns ``x @ y`` while BLAS keeps to one thread.

    Both are matrices, or stacks of as many, or one is a vector and the other a matrix.
    """
    char = x.dtype.char
    key = char, threads.number, x.shape, x.strides, y.shape, y.strides
    layout = layouts.get(key)
    if layout is None:
        if len(layouts) >= MOST_LAYOUTS:
            layouts.clear()
        layout = layouts[key] = ProductLayout(x, y)
    if layout.numbers is not None and x.flags.aligned and y.flags.aligned:
        run = multipliers(char)
        out = None if run is None else layout.by_code(run, x, y)
        if out is not None:
            return out
    return layout.by_pool(x, y)
