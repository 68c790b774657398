"""Errors of hooks name the hook, the operation and the user's line, whatever transforms it."""

import traceback

import numpy
import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor.errors import RuleResultError

X = np.array([0.5, 1.0, 2.0])
BATCH = np.ones((2, 3))
FIX = "return an array of the same shape and dtype, or None to change nothing"


def loss(x):
    return np.sum(np.sin(x) * 2.0)


LINE = f"{__file__}:{loss.__code__.co_firstlineno + 1}"


class Returns(ft.hooks.Hook):
    """Returns what a function makes of a value, after an operation or on the way back."""

    def __init__(self, phase, change):
        setattr(self, f"{phase}_changed", change)

    def forward(self, op, inputs, output):
        return self.forward_changed(output)

    def backward(self, op, grad_inputs, grad_output):
        return self.backward_changed(grad_inputs)

    def forward_changed(self, output):
        return None

    def backward_changed(self, grad_inputs):
        return None


def body(carry, x):
    return carry + loss(x), None


def tensors(x):
    loss(ft.Tensor(x, dtype="float64", requires_grad=True)).backward()


# How a function is run, the shape of a value in it, and whether there is a way back.
RUNS = {
    "eager": (lambda: loss(X), "3", False),
    "jit": (lambda: ft.jit(loss)(X), "3", False),
    "grad": (lambda: ft.grad(loss)(X), "3", True),
    "value_and_grad": (lambda: ft.value_and_grad(loss)(X), "3", True),
    "jit of grad": (lambda: ft.jit(ft.grad(loss))(X), "3", True),
    "grad of jit": (lambda: ft.grad(ft.jit(loss))(X), "3", True),
    "vjp": (lambda: ft.vjp(loss, X)[1](1.0), "3", True),
    "jvp": (lambda: ft.jvp(loss, (X,), (X,)), "3", False),
    "vmap": (lambda: ft.vmap(loss)(BATCH), "3", False),
    "vmap of grad": (lambda: ft.vmap(ft.grad(loss))(BATCH), "3", True),
    "checkpoint": (lambda: ft.grad(ft.checkpoint(loss))(X), "3", True),
    "scan": (lambda: ft.scan(body, 0.0, X), "", False),
    "jit of scan": (lambda: ft.jit(lambda x: ft.scan(body, 0.0, x))(X), "", False),
    "tensor": (lambda: tensors(X), "3", True),
}
BACK = [name for name, run in RUNS.items() if run[2]]


def message_of(hook, run, error=RuleResultError):
    """Returns what is raised under a hook on sines, without the lines about transformations."""
    with ft.hooks.use(hook, match="sin"), pytest.raises(error) as info:
        RUNS[run][0]()
    lines = str(info.value).splitlines()
    return "\n".join(line for line in lines if not line.startswith("  under ")), info.value


@pytest.mark.parametrize("run", RUNS)
def test_a_replacement_of_another_dtype_names_the_hook(run):
    got, _ = message_of(Returns("forward", lambda out: out.astype("float32")), run)
    shape = RUNS[run][1]
    what = f"the hook Returns on sin returned float32[{shape}] in place of float64[{shape}]"
    assert got == text(what, LINE, FIX, 9)


@pytest.mark.parametrize("run", BACK)
def test_a_cotangent_of_another_shape_names_the_hook_and_the_line_of_the_operation(run):
    got, _ = message_of(Returns("backward", lambda gs: [gs[0][:1]]), run)
    what = "the hook Returns on sin returned float64[1] in place of float64[3]"
    assert got == text(what, LINE, FIX, 9)


def first(op, inputs, output):
    return output[None]


RETURNED = {
    "a function": (
        ft.hooks.FnHook(forward=first),
        f"the hook {defined(first)} on sin returned float64[1, 3] in place of float64[3]",
        FIX,
    ),
    "text": (
        Returns("forward", lambda out: "text"),
        "the hook Returns on sin returned str in place of float64[3]",
        FIX,
    ),
    "a list": (
        Returns("forward", lambda out: [out]),
        "the hook Returns on sin returned list in place of float64[3]",
        FIX,
    ),
    "too many cotangents": (
        Returns("backward", lambda gs: (*gs, *gs)),
        "the hook Returns on sin returned 2 cotangents in place of the cotangents of 1 operands",
        "return a list with one for each of grad_inputs, or None to change nothing",
    ),
    "one cotangent by itself": (
        Returns("backward", lambda gs: gs[0]),
        "the hook Returns on sin returned float64[3] in place of the cotangents of 1 operands",
        "return a list with one for each of grad_inputs, or None to change nothing",
    ),
    "text for a cotangent": (
        Returns("backward", lambda gs: ["text"]),
        "the hook Returns on sin returned str in place of float64[3]",
        FIX,
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_the_whole_message_of_what_a_hook_returned(name):
    hook, what, fix = RETURNED[name]
    with ft.hooks.use(hook, match="sin"), pytest.raises(RuleResultError) as info:
        ft.grad(loss)(X)
    assert str(info.value) == text(what, LINE, fix, 9, f"grad({defined(loss)})")


# -- what a hook raises


class Planned(Exception):
    """An exception of the user's."""


class Fails(ft.hooks.Hook):
    """Raises an exception in one of its methods."""

    def __init__(self, method):
        setattr(self, method, self.fail)

    def before(self, op, values):
        return None

    def backward(self, op, grad_inputs, grad_output):
        return None

    def fail(self, *args):
        raise Planned("mine", 7)


CALLED = [(m, run) for run in RUNS for m in ("before", "forward")]
CALLED += [("backward", run) for run in BACK]


@pytest.mark.parametrize(("method", "run"), CALLED)
def test_what_a_hook_raises_keeps_its_type_and_has_a_note(method, run):
    hook = Fails(method)
    with ft.hooks.use(hook, match="sin"), pytest.raises(Planned) as info:
        RUNS[run][0]()
    assert info.value.args == ("mine", 7)
    assert traceback.extract_tb(info.value.__traceback__)[-1].name == "fail"
    note, *_ = info.value.__notes__
    assert note == f"in {method} of the hook {defined(hook.fail)} on sin, at {LINE}"


def test_a_class_is_named_whose_method_raises():
    class Divides(ft.hooks.Hook):
        def forward(self, op, inputs, output):
            return output @ np.ones((4, 4))

    with ft.hooks.use(Divides(), match="sin"), pytest.raises(ft.errors.ShapeError) as info:
        ft.jit(loss)(X)
    assert info.value.__notes__ == [f"in forward of the hook Divides on sin, at {LINE}"]
    inside = f"{__file__}:{Divides.forward.__code__.co_firstlineno + 1}"
    assert f"\n  at {inside}\n" in str(info.value)


# -- hooks of tensors


def test_a_hook_of_a_tensor_names_itself_and_the_tensor():
    x = ft.Tensor([1.0, 2.0], requires_grad=True)

    def shorter(g):
        return g[:1]

    def run():
        (x * 2).sum().backward()

    handle = x.register_hook(shorter)
    line = f"{__file__}:{run.__code__.co_firstlineno + 1}"
    with pytest.raises(RuleResultError) as info:
        run()
    fix = "return a gradient of the same shape, or None to leave it as it is"
    named = f"the hook {defined(shorter)} of tensor {x.id} (float32[2])"
    what = f"{named} returned float32[1] in place of its gradient float32[2]"
    assert str(info.value) == text(what, line, fix, 9)
    handle.remove()

    def fails(g):
        raise Planned

    x.register_hook(fails)
    with pytest.raises(Planned) as info:
        run()
    (note,) = info.value.__notes__
    assert note == f"in the hook {defined(fails)} of tensor {x.id} (float32[2]), at {line}"


def test_a_complex_gradient_of_a_hook_is_refused():
    x = ft.Tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: numpy.asarray(g.tolist()) * 1j)
    with pytest.raises(RuleResultError, match=r"a complex gradient of the hook <lambda> \("):
        x.sum().backward()


def test_what_a_hook_raises_on_the_way_back_is_no_fault_of_the_rule():
    def fails(op, grad_inputs, grad_output):
        raise OSError("no space left")

    hook = ft.hooks.FnHook(backward=fails)
    with ft.hooks.use(hook, "sin"), pytest.raises(OSError, match="no space") as info:
        ft.grad(loss)(X)
    (note,) = info.value.__notes__
    assert note == f"in backward of the hook {defined(fails)} on sin, at {LINE}"


def test_a_hook_that_calls_itself_is_named_once():
    def again(op, inputs, output):
        watched(X)

    watched = ft.hooks.wrap(np.sin, ft.hooks.FnHook(forward=again))
    with pytest.raises(RecursionError) as info:
        watched(X)
    notes = info.value.__notes__
    assert len(notes) == len(set(notes)) <= 2
