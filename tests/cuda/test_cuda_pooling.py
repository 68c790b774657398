"""Pooling on a GPU against the CPU's, in float64 where rounding would differ."""

import numpy as np
import pytest
from support.cuda_keys import BFLOAT16, resolution, values

from functensor.backends.cpu import pooling as on_cpu
from functensor.primitives.nn.pooling import Windows

cupy = pytest.importorskip("cupy")
on_gpu = pytest.importorskip("functensor.backends.cuda.kernels.pooling")

pytestmark = pytest.mark.gpu

# The spatial shape and the windows over it.
WINDOWS = {
    "halves": ((14, 14), Windows((2, 2), (2, 2), ((0, 0), (0, 0)))),
    "a rest": ((7, 9), Windows((2, 2), (2, 2), ((0, 0), (0, 0)))),
    "thirds": ((11, 8), Windows((3, 3), (2, 2), ((0, 0), (0, 0)))),
    "padded": ((11, 8), Windows((3, 3), (2, 2), ((1, 1), (1, 1)))),
    "everywhere": ((5, 6), Windows((3, 2), (1, 1), ((1, 1), (0, 1)))),
    "apart": ((9, 10), Windows((2, 2), (3, 4), ((0, 1), (1, 0)))),
    "much overlap": ((9, 7), Windows((5, 5), (1, 2), ((2, 2), (4, 4)))),
    "all": ((7, 7), Windows((7, 7), (7, 7), ((0, 0), (0, 0)))),
    "long": ((1037,), Windows((3,), (2,), ((1, 1),))),
    "solid": ((4, 5, 6), Windows((2, 3, 2), (1, 2, 2), ((1, 1), (0, 2), (0, 1)))),
    "solid halves": ((4, 6, 2), Windows((2, 2, 2), (2, 2, 2), ((0, 0),) * 3)),
}
DTYPES = ["e", "f", "d", BFLOAT16, "i", "b", "B", "?"]
IMAGES, CHANNELS = 3, 5


def operand(shape, dtype, order="planes", seed=1):
    """Returns equal arrays on both devices, in some order in memory."""
    x = values(shape, dtype, seed)
    return x, placed(x, order)


def placed(x, order):
    """Returns an array on the GPU, in some order in memory."""
    if order == "planes":
        return cupy.asarray(x)
    if order in INNERMOST:
        # Packs start where an instruction may load several channels at once.
        first, channels = order == "shifted packs", x.shape[1]
        room = np.zeros((len(x), *x.shape[2:], 2 * channels), x.dtype)
        room[..., first : first + channels] = np.moveaxis(x, 1, -1)
        return cupy.moveaxis(cupy.asarray(room)[..., first : first + channels], -1, 1)
    # Neither.
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    spread[..., ::2] = x
    turned = cupy.asarray(np.ascontiguousarray(spread.swapaxes(0, 1))).swapaxes(0, 1)
    return turned[..., ::2]


INNERMOST = ["channels innermost", "packs", "shifted packs"]
ORDERS = ["planes", *INNERMOST, "neither"]


def images(order):
    """Returns how many images there are, and of how many channels."""
    return IMAGES, 8 if "packs" in order else CHANNELS


def wide(x):
    return x if x.dtype.kind in "biu" else x.astype(complex if x.dtype.kind == "c" else float)


def close(got, expected, dtype, terms):
    """Compares with a result in float64, of sums of so many terms not larger than five."""
    assert got.dtype == dtype
    assert got.shape == expected.shape
    got = got.get()
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    eps = resolution(dtype)
    accumulated = resolution("f") if np.dtype(dtype).itemsize == 2 else eps
    error = np.abs(got.astype(expected.dtype) - expected)
    assert (error <= eps * np.abs(expected) + 5 * terms * accumulated).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", WINDOWS)
def test_maxima_and_their_way_back(name, order):
    spatial, windows = WINDOWS[name]
    # Whole numbers: many are equal, and the first one wins.
    x, xd = operand((*images(order), *spatial), "i", order)
    x, xd = x.astype("f"), xd.astype("f")
    best = on_gpu.max_pool(xd, windows=windows)
    np.testing.assert_array_equal(best.get(), on_cpu.max_pool(x, windows=windows))
    expected = on_cpu.max_pool_argmax(x, windows=windows)
    winner = on_gpu.max_pool_argmax(xd, windows=windows)
    assert winner.dtype == expected.dtype
    np.testing.assert_array_equal(winner.get(), expected)
    taken = on_gpu.pool_take(xd, winner, windows=windows)
    np.testing.assert_array_equal(taken.get(), on_cpu.pool_take(x, expected, windows=windows))
    g, gd = operand(best.shape, "i", order, 2)
    g, gd = g.astype("f"), gd.astype("f")
    spread = on_gpu.pool_scatter(gd, winner, spatial=spatial, windows=windows)
    np.testing.assert_array_equal(
        spread.get(), on_cpu.pool_scatter(g, expected, spatial=spatial, windows=windows)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["halves", "padded", "long", "solid"])
def test_maxima_and_their_places_at_once(name, order, dtype):
    spatial, windows = WINDOWS[name]
    _, x = operand((IMAGES, CHANNELS, *spatial), dtype, order)
    found = on_gpu.max_pool_with_argmax(x, windows=windows)
    wanted = on_gpu.max_pool(x, windows=windows), on_gpu.max_pool_argmax(x, windows=windows)
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        assert one.get().tobytes() == other.get().tobytes()


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", WINDOWS)
def test_means_and_their_way_back(name, order, include):
    spatial, windows = WINDOWS[name]
    x, xd = operand((*images(order), *spatial), "f", order)
    mean = on_gpu.avg_pool(xd, windows=windows, count_include_pad=include)
    expected = on_cpu.avg_pool(x.astype(float), windows=windows, count_include_pad=include)
    close(mean, expected, "f", 4)
    g, gd = operand(mean.shape, "f", order, 2)
    params = {"spatial": spatial, "windows": windows, "count_include_pad": include}
    expected = on_cpu.avg_pool_grad(g.astype(float), **params)
    close(on_gpu.avg_pool_grad(gd, **params), expected, "f", 16)


# Kernels for every kind of windows are compiled for one dtype alone.
@pytest.mark.parametrize("order", ["planes", "packs"])
@pytest.mark.parametrize(
    ("name", "dtype"), [*[("padded", d) for d in DTYPES], ("halves", "e"), ("solid", "e")], ids=str
)
def test_every_dtype(name, dtype, order):
    spatial, windows = WINDOWS[name]
    x, xd = operand((*images(order), *spatial), dtype, order)
    best = on_gpu.max_pool(xd, windows=windows)
    assert best.dtype == dtype
    # The CPU's padding knows no bfloat16.
    known = x.astype("f") if dtype == BFLOAT16 else x
    expected = on_cpu.max_pool(known, windows=windows)
    np.testing.assert_array_equal(best.get().astype(expected.dtype), expected)
    winner = on_gpu.max_pool_argmax(xd, windows=windows)
    np.testing.assert_array_equal(winner.get(), on_cpu.max_pool_argmax(known, windows=windows))
    mean = on_gpu.avg_pool(xd, windows=windows, count_include_pad=False)
    expected = on_cpu.avg_pool(wide(x), windows=windows, count_include_pad=False)
    close(mean, expected, expected.dtype if x.dtype.kind in "biu" else dtype, 4)


@pytest.mark.parametrize("order", ["planes", "packs"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*[("padded", d) for d in ("e", "d", BFLOAT16, "F", "D")], ("halves", "e"), ("solid", "e")],
    ids=str,
)
def test_every_dtype_that_has_derivatives(name, dtype, order):
    spatial, windows = WINDOWS[name]
    x, xd = operand((*images(order), *spatial), dtype, order)
    winner = on_cpu.max_pool_argmax(values(x.shape, "f"), windows=windows)
    won = placed(winner, order)
    taken = on_gpu.pool_take(xd, won, windows=windows)
    expected = on_cpu.pool_take(wide(x), winner, windows=windows)
    np.testing.assert_array_equal(taken.get().astype(expected.dtype), expected)
    g, gd = operand(winner.shape, dtype, order, 2)
    got = on_gpu.pool_scatter(gd, won, spatial=spatial, windows=windows)
    close(got, on_cpu.pool_scatter(wide(g), winner, spatial=spatial, windows=windows), dtype, 4)
    params = {"spatial": spatial, "windows": windows, "count_include_pad": False}
    close(on_gpu.avg_pool_grad(gd, **params), on_cpu.avg_pool_grad(wide(g), **params), dtype, 8)
    params = {"windows": windows, "count_include_pad": True}
    close(on_gpu.avg_pool(xd, **params), on_cpu.avg_pool(wide(x), **params), dtype, 4)


@pytest.mark.parametrize("name", ["halves", "padded", "much overlap"])
def test_nan_and_infinity_as_on_the_cpu(name):
    spatial, windows = WINDOWS[name]
    x = values((2, 3, *spatial), "f")
    flat = x.reshape(-1)
    flat[::7], flat[3::11], flat[5::13] = np.nan, np.inf, -np.inf
    x[0, 0] = -np.inf
    for function in ("max_pool", "max_pool_argmax"):
        got = getattr(on_gpu, function)(cupy.asarray(x), windows=windows)
        np.testing.assert_array_equal(got.get(), getattr(on_cpu, function)(x, windows=windows))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_places_that_are_none_take_nothing(dtype):
    spatial, windows = WINDOWS["padded"]
    x = values((1, 1, *spatial), "f")
    shape = on_cpu.max_pool(x, windows=windows).shape
    winner = np.resize(np.array([-1, 9, 0, 100, 4]), shape).astype(dtype)
    got = on_gpu.pool_take(cupy.asarray(x), cupy.asarray(winner), windows=windows)
    np.testing.assert_array_equal(got.get(), on_cpu.pool_take(x, winner, windows=windows))


@pytest.mark.parametrize("shape", [(0, 2, 4, 4), (2, 0, 4, 4)])
def test_nothing_to_pool(shape):
    windows = Windows((2, 2), (2, 2), ((0, 0), (0, 0)))
    x = cupy.zeros(shape, "f")
    assert on_gpu.max_pool(x, windows=windows).shape == (*shape[:2], 2, 2)
    assert on_gpu.avg_pool(x, windows=windows, count_include_pad=True).shape == (*shape[:2], 2, 2)
    winner = on_gpu.max_pool_argmax(x, windows=windows)
    g = cupy.zeros(winner.shape, "f")
    assert on_gpu.pool_scatter(g, winner, spatial=(4, 4), windows=windows).shape == shape


def test_four_spatial_axes_are_refused():
    windows = Windows((1,) * 4, (1,) * 4, ((0, 0),) * 4)
    with pytest.raises(NotImplementedError, match="up to 3 spatial axes, not 4"):
        on_gpu.max_pool(cupy.zeros((1,) * 6), windows=windows)
