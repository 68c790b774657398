"""The input's gradient of a convolution, with windows along the last axis gathered for BLAS."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized

from functensor.backends.cpu import convolution


class Geometry(NamedTuple):
    """A convolution, as the functions know it."""

    stride: Any
    padding: Any = ((0, 0),) * 3
    dilation: Any = (1, 1, 1)
    groups: int = 1


def each_axis(rank, strategy, draw):
    """Draws something for every axis."""
    return tuple(draw(strategy) for _ in range(rank))


def case(draw):
    """Draws a gradient, a kernel and how they meet."""
    rank = draw(st.integers(2, 3))
    kernel = (*each_axis(rank - 1, st.integers(1, 3), draw), draw(st.integers(2, 4)))
    stride = (*each_axis(rank - 1, st.integers(1, 2), draw), 1)
    dilation = each_axis(rank, st.integers(1, 2), draw)
    padding = each_axis(rank, st.tuples(st.integers(0, 2), st.integers(0, 2)), draw)
    spatial = (*each_axis(rank - 1, st.integers(7, 9), draw), draw(st.integers(30, 40)))
    groups = draw(st.integers(1, 2))
    geometry = Geometry(stride=stride, padding=padding, dilation=dilation, groups=groups)
    full = [n + lo + hi for n, (lo, hi) in zip(spatial, padding)]
    count = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(full, kernel, stride, dilation)]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    g = rng.normal(size=(draw(st.integers(1, 3)), 8 * groups, *count))
    w = rng.normal(size=(8 * groups, 9, *kernel))
    return g, w, spatial, tuple(full), geometry


@settings(max_examples=sized(10, 40), deadline=None)
@given(st.data())
def test_both_ways_add_up_to_the_same(data):
    g, w, spatial, full, geometry = case(data.draw)
    shape = (len(g), *g.shape[2:], geometry.groups, 8)
    assert convolution.is_gathered(shape, w.shape, full, geometry)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            convolution, "GATHERED_BLOCK_BYTES", data.draw(st.sampled_from([1, 60000, 1 << 21]))
        )
        got = convolution.conv_input_grad(g, w, spatial=spatial, geometry=geometry)
        patch.setattr(convolution, "is_gathered", lambda *given: False)
        wanted = convolution.conv_input_grad(g, w, spatial=spatial, geometry=geometry)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


def test_it_is_the_transpose_of_the_convolution():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 8, 9, 30))
    w = rng.normal(size=(16, 8, 3, 3))
    geometry = Geometry(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    out = convolution.conv(x, w, geometry=geometry)
    g = rng.normal(size=out.shape)
    back = convolution.conv_input_grad(g, w, spatial=(9, 30), geometry=geometry)
    assert back.shape == x.shape
    np.testing.assert_allclose(np.vdot(out, g), np.vdot(x, back), rtol=1e-10)


@pytest.mark.parametrize(
    ("g", "w", "full", "stride", "wanted"),
    [
        ((2, 24, 24, 1, 64), (64, 32, 3, 3), (26, 26), (1, 1), True),
        ((2, 24, 24, 1, 64), (64, 32, 3, 1), (26, 24), (1, 1), False),
        ((2, 24, 24, 1, 64), (64, 3, 3, 3), (26, 26), (1, 1), False),
        ((2, 24, 24, 64, 1), (64, 32, 3, 3), (26, 26), (1, 1), False),
        ((2, 24, 24, 1, 64), (64, 32, 3, 3), (26, 49), (1, 2), False),
        ((2, 4, 4, 1, 64), (64, 32, 3, 3), (6, 6), (1, 1), False),
        ((2, 24, 1, 64), (64, 32, 3), (26,), (1,), False),
    ],
)
def test_when_a_copy_is_worth_it(g, w, full, stride, wanted):
    geometry = Geometry(stride=stride)
    assert convolution.is_gathered(g, w, full, geometry) is wanted
