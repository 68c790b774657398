"""The right code that `check_finite` shows fits what was found, and helps."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn, scipy
from functensor.errors import NonFiniteError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

X = numpy.array([0.0, 1.0, 1000.0])
HALF = numpy.array([1.0, 300.0], "float16")
SINGLE = numpy.array([1.0, 1e30], "float32")
LARGE = numpy.array([1.0, 1e300])
DOMAIN = (
    "keep operands in the domain: np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the "
    "operation"
)
BEFORE = "keep operands in the domain: {} before the operation"
INSIDE = BEFORE.format("np.clip(x, -0.999999, 0.999999)")
SMALL = "keep operands small: np.clip(x, -50.0, 50.0) before the operation"
DIVISOR = "keep the divisor from zero: x / np.where(y == 0, 1.0, y)"
EXPONENT = (
    "subtract the maximum first: np.exp(x - np.max(x)); of a sum or a ratio of exponentials, "
    "ft.scipy.special.logsumexp(x) or ft.nn.softmax(x)"
)
OVERFLOW = "scale operands down before the operation: x / np.max(np.abs(x))"
INFINITE = "keep infinity out of operands: np.where(np.isfinite(x), x, 0.0) before the operation"


def wider(dtype):
    return f'{OVERFLOW}, or use a wider dtype: x.astype("{dtype}")'


def cast(dtype, given):
    return (
        f'scale it down first: (x / np.max(np.abs(x))).astype("{dtype}"), or keep it in {given}'
    )


FIXES = {
    "log": (np.log, X, DOMAIN),
    "sqrt": (np.sqrt, -X, DOMAIN),
    "arctanh": (np.arctanh, X[:2], INSIDE),
    "arccos": (np.arccos, X[1:] + 0.5, INSIDE),
    "gradient of arcsin": (ft.grad(lambda x: np.sum(np.arcsin(x))), X[:2], INSIDE),
    "arccosh": (np.arccosh, X, BEFORE.format("np.maximum(x, 1.000001)")),
    "log1p": (np.log1p, -X, BEFORE.format("np.maximum(x, -0.999999)")),
    "gradient of sqrt": (ft.grad(lambda x: np.sum(np.sqrt(x))), X, DOMAIN),
    "power at zero": (lambda x: x**-1.5, X, DOMAIN),
    "gradient of power at zero": (ft.grad(lambda x: np.sum(x**0.5)), X, DOMAIN),
    "power of large numbers": (lambda x: x**2.5, LARGE, OVERFLOW),
    "divide by zero": (lambda x: 1 / x, X, DIVISOR),
    "zero by zero": (lambda x: x / x, X, DIVISOR),
    "remainder": (lambda x: np.fmod(x, np.abs(x)), X, DIVISOR),
    "reciprocal": (np.reciprocal, X, DIVISOR),
    "divide by a small number": (lambda x: x / 1e-300, LARGE, OVERFLOW),
    "exp": (np.exp, X, EXPONENT),
    "exp of float32": (np.exp, SINGLE, EXPONENT),
    "sinh": (np.sinh, X, SMALL),
    "expm1": (np.expm1, X, SMALL),
    "multiply": (lambda x: x * x, LARGE, OVERFLOW),
    "multiply in float16": (lambda x: x * x, HALF, wider("float32")),
    "square in float32": (np.square, SINGLE, wider("float64")),
    "sum": (lambda x: np.sum(np.stack([x, x]) * 1e8), LARGE, OVERFLOW),
    "sum of float16": (lambda x: np.cumsum(np.stack([x] * 300)), HALF, wider("float32")),
    "matmul": (lambda x: x @ x, SINGLE, wider("float64")),
    "gradient of multiply": (
        ft.grad(lambda x: np.sum(np.square(x * 1e30))),
        numpy.full(2, 1e-12, "float32"),
        wider("float64"),
    ),
    "astype float16": (lambda x: np.astype(x, "float16"), LARGE, cast("float16", "float64")),
    "astype float32": (lambda x: np.astype(x, "float32"), LARGE, cast("float32", "float64")),
    "infinity less infinity": (lambda x: x - x, numpy.array([numpy.inf]), INFINITE),
    "zero by infinity": (lambda x: x * 0.0, numpy.array([numpy.inf]), INFINITE),
    "complex": (np.square, LARGE + 0j, OVERFLOW),
    "complex64": (np.square, SINGLE.astype("complex64"), wider("complex128")),
}


def fix_of(call):
    with ft.hooks.check_finite(), pytest.raises(NonFiniteError) as caught:
        call()
    (line,) = [line for line in str(caught.value).splitlines() if line.startswith("  fix: ")]
    return line.removeprefix("  fix: ")


@pytest.mark.parametrize("jitted", [False, True], ids=["", "jit"])
@pytest.mark.parametrize("name", FIXES)
def test_the_fix_is_for_what_was_found(name, jitted):
    fun, x, fix = FIXES[name]
    run = ft.jit(fun) if jitted else fun
    for _ in range(2):
        assert fix_of(lambda: run(np.asarray(x))) == fix


def test_the_fixes_help():
    x, y = np.asarray(X), np.asarray(LARGE)
    with ft.hooks.check_finite():
        np.log(np.maximum(x, 1e-12)), np.sqrt(np.where(x > 0, x, 1.0))
        ft.grad(lambda x: np.sum(np.sqrt(np.maximum(x, 1e-12))))(x)
        inside = np.clip(x, -0.999999, 0.999999)
        for fun in (np.arccos, np.arcsin, np.arctanh):
            ft.value_and_grad(lambda x, fun=fun: np.sum(fun(x)))(inside)
        ft.grad(lambda x: np.sum(np.arccosh(x)))(np.maximum(x, 1.000001))
        ft.grad(lambda x: np.sum(np.log1p(x)))(np.maximum(-x, -0.999999))
        np.cosh(np.clip(x, -50.0, 50.0)), np.expm1(np.clip(x, -50.0, 50.0))
        x / np.where(x == 0, 1.0, x)
        np.exp(x - np.max(x)), scipy.special.logsumexp(x), nn.softmax(x)
        np.square(y / np.max(np.abs(y)))
        np.square(np.asarray(HALF).astype("float32"))
        np.square(np.asarray(SINGLE).astype("float64"))
        (y / np.max(np.abs(y))).astype("float16")
        masked = np.asarray([np.inf, 1.0])
        masked = np.where(np.isfinite(masked), masked, 0.0)
        masked - masked


@pytest.mark.parametrize("fun", [np.mean, np.var, lambda x: np.std(x, ddof=1)])
def test_averages_of_too_few_elements(fun):
    x = np.ones(0) if fun in (np.mean, np.var) else np.ones(1)
    assert fix_of(lambda: fun(x)) == "there are too few elements: test x.size before the operation"
