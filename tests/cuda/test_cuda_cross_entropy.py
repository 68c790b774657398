"""The cross entropy and its derivative on a GPU: against doubles, and however the bet went."""

import gc

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.primitives.core.registry import registry as ops

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

# Of the dtype's rounding; a loss that is rounded to half precision moves all probabilities.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-13}
inf, nan = numpy.inf, numpy.nan


@pytest.fixture(scope="module", autouse=True)
def loaded():
    ft.backends.get("cupy")


@pytest.fixture
def kernels(monkeypatch):
    """The module, which bets on small arrays too."""
    from functensor.backends.cuda.kernels import cross_entropy

    monkeypatch.setattr(cross_entropy, "FEWEST_AHEAD_BYTES", 0)
    cross_entropy.bets_of.cache_clear()
    return cross_entropy


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def example(rows, classes, name="float32", labels="int64", seed=0):
    rng = numpy.random.default_rng(seed)
    x = rng.normal(0, 3, (rows, classes)).astype(dtype_of(name))
    return x, rng.integers(0, min(classes, 100), rows).astype(labels)


def doubles(x, labels):
    """Returns the losses, and the derivatives for a cotangent of 1."""
    x = numpy.asarray(x, numpy.float64)
    top = x.max(axis=-1, keepdims=True)
    powers = numpy.exp(x - top)
    total = powers.sum(axis=-1, keepdims=True)
    places = numpy.arange(len(x)), labels
    grad = powers / total
    grad[places] -= 1
    return (numpy.log(total) + top)[:, 0] - x[places], grad


def close(got, wanted, name, scale=1.0):
    assert got.dtype == dtype_of(name)
    assert got.shape == wanted.shape
    tolerance = TOLERANCES[name] * scale
    got = got.get().astype(numpy.float64)
    numpy.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 4)


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("classes", [1, 10, 67, 1000, 9001])
def test_values_and_derivatives(kernels, name, classes):
    x, labels = example(7, classes, name)
    losses, grads = doubles(x, labels)
    on_gpu, where = cupy.asarray(x), cupy.asarray(labels)
    got = kernels.cross_entropy(on_gpu, where)
    close(got, losses, name, 2)
    g = numpy.linspace(-1, 2, 7).astype(x.dtype)
    wanted = grads * g.astype(float)[:, None]
    exact = kernels.losses(on_gpu, where)[1]
    got = kernels.cross_entropy_grad(on_gpu, exact, cupy.asarray(g), where)
    close(got, wanted, name, 4)
    rounded = cupy.asarray(losses.astype(x.dtype))
    got = kernels.cross_entropy_grad(on_gpu, rounded, cupy.asarray(g), where)
    close(got, wanted, name, 40)


@pytest.mark.parametrize(
    "labels", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_dtypes_of_labels(kernels, labels):
    x, y = example(5, 30, labels=labels)
    losses, grads = doubles(x, y)
    loss, kept = kernels.cross_entropy_ahead(cupy.asarray(x), cupy.asarray(y))
    close(loss, losses, "float32", 2)
    close(kernels.cross_entropy(cupy.asarray(x), cupy.asarray(y)), losses, "float32", 2)
    g = cupy.ones(5, numpy.float32)
    got = kernels.cross_entropy_grad(cupy.asarray(x), kept, g, cupy.asarray(y))
    close(got, grads, "float32", 4)


def test_labels_that_are_no_classes(kernels):
    x, _ = example(4, 9)
    on_gpu, labels = cupy.asarray(x), cupy.asarray([2, 9, -1, 2**40])
    plain = kernels.cross_entropy(on_gpu, labels)
    loss, kept = kernels.cross_entropy_ahead(on_gpu, labels)
    for got in (plain, loss):
        assert numpy.isnan(got.get()).tolist() == [False, True, True, True]
    g = cupy.ones(4, numpy.float32)
    for ahead in (kept, plain):
        got = kernels.cross_entropy_grad(on_gpu, ahead, g, labels).get()
        assert numpy.isnan(got).all(axis=1).tolist() == [False, True, True, True]
        assert not numpy.isnan(got[0]).any()


@pytest.mark.parametrize("classes", [6, 3000])
def test_limits(kernels, classes):
    x = numpy.zeros((6, classes), numpy.float32)
    x[0, 3] = inf
    x[1] = -inf
    x[2, 1] = nan
    x[3, 4] = -inf
    x[4, 1:3] = inf, nan
    x[5, 2] = 1e30
    labels = numpy.array([2, 1, 3, 3, 4, 2])
    with numpy.errstate(all="ignore"):
        wanted = ops.cross_entropy.impl(x, labels)
    on_gpu, where = cupy.asarray(x), cupy.asarray(labels)
    ahead, _ = kernels.cross_entropy_ahead(on_gpu, where)
    for got in (kernels.cross_entropy(on_gpu, where), ahead):
        numpy.testing.assert_allclose(got.get(), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("classes", [1, 8, 67, 1003])
def test_bets_do_not_show(kernels, launches, name, classes):
    x, labels = example(300, classes, name)
    on_gpu, where = cupy.asarray(x), cupy.asarray(labels)
    weights = numpy.random.default_rng(1).normal(size=300).astype(x.dtype)
    mean = numpy.full(300, 1 / 300, x.dtype)
    mixed = numpy.where(labels % 3, mean, mean * 2).astype(x.dtype)
    exact = kernels.losses(on_gpu, where)[1]
    for g in (mean, mean, weights, weights, weights, mixed, mean, mean):
        _, kept = kernels.cross_entropy_ahead(on_gpu, where)
        got = kernels.cross_entropy_grad(on_gpu, kept, cupy.asarray(g), where)
        assert launches[-2:] == ["ahead", "settle"]
        wanted = kernels.cross_entropy_grad(on_gpu, kept, cupy.asarray(g), where)
        assert launches[-1] == "loss_grad"
        # One kernel has had the logarithm's argument from other threads' sums than the other.
        numpy.testing.assert_array_equal(got.get(), wanted.get())
        numpy.testing.assert_allclose(kept.get(), exact.get(), rtol=1e-6, atol=1e-7)
    close(got, doubles(x, labels)[1] * mean.astype(float)[:, None], name, 4)


def test_what_was_bet_on(kernels):
    x, labels = map(cupy.asarray, example(6, 5))

    def staked(g):
        _, kept = kernels.cross_entropy_ahead(x, labels)
        values = kernels.written_ahead[id(kept)].staked.get()
        assert len(set(values.view(numpy.uint32))) == 1
        g = cupy.broadcast_to(cupy.asarray(numpy.float32(g)), 6)
        kernels.cross_entropy_grad(x, kept, g, labels)
        return float(values[0])

    assert staked(1.0) == numpy.float32(1 / 6)
    assert numpy.isnan(staked(1.0))
    assert staked(0.5) == 1
    assert numpy.isnan(staked(0.5))
    assert staked(0.5) == 0.5


def test_derivatives_are_forgotten(kernels):
    x, labels = map(cupy.asarray, example(6, 5))
    loss, kept = kernels.cross_entropy_ahead(x, labels)
    assert id(kept) in kernels.written_ahead
    del kept
    gc.collect()
    assert not kernels.written_ahead
    assert loss.shape == (6,)


def test_strides(kernels):
    x, labels = example(12, 34)
    losses, _ = doubles(x, labels)
    on_gpu = cupy.asarray(x)
    for view in (on_gpu[::2], cupy.asarray(numpy.asfortranarray(x))[::2]):
        where = cupy.asarray(numpy.repeat(labels[::2], 2))[::2]
        loss, kept = kernels.cross_entropy_ahead(view, where)
        close(loss, losses[::2], "float32", 2)
        g = cupy.broadcast_to(cupy.asarray(numpy.float32(2)), 6)
        got = kernels.cross_entropy_grad(view, kept, g, where)
        close(got, 2 * doubles(x, labels)[1][::2], "float32", 4)
    row = kernels.cross_entropy(on_gpu[0], labels[0])
    numpy.testing.assert_allclose(row.get(), losses[0], rtol=1e-6)
    empty = kernels.cross_entropy_ahead(on_gpu[:0], cupy.asarray(labels[:0]))[0]
    assert empty.shape == (0,)
    got = kernels.cross_entropy_grad(on_gpu[:0], empty, empty, cupy.asarray(labels[:0]))
    assert got.shape == (0, 34)


def near(got, wanted, rtol=1e-11):
    numpy.testing.assert_allclose(ft.to_device(got, "cpu"), wanted, rtol=rtol, atol=1e-15)


def test_under_transformations(kernels, launches):
    x, labels = example(8, 20, "float64")
    on_gpu, where = (ft.to_device(v, "cuda:0") for v in (x, labels))

    def loss(v, y):
        return np.mean(nn.softmax_cross_entropy(v, y))

    losses, grads = doubles(x, labels)
    for _ in range(2):
        launches.clear()
        value, gradient = ft.value_and_grad(loss)(on_gpu, where)
        assert launches.count("ahead") == launches.count("settle") == 1
        assert "loss_grad" not in launches
        near(value, losses.mean())
        near(gradient, grads / 8)
    _, pullback = ft.vjp(lambda v: nn.softmax_cross_entropy(v, where), on_gpu)
    for g in (numpy.ones(8), numpy.arange(8.0)):
        (got,) = pullback(ft.to_device(g, "cuda:0"))
        near(got, grads * g[:, None])
    second = ft.grad(lambda v: np.sum(ft.grad(loss)(v, where) ** 2))
    near(second(on_gpu), ft.grad(lambda v: np.sum(ft.grad(loss)(v, labels) ** 2))(x), 1e-10)
    near(ft.vmap(ft.grad(nn.softmax_cross_entropy))(on_gpu, where), grads)
    _, tangent = ft.jvp(lambda v: loss(v, where), (on_gpu,), (on_gpu,))
    near(tangent, (grads * x).sum() / 8)


def test_tensors(kernels, launches):
    x, labels = example(8, 20)
    logits = ft.Tensor(x, requires_grad=True).to("cuda:0")
    loss = nn.softmax_cross_entropy(logits, ft.to_device(labels, "cuda:0")).mean()
    loss.backward()
    ours = [name for name in launches if name in ("ahead", "settle", "loss_grad")]
    assert ours == ["ahead", "settle"]


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("classes", [10, 1000, 9001])
@pytest.mark.parametrize("least", [0, 1 << 40], ids=["at once", "read again"])
def test_a_slope_for_one_cotangent_comes_with_the_loss(kernels, monkeypatch, name, classes, least):
    monkeypatch.setattr(kernels, "FEWEST_AHEAD_BYTES", least)
    x, labels = example(7, classes, name)
    losses, grads = doubles(x, labels)
    loss, grad = kernels.cross_entropy_with_grad(cupy.asarray(x), cupy.asarray(labels), 0.25)
    close(loss, losses, name, 2)
    close(grad, grads * 0.25, name, 4)
    empty = kernels.cross_entropy_with_grad(cupy.asarray(x[:0]), cupy.asarray(labels[:0]), 0.25)
    assert [part.shape for part in empty] == [(0,), (0, classes)]
