"""What a hook is given and may return, and what it is called in messages."""

import operator
import threading

import numpy
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


def test_edit_wants_a_value():
    edited = ft.hooks.edit(np.sin, "sin", lambda h: None)
    with pytest.raises(ft.errors.RuleResultError) as caught:
        edited(np.ones(2))
    assert "on sin returned None" in str(caught.value)


@pytest.mark.parametrize("limit", [True, "a", np.ones(()), None])
def test_limits_of_gradients_are_numbers(limit):
    with pytest.raises((TypeError, ValueError)) as caught:
        ft.hooks.clip_gradients(np.sin, max_norm=limit)
    assert str(caught.value).startswith("clip_gradients takes ")


def test_capture_grads_names_the_function_that_is_no_scalar():
    with pytest.raises(TypeError) as caught:
        ft.hooks.capture_grads(np.sin, "sin")(np.ones(2))
    assert "capture_grads of sin: the result is float64[2], not a real scalar" in str(caught.value)
    assert f"at {__file__}:" in str(caught.value)


def test_messages_call_a_tag_by_its_name():
    seen = []
    with use(FnHook(forward=lambda op, inputs, output: seen.append(repr(op))), "h"):
        ft.tag(np.ones(2), "h")
    assert seen[0].startswith("<tag 'h' at ")


FUNCTIONS = {
    "tag": lambda x: ft.tag(np.sin(x), "b"),
    "tag and arithmetic": lambda x: ft.tag(np.sin(x) * 2, "b") * x,
    "cond": lambda x: ft.cond(x > 0, lambda x: ft.tag(np.sin(x), "b"), lambda x: x, x),
    "checkpoint": ft.checkpoint(lambda x: ft.tag(np.sin(x), "b")),
    "nested jit": ft.jit(lambda x: ft.tag(np.sin(x), "b") * 3),
}
WAYS = {
    "value": lambda f: f,
    "jit": ft.jit,
    "grad": ft.grad,
    "jit of grad": lambda f: ft.jit(ft.grad(f)),
    "grad of jit": lambda f: ft.grad(ft.jit(f)),
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (x,))[1],
    "grad of grad": lambda f: ft.grad(ft.grad(f)),
    "jit of jvp": lambda f: ft.jit(lambda x: ft.jvp(f, (x,), (x,))[1]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_of_pythons_are_as_good_as_arrays(name, way):
    """A hook replaces what is computed of a number, in the function and around it."""
    hook = FnHook(forward=lambda op, inputs, output: 3 * output)
    edited = ft.hooks.edit(FUNCTIONS[name], "b", lambda h: 3 * h)
    wrapped = ft.hooks.wrap(FUNCTIONS[name], hook, "b")

    def within(x):
        with use(hook, "b"):
            return FUNCTIONS[name](x)

    wanted = WAYS[way](edited)(np.asarray(1.25))
    for fun in (edited, wrapped, within):
        run = WAYS[way](fun)
        for _ in range(3):
            numpy.testing.assert_allclose(run(1.25), wanted, rtol=1e-14)


def test_a_tagged_number_decides_no_dtype():
    w = np.ones(3, dtype="float32")
    for f in (lambda x: ft.tag(x * 2, "b") * w, lambda x: ft.tag(x, "b") * w):
        assert f(1.5).dtype == ft.jit(f)(1.5).dtype == "float32"


def generated(x):
    yield np.sin(x)


async def awaited(x):
    return np.sin(x)


async def iterated(x):
    yield np.sin(x)


WITH_HOOKS = {
    "wrap": lambda fun: ft.hooks.wrap(fun, Hook()),
    "capture": lambda fun: ft.hooks.capture(fun, "sin"),
    "capture_grads": lambda fun: ft.hooks.capture_grads(fun, "sin"),
    "edit": lambda fun: ft.hooks.edit(fun, "sin", np.cos),
    "clip_gradients": lambda fun: ft.hooks.clip_gradients(fun, max_norm=1.0),
}


@pytest.mark.parametrize("fun", [generated, awaited, iterated])
@pytest.mark.parametrize("name", WITH_HOOKS)
def test_a_function_that_runs_after_its_call_is_refused(name, fun):
    with pytest.raises(TypeError) as caught:
        WITH_HOOKS[name](fun)
    first, *_, fix = str(caught.value).splitlines()
    assert first.startswith(f"{name} was given {fun.__name__}, a generator function or an async")
    assert fix == f"  fix: ft.hooks.{name} of a plain function, within it"


def test_an_ended_handle_has_no_block():
    handle = use(Hook())
    handle.remove()
    with pytest.raises(RuntimeError, match=r"<handle \d+ of Hook, removed> does not begin again"):
        handle.__enter__()
    with use(Hook()) as left:
        assert left.__enter__() is left
    with pytest.raises(RuntimeError, match=r"fix: with ft.hooks.use\(hook\) as handle:"), left:
        raise AssertionError


def test_a_handle_has_no_block_in_another_thread():
    seen, raised = [], []
    handle = use(FnHook(forward=lambda op, inputs, output: seen.append(op.name)))

    def work():
        try:
            with handle:
                np.cos(1.0)
        except RuntimeError as error:
            raised.append(str(error).splitlines())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    ((what, *_, fix),) = raised
    assert what == f"{handle!r} is of another thread: its hook sees no operations of this one"
    assert fix == "  fix: with handle.shared():"
    # It goes on in its own thread.
    with handle:
        np.sin(1.0)
    assert seen == ["sin"]


def test_a_handle_that_was_ended_by_another_thread_has_no_block():
    handle = use(Hook())
    thread = threading.Thread(target=handle.remove)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="does not begin again"), handle:
        raise AssertionError


def test_a_tag_that_looks_numbered_takes_no_other_value():
    def f(x):
        for i, name in enumerate(["h", "h:1", "h", "h", "h:1"], 1):
            x = ft.tag(x + i, name)
        return x

    _, values = ft.hooks.capture(f, ["h", "h:1"])(np.zeros(()))
    found = {name: float(value) for name, value in values.items()}
    assert found == {"h": 1.0, "h:1": 3.0, "h:2": 6.0, "h:3": 10.0, "h:1:1": 15.0}
    _, gradients = ft.hooks.capture_grads(f, ["h", "h:1"])(np.zeros(()))
    assert list(gradients) == list(values)
