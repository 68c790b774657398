"""Attention: its arguments, and that it needs no more than a block of the scores.

Values and derivatives are compared with the definition by the tests of all primitives.
"""

import numpy as np
import pytest
from support.counted import peak_of

import functensor as ft
from functensor import nn
from functensor.backends.cpu import attention as blocks
from functensor.primitives.core.errors import ShapeError
from functensor.testing import check_grads

RNG = np.random.default_rng(0)


def by_definition(q, k, v, mask=None, causal=False, scale=None):
    """Attention through all scores; the mask is one of numbers."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * np.einsum("...qd,...kd->...qk", q, k)
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    powers = np.exp(scores)
    return powers @ v / powers.sum(-1, keepdims=True)


def draw(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_any_size_give_the_same(monkeypatch, block, causal):
    monkeypatch.setattr(blocks, "BLOCK_SCORES", block)
    q, k, v, mask = draw((2, 3, 7, 4), (2, 3, 5, 4), (2, 3, 5, 6), (3, 1, 5))
    out = nn.attention(q, k, v, mask, causal)
    np.testing.assert_allclose(out, by_definition(q, k, v, mask, causal), rtol=1e-12)
    g = RNG.normal(size=out.shape)
    pulled = ft.vjp(lambda q, k, v: nn.attention(q, k, v, mask, causal), q, k, v)[1](g)
    monkeypatch.setattr(blocks, "BLOCK_SCORES", 1 << 18)
    wanted = ft.vjp(lambda q, k, v: nn.attention(q, k, v, mask, causal), q, k, v)[1](g)
    for a, b in zip(pulled, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_scores_are_never_all_in_memory():
    q, k, v = (x.astype("float32") for x in draw(*[(1, 3000, 8)] * 3))
    scores = 3000 * 3000 * 4

    assert peak_of(lambda: nn.attention(q, k, v, causal=True)) < scores / 8
    loss = ft.grad(lambda q, k, v: nn.attention(q, k, v).sum(), argnums=(0, 1, 2))
    assert peak_of(lambda: loss(q, k, v)) < scores / 4


def test_leading_axes_and_dtypes_promote():
    q, k, v = draw((3, 2, 5, 4), (1, 6, 4), (2, 6, 3))
    out = nn.attention(q, k, v)
    np.testing.assert_allclose(out, by_definition(q, k, v), rtol=1e-12)
    grads = ft.grad(lambda q, k, v: (nn.attention(q, k, v) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)
    assert [g.shape for g in grads] == [q.shape, k.shape, v.shape]
    assert nn.attention(q.astype("float32"), k.astype("float32"), v).dtype == np.float64
    single = [x.astype("float32") for x in (q, k, v)]
    assert nn.attention(*single, RNG.normal(size=(5, 6))).dtype == np.float32
    assert nn.attention([[1, 0]], [[0, 1]], [[2, 3]]).tolist() == [[2.0, 3.0]]


def test_half_precision_is_added_up_in_single():
    operands = [x.astype("float16") for x in draw((2, 33, 16), (2, 400, 16), (2, 400, 8))]
    exact = by_definition(*(x.astype(float) for x in operands))
    out = nn.attention(*operands)
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, exact, rtol=0, atol=2**-11)
    grads = ft.grad(lambda q, k, v: nn.attention(q, k, v).sum(), argnums=(0, 1, 2))(*operands)
    assert [g.dtype for g in grads] == [np.float16] * 3


def test_the_names_and_arguments_of_pytorch():
    q, k, v = draw((2, 4, 3), (2, 4, 3), (2, 4, 3))
    out = nn.scaled_dot_product_attention(q, k, v, None, 0.0, True, scale=0.7)
    np.testing.assert_allclose(out, by_definition(q, k, v, causal=True, scale=0.7), rtol=1e-12)


def test_queries_that_see_no_key_give_zeros_and_pass_no_gradient():
    q, k, v = draw((3, 4), (2, 4), (2, 5))
    seen = np.array([[False, False], [True, False], [False, True]])
    for mask in (seen, np.where(seen, 0, -np.inf)):
        out = nn.attention(q, k, v, mask)
        np.testing.assert_allclose(out, np.stack([np.zeros(5), *v]), rtol=1e-12)
        check_grads(lambda *xs, mask=mask: nn.attention(*xs, mask), (q, k, v), order=2)
        grads = ft.grad(lambda *xs, mask=mask: nn.attention(*xs, mask).sum(), (0, 1, 2))(q, k, v)
        assert not np.asarray(grads[0]).any()
    assert not np.asarray(nn.attention(q, k[:0], v[:0])).any()


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 1, 5), (4, 3, 1), ()])
def test_masks_of_numbers_have_derivatives(shape):
    q, k, v = draw((2, 4, 3, 2), (2, 4, 5, 2), (2, 4, 5, 3))
    mask = RNG.normal(size=shape)
    check_grads(lambda q, mask: nn.attention(q, k, v, mask, True), (q, mask), order=2)


def test_batches_of_some_operands():
    q, k, v = draw((6, 3, 2), (4, 2), (4, 3))
    seen = RNG.uniform(size=(6, 3, 4)) < 0.7
    seen[..., 0] = True
    out = ft.vmap(lambda q, seen: nn.attention(q, k, v, seen))(q, seen)
    np.testing.assert_allclose(out, nn.attention(q, k, v, seen), rtol=1e-12)
    out = ft.vmap(lambda seen: nn.attention(q[0], k, v, seen))(seen)
    wanted = nn.attention(np.broadcast_to(q[0], (6, 3, 2)), k, v, seen)
    np.testing.assert_allclose(out, wanted, rtol=1e-12)
    grads = ft.vmap(ft.grad(lambda q, seen: nn.attention(q, k, v, seen).sum()))(q, seen)
    assert grads.shape == q.shape


def test_large_scores_do_not_overflow():
    q, k, v = draw((3, 4), (5, 4), (5, 2))
    out = nn.attention(1e4 * q, k, v, scale=1.0)
    np.testing.assert_allclose(out, v[np.argmax(q @ k.T, -1)], rtol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((3, 2), (4, 3), (4, 2)), ["(3, 2)", "(4, 3)", "(..., queries, width)"]),
        (((3, 2), (4, 2), (5, 2)), ["(4, 2)", "(5, 2)"]),
        (((2, 3, 2), (3, 4, 2), (4, 2)), ["(2, 3, 2)", "(3, 4, 2)", "broadcast"]),
        (((2,), (4, 2), (4, 2)), ["(2,)"]),
        (((3, 2), (4, 2), (4, 2), (3, 5)), ["a mask of shape (3, 5)"]),
        (((3, 2), (4, 2), (4, 2), (2, 3, 4)), ["a mask of shape (2, 3, 4)"]),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes, words):
    with pytest.raises(ShapeError) as caught:
        nn.attention(*draw(*shapes))
    for word in ["attention", *words, "python -m functensor.errors 16"]:
        assert word in str(caught.value)


def test_complex_numbers_are_refused():
    q, k, v = draw((3, 2), (4, 2), (4, 2))
    with pytest.raises(TypeError, match="attention takes real queries"):
        nn.attention(q, k + 1j, v)
