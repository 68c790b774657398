"""The workloads in functensor, eager (`EAGER`) and by plans (`JIT`)."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from benchmarks.data import LEARNING_RATE
from benchmarks.peers.functional import Function, Library, identity
from benchmarks.peers.numpy_losses import NumpyLosses


class Losses(NumpyLosses):
    """The losses in functensor."""

    np = fnp
    relu = staticmethod(ft.nn.relu)
    gelu = staticmethod(functools.partial(ft.nn.gelu, approximate=True))
    softmax = staticmethod(ft.nn.softmax)
    cross_entropies = staticmethod(ft.nn.softmax_cross_entropy)
    conv = staticmethod(ft.nn.conv)
    max_pool = staticmethod(functools.partial(ft.nn.max_pool, window=2))


LOSSES = Losses()
ADAM = ft.optim.adam(LEARNING_RATE)


def stages(function: Function, arguments: tuple[Any, ...]) -> dict[str, float]:
    """Seconds of what a first call does: trace, passes, plan, and the plan's first run."""
    from functensor.backends import get as get_backend
    from functensor.passes.fusion import fusion
    from functensor.passes.pipeline import optimized

    seconds = {}
    clock = time.perf_counter
    start = clock()
    program = ft.make_program(function)(*arguments)
    seconds["trace"] = clock() - start
    start = clock()
    program = fusion(optimized(program))
    seconds["passes"] = clock() - start
    start = clock()
    plan = get_backend("numpy").plan(program)
    seconds["plan"] = clock() - start
    leaves = ft.tree.leaves(arguments)
    buffers = [x if isinstance(x, (int, float)) else np.asarray(x)[()] for x in leaves]
    start = clock()
    plan(buffers)
    seconds["run"] = clock() - start
    return seconds


def address(array: Any) -> int:
    """The address of an array's elements."""
    return int(np.asarray(array).ctypes.data)


def library(compile: Function, donating: Function | None, stages: Function | None) -> Library:
    """functensor's side of the cases."""
    return Library(
        package="functensor",
        losses=LOSSES.by_workload(),
        asarray=fnp.asarray,
        grad=ft.grad,
        value_and_grad=ft.value_and_grad,
        hessian=ft.hessian,
        per_example=functools.partial(ft.vmap, in_axes=(None, 0, 0)),
        adam_init=ADAM.init,
        adam_update=ADAM.update,
        compile=compile,
        donating=donating,
        stages=stages,
        address=address,
    )


class Compiled:
    """A jitted function whose first call waits until machine code is there, as JAX's does."""

    def __init__(self, function: Function, **options: Any) -> None:
        self._jitted = ft.jit(function, **options)
        self._call: Function = self._first

    def _first(self, *args: Any) -> Any:
        self._jitted.compile(*args)
        self._call = self._jitted
        return self._jitted(*args)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


EAGER = library(identity, None, None)
# `FUNCTENSOR_NATIVE=0` is in this peer's environment: no machine code is made meanwhile.
JIT_NUMPY = library(ft.jit, functools.partial(ft.jit, donate_argnums=(0, 1)), stages)
JIT = library(Compiled, functools.partial(Compiled, donate_argnums=(0, 1)), stages)
