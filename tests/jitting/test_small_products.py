"""Small products and stacks of them in machine code: sizes, orders in memory, broadcasts, zeros."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native.small_products import is_small_product, product_kernel
from functensor.backends.kernels.check import check_kernel
from functensor.backends.kernels.interpret import interpret

native = pytest.mark.skipif(bool(missing), reason=missing)
pytestmark = pytest.mark.filterwarnings(
    "ignore::functensor.jitting.retraces.RetraceWarning",
    "ignore::functensor.programs.staging_warnings.StagingWarning",
)
LENGTHS = st.integers(1, 20)


def drawn_factors(data, rng, dtype):
    """Draws two factors that lie in any order, and may be broadcast."""
    rows, terms, columns = (data.draw(LENGTHS) for _ in range(3))
    stack = data.draw(st.lists(st.integers(1, 3), max_size=2))
    factors = []
    for shape in ((rows, terms), (terms, columns)):
        own = [n if data.draw(st.booleans()) else 1 for n in stack]
        own = own[data.draw(st.integers(0, len(own))) :]
        x = rng.normal(size=(*own, *shape)).astype(dtype)
        if data.draw(st.booleans()):
            x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
        factors.append(x)
    return factors


def exact(x, y):
    return np.matmul(x.astype(np.longdouble), y.astype(np.longdouble))


def assert_near(found, x, y):
    """Asserts that each sum is as near to the exact one as its terms allow."""
    assert found.dtype == x.dtype
    terms = np.matmul(abs(x).astype(np.longdouble), abs(y).astype(np.longdouble))
    bound = (x.shape[-1] + 1) * np.finfo(x.dtype).eps * terms
    assert (abs(found - exact(x, y)) <= bound).all()


@settings(max_examples=sized(15, 120))
@given(st.data(), st.sampled_from("fd"), st.integers(0, 99))
def test_kernels_are_proved_and_right(data, dtype, seed):
    x, y = drawn_factors(data, np.random.default_rng(seed), dtype)
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    strides, given = [], []
    for v in (x, y):
        wide = np.broadcast_to(v, (*stack, *v.shape[-2:]))
        strides.append([n // v.itemsize for n in wide.strides])
        given.append(v.ravel("K"))
    sizes = x.shape[-2], x.shape[-1], y.shape[-1]
    kernel = product_kernel(np.dtype(dtype), stack, sizes, *strides)
    check_kernel(kernel)
    out = np.full((*stack, sizes[0], sizes[2]), 7, dtype)
    interpret(kernel, [*given, out.reshape(-1)], 0, 0, 0)
    assert_near(out, x, y)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("sizes", [(1, 33, 5), (1, 128, 64), (2, 64, 2), (3, 40, 37), (3, 42, 16)])
def test_few_rows_of_many_terms(sizes, dtype):
    rows, terms, columns = sizes
    assert is_small_product(*sizes)
    assert not is_small_product(*sizes, in_rows=False)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s).astype(dtype) for s in ((rows, terms), (terms, columns)))
    kernel = product_kernel(np.dtype(dtype), (), sizes, (terms, 1), (columns, 1))
    check_kernel(kernel)
    out = np.full((rows, columns), 7, dtype)
    interpret(kernel, [x.ravel(), y.ravel(), out.reshape(-1)], 0, 0, 0)
    assert_near(out, x, y)
    if not missing:
        assert_near(np.asarray(ft.jit(lambda x, y: x @ y * 1).compile(x, y)(x, y)), x, y)


@native
@settings(max_examples=sized(6, 60))
@given(st.data(), st.sampled_from("fd"), st.integers(0, 99))
def test_machine_code_is_right(data, dtype, seed):
    x, y = drawn_factors(data, np.random.default_rng(seed), dtype)

    def f(x, y):
        return x @ y, (y.mT @ x.mT) * 1.0

    jitted = ft.jit(f).compile(x, y)
    assert "failed" not in jitted.explain()
    first, second = map(np.asarray, jitted(x, y))
    assert_near(first, x, y)
    assert_near(second.swapaxes(-1, -2), x, y)


@native
@pytest.mark.parametrize(
    "shapes",
    [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)),
     ((5, 1, 2, 3), (4, 3, 2)), ((0, 2, 3), (3, 2)), ((2, 0), (0, 3)), ((4, 0, 3), (3, 2))],
)  # fmt: skip
def test_shapes_as_numpy_takes_them(shapes):
    x, y = (np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes)
    jitted = ft.jit(lambda x, y: x @ y * 2).compile(x, y)
    got = np.asarray(jitted(x, y))
    assert got.shape == (x @ y).shape
    np.testing.assert_array_equal(got, x @ y * 2)


@native
def test_zeros_and_numbers_that_are_not_finite():
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    x = np.array(np.meshgrid(values, values)).reshape(2, -1).T[:, None, :].copy()
    y = np.array(np.meshgrid(values, values)).reshape(2, -1).T[:, :, None].copy()
    with np.errstate(all="ignore"):
        for a, b in ((x, y), (x[..., :1], y[:, :1])):
            got = np.asarray(ft.jit(lambda a, b: (a @ b) * 1.0).compile(a, b)(a, b))
            wanted = a @ b
            np.testing.assert_array_equal(got, wanted)
            np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(wanted[got == 0]))


@native
def test_derivatives_of_mapped_products():
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(7, 4, 4)), rng.normal(size=(7, 4))

    def energy(a, x):
        return fnp.sum(fnp.tanh(a @ x) * x) + fnp.sum(a @ a.T)

    wanted = ft.vmap(ft.grad(energy, (0, 1)))
    jitted = ft.jit(wanted).compile(a, x)
    for got, right in zip(jitted(a, x), wanted(a, x), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12)
    assert "segment_0(" in jitted._last.compiled.run.source
    assert "matmul" not in jitted._last.compiled.run.source
