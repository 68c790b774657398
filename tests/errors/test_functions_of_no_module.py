"""Functions whose globals name no module, as those made by ``eval`` may."""

import itertools
import random

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

BODIES = [
    "1.0 / 0",
    "{}[i]",
    "1 if i > 0 else 2",
    "numpy.ones(i)",
    "np.ones(2) @ np.ones(3)",
    "np.log(i * 0) + c",
    "f'{i}'",
    "numpy.add(i, random.random())",
    "c + i.nothing",
]
CALLS = {
    "fori_loop": lambda f: ft.fori_loop(0, 2, f, 0.0),
    "jit": lambda f: ft.jit(f)(1.0, 0.0),
    "grad": lambda f: ft.grad(f)(1.0, 0.0),
    "vmap": lambda f: ft.vmap(f)(np.ones(2), np.ones(2)),
    "scan": lambda f: ft.scan(lambda c, i: (f(i, c), c), 0.0, np.ones(2)),
    "scan itself": lambda f: ft.scan(f, 0.0, np.ones(2)),
    "jvp": lambda f: ft.jvp(f, (1.0, 1.0), (1.0, 1.0)),
    "hessian": lambda f: ft.hessian(f)(1.0, 1.0),
    "apply_along_axis": lambda f: np.apply_along_axis(f, 0, np.ones(3), 2.0),
}


def outcome(call, f):
    """Returns the class of what a call raises, or None."""
    try:
        call(f)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_they_raise_what_others_raise(name, checked):
    known = {"numpy": numpy, "np": np, "random": random}
    for body, missing in itertools.product(BODIES, ({}, {"__name__": None})):
        text = f"lambda i, c: {body}"
        f, other = eval(text, {**known, **missing}), eval(text, {**known, "__name__": "mine"})
        with ft.config.using(check_tracer_leaks=checked):
            assert outcome(CALLS[name], f) is outcome(CALLS[name], other), body


def test_the_users_exception_is_raised():
    with pytest.raises(ZeroDivisionError):
        ft.fori_loop(0, 2, eval("lambda i, c: 1.0 / i", {}), 0.0)
    with pytest.raises(KeyError, match="mine"):
        ft.scan(eval("lambda c, x: {}['mine']", {"__name__": None}), 0.0, np.ones(2))
