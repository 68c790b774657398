"""The jobs in functensor; each works in eager code and in compiled code alike."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import functensor as ft
import functensor.numpy as np
from benchmarks.hooks_beside import jobs
from benchmarks.hooks_beside.jobs import Compile, Jobs, Run

JOBS: Jobs = {}
entered = jobs.entering(JOBS)
W = [np.asarray(w) for w in jobs.WEIGHTS]
X = np.asarray(jobs.X)
POSITIVE = np.ones((jobs.ROWS, jobs.WIDTH), np.float32)


def loss(w: Any, x: Any) -> Any:
    """The model, with a name for its second hidden layer and a scope."""
    with ft.scope("block"):
        h = np.tanh(np.tanh(x @ w[0]) @ w[1])
    return np.sum((ft.tag(h, "hidden") @ w[2]) ** 2)


def log_loss(x: Any) -> Any:
    """A sum of logarithms, and of more operations after it."""
    return np.sum(np.tanh(np.log(x)) * 2)


def sqrt_loss(x: Any) -> Any:
    """A value whose derivative is zero over zero where x is zero."""
    return np.sum(np.where(x > 0, np.sqrt(x), 0))


def plain(kind: str, compile: Compile) -> Run:
    """Returns the work without tools."""
    if kind == "forward":
        fun = compile(loss)
        return lambda: fun(W, X)
    if kind == "gradient":
        fun = compile(ft.value_and_grad(loss))
        return lambda: fun(W, X)
    fun = compile(log_loss if kind == "log" else ft.grad(sqrt_loss))
    return lambda: fun(POSITIVE)


@entered("look at every operation", "forward")
def every_operation(compile: Compile) -> Run:
    fun = compile(loss)
    def run():
        seen = []
        hook = ft.hooks.FnHook(forward=lambda op, inputs, out: seen.append((op.name, out)))
        with ft.hooks.use(hook):
            fun(W, X)
        return [name for name, out in seen]
    return run


@entered("look at a layer's activations", "forward")
def activations(compile: Compile) -> Run:
    fun = compile(ft.hooks.capture(loss, "hidden"))
    return lambda: fun(W, X)[1]["hidden"]


@entered("gradient of a value on the way", "gradient")
def gradient_of_value(compile: Compile) -> Run:
    fun = compile(ft.hooks.capture_grads(loss, "hidden"))
    return lambda: fun(W, X)[1]["hidden"]


@entered("replace a value", "forward")
def replace(compile: Compile) -> Run:
    fun = compile(ft.hooks.edit(loss, "hidden", lambda h: np.minimum(h, jobs.CEILING)))
    return lambda: fun(W, X)


@entered("clip gradients inside", "gradient")
def clip(compile: Compile) -> Run:
    clipped = ft.hooks.clip_gradients(loss, "hidden", max_value=jobs.LIMIT)
    fun = compile(ft.value_and_grad(clipped))
    return lambda: fun(W, X)[1][1]


@entered("first NaN, forward", "log")
def nan_forward(compile: Compile) -> Run:
    fun = compile(log_loss)
    def run(x=POSITIVE):
        with ft.hooks.check_finite():
            return fun(x)
    return run


@entered("first NaN, backward", "sqrt")
def nan_backward(compile: Compile) -> Run:
    fun = compile(ft.grad(sqrt_loss))
    def run(x=POSITIVE):
        with ft.hooks.check_finite():
            return fun(x)
    return run


@entered("time per operation", "gradient")
def time_per_operation(compile: Compile) -> Run:
    fun = compile(ft.value_and_grad(loss))
    def run():
        timer = ft.hooks.TimerHook()
        with ft.hooks.use(timer):
            fun(W, X)
        return {key: times.inclusive for key, times in timer.times().items()}
    return run


@entered("memory per scope", "forward")
def memory_per_scope(compile: Compile) -> Run:
    fun = compile(loss)
    def run():
        memory = ft.hooks.MemoryHook()
        with ft.hooks.use(memory):
            fun(W, X)
        return {scope: found.peak for scope, found in memory.scopes().items()}
    return run


@entered("offload what backward saved", "gradient")
def offload(compile: Compile) -> Run:
    policy = ft.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["hidden"]
    )
    fun = compile(ft.value_and_grad(ft.checkpoint(loss, policy=policy)))
    return lambda: fun(W, X)[1][2]


@entered("convert all that backward saved", "gradient")
def convert(compile: Compile) -> Run:
    pack, unpack = lambda op, x: x.astype("float64"), lambda op, x: x.astype("float32")
    fun = compile(ft.value_and_grad(loss))
    def run():
        with ft.hooks.use(ft.hooks.ResidualHook(pack, unpack)):
            return fun(W, X)[1][2]
    return run
