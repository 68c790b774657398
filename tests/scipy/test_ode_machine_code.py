"""Equations within programs: machine code takes Python's steps, and fails as Python does."""

import gc

import numpy
import pytest
from support.long_forms import only_long
from support.native import missing

import functensor as ft
import functensor.numpy as np
from functensor.scipy.integrate import odeint
from functensor.scipy.ode_backward import Whole
from functensor.scipy.ode_plans import Solver
from functensor.testing import assert_allclose

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]
TIMES = numpy.array([0.0, 0.4, 0.4, 1.0, 1.5])
STATE, RATES = numpy.array([1.0, 0.7]), numpy.array([1.5, 1.0, 3.0, 1.0])


def predators(y, t, p):
    """The equations of Lotka and Volterra."""
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])


def solvers():
    """Returns what solves the equations of programs, and their ways back."""
    return [x for x in gc.get_objects() if type(x) in (Solver, Whole)]


def compiled(f, *args):
    """Returns a function jitted as machine code, whose equations are solved in machine code."""
    before = solvers()
    jitted = ft.jit(f).compile(*args)
    made = [x for x in solvers() if not any(x is y for y in before)]
    assert made
    for solver in made:
        assert solver.tiers.note == "as machine code"
        # One segment has the whole method: no step and no stage is left to Python.
        assert solver.run.source.count("_again(") == 1, solver.run.source
    return jitted


def check(f, *args, rtol=1e-12):
    """Compares machine code with steps in Python, of the same equation in the same program."""
    jitted = compiled(f, *args)
    got = jitted(*args)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Solver, "__call__", lambda self, buffers: self.plan(buffers))
        patch.setattr(Whole, "__call__", lambda self, buffers: self.plan(buffers)[:-1])
        wanted = ft.jit(f)(*args)
    for x, y in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("times", [TIMES, TIMES[::-1].copy(), TIMES[:1], TIMES[:3], 1e3 + TIMES])
def test_times(times):
    check(lambda y, t, p: odeint(predators, y, t, p), STATE, times, RATES)


def test_many_times_between_two_steps():
    check(lambda y, p: odeint(predators, y, numpy.linspace(0, 3, 400), p), STATE, RATES)


@only_long
@pytest.mark.long
def test_gradients():
    check(ft.grad(loss, argnums=(0, 1, 2)), STATE, TIMES[:3], RATES)
    check(ft.hessian(loss, argnums=2), STATE, TIMES[:2], RATES, rtol=1e-9)
    check(lambda p: ft.jvp(lambda p: loss(STATE, TIMES, p), (p,), (p,)), RATES)


def loss(y, t, p):
    return np.sum(odeint(predators, y, t, p) ** 2)


def check_way_back(times):
    before = solvers()
    check(ft.value_and_grad(loss, (0, 1, 2)), STATE, times, RATES, rtol=1e-10)
    assert [x for x in solvers() if type(x) is Whole and not any(x is y for y in before)]


def test_a_way_back_is_one_loop():
    check_way_back(TIMES)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("times", [TIMES[::-1].copy(), TIMES[1:3], 1e3 + TIMES])
def test_times_of_ways_back(times):
    check_way_back(times)


def test_ways_back_of_several_states_and_arguments():
    def slope(y, t, p, q):
        return {"a": -y["a"] * p + y["b"][0] * np.sin(t), "b": q["w"] @ y["b"] * y["a"]}

    def loss(y, p, q):
        found = odeint(slope, y, TIMES, p, q)
        return np.sum(found["a"] ** 3) + np.sum(found["b"][1:] * np.array([1.0, -2.0]))

    y = {"a": np.array(0.7), "b": np.array([0.2, 0.4])}
    q = {"w": np.array([[0.1, 0.5], [-0.4, 0.3]])}
    check(ft.grad(loss, (0, 1, 2)), y, np.array(1.2), q, rtol=1e-10)
    wanted = ft.grad(loss, (0, 1, 2))(y, np.array(1.2), q)
    got = ft.jit(ft.grad(loss, (0, 1, 2)))(y, np.array(1.2), q)
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@only_long
@pytest.mark.long
def test_ways_back_of_single_precision():
    given = [np.asarray(x, "float32") for x in (STATE, RATES)]

    def loss(y, p):
        return np.sum(odeint(predators, y, TIMES, p, rtol=1e-4, atol=1e-5) ** 2)

    # Steps of single precision may be chosen otherwise.
    check(ft.grad(loss, (0, 1)), *given, rtol=2e-3)


@only_long
@pytest.mark.long
def test_ways_back_of_other_kinds_go_interval_by_interval():
    """Those of complex states, of several dtypes, of numbers that are no arrays, of batches."""
    gradient = ft.grad(lambda y, p: np.real(np.sum(odeint(lambda y, t, p: p * y, y, TIMES, p))))
    check(lambda y: gradient(y, 0.3j), STATE + 0.5j, rtol=1e-9)
    check(gradient, STATE.astype("float32"), np.array(0.3), rtol=1e-3)
    check(lambda y: gradient(y, 0.3), STATE, rtol=1e-9)
    batch = ft.vmap(ft.grad(loss), (0, None, None))
    check(batch, numpy.stack([STATE, 2 * STATE]), TIMES, RATES, rtol=1e-9)
    mapped = ft.vmap(ft.jit(ft.grad(loss)), (0, None, None))(
        numpy.stack([STATE, 2 * STATE]), TIMES, RATES
    )
    one = ft.grad(loss)(2 * STATE, TIMES, RATES)
    assert_allclose(mapped[1], one, rtol=1e-5)


@only_long
@pytest.mark.long
def test_a_way_back_that_cannot_go_on_says_so():
    """The adjoint equation of a state that has come to rest grows without bound."""

    def slope(y, t, p):
        return -400 * p * y

    def loss(p):
        return np.sum(odeint(slope, np.ones(2), TIMES, p, mxstep=200) ** 2)

    assert numpy.isfinite(float(ft.jit(loss)(np.array(1.0))))
    with pytest.raises(RuntimeError, match=r"odeint: .*mxstep") as eager:
        ft.grad(loss)(np.array(1.0))
    for jitted in (ft.jit(ft.grad(loss)), ft.jit(ft.grad(loss)).compile(np.array(1.0))):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"odeint: .*mxstep") as seen:
                jitted(np.array(1.0))
        assert str(seen.value).split(",")[0] == str(eager.value).split(",")[0]


@only_long
@pytest.mark.long
def test_second_derivatives_of_a_way_back():
    def curved(p):
        return ft.grad(lambda p: np.sum(ft.grad(loss, 2)(STATE, TIMES[:3], p) ** 2))(p)

    assert_allclose(ft.jit(curved)(RATES), curved(RATES), rtol=1e-5)
    assert_allclose(ft.jit(ft.jacfwd(ft.grad(loss, 2), 2))(STATE, TIMES[:3], RATES),
                    ft.hessian(loss, 2)(STATE, TIMES[:3], RATES), rtol=1e-4)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_dtypes(dtype):
    y = (STATE + (0.5j if dtype[0] == "c" else 0)).astype(dtype)
    single = dtype in ("float32", "complex64")
    # Steps of single precision may be chosen otherwise.
    check(
        lambda y, t: odeint(lambda y, t: -y * y * t, y, t, rtol=1e-3 if single else 1e-8),
        y, TIMES.astype("float32"), rtol=2e-3 if single else 1e-12,
    )  # fmt: skip


def test_trees_of_several_dtypes():
    y = {"a": numpy.array([1, 2j]), "b": numpy.array([[1.0, 2.0]]), "c": numpy.float32(0.5)}

    def slope(y, t, p):
        return {"a": 1j * p * y["a"], "b": -y["b"] * np.abs(y["a"]), "c": y["c"] * t}

    check(lambda y, p: odeint(slope, y, TIMES, p), y, 2.0, rtol=1e-7)


@only_long
@pytest.mark.long
def test_batches_take_the_steps_of_the_worst():
    rates = numpy.stack([RATES, RATES * 3, RATES * 0.1])
    states = numpy.stack([STATE, STATE * 2, STATE])
    solve = ft.vmap(lambda y, p: odeint(predators, y, TIMES, p))
    check(solve, states, rates)
    check(ft.vmap(lambda y, p: odeint(predators, y, TIMES, p), (None, 0)), STATE, rates)
    check(ft.grad(lambda p: np.sum(solve(states, p))), rates)


def test_stiff_steps_are_rejected_alike():
    def slope(y, t):
        return -400 * (y - np.cos(t))

    check(lambda y: odeint(slope, y, TIMES, rtol=1e-5), numpy.zeros(3))


def test_the_longest_step():
    check(lambda y: odeint(lambda y, t: 0 * y + t, y, TIMES, hmax=0.01), numpy.zeros(3))


@pytest.mark.parametrize(
    ("slope", "options", "words"),
    [
        (lambda y, t: y**2, {}, "at t=1 a step of .* the solution has a singularity there"),
        (lambda y, t: y * np.nan, {}, "at t=0 a step of .* or is not a number"),
        (lambda y, t: -y, {"mxstep": 2}, r"2 steps \(mxstep\) did not lead to t=0.4, only to t="),
    ],
)
def test_failures(slope, options, words):
    def solve(y):
        return odeint(slope, y, TIMES, **options)

    jitted = compiled(solve, 1.0)
    with pytest.raises(RuntimeError, match=words):
        jitted(1.0)
    # The next call finds nothing of it.
    with pytest.raises(RuntimeError, match=words):
        jitted(1.0)


def test_calls_grow_into_machine_code():
    before = solvers()
    jitted = ft.jit(lambda p: odeint(predators, STATE, TIMES, p))
    first = jitted(RATES)
    (made,) = [x for x in solvers() if not any(x is y for y in before)]
    assert made.run is made.tiers
    made.tiers.finish()
    assert made.tiers.note == "as machine code"
    assert_allclose(jitted(RATES), first, rtol=1e-12)


def test_an_equation_that_stays_over_numpy():
    def slope(y, t):
        return -np.sort(y) * np.linalg.norm(np.linalg.inv(np.eye(2) + y[:, None] * y))

    jitted = ft.jit(lambda y: odeint(slope, y, TIMES)).compile(STATE)
    assert_allclose(jitted(STATE), odeint(slope, STATE, TIMES), rtol=1e-7)


def test_an_error_in_the_equation_names_the_function_and_its_lines():
    def leaning(y, t, p):
        return np.linalg.solve(p * np.eye(2), y)

    def solve(y, p):
        return odeint(leaning, y, TIMES, p)

    jitted = compiled(solve, STATE, 1.0)
    notes = []
    for function in (jitted, ft.jit(solve)):
        with pytest.raises(numpy.linalg.LinAlgError, match="solve: singular matrix") as seen:
            function(STATE, 0.0)
        notes.append("".join(seen.value.__notes__))
    assert notes[0] == notes[1]
    assert "in solve of leaning, at" in notes[0]
    assert "while_loop" not in notes[0]
    assert_allclose(jitted(STATE, 1.0), solve(STATE, 1.0), rtol=1e-7)


@pytest.mark.parametrize("shape", [(2,), (0, 2)])
def test_gradients_of_equations_without_arguments(shape):
    def total(y):
        return np.sum(odeint(lambda y, t: -y, y, TIMES))

    start, slope = numpy.ones(shape), ft.jit(ft.grad(total))
    assert_allclose(slope(start), numpy.full(shape, numpy.exp(-TIMES).sum()), rtol=1e-7)
    if start.size:
        check(ft.grad(total), start)
