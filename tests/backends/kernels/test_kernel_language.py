"""Kernels made by hand: their texts, their checks, and what the interpreter computes."""

import ml_dtypes
import numpy as np
import pytest

from functensor.backends.kernels.arithmetic import computed
from functensor.backends.kernels.check import KernelError, check_kernel, check_shared
from functensor.backends.kernels.interpret import folded_lanes, interpret
from functensor.backends.kernels.kernel import (
    BLOCK_NUMBER,
    Buffer,
    Fold,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    PlaceOf,
    PlaceWithin,
    Store,
    UpdateOf,
    fold_identity,
)
from functensor.backends.kernels.printed import kernel_text

F4 = np.dtype(np.float32)
F8 = np.dtype(np.float64)


def softmax_kernel(rows, columns, lanes):
    """Softmax over rows: exponentials are kept in scratch memory."""
    i, j = LoopAxis("i", rows, block=True), LoopAxis("j", columns)
    a, out = Buffer("a", F4, (rows, columns), "in"), Buffer("out", F4, (rows, columns), "out")
    kept = Buffer("kept", F4, (columns,), "scratch")
    there, column = Index([(i, columns), (j, 1)]), Index([(j, 1)])
    x, largest, y, low, e, total, again, share = [LoopValue(F4) for _ in range(8)]
    body = [
        For(j, [Load(x, a, there)], [Fold(largest, "maximum", x)], lanes),
        For(
            j,
            [
                Load(y, a, there),
                Let(low, "subtract", [y, largest]),
                Let(e, "exp", [low]),
                Store(kept, column, e),
            ],
            [Fold(total, "add", e)],
            lanes,
        ),
        For(
            j,
            [
                Load(again, kept, column),
                Let(share, "divide", [again, total]),
                Store(out, there, share),
            ],
            (),
            lanes,
        ),
    ]
    return LoopKernel("softmax", [a, out], [kept], [For(i, body)])


def column_sums_kernel(rows, columns, lanes):
    """Sums of columns, a part of each block."""
    i, j = LoopAxis("i", rows, block=True), LoopAxis("j", columns)
    a = Buffer("a", F8, (rows, columns), "in")
    part = Buffer("part", F8, (BLOCK_NUMBER.extent, columns), "part")
    there, column = Index([(i, columns), (j, 1)]), Index([(BLOCK_NUMBER, columns), (j, 1)])
    x = LoopValue(F8)
    inner = [Load(x, a, there), UpdateOf(part, column, "add", x)]
    body = [
        For(j, [Store(part, column, fold_identity("add", F8))], (), lanes),
        For(i, [For(j, inner, (), lanes)]),
    ]
    return LoopKernel("column_sums", [a, part], [], body)


def full_sum_kernel(rows, columns, lanes, operation="add", dtype=F4):
    """A fold over everything."""
    i, j = LoopAxis("i", rows, block=True), LoopAxis("j", columns)
    a = Buffer("a", dtype, (rows, columns), "in")
    part = Buffer("part", dtype, (BLOCK_NUMBER.extent,), "part")
    x, row, total = [LoopValue(dtype) for _ in range(3)]
    inner = For(j, [Load(x, a, Index([(i, columns), (j, 1)]))], [Fold(row, operation, x)], lanes)
    body = [
        For(i, [inner], [Fold(total, operation, row)]),
        Store(part, Index([(BLOCK_NUMBER, 1)]), total),
    ]
    return LoopKernel("full_sum", [a, part], [], body)


def broadcast_kernel(rows, columns, lanes):
    """``where(i < j, a * b + c, trunc(a))`` with a column ``b`` and a row ``c``."""
    i, j = LoopAxis("i", rows, block=True), LoopAxis("j", columns)
    a = Buffer("a", F8, (rows, columns), "in")
    b, c = Buffer("b", F8, (rows, 1), "in"), Buffer("c", F8, (columns,), "in")
    out = Buffer("out", np.dtype(np.int64), (rows, columns), "out")
    there = Index([(i, columns), (j, 1)])
    x, y, z, w, down, chosen = [LoopValue(F8) for _ in range(6)]
    row, column = LoopValue(np.dtype(np.int32)), LoopValue(np.dtype(np.int32))
    less, result = LoopValue(np.dtype(bool)), LoopValue(out.dtype)
    inner = [
        PlaceOf(column, j),
        Load(x, a, there),
        Load(z, c, Index([(j, 1)])),
        Let(w, "fma", [x, y, z]),
        Let(less, "less", [row, column]),
        Let(down, "trunc", [x]),
        Let(chosen, "select", [less, w, down]),
        Let(result, "cast", [chosen]),
        Store(out, there, result),
    ]
    body = [Load(y, b, Index([(i, 1)])), PlaceOf(row, i), For(j, inner, (), lanes)]
    return LoopKernel("broadcast", [a, b, c, out], [], [For(i, body)])


def blocks_of(rows, size):
    return [(number, low, min(low + size, rows)) for number, low in enumerate(range(0, rows, size))]


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 40)])
def test_softmax(shape, lanes):
    kernel = softmax_kernel(*shape, lanes)
    check_shared(kernel, [kernel.buffers])
    a = np.random.default_rng(0).normal(size=shape).astype(F4)
    found = np.full_like(a, np.nan)
    for block in blocks_of(shape[0], 2):
        interpret(kernel, [a, found], *block)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("lanes", [1, 8])
def test_column_sums_in_parts(lanes):
    rows, columns = 11, 13
    kernel = column_sums_kernel(rows, columns, lanes)
    a = np.random.default_rng(1).normal(size=(rows, columns))
    parts = np.full((4, columns), np.nan)
    for block in blocks_of(rows, 3):
        interpret(kernel, [a, parts], *block)
    wanted = np.stack([a[low : low + 3].sum(0) for low in range(0, rows, 3)])
    np.testing.assert_allclose(parts, wanted, rtol=1e-14)


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_full_sum(lanes):
    rows, columns = 70, 67
    a = np.random.default_rng(2).normal(size=(rows, columns)).astype(F4)
    parts = np.zeros(2, F4)
    kernel = full_sum_kernel(rows, columns, lanes)
    for block in blocks_of(rows, 50):
        interpret(kernel, [a, parts], *block)
    np.testing.assert_allclose(parts.sum(), a.sum(dtype=F8), rtol=1e-4)
    for operation in ("maximum", "minimum"):
        kernel = full_sum_kernel(rows, columns, lanes, operation)
        interpret(kernel, [a, parts[:1]])
        assert parts[0] == getattr(np, operation).reduce(a, axis=None)


@pytest.mark.parametrize("lanes", [1, 8])
def test_elementwise_with_broadcast(lanes):
    rows, columns = 6, 21
    kernel = broadcast_kernel(rows, columns, lanes)
    rng = np.random.default_rng(3)
    # Products of small whole numbers are exact, so that one rounding is as good as two.
    a, b, c = [rng.integers(-99, 99, n) / 4 for n in [(rows, columns), (rows, 1), columns]]
    found = np.zeros((rows, columns), np.int64)
    interpret(kernel, [a, b, c, found])
    i, j = np.indices((rows, columns))
    np.testing.assert_array_equal(found, np.where(i < j, a * b + c, np.trunc(a)).astype(np.int64))


def test_text():
    assert kernel_text(softmax_kernel(5, 40, 16)) == (
        "kernel softmax(in a: float32[5, 40], out out: float32[5, 40])\n"
        "scratch kept: float32[40]\n"
        "for i in block of 5:\n"
        "  for j in 40, lanes 16, folding v2 = maximum(v1):\n"
        "    v1 = a[i*40 + j]\n"
        "  for j in 40, lanes 16, folding v6 = add(v5):\n"
        "    v3 = a[i*40 + j]\n"
        "    v4 = subtract(v3, v2)\n"
        "    v5 = exp(v4)\n"
        "    kept[j] = v5\n"
        "  for j in 40, lanes 16:\n"
        "    v7 = kept[j]\n"
        "    v8 = divide(v7, v6)\n"
        "    out[i*40 + j] = v8"
    )
    assert kernel_text(column_sums_kernel(3, 4, 1)) == (
        "kernel column_sums(in a: float64[3, 4], part part: float64[blocks, 4])\n"
        "for j in 4:\n"
        "  part[number*4 + j] = float64(0.0)\n"
        "for i in block of 3:\n"
        "  for j in 4:\n"
        "    v1 = a[i*4 + j]\n"
        "    part[number*4 + j] = add(part[number*4 + j], v1)"
    )
    assert kernel_text(broadcast_kernel(3, 4, 4)).splitlines()[4:] == [
        "  for j in 4, lanes 4:",
        "    v3 = j",
        "    v4 = a[i*4 + j]",
        "    v5 = c[j]",
        "    v6 = fma(v4, v1, v5)",
        "    v7 = less(v2, v3)",
        "    v8 = trunc(v4)",
        "    v9 = select(v7, v6, v8)",
        "    v10 = cast[int64](v9)",
        "    out[i*4 + j] = v10",
    ]


def test_text_of_indexes():
    i, j = LoopAxis("i", 3), LoopAxis("j", 4)
    a = Buffer("a", F4, (12,), "in")
    loads = [
        Load(LoopValue(F4), a, Index([(i, -4), (j, -1)], 11)),
        Load(LoopValue(F4), a, Index()),
        Load(LoopValue(F4), a, Index([(j, 3)], -1)),
    ]
    text = kernel_text(LoopKernel("k", [a], [], [For(i, [For(j, loads)])]))
    assert [line.strip() for line in text.splitlines()[3:]] == [
        "v1 = a[-i*4 - j + 11]",
        "v2 = a[0]",
        "v3 = a[j*3 - 1]",
    ]


def folded(numbers, lanes, operation="add", dtype=F4):
    loop = For(LoopAxis("i", len(numbers)), [], [], lanes)
    numbers = np.asarray(numbers, dtype)
    return folded_lanes(loop, Fold(LoopValue(dtype), operation, dtype.type(0)), numbers)[()]


def by_the_words(numbers, lanes):
    """A sum in the order that the language states, by Python's numbers of single precision."""
    flushes = len(numbers) > 64 * lanes
    sums = []
    for lane in range(lanes):
        mine = [np.float32(0.0), *numbers[lane::lanes]]
        total = np.float32(0.0)
        running = mine[0]
        for count, x in enumerate(mine[1:], 1):
            running = running + x
            if flushes and count % 64 == 0:
                total, running = total + running, np.float32(0.0)
        sums.append(total + running if flushes else running)
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [x + y for x, y in zip(sums[:half], sums[half:])]
    return sums[0]


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("count", [1, 3, 16, 64, 65, 256, 257, 1024, 1025, 3001])
def test_order_of_sums(count, lanes):
    numbers = np.random.default_rng(count).normal(size=count).astype(F4)
    assert folded(numbers, lanes) == by_the_words(numbers, lanes)


def test_orders_of_sums_differ():
    numbers = np.random.default_rng(5).normal(size=3001).astype(F4)
    assert len({folded(numbers, lanes) for lanes in (1, 4, 16)}) == 3


@pytest.mark.parametrize("lanes", [1, 4])
def test_missing_lanes_change_nothing(lanes):
    assert np.signbit(folded([-0.0] * 5, lanes, "multiply"))
    assert folded([-2.0] * 5, lanes, "maximum") == -2
    assert folded([-np.inf] * 5, lanes, "maximum") == -np.inf
    assert folded([2.0] * 5, lanes, "multiply") == 32
    assert folded([-7] * 5, lanes, "maximum", np.dtype(np.int8)) == -7
    assert np.isnan(folded([1.0, np.nan, 3.0, 2.0, 5.0], lanes, "minimum"))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("operation", ["add", "multiply", "maximum", "minimum"])
def test_folds_begin_with_what_changes_no_number_but_the_sign_of_a_zero(operation, dtype):
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    dtype = np.dtype(dtype)
    numbers = [0, 1] if dtype.kind == "b" else [0, 1, 3, 100]
    numbers += [-0.0, -3, np.inf, -np.inf] if dtype.kind in "fV" else []
    for number in np.array(numbers, dtype):
        first = fold_identity(operation, dtype)
        assert first.dtype == dtype
        found = computed(operation, [first, number], dtype)
        assert found == number
        if dtype.kind in "fV":
            positive = operation == "add" and number == 0  # as NumPy's sums
            assert np.signbit(found) == (np.signbit(number) and not positive)


def test_arrays_are_those_of_the_buffers():
    kernel = full_sum_kernel(3, 4, 4)
    parts = np.zeros(1, F4)
    with pytest.raises(ValueError, match=r"float32\(3, 5\) in C order is not a: float32\[3, 4\]"):
        interpret(kernel, [np.zeros((3, 5), F4), parts])
    with pytest.raises(ValueError, match="in C order"):
        interpret(kernel, [np.zeros((4, 3), F4).T, parts])
    with pytest.raises(ValueError, match="float64"):
        interpret(kernel, [np.zeros((3, 4)), parts])


@pytest.mark.parametrize(
    "kernel",
    [
        softmax_kernel(5, 40, 16),
        column_sums_kernel(5, 40, 8),
        full_sum_kernel(5, 40, 16),
        broadcast_kernel(5, 40, 8),
        softmax_kernel(0, 40, 16),
        softmax_kernel(5, 0, 1),
        column_sums_kernel(5, 0, 1),
        broadcast_kernel(1, 1, 1),
    ],
    ids=lambda kernel: kernel.name,
)
def test_kernels_keep_the_rules(kernel):
    check_kernel(kernel)


def gather_kernel(dtype):
    """Rows of a table by numbers, times a factor of each row."""
    i, j = LoopAxis("i", 5, block=True), LoopAxis("j", 3)
    numbers, table = Buffer("n", dtype, (5,), "in"), Buffer("t", F4, (4, 3), "in")
    out = Buffer("out", F4, (5, 3), "out")
    number, row = LoopValue(dtype), LoopValue(np.dtype(np.int64))
    x, y = LoopValue(F4), LoopValue(F4)
    inner = [
        Load(x, table, Index([(j, 1)], 0, [(row, 3)])),
        Let(y, "add", [x, x]),
        Store(out, Index([(i, 3), (j, 1)]), y),
    ]
    body = [Load(number, numbers, Index([(i, 1)])), PlaceWithin(row, number, 4)]
    return LoopKernel("rows", [numbers, table, out], [], [For(i, [*body, For(j, inner, lanes=4)])])


def test_gathers_as_text():
    assert kernel_text(gather_kernel(np.dtype(np.int16))).splitlines() == [
        "kernel rows(in n: int16[5], in t: float32[4, 3], out out: float32[5, 3])",
        "for i in block of 5:",
        "  v1 = n[i]",
        "  v2 = v1 within 4",
        "  for j in 3, lanes 4:",
        "    v3 = t[v2*3 + j]",
        "    v4 = add(v3, v3)",
        "    out[i*3 + j] = v4",
    ]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_numbers_name_places_of_an_axis(dtype):
    dtype = np.dtype(dtype)
    numbers = np.array([0, 3, -1, -4, 2]).astype(dtype)
    if dtype.kind == "u" and dtype.itemsize < 8:
        numbers = np.array([0, 3, 200, 4, 2]).astype(dtype)  # the nearest place is the last
    table, out = np.arange(12, dtype="f4").reshape(4, 3), np.zeros((5, 3), "f4")
    interpret(gather_kernel(dtype), [numbers, table, out])
    rows = [0, 3, 3, 3 if dtype.kind == "u" and dtype.itemsize < 8 else 0, 2]
    np.testing.assert_array_equal(out, 2 * table[rows])


def test_numbers_out_of_bounds_name_the_nearest_place():
    numbers = np.array([4, 99, -5, -99, 1])
    table, out = np.arange(12, dtype="f4").reshape(4, 3), np.zeros((5, 3), "f4")
    interpret(gather_kernel(numbers.dtype), [numbers, table, out])
    np.testing.assert_array_equal(out, 2 * table[[3, 3, 0, 0, 1]])


def test_what_is_gathered_shares_no_memory():
    i = LoopAxis("i", 3)
    a, out = Buffer("a", F4, (3,), "in"), Buffer("out", F4, (3,), "out")
    number, place, x = LoopValue(np.dtype(np.int32)), LoopValue(np.dtype(np.int64)), LoopValue(F4)
    body = [PlaceOf(number, i), PlaceWithin(place, number, 3)]
    body += [Load(x, a, Index([], 0, [(place, 1)])), Store(out, Index([(i, 1)]), x)]
    kernel = LoopKernel("k", [a, out], [], [For(i, body)])
    check_kernel(kernel)
    with pytest.raises(KernelError, match="elements may be overwritten before they are read"):
        check_shared(kernel, [(a, out)])
