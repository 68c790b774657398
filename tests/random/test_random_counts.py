"""Random counts: Poisson, binomial, geometric and multinomial numbers of all sizes."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from support.frequencies import assert_frequencies

import functensor as ft
from functensor import random
from functensor.primitives.core.errors import ShapeError
from functensor.primitives.random.rejection import random_loggamma

KEY = random.key(2026)
DRAWS = 40_000
RARE = 1e-6


def host(x):
    return np.asarray(x)


def assert_law(drawn, law):
    """Asserts that counts are as frequent as their law says, in ranges of some probability."""
    edges = np.unique(np.r_[-1, law.ppf(np.linspace(0.001, 0.999, 60)), np.inf])
    probabilities = np.diff(law.cdf(edges))
    counts = [((drawn > low) & (drawn <= high)).sum() for low, high in pairwise(edges)]
    keep = probabilities > 1e-12
    assert sum(counts) == len(drawn)
    assert not np.array(counts)[~keep].any()
    assert_frequencies(np.array(counts)[keep], probabilities[keep])
    if keep.sum() > 1:
        expected = probabilities[keep] / probabilities[keep].sum() * len(drawn)
        likely = expected > 5
        tail = expected[~likely].sum()
        found = np.array(counts)[keep]
        if likely.sum() > 1:
            scale = found[likely].sum() / expected[likely].sum()
            assert stats.chisquare(found[likely], expected[likely] * scale).pvalue > RARE
        assert found[~likely].sum() < tail + 6 * np.sqrt(tail + 1)


@pytest.mark.parametrize("rate", [0.0, 1e-3, 0.5, 3.0, 9.99, 10.0, 12.0, 40.0, 1e3, 1e6, 1e10])
def test_poisson(rate):
    x = host(random.poisson(KEY, rate, (DRAWS,)))
    assert x.dtype == np.int64
    assert_law(x, stats.poisson(rate))


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (0, 0.5),
        (1, 0.3),
        (7, 0.5),
        (200, 0.04),
        (25, 0.4),
        (30, 0.5),
        (100, 0.9),
        (1000, 0.3),
        (10**9, 1e-9),
        (10**12, 0.25),
        (50, 0.999),
    ],
)
def test_binomial(n, p):
    x = host(random.binomial(KEY, n, p, (DRAWS,)))
    assert x.dtype == np.int64
    assert_law(x, stats.binom(n, p))


@pytest.mark.parametrize("p", [0.01, 0.3, 0.97])
def test_geometric(p):
    x = host(random.geometric(KEY, p, (DRAWS,)))
    assert x.min() == 1
    assert_law(x, stats.geom(p))


def test_multinomial():
    p = np.array([0.1, 0.0, 0.6, 0.3])
    x = host(random.multinomial(KEY, 20, 5 * p, (DRAWS,)))
    assert (x.sum(axis=-1) == 20).all()
    for i in range(4):
        assert_law(x[:, i], stats.binom(20, p[i]))
    covariance = np.cov(x[:, 2], x[:, 3])[0, 1]
    assert covariance == pytest.approx(-20 * 0.6 * 0.3, rel=0.05)
    assert random.multinomial(KEY, [1, 2], np.ones((2, 3)), dtype="float32").dtype == np.float32
    assert random.multinomial(KEY, 4, [1.0]).tolist() == [4]
    assert random.multinomial(KEY, [1, 2], np.ones(3)).sum(axis=-1).tolist() == [1, 2]


COUNTS = {
    "poisson": (3.0,),
    "binomial": (50, 0.4),
    "geometric": (0.3,),
}


@pytest.mark.parametrize("name", COUNTS)
def test_shapes_keys_and_staging(name):
    draw, parameters = getattr(random, name), COUNTS[name]
    assert draw(KEY, *parameters).shape == ()
    assert draw(KEY, *parameters, (2, 0), "int32").dtype == np.int32
    wide = [np.full((2, 1), p) for p in parameters]
    assert draw(KEY, *wide, (2, 3)).shape == (2, 3)
    with pytest.raises(ValueError, match="do not broadcast"):
        draw(KEY, *wide, (3,))
    keys = random.split(KEY, 40)
    wanted = [host(draw(k, *parameters, (5,))) for k in keys]
    np.testing.assert_array_equal(ft.vmap(lambda k: draw(k, *parameters, (5,)))(keys), wanted)
    over = [np.full(40, p) for p in parameters]
    got = ft.vmap(lambda k, *ps: draw(k, *ps, (5,)))(keys, *over)
    np.testing.assert_array_equal(got, wanted)
    program = ft.make_program(lambda k, *ps: draw(k, *ps, (5,)))(KEY, *parameters)
    np.testing.assert_array_equal(program(keys[3], *parameters), wanted[3])
    flat = ft.grad(lambda p: p * draw(KEY, *parameters[:-1], p, dtype="float64"))(parameters[-1])
    assert flat == draw(KEY, *parameters)


def test_counts_are_the_same_with_other_neighbours():
    rates = np.full(40_000, 30.0)
    alone = host(random.poisson(KEY, rates))
    rates[::2] = 0.3
    np.testing.assert_array_equal(host(random.poisson(KEY, rates))[1::2], alone[1::2])


def test_what_is_no_parameter_gives_minus_one():
    assert random.poisson(KEY, [-1.0, np.nan, np.inf, 1e19]).tolist() == [-1] * 4
    assert random.binomial(KEY, [-1, 5, 5, 5], [0.5, -0.1, 1.1, np.nan]).tolist() == [-1] * 4


def test_the_primitive_says_which_shapes_go_together():
    with pytest.raises(ShapeError, match=r"keys of shape \(3, 2\) and parameters of shape \(2,\)"):
        ft.eval_shape(
            lambda k, a: random_loggamma.bind((k, a), {}), np.zeros((3, 2), np.uint64), np.ones(2)
        )


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_no_chance_of_success_is_marked(wrap, dtype):
    p = np.array([-0.1, 0.0, 1.1, np.nan, -np.inf, np.inf, 1.0, 1e-300])
    found = host(wrap(lambda p: random.geometric(KEY, p, dtype=dtype))(p))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found[:7], [-1] * 6 + [1])
    assert found[7] == (2**31 - 1 if dtype is np.int32 else 2.0**62)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_counts_beyond_a_dtype_are_its_largest_number(dtype):
    for drawn in (
        random.poisson(KEY, 1e12, (3,), dtype), random.binomial(KEY, 2**40, 0.5, (3,), dtype),
        random.geometric(KEY, 1e-12, (3,), dtype),
    ):  # fmt: skip
        assert drawn.tolist() == [np.iinfo(dtype).max] * 3
