"""Tracebacks end at the user's line: the frames of functensor are left out unless asked for."""

import os
import subprocess
import sys
import traceback
from importlib import import_module

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.backends.errors.tracebacks import without_ours

X = np.ones(3)


def frames(error):
    """Returns the files of an exception's traceback, without the test's own."""
    return [f.filename for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]


def raised(call, *args, **kwargs):
    """Returns what a call raises."""
    with pytest.raises(Exception) as info:  # noqa: PT011
        call(*args, **kwargs)
    return info.value


def misfit(x):
    y = np.sin(x)
    return np.sum(y @ np.ones((4, 4)))


ruled = ft.custom_vjp(misfit)
ruled.defvjp(lambda x: (misfit(x), None), lambda _, g: (g,))

TRANSFORMED = {
    "grad": lambda: ft.grad(misfit)(X),
    "value_and_grad": lambda: ft.value_and_grad(misfit)(X),
    "jit": lambda: ft.jit(misfit)(X),
    "jit(grad)": lambda: ft.jit(ft.grad(misfit))(X),
    "vmap": lambda: ft.vmap(misfit)(np.ones((2, 3))),
    "vmap(grad)": lambda: ft.vmap(ft.grad(misfit))(np.ones((2, 3))),
    "vjp": lambda: ft.vjp(misfit, X),
    "jvp": lambda: ft.jvp(misfit, (X,), (X,)),
    "linearize": lambda: ft.linearize(misfit, X),
    "hessian": lambda: ft.hessian(misfit)(X),
    "jacrev": lambda: ft.jacrev(misfit)(X),
    "jacfwd": lambda: ft.jacfwd(misfit)(X),
    "checkpoint": lambda: ft.grad(ft.checkpoint(misfit))(X),
    "custom_vjp": lambda: ruled(X),
    "eval_shape": lambda: ft.eval_shape(misfit, X),
    "make_program": lambda: ft.make_program(misfit)(X),
    "scan": lambda: ft.scan(lambda c, x: (c, misfit(X)), 0.0, X),
    "jit(scan)": lambda: ft.jit(lambda x: ft.scan(lambda c, _: (c, misfit(x)), 0.0, x))(X),
    "cond": lambda: ft.cond(True, misfit, misfit, X),
    "minimize": lambda: ft.optim.sgd(0.1).minimize(misfit)(X, ft.optim.sgd(0.1).init(X)),
    "sparse": lambda: ft.sparse.jacobian(misfit)(X),
    "lower": lambda: ft.jit(misfit).lower(X),
    "elementwise_grad": lambda: ft.elementwise_grad(misfit)(X),
}


@pytest.mark.parametrize("call", TRANSFORMED.values(), ids=TRANSFORMED)
def test_a_transformed_function_shows_the_users_frames_alone(call):
    error = raised(call)
    assert type(error) is ft.errors.ShapeError
    assert frames(error) == []
    # The line that is wrong is there, as the innermost.
    assert traceback.extract_tb(error.__traceback__)[-1].name == "misfit"
    assert error.__cause__ is None


def test_a_shape_error_under_jit_of_grad_is_short():
    program = (
        "import functensor as ft, functensor.numpy as np\n"
        "def f(x):\n    return np.sum(x @ np.ones((4, 4)))\n"
        "ft.jit(ft.grad(f))(np.ones(3))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "FUNCTENSOR_FULL_TRACEBACKS"}

    def said(**more):
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, env={**environment, **more})
        return run.stderr.splitlines()

    short = said()
    places = sum("File" in line for line in short)
    # Python 3.13 shows the text of the command, and marks the part of it.
    shown = [line for line in short if line.startswith("    ")]
    assert len(shown) <= 2 * places, "\n".join(short)
    assert len(short) - len(shown) <= 9, "\n".join(short)
    assert [line for line in short if "File" in line] == [
        '  File "<string>", line 4, in <module>',
        '  File "<string>", line 3, in f',
    ]
    assert len(said(FUNCTENSOR_FULL_TRACEBACKS="1")) > 40


DIRECT = {
    "a pulling function": lambda: ft.vjp(np.sin, X)[1](np.ones(4)),
    "a pushing function": lambda: ft.linearize(np.sin, X)[1](np.ones(4)),
    "vectorize": lambda: np.vectorize(lambda a: a)(X, 1.0),
    "r_": lambda: np.r_[X, "q"],
    "function": lambda: np.linalg.norm(X, axis=7),
    "primitive": lambda: np.add(X, np.ones(4)),
    "operator": lambda: X + np.ones(4),
    "reflected": lambda: numpy.ones(4) - X,
    "comparison": lambda: np.ones(4) > X,
    "equality": lambda: np.ones(4) == X,
    "unary": lambda: ~X,
    "matmul": lambda: X @ np.ones((4, 4)),
    "method": lambda: X.sum(axis=4),
    "index": lambda: X[7],
    "item": lambda: X.__setitem__(0, 1.0),
    "update": lambda: X.at[9].set(1.0),
    "NumPy's function": lambda: numpy.concatenate([X, np.ones((2, 2))]),
    "NumPy's ufunc": lambda: numpy.add(X, np.ones(4)),
    "tensor": lambda: ft.Tensor([1.0]).backward(),
    "constructor": lambda: ft.optim.SGD([], 0.1),
    "random": lambda: ft.random.normal(0.5),
    "len": lambda: len(np.ones(())),
    "bool": lambda: bool(X),
    "float": lambda: float(X),
    "iteration": lambda: list(np.ones(())),
    "name of a module": lambda: np.sine,
    "name of an array": lambda: X.backward,
    "tree": lambda: ft.tree.map(lambda a, b: a, [1, 2], [1]),
    "distribution": lambda: ft.scipy.stats.norm.logpdf(X, np.ones(4)),
    "linear algebra": lambda: np.linalg.solve(np.ones((2, 3)), X),
    "reshape": lambda: X.reshape(7),
    "where": lambda: np.where(X > 0, X, np.ones(4)),
    "clip": lambda: np.clip(X, np.ones(4), None),
}


@pytest.mark.parametrize("call", DIRECT.values(), ids=DIRECT)
def test_a_call_ends_at_the_users_line(call):
    assert frames(raised(call)) == []


def test_users_exceptions_keep_their_type_and_frames():
    class Own(RuntimeError):
        def __init__(self, first, second):
            super().__init__(first, second)

    def deep(n):
        if n == 0:
            raise Own("first", 2)
        return deep(n - 1)

    def f(x):
        return deep(3)

    def inner(x):
        return ft.vmap(f)(x)

    for call in (ft.grad(f), ft.jit(ft.vmap(f)), ft.jit(inner), ft.checkpoint(f)):
        error = raised(call, X)
        assert type(error) is Own
        assert error.args == ("first", 2)
        assert not hasattr(error, "__notes__")
        names = [f.name for f in traceback.extract_tb(error.__traceback__)]
        assert names[-5:] == ["f", "deep", "deep", "deep", "deep"]
        assert frames(error) == []


def test_a_users_function_given_too_much_is_told_by_its_own_name():
    def f(x):
        return np.sum(x)

    error = raised(ft.grad(f), X, X)
    assert "f() takes 1 positional argument but 2 were given" in str(error)
    assert frames(error) == []


def test_what_stands_behind_an_exception_is_shortened_too():
    def f(x):
        try:
            return x @ np.ones((4, 4))
        except ft.errors.ShapeError as error:
            raise KeyError("mine") from error

    error = raised(ft.grad(f), X)
    assert type(error) is KeyError
    # The user's own cause stays, with the user's frame.
    cause = error.__cause__
    assert type(cause) is ft.errors.ShapeError
    assert [f.name for f in traceback.extract_tb(cause.__traceback__)] == ["f"]
    # NumPy's error, which was caught in here, is not told.
    direct = raised(lambda: X + np.ones(4))
    assert "direct cause" not in "".join(traceback.format_exception(direct))
    assert "During handling" not in "".join(traceback.format_exception(direct))


def test_the_setting_brings_the_frames_back():
    with ft.config.using(full_tracebacks=True):
        full = raised(lambda: X + np.ones(4))
    assert len(frames(full)) > 1
    assert type(full.__cause__) is ValueError
    assert frames(raised(lambda: X + np.ones(4))) == []
    with pytest.raises(ValueError, match=r"config\.full_tracebacks is one of True, False, not 1"):
        ft.config.full_tracebacks = 1


def test_frames_of_others_stay_where_they_call_us():
    def key(value):
        raise KeyError(value)

    # NumPy's frame is that of a function which the user called.
    error = raised(lambda: numpy.apply_along_axis(key, 0, numpy.ones(3)))
    assert without_ours(error.__traceback__) is error.__traceback__
    assert any("numpy" in name for name in frames(error))
    # Calls of it by us are not shown.
    assert frames(raised(lambda: np.linalg.solve(np.zeros((2, 2)), np.ones((3, 2))))) == []


def test_an_exception_caught_within_a_transformation_can_be_raised_again():
    seen = []

    def f(x):
        try:
            x @ np.ones((4, 4))
        except ft.errors.ShapeError as error:
            seen.append(error)
        return np.sum(x)

    assert ft.grad(f)(X).tolist() == [1.0, 1.0, 1.0]
    assert len(seen) == 1


def test_generators_and_interrupts_pass():
    def f(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ft.grad(f)(X)
    assert ft.grad(lambda x: x * 2)(1.0) == 2.0


def test_functions_within_are_not_wrapped():
    """functensor's own modules call what is inside of the wrappers."""
    plain = import_module("functensor.numpy.quantiles").median
    assert np.median.__wrapped__ is plain
    assert np.median.__module__ == "functensor.numpy"
    assert np.median.__doc__ == plain.__doc__
