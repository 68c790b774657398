"""Constants of machine code that lie in memory in another order."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native.segment_run import SegmentRun
from functensor.backends.native.machine import why_not
from functensor.jitting.tiers import native_program
from functensor.passes import constants_in_order as in_order
from functensor.testing import assert_allclose

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

WEIGHTS = fnp.asarray(np.linspace(-1, 1, 6 * 8).reshape(6, 8))
TURNED = WEIGHTS.reshape(2, 3, 8).transpose(1, 2, 0)
ROW = fnp.asarray(np.linspace(1, 2, 6))
X = np.linspace(-2, 2, 4 * 8).reshape(4, 8)

FUNCTIONS = {
    "a transposed factor": lambda x: fnp.tanh(x @ WEIGHTS.T),
    "a transposed array": lambda x: fnp.tanh(WEIGHTS.T * x[0, 0]) + 1,
    "axes in turn": lambda x: fnp.tanh(TURNED * x[0, :2]),
    "backwards": lambda x: fnp.tanh(x * WEIGHTS[0][::-1]) + x,
    "every second": lambda x: fnp.tanh(x[:, :4] * WEIGHTS[:4, ::2]) + 1,
    "repeated": lambda x: fnp.tanh(x[:, :6] * fnp.broadcast_to(ROW, (4, 6))) + 1,
}
# A large array that repeats elements is brought in order in each call.
SIZES = [(name, most) for name in FUNCTIONS for most in (0, 1 << 20) if most or name != "repeated"]


def compiled(f, *args):
    jitted = ft.jit(f)
    jitted.compile(*args)
    return jitted


@pytest.mark.parametrize(("name", "most"), SIZES)
def test_constants_are_brought_in_order_once(name, most, monkeypatch):
    def refused(segment, *arrays):
        raise AssertionError("an array is brought in order")

    monkeypatch.setattr(SegmentRun, "again", refused)
    monkeypatch.setattr(in_order, "MOST_COPIED_CONSTANT", most)
    jitted = compiled(FUNCTIONS[name], X)
    assert_allclose(jitted(X), FUNCTIONS[name](X))


def test_a_large_transposed_constant_is_not_copied(monkeypatch):
    monkeypatch.setattr(in_order, "MOST_COPIED_CONSTANT", 0)
    program = native_program(ft.make_program(FUNCTIONS["a transposed factor"])(X))
    kept = [x for e in program.equations for x in e.operands if isinstance(x, ft.Array)]
    assert [x.shape for x in kept] == [(6, 8)]
    assert np.shares_memory(np.asarray(kept[0]), np.asarray(WEIGHTS))


def test_equal_constants_are_copied_once():
    turned = WEIGHTS.T
    program = ft.make_program(lambda x: (x @ turned, (x + 1) @ turned))(X)
    kept = [x for e in native_program(program).equations for x in e.operands]
    kept = [x for x in kept if isinstance(x, ft.Array)]
    assert len(kept) == 2
    assert kept[0] is kept[1]


def test_a_program_with_all_constants_in_order_stays_as_it_is():
    program = ft.make_program(lambda x: x @ np.ones((8, 2)))(X)
    assert in_order.constants_in_order(program) is program
