"""What a hook is given and may return, and what it is called in messages."""

import operator

import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use


def test_reprs_say_what_a_hook_is():
    class Mine(Hook):
        def backward(self, op, grad_inputs, grad_output):
            return None

    assert repr(Mine()) == "<Mine: backward>"
    assert repr(Hook()) == "<Hook: no methods>"
    assert "FnHook(forward=<lambda> (" in repr(FnHook(forward=lambda op, inputs, output: None))
    assert repr(ft.hooks.CompressHook("int8")) == "CompressHook('int8')"
    assert repr(ft.hooks.OffloadHook("disk")) == "<OffloadHook to disk: 0 bytes moved>"
    assert "ResidualHook(pack=<lambda> (" in repr(ft.hooks.ResidualHook(lambda op, value: value))


def test_parameters_are_there_to_read():
    def clearing(op, inputs, output):
        with pytest.raises(AttributeError):
            op.params.clear()
        seen.append(dict(op.params))

    seen = []
    with use(FnHook(forward=clearing), "sum"):
        ft.grad(lambda x: np.sum(x * x, axis=0))(np.ones(3))
    assert [params["axis"] for params in seen] == [(0,)]


def test_what_a_match_raises_names_the_hook_and_the_operation():
    def wrong(op):
        raise RuntimeError("no")

    with use(FnHook(forward=print), wrong), pytest.raises(RuntimeError) as caught:
        np.sin(1.0)
    assert "in match of the hook" in caught.value.__notes__[-1]
    assert " on sin, at " in caught.value.__notes__[-1]


def test_a_cotangent_where_there_is_none_is_refused():
    hook = FnHook(backward=lambda op, grad_inputs, grad_output: [grad_output, grad_output])
    with use(hook, "multiply"), pytest.raises(ft.errors.RuleResultError) as caught:
        ft.grad(lambda x: np.sum(x * 2.0))(np.ones(2))
    assert "returned a cotangent for operand 1, which has none" in str(caught.value)


def test_a_handle_stands_for_its_id():
    handle = use(Hook())
    assert operator.index(handle) == handle.id
    ft.hooks.remove(operator.index(handle))
    assert not handle.active
