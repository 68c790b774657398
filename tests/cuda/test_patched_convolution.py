"""Convolutions by kernels that read windows out of patches of images, on the CPU's threads."""

import numpy as np
import pytest
from support import one_thread
from support.convolution_kernels import ConvolutionKernels, check, close, normal
from support.leaf_kernels import buffer
from support.long_forms import only_long, with_slow

from functensor.backends.config import config
from functensor.backends.cpu import convolution as on_the_cpu
from functensor.primitives.contract.conv import Geometry

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")

# Shapes of x and w, and the geometry.
CASES = {
    "one axis": ((2, 16, 11), (20, 16, 3), Geometry((1,), ((0, 0),), (1,), 1)),
    "padded": ((3, 8, 6, 5), (8, 8, 3, 3), Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), 1)),
    "every parameter": (
        (2, 17, 9, 11),
        (9, 17, 3, 2),
        Geometry((1, 2), ((1, 0), (0, 2)), (2, 1), 1),
    ),
    "groups": ((2, 16, 9, 7), (24, 8, 2, 3), Geometry((1, 1), ((2, 0), (1, 1)), (3, 2), 2)),
    "many rows": ((1, 9, 3, 4), (70, 9, 2, 2), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
    "many windows": ((3, 9, 17, 19), (9, 9, 2, 2), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
}
SHALLOW = {
    "few channels": ((2, 2, 9, 8), (9, 2, 3, 2), Geometry((2, 1), ((1, 1), (0, 1)), (1, 1), 1)),
    "each channel alone": ((2, 3, 9, 8), (3, 1, 3, 3), Geometry((1, 1), ((1, 1),) * 2, (1, 1), 3)),
    "many rows": ((2, 4, 19, 18), (33, 4, 2, 3), Geometry((1, 1), ((1, 1),) * 2, (1, 1), 1)),
}


@pytest.fixture(scope="module")
def compiled():
    return ConvolutionKernels()


@pytest.fixture
def module(compiled, monkeypatch):
    return compiled.take_over(monkeypatch)


def names(compiled):
    """Returns the kernels that were launched."""
    return [name for name, *_ in compiled.launched]


@pytest.mark.parametrize("name", with_slow(CASES, {*CASES} - {"padded"}))
def test_every_geometry(module, compiled, name):
    x_shape, w_shape, geometry = CASES[name]
    check(module, normal(*x_shape), normal(*w_shape), geometry)
    products = ["arrange_weights", "patch_product"] * (1 if max(geometry.stride) > 1 else 2)
    assert names(compiled) == [*products, "patch_kernel_product", "add_kernel_parts"]


@pytest.mark.parametrize("name", with_slow(SHALLOW, ["many rows"]))
def test_sums_of_few_products(module, compiled, name):
    x_shape, w_shape, geometry = SHALLOW[name]
    check(module, normal(*x_shape), normal(*w_shape), geometry)
    assert names(compiled)[0] == "shallow_product"
    assert names(compiled)[-2:] == ["patch_kernel_product", "add_kernel_parts"]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("case", [CASES["padded"], SHALLOW["few channels"]])
def test_a_bias_is_added_and_relu_follows(module, case, relu):
    x_shape, w_shape, geometry = case
    x, w, bias = normal(*x_shape), normal(*w_shape), normal(w_shape[0])
    wanted = on_the_cpu.conv(x.astype(float), w.astype(float), geometry=geometry)
    wanted += bias.reshape(-1, 1, 1)
    wanted = np.maximum(wanted, 0) if relu else wanted
    given = buffer(x), buffer(w), wanted.shape[2:], geometry, buffer(bias), relu
    close(module.gathered_conv(*given), wanted)


@pytest.mark.parametrize("precision", ["highest", "tf32"])
@pytest.mark.parametrize("channels", [1, 16])
def test_infinity_and_nan_stay_where_they_belong(module, channels, precision):
    with config.using(matmul_precision=precision):
        check_infinity_and_nan(module, channels)


def check_infinity_and_nan(module, channels):
    x = np.zeros((1, channels, 8), np.float32)
    x[0, -1, 1], x[0, 0, 6] = np.nan, np.inf
    w, geometry = buffer(np.ones((1, channels, 2), "f4")), Geometry((1,), ((0, 0),), (1,), 1)
    bias = buffer(np.ones(1, "f4"))
    for relu in (False, True):
        out = np.asarray(module.gathered_conv(buffer(x), w, (7,), geometry, bias, relu))[0, 0]
        assert np.isnan(out).tolist() == [True, True, *[False] * 5]
        assert np.isposinf(out).tolist() == [*[False] * 5, True, True]
    g = buffer(np.ones((1, 1, 7), np.float32))
    found = np.asarray(module.gathered_kernel_grad(buffer(x), g, (2,), geometry))[0]
    assert np.isnan(found).tolist() == [*[[False] * 2] * (channels - 1), [True, True]]
    x[0, -1, 1] = 0
    found = np.asarray(module.gathered_kernel_grad(buffer(x), g, (2,), geometry))[0]
    assert np.isposinf(found).tolist() == [[True, True], *[[False] * 2] * (channels - 1)]


def test_what_lies_behind_the_last_window_is_not_read(module):
    # The patch of the last windows has a row that none of these eight meets with a cotangent.
    geometry = Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)
    x, g = normal(1, 8, 4, 5), normal(1, 9, 3, 4)
    x[..., -1, -1] = np.inf
    g[..., -1, -1] = 0
    found = np.asarray(module.gathered_kernel_grad(buffer(x), buffer(g), (2, 2), geometry))
    assert np.isfinite(found[..., :1]).all()
    assert np.isnan(found[..., 1, 1]).all()


def test_factors_are_rounded_to_tf32(module):
    x_shape, w_shape, geometry = CASES["padded"]
    x, w = normal(*x_shape), normal(*w_shape)
    wanted = on_the_cpu.conv(x.astype(float), w.astype(float), geometry=geometry)
    with config.using(matmul_precision="tf32"):
        found = module.gathered_conv(buffer(x), buffer(w), wanted.shape[2:], geometry)
    close(found, wanted, 2e-3)
    assert np.abs(found - wanted).max() > 1e-5 * np.abs(wanted).max()


@only_long
@pytest.mark.long
def test_images_in_another_order_are_read_where_they_lie(module):
    _, w_shape, geometry = CASES["padded"]
    last = buffer(normal(2, 6, 5, 8))
    x, w = np.moveaxis(last, -1, 1), buffer(normal(*w_shape))
    wanted = on_the_cpu.conv(np.asarray(x, float), np.asarray(w, float), geometry=geometry)
    close(module.gathered_conv(x, w, wanted.shape[2:], geometry), wanted)
    backwards = x[:, :, ::-1]
    wanted = on_the_cpu.conv(np.asarray(backwards, float), np.asarray(w, float), geometry=geometry)
    close(module.gathered_conv(backwards, w, wanted.shape[2:], geometry), wanted)


IN_GROUPS = {
    "few products": SHALLOW["each channel alone"],
    "patches": CASES["groups"],
    "windows of one element": (
        (1, 80, 5, 6),
        (6, 40, 1, 1),
        Geometry((1, 1), ((0, 0),) * 2, (1, 1), 2),
    ),
}


@pytest.mark.parametrize("name", with_slow(IN_GROUPS, {*IN_GROUPS} - {"few products"}))
def test_groups_of_channels_that_lie_backwards(module, name):
    x_shape, w_shape, geometry = IN_GROUPS[name]
    x, w = buffer(normal(*x_shape))[:, ::-1], buffer(normal(*w_shape))
    exact = np.asarray(x, float)
    wanted = on_the_cpu.conv(exact, np.asarray(w, float), geometry=geometry)
    close(module.gathered_conv(x, w, wanted.shape[2:], geometry), wanted)
    g, kernel = normal(*wanted.shape), w_shape[2:]
    found = module.gathered_kernel_grad(x, buffer(g), kernel, geometry)
    of_kernel = on_the_cpu.conv_kernel_grad
    close(found, of_kernel(exact, g.astype(float), kernel=kernel, geometry=geometry))


@only_long
@pytest.mark.long
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "geometry"),
    [
        ((1, 8, 35, 130), (8, 8, 5, 1), Geometry((1, 1), ((0, 0), (0, 0)), (8, 1), 1)),
        ((2, 40, 5, 5), (8, 40, 1, 1), Geometry((2, 2), ((0, 0), (0, 0)), (1, 1), 1)),
        ((1, 40, 17, 17), (8, 40, 2, 2), Geometry((5, 5), ((0, 0), (0, 0)), (1, 1), 1)),
    ],
    ids=["patches that do not fit", "windows of one element", "windows far from each other"],
)
def test_what_others_compute(module, compiled, x_shape, w_shape, geometry):
    check(module, normal(*x_shape), normal(*w_shape), geometry)
    assert {*names(compiled)} <= {"window_product", "kernel_product", "add_parts"}
