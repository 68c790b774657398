"""Threads with several elements: which memory wide loads need, ends of arrays, and reciprocals."""

import ml_dtypes
import numpy as np
import pytest
from support.gpu_programs import fused

import functensor as ft
import functensor.numpy as fnp

cupy = pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(0)
DTYPES = "f2", ml_dtypes.bfloat16, "f4", "f8", "i1", "u8"
# Threads have one element each, or two or four where there are many.
SIZES = 5, 257, 1023, 1025, (1 << 16) - 1, (1 << 18) + 4, (1 << 20) + 3, (1 << 20) + 1026


def run_of_region(function, *args):
    """Returns the run of a function's only region."""
    from functensor.backends.cuda.plan.region_run import GpuRegion, load_all

    (equation,) = fused(function, *args).equations
    run = GpuRegion("region_0", equation.primitive, equation.operands, apart=True)
    load_all([run])
    return run


def every_float(count):
    """Returns float32 numbers of all sizes, and NaN and infinity."""
    numbers = RNG.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    numbers[:8] = 0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 2.0**126, 3e38
    return numbers


def reciprocal(x):
    """Twice the quotient of 1."""
    return 1 / x * 2


def test_numbers_may_lie_anywhere():
    x = np.arange(8.0, dtype="f4")
    run = run_of_region(lambda x, a, b: x * a + b, x, np.float32(2), np.float32(3))
    longer, numbers = cupy.arange(9, dtype="f4"), cupy.asarray([0, 2, 3], "f4")
    a, b = numbers[1], numbers[2]
    assert a.data.ptr % 16 == 4
    for begin, widths in ((0, [4]), (1, [4, 1])):
        (out,) = run(longer[begin : begin + 8], a, b)
        np.testing.assert_array_equal(out.get(), (x + begin) * 2 + 3)
        assert [form.width for form in run._forms.values()] == widths


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_element_is_left_out_and_none_is_written_behind_the_last(dtype):
    for size in SIZES:
        numbers = RNG.integers(0, 5, size + 9).astype(dtype)
        longer = ft.to_device(numbers, "cuda")._data
        room = ft.to_device(np.full(size + 64, 3, dtype), "cuda")._data
        run = run_of_region(lambda x: x * x + 1, numbers[:size])
        for begin in (0, 1):
            run(longer[begin : begin + size], into=(room[:size],))
            found = room.get()
            x = numbers[begin : begin + size].astype(float)
            np.testing.assert_array_equal(found[:size].astype(float), x * x + 1)
            assert (found[size:].astype(float) == 3).all()


def test_nothing_is_computed_of_no_elements():
    x = ft.to_device(np.ones((3, 0), "f4"), "cuda")
    f = ft.jit(lambda x: (1 / x, x * 2))
    f.compile(x)
    assert [out.shape for out in f(x)] == [(3, 0), (3, 0)]


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("count", [1 << 16, (1 << 20) + 3, (1 << 24) + 516])
def test_reciprocals_are_rounded_like_quotients(count, begin, monkeypatch):
    from functensor.backends.cuda.plan import map_kernels

    numbers = every_float(count + 1)
    x = fnp.asarray(cupy.asarray(numbers)[begin : begin + count])
    found = np.asarray(ft.to_device(ft.jit(reciprocal).compile(x)(x), "cpu"))
    monkeypatch.setattr(map_kernels, "is_reciprocal", lambda node: False)
    wanted = np.asarray(ft.to_device(ft.jit(reciprocal).compile(x)(x), "cpu"))
    np.testing.assert_array_equal(found, wanted)
    given = numbers[begin : begin + count]
    with np.errstate(all="ignore"):
        exact = np.float32(1) / given * np.float32(2)
        # Kernels count what is below the normal numbers as zero.
        normal = (abs(given) > 1e-37) & (abs(exact) > 1e-37)
    np.testing.assert_array_equal(found[normal], exact[normal])


def test_the_gradient_of_a_sum_reads_its_operand_alone():
    x = ft.to_device(np.ones(1 << 12, "f4"), "cuda")
    f = ft.jit(ft.grad(lambda x: fnp.sum(fnp.log1p(x * x))))
    f.compile(x)
    text = f.lower(x).source
    assert "quick_reciprocal" in text
    assert "(const float *x0, float *y0)" in text
