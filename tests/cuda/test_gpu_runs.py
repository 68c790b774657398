"""Whole training steps on a GPU: nothing waits, memory does not grow, runs can be repeated."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn, optim
from functensor.backends import get as get_backend
from functensor.jitting import gpu_tiers

pytestmark = pytest.mark.gpu

WAIT = r"""
extern "C" __global__ void wait(long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
"""
WORDS, WIDTH, TOKENS = 50, 32, 16


def perceptron(params, x, labels):
    x = nn.linear(x.reshape(len(x), -1), params["w1"], params["b1"], nn.relu)
    return np.mean(nn.softmax_cross_entropy(nn.linear(x, params["w2"], params["b2"]), labels))


def convolutional(params, x, labels):
    x = nn.max_pool(nn.relu(nn.conv(x, params["conv"], params["bias"])), 2)
    x = nn.linear(x.reshape(len(x), -1), params["w"], params["b"])
    return np.mean(nn.softmax_cross_entropy(x, labels))


def transformer(params, tokens, targets):
    x = nn.embedding(params["embedding"], tokens)
    h = nn.layer_norm(x, params["scale"], params["shift"])
    q, k, v = np.split(h @ params["qkv"], 3, axis=-1)
    x = x + nn.attention(q, k, v, causal=True) @ params["out"]
    x = x + nn.gelu(x @ params["up"], approximate=True) @ params["down"]
    return np.mean(nn.softmax_cross_entropy(x @ params["head"], targets))


def made(name):
    """Returns a loss, its parameters and a batch, as NumPy arrays."""
    rng = numpy.random.default_rng(0)

    def normal(*shape):
        return (0.2 * rng.standard_normal(shape)).astype("float32")

    images, labels = normal(8, 1, 10, 10), rng.integers(0, 5, 8)
    if name == "perceptron":
        params = {"w1": normal(100, 32), "b1": normal(32), "w2": normal(32, 5), "b2": normal(5)}
        return perceptron, params, (images, labels)
    if name == "convolutional":
        params = {"conv": normal(4, 1, 3, 3), "bias": normal(4), "w": normal(64, 5), "b": normal(5)}
        return convolutional, params, (images, labels)
    params = {"embedding": normal(WORDS, WIDTH), "qkv": normal(WIDTH, 3 * WIDTH)}
    params |= {"out": normal(WIDTH, WIDTH), "up": normal(WIDTH, 64), "down": normal(64, WIDTH)}
    params |= {"scale": normal(WIDTH), "shift": normal(WIDTH), "head": normal(WIDTH, WORDS)}
    text = rng.integers(0, WORDS, (4, TOKENS + 1))
    return transformer, params, (text[:, :-1].copy(), text[:, 1:].copy())


NAMES = ["perceptron", "convolutional", "transformer"]
# No array of a step takes more memory.
LARGEST_BLOCK_BYTES = 2**15


def stepper(name):
    """Returns a function that makes a training step on the GPU and returns parameters and loss."""
    loss, params, batch = made(name)
    optimizer = optim.adam(1e-3)
    held = list(ft.to_device((params, batch), "cuda"))
    held.append(optimizer.init(held[0]))
    gradient = ft.value_and_grad(loss)

    def step():
        value, grads = gradient(held[0], *held[1])
        held[0], held[2] = optimizer.update(held[0], held[2], grads)
        return held[0], value

    return step


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_the_same_as_on_the_cpu(name):
    loss, params, batch = made(name)
    value, grads = ft.value_and_grad(loss)(params, *batch)
    there, by = ft.to_device((params, batch), "cuda")
    got, got_grads = ft.to_device(ft.value_and_grad(loss)(there, *by), "cpu")
    numpy.testing.assert_allclose(got, value, rtol=1e-5)
    for key, grad in grads.items():
        limit = 1e-5 * float(np.max(np.abs(grad)))
        numpy.testing.assert_allclose(got_grads[key], grad, rtol=1e-4, atol=limit, err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_waits_for_the_gpu(name):
    import cupy

    step = stepper(name)
    for _ in range(3):
        step()
    wait = cupy.RawKernel(WAIT, "wait")
    wait((1,), (1,), (numpy.int64(1),))
    cupy.cuda.runtime.deviceSynchronize()
    busy = cupy.cuda.Event(disable_timing=True)
    wait((1,), (1,), (numpy.int64(2 * 10**9),))
    busy.record()
    _, loss = step()
    assert not busy.done
    assert numpy.isfinite(float(loss))
    assert busy.done


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow(name):
    import cupy

    pool = cupy.get_default_memory_pool()
    step = stepper(name)
    used, held = [], []
    for _ in range(5):
        for _ in range(250):
            step()
        used.append(pool.used_bytes())
        held.append(pool.total_bytes())
    assert max(used) == used[0]
    # Python's garbage collector comes when it likes, and the pool may take a block more. A leak
    # would take one in every round, and much more than a block in a thousand steps.
    assert len(set(held)) < len(held)
    assert max(held) <= held[0] + LARGEST_BLOCK_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_a_deterministic_run_is_repeated_bit_by_bit(name):
    def run():
        step = stepper(name)
        for _ in range(20):
            params, loss = step()
        return ft.to_device((params, loss), "cpu")

    with ft.config.using(deterministic=True):
        first, second = run(), run()
    for a, b in zip(ft.tree.leaves(first), ft.tree.leaves(second), strict=True):
        numpy.testing.assert_array_equal(a, b)


def test_the_same_key_gives_the_same_numbers():
    def draw():
        key = ft.random.key(7)
        return {
            "bits": ft.random.bits(key, (1001,)),
            "uniform": ft.random.uniform(key, (1001,), "float32"),
            "permutation": ft.random.permutation(key, 1001),
            "weights": nn.init.he_normal()(key, (64, 32), "float32"),
        }

    here = draw()
    with ft.default_device("cuda"):
        there = ft.to_device(draw(), "cpu")
    for name in ("bits", "uniform", "permutation"):
        numpy.testing.assert_array_equal(there[name], here[name], err_msg=name)
    # The inverse error function is another one.
    numpy.testing.assert_allclose(there["weights"], here["weights"], rtol=2e-6, atol=1e-8)


def test_memory_that_runs_out_is_told_and_the_next_call_works():
    free = get_backend("cupy").memory()["free"]
    with pytest.raises(MemoryError, match=r"\d"):
        np.zeros(2 * free, "uint8", device="cuda")
    assert float(np.sum(np.ones(1000, device="cuda"))) == 1000.0


def test_a_failed_compilation_is_warned_of(monkeypatch):
    def broken(program, backend):
        raise ZeroDivisionError("no kernels today")

    monkeypatch.setattr(gpu_tiers, "gpu_program", broken)
    jitted = ft.jit(lambda x: np.sum(np.sin(x) * x))
    x = ft.to_device(numpy.ones(4), "cuda")
    first = jitted(x)
    found = jitted._last.compiled.tiers
    assert found._job.wait(60)
    assert "ZeroDivisionError: no kernels today" in str(found._job.error)
    assert "no kernels today" in found.note
    assert float(jitted(x)) == float(first)
