"""Machine code of random kernels: the same bits as the interpreter's, functions included."""

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.native import missing, run_compiled
from support.random_graphs import float_graphs, input_shape, integer_graphs, shown

from functensor.backends.kernels.accesses import buffer_elements
from functensor.backends.kernels.graph import ExprGraph, function
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.printed import kernel_text
from functensor.backends.kernels.row_tiles import in_tiles, loop_to_tile
from functensor.backends.kernels.schedule import KernelResult, scheduled
from functensor.backends.native.printer import printed_module

TILES = st.sampled_from([0, 2, 4, 8])
pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def arrays_of(kernel, inputs, blocks):
    """The memory of a kernel's buffers: the inputs, and results that hold a number already."""
    results = kernel.buffers[len(inputs) :]
    counts = [(blocks if x.role == "part" else 1) * buffer_elements(x) for x in results]
    return [*inputs, *[np.full(n, 77, x.dtype) for n, x in zip(counts, results)]]


def assert_equal(drawn, inputs, count, tile=0):
    """Asserts that machine code and the interpreter write the same bits; any NaN equals another.

    A tile is the number of rows that the kernel goes by, if it can.
    """
    graph, nodes, results = drawn
    note(f"a grid {graph.lengths}\n{shown(results)}")
    kernel = scheduled("drawn", graph, nodes, results, whole=not count)
    loop = loop_to_tile(kernel) if tile else None
    if loop is not None:
        kernel = in_tiles(kernel, loop, tile)
    note(kernel_text(kernel))
    rows = graph.lengths[0]
    size = -(-rows // max(count, 1))
    blocks = [(number, i, min(i + size, rows)) for number, i in enumerate(range(0, rows, size))]
    wanted = arrays_of(kernel, inputs, len(blocks))
    found = arrays_of(kernel, inputs, len(blocks))
    for block in blocks:
        interpret(kernel, wanted, *block, by_formulas=True)
    run_compiled(kernel, found, blocks)
    for right, array in zip(wanted, found):
        np.testing.assert_array_equal(array, right)
        np.testing.assert_array_equal(np.signbit(array[right == 0]), np.signbit(right[right == 0]))


def input_size(graph, x):
    return int(np.prod(input_shape(graph, x), dtype=int))


@settings(max_examples=sized(10, 100))
@given(integer_graphs(), st.integers(0, 3), st.integers(0, 99), TILES)
def test_whole_numbers(drawn, count, seed, tile):
    graph, nodes, _ = drawn
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(0, 120, input_size(graph, x)).astype(x.dtype) for x in nodes]
    assert_equal(drawn, inputs, count, tile)


@settings(max_examples=sized(10, 100))
@given(float_graphs(), st.integers(0, 3), st.integers(0, 99), st.floats(0.1, 1e3), TILES)
def test_floats(drawn, count, seed, scale, tile):
    graph, nodes, _ = drawn
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(0, scale, input_size(graph, x)).astype(x.dtype) for x in nodes]
    for x in inputs:
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], x.size)
        x[:] = np.where(rng.uniform(size=x.size) < 0.05, special, x)
    assert_equal(drawn, inputs, count, tile)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("names", [("sin", "cos"), ("cosh", "sinh")])
def test_functions_that_share_their_work_are_called_once(names, dtype):
    graph = ExprGraph((45,))
    x = graph.input(0, dtype, [0])
    first, second = (function(name) for name in names)
    nodes = [first(x), second(x), first(x + 0.5), second(x + 0.5), first(x * 2.0)]
    results = [KernelResult(node, node.axes) for node in nodes]
    kernel = scheduled("twins", graph, [x], results, whole=True)
    text = printed_module([kernel])
    # The loop and the masked step have two pairs each.
    assert text.count(f"call {{ <{kernel.body[0].lanes}") == 4
    inputs = [np.linspace(-9, 9, 45).astype(dtype)]
    wanted, found = arrays_of(kernel, inputs, 1), arrays_of(kernel, inputs, 1)
    interpret(kernel, wanted, 0, 0, 45, by_formulas=True)
    run_compiled(kernel, found, [(0, 0, 45)])
    for right, array in zip(wanted, found):
        np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize(("columns", "loops"), [(64, 2), (72, 2), (512, 3)])
def test_few_short_steps_are_written_without_a_loop(columns, loops):
    graph = ExprGraph((3, 5, columns))
    x, y = graph.input(0, "float32", [0, 1]), graph.input(1, "float32", [0, 2])
    product = x * y
    kernel = scheduled("outer", graph, [x, y], [KernelResult(product, product.axes)], whole=True)
    assert printed_module([kernel]).count("phi i64") == loops
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=n).astype(np.float32) for n in (15, 3 * columns)]
    wanted, found = arrays_of(kernel, inputs, 3), arrays_of(kernel, inputs, 3)
    interpret(kernel, wanted, 0, 0, 3)
    run_compiled(kernel, found, [(0, 0, 3)])
    np.testing.assert_array_equal(found[-1], wanted[-1])


def test_what_goes_over_tiles_is_not_cut_again():
    graph = ExprGraph((130, 2))
    one, x = graph.input(0, "float32", []), graph.input(2, "float32", [0, 1])
    total = graph.fold("add", x, {0})
    results = [KernelResult(one, frozenset({0})), KernelResult(total, total.axes)]
    kernel = scheduled("drawn", graph, [one, x], results, whole=True)
    assert any(getattr(statement, "tile", 0) for statement in kernel.body)
    assert loop_to_tile(kernel) is None
