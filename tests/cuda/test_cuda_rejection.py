"""Gamma, Poisson and binomial numbers on a GPU: those of the CPU for the same key."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import random
from functensor.backends.arrays import gamma_moments
from functensor.backends.arrays import rejection as reference

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu

LARGEST = 2**64 - 1
KEY = numpy.array([7, LARGEST], numpy.uint64)
LAWS = ["random_loggamma", "random_poisson", "random_binomial"]
RTOL = {"float16": 2e-3, "float32": 3e-7, "float64": 1e-12}


@pytest.fixture(autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import rejection

    return rejection


def parameters(name, shape, seed=0):
    """Returns parameters from where every method of a law is used."""
    rng = numpy.random.default_rng(seed)
    if name == "random_loggamma":
        return [10 ** rng.uniform(-4, 5, shape)]
    if name == "random_poisson":
        return [10 ** rng.uniform(-2, 6, shape)]
    return [numpy.floor(10 ** rng.uniform(0, 6, shape)), rng.random(shape)]


def same(there, here):
    assert isinstance(there, cupy.ndarray)
    assert (there.shape, there.dtype) == (here.shape, here.dtype)
    if here.dtype.kind == "i":
        numpy.testing.assert_array_equal(there.get(), here)
    else:
        numpy.testing.assert_allclose(there.get(), here, rtol=RTOL[here.dtype.name], atol=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (129,), (7, 301)])
@pytest.mark.parametrize("on_host", [True, False])
def test_one_key(kernels, name, shape, on_host):
    given = parameters(name, shape)
    here = getattr(reference, name)(numpy, KEY, *given)
    key = KEY if on_host else cupy.asarray(KEY)
    same(getattr(kernels, name)(key, *map(cupy.asarray, given)), numpy.asarray(here))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("batch", [(0,), (1,), (5,), (2, 3)])
@pytest.mark.parametrize("on_host", [True, False])
def test_many_keys(kernels, name, batch, on_host):
    rng = numpy.random.default_rng(1)
    keys = rng.integers(0, LARGEST, (*batch, 2), numpy.uint64, endpoint=True)
    for shape in ((), (33,), (3, 5)):
        given = parameters(name, (*batch, *shape))
        for own in (keys, keys.astype(numpy.int64), numpy.broadcast_to(keys[:1], keys.shape)):
            here = getattr(reference, name)(numpy, own, *given)
            on = own if on_host else cupy.broadcast_to(cupy.asarray(own), own.shape)
            there = getattr(kernels, name)(on, *map(cupy.asarray, given))
            same(there, numpy.asarray(here))


@pytest.mark.parametrize("name", LAWS)
def test_strides_and_what_is_repeated(kernels, name):
    whole = [numpy.asarray(p) for p in parameters(name, (8, 40))]
    views = (
        lambda x: x[::-2, 1::3],
        lambda x: x.T,
        lambda x: x[:, :1] + 0 * x,
        lambda x: (cupy if isinstance(x, cupy.ndarray) else numpy).broadcast_to(x[3, 4], (9, 11)),
        lambda x: (cupy if isinstance(x, cupy.ndarray) else numpy).broadcast_to(x[2], (9, 40)),
    )
    for view in views:
        here = getattr(reference, name)(numpy, KEY, *map(view, whole))
        same(getattr(kernels, name)(KEY, *[view(cupy.asarray(p)) for p in whole]), here)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_parameters(kernels, dtype):
    for name in LAWS:
        rng = numpy.random.default_rng(2)
        given = [rng.uniform(0.5, 60, (301,)).astype(dtype), rng.random(301).astype(dtype)]
        given = given[: 1 + (name == "random_binomial")]
        here = getattr(reference, name)(numpy, KEY, *given)
        same(getattr(kernels, name)(KEY, *map(cupy.asarray, given)), here)


def test_integers_of_trials(kernels):
    trials = numpy.arange(500)
    chances = numpy.full(500, 0.3, "float32")
    here = reference.random_binomial(numpy, KEY, trials, chances)
    same(kernels.random_binomial(KEY, cupy.asarray(trials), cupy.asarray(chances)), here)


def test_what_are_no_parameters(kernels):
    bad = numpy.array([numpy.nan, -1.0, -numpy.inf, numpy.inf, 0.0, 2.0**62, 2.0**63, 1e-300])
    for name in LAWS:
        given = [bad, numpy.full(8, 0.25)][: 1 + (name == "random_binomial")]
        here = getattr(reference, name)(numpy, KEY, *given)
        there = getattr(kernels, name)(KEY, *map(cupy.asarray, given))
        if here.dtype.kind == "i":
            # Beyond 2**53 the last digits are the machine's.
            numpy.testing.assert_allclose(there.get().astype(float), here.astype(float), rtol=1e-15)
        else:
            same(there, here)
    chances = numpy.array([numpy.nan, -0.1, 1.1, 0.0, 1.0, 0.5])
    here = reference.random_binomial(numpy, KEY, numpy.full(6, 20.0), chances)
    same(kernels.random_binomial(KEY, cupy.full(6, 20.0), cupy.asarray(chances)), here)
    assert here[:5].tolist() == [-1, -1, -1, 0, 20]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_moments(kernels, n):
    rng = numpy.random.default_rng(3)
    a, y = 10 ** rng.uniform(-3, 4, (60, 1)), rng.uniform(-5, 9, (2, 1, 70))
    here = gamma_moments.gamma_moment(numpy, a, y, n=n)
    there = kernels.gamma_moment(cupy.asarray(a), cupy.asarray(y), n=n)
    numpy.testing.assert_allclose(there.get(), here, rtol=1e-11)
    near = 0.25, 0.5
    for x, point in ((a[3, 0], y), (a, -1.0), (a[:0, :0], y[0, :, :1]), near):
        here = numpy.asarray(gamma_moments.gamma_moment(numpy, x, point, n=n))
        given = [cupy.asarray(v) if isinstance(v, numpy.ndarray) else v for v in (x, point)]
        if not any(isinstance(v, cupy.ndarray) for v in given):
            given = list(map(cupy.asarray, given))
        there = kernels.gamma_moment(*given, n=n)
        assert (there.shape, there.dtype) == (here.shape, here.dtype)
        numpy.testing.assert_allclose(there.get(), here, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_moments_of_narrow_dtypes(kernels, dtype):
    a = numpy.linspace(0.5, 20, 77).astype(dtype)
    y = numpy.linspace(-3, 3, 77).astype(dtype)
    here = gamma_moments.gamma_moment(numpy, a, y, n=1)
    same(kernels.gamma_moment(cupy.asarray(a), cupy.asarray(y), n=1), here)


def test_moments_at_the_ends(kernels):
    a = numpy.array([1.0, 2.0, numpy.nan, 1.0, 3.0])
    y = numpy.array([numpy.nan, -numpy.inf, 0.0, -800.0, numpy.log(1.5)])
    here = gamma_moments.gamma_moment(numpy, a, y, n=1)
    same(kernels.gamma_moment(cupy.asarray(a), cupy.asarray(y), n=1), here)


# -- the public functions


DRAWS = {
    "gamma": (0.3, 2.5),
    "beta": (0.5, 3.0),
    "poisson": (3.0, 300.0),
    "binomial": (100.0, 0.4),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_numbers_on_both_devices(name):
    key = random.key(11)
    x, y = DRAWS[name]
    for given in ((x, y), (y, x)) if name != "binomial" else ((x, y),):
        given = given[: 1 if name in ("gamma", "poisson") else 2]
        here = getattr(random, name)(key, *given, (4, 33))
        with ft.default_device("cuda"):
            there = getattr(random, name)(key, *given, (4, 33))
        assert there.device == "cuda:0"
        same(there._data, numpy.asarray(here))


def test_one_launch_for_each_law(launches):
    key = random.key(4)
    with ft.default_device("cuda"):
        a = np.full((3, 50), 2.0)
        for draw, given in (
            (random.poisson, [a]),
            (random.loggamma, [a]),
            (random.binomial, [a, a / 4]),
        ):
            launches.clear()
            draw(key, *given)
            assert launches.count("sampled") == 1


def test_derivatives_and_vmap():
    a = numpy.array([0.3, 1.0, 7.0, 40.0])
    key = random.key(5)
    keys = random.split(key, 3)

    def total(a):
        return np.sum(random.gamma(key, a) ** 2)

    def mapped(a):
        return ft.vmap(lambda k: random.gamma(k, a))(keys)

    for function in (ft.grad(total), ft.grad(lambda v: np.sum(ft.grad(total)(v))), mapped):
        here = function(np.asarray(a))
        with ft.default_device("cuda"):
            there = function(np.asarray(cupy.asarray(a)))
        numpy.testing.assert_allclose(there._data.get(), numpy.asarray(here), rtol=1e-10)
