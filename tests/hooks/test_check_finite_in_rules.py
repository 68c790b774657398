"""`check_finite` names the first bad operation within a function with a rule of its own."""

import numpy
import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor.errors import NonFiniteError
from functensor.testing import assert_allclose

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

GOOD, ZERO = numpy.array([1.0, 2.0, 4.0]), numpy.array([1.0, 0.0, 4.0])
DOMAIN = (
    "keep operands in the domain: np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the "
    "operation"
)
DIVISOR = "keep the divisor from zero: x / np.where(y == 0, 1.0, y)"
OF_ITS_OWN = "return finite values from the function and from its rule"


@ft.custom_vjp
def plain(x):
    return np.sum(np.log(x))


def plain_bwd(x, g):
    return (g / x,)


plain.defvjp(lambda x: (np.sum(x), x), plain_bwd)


@ft.custom_vjp
def early(x):
    return np.sum(x)


def early_fwd(x):
    logs = np.log(x)
    return np.sum(x), logs


early.defvjp(early_fwd, lambda logs, g: (g * logs,))


@ft.custom_jvp
def pushed(x):
    return np.sum(x)


@pushed.defjvp
def pushed_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return np.sum(x), np.sum(t * np.log(x))


@ft.custom_gradient
def made(x):
    def pull(g):
        return g * np.log(x)

    return np.sum(x), pull


@ft.custom_vjp
def constant(x):
    return np.sum(x)


def constant_bwd(x, g):
    return (np.full(3, np.inf),)


constant.defvjp(lambda x: (np.sum(x), x), constant_bwd)


def in_layer(fun):
    def scoped(x):
        with ft.scope("layer"):
            return fun(x)

    return scoped


LOG = "log in scope 'layer' made infinity of float64[3] from 0 to 4"
LAYERS = {fun: in_layer(fun) for fun in (plain, early, pushed, made, constant)}
LAYER = defined(LAYERS[plain])
# By what the bad line is in: the function, how it is run, the message, its line and its fix.
CASES = {
    "the function": (plain, lambda f: f, LOG, (plain.__wrapped__, 2), DOMAIN, ""),
    "fwd": (early, ft.grad, LOG, (early_fwd, 1), DOMAIN, f"grad({LAYER})"),
    "bwd": (
        plain,
        ft.grad,
        "divide in scope 'layer' made infinity of float64[] from 1 to 1 and float64[3] from 0 to 4",
        (plain_bwd, 1),
        DIVISOR,
        f"grad({LAYER})",
    ),
    "jvp": (
        pushed,
        lambda f: lambda x: ft.jvp(f, (x,), (x,)),
        LOG,
        (pushed_jvp, 3),
        DOMAIN,
        f"jvp({LAYER})",
    ),
    "jvp, transposed": (pushed, ft.grad, LOG, (pushed_jvp, 3), DOMAIN, f"grad({LAYER})"),
    "the pull of custom_gradient": (
        made,
        ft.grad,
        LOG,
        (made.__wrapped__, 3),
        DOMAIN,
        f"grad({LAYER})",
    ),
}


def raised(call):
    with ft.hooks.check_finite(), pytest.raises(NonFiniteError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("jitted", [False, True], ids=["", "jit"])
@pytest.mark.parametrize("name", CASES)
def test_the_line_of_the_rule_is_named(name, jitted):
    fun, transform, what, (where, lines), fix, under = CASES[name]
    layer = LAYERS[fun]
    run = transform(layer)
    if jitted:
        outer = defined(layer)
        if name == "jvp":
            outer = defined(run)
        under = " of ".join(filter(None, [f"jit({outer})", under]))
        run = ft.jit(run)
    line = f"{__file__}:{where.__code__.co_firstlineno + lines}"
    for _ in range(2):
        assert raised(lambda: run(np.asarray(ZERO))) == text(what, line, fix, 18, under)
        with ft.hooks.check_finite():
            run(np.asarray(GOOD))
    # Without the check nothing is seen.
    run(np.asarray(ZERO))


def test_a_rule_that_returns_a_bad_constant_is_named_by_its_function():
    layer = LAYERS[constant]

    def run():
        ft.grad(layer)(GOOD)

    line = f"{__file__}:{run.__code__.co_firstlineno + 1}"
    computed = f"{__file__}:{layer.__code__.co_firstlineno + 2}"
    what = "the gradient of constant in scope 'layer' by operand 0, which was computed at "
    what += f"{computed}, made infinity of the cotangent float64[] from 1 to 1"
    assert raised(run) == text(what, line, OF_ITS_OWN, 18, f"grad({LAYER})")


def batched(fun):
    return lambda x: ft.vmap(ft.grad(fun))(np.stack([x, x + 1]))


@pytest.mark.parametrize("transform", [lambda fun: fun, ft.grad, ft.hessian, batched])
@pytest.mark.parametrize("fun", [plain, early, pushed, made])
def test_results_and_higher_derivatives_stay_the_same(fun, transform):
    x = np.asarray(GOOD)
    wanted = transform(fun)(x)
    with ft.hooks.check_finite():
        assert_allclose(transform(fun)(x), wanted, rtol=0, atol=0)


def test_other_hooks_see_one_operation():
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with ft.hooks.use(hook), ft.hooks.check_finite():
        ft.grad(plain)(GOOD)
    with ft.hooks.check_finite(), ft.hooks.use(hook):
        ft.grad(plain)(GOOD)
    assert seen == ["plain", "plain"]


def test_a_check_that_has_ended_looks_at_no_rule():
    with ft.hooks.check_finite():
        pull = ft.vjp(plain, GOOD)[1]
        bad = ft.vjp(early, GOOD)[1]
    pull(np.inf), bad(1.0)
    with ft.hooks.check_finite():
        loss = plain(ft.Tensor(ZERO + 1, requires_grad=True))
    loss.backward()


def test_a_tensor():
    x = ft.Tensor([1.0, 0.0], requires_grad=True)

    def run():
        with ft.scope("layer"):
            loss = late(x)
        loss.backward()

    late = ft.custom_vjp(lambda x: np.sum(x))
    late.defvjp(lambda x: (np.sum(x), x), plain_bwd)
    what = "divide in scope 'layer' made infinity of float32[] from 1 to 1 and "
    what += "float32[2] from 0 to 1"
    line = f"{__file__}:{plain_bwd.__code__.co_firstlineno + 1}"
    assert raised(run) == text(what, line, DIVISOR, 18)
