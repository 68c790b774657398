"""Loops whose bodies Hypothesis draws give as machine code what they give over NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]
SHAPES = ((3,), (3, 3), ())
# Of a vector, another one, a matrix, another one, a number, and the number of a place.
STEPS = [
    lambda a, b, m, k, s, i: fnp.sin(a),
    lambda a, b, m, k, s, i: a * s + b,
    lambda a, b, m, k, s, i: m @ a * 0.3,
    lambda a, b, m, k, s, i: (m @ k) * 0.3,
    lambda a, b, m, k, s, i: m.T,
    lambda a, b, m, k, s, i: fnp.sum(m) * 0.1,
    lambda a, b, m, k, s, i: m[1],
    lambda a, b, m, k, s, i: m[:, 2],
    lambda a, b, m, k, s, i: fnp.stack([a, b, a * 0.5], axis=1),
    lambda a, b, m, k, s, i: fnp.concatenate([a[1:], b[:1]]),
    lambda a, b, m, k, s, i: fnp.broadcast_to(s, (3,)),
    lambda a, b, m, k, s, i: fnp.where(a > s, a, b),
    lambda a, b, m, k, s, i: a.at[i].set(s),
    lambda a, b, m, k, s, i: a[i],
    lambda a, b, m, k, s, i: m.at[i].add(a * 0.1),
    lambda a, b, m, k, s, i: m[i] - m[:, i],
    lambda a, b, m, k, s, i: m.at[i].set(a).at[-i].add(b),
    lambda a, b, m, k, s, i: m.at[i, 1:].set(m[1:, i]).at[i, 0:0].set(s),
    lambda a, b, m, k, s, i: fnp.reshape(m.T, (9,))[2:5],
    lambda a, b, m, k, s, i: m[np.array([2, 0, 1])],
    lambda a, b, m, k, s, i: ft.cond(s > 0, lambda v: v * 0.5, lambda v: v, a),
    lambda a, b, m, k, s, i: ft.scan(lambda c, x: (c * 0.5 + x, c), s, a)[1],
    # Rounding decides which of two equal elements has a derivative, or comes first.
    lambda a, b, m, k, s, i: ft.stop_gradient(fnp.sort(m, axis=0)),
    lambda a, b, m, k, s, i: ft.stop_gradient(fnp.median(a)) * b,
    lambda a, b, m, k, s, i: fnp.real(fnp.fft.fft(m, axis=0)) * 0.3,
    lambda a, b, m, k, s, i: fnp.fft.irfft(fnp.fft.rfft(a) * s, 3),
    lambda a, b, m, k, s, i: nn.layer_norm(a) * 0.5,
    lambda a, b, m, k, s, i: nn.softmax_cross_entropy(m, fnp.abs(fnp.array([0, -1, 2]))),
    lambda a, b, m, k, s, i: ft.checkpoint(lambda v: fnp.sin(v) * v)(a),
    lambda a, b, m, k, s, i: fnp.sum(fnp.stack([m, k]) @ fnp.stack([k, m.T]), 0) * 0.1,
]
PLACES = st.lists(st.integers(0, 99), min_size=7, max_size=7)


class DrawnBody:
    """A body: operations, and which of their results are the next carries and what is stacked."""

    def __init__(self, operations, carries, stacked):
        self.operations = operations
        self.carries = carries
        self.stacked = stacked

    def __call__(self, carry, x):
        row, place = x
        values = [*carry, row]

        def like(shape, number):
            found = [v for v in values if v.shape == shape]
            return found[-1 - number % len(found)]

        for which, numbers in self.operations:
            shapes = ((3,), (3,), (3, 3), (3, 3), ())
            operands = map(like, shapes, numbers)
            values.append(fnp.asarray(STEPS[which % len(STEPS)](*operands, place)))
        shapes = ((3,), (3,), (3, 3), ())
        ends = tuple(map(like, shapes, self.carries))
        return ends, tuple(values[n % len(values)] for n in self.stacked)


BODIES = st.builds(
    DrawnBody,
    st.lists(st.tuples(st.integers(0, 99), PLACES), min_size=1, max_size=8),
    PLACES,
    st.lists(st.integers(0, 99), max_size=3),
)


def first_values(seed):
    rng = np.random.default_rng(seed)
    carry = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3)), np.float64(0.3)
    return carry, (rng.normal(size=(4, 3)), np.array([0, -1, 1, 0]))


def assert_as_over_numpy(f, *args):
    jitted = ft.jit(f)
    wanted = jitted(*args)
    jitted.compile(*args)
    assert "failed" not in jitted.explain(), jitted.explain()
    pairs = zip(ft.tree.leaves(jitted(*args)), ft.tree.leaves(wanted), strict=True)
    for got, right in pairs:
        assert (got.dtype, got.shape) == (right.dtype, right.shape)
        np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-9)


@settings(max_examples=sized(12, 150))
@given(BODIES, st.booleans(), st.integers(0, 99))
def test_scans(body, reverse, seed):
    def f(carry, xs):
        return ft.scan(body, carry, xs, reverse=reverse)

    assert_as_over_numpy(f, *first_values(seed))


@settings(max_examples=sized(6, 70))
@given(BODIES, st.integers(0, 99))
def test_while_loops(body, seed):
    def f(carry, xs):
        def step(state):
            n, carry = state
            return n + 1, body(carry, (xs[0][n], xs[1][n]))[0]

        return ft.while_loop(lambda s: (s[0] < 4) & (s[1][3] < 2), step, (0, carry))

    assert_as_over_numpy(f, *first_values(seed))


@settings(max_examples=sized(6, 70))
@given(BODIES, st.integers(0, 99))
def test_gradients(body, seed):
    def loss(carry, rows, places):
        leaves = ft.tree.leaves(ft.scan(body, carry, (rows, places)))
        return sum(fnp.sum(fnp.sin(x)) for x in leaves if x.dtype.kind == "f")

    carry, xs = first_values(seed)
    assert_as_over_numpy(ft.grad(loss, argnums=(0, 1)), carry, *xs)
