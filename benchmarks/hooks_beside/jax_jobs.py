"""The jobs in JAX, jitted: an argument of the model, debug_nans, checkify, the profiler."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def"

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import checkify

from benchmarks.hooks_beside import jobs
from benchmarks.hooks_beside.jobs import Compile, Jobs, Run

JOBS: Jobs = {}
entered = jobs.entering(JOBS)
W = [jnp.asarray(w) for w in jobs.WEIGHTS]
X = jnp.asarray(jobs.X)
POSITIVE = jnp.ones((jobs.ROWS, jobs.WIDTH))
wait = jax.block_until_ready


def loss(w: Any, x: Any, at: Any = lambda h: h) -> Any:
    """The model, which calls a function at its second hidden layer: JAX has no hooks."""
    with jax.named_scope("block"):
        h = jnp.tanh(jnp.tanh(x @ w[0]) @ w[1])
    return jnp.sum((at(checkpoint_name(h, "hidden")) @ w[2]) ** 2)


def log_loss(x: Any) -> Any:
    """A sum of logarithms, and of more operations after it."""
    return jnp.sum(jnp.tanh(jnp.log(x)) * 2)


def sqrt_loss(x: Any) -> Any:
    """A value whose derivative is zero over zero where x is zero."""
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0))


def plain(kind: str, compile: Compile) -> Run:
    """Returns the work without tools."""
    if kind == "forward":
        fun = compile(loss)
        return lambda: wait(fun(W, X))
    if kind == "gradient":
        fun = compile(jax.value_and_grad(loss))
        return lambda: wait(fun(W, X))
    fun = compile(log_loss if kind == "log" else jax.grad(sqrt_loss))
    return lambda: wait(fun(POSITIVE))


@entered("look at every operation", "forward")
def every_operation(compile: Compile) -> Run:
    closed = jax.make_jaxpr(loss)(W, X)
    def run():
        program, seen = closed.jaxpr, []
        values = dict(zip(program.invars, [*W, X]))
        def read(v):
            return v.val if hasattr(v, "val") else values[v]
        for equation in program.eqns:
            params = equation.primitive.get_bind_params(equation.params)
            out = equation.primitive.bind(*map(read, equation.invars), **params)
            outs = out if equation.primitive.multiple_results else [out]
            values.update(zip(equation.outvars, outs))
            seen.append((equation.primitive.name, outs))
        return wait(seen) and [name for name, outs in seen]
    return run


@entered("look at a layer's activations", "forward")
def activations(compile: Compile) -> Run:
    seen = {}
    def at(h):
        jax.debug.callback(lambda value: seen.update(hidden=value), h)
        return h
    fun = compile(lambda w, x: loss(w, x, at))
    return lambda: (wait(fun(W, X)), jax.effects_barrier(), seen["hidden"])[2]


@entered("gradient of a value on the way", "gradient")
def gradient_of_value(compile: Compile) -> Run:
    def moved(w, e):
        return loss(w, X, lambda h: h + e)
    fun = compile(jax.value_and_grad(moved, argnums=(0, 1)))
    zeros = jnp.zeros((jobs.ROWS, jobs.WIDTH))
    return lambda: wait(fun(W, zeros))[1][1]


@entered("replace a value", "forward")
def replace(compile: Compile) -> Run:
    fun = compile(lambda w, x: loss(w, x, lambda h: jnp.minimum(h, jobs.CEILING)))
    return lambda: wait(fun(W, X))


@entered("clip gradients inside", "gradient")
def clip(compile: Compile) -> Run:
    @jax.custom_vjp
    def clipped(h):
        return h
    clipped.defvjp(lambda h: (h, None), lambda _, g: (jnp.clip(g, -jobs.LIMIT, jobs.LIMIT),))
    fun = compile(jax.value_and_grad(lambda w, x: loss(w, x, clipped)))
    return lambda: wait(fun(W, X))[1][1]


@entered("first NaN, forward", "log")
def nan_forward(compile: Compile) -> Run:
    fun = compile(checkify.checkify(log_loss, errors=checkify.nan_checks))
    def run(x=POSITIVE):
        error, out = wait(fun(x))
        error.throw()
        return out
    return run


@entered("first NaN, backward", "sqrt")
def nan_backward(compile: Compile) -> Run:
    fun = compile(checkify.checkify(jax.grad(sqrt_loss), errors=checkify.nan_checks))
    def run(x=POSITIVE):
        error, out = wait(fun(x))
        error.throw()
        return out
    return run


@entered("time per operation", "gradient")
def time_per_operation(compile: Compile) -> Run:
    fun = compile(jax.value_and_grad(loss))
    def run():
        times = Counter()
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                wait(fun(W, X))
            (path,) = Path(folder).rglob("*.xplane.pb")
            data = jax.profiler.ProfileData.from_file(str(path))
        for plane in data.planes:
            for line in plane.lines:
                for event in line.events:
                    times[event.name] += event.duration_ns
        return times
    return run


@entered("offload what backward saved", "gradient")
def offload(compile: Compile) -> Run:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["hidden"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    fun = compile(jax.value_and_grad(jax.checkpoint(loss, policy=policy)))
    return lambda: wait(fun(W, X))[1][2]
