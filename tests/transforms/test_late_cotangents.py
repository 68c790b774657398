"""Gradients of weights that another thread computes while the backward pass goes on."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
import functensor.torch as torch
from functensor import nn
from functensor.backends import side_work
from functensor.hooks import FnHook, use
from functensor.traces import late_cotangents


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Sender:
    """Stands for a backend's threads: does errands when their results are wanted, or never."""

    def __init__(self):
        self.sent = []
        self.given_up = 0

    def __call__(self, work):
        self.sent.append(work)
        return SentErrand(self, work)


class SentErrand:
    def __init__(self, sender, work):
        self.sender, self.work = sender, work

    def result(self):
        return self.work()

    def call_back(self):
        self.sender.given_up += 1


@pytest.fixture
def sender(monkeypatch):
    made = Sender()
    monkeypatch.setattr(side_work, "SENDERS", [made])
    monkeypatch.setattr(late_cotangents, "FEWEST_MULTIPLICATIONS", 1)
    return made


def perceptron(params, x):
    hidden = nn.relu(x @ params["a"] + params["b"])
    # The weights "a" come a second time, and in an operation of another kind.
    return fnp.sum(fnp.square(hidden @ params["c"])) + fnp.sum((x @ params["a"]) * 0.5)


PARAMS = {"a": normal(6, 5), "b": normal(5, seed=1), "c": normal(5, 4, seed=2)}


def test_late_cotangents_have_the_bits_of_others(sender, monkeypatch):
    x = normal(7, 6, seed=3)
    got = ft.grad(perceptron)(PARAMS, x)
    # Both products with "a" and the one with "c".
    assert len(sender.sent) == 3
    monkeypatch.setattr(side_work, "SENDERS", [])
    wanted = ft.grad(perceptron)(PARAMS, x)
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value)


def test_a_cotangent_that_comes_now_is_added_behind_a_late_one(sender):
    def loss(w):
        # The walk comes to the product first, and then to the sum.
        return fnp.sum(fnp.square(normal(3, 4) @ (w * 1.0))) + fnp.sum(fnp.exp(w))

    def direct(w):
        early = fnp.exp(w)
        return fnp.sum(early) + fnp.sum(fnp.square(normal(3, 4) @ w))

    w = normal(4, 4, seed=1)
    got = ft.grad(direct)(w)
    assert len(sender.sent) == 1
    np.testing.assert_allclose(got, ft.grad(loss)(w), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w: fnp.einsum("bi,oi->bo", x, w), [(3, 4), (5, 4)]),
        (nn.conv, [(2, 3, 5, 5), (4, 3, 3, 3)]),
        (lambda x, w: x @ w, [(2, 3, 4), (4, 5)]),
    ],
)
def test_primitives_that_multiply_matrices_send(function, shapes, sender, monkeypatch):
    operands = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    grad = ft.grad(lambda x, w: fnp.sum(fnp.square(function(x, w))), argnums=(0, 1))
    got = grad(*operands)
    assert len(sender.sent) == 2
    monkeypatch.setattr(side_work, "SENDERS", [])
    for a, b in zip(got, grad(*operands), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("fewest", "most", "count"), [(24, 8, 1), (25, 8, 0), (24, 7, 0)])
def test_small_products_and_large_results_are_not_sent(fewest, most, count, sender, monkeypatch):
    monkeypatch.setattr(late_cotangents, "FEWEST_MULTIPLICATIONS", fewest)
    monkeypatch.setattr(late_cotangents, "MOST_ELEMENTS", most)
    ft.grad(lambda w: fnp.sum(normal(3, 4) @ w))(normal(4, 2))
    assert len(sender.sent) == count


def test_tensors_send(sender):
    x, w = torch.tensor(normal(3, 4)), torch.tensor(normal(5, 4), requires_grad=True)
    torch.nn.functional.linear(x, w).square().sum().backward()
    assert len(sender.sent) == 1
    wanted = 2 * (x.numpy() @ w.detach().numpy().T).T @ x.numpy()
    np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: ft.hessian(lambda w: fnp.sum(fnp.sin(f(w)))),
        lambda f: ft.jit(ft.grad(lambda w: fnp.sum(f(w)))),
        lambda f: ft.vmap(ft.grad(lambda w: fnp.sum(f(w)))),
    ],
)
def test_transformations_around_a_gradient_see_all_of_it(transformed, sender):
    transformed(lambda w: normal(3, 2) @ fnp.reshape(w, (2, -1)))(np.ones((2, 2)))
    assert sender.sent == []


def test_hooks_see_all_of_it(sender):
    seen = []

    with use(FnHook(backward=lambda op, grad_inputs, grad_output: seen.append(op.name))):
        ft.grad(lambda w: fnp.sum(normal(3, 2) @ w))(normal(2, 2))
    assert "matmul" in seen
    assert sender.sent == []


def test_an_error_of_a_late_rule_names_its_operation(sender, monkeypatch):
    def raised(self):
        raise ValueError("of a thread")

    monkeypatch.setattr(SentErrand, "result", raised)
    with pytest.raises(ValueError, match="of a thread") as found:
        ft.grad(lambda w: fnp.sum(normal(3, 2) @ w))(normal(2, 2))
    assert "matmul" in "".join(getattr(found.value, "__notes__", []))


def test_a_pass_that_fails_gives_up_what_it_sent(sender):
    @ft.custom_vjp
    def failing(x):
        return x * 1.0

    def pull_back(kept, g):
        raise ZeroDivisionError

    failing.defvjp(lambda x: (x * 1.0, None), pull_back)

    with pytest.raises(ZeroDivisionError):
        ft.grad(lambda w: fnp.sum(failing(fnp.exp(w[0])) @ w[1]))((normal(3, 2), normal(2, 2)))
    assert (len(sender.sent), sender.given_up) == (1, 1)
