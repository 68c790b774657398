"""Data-parallel steps of a world of one process, whose batches are cut into parts."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.gradient_buckets import begin_mean, end_mean

data_parallel = ft.distributed.data_parallel
W, X = np.arange(3.0), np.cos(np.arange(12.0)).reshape(4, 3)


def noisy(w, x, key):
    return fnp.mean((w * x + ft.random.normal(key, (3,))) ** 2)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("wrap", [ft.jit, lambda f: f], ids=["jit", "eager"])
def test_each_part_of_a_batch_has_a_key_of_its_own(count, wrap):
    key = ft.random.key(7)
    keys = ft.random.split(key, count)
    parts = X.reshape(count, -1, 3)
    wanted = np.mean([ft.grad(noisy)(W, x, k) for x, k in zip(parts, keys, strict=True)], axis=0)
    step = wrap(data_parallel(ft.grad(noisy), accumulate=count))
    np.testing.assert_allclose(step(W, X, key), wanted, rtol=1e-12)
    np.testing.assert_allclose(step(W, X, key=np.asarray(key)), wanted, rtol=1e-12)


def test_what_may_be_a_key_or_two_numbers_is_refused():
    numbers = np.array([3, 5], np.uint64)
    step = data_parallel(ft.grad(lambda w, x, n: fnp.sum(w) * fnp.sum(x[:, 0] * n)), accumulate=2)
    with pytest.raises(ValueError, match=r"whether uint64\[2\] beside a batch of two"):
        step(W, X[:2], numbers)
    wanted = np.full(3, np.mean(X[:2, 0] * [3, 5]))
    np.testing.assert_allclose(step(W, X[:2], numbers.astype("int64")), wanted, rtol=1e-12)
    # Alone it is a key, as of a loss that draws its examples.
    drawn = data_parallel(ft.grad(lambda w, key: fnp.sum(w * ft.random.normal(key))), accumulate=2)
    keys = ft.random.split(ft.random.key(7))
    wanted = np.full(3, np.mean([float(ft.random.normal(key)) for key in keys]))
    np.testing.assert_allclose(drawn(W, ft.random.key(7)), wanted, rtol=1e-12)


def test_keys_of_examples_are_cut_with_them():
    keys = ft.random.split(ft.random.key(1), 4)
    each = ft.vmap(noisy, in_axes=(None, 0, 0))
    step = data_parallel(ft.grad(lambda w, x, keys: fnp.mean(each(w, x, keys))), accumulate=2)
    wanted = ft.grad(lambda w: fnp.mean(each(w, X, keys)))(W)
    np.testing.assert_allclose(step(W, X, keys), wanted, rtol=1e-12)


@pytest.mark.parametrize("stage", [2, 3])
def test_parts_of_a_batch_of_one_process_fill_buckets(stage):
    """At stage 3 buckets are those of no axis."""

    def loss(params, x):
        return fnp.mean((x @ params["w"] + params["b"]) ** 2)

    spread = ft.distributed.sharded(ft.optim.sgd(0.1), stage=stage, bucket_megabytes=0)
    params = wanted = {"b": fnp.ones(()), "w": fnp.asarray(W)}
    if stage == 3:
        params = spread.shard(params)
    step = data_parallel(spread.minimize(loss), accumulate=2)
    params, _ = step(params, spread.init(params), X)
    wanted, _ = ft.optim.sgd(0.1).minimize(loss)(wanted, ft.optim.sgd(0.1).init(wanted), X)
    for name, whole in spread.gather(params).items():
        np.testing.assert_allclose(whole, wanted[name], rtol=1e-12)


def test_a_batch_that_is_no_argument_is_refused():
    """It would be gone through as a whole for each part."""
    optimizer = ft.optim.sgd(0.1)
    closed_over = optimizer.minimize(lambda w: fnp.sum(w * X))
    for step, args in (
        (closed_over, (W, optimizer.init(W))),
        (ft.grad(lambda w, scale: fnp.sum(w * X) * scale), (W, 2.0)),
        (ft.grad(lambda w, x: fnp.sum(w * x), argnums=(0, 1)), (W, X)),
    ):
        with pytest.raises(ValueError, match="accumulate=2 has nothing to cut"):
            data_parallel(step, accumulate=2)(*args)
        data_parallel(step)(*args)


def test_one_process_refuses_gradients_of_single_examples_as_several_do():
    each = ft.vmap(ft.grad(lambda w, x: fnp.sum(w * x)), in_axes=(None, 0))
    for step in (data_parallel(each), ft.jit(data_parallel(each)), data_parallel(ft.jit(each))):
        with pytest.raises(ValueError, match="grad of single examples, under vmap"):
            step(W, X)
    # Within a function that is differentiated they are no means.
    inner = data_parallel(ft.grad(lambda w: fnp.sum(ft.vmap(ft.grad(lambda v: v**3))(w))))
    np.testing.assert_allclose(inner(W), 6 * W)


@pytest.mark.parametrize("scatter", [False, True])
def test_means_of_one_process_are_no_operands(scatter):
    """A plan says so of operands that nobody writes to."""
    axes = {"axis_name": tuple(ft.distributed.mesh({"i": 1}).axes_on("cpu").axes.values())}
    gradient = np.ones(4)
    params = {**axes, "scatter": scatter, "lead": 0, "owned": False}
    begun = [begin_mean.impl(gradient, **params) for _ in range(2)]
    means = [end_mean.impl(x, **axes, parts=1) for x in begun]
    assert not any(np.shares_memory(mean, gradient) for mean in means)
    np.testing.assert_array_equal(means, np.ones((2, 4)))
