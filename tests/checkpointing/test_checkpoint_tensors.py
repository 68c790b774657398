"""``checkpoint`` of functions of tensors, and of streams of keys."""

import numpy as np
import pytest
from support.counted import kept_of
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ReplayError

W = np.arange(9.0).reshape(3, 3) / 10 - 0.4
X = np.array([0.3, -1.2, 2.0])


def gradients(wrap, *, of_input=True):
    """Returns the gradients of what a layer closes over and is given, and how often it ran."""
    w = ft.tensor(W, requires_grad=True)
    x = ft.tensor(X, requires_grad=of_input)
    turned = w * 2.0
    runs = []

    def layer(x, *, scale=1.0):
        runs.append(1)
        return (w @ x).tanh() * (turned @ x).sin() * scale, x.sum()

    f = wrap(layer)
    y, total = f(x, scale=2.0)
    z, _ = f(y)
    ((z**2).sum() * total).backward()
    return len(runs), w.grad.numpy(), x.grad.numpy() if of_input else None


@pytest.mark.parametrize("of_input", [True, False])
@pytest.mark.parametrize("policy", [None, ft.checkpoint_policies.dots_saveable])
def test_gradients_are_those_without(policy, of_input):
    runs, by_w, by_x = gradients(lambda f: f, of_input=of_input)
    again, got_w, got_x = gradients(lambda f: ft.checkpoint(f, policy=policy), of_input=of_input)
    assert (runs, again) == (2, 4)
    np.testing.assert_array_equal(got_w, by_w)
    if of_input:
        np.testing.assert_array_equal(got_x, by_x)


def test_nested_and_functions_of_numpys_names():
    def chain(x):
        return fnp.sin(x) * fnp.exp(-x)

    def loss(f):
        x = ft.tensor(X, requires_grad=True)
        fnp.sum(f(f(x)) ** 2).backward()
        return x.grad.numpy()

    inner = ft.checkpoint(chain)
    outer = ft.checkpoint(lambda x: inner(inner(x)))
    np.testing.assert_array_equal(loss(outer), loss(lambda x: chain(chain(x))))


def test_memory_falls():
    def chain(x):
        for _ in range(8):
            x = x.sin() * x
        return x

    def kept(f):
        x = ft.tensor(np.linspace(0.1, 1.0, 20_000), requires_grad=True)

        def repeated():
            y = x
            for _ in range(6):
                y = f(y)
            return y

        return kept_of(repeated) / (8 * 20_000)

    assert kept(chain) > 80
    assert kept(ft.checkpoint(chain)) < 7


def test_graphs_are_kept_for_a_second_pass():
    x = ft.tensor(X, requires_grad=True)
    y = ft.checkpoint(lambda x: (x.sin() * x).sum())(x)
    y.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once)


def test_changes_in_place_do_not_show():
    def gradient(f):
        x = ft.tensor(X, requires_grad=True)
        h = x * 1.0
        y = f(h)
        h.mul_(100.0)
        y.sum().backward()
        return x.grad.numpy()

    np.testing.assert_array_equal(gradient(ft.checkpoint(lambda h: h.sin())), np.cos(X))


def test_without_grad_it_merely_runs():
    runs = []

    @ft.checkpoint
    def f(x):
        runs.append(1)
        return x * 2.0, "text", None

    x = ft.tensor(X, requires_grad=True)
    with ft.no_grad():
        out, text, none = f(x)
    assert not out.requires_grad
    assert (text, none) == ("text", None)
    assert not f(ft.tensor(X))[0].requires_grad
    np.testing.assert_array_equal(f(X)[0], X * 2)
    assert len(runs) == 3
    same = ft.checkpoint(lambda x: x)(x)
    assert same is x


def test_hooks_of_tensors_and_gradients_of_intermediates():
    seen = []
    x = ft.tensor(X, requires_grad=True)
    y = ft.checkpoint(lambda x: x * 3.0)(x)
    y.register_hook(lambda g: seen.append(g) or g * 2.0)
    y.sum().backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 6.0))


def test_15_for_tensors():
    runs = []

    def f(x):
        runs.append(1)
        return (x.sin() if len(runs) == 1 else x.cos()).sum()

    x = ft.tensor(X, requires_grad=True)
    y = ft.checkpoint(f)(x)
    with pytest.raises(ReplayError, match=r"checkpoint of f: .* operation 0 was sin, .* now cos"):
        y.backward()
    assert x.grad is None or not np.any(x.grad.numpy())


# -- streams of keys


def streamed(keys):
    def f(x):
        noise = ft.random.normal(keys(), (3,))
        return fnp.sum(fnp.sin(x * noise) * ft.random.uniform(keys()))

    return f


@pytest.mark.parametrize("policy", [None, ft.checkpoint_policies.save_only_these_primitives("sin")])
def test_streams_give_the_same_keys_again(policy):
    wanted = ft.grad(streamed(ft.random.KeyStream(3)))(X)
    f = ft.checkpoint(streamed(ft.random.KeyStream(3)), policy=policy)
    close(ft.grad(f)(X), wanted, 1e-12)
    assert np.any(np.asarray(ft.grad(f)(X)) != np.asarray(wanted))  # the stream has gone on
    given = ft.checkpoint(lambda x, keys: streamed(keys)(x), policy=policy)
    keys = ft.random.KeyStream(3)
    close(ft.grad(given)(X, keys), wanted, 1e-12)
    close(ft.grad(given)(X, keys), ft.grad(streamed(_at(2)))(X), 1e-12)
    hessian = ft.hessian(streamed(ft.random.KeyStream(3)))(X)
    f = ft.checkpoint(streamed(ft.random.KeyStream(3)), policy=policy)
    close(ft.hessian(f, mode="rev-rev")(X), hessian, 1e-10)


def _at(position):
    keys = ft.random.KeyStream(3)
    keys(position)
    return keys


def test_streams_and_tensors():
    def gradient(wrap):
        keys = ft.random.KeyStream(5)
        f = wrap(lambda x: (x * ft.random.normal(keys(), (3,))).sin().sum())
        x = ft.tensor(X, requires_grad=True)
        (f(x) + f(x)).backward()
        return x.grad.numpy()

    np.testing.assert_array_equal(gradient(ft.checkpoint), gradient(lambda f: f))
