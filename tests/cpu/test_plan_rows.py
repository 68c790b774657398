"""Small vectors in loops lie in the rows of stacks, and sums of outer products are one product."""

import os
import random
import re

import numpy as np
import pytest
from cpu.test_plan_branches import loop_sources, same

import functensor as ft
import functensor.numpy as fnp
from functensor.nn import sigmoid

pytestmark = pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning")
WIDTH, LENGTH = 3, 5


def weights(dtype, count):
    draws = np.random.default_rng(0)
    return [draws.normal(size=(WIDTH, WIDTH)).astype(dtype) * 0.5 for _ in range(count)]


def tanh_cell(w, h, x):
    return fnp.tanh(w[0] @ h + w[1] @ x + x)


def sigmoid_cell(w, h, x):
    return sigmoid(h @ w[0] + w[1] @ x) * 0.5


def gated_cell(w, h, x):
    z = sigmoid(w[0] @ h + x)
    return z * h + (1 - z) * fnp.tanh(w[1] @ (h * z) + w[2] @ x)


def joined_cell(w, h, x):
    both = fnp.concatenate([h, x])
    return fnp.tanh(fnp.concatenate([w[0], w[1]], 1) @ both) + both[1:4] * 0.1


CELLS = [tanh_cell, sigmoid_cell, gated_cell, joined_cell]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cells_and_their_gradients(cell, reverse, dtype):
    w = weights(dtype, 3)
    xs = np.random.default_rng(1).normal(size=(LENGTH, WIDTH)).astype(dtype)
    h = np.linspace(-0.5, 0.5, WIDTH).astype(dtype)

    def run(w, h, xs):
        def step(h, x):
            h = cell(w, h, x)
            return h, (h, h[::-1] * 2, fnp.sum(h))

        return ft.scan(step, h, xs, reverse=reverse)

    def loss(w, h, xs):
        last, (hs, backwards, sums) = run(w, h, xs)
        return fnp.sum(last * 0.5) + fnp.sum(hs**2) + fnp.sum(backwards) * 0.1 + sums[1]

    rtol = 1e-10 if dtype == "float64" else 1e-4
    same(ft.jit(run)(w, h, xs), run(w, h, xs), rtol)
    grad = ft.grad(loss, (0, 1, 2))
    same(ft.jit(grad)(w, h, xs), grad(w, h, xs), rtol)
    many = np.stack([xs, xs * 0.5])
    batched = ft.vmap(lambda xs: grad(w, h, xs))
    same(ft.jit(batched)(many), batched(many), rtol)
    of_last = ft.grad(lambda w, h, xs: fnp.sum(run(w, h, xs)[0]), (0, 1))
    same(ft.jit(of_last)(w, h, xs[:0]), [[np.zeros_like(x) for x in w], np.ones_like(h)])


def test_a_step_of_a_cell_takes_no_new_memory():
    def run(w, h, xs):
        def step(h, x):
            h = fnp.tanh(w[0] @ h + w[1] @ x)
            return h, h

        return ft.scan(step, h, xs)

    (source,) = loop_sources(run, weights("float64", 2), np.zeros(WIDTH), np.ones((LENGTH, WIDTH)))
    steps = [line for line in source.splitlines() if line.startswith(" " * 8)]
    calls = [line for line in steps if "(" in line.split("#")[0]]
    assert len(calls) == 4
    assert all(re.search(r"(buffer_\d+|_row0|, \w+)\)", line) for line in calls)
    assert "_stack0[_step]" not in source


def test_sums_of_outer_products_are_one_product():
    def loss(w, h, xs):
        return fnp.sum(ft.scan(lambda h, x: (tanh_cell(w, h, x),) * 2, h, xs)[1])

    sources = loop_sources(
        ft.grad(loss), weights("float64", 2), np.zeros(WIDTH), np.ones((LENGTH, WIDTH))
    )
    back = sources[-1]
    assert len(re.findall(r"^    _total\d \+= \S+\.T\.dot\(", back, re.M)) == 2
    assert not re.findall(r"^        _total", back, re.M)


CARRIES = {
    "last": lambda h, x: (h * x, h * x),
    "view": lambda h, x: (lambda y: (y[::-1], y))(h + x),
    "old one": lambda h, x: (fnp.sin(h), h),
    "twice": lambda h, x: (lambda y: (y, (y, y)))(h - x),
    "kept as it is": lambda h, x: (h, h * x),
    "updated": lambda h, x: (lambda y: (y.at[0].set(x[1]), y))(h * 2),
    "stacked update": lambda h, x: (lambda y: (y, y))(h.at[1].add(x[0])),
    "of a slice": lambda h, x: (x, (x, h)),
    "used later": lambda h, x: (lambda y: (fnp.cos(y * y + y), y))(h + x),
    "product": lambda h, x: (lambda y: (y, fnp.outer(y, y)))(fnp.ones((3, 3)) @ h * 0.3 + x),
}


@pytest.mark.parametrize("name", CARRIES)
@pytest.mark.parametrize("reverse", [False, True])
def test_what_lies_in_a_stack_stays_there(name, reverse):
    xs = np.random.default_rng(1).normal(size=(LENGTH, WIDTH))
    h = np.arange(3.0)

    def run(h, xs):
        return ft.scan(CARRIES[name], h, xs, reverse=reverse)

    jitted = ft.jit(run)
    got = jitted(h, xs)
    same(got, run(h, xs), 1e-12)
    leaves = [np.asarray(x) for x in ft.tree.leaves(got)]
    for i, a in enumerate(leaves):
        assert not any(np.shares_memory(a, b) for b in [*leaves[:i], xs, h])
    # The next call does not write into an earlier result.
    kept = [x.copy() for x in leaves]
    jitted(h + 1, xs * 2)
    for a, b in zip(leaves, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_carry_that_was_a_row_steps_before_is_apart_from_the_stack():
    def step(carry, _):
        y = fnp.sin(carry[2])
        return (y, carry[0], carry[1]), y

    x = np.arange(3.0)
    got = ft.jit(lambda x: ft.scan(step, (x, 2 * x, 3 * x), None, length=5))(x)
    *carries, stack = [np.asarray(x) for x in ft.tree.leaves(got)]
    assert not any(np.shares_memory(x, stack) for x in carries)


PROGRAMS = 400 if os.environ.get("FUNCTENSOR_LONG_TESTS") else 20
VECTORS = [
    lambda w, a, b: fnp.tanh(w[0] @ a + b),
    lambda w, a, b: a @ w[1] * 0.5 + b,
    lambda w, a, b: sigmoid(a) * b,
    lambda w, a, b: fnp.concatenate([a[1:], b[:1]]),
    lambda w, a, b: a[::-1] + fnp.sum(b * w[0][1]),
    lambda w, a, b: fnp.outer(a, b) @ w[2][0] * 0.1,
    lambda w, a, b: ft.cond(a[0] > b[1], lambda: fnp.sin(a), lambda: w[1] @ b),
    lambda w, a, b: a.at[1].set(b[0]),
    lambda w, a, b: a.at[0].add(fnp.tanh(b[2])),
    lambda w, a, b: fnp.where(a > b, a, w[2][2] * 0.5),
    lambda w, a, b: fnp.sqrt(a * a + 1.0) - b * 0.1,
]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_cells(seed):
    rng = random.Random(seed)
    dtype = rng.choice(["float64", "float64", "float32"])
    w = weights(dtype, 3)
    steps = [
        (rng.choice(VECTORS), rng.randrange(20), rng.randrange(20))
        for _ in range(rng.randint(1, 6))
    ]
    kept, stacked = [rng.randrange(20) for _ in range(2)], [rng.randrange(20) for _ in range(2)]
    xs = np.random.default_rng(seed).normal(size=(LENGTH, WIDTH)).astype(dtype)
    reverse, start = rng.random() < 0.5, np.linspace(-0.5, 0.5, WIDTH).astype(dtype)

    def run(w, xs):
        def step(carry, x):
            known = [*carry, x]
            for f, a, b in steps:
                known.append(f(w, known[a % len(known)], known[b % len(known)]))
            rows = [known[i % len(known)] for i in stacked]
            return tuple(known[i % len(known)] for i in kept), rows

        return ft.scan(step, (start, xs[0]), xs, reverse=reverse)

    def loss(w, xs):
        return sum(fnp.sum(fnp.tanh(x)) for x in ft.tree.leaves(run(w, xs)))

    rtol = 1e-9 if dtype == "float64" else 2e-4
    jitted = ft.jit(run)
    got = jitted(w, xs)
    same(got, run(w, xs), rtol)
    copies = ft.tree.map(np.array, got)
    jitted(w, xs * 2)
    same(got, ft.tree.map(fnp.asarray, copies))
    grad = ft.grad(loss, (0, 1))
    same(ft.jit(grad)(w, xs), grad(w, xs), rtol)
