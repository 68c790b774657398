"""``ft.config.check_finite`` names the first operation that makes NaN or infinity."""

import numpy
import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.trace import slot
from functensor.testing import assert_allclose

X = numpy.array([0.0, 1.0, 4.0])


def roots(x):
    return np.sum(np.sqrt(x))


def powers(x):
    return np.sum(x**1.5)


def by_tensor():
    ft.Tensor(X, requires_grad=True).sqrt().sum().backward()


@ft.custom_vjp
def crooked(x):
    return np.sum(x)


crooked.defvjp(lambda x: (np.sum(x), x), lambda x, g: (g / x,))

FOUND = {
    "log made infinity of float64[3] from 0 to 4": lambda: np.log(np.asarray(X)),
    "exp made infinity of float64[] from 1000 to 1000": lambda: np.exp(np.asarray(1000.0)),
    "sqrt made NaN of float64[3] from -5 to -1": lambda: np.sqrt(np.asarray(-X - 1)),
    "from 1 to 1 and int from 1e+39 to 1e+39": lambda: np.ones(2, "float32") * 10**39,
    "astype made infinity": lambda: np.asarray(1e6).astype("float16"),
    "divide made infinity of int from 1 to 1 and float64[] from 0 to 4": lambda: ft.vmap(
        lambda x: 1 / x
    )(X),
    "the gradient of sqrt by operand 0": lambda: ft.grad(roots)(X),
    "the gradient of sqrt": lambda: ft.jit(ft.value_and_grad(roots))(X),
    "gradient of sqrt by": lambda: ft.grad(ft.jit(roots))(X),
    "of sqrt by operand": lambda: ft.vmap(ft.grad(np.sqrt))(X),
    "sqrt by operand 0": lambda: ft.grad(ft.checkpoint(roots))(X),
    "sqrt by operand": by_tensor,
    "the tangent of sqrt made infinity": lambda: ft.jvp(np.sqrt, (X,), (X + 1,)),
    "divide made infinity of float64[] from 1 to 1 and float64[3] from 0 to 4": lambda: ft.grad(
        crooked
    )(X),
    "the gradient of power by operand 0": lambda: ft.grad(
        lambda x: np.sum(ft.grad(powers)(x))
    )(X),
    "gradient's tangent of power": lambda: ft.jacfwd(ft.grad(powers))(X),
    "divide made infinity of float64[] from 1 to 1": lambda: ft.scan(
        lambda c, x: (c / x, c), 1.0, X
    ),
}


pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("words", FOUND)
def test_the_operation_is_named(words):
    with ft.config.using(check_finite=True), pytest.raises(ft.errors.NonFiniteError) as caught:
        FOUND[words]()
    assert words in str(caught.value)
    assert __file__ in str(caught.value)
    assert slot.trace is None


@pytest.mark.parametrize("scoped", [False, True], ids=["", "in scopes"])
def test_the_whole_message(scoped):
    def f(x):
        with ft.scope("layer13"), ft.scope("dense"):
            return np.sum(np.sqrt(x))  # where it is computed

    def g(x):

        return np.sum(np.sqrt(x))

    f = f if scoped else g
    with ft.config.using(check_finite=True), pytest.raises(ft.errors.NonFiniteError) as caught:
        ft.grad(f)(X)
    line = f.__code__.co_firstlineno
    named = "sqrt in scope 'layer13/dense'" if scoped else "sqrt"
    what = f"the gradient of {named} by operand 0, which was computed at {__file__}:{line + 2},"
    fix = "np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the operation"
    assert str(caught.value).splitlines() == [
        f"{what} made infinity of the cotangent float64[3] from 1 to 1 and float64[3] from 0 to 2",
        f"  at {__file__}:{test_the_whole_message.__code__.co_firstlineno + 12}",
        f"  under grad({defined(f)})",
        f"  fix: keep operands in the domain: {fix}",
        "  see python -m functensor.errors 18",
    ]
    # The message says all: it is nothing to know that a hook has raised it.
    assert not hasattr(caught.value, "__notes__")


def body(carry, x):
    with ft.scope("step"):
        return carry + np.log(x), None


def scanned(xs):
    return ft.scan(body, 0.0, xs)[0]


def logs(x):
    with ft.scope("step"):
        return np.log(x)


def chosen(x):
    return ft.cond(x[0] < 1, logs, np.zeros_like, x)


def looped(x):
    return ft.while_loop(lambda x: x[1] == 1, logs, x)


def summed(x):
    return np.sum(logs(x))


IN_SCAN = f"scan({defined(body)})"
STACKS = {
    "eager": (logs, "[3] from 0 to 4", ""),
    "jit": (ft.jit(logs), "[3] from 0 to 4", f"jit({defined(logs)})"),
    "jit of grad": (
        ft.jit(ft.grad(summed)),
        "[3] from 0 to 4",
        f"jit({defined(summed)}) of grad({defined(summed)})",
    ),
    "grad of jit": (
        ft.grad(ft.jit(summed)),
        "[3] from 0 to 4",
        f"grad({defined(summed)}) of jit({defined(summed)})",
    ),
    "vmap of jit": (
        lambda x: ft.vmap(ft.jit(logs))(x[:, None]),
        "[1] from 0 to 4",
        f"vmap({defined(logs)}) of jit({defined(logs)})",
    ),
    "jit of scan": (ft.jit(scanned), "[] from 0 to 0", f"jit({defined(scanned)}) of {IN_SCAN}"),
    "jit of cond": (
        ft.jit(chosen),
        "[3] from 0 to 4",
        f"jit({defined(chosen)}) of cond: true_fun({defined(logs)})",
    ),
    "jit of while_loop": (
        ft.jit(looped),
        "[3] from 0 to 4",
        f"jit({defined(looped)}) of while_loop({defined(logs)})",
    ),
}


@pytest.mark.parametrize("name", STACKS)
def test_the_stack_and_the_scope(name):
    run, operand, under = STACKS[name]
    line = f"{__file__}:{(body if 'scan' in name else logs).__code__.co_firstlineno + 2}"
    what = f"log in scope 'step' made infinity of float64{operand}"
    fix = "np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the operation"
    with ft.hooks.check_finite():
        run(X + 1.0)
        for _ in range(2):
            with pytest.raises(ft.errors.NonFiniteError) as caught:
                run(X)
            wanted = text(what, line, f"keep operands in the domain: {fix}", 18, under)
            assert str(caught.value) == wanted
            assert not hasattr(caught.value, "__notes__")


FINE = {
    "a mask": lambda: ft.grad(lambda x: np.sum(np.exp(np.where(x > 0, x, -np.inf))))(X),
    "data": lambda: np.sum(np.asarray([np.nan, 1.0]) * 2),
    "what a rule computes on the way": lambda: ft.grad(lambda x: np.sum(np.abs(x)))(X),
    "a hessian": lambda: ft.hessian(lambda x: np.sum(np.sin(x)))(X),
    "integers": lambda: np.cumsum(np.arange(3)),
    "a program": lambda: ft.make_program(lambda x: 1 / x)(X),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_left_alone(name):
    wanted = FINE[name]()
    with ft.config.using(check_finite=True):
        got = FINE[name]()
    if name != "a program":
        assert_allclose(got, wanted, rtol=0, atol=0)


def test_the_switch():
    f = ft.jit(lambda x: np.log(x))
    assert numpy.isinf(numpy.asarray(f(X))).any()
    ft.config.check_finite = True
    try:
        with pytest.raises(ft.errors.NonFiniteError):
            f(X)
        with ft.config.using(check_finite=False):
            f(X)
        with pytest.raises(ft.errors.NonFiniteError), ft.config.using(check_finite=True):
            f(X)
        assert slot.trace is not None
    finally:
        ft.config.check_finite = False
    assert slot.trace is None
    assert numpy.isinf(numpy.asarray(f(X))).any()
    with pytest.raises(ValueError, match="check_finite is one of False, True"):
        ft.config.check_finite = 1


def test_within_a_function_that_is_transformed():
    def f(x):
        with ft.config.using(check_finite=True):
            y = np.sqrt(x)
        return np.sum(y)

    with pytest.raises(FloatingPointError, match="sqrt made NaN"):
        ft.grad(f)(-X)
    assert slot.trace is None
    assert not ft.config.check_finite


def test_a_graph_that_was_checked_is_walked_when_nothing_is_checked():
    with ft.config.using(check_finite=True):
        pull = ft.vjp(roots, X)[1]
    assert_allclose(pull(1.0)[0], numpy.array([numpy.inf, 0.5, 0.25]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.einsum("i,i->i", x, x)),
        lambda x: np.sum(np.concatenate([x, x]) ** 2) / 2,
        lambda x: np.sum(np.stack([x, x]) ** 2) / 2,
    ],
)
def test_operations_of_any_number_of_operands_end(f):
    with ft.config.using(check_finite=True):
        assert ft.grad(f)(np.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: np.sum(np.astype(x, "float64") * 1e200),
        lambda x: np.sum(x * np.array([1e200, 1.0])),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_casts_of_cotangents_count(fun, jitted):
    run = ft.jit(ft.grad(fun)) if jitted else ft.grad(fun)
    x = np.ones(2, dtype="float32")
    for _ in range(2):
        with ft.hooks.check_finite(), pytest.raises(ft.errors.NonFiniteError) as caught:
            run(x)
        assert " made infinity of the cotangent float64[2]" in str(caught.value)
