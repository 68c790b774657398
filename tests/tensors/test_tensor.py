"""Tensors: making them, gradients, the switch, threads, hooks."""

import gc
import re
import threading
import weakref

import numpy
import pytest
from support.tensor_cases import VALUES, leaf, message_of

import functensor as ft
import functensor.numpy as np
from functensor.backends import DeviceError
from functensor.primitives.core.errors import (
    BackwardError,
    MissingGradientError,
    RuleResultError,
    ShapeError,
)

# Making them


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1.0, 2.0], "float32"),
        ([1, 2.5], "float32"),
        ([[1j]], "complex64"),
        ([], "float32"),
        (3, "int64"),
        ([True], "bool"),
        (numpy.zeros(2), "float64"),
        (numpy.float64(1), "float64"),
        ([numpy.float64(1)], "float64"),
        (np.zeros(2, dtype="float16"), "float16"),
        (ft.ShapeDtype((), "float32").dtype.type(2), "float32"),
    ],
)
def test_dtype_of_data(data, dtype):
    made = ft.Tensor(data)
    assert made.dtype == dtype
    assert made.shape == numpy.shape(data)
    assert ft.Tensor(data, dtype="complex128").dtype == "complex128"


def test_data_is_copied_but_never_twice():
    source = numpy.zeros(2)
    made = ft.Tensor(source)
    source[0] = 5
    assert made.tolist() == [0, 0]
    array = np.zeros(2)
    assert numpy.shares_memory(numpy.asarray(ft.Tensor(array)), numpy.asarray(array))
    with pytest.raises(ValueError, match="read-only"):
        numpy.asarray(made)[0] = 1
    ft.Tensor(array).numpy()[0] = 1
    assert array.tolist() == [0, 0]


def test_constructors():
    assert ft.CpuTensor([1.0], True).requires_grad
    assert ft.tensor([1, 2], dtype="float64", requires_grad=True).dtype == "float64"
    with pytest.raises(DeviceError, match="there is no device 'tpu'"):
        ft.tensor([1.0], device="tpu")
    x = ft.Tensor([1.0])
    assert x.to("cpu") is x.to(device="cpu") is x
    assert ft.Tensor([1]).to(x).dtype == "float32"


def test_what_it_says_of_itself():
    x = leaf([1.0, 2.0])
    assert repr(x) == "Tensor([1., 2.], dtype=float32, requires_grad=True)"
    assert repr(x.detach().sum()) == "Tensor(3., dtype=float32)"
    assert repr(ft.Tensor(numpy.zeros((0, 2)))) == "Tensor([], shape=(0, 2), dtype=float64)"
    assert (str(x), f"{x.sum():.2f}", f"{x}") == ("[1. 2.]", "3.00", "[1. 2.]")
    assert (x.is_leaf, x.grad_fn, (x * x).is_leaf, (x * x).grad_fn) == (
        True,
        None,
        False,
        "multiply",
    )
    y = leaf()
    assert len({x.id, y.id, x.detach().id, x.id}) == 3
    assert {x: 1, y: 2}[x] == 1
    assert (x == x.clone()).tolist() == [True, True]
    assert x.equal(x.clone())
    assert not x.equal(y)
    assert x.allclose(x + 1e-7)
    assert not x.allclose(x + 1e-3)


# Gradients


FUNCTIONS = {
    "arithmetic": lambda x: (x * x - 2 * x / (3 + x**2)).sum(),
    "slices": lambda x: (x[0] * x[1, ::-1] + x[:, 1:].sum()).sum(),
    "nn": lambda x: ft.nn.softmax(np.tanh(x @ x.T), axis=-1)[0, 1],
    "numpy": lambda x: numpy.sum(numpy.exp(x) * numpy.where(x > 0, x, 0)),
    "shared": lambda x: np.sum(sum([x * i for i in range(5)], start=x) * x),
    "stack": lambda x: np.prod(np.concatenate([x, np.stack([x[0], x[1] * 2])])[:, 0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_backward_equals_grad(name):
    x = leaf()
    loss = FUNCTIONS[name](x)
    assert type(loss) is ft.Tensor
    loss.backward()
    expected = ft.grad(FUNCTIONS[name])(VALUES)
    numpy.testing.assert_allclose(x.grad, expected, rtol=1e-12)
    assert x.grad.dtype == x.dtype
    assert not x.grad.requires_grad


def test_gradients_add_up_in_the_same_tensor():
    x = leaf()
    (x * x).sum().backward()
    first = x.grad
    (3 * x).sum().backward()
    assert x.grad is first
    numpy.testing.assert_allclose(first, 2 * VALUES + 3)
    first.zero_()
    x.sum().backward()
    numpy.testing.assert_allclose(x.grad, 1.0)
    x.grad = None
    assert x.grad is None


def test_gradient_argument_and_leaf_that_is_the_loss():
    x = leaf()
    (x * x).backward(VALUES.tolist())
    numpy.testing.assert_allclose(x.grad, 2 * VALUES * VALUES)
    with pytest.raises(RuleResultError, match=r"a gradient of shape \(2,\) was given"):
        (x * x).backward([1.0, 2.0])
    one = leaf([2.0])
    one.backward()
    assert one.grad.tolist() == [1.0]


def test_graph_is_kept_only_if_asked():
    x = leaf()
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    numpy.testing.assert_allclose(x.grad, 4 * VALUES)
    assert message_of(BackwardError, loss.backward) == [
        (
            f"backward() of tensor {loss.id} (float64[]) reached 'sum' a second time: what it had "
            "saved was freed by the backward pass at LINE"
        ),
        "  at LINE",
        (
            "  fix: loss.backward(retain_graph=True) the first time; for two losses that share a "
            "graph, (loss1 + loss2).backward()"
        ),
        "  see python -m functensor.errors 12",
    ]


def test_both_lines_are_named_where_losses_share_a_graph():
    x = leaf()
    shared = x * x
    shared.sum().backward()
    with pytest.raises(BackwardError) as caught:
        (shared * 2).sum().backward()
    lines = re.findall(r"test_tensor\.py:(\d+)", str(caught.value))
    assert int(lines[1]) - int(lines[0]) == 2


def test_memory_is_freed():
    x = leaf()
    hidden = x.exp()
    loss = hidden.sin().sum()
    saved = weakref.ref(hidden._data)
    alive = weakref.ref(hidden)
    gc.disable()
    try:
        del hidden
        assert alive() is None
        loss.backward()
        del loss
        assert saved() is None
    finally:
        gc.enable()


def test_chain_of_many_operations():
    x = y = leaf([1.0])
    for _ in range(20_000):
        y = y * 1.0
    y.backward()
    del y
    assert x.grad.tolist() == [1.0]


def test_what_is_not_recorded():
    x = leaf()
    assert not (ft.Tensor([1.0]) * 2).requires_grad
    assert not (x > 0).requires_grad
    assert not np.argmax(x).requires_grad
    assert not ft.stop_gradient(x).requires_grad
    assert not x.detach().requires_grad
    assert not x.long().requires_grad
    assert type(ft.value(x)) is ft.Array
    x.requires_grad = False
    assert not (x * x).requires_grad
    assert x.requires_grad_() is x
    assert (x * x).requires_grad


# The switch


def test_no_grad():
    x = leaf()

    @ft.no_grad()
    def inner(depth=0):
        assert not ft.is_grad_enabled()
        if depth < 3:
            inner(depth + 1)
        with ft.enable_grad():
            assert (x * x).requires_grad
        return x * x

    @ft.no_grad
    def failing():
        raise KeyError

    assert not inner().requires_grad
    assert inner.__name__ == "inner"
    with pytest.raises(KeyError):
        failing()
    assert ft.is_grad_enabled()
    with ft.no_grad() as nothing:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(ft.is_grad_enabled()))
        thread.start()
        thread.join()
    assert (nothing, seen) == (None, [True])
    block = ft.no_grad()
    with block, block:
        pass
    assert ft.is_grad_enabled()
    with pytest.raises(TypeError, match="numbers is a generator or a coroutine"):

        @ft.no_grad()
        def numbers():
            yield 1


def test_an_error_leaves_nothing_behind():
    x = leaf()

    def fail(grad):
        raise KeyError("planted")

    handle = x.register_hook(fail)
    y = leaf()
    loss = (x * y).sum()
    with pytest.raises(KeyError):
        loss.backward()
    assert ft.is_grad_enabled()
    assert (x.grad, y.grad) == (None, None)
    handle.remove()
    with pytest.raises(ShapeError):
        (x * ft.Tensor(numpy.zeros(5))).sum()
    (x * y).sum().backward()
    numpy.testing.assert_allclose(x.grad, VALUES)


def test_threads():
    shared = leaf()
    rounds = 40

    def work(seed, found):
        own = leaf(numpy.random.default_rng(seed).normal(size=(2, 3)))
        for _ in range(rounds):
            with ft.no_grad():
                assert not (own * own).requires_grad
            (own * own * shared).sum().backward()
        found[seed] = own

    found = {}
    threads = [threading.Thread(target=work, args=(i, found)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for own in found.values():
        numpy.testing.assert_allclose(own.grad, 2 * rounds * own.detach().numpy() * VALUES)
    total = rounds * sum(x.detach().numpy() ** 2 for x in found.values())
    numpy.testing.assert_allclose(shared.grad, total)


# Hooks


def test_hook_sees_the_whole_gradient_once():
    x = leaf()
    hidden = x * 3
    before = hidden * hidden
    seen = []
    handle = hidden.register_hook(lambda g: seen.append(g))
    hidden.retain_grad()
    (before + hidden).sum().backward()
    assert len(seen) == 1
    assert type(seen[0]) is ft.Tensor
    assert type(handle.id) is int
    numpy.testing.assert_allclose(seen[0], 6 * VALUES + 1)
    numpy.testing.assert_allclose(hidden.grad, seen[0])
    numpy.testing.assert_allclose(x.grad, 3 * (6 * VALUES + 1))


@pytest.mark.parametrize("retain", [False, True])
def test_hooks_replace_in_order(retain):
    x = leaf()
    hidden = x.sin()
    hidden.register_hook(lambda g: g * 2)
    second = hidden.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g.clamp(-1, 1))
    loss = hidden.sum()
    loss.backward(retain_graph=True)
    numpy.testing.assert_allclose(x.grad, numpy.clip(3 * numpy.cos(VALUES), -1, 1))
    second.remove()
    second.remove()
    assert repr(second).endswith("removed>")
    x.grad = None
    loss.backward(retain_graph=retain)
    numpy.testing.assert_allclose(x.grad, numpy.clip(2 * numpy.cos(VALUES), -1, 1))


def test_hook_may_remove_itself_and_handle_is_a_context():
    x = leaf()
    calls = []

    def once(grad):
        calls.append(grad)
        handle.remove()

    handle = x.register_hook(once)
    with x.register_hook(lambda g: -g):
        x.sum().backward()
    x.sum().backward()
    assert len(calls) == 1
    numpy.testing.assert_allclose(x.grad, 0.0)


def test_hook_on_an_output_of_a_custom_function_and_on_a_slice():
    @ft.custom_vjp
    def double(x):
        return 2 * x, x

    double.defvjp(lambda x: (double(x), None), lambda res, g: (10 * g[0] + g[1],))
    x = leaf()
    a, b = double(x)
    a.register_hook(lambda g: g * 0.5)
    part = x[0]
    part.register_hook(lambda g: g * 100)
    (a.sum() + b.sum() + part.sum()).backward()
    numpy.testing.assert_allclose(x.grad, [[106] * 3, [6] * 3])


def test_wrong_hooks():
    x = leaf()
    x.register_hook(lambda g: g[0])
    words = r"returned float64\[3\] in place of its gradient float64\[2, 3\]"
    with pytest.raises(RuleResultError, match=words):
        x.sum().backward()
    assert message_of(MissingGradientError, lambda: x.detach().register_hook(print))[0].endswith(
        "which will have no gradient: its requires_grad is False"
    )


def test_hooks_on_operations_see_tensors():
    x = leaf()
    names = []
    hook = ft.hooks.FnHook(
        forward=lambda op, inputs, out: names.append(op.name),
        backward=lambda op, grad_inputs, grad_output: [2 * g for g in grad_inputs],
    )
    with ft.hooks.use(hook, match=["sin", "sum"]):
        loss = np.sum(np.sin(x))
        assert type(loss) is ft.Tensor
        loss.backward()
    assert names == ["sin", "sum"]
    numpy.testing.assert_allclose(x.grad, 4 * numpy.cos(VALUES))
