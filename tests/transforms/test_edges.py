"""Edges that once gave wrong numbers or bare errors."""

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives import registry
from functensor.primitives.core import errors
from functensor.primitives.core.trace import slot


class Doubled(ft.hooks.Hook):
    def forward(self, op, inputs, output):
        return output * 2


def test_of_repeated_places_the_last_gets_the_cotangent():
    def put(v):
        return np.zeros(3).at[np.array([0, 0, 2])].set(v)

    v = np.array([1.0, 2.0, 3.0])
    wanted = [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert ft.jacfwd(put)(v).tolist() == wanted
    assert ft.jacrev(put)(v).tolist() == wanted
    batch = np.stack([v, v + 1])
    assert ft.vmap(ft.jacrev(put))(batch).tolist() == [wanted, wanted]
    assert ft.grad(lambda s: np.sum(np.zeros(3).at[np.array([2, 2])].set(s)))(1.0).item() == 1.0


def test_an_argument_is_named_once():
    for selection in ({"argnums": (0, 0)}, {"argnums": (0, -1)}, {"argnums": 0, "argnames": "x"}):
        with pytest.raises(ValueError, match="name an argument twice"):
            ft.grad(lambda x: x * x, **selection)(3.0)


def test_hooks_act_once_on_programs():
    with ft.hooks.use(Doubled(), "sin"):
        program = ft.make_program(np.sin)(1.0)
        assert program(1.0).item() == np.sin(1.0).item()
        assert ft.grad(program)(1.0).item() == ft.grad(np.sin)(1.0).item()
    assert program(1.0).item() == numpy.sin(1.0)


def test_hooks_see_what_is_linearized_and_not_the_linear_function():
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with ft.hooks.use(hook):
        _, linear = ft.linearize(np.sin, 1.0)
        assert seen == ["sin"]
        linear(1.0)
    assert seen == ["sin"]
    with ft.hooks.use(Doubled(), "multiply"):
        assert linear(1.0).item() == pytest.approx(numpy.cos(1.0))


def test_an_identity_hook_keeps_scalars_weak():
    f32 = np.ones(2, dtype="float32")
    for transform in (ft.grad, lambda f: lambda x: ft.jvp(f, (x,), (1.0,))[0]):

        def run(transform=transform):
            return transform(lambda x: np.sum(np.sin(x) * f32))(2.0)

        plain = run()
        with ft.hooks.use(ft.hooks.FnHook(forward=lambda *args: None)):
            hooked = run()
        assert (hooked.dtype, hooked.item()) == (plain.dtype, plain.item())


def test_a_hook_removed_within_a_run_leaves_the_slot():
    handle = ft.hooks.use(Doubled(), "sin")
    ft.grad(lambda x: (handle.remove(), np.sin(x))[1])(1.0)
    assert slot.trace is None


def test_custom_rules_may_return_numbers_and_other_dtypes():
    f = ft.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, None), lambda residuals, g: (2.0,))
    assert ft.grad(f)(1.0).item() == 2.0
    g = ft.custom_jvp(lambda x: x * 2)
    g.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * numpy.float64(2)))
    x = np.ones(2, dtype="float32")
    assert ft.jvp(g, (x,), (x,))[1].dtype == "float32"


@pytest.mark.parametrize("nondiff", [(-1,), (1,)])
def test_static_positions_count_from_the_end_too(nondiff):
    f = ft.custom_vjp(lambda x, n: x * n, nondiff_argnums=nondiff)
    f.defvjp(lambda x, n: (x * n, None), lambda n, residuals, g: (g * n,))
    assert ft.grad(f)(1.0, 3).item() == 3.0


def test_static_positions_exist():
    with pytest.raises(ValueError, match=r"nondiff_argnums=\(2,\): <lambda> has 1 positional"):
        ft.custom_vjp(lambda x: x, nondiff_argnums=(2,))


def test_a_pull_that_outlives_the_transformation_it_was_made_under_says_so():
    kept = []

    def f(x):
        out, pull = ft.vjp(lambda z: z * x * z, x)
        kept.append(pull)
        return out

    ft.grad(f)(2.0)
    with pytest.raises(errors.EscapedTracerError, match="the vjp function of <lambda>"):
        kept[0](1.0)


def test_an_integer_has_no_tangent():
    with pytest.raises(errors.GradientInputError, match="a tangent float was given for int"):
        ft.jvp(lambda x: x * 2.0, (3,), (1.0,))
    assert ft.jvp(lambda x, n: x * n, (2.0, 3), (1.0, 0))[1].item() == 3.0


@pytest.mark.parametrize("reduce", [np.sum, np.mean, np.max, np.prod, np.argmax, np.cumsum])
def test_lists_of_traced_values_are_stacked(reduce):
    wanted = reduce(np.array([2.0, 6.0]))
    assert ft.jvp(lambda x: reduce([x, 3 * x]), (2.0,), (1.0,))[0].tolist() == wanted.tolist()
    assert reduce((2.0, 6.0)).tolist() == wanted.tolist()


def test_traced_ends_of_linspace_keep_their_dtype():
    x = np.array(1.0, dtype="float32")
    assert np.linspace(0.0, x, 3).dtype == "float32"
    assert ft.eval_shape(lambda x: np.linspace(0.0, x, 3), x).dtype == "float32"
    assert ft.jvp(lambda x: np.linspace(x, 1, 3), (x,), (x,))[1].dtype == "float32"


def test_primitives_and_programs_are_copied_and_pickled():
    assert copy.deepcopy({"activation": np.tanh})["activation"] is np.tanh
    assert all(pickle.loads(pickle.dumps(primitive)) is primitive for primitive in registry)
    program = ft.make_program(lambda x: np.sin(x) * 2)(1.0)
    assert copy.deepcopy(program)(1.0).item() == program(1.0).item()
    assert pickle.loads(pickle.dumps(program))(1.0).item() == program(1.0).item()


def test_foreign_operands_have_their_say():
    class Foreign:
        def __radd__(self, other):
            return "foreign"

    x = np.ones(2)
    assert x + Foreign() == "foreign"
    assert (x == None) is False  # noqa: E711 - what users write
    assert x not in [None]
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"


@pytest.mark.parametrize(
    "call",
    [
        lambda: ft.grad(np.sin, "a")(1.0),
        lambda: ft.eval_shape(lambda x: "a", 1.0),
        lambda: np.sum(np.ones(2), axis="a"),
        lambda: np.where(np.ones(2) > 0, 1.0),
    ],
)
def test_wrong_kinds_of_arguments_are_type_errors(call):
    with pytest.raises(TypeError):
        call()


def test_a_gradient_that_no_backward_pass_reached_says_why():
    x, y = ft.Tensor([1.0], requires_grad=True), ft.Tensor([2.0], requires_grad=True)
    assert y.grad is None
    (x * 1).sum().backward()
    with pytest.warns(errors.MissingGradientWarning, match="there is no path to it from the loss"):
        assert y.grad is None
    ft.optim.SGD([x, y], lr=0.1).step()
    ft.optim.SGD([x, y], lr=0.1).zero_grad()
    assert y.grad is None


def test_signatures_are_those_that_a_call_has():
    import inspect

    known = ["a", "axis", "dtype", "out", "keepdims", "initial", "where"]
    assert [*inspect.signature(np.sum).parameters] == known
    assert [*inspect.signature(np.add).parameters][:2] == ["x", "y"]


def test_integers_do_not_widen_single_tensors():
    x, i = ft.Tensor([1.0, 2.0], requires_grad=True), ft.tensor([1, 2])
    for result in (x * i, i + x, x**i, x / i, x * numpy.float64(2), np.where(i > 1, x, i)):
        assert result.dtype == "float32"
    (x * i).sum().backward()
    assert x.grad.dtype == "float32"
    assert x.grad.tolist() == [1.0, 2.0]
    assert (x * ft.tensor(numpy.ones(2))).dtype == "float64"
    assert (i * 2).dtype == "int64"


def test_numbers_of_the_standard_library_are_numbers():
    x = np.array([0.5, 2.0])
    assert (x == Fraction(1, 2)).tolist() == [True, False]
    assert (np.array([0, 1]) == range(2)).tolist() == [True, True]
    assert (x * Decimal(2)).tolist() == [1.0, 4.0]
    assert ft.grad(lambda x: x * 2 if x == Fraction(1, 2) else x * 3)(0.5).item() == 2.0


def test_whole_numbers_of_traced_values_are_allowed():
    for whole in (math.floor, math.ceil, math.trunc, round, int):
        assert ft.grad(lambda x, whole=whole: x * whole(x))(2.0).item() == 2.0


def test_integers_do_not_widen_single_complex_tensors():
    z = ft.Tensor(numpy.ones(2, "complex64"))
    assert (z * ft.tensor([1, 2])).dtype == "complex64"


def test_the_mixed_derivative_of_power_at_exponent_zero():
    mixed = ft.grad(lambda y: ft.grad(np.power)(2.0, y))(0.0)
    assert mixed.item() == pytest.approx(0.5)
    assert ft.grad(np.power)(0.0, np.array(0.0)).item() == 0.0
