"""Numbers that divide many vectors: how often kernels divide, and the quotients."""

import numpy as np
import pytest
from support.native import missing, run_compiled

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.kernels.check import check_kernel
from functensor.backends.kernels.graph import ExprGraph, function
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import For, Let, all_statements
from functensor.backends.kernels.schedule import KernelResult, scheduled
from functensor.backends.kernels.shared_divisors import with_reciprocals

sqrt = function("sqrt")


def of_rows(rows, columns, dtype="float32", divisor=lambda d: d):
    """The kernel that divides the rows of an array by a number each."""
    graph = ExprGraph((rows, columns))
    x, d = graph.input(0, dtype, [0, 1]), graph.input(1, dtype, [0])
    found = x / divisor(d)
    return scheduled("rows", graph, [x, d], [KernelResult(found, found.axes)], whole=True)


def counts(kernel):
    """How many divisions stand in loops with lanes, and how many outside of them."""
    loops = [s for s in all_statements(kernel.body) if isinstance(s, For) and s.lanes > 1]
    lets = [s for s in all_statements(kernel.body) if isinstance(s, Let)]
    inside = [s for loop in loops for s in loop.body if isinstance(s, Let)]
    return tuple([sum(s.operation == "divide" for s in x) for x in (inside, lets)])


def test_a_row_of_many_vectors_is_divided_once():
    kernel = of_rows(40, 512)
    assert counts(kernel) == (1, 1)
    changed = with_reciprocals(kernel)
    check_kernel(changed)
    assert counts(changed) == (0, 1)


def test_few_vectors_and_constants_divide():
    kernel = of_rows(3, 7 * 16)
    assert with_reciprocals(kernel) is kernel
    graph = ExprGraph((4096,))
    x = graph.input(0, "float32", [0])
    kernel = scheduled("third", graph, [x], [KernelResult(x / 3.0, x.axes)], whole=True)
    assert with_reciprocals(kernel) is kernel


@pytest.mark.parametrize(("divisor", "selects"), [(sqrt, 1), (lambda d: -sqrt(d), 1), (abs, 3)])
def test_roots_are_not_scaled(divisor, selects):
    changed = with_reciprocals(of_rows(40, 512, divisor=divisor))
    lets = [s.operation for s in all_statements(changed.body) if isinstance(s, Let)]
    assert lets.count("select") == selects


@pytest.mark.skipif(bool(missing), reason=missing)
def test_a_layer_norm_and_its_derivative_divide_no_vectors():
    def loss(x, scale):
        centred = x - fnp.mean(x, axis=-1, keepdims=True)
        deviation = fnp.sqrt(fnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
        return fnp.sum((centred / deviation * scale) ** 2)

    step = ft.jit(ft.value_and_grad(loss, argnums=(0, 1)))
    x = np.random.default_rng(3).normal(size=(100, 512)).astype("float32")
    args = x, np.linspace(-1, 2, 512, dtype="float32")
    step.compile(*args)
    lines = step.lower(*args).source.splitlines()
    depth = max(len(line) - len(line.lstrip()) for line in lines if "= divide(" in line)
    assert any(line.startswith("  for j in 512, lanes") for line in lines)
    assert depth == 2, "a division stands within a loop along a row"
    value, (gradient, _) = step(*args)
    wanted, (slopes, _) = ft.value_and_grad(loss, argnums=(0, 1))(*args)
    np.testing.assert_allclose(value, wanted, rtol=1e-6)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-6)


def special_numbers(dtype, count):
    """Zeros, infinities, NaN, the limits of a dtype, and numbers of all its exponents."""
    limits, rng = np.finfo(dtype), np.random.default_rng(7)
    few = [
        *(0.0, 1.0, 2.0, 3.0, 0.1, np.inf, np.nan, limits.max, limits.max / 3, limits.tiny),
        *(3 * limits.tiny, limits.smallest_subnormal, 1000 * limits.smallest_subnormal),
        *np.exp2(rng.uniform(limits.minexp - limits.nmant, limits.maxexp - 0.1, count)),
    ]
    return np.array([*few, *np.negative(few)], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("by_root", [False, True])
def test_quotients(dtype, by_root):
    numbers = special_numbers(dtype, 67)
    assert len(numbers) % 16 == 0
    kernel = of_rows(len(numbers), 4 * len(numbers), dtype, sqrt if by_root else lambda d: d)
    kernel = with_reciprocals(kernel)
    assert counts(kernel) == (0, 1)
    with np.errstate(all="ignore"):
        thirds = numbers[::-1] / numbers.dtype.type(3)
        x = np.tile(np.concatenate([numbers, thirds] * 2), (len(numbers), 1))
        by = np.sqrt(numbers) if by_root else numbers
        wanted = x / by[:, np.newaxis]
    found = np.full_like(x, 77)
    interpret(kernel, [x, numbers, found])
    if not missing:
        compiled = np.full_like(x, 77)
        run_compiled(kernel, [x, numbers, compiled], [(0, 0, len(x))])
        np.testing.assert_array_equal(compiled, found)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(wanted[finite]))
    limits = np.finfo(dtype)
    large = finite & (np.abs(wanted) >= limits.tiny / limits.eps**2)
    # None of these lies so near to the middle of two floats.
    np.testing.assert_array_equal(found[large], wanted[large])
    small = finite & ~large
    assert np.all(np.abs(found[small] - wanted[small]) <= np.spacing(np.abs(wanted[small])))


def test_quotients_that_floats_have_are_exact():
    rng = np.random.default_rng(11)
    divisors = rng.integers(1, 1 << 12, 50).astype("float32")
    wanted = rng.integers(-(1 << 12), 1 << 12, (50, 256)).astype("float32")
    kernel = with_reciprocals(of_rows(50, 256))
    found = np.zeros_like(wanted)
    interpret(kernel, [wanted * divisors[:, np.newaxis], divisors, found])
    np.testing.assert_array_equal(found, wanted)
