"""Convolutions by kernels that read windows where they lie, on the CPU's threads."""

import numpy as np
import pytest
from support import one_thread
from support.convolution_kernels import ConvolutionKernels, check, close, normal
from support.leaf_kernels import buffer
from support.long_forms import only_long, with_slow

from functensor.backends.cpu import convolution as on_the_cpu
from functensor.primitives.contract.conv import Geometry

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")

# Shapes of x and w, and the geometry.
CASES = {
    "one axis": ((2, 3, 11), (4, 3, 3), Geometry((1,), ((0, 0),), (1,), 1)),
    "plain": ((2, 3, 6, 5), (5, 3, 3, 3), Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), 1)),
    "every parameter": (
        (2, 4, 7, 8),
        (6, 2, 3, 2),
        Geometry((2, 3), ((1, 0), (0, 2)), (2, 1), 2),
    ),
    "dilated": (
        (2, 2, 9, 7),
        (6, 1, 2, 3),
        Geometry((1, 1), ((2, 0), (1, 1)), (3, 2), 2),
    ),
    "many rows": ((1, 9, 3, 4), (70, 9, 2, 1), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
    "many windows": ((3, 1, 7, 9), (2, 1, 2, 2), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
}


@pytest.fixture(scope="module")
def compiled():
    return ConvolutionKernels()


@pytest.fixture
def module(compiled, monkeypatch):
    """The module, where no sum is short and no patch fits."""
    from functensor.backends.cuda.kernels import patched_convolution, shallow_convolution

    monkeypatch.setattr(shallow_convolution, "DEPTHS", ())
    monkeypatch.setattr(patched_convolution, "MOST_SHARED", 0)
    monkeypatch.setattr(patched_convolution, "MOST_SHARED_ALONE", 0)
    return compiled.take_over(monkeypatch)


@pytest.mark.parametrize("name", with_slow(CASES, CASES))
def test_every_geometry(module, name):
    x_shape, w_shape, geometry = CASES[name]
    check(module, normal(*x_shape), normal(*w_shape), geometry)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("name", ["plain", "every parameter", "many rows"])
def test_a_bias_is_added_and_relu_follows(module, name, relu):
    x_shape, w_shape, geometry = CASES[name]
    x, w, bias = normal(*x_shape), normal(*w_shape), normal(w_shape[0])
    wanted = on_the_cpu.conv(x.astype(float), w.astype(float), geometry=geometry)
    wanted += bias.reshape(-1, 1, 1)
    wanted = np.maximum(wanted, 0) if relu else wanted
    given = buffer(x), buffer(w), wanted.shape[2:], geometry, buffer(bias), relu
    close(module.gathered_conv(*given), wanted)


def test_padding_that_numbers_of_32_bits_do_not_reach_is_left_to_others(module):
    def found(far):
        geometry = Geometry((1, 1), ((far, far), (0, 0)), (far, 1), 1)
        x, w, g = buffer(normal(1, 2, 4, 5)), buffer(normal(3, 2, 3, 1)), buffer(normal(1, 3, 4, 5))
        yield module.gathered_conv(x, w, (4, 5), geometry)
        yield module.gathered_input_grad(g, w, (4, 5), geometry)
        yield module.gathered_kernel_grad(x, g, (3, 1), geometry)

    assert not any(out is None for out in found(1 << 8))
    assert all(out is None for out in found(1 << 28))


def test_more_groups_than_a_grid_has_layers_are_left_to_others(module):
    def is_own(groups):
        x, w = buffer(np.ones((1, groups, 3), "f4")), buffer(np.ones((groups, 1, 2), "f4"))
        geometry = Geometry((1,), ((0, 0),), (1,), groups)
        return module.by_gathering(1, (2,), geometry, x, w, x[:, :, :2])

    assert is_own(65_535)
    assert not is_own(65_536)


def test_relu_keeps_what_is_not_a_number(module):
    x = buffer(np.array([[[1.0, np.nan, -2.0, -3.0]]], "f4"))
    w, geometry = buffer(np.ones((1, 1, 2), "f4")), Geometry((1,), ((0, 0),), (1,), 1)
    found = module.gathered_conv(x, w, (3,), geometry, buffer(np.ones(1, "f4")), True)
    assert np.isnan(found).ravel().tolist() == [True, True, False]
    assert found[0, 0, 2] == 0


@only_long
@pytest.mark.long
def test_infinity_and_nan_stay_where_they_belong(module):
    x = np.zeros((1, 1, 8), np.float32)
    x[0, 0, 1], x[0, 0, 6] = np.nan, np.inf
    w, geometry = buffer(np.ones((1, 1, 2), np.float32)), Geometry((1,), ((0, 0),), (1,), 1)
    out = np.asarray(module.gathered_conv(buffer(x), w, (7,), geometry))[0, 0]
    assert np.isnan(out).tolist() == [True, True, *[False] * 5]
    assert np.isinf(out).tolist() == [*[False] * 5, True, True]
    g = buffer(np.ones((1, 1, 7), np.float32))
    assert np.isnan(module.gathered_kernel_grad(buffer(x), g, (2,), geometry)).all()
    x[0, 0, 1] = 0
    assert np.isposinf(module.gathered_kernel_grad(buffer(x), g, (2,), geometry)).all()


@only_long
@pytest.mark.long
def test_blocks_share_what_is_summed(module, compiled):
    x_shape, w_shape, geometry = CASES["many windows"]
    module.FEWEST_ROUNDS, before = 1, module.FEWEST_ROUNDS
    try:
        check(module, normal(*x_shape), normal(*w_shape), geometry)
    finally:
        module.FEWEST_ROUNDS = before
    names = [name for name, *_ in compiled.launched]
    assert names == ["window_product", "window_product", "kernel_product", "add_parts"]
    assert compiled.launched[2][2][1] > 1


@only_long
@pytest.mark.long
@pytest.mark.parametrize("taps", [(2, 2), (3, 1)], ids=["weights by fours", "weights by ones"])
def test_threads_learn_of_more_tiles_than_there_is_room_for(module, taps):
    # There is room for twice as many elements as a block has threads, which two batches are.
    channels = 2 * 256 // np.prod(taps) + 2
    geometry = Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)
    x, w = normal(1, channels, 3, 2), normal(2, channels, *taps)
    wanted = on_the_cpu.conv(x.astype(float), w.astype(float), geometry=geometry)
    close(module.gathered_conv(buffer(x), buffer(w), wanted.shape[2:], geometry), wanted)


@only_long
@pytest.mark.long
def test_images_in_another_order_are_read_where_they_lie(module):
    _, w_shape, geometry = CASES["plain"]
    last = buffer(normal(2, 6, 5, 3))
    x, w = np.moveaxis(last, -1, 1), buffer(normal(*w_shape))
    wanted = on_the_cpu.conv(np.asarray(x, float), np.asarray(w, float), geometry=geometry)
    close(module.gathered_conv(x, w, wanted.shape[2:], geometry), wanted)


def test_older_gpus_have_no_units_for_this(module, monkeypatch):
    x, w = buffer(normal(2, 3, 6, 5)), buffer(normal(5, 3, 3, 3))
    monkeypatch.setattr(module, "has_units", lambda device: False)
    assert module.gathered_conv(x, w, (6, 5), CASES["plain"][2]) is None


def test_what_others_compute(module):
    geometry = CASES["plain"][2]
    x, w = buffer(normal(2, 3, 6, 5)), buffer(normal(5, 3, 3, 3))
    assert module.gathered_conv(x.astype("f8"), w.astype("f8"), (6, 5), geometry) is None
    assert module.gathered_conv(x[:0], w, (6, 5), geometry) is None
    wide = buffer(np.zeros((200, 3, 3, 3), "f4"))
    assert module.gathered_conv(x, wide, (6, 5), geometry) is None
    large = buffer(normal(5, 3, 6, 6))
    assert module.gathered_conv(x, large, (3, 2), geometry) is None
    volume = Geometry((1,) * 3, ((0, 0),) * 3, (1,) * 3, 1)
    x, w = buffer(normal(1, 1, 3, 3, 3)), buffer(normal(1, 1, 2, 2, 2))
    assert module.gathered_conv(x, w, (2, 2, 2), volume) is None
