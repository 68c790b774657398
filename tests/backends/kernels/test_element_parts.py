"""Kernels of complex numbers: their elements have two parts, which are a last axis in memory."""

import numpy as np
import pytest

from functensor.backends.cpu.plan.native.native_run import in_place_pairs
from functensor.backends.kernels.check import KernelError, check_kernel, check_shared
from functensor.backends.kernels.graph import ExprGraph
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import For, LoopKernel, Store
from functensor.backends.kernels.printed import kernel_text
from functensor.backends.kernels.schedule import KernelResult, scheduled

F4 = np.dtype(np.float32)
ALL = frozenset([0, 1])


def complex_input(graph, number, axes=ALL):
    return [graph.input(number, F4, axes, part) for part in (0, 1)]


def product_kernel(whole=False):
    """The product of a matrix with a row, and its sums over both axes."""
    graph = ExprGraph([3, 5])
    a, b = complex_input(graph, 0), complex_input(graph, 1, [1])
    real, imag = a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
    results = [KernelResult(real, ALL, imag=imag)]
    for axis in ALL:
        real_sum, imag_sum = (graph.fold("add", x, [axis]) for x in (real, imag))
        results.append(KernelResult(real_sum, ALL - {axis}, imag=imag_sum))
    return scheduled("product", graph, [a[0], b[0]], results, whole)


TEXT = """\
kernel product(in in_0: float32[3, 5, 2], in in_1: float32[5, 2], out out_0: float32[3, 5, 2], \
part part_1: float32[blocks, 5, 2], out out_2: float32[3, 2])
for j in 5, lanes 8:
  part_1[number*10 + j*2] = float32(0.0)
  part_1[number*10 + j*2 + 1] = float32(0.0)
for i in block of 3:
  for j in 5, lanes 8, folding v11 = add(v10), v12 = add(v7):
    v1 = in_0[i*10 + j*2 + 1]
    v2 = in_1[j*2 + 1]
    v3 = multiply(v1, v2)
    v4 = in_0[i*10 + j*2]
    v5 = in_1[j*2]
    v6 = multiply(v4, v5)
    v7 = subtract(v6, v3)
    v8 = multiply(v1, v5)
    v9 = multiply(v4, v2)
    v10 = add(v9, v8)
    out_0[i*10 + j*2] = v7
    out_0[i*10 + j*2 + 1] = v10
    part_1[number*10 + j*2] = add(part_1[number*10 + j*2], v7)
    part_1[number*10 + j*2 + 1] = add(part_1[number*10 + j*2 + 1], v10)
  out_2[i*2] = v12
  out_2[i*2 + 1] = v11"""


def test_text():
    assert kernel_text(product_kernel()) == TEXT


@pytest.mark.parametrize("blocks", [[(0, 0, 3)], [(0, 0, 1), (1, 1, 3)]])
def test_numbers_are_numpys(blocks):
    rng = np.random.default_rng(0)
    a, b = (
        (rng.integers(-9, 9, shape) + 1j * rng.integers(-9, 9, shape)).astype(np.complex64)
        for shape in ((3, 5), (5,))
    )
    out = np.full((3, 5), np.nan, np.complex64)
    parts = np.full((len(blocks), 5), np.nan, np.complex64)
    rows = np.full(3, np.nan, np.complex64)
    for block in blocks:
        interpret(product_kernel(), [x.view(F4) for x in (a, b, out, parts, rows)], *block)
    np.testing.assert_array_equal(out, a * b)
    np.testing.assert_array_equal(parts.sum(0), (a * b).sum(0))
    np.testing.assert_array_equal(rows, (a * b).sum(1))


@pytest.mark.parametrize("whole", [False, True])
def test_kernels_keep_the_rules(whole):
    check_kernel(product_kernel(whole))


def without(body, statement):
    """Returns statements without one of them."""
    return [
        For(s.axis, without(s.body, statement), s.folds, s.lanes) if isinstance(s, For) else s
        for s in body
        if s is not statement
    ]


def conjugate_kernel():
    graph = ExprGraph([3, 5])
    real, imag = complex_input(graph, 0)
    return scheduled("k", graph, [real], [KernelResult(real, ALL, imag=-imag)])


@pytest.mark.parametrize("part", [0, 1])
def test_a_part_that_is_not_written_is_refused(part):
    kernel = conjugate_kernel()
    (rows,) = kernel.body
    (columns,) = rows.body
    stores = [s for s in columns.body if isinstance(s, Store)]
    lacking = LoopKernel(
        kernel.name, kernel.buffers, kernel.scratch, without(kernel.body, stores[part])
    )
    with pytest.raises(KernelError, match="buffer out_0: 15 of 30 elements are written"):
        check_kernel(lacking)


def test_results_may_have_the_memory_of_operands():
    kernel = conjugate_kernel()
    check_shared(kernel, [kernel.buffers])
    assert in_place_pairs(kernel, 1) == {(0, 0)}
    numbers = np.arange(30, dtype=F4)
    wanted = np.conj(numbers.view(np.complex64))
    interpret(kernel, [numbers, numbers], high=3)
    np.testing.assert_array_equal(numbers.view(np.complex64), wanted)


def test_results_have_no_memory_of_operands_whose_parts_come_later():
    graph = ExprGraph([5])
    (real, imag), (other, _) = complex_input(graph, 0, [0]), complex_input(graph, 1, [0])
    results = [
        KernelResult(real, frozenset([0]), imag=real),
        KernelResult(other * imag, frozenset([0]), imag=other),
    ]
    kernel = scheduled("k", graph, [real, other], results, whole=True)
    assert (0, 0) not in in_place_pairs(kernel, 2)
    with pytest.raises(KernelError, match="elements are read after they may be overwritten"):
        check_shared(kernel, [(kernel.buffers[0], kernel.buffers[2])])
