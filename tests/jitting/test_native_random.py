"""Random numbers as machine code: the keys and bits of eager mode, in loops and outside."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled, loops_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn, random
from functensor.primitives.random.bits import random_bits

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
SHAPES = [(), (1,), (2,), (3,), (4,), (5, 3), (8,), (33,), (1000,)]
DRAWS = {
    "uniform": lambda key, **how: random.uniform(key, (7,), **how),
    "between": lambda key, **how: random.uniform(key, (2, 3), minval=-2, maxval=3, **how),
    "normal": lambda key, **how: random.normal(key, (5,), **how),
    "one normal": lambda key, **how: random.normal(key, **how),
    "even normals": lambda key, **how: random.normal(key, (4, 2), **how),
    "exponential": lambda key, **how: random.exponential(key, (5,), **how),
    "gumbel": lambda key, **how: random.gumbel(key, (5,), **how),
    "logistic": lambda key, **how: random.logistic(key, (5,), **how),
    "laplace": lambda key, **how: random.laplace(key, (5,), **how),
    "cauchy": lambda key, **how: random.cauchy(key, (5,), **how),
    "rademacher": lambda key, **how: random.rademacher(key, (5,), **how),
    "lognormal": lambda key, **how: random.lognormal(key, 0.5, (5,), **how),
    "rayleigh": lambda key, **how: random.rayleigh(key, 2.0, (5,), **how),
    "weibull": lambda key, **how: random.weibull_min(key, 2.0, 1.5, (5,), **how),
    "triangular": lambda key, **how: random.triangular(key, -1.0, 0.5, 2.0, (5,), **how),
}
WHOLE_DRAWS = {
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (9,)),
    "one bernoulli": lambda key: random.bernoulli(key, 0.5),
    "dice": lambda key: random.randint(key, (9,), 1, 7),
    "all integers": lambda key: random.randint(key, (3,), -(2**63), 2**63),
    "bytes": lambda key: random.randint(key, (9,), -5, 100, np.int8),
    "by arrays": lambda key: random.randint(key, (3,), np.array([0, -9, 5]), np.array([4, 9, 5])),
    "geometric": lambda key: random.geometric(key, 0.3, (5,)),
    "signs": lambda key: random.rademacher(key, (5,), np.int8),
}


def steps(draw, key, count=3):
    """Draws in each step of a loop, of keys that are split, folded and indexed."""

    def step(key, i):
        key, own, others = random.split(key, 3)
        folded = random.fold_in(others, i)
        return key, (own, draw(own), draw(folded))

    return ft.scan(step, key, fnp.arange(count))


def assert_equal(got, wanted):
    for x, y in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits(dtype):
    key = random.key(2**127 + 5)
    for shape in SHAPES:

        def draw(key, shape=shape):
            return random.bits(key, shape, dtype)

        def loop(key, draw=draw):
            return steps(draw, key)

        assert_equal(compiled(loop, key)(key), loop(key))
        assert_equal(ft.jit(draw).compile(key)(key), draw(key))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 4)])
def test_keys(shape):
    key = random.key(7)

    def loop(key):
        def step(i, state):
            key = random.fold_in(state[1], i * 2**40 - 1)
            return random.split(key, shape), key

        return ft.fori_loop(0, 5, step, (random.split(key, shape), key))

    jitted = compiled(loop, key)
    for seed in (0, 1, 2**128 - 1):
        assert_equal(jitted(random.key(seed)), loop(random.key(seed)))


def test_blocks_are_counted_beyond_64_bits():
    start = np.array([2**64 - 1, 2**64 - 2, 0, 5], np.uint64)
    keys = random.split(random.key(3), 4)
    params = {"shape": (11,), "bits": 64, "stream": 3}

    def f(keys, start):
        return random_bits.bind((keys, start), params)

    def loop(keys, start):
        return ft.scan(lambda c, x: (c, random_bits.bind(x, params)), 0, (keys, start))[1]

    assert_equal(ft.jit(f).compile(keys, start)(keys, start), f(keys, start))
    assert_equal(compiled(loop, keys, start)(keys, start), f(keys, start))
    whole = start.astype(np.int64)
    assert_equal(compiled(loop, keys, whole)(keys, whole), f(keys, whole))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DRAWS)
def test_floats(name, dtype):
    key = random.key(11)

    def loop(key):
        return steps(lambda key: DRAWS[name](key, dtype=dtype), key)

    got, wanted = compiled(loop, key)(key), loop(key)
    assert_same(got, wanted, 1e-12 if dtype == "float64" else 1e-4)
    if "uniform" in name or name == "rademacher":
        assert_equal(got, wanted)


@pytest.mark.parametrize("name", WHOLE_DRAWS)
def test_whole_numbers(name):
    key = random.key(12)

    def loop(key):
        return steps(WHOLE_DRAWS[name], key)

    assert_equal(compiled(loop, key)(key), loop(key))
    assert_equal(ft.jit(WHOLE_DRAWS[name]).compile(key)(key), WHOLE_DRAWS[name](key))


def test_a_batch_of_walks():
    def walk(key, x):
        def step(i, state):
            key, x = state
            key, first, second = random.split(key, 3)
            proposal = x + random.normal(first, (3,)) * 0.5
            change = 0.5 * (fnp.sum(x**2) - fnp.sum(proposal**2))
            taken = fnp.log(random.uniform(second)) < change
            return key, fnp.where(taken, proposal, x)

        return ft.fori_loop(0, 20, step, (key, x))

    key, x = random.key(1), np.array([0.5, -1.0, 2.0])
    assert_same(compiled(walk, key, x)(key, x), walk(key, x), 1e-12)
    keys, xs = random.split(random.key(2), 4), np.linspace(-1, 1, 12).reshape(4, 3)
    walks = ft.vmap(walk)
    assert_same(compiled(walks, keys, xs)(keys, xs), walks(keys, xs), 1e-12)


def test_numbers_that_gradients_go_through():
    def loss(scale, key):
        def step(total, key):
            x = random.normal(key, (4,)) * scale + random.uniform(key, maxval=scale)
            return total + fnp.sum(fnp.sin(x)), None

        return ft.scan(step, 0.0, random.split(key, 5))[0]

    derivative = ft.value_and_grad(loss)
    args = 0.7, random.key(4)
    jitted = ft.jit(derivative).compile(*args)
    assert loops_of(jitted)[1] == 0, jitted.explain()
    assert_same(jitted(*args), derivative(*args), 1e-12)


def test_large_draws_are_those_of_small_ones():
    key = random.key(9)
    draw = ft.jit(lambda key: random.uniform(key, (300_001,))).compile(key)
    assert "as machine code" in draw.explain(), draw.explain()
    assert_equal(draw(key), random.uniform(key, (300_001,)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("rate", [0.25, 0.9])
def test_dropout(dtype, rate):
    x, key = np.linspace(-2, 2, 21).reshape(3, 7).astype(dtype), random.key(5)

    def loop(x, key):
        def step(x, key):
            x = nn.dropout(key, x, rate) + 1
            return x, x

        return ft.scan(step, x, random.split(key, 4))

    assert_equal(compiled(loop, x, key)(x, key), loop(x, key))

    def single(x, key):
        return nn.dropout(key, x, rate) * 2

    assert_equal(ft.jit(single).compile(x, key)(x, key), single(x, key))
    for axes in ((0, 0), (0, None)):
        batch = ft.vmap(loop, in_axes=axes)
        args = np.stack([x, -x]), random.split(key) if axes[1] == 0 else key
        assert_equal(compiled(batch, *args)(*args), batch(*args))
    if dtype == "float64":
        derivative = ft.grad(lambda x, key: fnp.sum(fnp.sin(loop(x, key)[0])))
        assert_same(ft.jit(derivative).compile(x, key)(x, key), derivative(x, key), 1e-12)


def test_no_numbers():
    key = random.key(0)

    def loop(key):
        return steps(lambda key: random.uniform(key, (0, 3)), key)

    assert_equal(ft.jit(loop).compile(key)(key), loop(key))
