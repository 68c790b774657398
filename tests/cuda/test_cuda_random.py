"""Random bits and dropout on a GPU: the same as on the CPU, bit by bit."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn, random
from functensor.backends.arrays import philox as reference
from functensor.primitives.core.registry import registry

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu

WORDS = ["uint8", "uint16", "uint32", "uint64"]
LARGEST = 2**64 - 1


@pytest.fixture(autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import philox

    return philox


def same(kernels, key, start, **params):
    here = reference.numpy_random_bits(key, start, **params)
    for on_gpu in ((), (0,), (0, 1)):
        operands = [cupy.asarray(x) if i in on_gpu else x for i, x in enumerate((key, start))]
        there = kernels.random_bits(*operands, **params)
        assert there.dtype == here.dtype
        numpy.testing.assert_array_equal(there.get(), here)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("length", [0, 1, 3, 8, 33, 1031])
def test_every_width_and_length(kernels, bits, length):
    key = numpy.array([3, 5], numpy.uint64)
    same(kernels, key, numpy.uint64(7), shape=(length,), bits=bits, stream=2)


@pytest.mark.parametrize("start", [0, 1, 2**32, 2**63, LARGEST - 1, LARGEST])
def test_counters_carry(kernels, start):
    key = numpy.array([LARGEST, 2**63], numpy.uint64)
    same(kernels, key, numpy.asarray(start, numpy.uint64), shape=(2, 17), bits=64, stream=3)


@pytest.mark.parametrize("bits", [8, 64])
@pytest.mark.parametrize("batch", [(1,), (5,), (2, 3), (0,)])
def test_many_keys(kernels, bits, batch):
    rng = numpy.random.default_rng(0)
    keys = rng.integers(0, LARGEST, (*batch, 2), numpy.uint64, endpoint=True)
    starts = rng.integers(0, 9, batch, numpy.uint64)
    for shape in ((), (5,), (3, 11), (0,)):
        same(kernels, keys, starts, shape=shape, bits=bits, stream=0)
    if batch:
        repeated = numpy.broadcast_to(keys[:1], keys.shape)
        same(kernels, repeated, 0 * starts, shape=(9,), bits=bits, stream=1)
        same(kernels, keys.astype(numpy.int64), starts, shape=(9,), bits=bits, stream=1)


def test_the_same_numbers_on_both_devices(launches):
    key = random.key(42)
    here = [random.bits(key, (3, 5), d) for d in WORDS]
    split = random.split(key, 3)
    with ft.default_device("cuda"):
        there = [random.bits(key, (3, 5), d) for d in WORDS]
        assert launches == ["bits"] * 4
        assert random.split(key, 3).tolist() == split.tolist()
        mapped = ft.vmap(lambda k: random.bits(k, (4,)))(random.split(key, 3))
    for x, y in zip(here, there, strict=True):
        assert y.device == "cuda:0"
        assert y._data.get().tolist() == x.tolist()
    assert mapped._data.get().tolist() == [random.bits(k, (4,)).tolist() for k in split]


# -- dropout


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (0, 4), (3, 1033), (16, 64)])
@pytest.mark.parametrize("where", ["host", "gpu"])
def test_dropout_bit_by_bit(dtype, shape, where):
    rng = numpy.random.default_rng(1)
    x = (10 * rng.normal(size=shape)).astype(dtype)
    key = numpy.array([9, LARGEST], numpy.uint64)
    impl = registry["dropout"].impl
    for rate in (0.1, 0.5, 0.999):
        here = impl(x, key, rate=rate)
        there = impl(cupy.asarray(x), key if where == "host" else cupy.asarray(key), rate=rate)
        assert there.dtype == here.dtype
        if here.dtype.kind == "c":
            numpy.testing.assert_allclose(there.get(), here, rtol=1e-6)
        else:
            numpy.testing.assert_array_equal(there.get(), here)


def test_dropout_of_bfloat16_and_of_what_is_not_finite():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = numpy.linspace(-3, 3, 1001).astype(bfloat16)
    x[:3] = numpy.nan, numpy.inf, -numpy.inf
    key = numpy.array([1, 2], numpy.uint64)
    impl = registry["dropout"].impl
    there = impl(cupy.asarray(x), key, rate=0.25).get()
    single = impl(x.astype("float32"), key, rate=0.25)
    assert there.dtype == bfloat16
    numpy.testing.assert_array_equal(there.astype("float32"), single.astype(bfloat16).astype("f"))


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
def test_dropout_by_many_keys(batch):
    rng = numpy.random.default_rng(2)
    keys = rng.integers(0, LARGEST, (*batch, 2), numpy.uint64)
    x = rng.normal(size=(*batch, 5, 7)).astype("float32")
    impl = registry["dropout"].impl
    here = impl(x, keys, rate=0.5)
    for there in (impl(cupy.asarray(x), k, rate=0.5) for k in (keys, cupy.asarray(keys))):
        numpy.testing.assert_array_equal(there.get(), here)
    strided = cupy.asarray(numpy.swapaxes(x, -1, -2).copy()).swapaxes(-1, -2)
    numpy.testing.assert_array_equal(impl(strided, keys, rate=0.5).get(), here)


def test_one_launch_in_each_direction(launches):
    key = random.key(3)
    x = np.asarray(cupy.ones((33, 17), "float32"))
    y, pull = ft.vjp(lambda v: nn.dropout(key, v, 0.25), x)
    assert launches == ["dropout"]
    (slope,) = pull(y)
    assert launches == ["dropout", "dropout"]
    here = nn.dropout(key, np.ones((33, 17), "float32"), 0.25)
    numpy.testing.assert_array_equal(y._data.get(), numpy.asarray(here))
    numpy.testing.assert_allclose(slope._data.get(), numpy.asarray(here) / 0.75, rtol=1e-6)


def test_dropout_under_vmap():
    x = numpy.random.default_rng(3).normal(size=(4, 9)).astype("float32")
    keys = random.split(random.key(5), 4)
    for axes in ((0, None), (None, 0), (0, 0)):
        per_key = keys if axes[0] == 0 else random.key(6)
        value = x if axes[1] == 0 else x[0]
        mapped = ft.vmap(lambda k, v: nn.dropout(k, v, 0.5), in_axes=axes)
        here, there = mapped(per_key, value), mapped(per_key, np.asarray(cupy.asarray(value)))
        numpy.testing.assert_array_equal(there._data.get(), numpy.asarray(here))
