"""Means over processes in plans, without a GPU: before which work they begin."""

import numpy as np
import pytest
from support.gpu_programs import Processes, fused, plan_of

import functensor as ft
from functensor.primitives.gradient_buckets import begin_mean, end_mean
from functensor.primitives.nn.attention import attention_grad

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")

AXIS = {"axis_name": (Processes(2),)}
SHOWN = "matmul", "attention_grad", "begin_mean", "end_mean"


def begun(x):
    return begin_mean.bind([x], {**AXIS, "scatter": False, "lead": 0})


def ended(handle):
    return end_mean.bind((handle,), {**AXIS, "parts": 1})


def order_of(function, *args):
    """Returns the names of operations of a plan, in order."""
    names = [e.primitive.name for e in plan_of(fused(function, *args)).text.program.equations]
    return [name for name in names if name in SHOWN]


def attended(x):
    q = x.reshape(2, 64, 512)
    return attention_grad.bind([q, q, q, q, q], {"causal": True, "scale": 0.1, "learned": False})


X, W = np.ones((128, 512), "f4"), np.ones((512, 512), "f4")


def test_a_mean_begins_before_the_next_derivative_of_attention():
    def layers(x, w):
        first = begun(w @ w)
        second = begun(x @ w)
        after = attended((x @ w) @ w)
        third = begun(after @ w)
        return [ended(handle) for handle in (first, second, third)]

    wanted = [
        *("matmul", "begin_mean", "matmul", "matmul", "begin_mean", "attention_grad"),
        *("matmul", "begin_mean", "end_mean", "end_mean", "end_mean"),
    ]
    assert order_of(layers, X, W) == wanted


def test_a_mean_that_is_waited_for_first_begins_at_once():
    def layers(x, w):
        mean = ended(begun(w @ w)).reshape(512, 512)
        return attended(x @ mean)

    wanted = ["matmul", "begin_mean", "end_mean", "matmul", "attention_grad"]
    assert order_of(layers, X, W) == wanted


def test_one_process_changes_no_order():
    def layers(x, w):
        gradient = ft.numpy.sum(x @ w)
        alone = begin_mean.bind([gradient], {"axis_name": (), "scatter": False, "lead": 0})
        return attended(x @ w), alone

    program = fused(layers, X, W)
    names = [e.primitive.name for e in program.equations]
    after = [e.primitive.name for e in plan_of(program).text.program.equations]
    assert [x for x in after if x in SHOWN] == [x for x in names if x in SHOWN]
