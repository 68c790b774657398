"""A GPU's memory: it holds no more after a thousand steps than after ten, and nothing is lost."""

import gc

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get

pytestmark = pytest.mark.gpu


def used():
    """Returns the bytes in use on the current GPU."""
    return get("cupy").memory()["used"]


def test_no_growth_over_a_thousand_steps():
    opt = ft.optim.adam(1e-3)
    with ft.default_device("cuda"):
        keys = ft.random.split(ft.random.key(0), 3)
        params = {"w": ft.random.normal(keys[0], (64, 64)), "b": fnp.zeros(64)}
        x, y = ft.random.normal(keys[1], (32, 64)), ft.random.normal(keys[2], (32, 64))
        state = opt.init(params)
    step = opt.minimize(lambda p, x, y: fnp.mean((fnp.tanh(x @ p["w"] + p["b"]) - y) ** 2))
    gc.disable()
    try:
        for _ in range(10):
            params, state = step(params, state, x, y)
        before = used()
        for _ in range(1000):
            params, state = step(params, state, x, y)
        assert used() <= before
    finally:
        gc.enable()
    assert state.loss.device == "cuda:0"


def test_backward_holds_one_cotangent_of_a_long_chain():
    x = ft.to_device(np.linspace(0, 1, 1 << 18), "cuda")

    def chain(x):
        for _ in range(50):
            x = fnp.negative(x)  # keeps nothing for the way back
        return fnp.sum(x)

    ft.grad(chain)(x)
    pool = get("cupy").xp.get_default_memory_pool()
    pool.free_all_blocks()
    ft.grad(chain)(x)
    assert pool.total_bytes() < 12 * x.nbytes


def test_too_large_an_array_says_so_and_the_next_one_is_made():
    before = used()
    total = get("cupy").memory()["total"]
    with pytest.raises(MemoryError, match=r"(?i)out of memory allocating [\d,]+ bytes"):
        fnp.zeros(2 * total, "uint8", device="cuda")
    assert fnp.sum(fnp.ones(1000, device="cuda")).item() == 1000
    assert used() <= before + 8192
