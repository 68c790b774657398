"""``checkpoint`` within programs: both runs are there, and stay apart."""

from collections import Counter

import numpy as np
import pytest
from support.counted import kept_of, peak_of
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.passes.pipeline import optimized
from functensor.primitives.core.errors import ReplayError

policies = ft.checkpoint_policies
X = np.linspace(0.1, 1.0, 40_000)


def chain(x):
    for _ in range(6):
        x = fnp.sin(ft.checkpoint_name(fnp.cos(x), "turn"))
    return x


def deep(f):
    def loss(x):
        for _ in range(6):
            x = f(x)
        return fnp.sum(x)

    return loss


def names(program):
    return Counter(equation.primitive.name for equation in program.equations)


def most_alive(program):
    """Returns the most bytes that are needed at once while a program runs."""
    alive = dict.fromkeys(program.inputs)
    most = 0
    for equation, last in zip(program.equations, program.last_uses(), strict=True):
        alive.update(dict.fromkeys(equation.outputs))
        most = max(most, sum(v.type.size * v.type.dtype.itemsize for v in alive))
        for variable in last:
            alive.pop(variable, None)
    return most


def gradient_program(f, *args):
    return optimized(ft.make_program(ft.value_and_grad(f))(*args))


def test_a_call_is_one_equation_with_a_program():
    program = ft.make_program(ft.checkpoint(lambda x: fnp.sin(x) * 2.0))(np.ones(2))
    (equation,) = program.equations
    assert str(equation.primitive.program) == (
        "<lambda>(a: float64[2]):\n"
        "    b: float64[2] = sin(a)\n"
        "    c: float64[2] = multiply(b, 2.0)\n"
        "    return c"
    )
    close(program(X[:2]), np.sin(X[:2]) * 2)


def test_the_second_run_is_not_put_together_with_the_first():
    plain = names(gradient_program(deep(chain), X))
    apart = names(gradient_program(deep(ft.checkpoint(chain)), X))
    joined = names(gradient_program(deep(ft.checkpoint(chain, prevent_cse=False)), X))
    # The derivative of cos is a sine, that of sin a cosine.
    assert plain["cos"] == plain["sin"] == 72
    # The last sine of each call is not needed the second time.
    assert (apart["cos"], apart["sin"]) == (72 + 36, 72 + 30)
    assert (joined["cos"], joined["sin"]) == (72, 72)
    assert apart["optimization_barrier"] >= 6
    assert joined["optimization_barrier"] == 0


def test_little_is_alive_between_the_runs():
    plain = most_alive(gradient_program(deep(chain), X))
    nothing = most_alive(gradient_program(deep(ft.checkpoint(chain)), X))
    saving = ft.checkpoint(chain, policy=policies.save_only_these_names("turn"))
    some = most_alive(gradient_program(deep(saving), X))
    joined = most_alive(gradient_program(deep(ft.checkpoint(chain, prevent_cse=False)), X))
    assert nothing < 0.35 * plain
    assert 0.4 * plain < some < 0.7 * plain
    assert joined > 0.9 * plain


def test_names_are_gone_from_what_is_run():
    saving = ft.checkpoint(chain, policy=policies.save_only_these_names("turn"))
    made = ft.make_program(ft.grad(deep(saving)))(X)
    assert names(optimized(made))["checkpoint_name"] == 0
    assert names(optimized(ft.make_program(chain)(X))) == {"cos": 6, "sin": 6}


def test_the_second_order_too():
    def curvature(f):
        return lambda x: fnp.sum(ft.grad(deep(f))(x) ** 2)

    plain = gradient_program(curvature(chain), X)
    checkpointed = gradient_program(curvature(ft.checkpoint(chain)), X)
    assert most_alive(checkpointed) < 0.5 * most_alive(plain)
    close(checkpointed(X), plain(X), 1e-9)


def test_memory_of_a_jitted_gradient_falls():
    plain, checkpointed = ft.jit(ft.grad(deep(chain))), ft.jit(ft.grad(deep(ft.checkpoint(chain))))
    # Machine code, which may take over at any call, keeps no residuals of this chain at all.
    with ft.config.using(deterministic=True):
        for _ in range(2):
            close(checkpointed(X), plain(X), 1e-12)
        assert peak_of(lambda: checkpointed(X)) < 0.5 * peak_of(lambda: plain(X))


def test_a_jitted_functions_residuals_are_those_of_the_policy():
    def kept(f):
        f = ft.jit(deep(f))
        ft.vjp(f, X)[1](1.0)
        return kept_of(lambda: ft.vjp(f, X)[1]) / X.nbytes

    named = ft.checkpoint(chain, policy=policies.save_only_these_names("turn"))
    # The copies of the argument, and what goes from one call into the next.
    assert kept(ft.checkpoint(chain)) < 8.5
    assert 36 <= kept(named) < 45
    assert kept(chain) > 60


def test_order_and_values_of_barriers():
    x = np.arange(3.0)
    program = ft.make_program(lambda x: fnp.sum(ft.optimization_barrier((x, x * 2))[0]))(x)
    assert names(program) == {"multiply": 1, "optimization_barrier": 1, "sum": 1}
    f = lambda x: fnp.sum(ft.optimization_barrier({"a": x, "b": x * 2})["b"] ** 2)  # noqa: E731
    for g in (f, ft.jit(f)):
        close(ft.grad(g)(x), 8 * x)
        close(ft.hessian(g)(x), 8 * np.eye(3))
        close(ft.jvp(g, (x,), (x,))[1], np.sum(8 * x * x))
        close(ft.vmap(g)(np.stack([x, x])), np.full(2, np.sum(4 * x * x)))


def test_batches_where_only_what_is_waited_for_has_one():
    f = lambda x, y: ft.optimization_barrier((x, y))[0]  # noqa: E731
    close(ft.vmap(f, (None, 0))(np.ones(2), np.ones((3, 4))), np.ones((3, 2)))


def test_what_is_captured_at_every_level():
    w = np.array([0.3, 0.5])

    def f(w, x):
        scale = fnp.exp(w)
        inner = ft.checkpoint(lambda x: fnp.sin(x * scale) * w)
        return fnp.sum(inner(inner(x)) ** 2)

    x = np.array([1.0, -1.0])
    wanted = ft.hessian(lambda w: f(w, x), mode="rev-rev")(w)
    close(ft.jit(ft.hessian(lambda w: f(w, x), mode="rev-rev"))(w), wanted, 1e-10)
    close(ft.hessian(lambda w: ft.jit(lambda x: f(w, x))(x), mode="rev-rev")(w), wanted, 1e-10)
    each = ft.vmap(lambda w: ft.jit(ft.grad(lambda x: f(w, x)))(x))(np.stack([w, -w]))
    close(each, np.stack([ft.grad(f, 1)(w, x), ft.grad(f, 1)(-w, x)]), 1e-10)
    third = ft.grad(lambda s: ft.jit(lambda x: f(s * w, x))(x) * s)(1.5)
    close(third, ft.grad(lambda s: f(s * w, x) * s)(1.5), 1e-10)


def test_15_comes_when_the_program_is_made():
    runs = []

    @ft.checkpoint
    def f(x):
        runs.append(1)
        return fnp.sin(x) if len(runs) == 1 else fnp.cos(x)

    with pytest.raises(ReplayError, match=r"operation 0 was sin, .* and is now cos, "):
        ft.jit(ft.grad(f))(1.0)
    runs[:] = [1]
    close(ft.jit(ft.grad(lambda x: f(x)))(1.0), -np.sin(1.0))


def test_random_keys_in_programs():
    @ft.checkpoint
    def f(x, key):
        return fnp.sum(fnp.sin(x * ft.random.normal(key, (3,))))

    key = ft.random.key(7)
    x = np.arange(3.0)
    step = ft.jit(ft.value_and_grad(f))
    close(step(x, key), ft.value_and_grad(f)(x, key), 1e-12)
    other = ft.random.key(8)
    close(step(x, other), ft.value_and_grad(f)(x, other), 1e-12)
