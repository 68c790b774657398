"""Plans that call what no text tells are on the disk, and make the calls of their own process."""

import numpy as np
import pytest
from support.kept_plans import bits, check_another_process, compiled, counted, files, plan_of
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import hooks
from functensor.backends.native.object_cache import PLAN
from functensor.jitting import program_key
from functensor.scipy.integrate import odeint

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

X = np.linspace(-2, 2, 24).reshape(4, 6)
TIMES = np.linspace(0, 1, 4)


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Returns counts, with an empty folder for plans."""
    return counted(tmp_path, monkeypatch)


def pendulum(x):
    states = odeint(lambda y, t: -fnp.sin(y) * fnp.cos(t), fnp.exp(x) * 2, TIMES)
    return fnp.sum(fnp.tanh(states) ** 2)


def within_a_loop(x):
    matrix = fnp.eye(300)

    def step(c, _):
        return fnp.linalg.eigvalsh(matrix * c[0])[:6] + fnp.eye(2000)[0, :6] + c, None

    return ft.scan(step, fnp.exp(x[0]), None, length=2)[0]


FUNCTIONS = {
    "a diagonal": lambda x: (fnp.tanh(x) @ fnp.eye(6, 3000)) * 2,
    "a triangle": lambda x: (fnp.tanh(x) @ fnp.tri(6, 3000)) * 2,
    "a range": lambda x: fnp.tanh(x)[:, :1] * fnp.arange(9000.0) + fnp.linspace(0, 1, 9000),
    "an equation": pendulum,
    "the gradient of an equation": ft.grad(pendulum),
    "the tangent of an equation": lambda x: ft.jvp(pendulum, (x,), (x,))[1] + fnp.sin(x),
    "a batch of equations": ft.vmap(ft.value_and_grad(pendulum)),
    "a loop": within_a_loop,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_second_plan_comes_from_the_disk(function, counts):
    first = compiled(function, X)
    scheduled, counts.compiled = counts.scheduled, 0
    again = compiled(function, X)
    assert (counts.scheduled, counts.compiled) == (scheduled, 0)
    assert plan_of(first) is not plan_of(again)
    assert plan_of(first).source == plan_of(again).source
    for x in (X, X / 2, X[::-1].copy()[::-1]):
        assert bits(first(x)) == bits(again(x))


def test_other_arrays_of_numbers_have_other_results(counts):
    """Both plans are the same one, which calls what the program has."""
    for shift in (0, 1, 2):
        jitted = compiled(lambda x, shift=shift: (fnp.tanh(x) @ fnp.eye(6, 3000, shift)) * 2, X)
        wanted = (np.tanh(X) @ np.eye(6, 3000, shift)) * 2
        np.testing.assert_allclose(jitted(X), wanted, rtol=1e-15)
    assert counts.scheduled == 1
    assert len(files(PLAN)) == 1


def test_other_equations_have_other_solutions(counts):
    def solved(x, rate):
        states = odeint(lambda y, t: rate * y, fnp.exp(x) * 2, TIMES)
        return fnp.tanh(states / 50) * 2

    found = []
    for rate in (-1.0, 0.5, -1.0):
        jitted = compiled(lambda x, rate=rate: solved(x, rate), X)
        wanted = np.tanh(np.exp(X) * 2 * np.exp(rate * TIMES)[:, None, None] / 50) * 2
        np.testing.assert_allclose(jitted(X), wanted, rtol=1e-6)
        found.append(bits(jitted(X)))
    assert found[0] == found[2] != found[1]


def test_calls_are_told_by_what_passes_ask_of_them():
    """Two calls are told apart where they stand, and one that stands twice is told as one."""
    eye = ft.make_program(lambda x: x @ fnp.eye(6, 3000) + fnp.eye(4, 3000))(X)
    told = program_key.told_program(eye, ())
    assert ["call 0 CustomCall" in told.text, "call 1 CustomCall" in told.text] == [True, True]
    assert [held.name for held in told.held] == ["eye", "eye"]
    first, second = (e for e in eye.equations if e.primitive.name == "eye")
    second.primitive = first.primitive
    twice = program_key.told_program(eye, ())
    assert len(twice.held) == 1
    assert twice.text != told.text
    first.primitive.each_time = True
    assert program_key.told_program(eye, ()).text != twice.text


def test_calls_that_others_see_are_not_told():
    seen = []
    hook = hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))

    def f(x):
        with hooks.use(hook, "tanh"):
            return fnp.tanh(x) @ fnp.eye(6, 3000)

    program = ft.make_program(f)(X)
    assert any(equation.primitive.effect for equation in program.equations)
    assert program_key.told_program(program, ()) is None


PROGRAM = """
import sys
import numpy as np
import functensor as ft, functensor.numpy as fnp
from functensor.scipy.integrate import odeint

def loss(x):
    states = odeint(lambda y, t: -fnp.sin(y) * fnp.cos(t), fnp.exp(x) * 2, np.linspace(0, 1, 4))
    return fnp.sum(fnp.tanh(states @ fnp.eye(6, 3000)) ** 2)

step = ft.jit(ft.value_and_grad(loss))
x = np.linspace(-2, 2, 24).reshape(4, 6)
step.compile(x)
assert step.explain().endswith("as machine code")
print(*[np.asarray(y).tobytes().hex() for y in step(x)])
names = "llvmlite.binding", "functensor.backends.native.printer", "functensor.backends.kernels"
print(*[name in sys.modules for name in names])
"""


def test_another_process_needs_neither_llvm_nor_the_printer(tmp_path):
    check_another_process(PROGRAM, tmp_path)
