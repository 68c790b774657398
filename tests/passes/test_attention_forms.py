"""Attention in programs that become machine code: which is written out, and what it computes."""

import numpy
import pytest

import functensor as ft
from functensor.jitting.tiers import native_program
from functensor.passes import attention_forms
from functensor.primitives.nn.attention import attention

SIZES = {"square": (3, 5, 5, 4, 4), "cross": (2, 3, 7, 4, 6), "one key": (2, 3, 1, 2, 2)}
MASKS = {
    "none": None,
    "causal": None,
    "truth": lambda rng, shape: rng.random(shape) < 0.5,
    "shared": lambda rng, shape: rng.random(shape[-2:]) < 0.5,
    "added": lambda rng, shape: numpy.where(rng.random(shape) < 0.3, -numpy.inf, 0.5),
}


def operands(size, mask, dtype="float32"):
    heads, queries, keys, width, outputs = SIZES[size]
    rng = numpy.random.default_rng(1)
    shapes = (heads, queries, width), (heads, keys, width), (heads, keys, outputs)
    given = [rng.normal(size=s).astype(dtype) for s in shapes]
    if MASKS[mask] is not None:
        made = MASKS[mask](rng, (heads, queries, keys))
        # A query that sees no key at all.
        made[..., 0, :] = False if made.dtype == bool else -numpy.inf
        given.append(made if made.dtype == bool else made.astype(dtype))
    return given


def with_gradients(mask):
    def run(*xs):
        def attended(q, k, v):
            more = {"causal": mask == "causal", "scale": 0.5, "learned": False}
            return attention(q, k, v, *xs[3:], **more)

        out, pull = ft.vjp(attended, *xs[:3])
        return out, pull(ft.numpy.sin(out + 1))

    return run


def names(f, *xs):
    program = native_program(ft.make_program(f)(*xs))
    inner = [b for e in program.equations for b in e.primitive.bodies]
    return {e.primitive.name for p in (program, *inner) for e in p.equations}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES)
def test_written_out_attention_is_that_of_eager_mode(size, mask, dtype):
    xs, f = operands(size, mask, dtype), with_gradients(mask)
    assert not names(f, *xs) & {"attention", "attention_grad"}
    expected, found = f(*xs), ft.jit(f).compile(*xs)(*xs)
    close = {"rtol": 2e-5, "atol": 2e-6} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-13}
    for x, y in zip(ft.tree.leaves(expected), ft.tree.leaves(found), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        numpy.testing.assert_allclose(numpy.asarray(y), numpy.asarray(x), **close)


def test_forward_and_backward_share_the_scores():
    program = native_program(ft.make_program(with_gradients("causal"))(*operands("square", "none")))
    kinds = [e.primitive.name for e in program.equations]
    assert kinds.count("matmul") == 6


@pytest.mark.parametrize("case", ["half", "large"])
def test_what_stays_a_kernel_of_blocks(case, monkeypatch):
    xs = operands("square", "none", "float16" if case == "half" else "float32")
    if case == "large":
        monkeypatch.setattr(attention_forms, "MOST_BYTES_OF_SCORES", 4 * 3 * 5 * 5 - 1)
    assert {"attention", "attention_grad"} <= names(with_gradients("causal"), *xs)


def test_scores_are_counted_in_bytes(monkeypatch):
    monkeypatch.setattr(attention_forms, "MOST_BYTES_OF_SCORES", 4 * 3 * 5 * 5)
    narrow, wide = operands("square", "none", "float32"), operands("square", "none", "float64")
    assert not names(with_gradients("causal"), *narrow) & {"attention", "attention_grad"}
    assert {"attention", "attention_grad"} <= names(with_gradients("causal"), *wide)
