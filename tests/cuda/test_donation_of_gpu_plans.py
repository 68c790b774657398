"""Plans on a GPU give the same where results take the memory of inputs: NumPy stands for CuPy."""

import random

import numpy as np
import pytest
from support.gpu_programs import fused, plan_of
from support.long_forms import LONG

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")

# Functions of matrices; the first ones return views.
STEPS = (
    lambda a, b: a.T,
    lambda a, b: a[::-1],
    lambda a, b: a.reshape(16)[::-1].reshape(4, 4),
    lambda a, b: fnp.broadcast_to(a[:1], (4, 4)),
    lambda a, b: fnp.real(a),
    lambda a, b: ft.scan(lambda c, y: (c, y), a, b)[0],
    lambda a, b: fnp.sin(a) * 2,
    lambda a, b: a + b * 0.5,
    lambda a, b: a @ b * 0.1,
    lambda a, b: fnp.sum(a * b, 1, keepdims=True) + a,
    lambda a, b: nn.softmax(a * 1.5, -1) - b,
    lambda a, b: fnp.concatenate([a[:2], b[2:]]),
    lambda a, b: fnp.where(b > 0, a, b),
)


def function_of(seed):
    """Returns a random function of matrices, which returns some of them."""

    def function(*args):
        chance, values = random.Random(seed), [*args]
        for _ in range(chance.randint(2, 10)):
            a, b = chance.choice(values), chance.choice(values)
            values.append(chance.choice(STEPS)(a, b))
        return [chance.choice(values) for _ in range(chance.randint(1, 4))]

    return function


def run_of(region):
    """Returns what stands for a region: it spoils memory that it may only write into."""

    def run(*operands, into=()):
        for memory in into:
            if memory is not None and not any(x is memory for x in operands):
                memory[...] = np.nan
        given = [fnp.asarray(np.array(x)) for x in operands]
        outs = [np.array(x) for x in region._region.program.run(given)]
        for i, memory in enumerate(into):
            if memory is not None:
                memory[...] = outs[i]
                outs[i] = memory
        return outs

    return run


def moved(x, into):
    """Stands for what moves a result into donated memory."""
    into[...] = np.array(x)
    return into


@pytest.mark.parametrize("seed", range(2000 if LONG else 60))
def test_donated_memory_is_written_when_nothing_else_lies_there(seed):
    from functensor.backends.cuda.plan.plan_text import moved_into
    from functensor.backends.cuda.plan.region_run import GpuRegion

    rng = np.random.default_rng(seed)
    args = [rng.normal(size=(4, 4)).astype("f4") for _ in range(1 + seed % 3)]
    function = function_of(seed)
    wanted = [np.array(x) for x in function(*[fnp.asarray(x.copy()) for x in args])]
    plan = plan_of(fused(function, *args), range(len(args)), apart=False)
    scope = plan.queue.__globals__
    for name, value in [*scope.items()]:
        if isinstance(value, GpuRegion):
            scope[name] = run_of(value)
        elif value is moved_into:
            scope[name] = moved
    memory = [args[i] for i in plan.text.taken.values()]
    for x, y in zip(plan.queue(*args, *memory), wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-4)
