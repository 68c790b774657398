"""Hooks see an operation as one, and change no bit, where derivatives need it in steps.

Of matrices with 64 rows and more, reverse and forward mode keep the factors.
"""

import numpy
import pytest
from test_identity_hooks import Observing, Returning, bits

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, use

draw = numpy.random.RandomState(0)
A = np.asarray(draw.randn(64, 64) / 8 + 2 * numpy.eye(64))
X = np.asarray(draw.randn(64))
FUNCTIONS = {
    "solve": lambda a, x: np.sum(np.sin(np.linalg.solve(a, x))),
    "det": lambda a, x: np.sin(np.linalg.det(a * 0.5)),
    "slogdet": lambda a, x: np.sin(np.linalg.slogdet(a)[1]),
}


def doubled(op, grad_inputs, grad_output):
    return [None if c is None else 2 * c for c in grad_inputs]


def of_tensors(f):
    def run(a, x):
        given = [ft.Tensor(v, requires_grad=True) for v in (a, x)]
        f(*given).backward()
        return [v.grad for v in given if v.grad is not None]

    return run


TRANSFORMATIONS = {
    "grad": ft.grad,
    "tensors": of_tensors,
    "twice": lambda f: ft.grad(lambda a, x: np.sum(ft.grad(f)(a, x) ** 2)),
    "jvp": lambda f: lambda a, x: ft.jvp(f, (a, x), (a + 1, x)),
    "jvp of grad": lambda f: lambda a, x: ft.jvp(ft.grad(f), (a, x), (a + 1, x)),
    "grad of vmap": lambda f: ft.grad(
        lambda a, x: np.sum(ft.vmap(f)(np.stack([a, a + 1]), np.stack([x, 2 * x])))
    ),
    "vmap of grad": lambda f: lambda a, x: ft.vmap(ft.grad(f), (0, None))(np.stack([a, 2 * a]), x),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f)),
    "linearize": lambda f: lambda a, x: ft.linearize(lambda a: f(a, x), a)[1](a),
}


@pytest.mark.parametrize("mode", TRANSFORMATIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_bit_identical(name, mode):
    run = TRANSFORMATIONS[mode](FUNCTIONS[name])
    plain = bits(run(A, X))
    for hooks in ([Observing()], [Returning(), Observing()]):
        with use(hooks[0]), use(hooks[-1]):
            assert bits(run(A, X)) == plain


@pytest.mark.parametrize("mode", ["grad", "tensors", "twice", "grad of vmap", "checkpoint"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_its_cotangents_are_seen(name, mode):
    run, seen = TRANSFORMATIONS[mode](FUNCTIONS[name]), []
    count = 2 if name == "solve" else 1
    with use(FnHook(backward=lambda op, gi, g: seen.append((op.name, len(gi))))):
        run(A, X)
    assert {found for found in seen if found[0] == name} == {(name, count)}
    assert not [found for found in seen if "factors" in found[0]]


@pytest.mark.parametrize("mode", ["grad", "tensors", "grad of vmap", "jit"])
def test_its_cotangents_are_replaced(mode):
    run = {**TRANSFORMATIONS, "jit": lambda f: ft.jit(ft.grad(f))}[mode](FUNCTIONS["solve"])
    plain = ft.tree.leaves(run(A, X))
    with use(FnHook(backward=doubled), "solve"):
        found = ft.tree.leaves(run(A, X))
    for a, b in zip(found, plain, strict=True):
        numpy.testing.assert_allclose(a, 2 * b, rtol=1e-12, atol=1e-13)
