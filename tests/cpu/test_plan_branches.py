"""Branches within loops are lines of the loop's function, and sums are made in place."""

import os
import random
import re

import numpy as np
import pytest
from support.counted import lines_run, peak_of

import functensor as ft
import functensor.numpy as fnp

# Every program is a function of its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

PROGRAMS = 600 if os.environ.get("FUNCTENSOR_LONG_TESTS") else 40
LENGTH = 6


def loop_sources(f, *args):
    """Returns the text of every loop of a jitted function."""
    program = ft.jit(f).lower(*args).optimized
    return [e.primitive.plan().source for e in program.equations if hasattr(e.primitive, "plan")]


def same(got, wanted, rtol=0.0):
    """Compares trees, dtypes included."""
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


# -- the text

LINES = {
    "cond": lambda c, x: ft.cond(x > 0, lambda c: c * 2.0, lambda c: c - x, c),
    "two values": lambda c, x: sum(
        ft.cond(x > 0, lambda c: (c, 1.0), lambda c: (c * x, c + x), c)
    ),
    "switch": lambda c, x: ft.switch(
        fnp.astype(x, int), [lambda c: c, lambda c: c + x, lambda c: -c], c
    ),
    "nested": lambda c, x: ft.cond(
        x > 0, lambda c: ft.cond(c > 1, lambda c: c - 1.0, lambda c: c + x, c), lambda c: c, c
    ),
    "captured": lambda c, x: ft.cond(c > x, lambda: c + 1.0, lambda: x * 3),
    "constant": lambda c, x: ft.cond(c > x, lambda: 1.0, lambda: 2.5) + c,
    "int predicate": lambda c, x: ft.cond(fnp.astype(x, int), lambda: c + x, lambda: c),
    "kept predicate": lambda c, x: fnp.where(
        ft.cond(x > 0, lambda: c > 1, lambda: c < 0), c, x
    ),
    "raises where it may not run": lambda c, x: ft.cond(
        x != 0, lambda c: c + 1 / x, lambda c: c, c
    ),
    "NaN": lambda c, x: ft.cond(x > 0, lambda c: fnp.sqrt(-c * c), lambda c: c + 1, c),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_branch_is_lines_of_the_loop(name, dtype):
    f = LINES[name]
    xs = np.array([0.0, 1.0, -1.5, 2.0, 0.5, -0.0, np.inf], dtype)

    def run(xs, start):
        return ft.scan(lambda c, x: (fnp.astype(f(c, x), xs.dtype), c), start, xs)

    start = xs.dtype.type(0.75)
    (source,) = loop_sources(run, xs, start)
    assert source.count("def ") == 1
    assert "if " in source
    assert not re.findall(r"(cond|switch)_\d+\(", source)
    same(ft.jit(run)(xs, start), run(xs, start))
    # Batches select, and are as one example after the other.
    both = np.stack([xs, xs[::-1]])
    rows = [run(row, start) for row in both]
    got = ft.jit(ft.vmap(lambda row: run(row, start)))(both)
    same(got, ft.tree.map(lambda *rows: fnp.stack(rows), *rows), 1e-6)


def test_a_branch_costs_a_few_lines():
    def run(x):
        return ft.fori_loop(0, 300, lambda i, s: LINES["cond"](s, x + i), x)

    def more(x):
        return ft.fori_loop(0, 600, lambda i, s: LINES["cond"](s, x + i), x)

    short, long = ft.jit(run), ft.jit(more)
    short(0.5), long(0.5)
    step = (lines_run(lambda: long(0.5)) - lines_run(lambda: short(0.5))) / 300
    assert step <= 8


def test_a_while_loop_with_branches():
    def run(n):
        def step(c):
            n, steps = c
            even = n % 2 == 0
            return ft.cond(even, lambda n: n // 2, lambda n: 3 * n + 1, n), steps + 1

        return ft.while_loop(lambda c: c[0] != 1, step, (n, 0))

    for n in (27, np.int32(97)):
        (source,) = loop_sources(run, n)
        assert "cond_" not in source
        same(ft.jit(run)(n), run(n))


def test_an_error_in_a_branch_names_the_line():
    def step(a, x):
        return ft.cond(x > 0, fnp.linalg.inv, lambda a: a, a), None

    run = ft.jit(lambda xs: ft.scan(step, np.zeros((2, 2)), xs)[0])
    same(run(np.zeros(3)), np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        run(np.ones(3))
    assert "test_plan_branches.py" in " ".join(caught.value.__notes__)


def test_branches_deep_within_branches():
    def nested(depth):
        if not depth:
            return lambda c: c * 0.5
        inner = nested(depth - 1)
        return lambda c: ft.cond(c > 0.1 * depth, inner, lambda c: c + 0.25, c)

    def run(x):
        return ft.fori_loop(0, 3, lambda i, c: nested(70)(c), x)

    same(ft.jit(run)(9.0), run(9.0))
    same(ft.jit(run)(1.0), run(1.0))


def test_the_same_branch_twice():
    @ft.jit
    def chosen(c, x):
        return ft.cond(x > 0, lambda c: fnp.sin(c) * x, lambda c: c + fnp.flip(c, 0), c)

    def run(xs, c):
        return ft.scan(lambda c, x: (chosen(chosen(c, x), -x), c), c, xs)

    xs = np.array([1.0, -2.0, 0.5])
    same(ft.jit(run)(xs, np.arange(3.0)), run(xs, np.arange(3.0)), 1e-12)


def test_large_arrays_in_branches_are_fused():
    def run(x):
        def step(i, x):
            return ft.cond(i > 1, lambda x: fnp.sin(x) * 2 + x, lambda x: x - 1, x)

        return ft.fori_loop(0, 4, step, x)

    x = np.linspace(0, 1, 90000).reshape(300, 300)
    same(ft.jit(run)(x), run(x), 1e-12)


# -- random branches

NUMBERS = [0.5, -1.5, 2, 3, True, np.float32(0.75), np.float64(-0.25), np.int64(2)]
OPERATIONS = [
    lambda x, y: x + y,
    lambda x, y: x - y * 0.5,
    lambda x, y: x * y,
    lambda x, y: x / (1 + y * y),
    fnp.maximum,
    lambda x, y: fnp.where(x < y, x, y),
    lambda x, y: fnp.tanh(x) - y,
    lambda x, y: fnp.sum(x) + y,
    lambda x, y: fnp.sqrt(abs(x * 1)) + y,
]


def random_choice(rng, depth):
    """Returns a function of some values that chooses between random branches."""
    count = rng.choice([2, 2, 3, 4])
    results = rng.randint(1, 3)
    branches = [random_branch(rng, results, depth) for _ in range(count)]
    a, threshold = rng.randrange(20), rng.choice([-0.5, 0.0, 0.5, 1.0])

    def choose(known, like):
        """Returns values of the types of ``like``."""
        x = fnp.sum(known[a % len(known)])
        typed = [lambda *v, b=b: b(v, like) for b in branches]
        if count == 2:
            return ft.cond(x > threshold, *typed, *known)
        place = fnp.astype(fnp.clip(fnp.asarray(x * 1.0), -9, 9), int)
        return ft.switch(place, typed, *known)

    return choose, results


def random_branch(rng, results, depth):
    steps = [
        (rng.choice(OPERATIONS), rng.randrange(20), rng.randrange(20))
        for _ in range(rng.randint(0, 4))
    ]
    number, chosen = rng.choice(NUMBERS), [rng.randrange(20) for _ in range(results)]
    inner = random_choice(rng, depth - 1) if depth and rng.random() < 0.5 else None

    def branch(known, like):
        known = [*known, number]
        for operation, a, b in steps:
            known.append(operation(known[a % len(known)], known[b % len(known)]))
        if inner is not None:
            choose, count = inner
            known += choose(known, [like[i % len(like)] for i in range(count)])
        out = []
        for i, wanted in zip(chosen, like, strict=True):
            fitting = [v for v in known if fnp.shape(v) == wanted.shape]
            v = fitting[i % len(fitting)] if fitting else fnp.zeros(wanted.shape)
            out.append(fnp.astype(fnp.asarray(v), wanted.dtype))
        return out

    return branch


def random_program(seed):
    """Returns a loop with random branches, and its arguments."""
    rng, draws = random.Random(seed), np.random.default_rng(seed)
    dtypes = [rng.choice(["float64", "float64", "float32", "int64", "bool"]) for _ in range(3)]
    shapes = [rng.choice([(), (), (3,)]) for _ in dtypes]
    starts = [np.asarray(draws.normal(size=s) * 2).astype(d)[()] for s, d in zip(shapes, dtypes)]
    choose, count = random_choice(rng, 2)
    kind = rng.choice(["fori", "scan", "while"])
    xs = np.asarray(draws.normal(size=(LENGTH, *rng.choice([(), (3,)]))) * 2)
    place = rng.randrange(3)

    def run(xs, *starts):
        def step(i, carry, x):
            like = [carry[(place + j) % 3] for j in range(count)]
            found = choose([i, *carry, x], like)
            out = list(carry)
            for j, v in enumerate(found):
                out[(place + j) % 3] = v
            return tuple(out)

        starts = tuple(map(fnp.asarray, starts))
        if kind == "fori":
            return ft.fori_loop(0, LENGTH, lambda i, c: step(i, c, xs[i]), starts)
        if kind == "scan":
            return ft.scan(lambda c, x: (step(2, c, x), c), starts, xs)
        return ft.while_loop(
            lambda c: c[0] < LENGTH,
            lambda c: (c[0] + 1, step(c[0], c[1], xs[c[0]])),
            (0, starts),
            max_steps=LENGTH + 2,
        )

    return run, (xs, *starts)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_branches(seed):
    run, operands = random_program(seed)
    same(ft.jit(run)(*operands), run(*operands), 1e-6)

    def total(xs):
        leaves = ft.tree.leaves(run(xs, *operands[1:]))
        return sum(fnp.sum(fnp.tanh(x * 0.1)) for x in leaves if x.dtype.kind == "f")

    if any(x.dtype.kind == "f" for x in operands[1:]):
        with np.errstate(all="ignore"):
            wanted, got = ft.grad(total)(operands[0]), ft.jit(ft.grad(total))(operands[0])
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


# -- sums of cotangents

GATHERED = {
    "fori": lambda xs: ft.fori_loop(0, len(xs), lambda i, s: s + xs[i] * xs[-i], 0.0),
    "scan": lambda xs: ft.scan(
        lambda s, i: (s * 0.5 + fnp.sin(xs[i]), xs[i]), 0.0, np.arange(len(xs))
    )[0],
    "while": lambda xs: ft.while_loop(
        lambda c: c[0] < len(xs),
        lambda c: (c[0] + 1, c[1] + fnp.sin(xs[c[0]])),
        (0, 0.0),
        max_steps=len(xs) + 3,
    )[1],
    "branch": lambda xs: ft.fori_loop(
        0, len(xs), lambda i, s: ft.cond(s > 1, lambda: s - xs[i], lambda: s + xs[i] * xs[0]), 0.0
    ),
    "rows": lambda xs: fnp.sum(
        ft.fori_loop(0, len(xs) // 2, lambda i, s: s + fnp.reshape(xs, (-1, 2))[i], np.zeros(2))
    ),
    "parts": lambda xs: ft.fori_loop(
        0, len(xs), lambda i, s: s + fnp.sum(xs[fnp.asarray([0, 0, 2]) + i % 3]) + xs[1], 0.0
    ),
    "whole too": lambda xs: ft.fori_loop(
        0, len(xs), lambda i, s: s * 0.5 + xs[i] + fnp.sum(xs), 0.0
    ),
    "carried": lambda xs: ft.fori_loop(
        0, len(xs), lambda i, c: (c[0], c[1] + fnp.sin(c[0][i]) * c[0][0]), (xs, 0.0)
    )[1],
    "carried and changed": lambda xs: ft.fori_loop(
        0, len(xs), lambda i, c: (c[0] * 0.9, c[1] + c[0][i] * c[0][0:2][1]), (xs, 0.0)
    )[1],
    "twice": lambda xs: ft.grad(
        lambda ys: ft.fori_loop(0, len(xs), lambda i, s: s + ys[i] ** 3, 0.0)
    )(xs)[1],
}


@pytest.mark.parametrize("name", GATHERED)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cotangents_of_what_a_loop_reads(name, dtype):
    xs = np.random.default_rng(0).uniform(0.1, 0.9, 12).astype(dtype)
    f = GATHERED[name]
    same(ft.jit(ft.grad(f))(xs), ft.grad(f)(xs), 1e-5)
    both = np.stack([xs, xs[::-1]])
    same(ft.jit(ft.vmap(ft.grad(f)))(both), ft.vmap(ft.grad(f))(both), 1e-5)


@pytest.mark.parametrize("name", ["fori", "scan", "while", "branch", "rows", "parts", "carried"]
)
def test_cotangents_of_elements_are_not_arrays(name):
    f = GATHERED[name]

    def peak(n):
        xs = np.linspace(0.1, 0.9, n)
        jitted = ft.jit(ft.grad(f))
        jitted(xs)
        lines = lines_run(lambda: jitted(xs))
        return lines, peak_of(lambda: jitted(xs))

    # Machine code, which runs no lines, might take over from the second plan's calls.
    with ft.config.using(deterministic=True):
        (lines, _), (twice, most) = peak(200), peak(400)
    assert twice < 2.3 * lines
    assert most < 400 * 8 * 40
    if name != "while":
        for source in loop_sources(ft.grad(f), np.ones(8)):
            assert "scatter_add" not in source
            assert not re.findall(r"_total0 \+= ", source)
