"""Plans of programs that Hypothesis composes, in straight lines and in blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.long_forms import sized
from support.random_programs import arrays, program, steps

import functensor as ft
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.regions import (
    block_source,
    broadcast_rows,
    cost,
    region_run,
)
from functensor.backends.cpu.plan.threads import pool
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized
from functensor.programs import Program

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
BACKEND = get_backend("numpy")


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    """Makes blocks so small that small arrays have many, and has two threads share them."""
    patch = pytest.MonkeyPatch()
    patch.setattr(block_source, "SMALLEST_BLOCK_ELEMENTS", 1)
    patch.setattr(block_source, "LARGEST_BLOCK_ELEMENTS", 7)
    patch.setattr(region_run, "SMALLEST_SHARED_EFFORT", 0)
    patch.setattr(cost, "SMALLEST_SHARED_EFFORT", 0)
    patch.setattr(broadcast_rows, "SMALLEST_OUTER_ELEMENTS", 1)
    patch.setattr(broadcast_rows, "SMALLEST_ROWWISE_ELEMENTS", 1)
    patch.setattr(pool.threads, "number", 2)
    yield
    patch.undo()


def public(x):
    """Returns an argument as a user has it: an array, or a number."""
    return ft.numpy.asarray(x) if isinstance(x, np.ndarray) else x


def copies(operands):
    """Returns operands that nothing writes into."""
    return [np.copy(x) for x in operands]


def agree(got, wanted, before, operands):
    """Checks results against eager mode's, and that nothing was written into operands."""
    for x, copy in zip(operands, before, strict=True):
        np.testing.assert_array_equal(x, copy)
    for a, b in zip(got, wanted, strict=True):
        b = b._data if isinstance(b, ft.Array) else np.asarray(b)
        a = np.asarray(a)
        assert np.shape(a) == np.shape(b)
        assert a.dtype == b.dtype
        assert not any(np.may_share_memory(a, x) for x in operands if np.ndim(x))
        if b.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(a, b)


def plain(program):
    """Returns the program of flat lists."""
    return Program(program.name, program.inputs, program.equations, program.outputs)


@given(arrays(), steps())
@settings(max_examples=sized(40, 150))
def test_plans_agree_with_eager_mode(operands, chosen):
    fun = program(chosen)
    staged = plain(ft.make_program(fun)(*operands))
    wanted = fun(*map(public, operands))
    before = copies(operands)
    for made in (staged, fusion(staged, 2), fusion(optimized(staged), 2)):
        plan = BACKEND.plan(made)
        for _ in range(2):
            agree(plan(operands), wanted, before, operands)


@given(arrays(), steps())
def test_donated_inputs_are_overwritten_and_nothing_else(operands, chosen):
    fun = program(chosen)
    staged = fusion(plain(ft.make_program(fun)(*operands)), 2)
    wanted = fun(*map(public, operands))
    plan = BACKEND.plan(staged, donated=(0, 1))
    given_up = [x.copy() for x in operands[:2]]
    rest = operands[2:]
    agree(plan([*given_up, *rest]), wanted, copies(rest), rest)
