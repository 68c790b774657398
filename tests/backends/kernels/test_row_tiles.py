"""Kernels that go by tiles of rows: their texts, when they are made, and the rules of tiles."""

import numpy as np
import pytest
from support.small_kernels import F4, ROW, A, broken, kernel, value

from functensor.backends.kernels.check import KernelError, check_kernel
from functensor.backends.kernels.graph import ExprGraph, function
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import (
    Buffer,
    Fold,
    For,
    Index,
    Load,
    LoopAxis,
    LoopKernel,
    Store,
    UpdateOf,
)
from functensor.backends.kernels.printed import kernel_text
from functensor.backends.kernels.row_tiles import by_row_tiles, in_tiles, loop_to_tile
from functensor.backends.kernels.schedule import KernelResult, scheduled

TILE_ROWS, OUT_ROWS = Buffer("rows", F4, (3,), "scratch", 2), Buffer("out", F4, (3,), "out")
OF_ROW = Index([(ROW, 1)])
COL = LoopAxis("j", 4)


def logistic(rows, columns, dtype="float32"):
    """A kernel of both passes of a regression: a product, functions of rows, sums of columns."""
    graph = ExprGraph((rows, columns))
    x, w = graph.input(0, dtype, [0, 1]), graph.input(1, dtype, [1])
    y = graph.input(2, dtype, [0])
    found = graph.fold("add", x * w, [1])
    errors = function("tanh")(found) - y
    total = graph.fold("add", errors * errors, [0])
    gradient = graph.fold("add", errors * x, [0])
    results = [KernelResult(node, node.axes) for node in (errors, total, gradient)]
    return scheduled("logistic", graph, [x, w, y], results)


def test_numbers_of_rows_take_the_lanes_of_a_tile():
    text = kernel_text(logistic(200, 50)).splitlines()
    own = [line for line in text if line.startswith("scratch")]
    assert own == [
        "scratch rows_0: float32[200], 16 at a time",
        "scratch rows_1: float32[200], 16 at a time",
    ]
    begin = next(i for i, line in enumerate(text) if "tiles of 16" in line)
    assert text[begin:] == [
        "for i in block of 200, tiles of 16, folding v15 = add(v10):",
        "  for i in block of 200, 4 together:",
        "    for j in 50, lanes 16, folding v4 = add(v3):",
        "      v1 = in_0[i*50 + j]",
        "      v2 = in_1[j]",
        "      v3 = multiply(v1, v2)",
        "    rows_0[i] = v4",
        "  for i in block of 200, lanes 16, folding v10 = add(v9):",
        "    v5 = rows_0[i]",
        "    v6 = in_2[i]",
        "    v7 = tanh(v5)",
        "    v8 = subtract(v7, v6)",
        "    out_0[i] = v8",
        "    v9 = multiply(v8, v8)",
        "    rows_1[i] = v8",
        "  for j in 50, lanes 16:",
        "    for i in block of 200, folding v14 = add(v13):",
        "      v11 = rows_1[i]",
        "      v12 = in_0[i*50 + j]",
        "      v13 = multiply(v11, v12)",
        "    part_2[number*50 + j] = add(part_2[number*50 + j], v14)",
        "part_1[number] = v15",
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [64, 67, 199])
def test_tiles_compute_what_rows_do(rows, dtype):
    kernel = logistic(rows, 21, dtype)
    assert kernel.scratch
    rng = np.random.default_rng(rows)
    x, w, y = (rng.normal(size=n).astype(dtype) for n in ((rows, 21), 21, rows))
    cut = [(0, 0, rows // 2), (1, rows // 2, rows)]
    errors, total, gradient = np.zeros(rows, dtype), np.zeros(2, dtype), np.zeros((2, 21), dtype)
    for block in cut:
        interpret(kernel, [x, w, y, errors, total, gradient], *block)
    wanted = np.tanh(x.astype("d") @ w) - y
    bound = {"rtol": 0, "atol": 100 * np.finfo(dtype).eps * np.sqrt(rows)}
    np.testing.assert_allclose(errors, wanted, **bound)
    np.testing.assert_allclose(total.sum(), (wanted**2).sum(), rtol=20 * np.finfo(dtype).eps)
    np.testing.assert_allclose(gradient.sum(0), wanted @ x, **bound)


@pytest.mark.parametrize(
    ("rows", "columns"), [(60, 50), (4000, 5000)], ids=["few rows", "rows that no cache holds"]
)
def test_kernels_stay_as_they_are(rows, columns):
    assert not logistic(rows, columns).scratch


def test_rows_without_functions_and_sums_of_columns_stay_as_they_are():
    graph = ExprGraph((200, 50))
    x = graph.input(0, "float32", [0, 1])
    total = graph.fold("add", x, [1])
    results = [KernelResult(x - total, frozenset([0, 1]))]
    kernel = scheduled("centred", graph, [x], results)
    assert by_row_tiles(kernel, 64) is kernel
    assert not kernel.scratch
    check_kernel(in_tiles(kernel, loop_to_tile(kernel), 16))


def tiles(*body, **options):
    """A kernel that goes over tiles of two rows."""
    given = {"scratch": [TILE_ROWS], "buffers": [A, OUT_ROWS], **options}
    stored = For(ROW, [Store(OUT_ROWS, OF_ROW, np.float32(1))], (), 2)
    return kernel(For(ROW, [*body, stored], tile=2), **given)


X = value()
KEPT_ROWS = For(ROW, [Store(TILE_ROWS, OF_ROW, np.float32(1))])
READ_ROWS = For(ROW, [Load(X, TILE_ROWS, OF_ROW)])
WRONG = {
    "memory that other tiles filled": broken(
        tiles(READ_ROWS, KEPT_ROWS),
        "buffer rows, `v1 = rows[i]`: it may read elements that nothing before it has written",
    ),
    "memory of a tile without tiles": broken(
        kernel(KEPT_ROWS, scratch=[TILE_ROWS], buffers=[A]),
        "buffer rows, `rows[i] = float32(1.0)`: no loop over tiles of 2 is around it",
    ),
    "memory of two loops over tiles": broken(
        kernel(
            *[For(ROW, [KEPT_ROWS], tile=2) for _ in range(2)], scratch=[TILE_ROWS], buffers=[A]
        ),
        "buffer rows, `rows[i] = float32(1.0)`: two loops over tiles use it",
    ),
    "another row of a tile": broken(
        tiles(For(ROW, [Store(TILE_ROWS, Index([(ROW, -1)], 2), np.float32(1))])),
        "buffer rows, `rows[-i + 2] = float32(1.0)`: it takes elements of other rows",
    ),
    "a place of a tile as a whole": broken(
        tiles(Load(X, A, Index([(ROW, 4)]))),
        "buffer a, `v1 = a[i*4]`: no loop around it goes over i",
    ),
    "lanes of another number": broken(
        tiles(For(ROW, [Load(X, A, Index([(ROW, 4)]))], (), 4)),
        "`for i in block of 3, lanes 4:`: a tile of 2 places has 4 lanes",
    ),
    "tiles within a tile": broken(
        tiles(For(ROW, [], tile=2)),
        "`for i in block of 3, tiles of 2:`: a loop around it goes over i too",
    ),
    "tiles with lanes": broken(
        kernel(For(ROW, [], (), 2, 2), scratch=[], buffers=[A]),
        "`for i in block of 3, tiles of 2, lanes 2:`: a loop over tiles goes over single ones",
    ),
    "places together without tiles": broken(
        kernel(For(ROW, [], together=2), scratch=[], buffers=[A]),
        "`for i in block of 3, 2 together:`: only single places of a tile are computed together",
    ),
    "places together with a fold": broken(
        tiles(For(ROW, [], [Fold(X, "add", np.float32(1))], together=2)),
        "`for i in block of 3, 2 together, folding v1 = add(float32(1.0)):`: only single places "
        "of a tile are computed together",
    ),
    "places together that update": broken(
        tiles(KEPT_ROWS, For(ROW, [UpdateOf(TILE_ROWS, OF_ROW, "add", np.float32(1))], together=2)),
        "buffer rows, `rows[i] = add(rows[i], float32(1.0))`: places that are computed together "
        "write",
    ),
    "rows of a tile that are given": broken(
        kernel(For(ROW, [], tile=2), scratch=[], buffers=[Buffer("a", F4, (3,), "in", 2)]),
        "buffer a: only own memory keeps the rows of one tile",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
def test_rules_of_tiles(wrong, message):
    with pytest.raises(KernelError) as caught:
        check_kernel(wrong)
    assert str(caught.value) == message


def test_rules_of_tiles_are_kept():
    check_kernel(tiles(KEPT_ROWS, READ_ROWS))
    check_kernel(tiles(For(ROW, KEPT_ROWS.body, together=2), READ_ROWS))
    assert isinstance(tiles(), LoopKernel)
