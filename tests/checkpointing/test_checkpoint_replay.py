"""The second run of a checkpointed function: what it sees, and what it must not do."""

import numpy as np
import pytest
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ConcretizationError, ReplayError
from functensor.scipy.integrate import odeint

X = np.array([0.3, -1.2, 2.0])


def test_memory_of_the_first_run_is_what_later_runs_see():
    """Loops go on and names change before the backward pass; closures are remembered."""
    scales = [1.0, 10.0, 100.0]

    def f(x):
        for scale in scales:
            x = ft.checkpoint(lambda x: x * scale)(x)  # noqa: B023 - what is tested
        return x

    close(ft.grad(f)(1.0), 1000.0)

    def helper(x):
        return x * factor

    factor = 3.0
    _, pull = ft.vjp(ft.checkpoint(lambda x: helper(x)), 1.0)
    factor = 5.0
    close(pull(1.0), (3.0,))
    assert factor == 5.0


def test_writes_of_the_function_are_the_users():
    count = 0

    @ft.checkpoint
    def f(x):
        nonlocal count
        count += 1
        return x * x

    close(ft.grad(f)(3.0), 6.0)
    assert count == 1


# -- what goes wrong


FIX = "unseeded random state or a global? Pass what changes as an argument, random keys too"


def differing(first, second):
    calls = []

    def f(x):
        calls.append(1)
        return (first if len(calls) == 1 else second)(x)

    return lambda: ft.grad(ft.checkpoint(f))(1.0)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (
            lambda x: fnp.sin(x) * 2,
            lambda x: fnp.cos(x) * 2,
            "operation 0 was sin, which gives float64[], and is now cos, which gives float64[]",
        ),
        (
            lambda x: fnp.sum(fnp.exp(x) * np.ones(3)),
            lambda x: fnp.sum(fnp.exp(x) * np.ones(4)),
            (
                "operation 1 was multiply, which gives float64[3], and is now multiply, which "
                "gives float64[4]"
            ),
        ),
        (
            lambda x: x * 2.0 + 1.0,
            lambda x: x * 2.0,
            "operation 1 was add, which gives float64[], and is now nothing more",
        ),
        (
            lambda x: x * 2.0,
            lambda x: x * 2.0 * x,
            "operation 1 was nothing more, and is now multiply, which gives float64[]",
        ),
    ],
)
def test_15_the_replay_differs(first, second, what):
    run = differing(first, second)
    with pytest.raises(ReplayError) as info:
        run()
    wanted = (
        "checkpoint of f: run again for the backward pass, it did not do the same: " + what
    )
    lines = str(info.value).split("\n")
    assert lines[0] == wanted
    assert "test_checkpoint_replay.py:" in lines[1]
    assert lines[-2:] == [f"  fix: {FIX}", "  see python -m functensor.errors 15"]
    assert lines[2].startswith("  under grad(f (")
    assert ") of checkpoint(f (" in lines[2]


def test_15_the_results_differ():
    run = differing(lambda x: x * 2.0, lambda x: (x * 2.0, 1.0))
    with pytest.raises(ReplayError, match="was the result"):
        run()


def test_15_another_value_is_closed_over():
    used = []

    def loss(w):
        used.append(w * 2)
        out = ft.checkpoint(lambda x: x * used[-1])(3.0)
        used.append(w * 5)
        return out

    with pytest.raises(ReplayError, match=r"without a value, and is now closing over float64\[\]"):
        ft.grad(loss)(1.0)


def test_errors_of_the_function_itself_come_through_and_leave_nothing():
    @ft.checkpoint
    def f(x):
        raise ZeroDivisionError("mine")

    for transform in (ft.grad, ft.vmap, ft.make_program):
        with pytest.raises(ZeroDivisionError, match="mine"):
            transform(f)(X[0] if transform is ft.grad else X)
    close(ft.grad(fnp.sin)(0.0), 1.0)


def test_a_branch_under_vmap_is_explained():
    with pytest.raises(ConcretizationError, match=r"python -m functensor\.errors 4"):
        ft.vmap(ft.checkpoint(lambda x: x if x > 0 else -x))(X)


def test_functions_are_found_in_tables_that_another_closes_over():
    factor = 3.0

    def closing(x):
        return x * factor

    table, several, chosen = {closing: 2.0}, [closing], {"a": closing}

    def fun(x):
        found = closing in several and chosen["a"] is closing and closing in {*several}
        return closing(x) * table[closing] * (1 if found else 100)

    assert ft.grad(ft.checkpoint(fun))(1.0) == 6
    assert ft.jit(ft.grad(ft.checkpoint(fun)))(1.0) == 6

    @ft.custom_vjp
    def ruled(x):
        return fun(x)

    ruled.defvjp(lambda x: (ruled(x), x), lambda x, ct: (ct * fun(1.0),))
    assert ft.jit(ft.grad(ruled))(1.0) == 6
    times = fnp.array([0.0, 1.0])

    def decayed(rate):
        return fnp.sum(odeint(lambda y, t: -rate * fun(y), fnp.ones(1), times)[-1])

    close(ft.grad(decayed)(1.0), -6 * np.exp(-6), rtol=1e-5)
    # A loop goes on, and the second run of the function keeps what it found.
    call = ft.checkpoint(lambda x: closing(x) * table[closing])
    kept = []
    for each in (1.0, 2.0, 3.0):
        factor = each
        kept += [ft.vjp(call, 1.0)[1]]
    assert [pull(1.0)[0] for pull in kept] == [2, 4, 6]
