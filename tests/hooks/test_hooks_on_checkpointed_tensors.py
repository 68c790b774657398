"""Checkpointed functions of tensors run again under hooks, as without them."""

import numpy
import pytest
from support.noting_hook import Noting
from test_identity_hooks import Returning, bits

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, MemoryHook, use

W = np.asarray(numpy.random.RandomState(0).randn(6, 6))


def chain(w):
    return np.tanh((w.T @ w) @ np.sin(w[0]) * 0.1)


def gradient(f, hook=None, **options):
    """Returns the gradient of a function of a tensor, under a hook."""
    w = ft.Tensor(W, requires_grad=True)
    if hook is None:
        (np.sum(f(w)) + np.sum(w[0] * w[1])).backward()
    else:
        with use(hook, **options):
            (np.sum(f(w)) + np.sum(w[0] * w[1])).backward()
    return w.grad


def counted(f, runs):
    def run(w):
        runs.append(w)
        return f(w)

    return ft.checkpoint(run)


@pytest.mark.parametrize("match", ["tanh", "no such operation", None])
def test_they_run_twice_and_keep_every_bit(match):
    runs = []
    plain = bits(gradient(ft.checkpoint(chain)))
    for hook in (Returning(), FnHook(forward=lambda op, inputs, output: None)):
        runs.clear()
        assert bits(gradient(counted(chain, runs), hook, match=match)) == plain
        assert len(runs) == 2


def test_hooks_see_the_first_run_and_on_request_the_second():
    wanted, once, twice = Noting(), Noting(), Noting()
    gradient(chain, wanted)
    gradient(ft.checkpoint(chain), once)
    assert once.seen == wanted.seen
    gradient(ft.checkpoint(chain), twice, on_replay=True)
    assert [each for each in twice.seen if each[0] != "replay"] == wanted.seen
    again = [name for phase, name in twice.seen if phase == "replay"]
    assert again == [name for phase, name in wanted.seen if phase == "forward"][: len(again)]
    assert again


@pytest.mark.parametrize("nested", [False, True])
def test_replaced_values_are_replaced_again(nested):
    def halved():
        return FnHook(
            forward=lambda op, inputs, output: output / 2,
            backward=lambda op, grad_inputs, g: [3 * grad_inputs[0]],
        )

    inner = ft.checkpoint(chain) if nested else chain
    found = gradient(ft.checkpoint(lambda w: inner(w) * 2), halved(), match="tanh")
    wanted = gradient(lambda w: chain(w) * 2, halved(), match="tanh")
    numpy.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_hook_that_ended_sees_nothing_of_the_second_run():
    hook, w = Noting(), ft.Tensor(W, requires_grad=True)
    with use(hook, on_replay=True):
        out = np.sum(ft.checkpoint(chain)(w))
    before = list(hook.seen)
    out.backward()
    assert hook.seen == before
    assert bits(w.grad) == bits(gradient_of_sum(ft.checkpoint(chain)))


def gradient_of_sum(f):
    w = ft.Tensor(W, requires_grad=True)
    np.sum(f(w)).backward()
    return w.grad


def test_memory_is_that_of_checkpoints():
    def deep(w):
        for _ in range(10):
            w = np.tanh(w)
        return w

    def kept(f):
        memory, w = MemoryHook(), ft.Tensor(W, requires_grad=True)
        with use(memory):
            out = f(w)
            held = memory.live
        np.sum(out).backward()
        return held

    assert kept(ft.checkpoint(deep)) * 5 < kept(deep)
