"""What ``lower`` returns is pickled with its programs, and its code is written anew."""

import copy
import pickle

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

W = np.asarray(numpy.arange(9.0).reshape(3, 3))
X = numpy.array([0.5, 1.5, 2.5])


@ft.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (x * 2, ()), lambda residuals, g: (g * 2,))


FUNCTIONS = {
    "elementwise": lambda x: np.exp(x) * np.sin(x) + x / (1 + x * x),
    "constant": lambda x: W @ x,
    "arguments among the results": lambda x: {"a": x, "b": (x, [x * 2])},
    "index": lambda x: x[1:] * x[0],
    "grad": ft.grad(lambda x: np.sum(np.sin(x) ** 2)),
    "cond": lambda x: ft.cond(x[0] > 0, np.sin, np.cos, x),
    "scan": lambda x: ft.scan(lambda c, v: (c * v, c), x[0], x),
    "grad of scan": ft.grad(lambda x: ft.scan(lambda c, v: (c * v, None), x[0], x)[0]),
    "while_loop": lambda x: ft.while_loop(lambda c: c[0] < 9, lambda c: c * 2 + W[0], x),
    "jit": lambda x: ft.jit(np.sin)(x),
    "random": lambda x: ft.random.normal(ft.random.key(0), (3,)) * x,
}


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}], ids=["kept", "donated"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lowered_functions_are_pickled(name, options):
    f = ft.jit(FUNCTIONS[name], **options)
    wanted = ft.tree.leaves(f(np.array(X)))  # which makes plans, and derived programs
    lowered = f.lower(np.array(X))
    again = pickle.loads(pickle.dumps(lowered))
    assert repr(again) == repr(lowered)
    for part in ("program", "optimized", "source"):
        assert str(getattr(again, part)) == str(getattr(lowered, part)), part
    assert str(again.cost()) == str(lowered.cost())
    found = again.program(np.array(X))
    for got, known in zip(ft.tree.leaves(found), wanted, strict=True):
        numpy.testing.assert_allclose(got, known, rtol=1e-14)
    for program in (lowered.program, lowered.optimized):
        assert str(pickle.loads(pickle.dumps(program))) == str(program)
    assert copy.deepcopy(lowered) is copy.copy(lowered) is lowered


@pytest.mark.parametrize(
    "f",
    [
        lambda x: doubled(x) + 1,
        lambda x: ft.checkpoint(lambda y: np.sin(y))(x),
        lambda x: ft.scan(lambda c, v: (doubled(c), v), x[0], x)[0],
    ],
    ids=["custom_vjp", "checkpoint", "within scan"],
)
def test_code_that_programs_do_not_hold_is_named(f):
    lowered = ft.jit(f).lower(X)
    with pytest.raises(TypeError, match=r"the program of <lambda> calls .* at .*\.py:\d+") as info:
        pickle.dumps(lowered)
    assert "\n  fix: pickle the function, and lower it where it is loaded" in str(info.value)
    assert copy.deepcopy(lowered) is lowered
