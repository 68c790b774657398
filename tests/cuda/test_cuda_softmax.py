"""softmax, log_softmax, logsumexp and the derivative of softmax on a GPU, against doubles."""

import numpy
import pytest

import functensor as ft
from functensor import nn
from functensor.primitives.core.registry import registry as ops

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

# Of the dtype's rounding, and of sums over rows: relative, and absolute for small probabilities.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-13}
# Rows for a warp, a block, more than the registers hold; packs that do not fill the row.
LENGTHS = [1, 5, 31, 128, 515, 1000, 4099, 16387]
inf, nan = numpy.inf, numpy.nan


@pytest.fixture(scope="module", autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import softmax

    return softmax


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def sample(shape, name, seed=0):
    values = numpy.random.default_rng(seed).normal(0, 3, shape)
    return values.astype(dtype_of(name))


def reference(operation, x, axis, keepdims=False):
    x = numpy.asarray(x, numpy.float64)
    with numpy.errstate(all="ignore"):
        top = x.max(axis=axis, keepdims=True)
        shift = numpy.where(numpy.isfinite(top), top, 0)
        total = numpy.exp(x - shift).sum(axis=axis, keepdims=True)
        if operation == "softmax":
            return numpy.exp(x - shift) / total
        if operation == "log_softmax":
            return x - shift - numpy.log(total)
        out = numpy.log(total) + shift
    return out if keepdims else out.squeeze(axis)


def close(got, wanted, name, scale=1.0):
    assert isinstance(got, cupy.ndarray)
    assert got.dtype == dtype_of(name)
    assert got.shape == wanted.shape
    tolerance = TOLERANCES[name] * scale
    numpy.testing.assert_allclose(
        got.get().astype(numpy.float64), wanted, rtol=tolerance, atol=tolerance / 4
    )


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows(kernels, name, length):
    x = sample((3, length), name, length)
    on_gpu = cupy.asarray(x)
    for operation in ("softmax", "log_softmax"):
        got = getattr(kernels, operation)(on_gpu, axis=(1,))
        close(got, reference(operation, x, 1), name, 2)
    close(kernels.logsumexp(on_gpu, axis=(1,), keepdims=False), reference("", x, 1), name)
    close(kernels.logsumexp(on_gpu, axis=(1,), keepdims=True), reference("", x, 1, True), name)


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
@pytest.mark.parametrize("length", [3, 10, 64, 200])
def test_many_short_rows(kernels, name, length):
    x, g = sample((149, length), name, length), sample((149, length), name, 1)
    close(kernels.softmax(cupy.asarray(x), axis=(1,)), reference("softmax", x, 1), name, 2)
    got = kernels.softmax_grad(cupy.asarray(g), cupy.asarray(x), axis=(1,))
    g, y = g.astype(numpy.float64), x.astype(numpy.float64)
    # Sums of many products of about 10 cancel.
    close(got, y * (g - (g * y).sum(axis=1, keepdims=True)), name, 100)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_axes(kernels, name, axis):
    x = sample((5, 19, 37), name)
    for operation in ("softmax", "log_softmax"):
        got = getattr(kernels, operation)(cupy.asarray(x), axis=axis)
        close(got, reference(operation, x, axis), name, 2)
    got = kernels.logsumexp(cupy.asarray(x), axis=axis, keepdims=False)
    close(got, reference("", x, axis), name)
    g = sample(x.shape, name, 1)
    got = kernels.softmax_grad(cupy.asarray(g), cupy.asarray(x), axis=axis)
    g, y = g.astype(numpy.float64), x.astype(numpy.float64)
    wanted = y * (g - (g * y).sum(axis=axis, keepdims=True))
    # Sums of many products of about 10 cancel.
    close(got, wanted, name, 100)


STRIDED = {
    "every other": lambda v: v[:, ::2],
    "part of a row": lambda v: v[:, 3:],
    "from the back": lambda v: v[::-1, ::-1],
    "turned": lambda v: v.T,
    "one row again": lambda v: (numpy if isinstance(v, numpy.ndarray) else cupy).broadcast_to(
        v[:1], v.shape
    ),
    "one number": lambda v: (numpy if isinstance(v, numpy.ndarray) else cupy).broadcast_to(
        v[0, 0], v.shape
    ),
}


@pytest.mark.parametrize("how", STRIDED)
@pytest.mark.parametrize("axis", [0, 1])
def test_strides(kernels, how, axis):
    x = sample((11, 71), "float32")
    view = STRIDED[how]
    g = view(x)
    got = kernels.softmax(view(cupy.asarray(x)), axis=(axis,))
    close(got, reference("softmax", g, axis), "float32")
    y = sample(g.shape, "float32", 2)
    got = kernels.softmax_grad(view(cupy.asarray(x)), cupy.asarray(y), axis=(axis,))
    wanted = y * (g - (g.astype(float) * y).sum(axis=axis, keepdims=True))
    close(got, wanted, "float32", 100)


@pytest.mark.parametrize("length", [4, 700, 20000])
@pytest.mark.parametrize("axis", [0, 1])
def test_limits(kernels, length, axis):
    rows = numpy.zeros((6, length), numpy.float32)
    rows[0, 1] = inf
    rows[1, :2] = inf
    rows[2] = -inf
    rows[3, 2] = nan
    rows[4, 1:3] = inf, nan
    rows[5, 0] = -inf
    x = rows if axis == 1 else numpy.ascontiguousarray(rows.T)
    cpu = {name: ops[name].impl for name in ("softmax", "log_softmax", "logsumexp")}
    for name, compute in cpu.items():
        params = {"axis": (axis,)} | ({"keepdims": False} if name == "logsumexp" else {})
        wanted = compute(x, **params)
        got = getattr(kernels, name)(cupy.asarray(x), **params).get()
        numpy.testing.assert_allclose(got, wanted, rtol=2e-6, err_msg=name)


def test_few_long_rows(kernels, monkeypatch):
    monkeypatch.setattr(kernels, "SHORTEST_SPLIT_ROW", 1000)
    x = sample((3, 2000), "float32")
    x[1, 5] = inf
    x[2, 5] = nan
    wanted = {name: ops[name].impl(x, axis=(1,)) for name in ("softmax", "log_softmax")}
    for name, value in wanted.items():
        got = getattr(kernels, name)(cupy.asarray(x), axis=(1,)).get()
        numpy.testing.assert_allclose(got, value, rtol=3e-6)
    total = ops.logsumexp.impl(x, axis=(1,), keepdims=False)
    got = kernels.logsumexp(cupy.asarray(x), axis=(1,), keepdims=False).get()
    numpy.testing.assert_allclose(got, total, rtol=1e-6)
    half = sample((2, 2000), "float16")
    close(kernels.softmax(cupy.asarray(half), axis=(1,)), reference("softmax", half, 1), "float16")


def test_sizes_and_dtypes(kernels):
    for shape in [(0, 4), (3, 0), (0, 0)]:
        x = cupy.zeros(shape, numpy.float32)
        assert kernels.softmax(x, axis=(1,)).shape == shape
        assert kernels.softmax_grad(x, x, axis=(0,)).shape == shape
    empty = kernels.logsumexp(cupy.zeros((3, 0)), axis=(1,), keepdims=False)
    assert empty.get().tolist() == [-inf] * 3
    assert kernels.softmax(cupy.asarray(2.0), axis=()).get() == 1
    assert kernels.softmax(cupy.asarray([1, 1]), axis=(0,)).dtype == numpy.float64
    with pytest.raises(TypeError, match="real numbers only"):
        kernels.softmax(cupy.zeros(2, numpy.complex64), axis=(0,))


def test_under_transformations():
    x = sample((4, 6), "float64")
    on_gpu = ft.to_device(x, "cuda:0")

    def total(v):
        return (nn.softmax(v, axis=0) * nn.log_softmax(v, axis=1)).sum()

    got = ft.to_device(ft.hessian(total)(on_gpu), "cpu")
    numpy.testing.assert_allclose(got, ft.hessian(total)(x), rtol=1e-11, atol=1e-13)
    got = ft.to_device(ft.vmap(ft.grad(total))(ft.to_device(x[None], "cuda:0")), "cpu")
    numpy.testing.assert_allclose(got[0], ft.grad(total)(x), rtol=1e-11)
