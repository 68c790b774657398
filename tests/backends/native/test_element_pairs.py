"""Pairs of elements in machine code: loaded and stored as vectors, and nothing beside buffers."""

import re

import numpy as np
import pytest
from support.native import missing, run_compiled

from functensor.backends.kernels.graph import ExprGraph
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import (
    Buffer,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Store,
)
from functensor.backends.kernels.schedule import KernelResult, scheduled
from functensor.backends.native.printer import printed_module

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
F4, B1 = np.dtype(np.float32), np.dtype(bool)


def product(length, whole=False):
    graph = ExprGraph([length])
    (a, b), (c, d) = ([graph.input(n, F4, [0], part) for part in (0, 1)] for n in (0, 1))
    result = KernelResult(a * c - b * d, frozenset([0]), imag=a * d + b * c)
    return scheduled("product", graph, [a, c], [result], whole)


def test_complex_numbers_are_loaded_and_stored_as_vectors():
    text = printed_module([product(64)])
    assert not re.search("gather|scatter", text)
    # Full steps, and the last one of a block.
    assert len(re.findall("load <32 x float>, ptr", text)) == 2
    assert len(re.findall("call <32 x float> @llvm.masked.load", text)) == 2
    assert len(re.findall("store <32 x float>", text)) == 1
    assert len(re.findall("call void @llvm.masked.store.v32f32", text)) == 1


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 37])
def test_nothing_beside_the_rows_of_a_block_is_written(length):
    rng = np.random.default_rng(length)
    inputs = [rng.integers(-9, 9, 2 * length).astype(F4) for _ in range(2)]
    wanted, found = np.full((2, 2 * length), 77, F4)
    for high in {length, length // 2}:
        interpret(product(length), [*inputs, wanted], 0, length // 3, high)
        run_compiled(product(length), [*inputs, found], [(0, length // 3, high)])
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 13, 31, 47])
def test_last_places_are_steps_of_fewer_lanes(length):
    rng = np.random.default_rng(length)
    inputs = [rng.integers(-9, 9, 2 * length).astype(F4) for _ in range(2)]
    wanted, found = np.full((2, 2 * length), 77, F4)
    kernel = product(length, whole=True)
    interpret(kernel, [*inputs, wanted])
    run_compiled(kernel, [*inputs, found], [(0, 0, 0)])
    np.testing.assert_array_equal(found, wanted)


def strided(dtype, size, begins, lanes=4):
    """A kernel that inverts or halves each second element of a buffer, from each of some on."""
    axis, values = LoopAxis("i", size // 2), []
    source, target = Buffer("a", dtype, (size,), "in"), Buffer("b", dtype, (size,), "out")
    body = []
    for begin in begins:
        x, y = LoopValue(dtype), LoopValue(dtype)
        there = Index([(axis, 2)], begin)
        body += [Load(x, source, there), Let(y, "invert" if dtype == B1 else "negative", [x])]
        values.append((there, y))
    body += [Store(target, there, y) for there, y in values]
    return LoopKernel("strided", [source, target], [], [For(axis, body, (), lanes)])


@pytest.mark.parametrize("dtype", [B1, F4, np.dtype(np.int16), np.dtype(np.float64)])
def test_pairs_of_every_dtype(dtype):
    numbers = np.random.default_rng(0).integers(0, 2, 26).astype(dtype)
    found, wanted = np.zeros(26, dtype), np.zeros(26, dtype)
    kernel = strided(dtype, 26, (0, 1))
    assert not re.search("gather|scatter", printed_module([kernel]))
    interpret(kernel, [numbers, wanted])
    run_compiled(kernel, [numbers, found], [(0, 0, 0)])
    np.testing.assert_array_equal(found, wanted)


def test_elements_whose_neighbour_is_not_there_are_loaded_one_by_one():
    source, target = Buffer("a", F4, (9,), "in"), Buffer("b", F4, (5,), "out")
    axis, x = LoopAxis("i", 5), LoopValue(F4)
    body = [Load(x, source, Index([(axis, 2)])), Store(target, Index([(axis, 1)]), x)]
    kernel = LoopKernel("odd", [source, target], [], [For(axis, body, (), 4)])
    assert "gather" in printed_module([kernel])
    numbers, found = np.arange(9, dtype=F4), np.zeros(5, F4)
    run_compiled(kernel, [numbers, found], [(0, 0, 0)])
    np.testing.assert_array_equal(found, [0, 2, 4, 6, 8])
