"""Activation functions, their derivatives and choices on a GPU: as NumPy's backend has them."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.backends import dtypes
from functensor.primitives.core.registry import registry

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")

pytestmark = pytest.mark.gpu

BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)
DTYPES = [numpy.dtype(d) for d in ("float16", "float32", "float64")] + [BFLOAT16]
# Halves, which have 11 and 8 binary digits, are computed with as float32 and lose one rounding.
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 4e-15}
UNARY = {
    "relu": {},
    "sigmoid": {},
    "silu": {},
    "softplus": {},
    "erf": {},
    "erfc": {},
    "gelu": {"approximate": True},
    "gelu_unit_grad": {"approximate": True},
}
EXACT = {"gelu": {"approximate": False}, "gelu_unit_grad": {"approximate": False}}
BINARY = {
    "relu_grad": {},
    "sigmoid_grad": {},
    "tanh_grad": {},
    "silu_grad": {},
    "softplus_grad": {},
    "gelu_grad": {"approximate": True},
    "relu_biased": {},
    "sigmoid_biased": {},
    "tanh_biased": {},
    "softplus_biased": {},
}
LIMITS = [0.0, -0.0, 1e4, -1e4, 88.5, -88.5, 40.0, -40.0, numpy.inf, -numpy.inf, numpy.nan]


@pytest.fixture(autouse=True)
def loaded():
    dtypes.bfloat16()
    return ft.backends.get("cupy")


def agree(name, operands, params, dtype):
    """Compares a primitive on the GPU with the same in float64 on the CPU."""
    impl = registry[name].impl
    there = impl(*operands, **params)
    assert type(there) is cupy.ndarray
    hosts = [x.get() if isinstance(x, cupy.ndarray) else x for x in operands]
    with numpy.errstate(all="ignore"):
        here = impl(*[numpy.asarray(x).astype("float64") for x in hosts], **params)
    assert there.dtype == dtype
    assert there.shape == here.shape
    tolerance = TOLERANCE[there.dtype.name]
    got = there.get().astype("float64")
    with numpy.errstate(over="ignore"):
        here = here.astype(dtype).astype("float64")
    numpy.testing.assert_allclose(got, here, rtol=tolerance, atol=tolerance, err_msg=name)


def drawn(dtype, *shape, seed=0):
    return cupy.asarray((3 * numpy.random.default_rng(seed).normal(size=shape)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["gelu", "softplus"])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 257, 2048, 4101])
def test_every_length(name, dtype, n):
    agree(name, [drawn(dtype, n)], UNARY[name], dtype)


@pytest.mark.parametrize(
    ("name", "params"),
    [*UNARY.items(), *EXACT.items()],
    ids=[*UNARY, *map("exact_{}".format, EXACT)],
)
def test_values_and_limits(name, params):
    for dtype in ("float32", "float64"):
        x = numpy.concatenate([numpy.linspace(-12, 12, 301), LIMITS]).astype(dtype)
        agree(name, [cupy.asarray(x)], params, dtype)
    if name == "relu":
        assert registry[name].impl(cupy.arange(-2, 3)).get().tolist() == [0, 0, 0, 1, 2]
    else:
        agree(name, [cupy.arange(5)], params, "float64")


def layouts(x):
    """Yields views whose elements lie in all kinds of orders."""
    yield x[::2, :, 1:]
    yield x.transpose(2, 0, 1)
    yield x.T
    yield x[:, ::-1]
    yield x[1:, 2]
    yield cupy.broadcast_to(x[:, :1], (3, *x.shape))
    yield x[2, 3, 1]
    # Not aligned for wide loads.
    yield x.reshape(-1)[1:]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_strides(dtype):
    for view in layouts(drawn(dtype, 5, 6, 7)):
        agree("gelu", [view], {"approximate": True}, dtype)
        agree("relu_grad", [view, drawn(dtype, *view.shape, seed=1)], {}, dtype)
        agree("relu_grad", [drawn(dtype, *view.shape, seed=1), view], {}, dtype)
    wild = drawn(dtype, 2, 3, 2, 3, 2, 3).transpose(0, 2, 4, 1, 3, 5)[:, ::-1]
    agree("gelu", [wild], {"approximate": True}, dtype)


@pytest.mark.parametrize("name", BINARY)
def test_of_two(name):
    params = BINARY[name]
    for dtype in DTYPES if name == "relu_grad" else ["float32"]:
        for n in (0, 1, 5, 2100):
            agree(name, [drawn(dtype, n), drawn(dtype, n, seed=1)], params, dtype)
        agree(name, [drawn(dtype, 90, 64), drawn(dtype, 64, seed=1)], params, dtype)
        agree(name, [drawn(dtype, 9, 1), drawn(dtype, 32, seed=1)], params, dtype)
        agree(name, [drawn(dtype, 9, 4), 0.5], params, dtype)
    if name.startswith("relu"):
        agree(name, [drawn(dtype, 90, 33), drawn(dtype, 1, 33, seed=1)], params, dtype)
        agree(name, [drawn("float32", 4), drawn("float64", 4)], params, "float64")
        agree(name, [cupy.arange(4), cupy.arange(4)], params, "float64")
        agree(name, [0.5, drawn(dtype, 3, 4)], params, dtype)


def test_one_launch_in_each_direction(launches):
    x = np.asarray(drawn("float32", 64, 32))
    for f in (nn.relu, nn.sigmoid, nn.silu, nn.softplus, nn.gelu, np.tanh):
        value, pull = ft.vjp(f, x)
        launches.clear()
        f(x)
        assert len(launches) == 1, f
        launches.clear()
        pull(value)
        assert len(launches) == 1, f


def test_dense_layers():
    x, w, b = (np.asarray(drawn("float32", *s)) for s in ((8, 16), (16, 33), (33,)))
    for f in (nn.relu, nn.sigmoid, nn.softplus, np.tanh, nn.gelu, None):

        def loss(x, w, b, f=f):
            return np.sum(nn.linear(x, w, b, f) ** 2)

        def plain(x, w, b, f=f):
            y = nn.linear(x, w, b)
            return np.sum((f(y) if f else y) ** 2)

        got = ft.grad(loss, argnums=(0, 1, 2))(x, w, b)
        for g, expected in zip(got, ft.grad(plain, argnums=(0, 1, 2))(x, w, b), strict=True):
            assert g.device == "cuda:0"
            numpy.testing.assert_allclose(
                g._data.get(), expected._data.get(), rtol=2e-5, atol=2e-5
            )


@pytest.mark.parametrize("name", ["logaddexp", "log_ratio"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_logarithms_of_sums(name, dtype):
    ends = numpy.array([-numpy.inf, -3.0, 0.0, 2.5, numpy.inf])
    x, y = map(numpy.ravel, numpy.meshgrid(ends, ends))
    x, y = (cupy.asarray(numpy.append(z, numpy.nan).astype(dtype)) for z in (x, y))
    agree(name, [x, y], {}, dtype)
    agree(name, [x, 1.5], {}, dtype)
    agree(name, [x.reshape(2, -1), y[:1]], {}, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("y", [0, 1, 2, 3, 7, 2.5, 0.5, -1, -3, numpy.inf, numpy.nan])
def test_powers(dtype, y):
    x = numpy.array([0.5, 1.0, 1.7, 3.0]).astype(dtype)
    if dtype == "int32" and y < 0:
        with pytest.raises(ValueError, match="negative integer powers"):
            registry["power"].impl(cupy.asarray(x), y)
        return
    if dtype.startswith("complex") and not numpy.isfinite(y):
        return
    there, here = (registry["power"].impl(z, y) for z in (cupy.asarray(x), x))
    assert there.dtype == here.dtype
    tolerance = 4e-3 if dtype == "float16" else 1e-6
    numpy.testing.assert_allclose(there.get(), here, rtol=tolerance)


@pytest.mark.parametrize("dtype", [*DTYPES, numpy.dtype("complex64"), numpy.dtype("int8")], ids=str)
def test_choices(dtype):
    condition = numpy.array([True, False, True])
    x, y = numpy.array([1, 2, 3]).astype(dtype), numpy.array([[4], [5]]).astype(dtype)
    where = registry["where"].impl
    for a, b in ((x, y), (x, 0), (0, y)):
        on_gpu = [cupy.asarray(z) if isinstance(z, numpy.ndarray) else z for z in (a, b)]
        there, here = where(cupy.asarray(condition), *on_gpu), numpy.where(condition, a, b)
        assert there.dtype == here.dtype
        numpy.testing.assert_array_equal(there.get(), here)
    if dtype.kind == "f":
        z = numpy.array([1.0, numpy.nan, -0.0]).astype(dtype)
        for name in ("maximum", "minimum"):
            there = registry[name].impl(cupy.asarray(x), cupy.asarray(z))
            numpy.testing.assert_array_equal(there.get(), registry[name].impl(x, z))
            assert registry[name].impl(cupy.asarray(x), 2.0).dtype == dtype
