"""Gradients of solutions whose equation is unstable backward, and failures of machine code."""

import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
from support.long_forms import only_long
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.scipy import ode_plans
from functensor.scipy.integrate import odeint
from functensor.testing import assert_allclose

START, TIMES = np.array([2.0, 0.0]), np.linspace(0.0, 2.0, 3)
STIFFNESS = np.array([10.0, 20.0])


def oscillator(y, t, mu):
    """Van der Pol's: backward its limit cycle is left within a fraction of a period."""
    return fnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def loss(y, mu):
    return fnp.sum(odeint(oscillator, y, TIMES, mu) ** 2)


def forward(y, mu):
    """The same derivatives by forward mode, which is stable."""
    return ft.jacfwd(loss, argnums=(0, 1))(y, mu)


slope = ft.grad(loss, argnums=(0, 1))


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("mu", STIFFNESS)
def test_gradients_are_those_of_forward_mode(mu, jit):
    """For 10 the state that is computed backward is another one; for 20 there is none."""
    found = (ft.jit(slope) if jit else slope)(START, mu)
    for x, y in zip(found, forward(START, mu), strict=True):
        assert_allclose(x, y, rtol=2e-5, atol=1e-6)


def followed(y, t, size):
    """The first component follows a cosine: its error grows by exp(5 t) backward."""
    return fnp.stack([5.0 * (size * fnp.cos(t) - y[0]), fnp.sin(3.0 * y[0])])


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_coarse_tolerances_give_coarse_gradients(jit):
    def end(size, tolerance):
        states = odeint(
            followed, START, np.array([0.0, 3.0]), size, rtol=tolerance, atol=tolerance
        )
        return states[-1, 1]

    wanted = ft.jvp(lambda size: end(size, 1e-10), (2.0,), (1.0,))[1]
    of_coarse = ft.grad(lambda size: end(size, 1e-3))
    # A hundred times the tolerance.
    assert_allclose((ft.jit(of_coarse) if jit else of_coarse)(2.0), wanted, rtol=0.1, atol=0.0)


@only_long
@pytest.mark.long
def test_batches():
    wanted = ft.vmap(forward, in_axes=(None, 0))(START, STIFFNESS)
    found = ft.vmap(slope, in_axes=(None, 0))(START, STIFFNESS)
    for x, y in zip(found, wanted, strict=True):
        assert_allclose(x, y, rtol=2e-5, atol=1e-6)

    def total(y, mus):
        return fnp.sum(ft.vmap(loss, in_axes=(None, 0))(y, mus))

    for of_all in (ft.grad(total, argnums=1), ft.jit(ft.grad(total, argnums=1))):
        assert_allclose(of_all(START, STIFFNESS), wanted[1], rtol=2e-5, atol=1e-6)


@pytest.mark.skipif(bool(missing), reason=missing)
def test_machine_code_does_not_return_what_another_state_gives():
    compiled = ft.jit(slope).compile(START, 10.0)
    for x, y in zip(compiled(START, 10.0), forward(START, 10.0), strict=True):
        assert_allclose(x, y, rtol=2e-5, atol=1e-6)


@contextmanager
def quiet_garbage():
    """Has no cycles collected for the length of a ``with`` block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def failing(error):
    def run(buffers):
        raise error

    return run


def test_failures_of_machine_code_are_raised_where_its_plan_has_none():
    found = ode_plans.run_or_repeated(failing(np.linalg.LinAlgError("singular")), list, (1, 2))
    assert found == [1, 2]
    for fault in (TypeError("a fault"), KeyError("a fault"), RuntimeError("a fault")):
        with pytest.raises(type(fault), match="a fault"):
            ode_plans.run_or_repeated(failing(fault), list, (1, 2))
    # The plan's own error names lines of the user's alone.
    with pytest.raises(ValueError, match="of the user") as seen:
        ode_plans.run_or_repeated(
            failing(ValueError("of machine code")), failing(ValueError("of the user")), ()
        )
    assert seen.value.__context__ is None


def test_failures_of_machine_code_keep_no_buffers():
    def run(buffers):
        raise np.linalg.LinAlgError("singular")

    buffers = [np.ones(2)]
    gone = weakref.ref(buffers[0])
    with quiet_garbage():
        ode_plans.run_or_repeated(run, len, buffers)
        del buffers
        assert gone() is None
