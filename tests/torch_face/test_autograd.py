"""Graphs of tensors by PyTorch's names: recorded passes, chosen inputs, rules of the user's."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch
from functensor.errors import (
    BackwardError,
    MissingGradientError,
    NonScalarOutputError,
    RuleResultError,
)

X = numpy.array([[0.5, 1.5], [2.0, -1.0]])
V = numpy.array([0.3, 0.4])


def leaf(x=X):
    return torch.tensor(x, requires_grad=True)


@ft.custom_vjp
def with_rule(y):
    return np.sin(y) * y


with_rule.defvjp(lambda y: (with_rule(y), y), lambda y, g: (g * (np.sin(y) + y * np.cos(y)),))


FUNCTIONS = {
    "elementwise": lambda y: np.tanh(y) * np.exp(y) / (1 + y * y),
    "product": lambda y: np.outer(y, y) @ y,
    "power": lambda y: y**3 + 2.0**y,
    "where": lambda y: np.where(y > 0.35, y**3, y**2),
    "gather": lambda y: y[numpy.array([0, 1, 0])] ** 3,
    "slices": lambda y: np.concatenate([y, y**2])[::2] ** 2,
    "max": lambda y: np.max(y**3),
    "softmax": lambda y: ft.nn.softmax(y**2),
    "layer_norm": lambda y: ft.nn.layer_norm(np.stack([y, y**2, y**3])),
    "cross entropy": lambda y: ft.nn.softmax_cross_entropy(
        np.stack([y, y**2]), numpy.array([0, 1])
    ),
    "inverse": lambda y: np.linalg.inv(np.stack([y, y[::-1] ** 2])),
    "cumsum": lambda y: np.cumsum(y**2) ** 2,
    "jit": ft.jit(lambda y: np.sin(y) * y),
    "custom_vjp": with_rule,
    "checkpoint": ft.checkpoint(lambda y: np.sin(y) * y),
    "checkpoint of jit": ft.checkpoint(ft.jit(lambda y: np.sin(y) * y)),
    "vmap": ft.vmap(lambda q: np.sin(q) * q),
    "vmap of a checkpoint": ft.vmap(ft.checkpoint(lambda q: np.sin(q) * q)),
    "scan": lambda y: ft.scan(lambda c, a: (c * np.sin(a + y), c * y), y, y)[1],
    "fori_loop": lambda y: ft.fori_loop(0, 3, lambda i, c: np.sin(c) * c, y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_recorded_passes_differentiate_to_order_three(name):
    f = FUNCTIONS[name]

    def total(y):
        return np.sum(f(y))

    derivatives = [total]
    for _ in range(3):
        derivatives.append(ft.grad(lambda y, d=derivatives[-1]: np.sum(d(y))))
    x = leaf(V)
    found = f(x).sum()
    for order in range(1, 4):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        numpy.testing.assert_allclose(
            found.detach(), derivatives[order](np.asarray(V)), rtol=1e-9, atol=1e-12
        )


def test_backward_records_the_gradients_it_adds():
    x = leaf(V)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    numpy.testing.assert_allclose(first.detach(), 3 * V**2)
    x.grad = None
    (first**2).sum().backward()
    numpy.testing.assert_allclose(x.grad, 36 * V**3)
    assert not x.grad.requires_grad


def test_a_penalty_on_gradients():
    x, w = leaf(), leaf(numpy.array([[0.3], [0.7]]))
    score = (x @ w).tanh().sum()
    (g,) = torch.autograd.grad(score, x, create_graph=True)
    (((g * g).sum(1) ** 0.5 - 1) ** 2).mean().backward()

    def penalty(w):
        g = ft.grad(lambda x: np.sum(np.tanh(x @ w)))(np.asarray(X))
        return np.mean((np.sqrt(np.sum(g * g, 1)) - 1) ** 2)

    numpy.testing.assert_allclose(w.grad, ft.grad(penalty)(np.asarray(w.detach().numpy())))


def test_gradients_by_results_on_the_way():
    x = leaf()
    y = x * 2
    z = y**2
    by_y, by_x, by_z = torch.autograd.grad(z.sum(), [y, x, z])
    numpy.testing.assert_allclose(by_y, 4 * X)
    numpy.testing.assert_allclose(by_x, 8 * X)
    numpy.testing.assert_allclose(by_z, numpy.ones((2, 2)))
    assert x.grad is None


def test_backward_to_chosen_inputs():
    x, w = leaf(), leaf(numpy.array([[0.3], [0.7]]))
    (x @ w).sum().backward(inputs=[x])
    numpy.testing.assert_allclose(x.grad, [[0.3, 0.7]] * 2)
    with pytest.warns(ft.errors.MissingGradientWarning):
        assert w.grad is None


def test_inputs_that_are_not_used():
    x, other = leaf(), leaf(V)
    total = (x**2).sum()
    with pytest.raises(BackwardError, match=r"input 1 .* is not in the graph"):
        torch.autograd.grad(total, [x, other], retain_graph=True)
    assert torch.autograd.grad(total, [other], retain_graph=True, allow_unused=True) == (None,)
    (zeros,) = torch.autograd.grad(total, other, retain_graph=True, materialize_grads=True)
    assert zeros.tolist() == [0.0, 0.0]
    with pytest.raises(MissingGradientError):
        torch.autograd.grad(total, torch.tensor(V))
    with pytest.raises(NonScalarOutputError):
        torch.autograd.grad(x**2, x)


def test_a_graph_is_used_up_unless_it_is_kept():
    x = leaf(V)
    total = (x**2).sum()
    torch.autograd.grad(total, x, retain_graph=True)
    torch.autograd.grad(total, x)
    with pytest.raises(BackwardError, match="a second time"):
        torch.autograd.grad(total, x)


def test_a_batch_of_gradients():
    x = leaf()
    y = x**2
    given = torch.tensor(numpy.eye(4).reshape(4, 2, 2))
    (found,) = torch.autograd.grad(y, x, given, is_grads_batched=True)
    numpy.testing.assert_allclose(found.numpy().reshape(4, 4), numpy.diag(2 * X.ravel()))


def test_several_tensors_at_once():
    x = leaf(V)
    torch.autograd.backward([(x**2).sum(), x * 3], [None, torch.tensor([1.0, 2.0])])
    numpy.testing.assert_allclose(x.grad, 2 * V + [3, 6], rtol=1e-6)


class Scaled(torch.autograd.Function):
    """A product whose gradient is computed from what was saved: an argument and the result."""

    @staticmethod
    def forward(ctx, x, factor):
        result = x.exp() * factor
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, result = ctx.saved_tensors
        assert x.shape == result.shape
        return grad * result, None


class Both(torch.autograd.Function):
    """Two results, by the newer form."""

    @staticmethod
    def forward(a, b):
        return a * b, a + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        return g * b + h, g * a + h


def test_functions_with_rules_of_their_own():
    x = leaf(V)
    (g,) = torch.autograd.grad((Scaled.apply(x, 2.0) ** 2).sum(), x, create_graph=True)
    numpy.testing.assert_allclose(g.detach(), 8 * numpy.exp(2 * V))
    g.sum().backward()
    numpy.testing.assert_allclose(x.grad, 16 * numpy.exp(2 * V))


def test_results_without_a_gradient_have_zeros():
    x = leaf(V)
    product, _ = Both.apply(x, x.sin())
    product.sum().backward()
    numpy.testing.assert_allclose(x.grad, numpy.sin(V) + V * numpy.cos(V))


def test_functions_under_transformations():
    x = torch.tensor(V)
    wanted = 2 * numpy.exp(V)
    numpy.testing.assert_allclose(ft.jit(lambda x: Scaled.apply(x, 2.0))(x), wanted)
    numpy.testing.assert_allclose(ft.grad(lambda x: Scaled.apply(x, 2.0).sum())(x), wanted)
    batch = ft.vmap(ft.grad(lambda x: Scaled.apply(x, 2.0)))(x)
    numpy.testing.assert_allclose(batch, wanted)


def wrong(result):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return result(grad)

    return Wrong


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda g: g, "1 gradients for 2 arguments"),
        (lambda g: (g[:1], None), r"whose shape is \(2,\)"),
    ],
)
def test_wrong_results_of_rules(result, words):
    x = leaf(V)
    with pytest.raises(RuleResultError, match=words):
        wrong(result).apply(x, 2).sum().backward()


def test_rules_that_are_differentiable_once():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @torch.autograd.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return torch.tensor(2 * x.detach().numpy() * grad.numpy())

    x = leaf(V)
    (g,) = torch.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    numpy.testing.assert_allclose(g.detach(), 2 * V)
    with pytest.raises(BackwardError, match="once_differentiable"):
        g.sum().backward()


def test_hooks_after_gradients():
    x, seen = leaf(V), []
    handle = x.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad.tolist()))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert seen == [[2.0, 2.0], [4.0, 4.0]]
    x.remove_hook(handle)
    (x * 2).sum().backward()
    assert len(seen) == 2
    with pytest.raises(BackwardError, match="no leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_hooks_see_recorded_gradients():
    x = leaf(V)
    y = x**2
    y.register_hook(lambda g: g * y)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    numpy.testing.assert_allclose(g.detach(), 2 * V**3)
    (second,) = torch.autograd.grad(g.sum(), x)
    # The hook sees what flows through the same value in the second pass, too.
    numpy.testing.assert_allclose(second, 4 * V**4 + 2 * V**2)


def test_jacobians_and_hessians():
    functional = torch.autograd.functional
    x = torch.tensor(V)

    def f(x):
        return (x**3).sin()

    wanted = numpy.diag(3 * V**2 * numpy.cos(V**3))
    for record in (False, True):
        numpy.testing.assert_allclose(
            functional.jacobian(f, x, create_graph=record).detach(), wanted
        )
    second = ft.hessian(lambda y: np.sum(np.sin(y**3)))(np.asarray(V))
    numpy.testing.assert_allclose(functional.hessian(lambda x: f(x).sum(), x), second)
    vector = torch.tensor([1.0, -2.0], dtype="float64")
    for product in (functional.jvp, functional.vjp):
        numpy.testing.assert_allclose(product(f, x, vector)[1], wanted @ vector.numpy())
    for product in (functional.hvp, functional.vhp):
        numpy.testing.assert_allclose(
            product(lambda x: f(x).sum(), x, vector)[1], second @ vector.numpy()
        )
    pair = functional.jacobian(lambda x, y: (x * y, y.sum()), (x, x))
    assert [[part.shape for part in row] for row in pair] == [[(2, 2)] * 2, [(2,)] * 2]


def test_gradcheck_finds_a_wrong_rule():
    x = leaf(V)
    assert torch.autograd.gradcheck(lambda x: (x**3).sin(), x)
    assert torch.autograd.gradgradcheck(lambda x: (x**3).sin(), x)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    assert not torch.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    with pytest.raises(RuntimeError, match="output 0 by input 0 is off by up to 1"):
        torch.autograd.gradcheck(Wrong.apply, x)


def test_anomalies_are_found_while_the_search_goes_on():
    x = torch.tensor(0.0, requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(ft.errors.NonFiniteError):
        (x.sqrt() * 0).backward()
    with torch.autograd.set_detect_anomaly(True), pytest.raises(ft.errors.NonFiniteError):
        (x.sqrt() * 0).backward()
    (x.sqrt() * 0).backward()
    torch.autograd.set_detect_anomaly(True)
    with pytest.raises(ft.errors.NonFiniteError):
        (x.sqrt() * 0).backward()
    torch.autograd.set_detect_anomaly(False)
    (x.sqrt() * 0).backward()


def test_a_gradient_by_a_result_leaves_what_that_was_computed_from():
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x
    z = y * y
    (g,) = torch.autograd.grad(z, y)
    assert g.item() == 8
    y.backward()
    assert x.grad.item() == 4
    with pytest.raises(ft.errors.BackwardError, match="a second time"):
        z.backward()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("first", ["backward", "grad", "part"])
def test_parts_of_a_graph_that_were_used_up_are_missed(first, compiled):
    square = torch.compile(torch.square) if compiled else torch.square
    x, other = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    # The gradient of a jitted loss is computed ahead after the first pass.
    square(x).backward()
    y = x * 1.0
    z = square(y if first == "part" else x)
    if first == "backward":
        z.backward()
    else:
        torch.autograd.grad(z, y if first == "part" else x)
    by = y if first == "part" else x
    for options in ({}, {"allow_unused": True}, {"retain_graph": True}):
        with pytest.raises(BackwardError, match="a second time"):
            torch.autograd.grad(z + 3 * by, [by], **options)
    with pytest.raises(BackwardError, match="a second time"):
        (z + 3 * by).backward(inputs=[by])
    # Others are none of its concern.
    assert torch.autograd.grad(z + 5 * other, [other]) == (torch.tensor(5.0),)
    assert torch.autograd.grad(4 * by, [by]) == (torch.tensor(4.0),)


def test_a_pass_to_some_inputs_uses_up_the_way_to_others():
    x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    z = (x * 1.0) * (y * 1.0)
    z.backward(inputs=[x])
    with pytest.raises(BackwardError, match="a second time"):
        torch.autograd.grad(z + y, y)


def test_a_pass_that_an_error_has_ended_uses_up_what_it_came_to():
    x = torch.tensor(2.0, requires_grad=True)
    y = x * 1.0
    z = y * y

    def fails(g):
        raise KeyError(g)

    with y.register_hook(fails), pytest.raises(KeyError):
        z.backward()
    with pytest.raises(BackwardError, match="a second time"):
        torch.autograd.grad(z + 3 * x, x)


def test_what_was_used_up_behind_a_chosen_result_is_not_missed():
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x
    z = y * y
    y.backward(retain_graph=False)
    assert torch.autograd.grad(z + y, y) == (torch.tensor(9.0),)


@pytest.mark.parametrize("power", [1.5, 2.5, 0.5, 0.0, 1.0, 3, 2, 1, 0, -1, -0.5])
def test_recorded_derivatives_of_powers_are_those_that_are_not_recorded(power):
    values = numpy.array([-numpy.inf, -2.0, -0.0, 0.0, 1.0, numpy.inf, numpy.nan])
    found = []
    with numpy.errstate(all="ignore"):
        for records in (False, True):
            x = leaf(values)
            (grad,) = torch.autograd.grad((x**power).sum(), x, create_graph=records)
            found.append(grad.detach().numpy())
    numpy.testing.assert_array_equal(found[1], found[0])
    numpy.testing.assert_array_equal(numpy.signbit(found[1]), numpy.signbit(found[0]))


def test_powers_that_are_constant_have_gradients_of_zeros():
    x = leaf()
    (x**0 + 0.0 ** x.abs()).sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 0]]
