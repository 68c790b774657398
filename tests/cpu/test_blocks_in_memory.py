"""Kernels that go over large arrays block by block, in the order of their memory."""

import numpy as np
import pytest

from functensor.backends import get
from functensor.backends.cpu import where_and_extrema
from functensor.backends.cpu.blocks import BLOCK_ELEMENTS, flat_in_memory
from functensor.backends.cpu.scatter import are_pieces

kernels = get("numpy").kernels


class Tiles:
    window = stride = (2, 2)
    padding = ((0, 0), (0, 0))


class Overlapping(Tiles):
    window, padding = (3, 3), ((1, 0), (0, 1))


def images(number, dtype, last=True):
    """Returns random images with special numbers, their channels last in memory if asked."""
    x = np.random.default_rng(number).normal(size=(number, 24, 24, 16)).astype(dtype)
    x.reshape(-1)[:: BLOCK_ELEMENTS - 7] = np.nan
    x.reshape(-1)[5::997] = np.inf
    x.reshape(-1)[9::991] = -0.0
    return x.transpose(0, 3, 1, 2) if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def same_bits(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.strides == wanted.strides
    assert found.tobytes("A") == wanted.tobytes("A")


def test_flat_views_have_all_elements_in_the_order_of_memory():
    x = np.arange(24).reshape(2, 3, 4)
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        y = x.transpose(order)
        found, other = flat_in_memory(y, y)
        assert found.tolist() == list(range(24))
        assert np.shares_memory(found, x)
        assert np.shares_memory(other, x)
    assert flat_in_memory(x[:, ::2]) is None
    assert flat_in_memory(x, x.astype(np.int8)) is None
    assert flat_in_memory(x.transpose(2, 0, 1), np.empty((4, 2, 3), x.dtype)) is None
    assert flat_in_memory(np.broadcast_to(x, (2, 2, 3, 4))) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("last", [(True, True), (False, False), (True, False)])
def test_derivatives_of_relu_choose_the_same_bits_in_blocks(dtype, last):
    x, y = (images(n, dtype, one) for n, one in zip((33, 33), last, strict=True))
    y = y[::-1].copy("K")
    assert x.size > BLOCK_ELEMENTS
    wanted = np.where(y > 0, x, x.dtype.type(0))
    found = kernels["relu_grad"](x, y)
    assert found.tobytes() == wanted.tobytes()
    if last[0] == last[1]:
        assert found.strides == x.strides


def test_derivatives_of_relu_go_over_blocks(monkeypatch):
    seen = []
    monkeypatch.setattr(where_and_extrema, "side_by_side", lambda _, parts: seen.append(parts))
    x = images(33, "float32")
    kernels["relu_grad"](x, x)
    assert [len(parts) for parts in seen] == [-(-x.size // BLOCK_ELEMENTS)]


@pytest.mark.parametrize("windows", [Tiles, Overlapping])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pooling_in_blocks_has_the_bits_of_pooling_image_by_image(windows, dtype):
    x = images(33, dtype)
    best, winner = (kernels[n](x, windows=windows) for n in ("max_pool", "max_pool_argmax"))
    g = np.random.default_rng(1).normal(size=best.shape).astype(dtype)
    spread = kernels["pool_scatter"](g, winner, spatial=(24, 24), windows=windows)
    for i in range(len(x)):
        one = x[i : i + 1]
        same_bits(best[i : i + 1], kernels["max_pool"](one, windows=windows))
        won = kernels["max_pool_argmax"](one, windows=windows)
        assert winner[i : i + 1].tobytes() == won.tobytes()
        wanted = kernels["pool_scatter"](g[i : i + 1], won, spatial=(24, 24), windows=windows)
        assert spread[i : i + 1].tobytes() == wanted.tobytes()


class Key:
    arrays = 0

    def __init__(self, *native):
        self.native = native


S = slice
PIECES = [
    ([Key(S(0, 2)), Key(S(2, 5))], True),
    ([Key(S(2, None)), Key(S(None, 2))], True),
    ([Key(S(None), S(3, 4)), Key(S(0, 5), S(0, 3))], True),
    ([Key(S(0, 2)), Key(S(3, 5))], False),
    ([Key(S(0, 3)), Key(S(2, 5))], False),
    ([Key(S(0, 2)), Key(S(2, 4))], False),
    ([Key(S(1, 2)), Key(S(2, 5))], False),
    ([Key(S(0, 2)), Key(S(None), S(2, 4))], False),
    ([Key(S(0, 2)), Key(S(2, 5)), Key(S(0, 2))], False),
    ([Key(S(4, None, -1)), Key(S(0, 0))], False),
    ([Key(S(0, 5, 2)), Key(S(1, 5, 2))], False),
    ([Key(S(0, 2), S(0, 4)), Key(S(2, 5), S(0, 3))], False),
    ([Key(0), Key(S(1, 5))], False),
    ([Key(...), Key(S(0, 2))], False),
    ([Key(S(None))], False),
]


@pytest.mark.parametrize(("keys", "wanted"), PIECES)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64"])
def test_pieces_of_an_array_are_put_together_with_the_bits_of_their_sum(keys, wanted, dtype):
    shape = (5, 4)
    assert are_pieces(keys, shape) == wanted
    whole = np.zeros(shape, dtype)
    values = [(np.random.default_rng(1).normal(size=whole[k.native].shape) * 9).astype(dtype)
              for k in keys]  # fmt: skip
    for value, key in zip(values, keys, strict=True):
        value[..., :1] = -0.0
        value[..., 1:2] = np.inf if dtype != "int64" else 0
        whole[key.native] += value
    same_bits(kernels["scatter_add"](*values, shape=shape, keys=keys), whole)
