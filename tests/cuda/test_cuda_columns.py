"""Sums and means over axes on a GPU, against wider ones."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

# Of the dtype's rounding, relative to the sum of absolute values.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-15}
# One pass with few lines, with narrow tiles, with many tiles; two passes; odd lengths; one column
# more than a tile, and fewer than a pack.
SHAPES = [(1, 2), (5, 3), (64, 128), (700, 10), (513, 257), (3000, 96), (1500, 1001), (9, 70001)]


@pytest.fixture(scope="module", autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import axis_sums

    return axis_sums


@pytest.fixture
def left_to_cupy(monkeypatch):
    """Collects the calls of CuPy's own sum."""
    left = []
    own = cupy.sum

    def counting(*args, **params):
        left.append(params)
        return own(*args, **params)

    monkeypatch.setattr(cupy, "sum", counting)
    return left


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def sample(shape, name):
    return numpy.random.default_rng(3).normal(0.5, 1, shape).astype(dtype_of(name))


def close(got, x, axis, keepdims=False):
    # A sum of doubles in double precision rounds as often itself.
    wide = x.astype(numpy.float64).astype(numpy.longdouble)
    wanted = wide.sum(axis=axis, keepdims=keepdims)
    assert isinstance(got, cupy.ndarray)
    assert got.dtype == x.dtype
    assert got.shape == wanted.shape
    error = abs(got.get().astype(numpy.float64) - wanted)
    assert (error <= TOLERANCES[x.dtype.name] * abs(wide).sum(axis=axis, keepdims=keepdims)).all()


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(kernels, left_to_cupy, name, shape):
    x = sample(shape, name)
    close(kernels.sum(cupy.asarray(x), axis=(0,), keepdims=False), x, 0)
    assert left_to_cupy == []


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(kernels, left_to_cupy, name, axis, keepdims):
    x = sample((3, 170, 5, 9), name)
    close(kernels.sum(cupy.asarray(x), axis=axis, keepdims=keepdims), x, axis, keepdims)
    assert left_to_cupy == []


@pytest.mark.parametrize("name", ["float16", "float64"])
def test_places_behind_a_boundary(kernels, left_to_cupy, name):
    for skipped in (1, 3):
        flat = sample(2000 * 24 + skipped, name)
        x = flat[skipped:].reshape(2000, 24)
        on_gpu = cupy.asarray(flat)[skipped:].reshape(2000, 24)
        close(kernels.sum(on_gpu, axis=(0,), keepdims=False), x, 0)
    assert left_to_cupy == []


# Of channels: one pass, lines that are no multiple of a pack, few and many planes, two passes; of
# rows: short, long, one alone, more than a block takes, more than there are blocks.
CHANNELS = [(3, 4, 5), (128, 32, 676), (300, 3, 45), (2, 5, 40000), (1100, 2, 9), (7, 2000, 3)]
ROWS = [(300, 7), (3, 5000), (1, 9), (1, 130), (2, 70001), (1, 300007), (3000, 65)]


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("shape", CHANNELS)
def test_channels(kernels, left_to_cupy, name, shape):
    x = sample(shape, name)
    close(kernels.sum(cupy.asarray(x), axis=(0, 2), keepdims=False), x, (0, 2))
    assert left_to_cupy == []


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("shape", ROWS)
def test_rows(kernels, left_to_cupy, name, shape):
    # So small that float16 holds all sums.
    x = (sample(shape, "float64") / 16).astype(dtype_of(name))
    close(kernels.sum(cupy.asarray(x), axis=(1,), keepdims=True), x, 1, True)
    close(kernels.sum(cupy.asarray(x), axis=(0, 1), keepdims=False), x, None)
    assert left_to_cupy == []


@pytest.mark.parametrize("name", ["bfloat16", "float32", "float64"])
def test_rows_behind_a_boundary(kernels, left_to_cupy, name):
    for skipped in (1, 2, 3):
        flat = sample(30 * 16 + skipped, name)
        on_gpu = cupy.asarray(flat)[skipped:]
        x = flat[skipped:]
        close(kernels.sum(on_gpu, axis=(0,), keepdims=False), x, None)
        x, on_gpu = x.reshape(5, 6, 16), on_gpu.reshape(5, 6, 16)
        close(kernels.sum(on_gpu, axis=(2,), keepdims=False), x, 2)
        close(kernels.sum(on_gpu, axis=(0, 2), keepdims=False), x, (0, 2))
    assert left_to_cupy == []


@pytest.mark.parametrize("name", [*TOLERANCES, "int32"])
@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_means(kernels, name, axis):
    x = (sample((40, 6, 50), "float32") * 8).astype(dtype_of(name))
    for v, on_gpu in ((x, cupy.asarray(x)), (x[:, ::2], cupy.asarray(x)[:, ::2])):
        got = kernels.mean(on_gpu, axis=axis, keepdims=False)
        wanted = v.astype(numpy.float64).mean(axis=axis)
        assert got.dtype == (x.dtype if name in TOLERANCES else numpy.float64)
        assert got.shape == wanted.shape
        bound = TOLERANCES.get(name, 1e-15) * abs(v.astype(numpy.float64)).mean(axis=axis)
        assert (abs(got.get().astype(numpy.float64) - wanted) <= bound).all()


def test_axes_of_length_one(kernels, left_to_cupy):
    x = sample((1, 6, 1, 4), "float32")
    close(kernels.sum(cupy.asarray(x), axis=(0, 2), keepdims=False), x, (0, 2))
    close(kernels.sum(cupy.asarray(x), axis=(2,), keepdims=True), x, 2, True)
    close(kernels.sum(cupy.asarray(x[:, :1, :, :1]), axis=(0, 1, 2, 3), keepdims=False),
          x[:, :1, :, :1], None)
    assert left_to_cupy == []


def test_mean_of_more_than_float16_holds(kernels):
    x = cupy.asarray(numpy.full((3, 7000), 300, numpy.float16))
    assert kernels.mean(x, axis=(0, 1), keepdims=False).get() == 300
    assert kernels.mean(x, axis=(0,), keepdims=True).get().tolist() == [[300] * 7000]


def test_what_is_left_to_cupy(kernels, left_to_cupy):
    x = sample((6, 8, 4), "float32")
    on_gpu = cupy.asarray(x)
    close(kernels.sum(on_gpu, axis=(), keepdims=False), x, ())
    close(kernels.sum(on_gpu[:, ::2], axis=(0,), keepdims=False), x[:, ::2], 0)
    close(kernels.sum(on_gpu.T, axis=(0,), keepdims=False), x.T, 0)
    deep = sample((3, 2, 5, 4), "float32")
    close(kernels.sum(cupy.asarray(deep), axis=(0, 2), keepdims=True), deep, (0, 2), True)
    wide = kernels.sum(on_gpu, axis=(0,), keepdims=False, dtype=numpy.dtype("float64"))
    assert wide.dtype == numpy.float64
    assert kernels.sum(cupy.ones((3, 2), bool), axis=(0,), keepdims=False).get().tolist() == [3, 3]
    assert kernels.sum(on_gpu[:0], axis=(0,), keepdims=False).get().tolist() == [[0] * 4] * 8
    assert kernels.sum(on_gpu[:, :0], axis=(0,), keepdims=False).shape == (0, 4)
    assert len(left_to_cupy) == 8


def test_infinity_and_nan(kernels):
    x = sample((900, 5), "float32")
    x[700, 1], x[3, 2], x[800, 3], x[801, 3] = numpy.nan, numpy.inf, numpy.inf, -numpy.inf
    got = kernels.sum(cupy.asarray(x), axis=(0,), keepdims=False).get()
    assert numpy.isnan(got[[1, 3]]).all()
    assert got[2] == numpy.inf
    assert numpy.isfinite(got[[0, 4]]).all()
    rows = kernels.sum(cupy.asarray(x.T.copy()), axis=(1,), keepdims=False).get()
    assert numpy.array_equal(numpy.isnan(rows), numpy.isnan(got))


def test_more_than_float16_holds_on_the_way(kernels):
    x = numpy.full((4000, 3), 60, numpy.float16)
    x[2000:] = -60
    assert kernels.sum(cupy.asarray(x), axis=(0,), keepdims=False).get().tolist() == [0] * 3


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1)])
def test_every_run_gives_the_same(kernels, axis):
    x = cupy.asarray(sample((5000, 33), "float32"))
    first = kernels.sum(x, axis=axis, keepdims=False).get()
    for _ in range(3):
        assert (kernels.sum(x, axis=axis, keepdims=False).get() == first).all()


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
def test_gradients_of_biases(left_to_cupy, name):
    x, w, b = sample((4, 50, 6), name), sample((6, 7), name), sample((7,), name)

    def loss(w, b, x):
        return fnp.sum(nn.linear(x, w, b) ** 2)

    got = ft.grad(loss, argnums=1)(*[ft.to_device(v, "cuda:0") for v in (w, b, x)])
    wanted = ft.grad(loss, argnums=1)(*[v.astype(numpy.float64) for v in (w, b, x)])
    assert got.dtype == b.dtype
    scale = abs(numpy.asarray(wanted)).max()
    got = numpy.asarray(ft.to_device(got, "cpu")).astype(numpy.float64)
    assert (abs(got - numpy.asarray(wanted)) <= 4 * TOLERANCES[name] * scale).all()
    assert left_to_cupy == []


def test_gradients_of_biases_of_channels(left_to_cupy):
    x, w = sample((4, 2, 9, 8), "float32"), sample((3, 2, 3, 3), "float32")
    b = sample((3,), "float32")

    def loss(b, w, x):
        return fnp.mean(nn.conv(x, w, b) ** 2)

    got = ft.grad(loss)(*[ft.to_device(v, "cuda:0") for v in (b, w, x)])
    wanted = numpy.asarray(ft.grad(loss)(*[v.astype(numpy.float64) for v in (b, w, x)]))
    assert abs(numpy.asarray(ft.to_device(got, "cpu")) - wanted).max() <= 1e-5 * abs(wanted).max()
    assert left_to_cupy == []
