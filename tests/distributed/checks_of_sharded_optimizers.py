"""Checks of optimizers that are spread over processes: results are those of one process."""

import os
from functools import partial

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.distributed import Shard, data_parallel, sharded

RANK, SIZE = ft.distributed.rank(), ft.distributed.size()
LONG = bool(os.environ.get("FUNCTENSOR_LONG_TESTS"))
ROWS = 4 * SIZE
optim = ft.optim


def drawn(*shape, dtype="float64"):
    return np.array(numpy.random.default_rng(shape).normal(size=shape).astype(dtype))


X, Y = drawn(ROWS, 5), drawn(ROWS, 3)


def own(x):
    """Returns this process's part of a batch."""
    length = len(x) // SIZE
    return x[RANK * length : (RANK + 1) * length]


def parameters():
    """Returns parameters of sizes that processes do not divide, one of them empty."""
    return [
        {"b": drawn(7, dtype="float32"), "w": drawn(5, 7)},
        {"none": np.ones((0, 2)), "w": drawn(7, 3), "unused": np.ones(())},
    ]


def loss(params, x, y):
    hidden = np.tanh(x @ params[0]["w"] + params[0]["b"])
    return np.mean((hidden @ params[1]["w"] - y) ** 2)


def assert_close(found, wanted, tolerance):
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        numpy.testing.assert_allclose(numpy.array(x), numpy.array(y), rtol=tolerance, atol=1e-7)


def assert_same_training(alone, spread, wrap, loss=loss, steps=3):
    """Checks parameters, states and losses of a training against those of one process."""
    step, whole_step = wrap(spread.minimize(loss)), alone.minimize(loss)
    params = whole = parameters()
    if spread.stage == 3:
        params = spread.shard(params)
    state, whole_state = spread.init(params), alone.init(whole)
    for _ in range(steps):
        whole, whole_state = whole_step(whole, whole_state, X, Y)
        params, state = step(params, state, own(X), own(Y))
        assert type(state) is type(whole_state)
        numpy.testing.assert_allclose(float(state.loss), float(whole_state.loss), rtol=1e-6)
    assert_close(spread.gather(params), whole, 2e-5)
    assert_close(spread.gather(state), whole_state, 2e-5)
    return params, state


def in_jit(step):
    return ft.jit(data_parallel(step))


def check_stages_under_jit():
    for stage in (1, 2, 3):
        spread = sharded(optim.adam(0.05), stage=stage)
        assert_same_training(optim.adam(0.05), spread, in_jit, steps=2)


def check_stages_in_eager_mode():
    for stage in (1, 2, 3) if LONG else (2, 3):
        spread = sharded(optim.adamw(0.05), stage=stage, bucket_megabytes=1e-5)
        assert_same_training(optim.adamw(0.05), spread, lambda step: step, steps=2)


def check_stages_with_accumulation():
    for stage in (1, 2, 3) if LONG else (2, 3):
        # The buckets of stage 3 are many, and those of a process alone.
        spread = sharded(optim.adam(0.05), stage=stage, bucket_megabytes=1e-5)
        assert_same_training(
            optim.adam(0.05), spread, partial(data_parallel, accumulate=2), steps=2
        )


def check_optimizers_within_others():
    wrappers = [
        partial(optim.accumulated, every=2),
        partial(optim.lookahead, every=2),
        partial(optim.clipped_by_value, limit=0.1),
        partial(optim.masked, mask=lambda path: "w" in path),
    ]
    for wrapper in wrappers if LONG else wrappers[:1]:
        alone = wrapper(optim.adam(0.05))
        assert_same_training(alone, sharded(alone, stage=2), in_jit, steps=2)


def check_all_optimizers():
    if not LONG:
        return
    makers = [
        optim.sgd, optim.momentum, optim.adam, optim.adamw, optim.lion, optim.adagrad,
        optim.rmsprop, optim.amsgrad, optim.adamax, optim.radam, optim.nadam, optim.rprop,
        optim.asgd,
    ]  # fmt: skip
    for number, make in enumerate(makers):
        for stage in (1, 2, 3):
            alone, wrap = make(0.01), (in_jit, data_parallel)[(number + stage) % 2]
            assert_same_training(alone, sharded(alone, stage=stage), wrap, steps=2)
    for wrapper in (optim.with_average, partial(optim.with_weight_decay, weight_decay=0.1)):
        for stage in (1, 2, 3):
            alone = wrapper(optim.adam(0.05))
            assert_same_training(alone, sharded(alone, stage=stage), in_jit, steps=2)


def check_gradients_clipped_by_a_global_norm():
    alone = optim.clipped_by_global_norm(optim.sgd(0.5), 0.01)
    for stage in (1, 2, 3) if LONG else (3,):
        spread = sharded(optim.sgd(0.5), stage=stage, max_norm=0.01)
        assert_same_training(alone, spread, in_jit, steps=2)
    around = optim.clipped_by_global_norm(sharded(optim.sgd(0.5)), 0.01)
    params, whole = parameters(), parameters()
    step = data_parallel(around.minimize(loss))
    params, _ = step(params, around.init(params), own(X), own(Y))
    whole, _ = alone.minimize(loss)(whole, alone.init(whole), X, Y)
    assert_close(params, whole, 1e-6)


def check_a_process_keeps_its_part():
    """States, and at stage 3 parameters, have one element for each process's share."""
    for stage in (1, 3):
        spread = sharded(optim.adam(0.05), stage=stage)
        params, state = assert_same_training(optim.adam(0.05), spread, in_jit, steps=1)
        shards = [state[2], state[3]] + [params] * (stage == 3)
        for tree in shards:
            shard = tree[0]["w"]
            assert type(shard) is Shard
            assert shard.part.shape == (-(-35 // SIZE),)
            assert (shard.shape, shard.count, shard.dtype) == ((5, 7), SIZE, "float64")


def check_layers_that_are_gathered_one_by_one():
    def by_layers(params, x, y):
        def hidden(layer, x):
            layer = ft.distributed.gather(layer)
            return np.tanh(x @ layer["w"] + layer["b"])

        inner = ft.checkpoint(hidden)(params[0], x)
        return np.mean((inner @ ft.distributed.gather(params[1])["w"] - y) ** 2)

    spread = sharded(optim.adam(0.05), stage=3, gathers=False)
    step = in_jit(spread.minimize(by_layers))
    params = spread.shard(parameters())
    state = spread.init(params)
    alone = optim.adam(0.05)
    whole, whole_state = parameters(), alone.init(parameters())
    for _ in range(2):
        params, state = step(params, state, own(X), own(Y))
        whole, whole_state = alone.minimize(loss)(whole, whole_state, X, Y)
    assert_close(spread.gather(params), whole, 2e-5)


def check_arrays_are_gathered_in_buckets_or_alone():
    shards = sharded(optim.adam(0.05), stage=3).shard(parameters())
    # Of float32 there is one; of float64 parts of 72, 0, 8 and 48 bytes, in this order.
    for count, nbytes in ((2, 2**20), (3, 4 * 75), (5, 0)):
        seen = []
        hook = ft.hooks.FnHook(forward=lambda op, inputs, output, seen=seen: seen.append(op))
        with ft.hooks.use(hook, match="all_gather"):
            whole = ft.distributed.gather(shards, bucket_megabytes=nbytes / 2**20)
        assert len(seen) == count
        assert_close(whole, parameters(), 0)


def check_updates_take_mean_gradients():
    alone, spread = optim.adam(0.05), sharded(optim.adam(0.05))
    grads = ft.grad(loss)(parameters(), X, Y)
    params, _ = spread.update(parameters(), spread.init(parameters()), grads)
    whole, _ = alone.update(parameters(), alone.init(parameters()), grads)
    assert_close(params, whole, 1e-12)


def check_optimizers_that_look_at_more_are_refused():
    refused = [
        (optim.lamb(0.1), "lamb looks at whole parameters"),
        (optim.adafactor(0.1), "adafactor looks at whole parameters"),
        (optim.clipped_by_norm(optim.adam(0.1), 1.0), "adam looks at whole parameters"),
        (optim.clipped_by_global_norm(optim.adam(0.1), 1.0), "adam looks at all .*max_norm=1.0"),
        (optim.apply_if_finite(optim.adam(0.1)), "apply_if_finite looks at all parameters"),
        (optim.accumulated(optim.lamb(0.1), 2), "accumulated looks at whole parameters"),
        (optim.lbfgs(), "lbfgs may look at more than an element"),
    ]
    for optimizer, words in refused:
        with pytest.raises(ValueError, match=f"(?s)sharded: {words}"):
            sharded(optimizer)
    with pytest.raises(ValueError, match="stage is 1, 2 or 3, not 4"):
        sharded(optim.adam(0.1), stage=4)
    with pytest.raises(ValueError, match="gathers=False is for stage=3"):
        sharded(optim.adam(0.1), stage=2, gathers=False)


def check_shards_are_gathered_along_the_axes_along_which_they_were_cut():
    grid = ft.distributed.mesh({"a": 2, "b": SIZE // 2})

    def around(cut, gathered):
        def both(x):
            shards = sharded(optim.sgd(0.1), cut, stage=3).shard(x)
            return ft.distributed.gather(shards, gathered)

        return ft.distributed.spmd(both, grid)(np.arange(8.0))

    for cut, gathered in ((("a", "b"), ("b", "a")), ("a", "b")):
        with pytest.raises(ValueError, match=r"is not cut along axis=.*but along \('a',"):
            around(cut, gathered)
        numpy.testing.assert_array_equal(around(cut, cut), numpy.arange(8.0))
