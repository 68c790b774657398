"""Attention's powers of scores on the CPU: those that need no shift, and those that do."""

import numpy as np
import pytest

import functensor as ft
from functensor import nn
from functensor.backends.cpu import attention as kernels


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weights_by_definition(scores):
    top = np.maximum(scores.max(-1, keepdims=True), np.finfo(np.float32).min)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


SCORES = {
    "usual": normal(2, 3, 5),
    "large": 60 + normal(2, 3, 5),
    "huge": 1e30 * normal(2, 3, 5),
    "small": -60 + normal(2, 3, 5),
    "one row far below": np.concatenate([normal(2, 2, 5), -200 + normal(2, 1, 5)], 1),
    "one row unseen": np.concatenate([normal(2, 2, 5), np.full((2, 1, 5), -np.inf, "f")], 1),
    "no rows": normal(2, 0, 5),
}


@pytest.mark.parametrize("name", SCORES)
def test_powers_times_shares_are_the_weights(name):
    scores = SCORES[name]
    powers, shares = kernels.powers_of(scores.copy())
    np.testing.assert_allclose(powers * shares, weights_by_definition(scores), rtol=2e-5)


def test_usual_scores_are_exponentiated_without_a_shift():
    scores = normal(2, 3, 5)
    powers, _ = kernels.powers_of(scores.copy())
    np.testing.assert_array_equal(powers, np.exp(scores))
    powers, _ = kernels.powers_of(60 + scores)
    np.testing.assert_array_equal(powers.max(-1), 1)


def test_a_row_of_nan_stays_one():
    scores = normal(1, 2, 3)
    scores[0, 1, 0] = np.nan
    powers, shares = kernels.powers_of(scores.copy())
    assert np.isnan(powers * shares).tolist() == [[[False] * 3, [True] * 3]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_small_blocks_compute_the_same(causal, masked, monkeypatch):
    operands = [normal(3, 2, 6, 4, seed=i) for i in range(3)]
    mask = (normal(6, 6, seed=3) > -0.5,) if masked else ()

    def both():
        out, pull = ft.vjp(lambda q, k, v: nn.attention(q, k, v, *mask, causal=causal), *operands)
        return out, *pull(np.ones(out.shape, np.float32))

    wanted = both()
    monkeypatch.setattr(kernels, "BLOCK_SCORES", 72)
    for a, b in zip(both(), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_keys_that_nobody_may_see_change_no_bit(images, bad):
    q, k, v = (normal(images, 6, 4, seed=i) for i in range(3))
    wanted = nn.attention(q, k, v, causal=True)
    k[:, 5] = bad
    with np.errstate(all="raise"):
        out = nn.attention(q[:, :5], k[:, :5], v[:, :5], causal=True)
    np.testing.assert_array_equal(out, wanted[:, :5])
    # The last query sees that key. The others keep their bits but for another shift of scores.
    with np.errstate(invalid="ignore"):
        out = nn.attention(q, k, v, causal=True)
    assert np.isnan(out[:, 5]).all()
    np.testing.assert_allclose(out[:, :5], wanted[:, :5], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 3, 6, 4), (6, 4)])
def test_a_mask_for_each_head_counts_for_its_own_block(shape, monkeypatch):
    q, k, v = (normal(*shape, seed=i) for i in range(3))
    mask = normal(*shape[:-1], 6, seed=3) > -0.5
    mask[..., 0] = True
    wanted = nn.softmax(np.where(mask, q @ k.swapaxes(-1, -2) / 2, -np.inf), axis=-1) @ v
    for scores in (1, 40, 1 << 17):
        monkeypatch.setattr(kernels, "BLOCK_SCORES", scores)
        np.testing.assert_allclose(nn.attention(q, k, v, mask), wanted, rtol=2e-6, atol=2e-7)
