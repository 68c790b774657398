"""Ordinary differential equations: accuracy, derivatives of all kinds, batches, errors."""

import numpy
import pytest
import scipy.integrate
from support.long_forms import only_long

import functensor as ft
import functensor.numpy as np
from functensor.scipy import runge_kutta
from functensor.scipy.integrate import odeint
from functensor.testing import assert_allclose, check_grads

TIMES = numpy.array([0.0, 0.4, 1.0, 1.5])
TIGHT = {"rtol": 1e-11, "atol": 1e-11}


def predators(y, t, p):
    """The equations of Lotka and Volterra."""
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])


STATE = numpy.array([1.0, 0.7])
RATES = numpy.array([1.5, 1.0, 3.0, 1.0])


def driven(y, t, p):
    """An equation in which the time occurs."""
    return {"a": -p * y["a"] + np.sin(t), "b": y["a"] * t - y["b"] ** 2}


def test_the_method_is_of_order_five():
    errors = []
    for steps in (4, 8):
        y = numpy.array([1.0])
        h = 1.0 / steps
        for _ in range(steps):
            stages = [-y]
            for row in runge_kutta.STAGES:
                reached = y + h * row @ numpy.array(stages)
                stages.append(-reached)
            y = reached
        errors.append(abs(y[0] - numpy.exp(-1)))
    assert 28 < errors[0] / errors[1] < 40


def test_constants_are_those_of_scipy():
    method = scipy.integrate.RK45
    assert_allclose(runge_kutta.BETWEEN, method.P, rtol=1e-14, atol=1e-14)
    assert_allclose(runge_kutta.ERROR, -method.E, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("backward", [False, True])
def test_solutions_meet_the_tolerances(backward):
    times = numpy.linspace(0, 10, 41)[:: -1 if backward else 1]
    wanted = scipy.integrate.solve_ivp(
        lambda t, y: numpy.asarray(predators(y, t, RATES)),
        times[[0, -1]],
        STATE,
        "DOP853",
        times,
        rtol=1e-13,
        atol=1e-13,
    ).y.T
    for tolerance in (1e-5, 1e-8, 1e-11):
        got = odeint(predators, STATE, times, RATES, rtol=tolerance, atol=tolerance)
        error = numpy.abs(numpy.asarray(got) - wanted).max()
        assert error < 2e3 * tolerance


def test_derivatives_by_state_times_and_arguments():
    check_grads(
        lambda y, t, p: odeint(predators, y, t, p, **TIGHT),
        (STATE, TIMES[:3], RATES),
        order=1,
        rtol=1e-7,
    )


def test_second_derivatives():
    check_grads(
        lambda a, t, p: odeint(driven, {"a": a, "b": 0.5}, t, p, **TIGHT),
        (0.3, TIMES[:2], 0.8),
        order=2,
        rtol=1e-6,
        atol=1e-7,
    )


def test_all_second_derivatives_agree_with_the_exact_ones():
    times = np.array([0.0, 0.5])

    def decay(rate):
        return odeint(lambda y, t: -rate * y, 2.0, times, **TIGHT)[1]

    wanted = 2.0 * 0.25 * numpy.exp(-0.4)
    grad, tangent = ft.grad(decay), lambda x: ft.jvp(decay, (x,), (1.0,))[1]
    for second in (
        ft.grad(grad)(0.8),
        ft.jvp(grad, (0.8,), (1.0,))[1],
        ft.grad(tangent)(0.8),
        ft.jvp(tangent, (0.8,), (1.0,))[1],
    ):
        assert_allclose(second, wanted, rtol=1e-9)


def test_what_func_closes_over_has_derivatives():
    def closed(p):
        return odeint(lambda y, t: predators(y, t, p), STATE, TIMES).sum()

    def given(p):
        return odeint(predators, STATE, TIMES, p).sum()

    assert_allclose(ft.grad(closed)(RATES), ft.grad(given)(RATES), rtol=1e-12)
    assert_allclose(ft.vmap(closed)(RATES[None]), given(RATES)[None], rtol=1e-12)
    nested = ft.grad(lambda a: ft.grad(lambda p: a * closed(p) ** 2)(RATES).sum())(1.0)
    assert_allclose(nested, 2 * given(RATES) * ft.grad(given)(RATES).sum(), rtol=1e-7)


def test_func_may_differentiate():
    def energy(q, stiffness):
        return 0.5 * stiffness * np.sum(q**2) + 0.1 * np.sum(q**4)

    def end(stiffness):
        def slope(y, t):
            return {"q": y["p"], "p": -ft.grad(energy)(y["q"], stiffness)}

        return odeint(slope, {"q": np.ones(2), "p": np.zeros(2)}, TIMES, **TIGHT)["q"][-1].sum()

    check_grads(end, (1.3,), order=1, rtol=1e-7)


def test_func_may_branch_on_values():
    def slope(y, t, p):
        return p * y if p > 0 else -p * y

    def end(p):
        return odeint(slope, 1.0, TIMES, p, **TIGHT)[-1]

    for derivative in (ft.grad(end), lambda p: ft.jvp(end, (p,), (1.0,))[1]):
        assert_allclose(derivative(0.7), 1.5 * numpy.exp(1.05), rtol=1e-8)
        assert_allclose(derivative(-0.7), -1.5 * numpy.exp(1.05), rtol=1e-8)


def test_equations_that_branch_are_staged_once():
    refused = []

    def slope(y, t, p):
        try:
            # It is continuous: no interval is halved, for which it would be staged once more.
            return p * y * (t - 0.7 if t < 0.7 else 0.7 - t)
        except ft.errors.ConcretizationError:
            refused.append(type(t))
            raise

    def end(p):
        return odeint(slope, 1.0, TIMES, p)[-1]

    ft.grad(end)(0.7)
    # The equation of the way back, for all intervals between times.
    assert len(TIMES) > 2
    assert len(refused) == 1
    # As a part of a program, the equation itself too.
    refused.clear()
    ft.jit(ft.grad(end))(0.7)
    assert len(refused) == 2


@only_long
@pytest.mark.long
def test_vmap_is_the_loop():
    states = numpy.stack([STATE, 1.3 * STATE, 0.5 * STATE])
    rates = numpy.stack([RATES, 1.1 * RATES, 0.9 * RATES])
    times = numpy.stack([TIMES, 0.5 * TIMES, -TIMES])

    def solve(y, t, p):
        return odeint(predators, y, t, p, **TIGHT)

    def loss(y, t, p):
        return (solve(y, t, p) ** 2).sum()

    gradients = ft.grad(loss, (0, 1, 2))
    for axes in [(0, None, None), (None, None, 0), (0, 0, 0), (None, 0, None)]:
        args = [many if axis == 0 else one for many, one, axis in zip(
            (states, times, rates), (STATE, TIMES, RATES), axes, strict=True
        )]
        rows = [[a[i] if axis == 0 else a for a, axis in zip(args, axes)] for i in range(3)]
        got = ft.vmap(solve, axes)(*args)
        assert_allclose(got, np.stack([solve(*row) for row in rows]), rtol=1e-8, atol=1e-8)
        got = ft.vmap(gradients, axes)(*args)
        for mine, others in zip(got, zip(*[gradients(*row) for row in rows])):
            assert_allclose(mine, np.stack(others), rtol=1e-7, atol=1e-7)


def test_the_gradient_of_a_batch_adds_up_over_what_it_shares():
    states = numpy.stack([STATE, 1.3 * STATE])

    def batch(p, t):
        return (ft.vmap(lambda y: odeint(predators, y, t, p, **TIGHT))(states) ** 2).sum()

    def loop(p, t):
        return sum((odeint(predators, y, t, p, **TIGHT) ** 2).sum() for y in states)

    for mine, other in zip(*(ft.grad(f, (0, 1))(RATES, TIMES) for f in (batch, loop))):
        assert_allclose(mine, other, rtol=1e-8)
    nested = ft.vmap(ft.vmap(lambda y, p: odeint(predators, y, TIMES, p), (0, None)), (None, 0))
    got = nested(states, numpy.stack([RATES, 1.1 * RATES, RATES]))
    assert got.shape == (3, 2, 4, 2)
    assert_allclose(got[1, 0], odeint(predators, STATE, TIMES, 1.1 * RATES), rtol=1e-6)


def test_batches_without_examples():
    got = ft.vmap(lambda y: odeint(predators, y, TIMES, RATES))(numpy.ones((0, 2)))
    assert got.shape == (0, 4, 2)


def test_a_jacobian_has_one_solution_for_all_columns():
    def end(p):
        return odeint(predators, STATE, TIMES, p, **TIGHT)[-1]

    forward, backward = ft.jacfwd(end)(RATES), ft.jacrev(end)(RATES)
    assert forward.shape == (2, 4)
    assert_allclose(forward, backward, rtol=1e-7)


def test_staged_programs_solve():
    def loss(p):
        return odeint(predators, STATE, TIMES, p).sum()

    program = ft.make_program(ft.value_and_grad(loss))(RATES)
    assert_allclose(program(2 * RATES), ft.value_and_grad(loss)(2 * RATES))
    shape = ft.eval_shape(lambda p: ft.vmap(lambda q: odeint(predators, STATE, TIMES, q))(p),
                          ft.ShapeDtype((3, 4), "float64"))
    assert shape == ft.ShapeDtype((3, 4, 2), "float64")


def test_equations_within_staged_functions_are_staged_once():
    calls = []

    def slope(y, t, p):
        calls.append(1)
        return predators(y, t, p)

    def loss(p, scale):
        return (odeint(slope, scale * STATE, TIMES, p, **TIGHT) ** 2).sum()

    wanted = ft.value_and_grad(loss)(RATES, 1.0)
    del calls[:]
    step = ft.jit(ft.value_and_grad(loss))
    got = step(RATES, 1.0)
    assert_allclose(got[0], wanted[0], rtol=1e-12)
    assert_allclose(got[1], wanted[1], rtol=1e-9)
    assert 0 < len(calls) < 20
    del calls[:]
    got = step(1.1 * RATES, 1.1)
    assert not calls
    assert_allclose(got[1], ft.grad(loss)(1.1 * RATES, 1.1), rtol=1e-9)


def test_equations_within_staged_functions_keep_dtypes_and_shapes():
    y0 = {"a": numpy.array([1, 2j]), "b": numpy.array([[1.0, 2.0]]), "c": numpy.float32(0.5)}

    def slope(y, t, p):
        return {"a": 1j * p * y["a"], "b": -y["b"] * np.abs(y["a"]), "c": y["c"] * t}

    def solved(p):
        return odeint(slope, y0, TIMES.astype("float32"), p)

    got, wanted = ft.jit(solved)(2.0), solved(2.0)
    for name, right in wanted.items():
        assert (got[name].dtype, got[name].shape) == (right.dtype, right.shape)
        assert_allclose(got[name], right)


def test_equations_within_staged_functions_may_branch_on_values():
    def end(y):
        return odeint(lambda y, t: -y if t < 0.5 else -2 * y, y, TIMES)[-1]

    assert_allclose(ft.jit(end)(1.0), end(1.0), rtol=1e-12)


def test_hooks_see_the_call():
    seen = []

    def note(op, inputs, output):
        seen.append(op.name)

    def loss(p):
        return ft.vmap(lambda y: odeint(predators, y, TIMES, p))(STATE[None]).sum()

    with ft.hooks.use(ft.hooks.FnHook(forward=note, backward=lambda op, inputs, g: None)):
        value = ft.grad(loss)(RATES)
    assert "odeint" in seen
    assert_allclose(value, ft.grad(loss)(RATES), rtol=1e-7)


def test_examples_may_speak_of_each_other():
    def together(y0):
        def one(y0):
            return odeint(lambda y, t: ft.pmean(y, "i") - y, y0, np.array([0.0, 1.0]), **TIGHT)[1]

        return ft.vmap(one, axis_name="i")(y0)

    y0 = numpy.array([1.0, 3.0])
    assert_allclose(together(y0), 2 + (y0 - 2) * numpy.exp(-1), rtol=1e-9)
    check_grads(together, (y0,), order=1)


def test_tensors():
    p = ft.tensor([1.0, 2.0], requires_grad=True)
    odeint(lambda y, t, p: -p * y, np.ones(2, "float32"), np.array([0.0, 1.0]), p).sum().backward()
    assert_allclose(p.grad.numpy(), -numpy.exp([-1.0, -2.0]).astype("float32"), rtol=1e-5)


@only_long
@pytest.mark.long
def test_complex_states():
    def turn(w):
        return odeint(lambda y, t: 1j * w * y, 1 + 0j, TIMES, **TIGHT)

    assert_allclose(turn(2.0), numpy.exp(2j * TIMES), rtol=1e-9)
    check_grads(lambda w: turn(w)[-1].real, (2.0,), order=2, rtol=1e-6)
    check_grads(
        lambda y, t: odeint(lambda y, t: (1j + t) * y, y, t, **TIGHT)[-1],
        (1 + 1j, TIMES[:2]),
        order=1,
    )
    got = ft.grad(lambda w: turn(w)[-1], holomorphic=True)(2.0 + 0j)
    assert_allclose(got, 1.5j * numpy.exp(3j), rtol=1e-8)


def test_dtypes_are_kept():
    y0 = {"a": numpy.float32(1.0), "b": numpy.ones(2)}
    out = odeint(lambda y, t: {"a": -y["a"] * t, "b": y["b"]}, y0, TIMES.astype("float32"))
    assert (out["a"].dtype, out["b"].dtype) == (np.float32, np.float64)
    g = ft.grad(lambda p: odeint(lambda y, t: -p * y, numpy.float32(1), TIMES)[-1])(
        numpy.float32(0.5)
    )
    assert g.dtype == np.float32
    assert_allclose(g, numpy.float32(-1.5 * numpy.exp(-0.75)), rtol=1e-4)


def test_integers_and_what_is_no_array_are_arguments():
    def slope(y, t, power, kind):
        return -(y**power) if kind == "decay" else y

    end = lambda y, power: odeint(slope, y, TIMES, power, "decay")[-1]  # noqa: E731
    assert_allclose(ft.grad(end)(1.0, np.array(1)), numpy.exp(-1.5), rtol=1e-7)
    assert odeint(slope, 1, TIMES, args=(1, "growth")).dtype == np.float64


def test_equal_times_and_one_time():
    out = odeint(predators, STATE, np.array([0.0, 0.0, 0.5, 0.5]), RATES)
    assert_allclose(out[0], out[1])
    assert_allclose(out[2], out[3])
    assert_allclose(odeint(predators, STATE, TIMES[:1], RATES), STATE[None])
    one = ft.grad(lambda y: odeint(predators, y, TIMES[:1], RATES).sum())(STATE)
    assert_allclose(one, numpy.ones(2))


def test_the_longest_step():
    times = []

    def slope(y, t):
        times.append(float(t))
        return 0 * y

    odeint(slope, 1.0, np.array([0.0, 1.0]), hmax=0.1)
    assert max(b - a for a, b in zip(sorted(times), sorted(times)[1:])) <= 0.1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: odeint(lambda y, t: -y, 1.0, np.array([0.0, 2.0, 1.0])),
            ValueError,
            "times must be finite, and ascend or descend",
        ),
        (lambda: odeint(lambda y, t: -y, 1.0, np.array([])), ValueError, r"t has shape \(0,\)"),
        (lambda: odeint(lambda y, t: -y, (), TIMES), TypeError, "y0 has no arrays"),
        (
            lambda: odeint(lambda y, t: (y, y), 1.0, TIMES),
            TypeError,
            "return the slope of every array",
        ),
        (
            lambda: odeint(lambda y, t: y[:, None], np.ones(2), TIMES),
            TypeError,
            r"func returned .* of shapes \[\(2, 1\)\], but y0 is .* of shapes \[\(2,\)\]",
        ),
        (lambda: odeint(lambda y, t: 1j * y, 1.0, TIMES), TypeError, "start from a complex y0"),
        (
            lambda: odeint(lambda y, t: y**2, 1.0, np.array([0.0, 2.0])),
            RuntimeError,
            "singularity",
        ),
        (lambda: odeint(lambda y, t: y * np.nan, 1.0, TIMES), RuntimeError, "is not a number"),
        (
            lambda: odeint(lambda y, t: -y, 1.0, TIMES, mxstep=2),
            RuntimeError,
            r"2 steps \(mxstep\) did not lead to t=0.4",
        ),
        (
            lambda: ft.vmap(lambda t: odeint(lambda y, t: -y, 1.0, t, hmax=0.1))(TIMES[None]),
            ValueError,
            "steps have no common hmax",
        ),
    ],
)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rtol": -1}, r"odeint: rtol is a number from 0 up, 1e-8 for example, not -1\.0"),
        ({"atol": numpy.nan}, "odeint: atol is a number from 0 up"),
        ({"hmax": 0}, r"odeint: hmax is positive, or inf, not 0\.0"),
        ({"mxstep": -5}, r"odeint: mxstep is positive, or inf, not -5\.0"),
    ],
)
def test_options_out_of_range(options, words):
    with pytest.raises(ValueError, match=words):
        odeint(lambda y, t: -y, 1.0, TIMES, **options)


@pytest.mark.parametrize("wrapped", [lambda f: f, ft.jit])
def test_a_steep_slope_beside_the_tolerances_does_not_end_the_solution_where_it_begins(wrapped):
    """The cotangent of the rate begins with zero, and grows by 1e30 and more."""
    times = np.array([1.0, 2.0])

    def loss(rate):
        return odeint(lambda y, t, rate: rate * y, 1e7, times, rate)[-1] ** 2

    rate = 20.0
    found = wrapped(ft.grad(loss))(rate)
    numpy.testing.assert_allclose(found, 2 * (1e7 * numpy.exp(rate)) ** 2, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jitted_gradients_of_an_equation_without_arguments(dtype):
    def last(y):
        return np.sum(odeint(lambda y, t: np.sin(t) * y, y, np.array([0, 1, 2], dtype))[-1] ** 2)

    y = np.array([1.0, -0.5], dtype)
    for step in (ft.jit(ft.grad(last)), ft.jit(ft.grad(last)).compile(y)):
        found = step(y)
        assert found.dtype == dtype
        assert_allclose(found, ft.grad(last)(y), rtol=1e-5)
