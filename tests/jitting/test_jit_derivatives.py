"""Derivatives of jitted functions: what is kept for the way back, and where lines come from."""

import numpy as np
from support.counted import peak_of

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.program_derivatives import pulled_program


def test_residuals_that_are_arguments_are_not_copied():
    w, x = fnp.ones((1000, 1000)), fnp.ones((1, 1000))
    gradient = ft.grad(ft.jit(lambda w, x: fnp.sum(fnp.tanh(x @ w))), (0, 1))
    gradient(w, x)
    # The gradient by the weights is as large as they are; nothing else is.
    assert peak_of(lambda: gradient(w, x)) < 1.5 * w.nbytes


def test_residuals_that_are_outputs_are_returned_once():
    def f(w, x):
        h = fnp.exp(x @ w)
        return h, fnp.sum(h * h), w, 3.0

    values = [np.linspace(-1, 1, 6).reshape(3, 2), np.ones((4, 3))]
    program = ft.make_program(f)(*values)
    parts = pulled_program(program, (True, True))
    outputs = parts.brief.outputs
    assert len(outputs) < len(parts.forward.outputs)
    assert len(set(map(id, outputs))) == len(outputs)
    assert set(program.inputs).isdisjoint(outputs[len(program.outputs) :])

    for order in (ft.vjp, lambda g, *xs: ft.vjp(ft.jit(g), *xs)):
        outs, pull = order(lambda *xs: ft.jit(f)(*xs)[:3], *values)
        plain, plain_pull = ft.vjp(lambda *xs: f(*xs)[:3], *values)
        cotangents = [np.cos(out) for out in map(np.asarray, plain)]
        for got, wanted in zip(
            [*outs, *pull(tuple(cotangents))], [*plain, *plain_pull(tuple(cotangents))], strict=True
        ):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)


def written_on_lines(x, w):
    a = fnp.sin(x)
    b = a @ w
    c = fnp.exp(b)
    return fnp.sum(c * c)


def lines_of(program):
    """Returns the lines of equations, by the operation, relative to the function's first."""
    first = written_on_lines.__code__.co_firstlineno
    assert all(e.line.startswith(__file__) for e in program.equations)
    return {(e.primitive.name, int(e.line.rsplit(":", 1)[1]) - first) for e in program.equations}


def test_equations_of_rules_have_the_lines_of_their_operations():
    values = np.ones((2, 3)), np.ones((3, 2))
    for order in (
        lambda f: ft.grad(f, (0, 1)),
        lambda f: ft.grad(ft.jit(f), (0, 1)),
        lambda f: lambda *xs: ft.vmap(ft.grad(f, (0, 1)))(*(fnp.stack([x, x]) for x in xs)),
        lambda f: ft.jacfwd(f, (0, 1)),
    ):
        program = ft.make_program(order(written_on_lines))(*values)
        found = {line for name, line in lines_of(program) if name not in ("stack", "broadcast_to")}
        assert {1, 2, 3, 4} <= found
        # The cotangent that reverse mode begins with is made where it is asked for.
        assert sum(not 1 <= line <= 4 for line in found) <= 1
    lines = lines_of(ft.make_program(ft.grad(written_on_lines))(*values))
    assert {("sin", 1), ("cos", 1), ("matmul", 2), ("exp", 3)} <= lines


def test_second_derivatives_have_them_too():
    program = ft.make_program(ft.hessian(written_on_lines))(np.ones(3), np.ones((3, 2)))
    lines = lines_of(program)
    assert {("sin", 1), ("exp", 3)} <= lines
    assert {line for name, line in lines if name == "matmul"} <= {2}


def test_errors_inside_a_plan_name_the_line_of_the_operation():
    def f(a, b):
        x = fnp.linalg.solve(a, b)
        return fnp.sum(x)

    gradient = ft.jit(ft.grad(f, (0, 1)))
    gradient(np.eye(2), np.ones(2))
    with np.testing.assert_raises(np.linalg.LinAlgError) as caught:
        gradient(np.zeros((2, 2)), np.ones(2))
    line = f.__code__.co_firstlineno + 1
    assert caught.exception.__notes__ == [
        f"in solve of f, at {__file__}:{line}\n  fix: lstsq and pinv take singular matrices too"
    ]
