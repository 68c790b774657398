"""Random graphs: their kernels keep the rules, and compute what NumPy computes directly."""

import numpy as np
from hypothesis import assume, given, note
from hypothesis import strategies as st
from support.random_graphs import (
    evaluated,
    float_graphs,
    input_shape,
    integer_graphs,
    is_exact,
    shown,
)

from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.printed import kernel_text
from functensor.backends.kernels.row_tiles import in_tiles, loop_to_tile
from functensor.backends.kernels.schedule import scheduled

TILES = st.sampled_from([0, 2, 4])


def blocks(rows, count):
    """Cuts rows into blocks, of which the last ones may be shorter."""
    size = -(-rows // count)
    return [(number, low, min(low + size, rows)) for number, low in enumerate(range(0, rows, size))]


def run(graph, inputs, results, arrays, count, tile):
    """Runs the kernel of a graph; returns nodes, their arrays over the grid, and their results.

    Args:
        graph: the graph.
        inputs: its inputs.
        results: its results.
        arrays: the arrays of the inputs.
        count: how many blocks there are; 0 for a kernel that computes all rows in one run.
        tile: the number of rows that the kernel goes by, if it can; 0 for single rows.
    """
    note(f"a grid {graph.lengths}\n{shown(results)}")
    kernel = scheduled("drawn", graph, inputs, results, whole=not count)
    loop = loop_to_tile(kernel) if tile else None
    if loop is not None:
        kernel = in_tiles(kernel, loop, tile)
    note(kernel_text(kernel))
    cut = blocks(graph.lengths[0], max(count, 1))
    found = []
    for result in results:
        shape = [graph.lengths[axis] for axis in sorted(result.axes)]
        shape += [2] * (result.imag is not None)
        parts = [len(cut)] * bool(result.late and count)
        found.append(np.full(parts + shape, 77, result.node.dtype))
    for block in cut:
        interpret(kernel, [*arrays, *found], *block)
    grid = []
    for result, array in zip(results, found):
        if result.late and count:
            array = getattr(np, result.node.detail).reduce(array, axis=0, dtype=array.dtype)
            array = array / array.dtype.type(result.divisor) if result.divisor > 1 else array
        shape = [n if axis in result.axes else 1 for axis, n in enumerate(graph.lengths)]
        both = [array] if result.imag is None else [array[..., 0], array[..., 1]]
        grid += [(x, part.reshape(shape), result) for x, part in zip(result.nodes, both)]
    return grid


@given(integer_graphs(), st.integers(0, 3), st.integers(0, 99), TILES)
def test_graphs_of_whole_numbers(drawn, count, seed, tile):
    graph, inputs, results = drawn
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 120, input_shape(graph, x)).astype(x.dtype) for x in inputs]
    with np.errstate(over="ignore"):
        found = run(graph, inputs, results, arrays, count, tile)
        wanted = evaluated(graph, results, arrays)
    for node, array, _ in found:
        right = np.broadcast_to(wanted[node], array.shape)
        np.testing.assert_array_equal(array, right)


@given(float_graphs(), st.integers(0, 3), st.integers(0, 99), TILES)
def test_graphs_of_floats(drawn, count, seed, tile):
    graph, inputs, results = drawn
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, input_shape(graph, x)).astype(x.dtype) for x in inputs]
    wanted = evaluated(graph, results, arrays)
    largest = max([1.0, *[np.abs(x).max() for x in wanted.values() if x.dtype.kind == "f"]])
    # Products of large numbers would be wrong by as much as they are large.
    assume(largest < 1e4)
    found = run(graph, inputs, results, arrays, count, tile)
    for node, array, result in found:
        right = np.broadcast_to(wanted[node] / array.dtype.type(result.divisor), array.shape)
        if is_exact([result]):
            assert array.tobytes() == right.tobytes()
        else:
            bound = 1000 * np.finfo(array.dtype).eps * largest
            np.testing.assert_allclose(array, right, rtol=0, atol=bound)
