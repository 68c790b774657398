"""Updates of a whole tree of parameters, by one launch for each dtype in it.

The kernel takes pointers and lengths by value, so that nothing is copied before it and nothing
waits. Half precision is computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate, chain
from struct import pack_into
from typing import Any, TypeAlias

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType
from ..launch import C_FLOATS, Kernel, is_contiguous

__all__ = ["UPDATE_FUNCTIONS"]

# The same numbers as in the kernel.
PIECE_BYTES = 8192
UPDATE_BLOCK_THREADS = 256
MOST_STEP_NUMBERS = 7
# Bytes of a table: for every device, and for those of CUDA 12.1 or later.
SMALL_TABLE_BYTES, LARGE_TABLE_BYTES = 4000, 32000
LARGE_TABLE_CUDA = 12010
# The arrays that each rule remembers of a parameter.
SLOTS = {"sgd": 0, "momentum": 1, "nesterov": 1, "adagrad": 1, "lion": 1, "adam": 2, "adamw": 2}
# For each parameter an array, or None.
Columns: TypeAlias = list[list[Any]]


def row_bytes(rule: str) -> int:
    """Returns the bytes of a parameter's row in the table."""
    return 8 * (5 + 2 * SLOTS[rule])


def _instance(rule: str, element: str, table: int) -> str:
    return f"{rule}, {element}, {table // row_bytes(rule)}"


UPDATE_INSTANCES = (
    *(_instance(rule, "float", SMALL_TABLE_BYTES) for rule in SLOTS),
    *(_instance("adam", t, SMALL_TABLE_BYTES) for t in ("double", "half_t", "bfloat16_t")),
    _instance("adam", "float", LARGE_TABLE_BYTES),
)
UPDATE = Kernel("optimizers", "update", "tlddddddd", UPDATE_INSTANCES)


@cache
def largest_table() -> int:
    """Returns how many bytes may be passed by value on this machine."""
    runtime = cupy.cuda.runtime
    oldest = min(runtime.driverGetVersion(), runtime.runtimeGetVersion())
    return LARGE_TABLE_BYTES if oldest >= LARGE_TABLE_CUDA else SMALL_TABLE_BYTES


def updated_parameters(rule: str, columns: Columns, numbers: Sequence[float]) -> Columns:
    """Returns parameters after an update, and the arrays that are remembered of them.

    Args:
        rule: the name of the algorithm.
        columns: the parameters, their gradients, and a column for each remembered array, all of
            the parameter's shape.
        numbers: the rule's numbers in this step.

    Returns:
        A column of the new values and one for each remembered array. All have None for a parameter
        that is not of real floats, or whose remembered arrays have another dtype or device.
    """
    fresh: Columns = [[None] * len(columns[0]) for _ in columns[1:]]
    for (device, dtype), members in _updatable_groups(columns).items():
        whole = len(members) == len(columns[0])
        part = columns if whole else [[column[i] for i in members] for column in columns]
        if Kernel.alone:
            made = _launched(rule, part, dtype, numbers)
        else:
            with cupy.cuda.Device(device):
                made = _launched(rule, part, dtype, numbers)
        if whole:
            return made
        for column, own in zip(fresh, made, strict=True):
            for i, buffer in zip(members, own, strict=True):
                column[i] = buffer
    return fresh


def _updatable_groups(columns: Columns) -> dict[tuple[int, DType], Sequence[int]]:
    """Returns the places of parameters that one launch can update, by their device and dtype."""
    dtypes = [[x.dtype for x in column] for column in columns]
    count = len(dtypes[0])
    if Kernel.alone:
        devices = [[0] * count] * len(columns)
    else:
        devices = [[x.data.device_id for x in column] for column in columns]
    first, device = dtypes[0][0], devices[0][0]
    if (
        first.char in C_FLOATS
        and all(column.count(first) == count for column in dtypes)
        and all(column.count(device) == count for column in devices)
    ):
        # This is nearly always so; the rest is for other cases.
        return {(device, first): range(count)}
    groups: dict[tuple[int, DType], list[int]] = {}
    for i, ((own, g, *slots), places) in enumerate(
        zip(zip(*dtypes, strict=True), zip(*devices, strict=True), strict=True)
    ):
        # A gradient of another dtype is cast; memory of another one was made by someone else.
        if (
            own.char in C_FLOATS
            and g.kind != "c"
            and places.count(places[0]) == len(places)
            and slots.count(own) == len(slots)
        ):
            groups.setdefault((places[0], own), []).append(i)
    return dict(groups)


def _dense(x: ndarray, dtype: DType) -> ndarray:
    """Returns an array as the kernel reads it."""
    # CuPy's way to make an array contiguous gives one without axes an axis.
    return x if x.dtype == dtype and is_contiguous(x) else x.astype(dtype, order="C")


def _launched(rule: str, columns: Columns, dtype: DType, numbers: Sequence[float]) -> Columns:
    """Returns the new values and memory of parameters of one dtype, on the current device."""
    count = len(columns[0])
    # Only a gradient may have another dtype. Arrays that are made here live until the launch.
    cast = [g.dtype for g in columns[1]].count(dtype) < count
    if cast or not all(all(map(is_contiguous, column)) for column in columns):
        columns = [[_dense(x, dtype) for x in column] for column in columns]
    # CuPy finds a dtype faster by its letter; that of bfloat16 is not NumPy's.
    letter: str = dtype.char
    made_of = dtype if letter == "E" else letter
    shapes = [x.shape for x in columns[0]]
    fresh: Columns = [[ndarray(shape, made_of) for shape in shapes] for _ in columns[1:]]

    width = row_bytes(rule)
    limit = SMALL_TABLE_BYTES if count <= SMALL_TABLE_BYTES // width else largest_table()
    most = limit // width
    instance, passed = _form(rule, letter, limit)
    pointers = [[x.data.ptr for x in column] for column in (*columns, *fresh)]
    sizes = [x.size for x in columns[0]]
    length = PIECE_BYTES // dtype.itemsize
    constants = [*map(float, numbers), *[0.0] * (MOST_STEP_NUMBERS - len(numbers))]
    for start in range(0, count, most):
        part = slice(start, start + most)
        # An array without elements has no block: it begins where the next one does.
        firsts = list(accumulate([-(-size // length) for size in sizes[part]], initial=0))
        blocks = firsts.pop()
        if blocks:
            rows = zip(*[column[part] for column in pointers], sizes[part], firsts)
            words = bytearray(passed.itemsize)
            pack_into(f"{len(firsts) * width // 8}Q", words, 0, *chain.from_iterable(rows))
            table = np.frombuffer(words, passed)
            UPDATE(instance, blocks, UPDATE_BLOCK_THREADS, table, len(firsts), *constants)
    return fresh


@cache
def _form(rule: str, letter: str, table: int) -> tuple[str, DType]:
    """Returns the instance for a rule, a dtype and a size of tables, and the table's dtype."""
    rows = table // row_bytes(rule)
    return _instance(rule, C_FLOATS[letter], table), np.dtype(f"V{rows * row_bytes(rule)}")


# By the rule's name; ``update(columns, numbers)``.
UPDATE_FUNCTIONS: dict[str, Callable[[Columns, Sequence[float]], Columns]] = {
    rule: partial(updated_parameters, rule) for rule in SLOTS
}
