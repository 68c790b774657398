"""Running sums, products and recurrences on a GPU: as NumPy has them, whatever the layout."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.registry import registry

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu

DTYPES = [
    "float16", "float32", "float64", "complex64", "complex128", "int8", "int32", "uint64", "bool",
]  # fmt: skip
TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "complex64": 2e-5}
# Lengths below and above a warp, a tile, several tiles, and what is cut into chunks.
LENGTHS = [0, 1, 2, 31, 33, 1000, 1024, 2500, 20001]


@pytest.fixture(autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import cumulative

    return cumulative


def drawn(dtype, *shape, seed=0):
    rng = numpy.random.default_rng(seed)
    if dtype == "bool" or numpy.dtype(dtype).kind in "iu":
        return rng.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype)
    values = 1 + 0.02 * rng.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 0.02j * rng.normal(size=shape)
    return values.astype(dtype)


def agree(name, operands, **params):
    hosts = [x.get() for x in operands]
    there = registry[name].impl(*operands, **params)
    exact = [x.astype("float64") if x.dtype == "float16" else x for x in hosts]
    here = registry[name].impl(*exact, **params)
    half = hosts[0].dtype == "float16" and params.get("dtype") is None
    assert there.dtype == (hosts[0].dtype if half else here.dtype)
    assert there.shape == here.shape
    tolerance = TOLERANCE.get(there.dtype.name, 1e-12)
    numpy.testing.assert_allclose(there.get(), here, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_length(n, dtype, reverse):
    x = cupy.asarray(drawn(dtype, 2, n))
    if dtype != "float16" or n <= 2500:
        agree("cumsum", [x], axis=1, dtype=None, reverse=reverse)
    x = cupy.asarray(drawn(dtype, n))
    for exclusive in (False, True):
        agree("cumprod", [x], axis=0, dtype=None, reverse=reverse, exclusive=exclusive)
    a, b = (cupy.asarray(0.9 * drawn(dtype, 3, n, seed=s)) for s in (1, 2))
    a, b = a.astype(dtype), b.astype(dtype)
    agree("linear_recurrence", [a, b], axis=1, reverse=reverse)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    x = cupy.asarray(drawn(dtype, 3, 70, 5))
    for reverse in (False, True):
        agree("cumsum", [x], axis=1, dtype=None, reverse=reverse)
        agree("cumprod", [x], axis=1, dtype=None, reverse=reverse, exclusive=True)
    agree("cumsum", [x], axis=0, dtype=numpy.dtype("complex128"), reverse=False)
    if dtype in ("int8", "int32"):
        agree("cumsum", [x], axis=0, dtype=numpy.dtype("int8"), reverse=True)
        agree("cumsum", [x], axis=0, dtype=numpy.dtype("float32"), reverse=True)
    else:
        agree("shift", [x], by=3, axis=1)
    for by in (-100, -2, 0, 1, 100):
        numpy.testing.assert_array_equal(
            registry["shift"].impl(x, by=by, axis=1).get(),
            registry["shift"].impl(x.get(), by=by, axis=1),
        )


@pytest.mark.parametrize(
    "shape", [(3, 4, 5), (200, 40, 50), (2, 3000, 3), (2, 20000, 2), (1, 9, 0)]
)
def test_every_axis_and_layout(shape):
    x = cupy.asarray(drawn("float64", *shape))
    for axis in range(3):
        for view in (x, x[::-1], x[:, ::2], x[..., ::-1], x.transpose(2, 0, 1), x[:1]):
            agree("cumsum", [view], axis=axis, dtype=None, reverse=axis == 1)
            agree("shift", [view], by=2, axis=axis)
    wide = cupy.broadcast_to(x[:, :1], shape)
    agree("cumsum", [wide], axis=1, dtype=None, reverse=False)
    agree("linear_recurrence", [wide * 0.5, x.transpose(0, 1, 2)], axis=1, reverse=False)


def test_order_counts_over_many_chunks():
    # A recurrence whose steps do not commute, over lines that are cut into chunks.
    rng = numpy.random.default_rng(4)
    a = rng.choice([0.0, 0.5, -1.0], (2, 60001))
    b = rng.normal(size=(2, 60001))
    agree("linear_recurrence", [cupy.asarray(a), cupy.asarray(b)], axis=1, reverse=False)
    agree("linear_recurrence", [cupy.asarray(a), cupy.asarray(b)], axis=1, reverse=True)


def test_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = drawn("float32", 3, 100).astype(bfloat16)
    there = registry["cumsum"].impl(cupy.asarray(x), axis=1, dtype=None, reverse=False).get()
    assert there.dtype == bfloat16
    here = numpy.cumsum(x.astype("float64"), axis=1)
    numpy.testing.assert_allclose(there.astype("float64"), here, rtol=4e-3)


def test_not_finite():
    x = numpy.array([1.0, numpy.inf, 2.0, -numpy.inf, 1.0, numpy.nan, 3.0])
    numpy.testing.assert_array_equal(
        registry["cumsum"].impl(cupy.asarray(x), axis=0, dtype=None, reverse=False).get(),
        [1, numpy.inf, numpy.inf, *[numpy.nan] * 4],
    )


def test_derivatives(launches):
    x = drawn("float64", 4, 40)
    x[1, 3] = x[2, 7] = x[2, 20] = 0.0
    on_gpu = np.asarray(cupy.asarray(x))
    for reverse in (False, True):
        for exclusive in (False, True):

            def f(v, reverse=reverse, exclusive=exclusive):
                ops = registry
                y = ops["cumprod"](v, 1, reverse=reverse, exclusive=exclusive)
                return np.sum(np.sin(y + ops["cumsum"](v, 0)))

            here, there = ft.grad(f)(x), ft.grad(f)(on_gpu)
            numpy.testing.assert_allclose(there._data.get(), numpy.asarray(here), atol=1e-12)
    value, pull = ft.vjp(lambda v: np.cumprod(v, 1), on_gpu)
    launches.clear()
    pull(value)
    assert sorted(n for n in launches if n != "binary") == ["scan", "scan", "shifted"]
