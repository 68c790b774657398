"""Regions take the elements that broadcasting says, and what says otherwise is found out."""

from itertools import combinations, permutations

import numpy as np
import pytest
from support.small_limits import lower_limits

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.codegen.source import Source
from functensor.backends.cpu.plan.regions.block_source import BlockCode
from functensor.backends.cpu.plan.regions.block_steps import Blockwise
from functensor.backends.cpu.plan.regions.proofs import PlanError, prove_region
from functensor.passes.fused_region import Region
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized
from functensor.programs import ProgramError, check

RNG = np.random.default_rng(7)
SQUARE, CUBE, ROW = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4, 4)), RNG.normal(size=4)
DEEP = RNG.normal(size=(4, 4, 3))
LABELS = np.array([3, 0, 1, 1])


def elsewhere(x):
    m = fnp.sum(x, 1)
    return fnp.sin(m) * x, m


def both_ways(x):
    m, n = fnp.max(x, 1), fnp.mean(x, 1)
    return fnp.exp(m) * x - fnp.cos(n)[:, None], fnp.tanh(m), n


def cubic(x):
    m = fnp.mean(x, (1, 2))
    n = fnp.sum(x, 2)
    return fnp.sin(m) * x + fnp.cos(n), fnp.sum(fnp.exp(n) * x, 1), m, n


def weighted(x):
    m = fnp.mean(x, 1)
    return nn.layer_norm(x, fnp.sin(m), fnp.cos(m)), m


# By name a function and its arguments, of equal lengths wherever that may mislead.
PROGRAMS = {
    "a sum of rows along the last axis": (elsewhere, SQUARE),
    "two of them, along both axes": (both_ways, SQUARE),
    "of a cube": (cubic, CUBE),
    "a sum of rows as a weight": (weighted, SQUARE),
    "a column and a row of the same": (lambda x: x[:, None] * fnp.sin(x) + x, ROW),
    "a product of rows in a cube": (lambda x, v: fnp.sum(fnp.sum(x, 2) * v, 1), CUBE, ROW),
    "means": (lambda x, v: fnp.sum(fnp.mean(x, 2) * v, 1), CUBE, ROW),
    "maxima": (lambda x, v: fnp.sum(v * fnp.max(x, 2), 1), CUBE, ROW),
    "derivatives of batches": (
        ft.jacrev(ft.vmap(lambda x, v: fnp.sum(fnp.sum(x, 1) * v), (0, None)), 1), CUBE, ROW,
    ),
    "a loss of rows in a cube": (
        lambda x, z: nn.softmax_cross_entropy(x, LABELS)[:, None, None] * fnp.sin(z), SQUARE, DEEP,
    ),
    "labels beside a cube": (
        lambda x, z: fnp.sum(ft.grad(lambda x: fnp.sum(nn.softmax_cross_entropy(x, LABELS)))(x), 1)
        [:, None, None] + fnp.sin(z), SQUARE, CUBE,
    ),
    "rows of another dtype in a cube": (
        lambda x, v, z: fnp.sum(nn.layer_norm(x, v), 1)[:, None, None] * fnp.sin(z),
        SQUARE, ROW.astype("f4"), CUBE,
    ),
    "a matrix by a vector in a cube": (
        lambda x, v, z: (x @ v)[:, None, None] * fnp.sin(z), SQUARE, ROW, CUBE,
    ),
    "a vector by a matrix beside a cube": (
        lambda x, v, z: (v @ fnp.sin(x), fnp.sin(x)[:, :, None] * z), SQUARE, ROW, CUBE,
    ),
    "a sum of quotients": (lambda x: fnp.sum(fnp.sin(x) / fnp.cos(x), 1), SQUARE),
    "a matrix by a constant": (lambda x: fnp.sin(x @ fnp.ones(4)), SQUARE),
}  # fmt: skip


def agree(fun, args):
    """Compares what a function gives when it is jitted with what it gives."""
    got, wanted = ft.jit(fun)(*args), fun(*args)
    for a, b in zip(*[x if type(x) is tuple else (x,) for x in (got, wanted)], strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("others", [False, True], ids=["small blocks", "large blocks"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_lengths_do_not_mislead(name, others, monkeypatch):
    lower_limits(monkeypatch, others)
    fun, *args = PROGRAMS[name]
    agree(fun, args)


@pytest.mark.parametrize("shape", [(300, 300), (8, 2000, 8)], ids=str)
def test_a_sum_of_rows_of_a_large_array(shape):
    x = np.random.default_rng(3).normal(size=shape)

    def fun(x):
        m = fnp.sum(x, tuple(range(1, x.ndim)))
        return fnp.sin(m) * x, m

    agree(fun, [x])


def test_sums_of_sums_of_large_arrays():
    x, v = np.ones((300, 3, 100)), np.array([1.0, 2.0, 3.0])
    for reduced in (fnp.sum, fnp.mean, fnp.max):
        agree(lambda x, v, reduced=reduced: fnp.sum(reduced(x, 2) * v, 1), [x, v])


# -- faults are found


def regions_of(name, monkeypatch):
    """Returns a program with regions, and the calls of these."""
    lower_limits(monkeypatch)
    fun, *args = PROGRAMS[name]
    program = fusion(optimized(ft.make_program(fun)(*args)), 1)
    regions = [e for e in program.equations if isinstance(e.primitive, Region)]
    assert regions
    return program, regions


def other_places(place, shape, grid):
    """Returns all other places of the grid where a value of a shape could lie."""
    long = [a for a, n in enumerate(shape) if n != 1]
    for axes in combinations(range(len(grid)), len(long)):
        if all(grid[axis] == shape[a] for a, axis in zip(long, axes, strict=True)):
            other = [None] * len(shape)
            for a, axis in zip(long, axes, strict=True):
                other[a] = axis
            if tuple(other) != place:
                yield tuple(other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_other_place_is_refused(name, monkeypatch):
    program, regions = regions_of(name, monkeypatch)
    check(program)
    count = 0
    for equation in regions:
        region = equation.primitive
        for variable, place in list(region.places.items()):
            for other in other_places(place, variable.type.shape, region.grid):
                monkeypatch.setitem(region.places, variable, other)
                with pytest.raises(ProgramError, match=r"of the grid|block"):
                    check(program)
                monkeypatch.setitem(region.places, variable, place)
                count += 1
    check(program)
    assert count or "cube" not in name


def test_values_that_are_not_ready_are_refused(monkeypatch):
    program, regions = regions_of("a sum of rows along the last axis", monkeypatch)
    region = regions[0].primitive
    # Blocks are cut along the first axis: the same program over a grid turned round.
    for variable, place in list(region.places.items()):
        turned = tuple(None if axis is None else 1 - axis for axis in place)
        monkeypatch.setitem(region.places, variable, turned)
    with pytest.raises(ProgramError):
        check(program)


def codes_of(name, monkeypatch):
    """Yields what is written for the regions of a program, over axes in both orders."""
    _, regions = regions_of(name, monkeypatch)
    kernels = get_backend("numpy").kernels
    for equation in regions:
        region = equation.primitive
        for order in (None, (0, *reversed(range(1, len(region.grid))))):
            code = BlockCode("b", Blockwise(region, equation.operands, kernels, Source(), order))
            yield code, region, order


def refused(patch, code, region, order, *changed):
    """Says that a change of an attribute is found out."""
    prove_region(code, region, order)
    with patch.context() as inner:
        inner.setattr(*changed)
        with pytest.raises(PlanError):
            prove_region(code, region, order)


@pytest.mark.parametrize("name", ["two of them, along both axes", "of a cube"])
def test_other_axes_of_blocks_are_refused(name, monkeypatch):
    for found in codes_of(name, monkeypatch):
        code, region, _ = found
        axes = range(len(code.grid.shape))
        for i, (value, how) in enumerate(zip(code.inputs, code.shapes, strict=True)):
            around = code.shapes[:i], code.shapes[i + 1 :]
            for groups in map(frozenset, combinations(axes, len(value.groups))):
                if groups != value.groups:
                    refused(monkeypatch, *found, value, "groups", groups)
                    other = how[0], code.grid.joined(groups)
                    refused(monkeypatch, *found, code, "shapes", [*around[0], other, *around[1]])
            rank = range(len(region.places[region.program.inputs[i]]))
            for turned in permutations(rank):
                if turned != (tuple(rank) if how[0] is None else how[0]):
                    other = turned, how[1]
                    refused(monkeypatch, *found, code, "shapes", [*around[0], other, *around[1]])
        for step in code.steps:
            if step.made is not None and step.form.startswith("np.") and step.made.groups:
                refused(monkeypatch, *found, step.made, "groups", frozenset())
        for i, output in enumerate(code.outputs):
            rank = range(len(output.type.shape))
            for turned in permutations(rank):
                if turned != (tuple(rank) if output.axes is None else output.axes):
                    changed = [*code.outputs]
                    changed[i] = output._replace(axes=turned)
                    refused(monkeypatch, *found, code, "outputs", changed)


def test_memory_that_is_taken_too_early_is_found_out(monkeypatch):
    code, *rest = next(codes_of("a sum of quotients", monkeypatch))
    kept = [x.made for x in code.steps if x.made is not None and x.made.slot is not None]
    assert len({value.slot for value in kept}) > 1
    for value in kept:
        value.slot = 0
    with pytest.raises(PlanError, match="overwritten"):
        prove_region(code, *rest)


def test_every_plan_is_proved(monkeypatch):
    """Regions of every plan are checked if programs are, as in tests."""
    lower_limits(monkeypatch)
    asked = []

    def noted(code, region, order):
        asked.append(code)
        prove_region(code, region, order)

    monkeypatch.setattr("functensor.backends.cpu.plan.regions.proofs.prove_region", noted)
    for checked in (False, True):
        with ft.config.using(check_programs=checked):
            ft.jit(elsewhere)(SQUARE)
        assert bool(asked) is checked
