"""Checkpointed functions, rules and solvers run again with the globals that they ran with."""

from itertools import pairwise

import pytest
from support.trees import close

import functensor as ft
import functensor.numpy as np
from functensor.scipy.integrate import odeint

scale = 1.0
calls = 0
TABLE = {}


def scaled(x):
    return x * scale


def through(x):
    return scaled(x) * LATER if x.shape else scaled(x)  # noqa: F821 - see below


def power(x, n=3):
    return scaled(x) * power(x, n - 1) if n else scaled(x)


def counted(x):
    global calls
    calls += 1
    return x * calls


def looked_up(x):
    return scaled(x) * TABLE[scaled] * TABLE["same"]


@pytest.fixture(autouse=True)
def _globals(monkeypatch):
    monkeypatch.setitem(globals(), "scale", 2.0)
    monkeypatch.setitem(globals(), "calls", 0)
    monkeypatch.setitem(TABLE, scaled, 3.0)
    monkeypatch.setitem(TABLE, "same", 1.0)


def changed_scale(value):
    global scale
    scale = value


def ruled(x):
    fun = ft.custom_vjp(scaled)
    fun.defvjp(lambda x: (scaled(x), x), lambda x, g: (scaled(g),))
    return fun(x)


def solved(x):
    return odeint(lambda y, t: -scaled(y), x[None], np.array([0.0, 1.0]))[-1, 0]


FUNCTIONS = {
    "a global": ft.checkpoint(scaled),
    "through another": ft.checkpoint(through),
    "recursive": ft.checkpoint(power),
    "within a lambda": ft.checkpoint(lambda x: (lambda y: scaled(y) * scale)(x)),
    "a table": ft.checkpoint(looked_up),
    "a rule": ruled,
    "a solver": solved,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("stages", [False, True])
def test_globals_that_change_before_the_way_back(name, stages):
    fun = ft.jit(FUNCTIONS[name]) if stages else FUNCTIONS[name]
    x = np.array(1.5)
    wanted = ft.grad(fun)(x)
    _, pull = ft.vjp(fun, x)
    changed_scale(7.0)
    close(pull(1.0)[0], wanted)
    if not stages and name == "a global":
        # A later run reads what stands there then.
        close(ft.grad(fun)(x), 7.0)


def test_functions_that_assign_to_globals_assign_to_theirs():
    _, pull = ft.vjp(ft.checkpoint(counted), 1.0)
    close(pull(1.0)[0], 2.0)
    assert calls == 2


def test_a_global_that_is_defined_later_is_found_then():
    with pytest.raises(NameError, match="LATER"):
        ft.vjp(ft.checkpoint(through), np.ones(2))


keys = ft.random.KeyStream(0)


def drawn(x):
    return x * ft.random.normal(next(keys))


def drawn_through(x):
    return drawn(x) + 0 * scaled(x)


@pytest.mark.parametrize("function", [drawn, drawn_through])
def test_streams_of_keys_among_globals_give_the_same_keys_again(function):
    checkpointed = ft.checkpoint(function)
    for _ in range(2):
        value, grad = ft.value_and_grad(checkpointed)(np.asarray(1.0))
        close(grad, value)
    value, grads = ft.vjp(checkpointed, np.asarray(1.0))
    for _ in range(2):
        close(grads(np.asarray(1.0))[0], value)


ruled_at_the_top = ft.custom_vjp(scaled)
ruled_at_the_top.defvjp(lambda x: (scaled(x), x), lambda x, g: (scaled(g),))


def test_functions_with_rules_among_globals():
    checkpointed = ft.checkpoint(lambda x: ruled_at_the_top(x) * 1.0)
    value, grads = ft.vjp(checkpointed, np.asarray(1.0))
    changed_scale(7.0)
    close(grads(np.asarray(1.0))[0], value)


def test_functions_that_read_many_others_are_not_copied():
    names = [f"link_{i}" for i in range(40)]
    module = {"__name__": "__main__", "value": 1.0}
    lines = [f"def {name}(x): return {after}(x)" for name, after in pairwise(names)]
    exec("\n".join([*lines, f"def {names[-1]}(x): return x * value"]), module)
    x = np.array(2.0)
    close(ft.grad(ft.checkpoint(module[names[0]]))(x), 1.0)
    _, pull = ft.vjp(ft.checkpoint(module[names[30]]), x)
    module["value"] = 5.0
    close(pull(1.0)[0], 1.0)
