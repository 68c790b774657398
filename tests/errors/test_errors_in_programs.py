"""Errors while a program is transformed, or its plan runs, name the line of the operation."""

import numpy
import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor.errors import MissingRuleError
from functensor.primitives.core.primitive import Primitive
from functensor.primitives.core.registry import registry

X = np.array([0.5, 1.0, 2.0])
BATCH = np.ones((2, 3))
DECLARED = (
    "declare it, e.g. planted = unary('planted', lambda g, x: g * ...), or give the function a "
    "rule with ft.custom_"
)
BATCHED = "declare it with batch=..., or build the primitive with a family that supplies it"


@pytest.fixture(autouse=True)
def planted():
    """Declares a primitive without derivatives and batches, which is taken out again."""
    infer = registry.square.infer
    yield Primitive("planted", compute=lambda xp, x: x * x, infer=infer)
    registry.remove("planted")


def loss(x):
    y = np.sin(x)
    return np.sum(registry.planted(y))


def body(carry, x):
    y = np.sin(x)
    return carry + np.sum(registry.planted(y)), None


def scanned(xs):
    return ft.scan(body, 0.0, xs)[0]


def branching(x):
    return ft.cond(np.sum(x) > 0, loss, np.sum, x)


@pytest.fixture
def jitted():
    """Returns a jitted function that has its plan already."""
    f = ft.jit(loss)
    f(X)
    return f


WAYS = {
    "grad of jit": (lambda f: ft.grad(f)(X), "vjp", f"grad({defined(loss)})"),
    "vjp of jit": (lambda f: ft.vjp(f, X), "vjp", f"vjp({defined(loss)})"),
    "jvp of jit": (lambda f: ft.jvp(f, (X,), (X,)), "jvp", f"jvp({defined(loss)})"),
    "vmap of jit": (lambda f: ft.vmap(f)(BATCH), "batch", f"vmap({defined(loss)})"),
    "jit of grad of jit": (
        lambda f: ft.jit(ft.grad(f))(X),
        "vjp",
        f"jit({defined(loss)}) of grad({defined(loss)})",
    ),
    "a tensor": (lambda f: f(ft.Tensor(X, requires_grad=True)).backward(), "vjp", ""),
    "grad of scan": (
        lambda f: ft.jit(ft.grad(scanned))(BATCH),
        "vjp",
        f"jit({defined(scanned)}) of grad({defined(scanned)})",
    ),
    "jvp of scan": (
        lambda f: ft.jit(lambda xs: ft.jvp(scanned, (xs,), (xs,)))(BATCH),
        "jvp",
        None,
    ),
    "grad of cond": (
        lambda f: ft.jit(ft.grad(branching))(X),
        "vjp",
        f"jit({defined(branching)}) of grad({defined(branching)})",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_8_a_rule_that_a_staged_operation_lacks(name, jitted):
    run, mode, under = WAYS[name]
    with pytest.raises(MissingRuleError) as info:
        run(jitted)
    what = "no batch rule for 'planted'"
    if mode != "batch":
        what = f"no {mode} for 'planted' with respect to argument 0"
    if under is None:
        under = f"jit({defined(run)}) of jvp({defined(scanned)})"
    fun = body if "scan" in name else loss
    line = f"{__file__}:{fun.__code__.co_firstlineno + 2}"
    fix = BATCHED if mode == "batch" else DECLARED + mode
    assert str(info.value) == text(what, line, fix, 8, under)
    assert {str(entry.path) for entry in info.traceback} == {__file__}


class Planned(Exception):
    """An exception of the user's."""


def test_what_foreign_code_raises_in_a_plan_has_a_note_with_the_line():
    refused = []

    @ft.extend.numpy_function(result=lambda x: x)
    def foreign(x):
        if refused:
            raise Planned("mine")
        return numpy.asarray(x)

    def loss(x):
        y = x * 2.0
        return np.sum(foreign(y))

    def step(carry, x):
        return carry + loss(x), None

    def scanned(xs):
        return ft.scan(step, 0.0, xs)[0]

    line = f"{__file__}:{loss.__code__.co_firstlineno + 2}"
    for f, x, within in ((ft.jit(loss), X, "loss"), (ft.jit(scanned), BATCH, "step")):
        refused.clear()
        f(x)
        refused.append(1)
        with pytest.raises(Planned) as info:
            f(x)
        assert info.value.args == ("mine",)
        assert info.value.__notes__[0] == f"in numpy_function of {within}, at {line}"
