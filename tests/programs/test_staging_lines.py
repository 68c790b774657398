"""The lines that the equations of a way back have: those of the operations that they derive."""

import threading

import pytest

import functensor as ft
import functensor.numpy as np
from functensor import extend
from functensor.extend import registry as ops
from functensor.hooks import Hook, use
from functensor.primitives.core.trace import slot
from functensor.programs.source_lines import runs_only_ours

X = np.array([0.5, -1.5, 2.0])


def here(fun, offset):
    """Returns ``file:line`` so many lines below the first of a function."""
    return f"{__file__}:{fun.__code__.co_firstlineno + offset}"


def lines(program, name):
    """Returns the lines of the equations of a primitive, in order."""
    return [equation.line for equation in program.equations if equation.primitive.name == name]


def staged(fun, *args):
    """Returns the program of a gradient."""
    return ft.make_program(ft.grad(fun))(*args)


def test_every_equation_of_the_way_back_has_the_line_of_its_operation():
    def loss(x):
        y = np.sin(x)
        z = np.exp(y)
        return np.sum(z * y)

    program = staged(loss, X)
    found = {equation.line for equation in program.equations}
    assert found == {here(loss, 1), here(loss, 2), here(loss, 3)}
    assert lines(program, "cos") == [here(loss, 1)]
    # The product of the cosine, that of the exponential and those of the product's own rule.
    assert lines(program, "multiply").count(here(loss, 1)) == 1
    assert lines(program, "multiply").count(here(loss, 2)) == 1


def test_sums_of_one_result_given_twice_have_a_line():
    def twice(x):
        y = np.sin(x)
        return y, y

    def pulled(x):
        return ft.vjp(twice, x)[1]((x, x))

    program = ft.make_program(pulled)(X)
    assert all(equation.line.startswith(__file__) for equation in program.equations)
    assert lines(program, "cos") == [here(twice, 1)]


@pytest.fixture(params=["module", "thread"])
def tripled(request):
    """A primitive of the user's, declared where its module is known or where it is not."""
    made = []

    def rule(g, x):
        return 3.0 * g * ops.cos(x) / ops.cos(x)

    def declare():
        made.append(extend.unary("tripled_for_lines", rule, compute=lambda xp, x: 3.0 * x))

    if request.param == "thread":
        thread = threading.Thread(target=declare)
        thread.start()
        thread.join()
    else:
        declare()
    yield made[0], rule
    ops.remove("tripled_for_lines")


def test_rules_of_the_users_primitives_have_lines_of_their_own(tripled):
    primitive, rule = tripled
    assert not runs_only_ours(primitive)
    assert all(runs_only_ours(known) for known in (ops.sin, ops.matmul, ops.sum))
    program = staged(lambda x: np.sum(primitive(x)), X)
    assert lines(program, "cos") == [here(rule, 1)] * 2


def test_what_hooks_do_on_the_way_back_has_lines_of_their_own():
    class Turning(Hook):
        traceable = True

        def backward(self, op, grad_inputs, grad_output):
            return [np.negative(g) for g in grad_inputs] if op.name == "sin" else None

    def loss(x):
        return np.sum(np.sin(x))

    def watched(x):
        with use(Turning()):
            return ft.grad(loss)(x)

    program = ft.make_program(watched)(X)
    assert lines(program, "cos") == [here(loss, 1)]
    (line,) = lines(program, "negative")
    assert line == here(Turning.backward, 1)


def test_a_rule_that_differentiates_leaves_the_turn_as_it_was():
    @ft.custom_vjp
    def f(x):
        return np.sin(x)

    def inner(x):
        return np.sum(np.tanh(x))

    def backward(x, g):
        slope = ft.grad(inner)(x)
        return (g * np.exp(slope),)

    f.defvjp(lambda x: (f(x), x), backward)

    def loss(x):
        return np.sum(f(np.square(x)))

    program = staged(loss, X)
    assert lines(program, "exp") == [here(backward, 2)]
    assert lines(program, "tanh_grad") == [here(inner, 1)]
    assert set(lines(program, "multiply")) == {here(backward, 2), here(loss, 1)}
    assert slot.turn is None


def test_a_rule_that_raises_leaves_no_turn_behind():
    def failing(g, x):
        raise ZeroDivisionError

    primitive = extend.unary("failing_for_lines", failing, compute=lambda xp, x: x)
    try:
        for stage in (lambda f: f, ft.make_program):
            with pytest.raises(ZeroDivisionError):
                stage(ft.grad(lambda x: np.sum(primitive(x))))(X)
            assert slot.turn is None
    finally:
        ops.remove("failing_for_lines")


def test_what_a_program_does_has_the_lines_that_it_was_staged_from():
    def loss(x):
        return np.sum(np.sin(x))

    again = staged(ft.make_program(loss)(X), X)
    assert lines(again, "cos") == [here(loss, 1)]
