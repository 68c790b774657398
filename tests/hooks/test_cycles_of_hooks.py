"""Runs under hooks leave no reference cycles: what they made is freed at once."""

import gc
import weakref

import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, MemoryHook, OffloadHook, ResidualHook, TimerHook, use

CHECKPOINTED = ft.checkpoint(lambda y: np.sin(y) * y)
X = np.ones(3)


def f(x):
    return np.sum(np.sin(CHECKPOINTED(np.exp(x))))


def looks(*args):
    return None


RUNS = {
    "evaluated": lambda: f(X),
    "grad": lambda: ft.grad(f)(X),
    "hessian": lambda: ft.hessian(f)(X),
    "vmap of grad": lambda: ft.vmap(ft.grad(f))(np.stack([X, X])),
    "scan": lambda: ft.grad(lambda x: ft.scan(lambda c, y: (np.sin(c) * y, c), x[0], x)[0])(X),
    "tensor": lambda: np.sin(ft.tensor(X, requires_grad=True)).sum().backward(),
}
HOOKS = {
    "forward": lambda: FnHook(forward=looks),
    "backward": lambda: FnHook(backward=looks),
    "both": lambda: FnHook(looks, looks),
    "residuals": ResidualHook,
    "files": lambda: OffloadHook("disk", min_bytes=0),
    "timer": TimerHook,
    "memory": MemoryHook,
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("run", RUNS)
def test_nothing_is_left_for_the_garbage_collector(run, hook):
    given = HOOKS[hook]()

    def hooked():
        with use(given):
            RUNS[run]()

    hooked()
    gc.collect()
    gc.disable()
    try:
        hooked()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [lambda: lambda grad: None, lambda: FnHook(looks, looks)])
def test_a_tensors_hook_that_was_not_removed_dies_with_the_tensor(make):
    def hooked():
        x = ft.tensor(X, requires_grad=True)
        hook = make()
        x.register_hook(hook)
        np.sum(x * x).backward()
        return weakref.ref(hook)

    gc.disable()
    try:
        assert hooked()() is None
    finally:
        gc.enable()
