"""Checks on a process for each GPU: training over NCCL against the CPU and the whole batch."""

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import data_parallel, sharded

INFO = ft.distributed.initialize(device="cuda")
COUNT, RANK = INFO.size, INFO.rank
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4 * COUNT, 5)), RNG.normal(size=(4 * COUNT, 3))
PARAMS = [
    {"b": np.zeros(7, "float32"), "w": RNG.normal(size=(5, 7))},
    {"w": RNG.normal(size=(7, 3)), "unused": np.ones(3)},
]
# Graphs are recorded after some calls of a plan.
CALLS = 8


def on_gpu(values):
    return ft.to_device(ft.tree.map(fnp.array, values), "cuda")


def own(x):
    """Returns this process's part of a batch."""
    return on_gpu(x[RANK * 4 : RANK * 4 + 4])


def loss(params, x, y):
    hidden = fnp.tanh(x @ params[0]["w"] + params[0]["b"])
    return fnp.mean((hidden @ params[1]["w"] - y) ** 2)


def assert_close(found, wanted):
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        x, y = (np.array(ft.to_device(value, "cpu")) for value in (x, y))
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-7)


def check_means_of_gradients():
    wanted = ft.value_and_grad(loss)(PARAMS, X, Y)
    for options in ({}, {"bucket_megabytes": 1e-5}, {"accumulate": 2}):
        eager = data_parallel(ft.value_and_grad(loss), **options)
        jitted = ft.jit(eager)
        for both in (eager, jitted):
            for _ in range(CALLS):
                found = both(on_gpu(PARAMS), own(X), own(Y))
            assert found[0].device == INFO.device
            assert_close(found, wanted)


def check_sharded_optimizers():
    for stage in (1, 2, 3):
        alone = ft.optim.adam(0.05)
        spread = sharded(ft.optim.adam(0.05), stage=stage)
        step = ft.jit(data_parallel(spread.minimize(loss)))
        params, whole = on_gpu(PARAMS), ft.tree.map(fnp.array, PARAMS)
        params = spread.shard(params) if stage == 3 else params
        state, whole_state = spread.init(params), alone.init(whole)
        for _ in range(CALLS):
            params, state = step(params, state, own(X), own(Y))
            whole, whole_state = alone.minimize(loss)(whole, whole_state, X, Y)
        assert_close(spread.gather(params), whole)
        assert_close(spread.gather(state), whole_state)
