"""Plans on a GPU give the same where results take the memory of inputs: NumPy stands for CuPy."""

import random
from itertools import accumulate, pairwise

import numpy as np
import pytest
from support.gpu_programs import fused, plan_of
from support.long_forms import LONG

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")



def halves(x):
    """Returns both halves of a matrix, whose cotangents are joined on the way back."""
    return fnp.split(x, 2, axis=-1)


# Functions of matrices; the first ones return views.
STEPS = (
    lambda a, b: a.T,
    lambda a, b: a[::-1],
    lambda a, b: a.reshape(16)[::-1].reshape(4, 4),
    lambda a, b: fnp.broadcast_to(a[:1], (4, 4)),
    lambda a, b: fnp.real(a),
    lambda a, b: ft.vjp(halves, b)[1](halves(a))[0],
    lambda a, b: ft.scan(lambda c, y: (c, y), a, b)[0],
    lambda a, b: fnp.sin(a) * 2,
    lambda a, b: a + b * 0.5,
    lambda a, b: a @ b * 0.1,
    lambda a, b: fnp.sum(a * b, 1, keepdims=True) + a,
    lambda a, b: nn.softmax(a * 1.5, -1) - b,
    lambda a, b: fnp.concatenate([a[:2], b[2:]]),
    lambda a, b: fnp.where(b > 0, a, b),
)
# Shapes in which one array is the memory of several leaves.
LEAF_SHAPES = (4, 4), (16,), (2, 8)


def function_of(seed):
    """Returns a random function of matrices, which returns some of them."""

    def function(*args):
        chance, values = random.Random(seed), [*args]
        for _ in range(chance.randint(2, 10)):
            a, b = chance.choice(values), chance.choice(values)
            values.append(chance.choice(STEPS)(a, b))
        return [chance.choice(values) for _ in range(chance.randint(1, 4))]

    return function


def leaves_of(seed):
    """Returns a random function of matrices, in which many regions are of one text."""

    def function(*args):
        chance, values = random.Random(seed), [*args]
        for _ in range(chance.randint(4, 10)):
            a, b = chance.choice(values), chance.choice(values)
            if chance.random() < 0.3:
                values.append(a @ b * 0.1)
            shape = chance.choice(LEAF_SHAPES)
            values.append((a.reshape(shape) * 2 - b.reshape(shape)).reshape(4, 4))
        return [chance.choice(values) for _ in range(chance.randint(1, 6))]

    return function


def run_of(region):
    """Returns what stands for a region."""
    return lambda *operands, into=(): run_of_program(region._region.program, operands, into)


def run_of_program(program, operands, into):
    """Computes a region's outputs, and spoils memory that it may only write into."""
    for memory in into:
        if memory is not None and not any(x is memory for x in operands):
            memory[...] = np.nan
    given = [fnp.asarray(np.array(x)) for x in operands]
    outs = [np.array(x) for x in program.run(given)]
    for i, memory in enumerate(into):
        if memory is not None:
            memory[...] = outs[i]
            outs[i] = memory
    return outs


def slices_of(counts):
    """Returns slices of so many values, one behind the other."""
    return [slice(*pair) for pair in pairwise(accumulate(counts, initial=0))]


def run_of_group(run):
    """Returns what stands for a group of regions and products, which run in any order."""

    def of_all(*operands, into=(), known=None):
        outs = {}
        taken = slices_of([len(member.operands) for member in run._members])
        places = slices_of([len(member.outputs) for member in run._members])
        for number in random.Random(len(operands)).sample(range(len(places)), len(places)):
            given = operands[taken[number]]
            memory = into[places[number]] if into else ()
            outs[number] = run_of_program(run._members[number].primitive.program, given, memory)
        return [x for number in range(len(places)) for x in outs[number]]

    return of_all


def moved(x, into):
    """Stands for what moves a result into donated memory."""
    into[...] = np.array(x)
    return into


def joined(*values, shape, keys):
    """Stands for what adds values at places: no copy where values lie there already."""
    whole, out = values[0].base, np.zeros(shape, values[0].dtype)
    if whole is not None and whole.shape == shape:
        views = [whole[key.native] for key in keys]
        if all(x.ctypes.data == v.ctypes.data for x, v in zip(values, views, strict=True)):
            return whole
    for x, key in zip(values, keys, strict=True):
        out[key.native] += x
    return out


def put_on_numpy(scope):
    """Has what a plan calls run on NumPy's memory."""
    from functensor.backends.cuda.plan.joint_run import JointRun
    from functensor.backends.cuda.plan.leaf_run import LeafRun
    from functensor.backends.cuda.plan.plan_text import moved_into
    from functensor.backends.cuda.plan.region_run import GpuRegion

    for name, value in [*scope.items()]:
        if isinstance(value, GpuRegion):
            scope[name] = run_of(value)
        elif isinstance(value, LeafRun | JointRun):
            scope[name] = run_of_group(value)
        elif value is moved_into:
            scope[name] = moved
        elif name == "scatter_add":
            scope[name] = joined


@pytest.mark.parametrize("made", [function_of, leaves_of], ids=["any", "leaves"])
# In the last short one two leaves of a group read what one of them might write.
@pytest.mark.parametrize("seed", range(2000) if LONG else [*range(60), 169])
def test_donated_memory_is_written_when_nothing_else_lies_there(seed, made):
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=(4, 4)).astype("f4") for _ in range(1 + seed % 3)]
    function = made(seed)
    wanted = [np.array(x) for x in function(*[fnp.asarray(x.copy()) for x in args])]
    plan = plan_of(fused(function, *args), range(len(args)), apart=False)
    put_on_numpy(plan.queue.__globals__)
    memory = [args[i] for i in plan.text.taken.values()]
    for x, y in zip(plan.queue(*args, *memory), wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-4)


def test_memory_is_not_written_where_parts_of_it_were_joined_without_a_copy():
    def function(a, w):
        split = ft.vjp(lambda x: fnp.split(x, 3, axis=-1), w)[1]
        whole = split(fnp.split(a, 3, axis=-1))[0]
        return fnp.sin(a) * 2, whole @ w.T

    rng = np.random.default_rng(0)
    a, w = (rng.normal(size=(4, 12)).astype("f4") for _ in range(2))
    wanted = [np.array(x) for x in function(fnp.asarray(a.copy()), fnp.asarray(w))]
    plan = plan_of(fused(function, a, w), [0], apart=False)
    scope = plan.queue.__globals__
    memory = [[a, w][i] for i in plan.text.taken.values()]
    assert "scatter_add" in scope
    assert memory
    put_on_numpy(scope)
    for x, y in zip(plan.queue(a, w, *memory), wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-4)
