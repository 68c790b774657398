"""Random numbers: keys, streams, statistics, dtypes, vmap and derivatives."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from support.frequencies import assert_frequencies

import functensor as ft
import functensor.numpy as fnp
from functensor import random
from functensor.backends.arrays import philox
from functensor.primitives.random.bits import random_bits
from functensor.random.normal_quantile import normal_quantile
from functensor.testing import check_grads

KEY = random.key(2026)
DISTRIBUTIONS = {
    "uniform": (random.uniform, "uniform"),
    "normal": (random.normal, "norm"),
    "exponential": (random.exponential, "expon"),
    "gumbel": (random.gumbel, "gumbel_r"),
    "logistic": (random.logistic, "logistic"),
    "laplace": (random.laplace, "laplace"),
    "cauchy": (random.cauchy, "cauchy"),
    "maxwell": (random.maxwell, "maxwell"),
}
# A sound generator fails once in a million times; keys are fixed, so that tests do not flicker.
RARE = 1e-6


def host(x):
    return np.asarray(x)


# -- bits


@pytest.mark.parametrize("start", [0, 1, 2**40, 2**64 - 2, 2**64 - 1])
@pytest.mark.parametrize("stream", [0, 1, 2])
def test_words_are_those_of_numpys_philox(start, stream):
    rng = np.random.default_rng(start % 97)
    for _ in range(5):
        key = rng.integers(0, 2**64, 2, dtype=np.uint64)
        counter = np.array([start, 0, 0, stream], np.uint64)
        wanted = np.random.Philox(key=key, counter=counter).random_raw(11)
        for words in (
            philox.random_bits(np, key, np.uint64(start), shape=(11,), bits=64, stream=stream),
            philox.numpy_random_bits(key, np.uint64(start), shape=(11,), bits=64, stream=stream),
            random_bits.bind((key, start), {"shape": (11,), "bits": 64, "stream": stream}),
        ):
            np.testing.assert_array_equal(host(words), wanted)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("keys", [1, 3, 40])
@pytest.mark.parametrize("words", [0, 1, 7, 300])
def test_both_ways_to_compute_give_the_same_words(bits, keys, words):
    rng = np.random.default_rng(3)
    key = rng.integers(0, 2**64, (keys, 2), dtype=np.uint64)
    start = rng.integers(0, 2**64, keys, dtype=np.uint64)
    options = {"shape": (words,), "bits": bits, "stream": 0}
    a = philox.random_bits(np, key, start, **options)
    b = philox.numpy_random_bits(key, start, **options)
    assert a.shape == b.shape == (keys, words)
    assert a.dtype == b.dtype == f"uint{bits}"
    np.testing.assert_array_equal(a, b)


def test_bits_of_every_width_begin_alike():
    raw = np.random.Philox(key=host(KEY)).random_raw(4)
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        got = random.bits(KEY, (4,), dtype)
        assert got.dtype == dtype
        np.testing.assert_array_equal(host(got), raw.view(dtype)[:4])
    with pytest.raises(TypeError, match="unsigned integers"):
        random.bits(KEY, 3, "int32")


# -- keys


def test_the_same_key_gives_the_same_numbers_in_another_process():
    code = "from functensor import random; print(random.normal(random.key(5), (3,)).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == random.normal(random.key(5), (3,)).tolist()


def test_keys_of_seeds():
    assert random.key(7).tolist() == [7, 0]
    assert random.key(2**64 + 7).tolist() == [7, 1]
    assert random.key(fnp.asarray(7)).tolist() == [7, 0]
    assert random.key(7).dtype == np.uint64
    np.testing.assert_array_equal(
        host(ft.vmap(random.key)(np.arange(3))), [host(random.key(i)) for i in range(3)]
    )
    for bad in (1.5, "1", None, np.ones(2, int), np.float32(1)):
        with pytest.raises(TypeError, match="a seed is an integer"):
            random.key(bad)
    for bad in (-1, 2**128):
        with pytest.raises(ValueError, match="between 0 and"):
            random.key(bad)


def test_split_gives_different_keys_by_the_documented_scheme():
    keys = host(random.split(KEY, 1000))
    assert keys.shape == (1000, 2)
    assert len({tuple(k) for k in keys.tolist()} | {tuple(KEY.tolist())}) == 1001
    raw = np.random.Philox(key=host(KEY), counter=np.array([0, 0, 0, 1], np.uint64))
    np.testing.assert_array_equal(keys.reshape(-1), raw.random_raw(2000))
    np.testing.assert_array_equal(host(random.split(KEY, 3)), keys[:3])
    assert random.split(KEY, (2, 3)).shape == (2, 3, 2)
    first, second = random.split(KEY)
    assert first.tolist() != second.tolist()


def test_folded_keys_follow_the_number():
    raw = np.random.Philox(key=host(KEY), counter=np.array([9, 0, 0, 2], np.uint64))
    np.testing.assert_array_equal(host(random.fold_in(KEY, 9)), raw.random_raw(2))
    many = ft.vmap(lambda i: random.fold_in(KEY, i))(np.arange(50))
    assert len({tuple(k) for k in many.tolist()}) == 50
    np.testing.assert_array_equal(host(many[9]), host(random.fold_in(KEY, 9)))
    random.fold_in(KEY, -1)
    for bad in (1.0, np.ones(2, int)):
        with pytest.raises(TypeError, match="fold_in takes an integer"):
            random.fold_in(KEY, bad)


def test_children_are_independent_of_parent_and_siblings():
    keys = [KEY, *random.split(KEY, 6), random.fold_in(KEY, 0), random.fold_in(KEY, 1)]
    drawn = np.stack([host(random.normal(k, (4000,))) for k in keys])
    correlations = np.corrcoef(drawn) - np.eye(len(keys))
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)


@pytest.mark.parametrize(
    ("bad", "fix"),
    [
        (0, "random.key\\(seed\\)"),
        (np.zeros(2), "random.key\\(seed\\)"),
        (np.zeros((3, 2), np.uint64), "ft.vmap"),
        (None, "random.key\\(seed\\)"),
    ],
)
def test_what_is_no_key_is_refused(bad, fix):
    with pytest.raises(TypeError, match=rf"(?s)expected a key, uint64\[2\].*fix: .*{fix}"):
        random.normal(bad, (2,))


# -- distributions


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name, dtype):
    draw, law = DISTRIBUTIONS[name]
    for key in random.split(KEY, 3):
        x = draw(key, (20001,), dtype)
        assert (x.shape, x.dtype) == ((20001,), dtype)
        assert np.isfinite(host(x)).all()
        assert stats.kstest(host(x).astype(float), law).pvalue > RARE


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_shapes_and_defaults(name):
    draw, _ = DISTRIBUTIONS[name]
    assert draw(KEY).shape == ()
    assert draw(KEY).dtype == np.float64
    assert draw(KEY, 3).shape == (3,)
    assert draw(KEY, (2, 0)).shape == (2, 0)
    assert draw(KEY, [2, 3], np.float32).dtype == np.float32
    with pytest.raises(TypeError, match=f"{name} draws float16"):
        draw(KEY, (2,), int)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_vmap_over_keys_is_the_loop(name):
    draw, _ = DISTRIBUTIONS[name]
    for keys in (random.split(KEY, 3), random.split(KEY, 60)):
        got = host(ft.vmap(lambda k: draw(k, (2, 3)))(keys))
        np.testing.assert_array_equal(got, [host(draw(k, (2, 3))) for k in keys])


def test_normal_numbers_have_the_right_moments_and_tails():
    x = host(random.normal(KEY, (400_000,)))
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert abs((x**power).mean() - moment) < 0.05
    assert 4.2 < abs(x).max() < 7
    assert abs(np.corrcoef(x[:200_000], x[200_000:])[0, 1]) < 0.01


def test_complex_normal_numbers_have_variance_one():
    z = random.normal(KEY, (50_000,), "complex64")
    assert z.dtype == np.complex64
    assert abs(host(fnp.var(z)) - 1) < 0.03
    assert abs(np.mean(host(z) ** 2)) < 0.03


def test_uniform_numbers_keep_to_their_bounds():
    x = host(random.uniform(KEY, (10_000, 2), minval=np.array([-1.0, 5.0]), maxval=6.0))
    assert x[:, 0].min() >= -1
    assert x[:, 0].max() < 6
    assert x[:, 1].min() >= 5
    assert (host(random.uniform(KEY, (10_000,), "float16")) < 1).all()
    with pytest.raises(ValueError, match="do not broadcast"):
        random.uniform(KEY, (), minval=np.zeros(2))


@pytest.mark.parametrize(
    ("low", "high"), [(-2, 2), (1, 3), (-0.1, 5), (8, 9), (-30, -29), (5, np.inf), (-np.inf, 0)]
)
def test_truncated_normal(low, high):
    x = host(random.truncated_normal(KEY, float(low), float(high), (20_000,)))
    assert x.min() >= low
    assert x.max() <= high
    assert stats.kstest(x, stats.truncnorm(low, high).cdf).pvalue > RARE


def test_quantiles_of_the_normal_distribution():
    p = np.concatenate([np.linspace(0.001, 0.999, 999), 10.0 ** -np.arange(4, 300)])
    np.testing.assert_allclose(host(normal_quantile(p)), stats.norm.ppf(p), rtol=1e-14, atol=1e-15)
    assert normal_quantile(np.array([0.0, 1.0])).tolist() == [-np.inf, np.inf]
    check_grads(normal_quantile, (np.array([0.01, 0.3, 0.5, 0.99]),), order=2)


def test_bernoulli_and_rademacher():
    x = random.bernoulli(KEY, 0.3, (20_000,))
    assert x.dtype == bool
    assert abs(host(x).mean() - 0.3) < 0.02
    assert random.bernoulli(KEY, np.array([0.0, 1.0])).tolist() == [False, True]
    signs = random.rademacher(KEY, (20_000,), "int8")
    assert signs.dtype == np.int8
    assert sorted(set(signs.tolist())) == [-1, 1]
    assert abs(host(signs).mean()) < 0.05


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 7, "int64"), (-3, 3, "int8"), (250, 256, "uint8"), (-128, 128, "int8"), (10, 11, "int32")],
)
def test_randint(low, high, dtype):
    x = host(random.randint(KEY, (30_000,), low, high, dtype))
    assert x.dtype == dtype
    values, counts = np.unique(x, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(low, high))
    assert stats.chisquare(counts).pvalue > RARE if len(counts) > 1 else True


def test_randint_at_the_ends_of_dtypes():
    x = host(random.randint(KEY, (1000,), -(2**63), 2**63))
    assert x.min() < -(2**61)
    assert x.max() > 2**61
    assert random.randint(KEY, (9,), 0, 2**64, "uint64").dtype == np.uint64
    bounds = random.randint(KEY, (3,), np.array([0, 10, -20]), np.array([1, 11, -19]))
    assert bounds.tolist() == [0, 10, -20]
    for low, high, dtype in ((0, 0, int), (5, 3, int), (0, 300, "uint8"), (-1, 3, "uint8")):
        with pytest.raises(ValueError, match="is at least"):
            random.randint(KEY, (), low, high, dtype)
    with pytest.raises(TypeError, match="draws integers"):
        random.randint(KEY, (), 0, 3, float)


def test_categorical_follows_softmax():
    logits = np.log(np.array([0.1, 0.2, 0.7]))
    x = random.categorical(KEY, logits, shape=(20_000,))
    assert_frequencies(np.bincount(host(x)), [0.1, 0.2, 0.7])
    assert random.categorical(KEY, np.zeros((3, 4)), axis=0).shape == (4,)
    assert random.categorical(KEY, np.zeros((3, 4)), axis=0, shape=(5, 4)).shape == (5, 4)
    with pytest.raises(ValueError, match="do not broadcast"):
        random.categorical(KEY, np.zeros((3, 4)), shape=(5,))


# -- orders and samples


def test_permutations_are_uniform():
    orders = [tuple(random.permutation(k, 3).tolist()) for k in random.split(KEY, 1200)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > RARE


def test_permutation_of_arrays():
    x = np.arange(12.0).reshape(3, 4)
    rows = host(random.permutation(KEY, x))
    assert sorted(rows.tolist()) == x.tolist()
    columns = host(random.permutation(KEY, x, axis=1))
    np.testing.assert_array_equal(np.sort(columns, axis=1), x)
    assert len({tuple(np.argsort(row)) for row in columns}) == 1
    own = host(random.permutation(KEY, np.tile(np.arange(50.0), (3, 1)), 1, independent=True))
    np.testing.assert_array_equal(np.sort(own, axis=1), np.tile(np.arange(50.0), (3, 1)))
    assert len({tuple(row) for row in own}) == 3
    keys = random.split(KEY, 4)
    mapped = ft.vmap(random.permutation, in_axes=(0, None))(keys, np.arange(9))
    np.testing.assert_array_equal(
        host(mapped), [host(random.permutation(k, np.arange(9))) for k in keys]
    )
    g = ft.grad(lambda v: random.permutation(KEY, v)[0])(np.arange(4.0))
    assert sorted(g.tolist()) == [0, 0, 0, 1]


def test_choice():
    p = np.array([0.0, 0.5, 0.2, 0.3])
    with_replacement = host(random.choice(KEY, 4, (20_000,), p=10 * p))
    assert_frequencies(np.bincount(with_replacement), p)
    even = host(random.choice(KEY, 4, (20_000,)))
    assert_frequencies(np.bincount(even), [0.25] * 4)
    for weights in (None, p):
        number = 4 if weights is None else 3
        drawn = [
            host(random.choice(k, 4, (number,), replace=False, p=weights))
            for k in random.split(KEY, 500)
        ]
        assert all(len(set(row)) == number for row in drawn)
        if weights is not None:
            assert_frequencies(np.bincount([row[0] for row in drawn], minlength=4), p)
    x = np.arange(6.0).reshape(2, 3)
    assert random.choice(KEY, x, (5, 2), axis=1).shape == (2, 5, 2)
    assert random.choice(KEY, [1.5, 2.5]).item() in (1.5, 2.5)


def test_choice_under_vmap():
    keys = random.split(KEY, 5)
    for options in ({}, {"replace": False}, {"p": np.array([0.2, 0.3, 0.5])}):
        got = ft.vmap(lambda k, o=options: random.choice(k, 3, (3,), **o))(keys)
        wanted = [host(random.choice(k, 3, (3,), **options)) for k in keys]
        np.testing.assert_array_equal(host(got), wanted)


@pytest.mark.parametrize(
    ("p", "replace", "text"),
    [
        ([0.5, 0.5, 0.0], False, "3 parts are to be drawn, and 2 have a probability above zero"),
        ([0.0, 0.0, 0.0], True, "1 parts are to be drawn, and 0 have"),
        ([1.5, -0.5, 0.0], True, "probabilities are finite, and not negative"),
        ([0.5, np.nan, 0.5], False, "probabilities are finite, and not negative"),
        ([0.5, np.inf, 0.5], True, "probabilities are finite, and not negative"),
    ],
)
def test_choice_refuses_what_are_no_probabilities(p, replace, text):
    with pytest.raises(ValueError, match=text):
        random.choice(KEY, 3, (3,), replace=replace, p=np.array(p))


def test_nothing_may_be_drawn_of_nothing():
    assert random.choice(KEY, 0, (0, 2)).shape == (0, 2)
    assert random.choice(KEY, np.ones((0, 3)), (0,), p=np.ones(0)).shape == (0, 3)


def test_choice_says_what_is_wrong():
    with pytest.raises(ValueError, match="4 parts of 3"):
        random.choice(KEY, 3, (4,), replace=False)
    with pytest.raises(ValueError, match="nothing to draw from"):
        random.choice(KEY, 0, (1,))
    with pytest.raises(ValueError, match="probabilities of shape"):
        random.choice(KEY, 3, (4,), p=np.ones(2))


# -- transformations


def test_derivatives_flow_to_parameters():
    check_grads(
        lambda a, b: random.uniform(KEY, (3, 2), minval=a, maxval=b),
        (np.array([0.5, -1.0]), 2.0),
        order=2,
    )
    check_grads(
        lambda a, b: random.truncated_normal(KEY, a, b, (4,)), (-1.0, np.array([0.5, 1, 2, 3.0]))
    )
    g = ft.grad(lambda m, s: fnp.mean(m + s * random.normal(KEY, (5000,))), (0, 1))(1.0, 2.0)
    assert g[0].item() == pytest.approx(1.0)
    assert abs(g[1].item()) < 0.1


def test_randomness_is_staged_and_not_differentiated():
    program = ft.make_program(lambda k: random.normal(k, (3,)))(KEY)
    assert "random_bits" in str(program)
    np.testing.assert_array_equal(host(program(KEY)), host(random.normal(KEY, (3,))))
    g = ft.grad(lambda k: random.normal(k), allow_int=True)(KEY)
    assert g.tolist() == [0, 0]


def test_every_public_function_has_a_doctest():
    for name in set(random.__all__) - {"KeyReuseWarning"}:
        assert ">>>" in inspect.getdoc(getattr(random, name)), name


# -- bounds at and beyond the ends of dtypes, and of the normal distribution

KINDS = ["int8", "uint8", "int16", "int64", "uint64"]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("staged", [False, True])
def test_randint_between_bounds_of_all_dtypes(dtype, staged):
    limits = np.iinfo(dtype)
    draw = ft.jit(random.randint, static_argnums=(1, 4)) if staged else random.randint
    kinds = ["int8", "int64", "uint64"] if staged else KINDS
    for low_kind in kinds:
        for high_kind in kinds:
            lows, highs = np.iinfo(low_kind), np.iinfo(high_kind)
            low = np.array([lows.min, lows.max, 0, lows.max // 2, 5], low_kind)[:, None]
            high = np.array([highs.min, highs.max, 0, 1, highs.max // 3, 7], high_kind)
            x = host(draw(KEY, (9, 5, 6), low, high, dtype)).astype(object)
            first = np.clip(low.astype(object), limits.min, limits.max)
            stop = np.clip(high.astype(object), limits.min, limits.max + 1)
            assert (x >= first).all()
            assert np.where(stop > first, x < stop, x == first).all()


@pytest.mark.parametrize("dtype", KINDS)
def test_randint_reaches_the_last_number_of_a_dtype(dtype):
    last = np.iinfo(dtype).max
    for low in (last - 2, np.array(last - 2, dtype)):
        x = host(random.randint(KEY, (100,), low, int(last) + 1, dtype))
        assert sorted({int(n) for n in x}) == [last - 2, last - 1, last]
    x = ft.jit(lambda low: random.randint(KEY, (100,), low, int(last) + 1, dtype))(low)
    assert int(host(x).max()) == last


@pytest.mark.parametrize(
    ("low", "high"),
    [(24.0, 26.0), (25.5, 27.0), (38.0, 39.0), (40.0, 40.01), (100.0, np.inf), (1e5, np.inf)],
)
def test_truncated_normal_far_in_the_tail(low, high):
    x = np.sort(host(random.truncated_normal(KEY, low, high, (4000,))))
    assert (x >= low).all()
    assert (x <= high).all()

    def log_share(t):
        """The logarithm of Q(t) over Q(low), by DLMF 7.12.1."""
        mills = [(1 - 1 / z**2 + 3 / z**4 - 15 / z**6) / z for z in (t, low)]
        return np.log(mills[0] / mills[1]) - (t - low) * (t + low) / 2

    # The share of the tail that lies above what is drawn is uniform.
    share = np.exp(log_share(x))
    rest = 0.0 if np.isinf(high) else np.exp(log_share(high))
    gaps = np.sort((share - rest) / (1 - rest)) - (np.arange(4000) + 0.5) / 4000
    assert np.abs(gaps).max() < 0.04
    mirrored = np.sort(host(random.truncated_normal(KEY, -high, -low, (4000,))))
    assert abs(mirrored.mean() + x.mean()) < 0.1 * (x.mean() - low) + 1e-12 * low
    staged = ft.jit(random.truncated_normal, static_argnums=(3,))(KEY, low, high, (4000,))
    np.testing.assert_allclose(np.sort(host(staged)), x, rtol=1e-14)


def test_gradients_of_bounds_far_in_the_tail():
    def draw(low, high):
        return fnp.sum(random.truncated_normal(KEY, low, high, (5,)) ** 2)

    for bounds in ((24.9, 27.0), (38.0, 38.2), (60.0, 60.01), (-60.01, -60.0)):
        check_grads(draw, bounds, order=2, rtol=1e-5)
    slope = ft.grad(draw)(50.0, np.inf)
    assert np.isfinite(slope)
    assert ft.grad(draw, 1)(50.0, np.inf) == 0
