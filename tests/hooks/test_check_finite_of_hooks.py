"""NaN and infinity that a hook puts in place of finite values are the hook's, by its name."""

import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor.errors import NonFiniteError

X = np.array([0.5, 1.0, 2.0])
BATCH = np.array([[0.5, 1.0, 2.0], [1.0, 1.0, 1.0]])
FIX = "return finite values from it, or None to change nothing"
UNPACKED = "return from unpack what pack was given, but for rounding"
RANGE = "float64[3] from 1.64872 to 7.38906"
WAY_BACK = "the cotangent float64[3] from 5.43656 to 109.196"


def f(x):
    with ft.scope("block"):
        h = np.exp(x)
    return np.sum(h * h)


LINE = f"{__file__}:{f.__code__.co_firstlineno + 2}"


def body(carry, x):
    return carry + f(x), None


def large(h):
    return np.where(h > 7.0, -np.inf, h)


def spoiled(op, inputs, output):
    return output * np.nan


def spoiled_back(op, grad_inputs, grad_output):
    return [g * np.nan for g in grad_inputs]


def pack(op, value):
    return value.astype("float32")


def unpack(op, packed):
    return packed.astype("float64") * np.nan


F = defined(f)
# How a function is run, what messages say of transformations forward and on the way back, and
# whether there is a way back.
RUNS = {
    "eager": (lambda f: f(X), "", None),
    "jit": (lambda f: ft.jit(f)(X), f"jit({F})", None),
    "grad": (lambda f: ft.grad(f)(X), f"grad({F})", f"grad({F})"),
    "jit of grad": (
        lambda f: ft.jit(ft.grad(f))(X),
        f"jit({F}) of grad({F})",
        f"jit({F}) of grad({F})",
    ),
    "grad of jit": (lambda f: ft.grad(ft.jit(f))(X), f"grad({F}) of jit({F})", f"grad({F})"),
    "jvp": (lambda f: ft.jvp(f, (X,), (X,)), f"jvp({F})", None),
    "vmap": (lambda f: ft.vmap(f)(BATCH), f"vmap({F})", None),
    "vmap of grad": (
        lambda f: ft.vmap(ft.grad(f))(BATCH),
        f"vmap({F}) of grad({F})",
        f"vmap({F}) of grad({F})",
    ),
    "checkpoint": (
        lambda f: ft.grad(ft.checkpoint(f))(X),
        f"grad({F}) of checkpoint({F})",
        f"grad({F})",
    ),
}
BACK = [name for name, run in RUNS.items() if run[2] is not None]


def raised(call):
    """Returns the message of the error that a call raises under the check."""
    with ft.hooks.check_finite(), pytest.raises(NonFiniteError) as caught:
        call()
    assert not hasattr(caught.value, "__notes__")
    return str(caught.value)


@pytest.mark.parametrize("name", RUNS)
def test_an_edit(name):
    run, under, _ = RUNS[name]
    what = f"the hook {defined(large)} on exp in scope 'block' made infinity in place of {RANGE}"
    got = raised(lambda: run(ft.hooks.edit(f, "exp", large)))
    assert got == text(what, LINE, FIX, 18, under)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", RUNS)
def test_a_forward_hook(name, first):
    run, under, _ = RUNS[name]
    hook = ft.hooks.FnHook(forward=spoiled)

    def outside():
        with ft.hooks.use(hook, match="exp"):
            run(f)

    def before_the_check():
        with ft.hooks.use(hook, match="exp"), ft.hooks.check_finite():
            run(f)

    what = f"the hook {defined(spoiled)} on exp in scope 'block' made NaN in place of {RANGE}"
    got = raised(before_the_check if first else outside)
    assert got == text(what, LINE, FIX, 18, under)


@pytest.mark.parametrize("name", BACK)
def test_a_backward_hook(name):
    run, _, under = RUNS[name]
    def outside():
        with ft.hooks.use(ft.hooks.FnHook(backward=spoiled_back), match="exp"):
            run(f)

    of = "the gradient of exp in scope 'block' by operand 0"
    what = f"the hook {defined(spoiled_back)} on {of} made NaN in place of {WAY_BACK}"
    assert raised(outside) == text(what, LINE, FIX, 18, under)


def test_a_class_is_named():
    class Spoils(ft.hooks.Hook):
        def forward(self, op, inputs, output):
            return spoiled(op, inputs, output)

    with ft.hooks.use(Spoils(), match="exp"):
        assert raised(lambda: f(X)).startswith("the hook Spoils on exp in scope 'block' made NaN")


def test_a_tag_is_named():
    edited = ft.hooks.edit(lambda x: np.sum(ft.tag(np.exp(x), "h")), "h", large)
    got = raised(lambda: edited(X))
    what = f"the hook {defined(large)} on tag 'h' made infinity in place of {RANGE}"
    assert got.startswith(what)


@pytest.mark.parametrize("name", ["grad", "grad of jit", "vmap of grad"])
def test_a_residual_hook(name):
    run, _, under = RUNS[name]

    def outside():
        with ft.hooks.use(ft.hooks.ResidualHook(pack, unpack), match="exp"):
            run(f)

    known = RANGE.replace("[3]", "[2, 3]") if "vmap" in name else RANGE
    what = f"unpack of the hook {defined(unpack)} on exp in scope 'block' made NaN in place of "
    assert raised(outside) == text(what + known, LINE, UNPACKED, 18, under)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_a_residual_that_does_not_fit_its_dtype():
    def g(x):
        return np.sum(np.exp(x) * 1e-300)

    with ft.hooks.use(ft.hooks.CompressHook("float32")):
        got = raised(lambda: ft.grad(g)(300 * X))
    line = f"{__file__}:{g.__code__.co_firstlineno + 1}"
    what = "unpack of the hook CompressHook on exp made infinity in place of float64[3] from "
    what += "1.39371e+65 to 3.77302e+260"
    assert got == text(what, line, UNPACKED, 18, f"grad({defined(g)})")


def test_what_was_not_finite_before_is_no_fault_of_a_hook():
    infinite = np.array([-np.inf, 0.0])
    hook = ft.hooks.ResidualHook(pack, lambda op, packed: packed.astype("float64"))
    doubled = ft.hooks.FnHook(forward=lambda op, inputs, output: 2 * output)
    with ft.hooks.use(hook), ft.hooks.use(doubled), ft.hooks.check_finite():
        ft.grad(lambda x: np.sum(np.exp(np.concatenate([x, x]))))(infinite)
        np.negative(infinite)
        (-infinite) + 1.0


# -- tensors


def test_a_hook_on_the_gradient_of_a_tensor():
    x = ft.Tensor([0.5, 1.0], requires_grad=True)

    def spoils(g):
        return g * np.nan

    def run():
        (x * 2).sum().backward()

    x.register_hook(spoils)
    named = f"the hook {defined(spoils)} of tensor {x.id} (float32[2])"
    what = f"{named} made NaN in place of its gradient float32[2] from 2 to 2"
    line = f"{__file__}:{run.__code__.co_firstlineno + 1}"
    fix = "return finite values, or None to leave the gradient as it is"
    assert raised(run) == text(what, line, fix, 18)
    with ft.hooks.check_finite(where="sin"):
        run()


def test_a_hook_on_the_operations_of_a_tensor():
    x = ft.Tensor([0.5, 1.0], requires_grad=True)
    x.register_hook(ft.hooks.FnHook(forward=spoiled))

    def run():
        return x * 2

    what = f"the hook {defined(spoiled)} on multiply made NaN in place of float32[2] from 1 to 2"
    assert raised(run) == text(what, f"{__file__}:{run.__code__.co_firstlineno + 1}", FIX, 18)


# -- plans


def edited_scan(xs):
    return ft.scan(ft.hooks.edit(body, "exp", large), 0.0, xs)[0]


def inner(x):
    return INNER(x) * 1.0


EDITED = ft.hooks.edit(f, "exp", large)
INNER = ft.jit(EDITED)
PLANS = {
    "jit": (ft.jit(EDITED), RANGE, f"jit({F})"),
    "jit of grad": (ft.jit(ft.grad(EDITED)), RANGE, f"jit({F}) of grad({F})"),
    "jit of jit": (ft.jit(inner), RANGE, f"jit({defined(inner)}) of jit({F})"),
    "jit of scan": (
        ft.jit(edited_scan),
        "float64[] from 7.38906 to 7.38906",
        f"jit({defined(edited_scan)}) of scan({defined(body)})",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_an_edit_that_is_compiled_in(name):
    run, known, under = PLANS[name]
    what = f"the hook {defined(large)} on exp in scope 'block' made infinity in place of {known}"
    wanted = text(what, LINE, FIX, 18, under)
    with ft.hooks.check_finite():
        for _ in range(3):
            run(X / 2)
    for _ in range(2):
        assert raised(lambda: run(X)) == wanted
    # Without the check it is a plan like others.
    run(X), run(X)
    assert raised(lambda: run(X)) == wanted


def test_clipped_gradients_are_computed_by_a_plan(runs):
    run = ft.jit(ft.grad(ft.hooks.clip_gradients(f, "exp", max_norm=1.0)))
    with ft.hooks.check_finite():
        for _ in range(3):
            run(X)
    assert len(runs) == 1


def test_where_and_scope_choose_whose_replacements_are_looked_at():
    edited = ft.hooks.edit(f, "exp", large)
    for choice, raises in [
        ({"where": "exp"}, True),
        ({"where": "sin"}, False),
        ({"scope": "block"}, True),
        ({"scope": "other"}, False),
        ({"where": lambda op: bool(np.all(np.ones(2) > 0)) and op.name == "exp"}, True),
        ({"inf": False}, False),
    ]:
        with ft.hooks.check_finite(**choice):
            if raises:
                with pytest.raises(NonFiniteError, match="the hook large"):
                    edited(X)
            else:
                edited(X)
    with ft.config.using(check_finite=True):
        with pytest.raises(NonFiniteError, match="the hook large"):
            edited(X)
        with ft.config.using(check_finite=False):
            edited(X)
