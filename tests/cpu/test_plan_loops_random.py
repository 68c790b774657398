"""Random bodies in random loops: jitted loops give what eager ones do, and leave operands alone."""

import os
import random

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp

# Every program is a function of its own.
pytestmark = pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning")

PROGRAMS = 500 if os.environ.get("FUNCTENSOR_LONG_TESTS") else 25

UNARY = [
    fnp.sin, fnp.tanh, fnp.sum, fnp.max, fnp.mean,
    lambda x: x * x,
    lambda x: fnp.sqrt(abs(x * 1)),
    lambda x: x * 0.5,
    lambda x: 1 - x,
    lambda x: x > 0.25,
    lambda x: x // 2,
    lambda x: x % 3,
    lambda x: fnp.astype(fnp.asarray(x), "float32"),
    lambda x: fnp.flip(x, 0) if fnp.ndim(x) else x,
]  # fmt: skip
BINARY = [
    fnp.maximum, fnp.minimum, fnp.arctan2, fnp.hypot,
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x < y,
    lambda x, y: fnp.where(x < y, x, y),
    lambda x, y: fnp.logical_and(x > 0, y > 0),
]  # fmt: skip
KINDS = ["fori", "scan", "backwards", "while", "nested"]


def element(known, i, a, b, add):
    """Returns an element at a number, or the array with the element replaced or added to."""
    x, v = known[a % len(known)], known[b % len(known)]
    if not fnp.ndim(x):
        return x
    place = i % x.shape[0]
    found = x[place]
    if add is None or fnp.shape(v) not in ((), fnp.shape(found)) or x.dtype == bool:
        return found
    return x.at[place].add(v) if add else x.at[place].set(v)


def choice(known, a, b):
    """Returns a number or an array that depends on a branch."""
    x, y = known[a % len(known)], known[b % len(known)]
    return ft.cond(fnp.sum(x) > 0.5, lambda y: y * 1.5, lambda y: y + 0.5, y)


def random_step(rng):
    """Returns what appends a value to those that are known."""
    a, b, kind = rng.randrange(30), rng.randrange(30), rng.random()
    if kind < 0.35:
        one = rng.choice(UNARY)
        return lambda known, i: one(known[a % len(known)])
    if kind < 0.7:
        two = rng.choice(BINARY)
        return lambda known, i: two(known[a % len(known)], known[b % len(known)])
    if kind < 0.8:
        return lambda known, i: known[a % len(known)] * (i + 1) - i * 0.25
    if kind < 0.95:
        add = rng.choice([None, True, False])
        return lambda known, i: element(known, i, a, b, add)
    return lambda known, i: choice(known, a, b)


def random_loop(seed):
    """Returns a function of carries and slices that runs a loop, and its arguments."""
    rng, draws = random.Random(seed), np.random.default_rng(seed)
    shapes = [rng.choice([(), (), (3,), (2, 3)]) for _ in range(rng.randint(1, 3))]
    dtypes = [rng.choice(["float64", "float64", "float32", "int64", "bool"]) for _ in shapes]
    steps = [random_step(rng) for _ in range(rng.randint(1, 8))]
    chosen = [rng.randrange(40) for _ in shapes]
    stacked = [rng.randrange(40) for _ in range(rng.randint(0, 2))]
    kind, length = rng.choice(KINDS), rng.randint(0, 4)
    shape, dtype = rng.choice([(4,), (4, 3), (4, 2, 3)]), rng.choice(["float64", "float32"])
    starts = [np.asarray(draws.normal(size=s) * 2).astype(d)[()] for s, d in zip(shapes, dtypes)]

    def body(i, carry, x):
        known = [*carry, x]
        for step in steps:
            known.append(step(known, i))
        out = []
        for old, number in zip(carry, chosen, strict=True):
            fitting = [v for v in known if fnp.shape(v) == old.shape]
            v = fitting[number % len(fitting)]
            out.append(v if v.dtype == old.dtype else fnp.astype(v, old.dtype))
        return tuple(out), [known[number % len(known)] for number in stacked]

    def run(xs, *carry):
        xs, carry = fnp.asarray(xs), tuple(map(fnp.asarray, carry))

        def step(c, x):
            i, c = c
            c, rows = body(i, c, x)
            return (i + 1, c), rows

        def counted(c, first=0):
            return ft.fori_loop(0, length, lambda i, c: body(i + first, c, xs[0])[0], c)

        if kind == "fori":
            return counted(carry)
        if kind == "nested":
            return ft.fori_loop(0, 2, lambda j, c: counted(c, j), carry)
        if kind == "while":
            return ft.while_loop(
                lambda c: c[0] < length, lambda c: (c[0] + 1, body(*c, xs[0])[0]), (0, carry)
            )
        return ft.scan(step, (0, carry), xs, reverse=kind == "backwards")

    return run, (np.asarray(draws.normal(size=shape) * 2).astype(dtype), *starts)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_loops(seed):
    run, operands = random_loop(seed)
    before = [np.array(x) for x in operands]
    with np.errstate(all="ignore"):
        wanted, got = run(*operands), ft.jit(run)(*operands)
    for x, kept in zip(operands, before, strict=True):
        np.testing.assert_array_equal(x, kept)
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4 if a.dtype == "float32" else 1e-6, atol=1e-6)
