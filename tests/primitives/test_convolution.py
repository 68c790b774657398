"""Parameters of convolution and pooling, and those that they refuse.

Values and derivatives are compared with the definitions by the tests of all primitives.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
from support import references

import functensor as ft
from functensor import nn
from functensor.backends.cpu import convolution
from functensor.primitives.contract.conv import Geometry
from functensor.primitives.core.errors import ShapeError
from functensor.primitives.core.registry import registry as ops
from functensor.testing import check_grads

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("length", [5, 6, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_gives_a_window_for_every_stride(length, stride, dilation):
    x, w = RNG.random((1, 2, length)), RNG.random((3, 2, 3))
    parameters = {"stride": stride, "padding": "SAME", "dilation": dilation}
    out = ops.conv(x, w, **parameters)
    assert out.shape == (1, 3, -(-length // stride))
    total = (out.shape[-1] - 1) * stride + 2 * dilation + 1 - length
    pair = (max(total, 0) // 2, max(total, 0) - max(total, 0) // 2)
    np.testing.assert_allclose(out, ops.conv(x, w, **{**parameters, "padding": (pair,)}))
    spread = nn.conv_transpose(out, w, **parameters)
    assert spread.shape == (1, 2, out.shape[-1] * stride)
    assert nn.avg_pool(x, 3, stride=stride, padding="same").shape[-1] == out.shape[-1]


def test_conv_transpose_transposes_conv():
    x, w = RNG.random((2, 4, 9, 8)), RNG.random((6, 2, 3, 2))
    parameters = {"stride": (2, 3), "padding": (1, 0), "dilation": (2, 1), "groups": 2}
    out, pull = ft.vjp(lambda x: ops.conv(x, w, **parameters), x)
    spread = nn.conv_transpose(out, w, output_padding=(0, 0), **parameters)
    wanted = pull(out)[0]
    np.testing.assert_allclose(spread, wanted[:, :, : spread.shape[2], : spread.shape[3]])
    padded = nn.conv_transpose(out, w, output_padding=(0, 0), **{**parameters, "padding": "VALID"})
    np.testing.assert_allclose(padded[:, :, 1:-1], spread)


def spread_by_hand(x, w, stride, padding, extra, dilation, groups):
    """Every element adds the kernel, times itself, where it lies; then the padding is cut off."""
    batch, _, length = x.shape
    kernel = w.shape[-1]
    out = np.zeros((batch, groups, w.shape[1], (length - 1) * stride + dilation * (kernel - 1) + 9))
    x, w = x.reshape(batch, groups, -1, length), w.reshape(groups, -1, *w.shape[1:])
    for i in range(length):
        for k in range(kernel):
            out[..., i * stride + k * dilation] += np.einsum("bgc,gco->bgo", x[..., i], w[..., k])
    stop = (length - 1) * stride + dilation * (kernel - 1) + 1 - padding + extra
    return out.reshape(batch, -1, out.shape[-1])[..., padding:stop]


@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_transpose_of_all_small_parameters(stride, dilation):
    x = RNG.normal(size=(2, 4, 5))
    for padding, extra, groups, kernel in product((0, 1, 2), range(4), (1, 2), (1, 2, 3)):
        w = RNG.normal(size=(4, 3, kernel))
        options = {"stride": stride, "padding": padding, "output_padding": extra}
        options |= {"dilation": dilation, "groups": groups}
        if extra >= max(stride, dilation):
            with pytest.raises(ShapeError, match="output_padding"):
                nn.conv_transpose(x, w, **options)
            continue
        wanted = spread_by_hand(x, w, stride, padding, extra, dilation, groups)
        np.testing.assert_allclose(nn.conv_transpose(x, w, **options), wanted, atol=1e-12)
        if extra >= stride and padding == 1 and kernel == 3:
            check_grads(partial(nn.conv_transpose, **options), (x, w), order=1)


@pytest.mark.parametrize("channels", [1, 3, 12])
@pytest.mark.parametrize("block", [1, 700, 5000])
def test_blocks_of_any_size_give_the_same(monkeypatch, channels, block):
    monkeypatch.setattr(convolution, "GATHERED_BLOCK_BYTES", block)
    geometry = Geometry((2, 1), ((1, 1), (0, 2)), (1, 2), 1)
    x = RNG.random((3, channels, 9, 8))
    w = RNG.random((4, channels, 3, 2))
    g = convolution.conv(x, w, geometry=geometry)
    np.testing.assert_allclose(g, references.conv(x, w, geometry=geometry))
    np.testing.assert_allclose(
        convolution.conv_input_grad(g, w, spatial=(9, 8), geometry=geometry),
        references.conv_input_grad(g, w, spatial=(9, 8), geometry=geometry),
    )
    np.testing.assert_allclose(
        convolution.conv_kernel_grad(x, g, kernel=(3, 2), geometry=geometry),
        references.conv_kernel_grad(x, g, kernel=(3, 2), geometry=geometry),
    )


def test_the_first_of_equal_maxima_gets_the_cotangent():
    pull = ft.vjp(lambda x: nn.max_pool(x, 2), np.ones((1, 1, 2, 4)))[1]
    got = pull(np.array([[[[3.0, np.inf]]]]))[0]
    np.testing.assert_array_equal(got, [[[[3.0, 0.0, np.inf, 0.0], [0.0, 0.0, 0.0, 0.0]]]])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64])
def test_pooling_of_integers(dtype):
    x = RNG.integers(0, 2, (1, 2, 5)).astype(dtype)
    maxima = nn.max_pool(x, 3, stride=2, padding=1)
    assert maxima.dtype == dtype
    framed = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(framed, 3, axis=2)[:, :, ::2]
    np.testing.assert_array_equal(maxima, windows.max(-1))
    np.testing.assert_allclose(nn.avg_pool(x, 3, stride=2, padding=1), windows.mean(-1))


X = np.ones((2, 3, 5, 4))
W = np.ones((6, 3, 3, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ops.conv(X, np.ones((6, 2, 3, 2))), ["channels (axis 1)", "is 3", "is 2"]),
        (lambda: ops.conv(X, W, groups=2), ["3 channels of x (axis 1)", "groups=2"]),
        (lambda: ops.conv(X, W[:5, :1], groups=3), ["5 outputs of w (axis 0)", "groups=3"]),
        (lambda: ops.conv(X, np.ones((6, 3, 3, 5))), ["axis 1", "axis 3", "spans 5", "has 4"]),
        (lambda: ops.conv(X, W[..., 0]), ["1 spatial axes on 2"]),
        (lambda: ops.conv(X[0, 0], W), ["(5, 4)", "no spatial axis"]),
        (lambda: nn.conv_transpose(X, W), ["is 3", "is 6"]),
        (
            lambda: nn.conv_transpose(X, W[:3, :, :1, :1], padding=((0, 0), (3, 2))),
            ["axis 1", "over 4 places", "padding of 5"],
        ),
        (lambda: nn.max_pool(X, 5), ["axis 1", "spans 5", "has 4"]),
        (lambda: nn.avg_pool(X, 2, padding=2), ["window of 2", "padding of 2"]),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ShapeError) as caught:
        call()
    for word in [*words, "python -m functensor.errors 16"]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"stride": 0}, "stride=0"),
        ({"stride": (1, 2, 3)}, "for 2 spatial axes"),
        ({"padding": -1}, "padding=-1"),
        ({"padding": "FULL"}, "padding='FULL'"),
        ({"padding": (1, 2, 3)}, "for 2 spatial axes"),
        ({"dilation": (1, 0)}, "dilation=(1, 0)"),
        ({"groups": 0}, "groups=0"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, word):
    with pytest.raises(ValueError, match="conv: ") as caught:
        ops.conv(X, W, **parameters)
    assert word in str(caught.value)
