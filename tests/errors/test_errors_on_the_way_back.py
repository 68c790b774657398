"""The full text of messages 12, 13, 15 and 18 by every way to a graph, a replay or a check."""

import numpy
import pytest
from support.error_cases import check, defined, text

import functensor as ft
import functensor.numpy as np
from functensor import errors

X = np.array([0.0, 1.0, 4.0])
BATCH = np.array([[0.0, 1.0, 4.0]])


def message_of(call, error):
    """Returns the message of what a call raises, in whose traceback are the user's frames alone."""
    with pytest.raises(error) as info:
        call()
    assert {str(entry.path) for entry in info.traceback} == {__file__}
    return str(info.value)


def line_of(fun, offset=1):
    return f"{__file__}:{fun.__code__.co_firstlineno + offset}"


# -- 12: backward twice


def square(x):
    return x * x


def called(x):
    return square(x)


def own_square():
    out = ft.custom_vjp(square)
    out.defvjp(lambda x: (x * x, x), lambda x, g: (2 * g * x,))
    return out


# What makes a graph, and the operation that the second pass comes to.
GRAPHS = {
    "operators": (square, "multiply"),
    "a called function": (called, "multiply"),
    "jit": (ft.jit(square), "square"),
    "checkpoint": (ft.checkpoint(square), "square"),
    "a rule": (own_square(), "square"),
    "scan": (lambda x: ft.scan(lambda c, v: (c + v, c * v), x[0], x)[1], "stack"),
    "a view": (lambda x: (x * 2)[1:], "index"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_12_backward_twice(name):
    make, operation = GRAPHS[name]
    shared = make(ft.Tensor(X, requires_grad=True))
    first, second = shared.sum(), (shared * 2.0).sum()

    def one():
        first.backward()

    def two():
        second.backward()

    one()
    what = (
        f"backward() of tensor {second.id} (float64[]) reached {operation!r} a second time: what "
        f"it had saved was freed by the backward pass at {line_of(one)}"
    )
    fix = (
        "loss.backward(retain_graph=True) the first time; for two losses that share a graph, "
        "(loss1 + loss2).backward()"
    )
    assert message_of(two, errors.BackwardError) == text(what, line_of(two), fix, 12)


def test_12_backward_without_a_graph():
    x = ft.Tensor(X)
    loss = x.sum()
    check(
        errors.BackwardError,
        lambda: loss.backward(),
        f"backward() of tensor {loss.id} ({loss.describe()}): nothing that it was computed from "
        "requires grad, so there is no graph to go back over",
        "x = Tensor(data, requires_grad=True) before the loss is computed, outside of no_grad()",
        12,
    )


def test_12_the_right_code_is_right():
    x = ft.Tensor(X, requires_grad=True)
    shared = x * x
    (shared.sum() + (shared * 2.0).sum()).backward()
    assert x.grad.tolist() == [0.0, 6.0, 24.0]
    shared = x * x
    shared.sum().backward(retain_graph=True)
    (shared * 2.0).sum().backward()
    assert x.grad.tolist() == [0.0, 12.0, 48.0]


def item(x):
    x[0] = 5.0


def add(x):
    x += 1.0


def method(x):
    x.add_(1.0)


def function(x):
    x.exp_()


CHANGES = {
    "an item": (item, "x[...] = value"),
    "an operator": (add, "x += y"),
    "a method": (method, "x.add_(y)"),
    "a function": (function, "x.exp_()"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_12_a_leaf_is_changed_in_place(name):
    change, shown = CHANGES[name]
    x = ft.Tensor(X, requires_grad=True)
    what = (
        f"{shown}: tensor {x.id} (float64[3]), at version 0, is a leaf that requires grad: a "
        "change in place would cut it off from its gradient"
    )
    fix = "with no_grad(): for an update, or change a copy: y = x.clone()"
    wanted = text(what, line_of(change), fix, 12)
    assert message_of(lambda: change(x), errors.BackwardError) == wanted
    copy = x.clone()
    change(copy)
    with ft.no_grad():
        change(x)


def test_12_a_buffer_that_was_written_to():
    def loss(x):
        buffer = numpy.ones(3)
        y = np.sum(x * buffer)
        buffer[0] = 5.0
        return y

    def run():
        with ft.config.using(check_buffers=True):
            ft.grad(loss)(X)

    what = (
        f"a NumPy array float64[3] that multiply read at {line_of(loss, 2)} was written to before "
        "the backward pass, which reads it again"
    )
    fix = "give each operation an array of its own: np.asarray(buffer) copies"
    wanted = text(what, line_of(run, 2), fix, 12, f"grad({defined(loss)})")
    assert message_of(run, errors.BackwardError) == wanted


# -- 13: .grad is None


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "scan"])
def test_13_the_gradient_of_what_was_computed(name):
    make, operation = GRAPHS[name]
    y = make(ft.Tensor(X, requires_grad=True))
    y.sum().backward()

    def read():
        return y.grad

    with pytest.warns(errors.MissingGradientWarning) as caught:
        assert read() is None
    what = (
        f".grad of tensor {y.id} ({y.describe()}) was read, but it is None: it is not a leaf, it "
        f"was computed by {operation!r}"
    )
    fix = "x.retain_grad() before backward()"
    assert [str(w.message) for w in caught] == [text(what, line_of(read), fix, 13)]
    kept = make(ft.Tensor(X, requires_grad=True))
    kept.retain_grad()
    kept.sum().backward()
    assert kept.grad.tolist() == [1.0] * len(kept)


NO_PATH = (
    "no backward() has reached it since its gradient was last cleared: there is no path to it from "
    "the loss, or backward() was not called"
)


def test_13_a_leaf_that_the_loss_does_not_depend_on():
    x, w = (ft.Tensor(X, requires_grad=True) for _ in range(2))
    (x * w.detach()).sum().backward()

    def read():
        return w.grad

    with pytest.warns(errors.MissingGradientWarning) as caught:
        assert read() is None
    what = f".grad of tensor {w.id} (float64[3]) was read, but it is None: {NO_PATH}"
    fix = "compute the loss from it, outside of no_grad()"
    assert [str(w.message) for w in caught] == [text(what, line_of(read), fix, 13)]


def test_13_a_step_without_gradients():
    w = ft.Tensor(X, requires_grad=True)
    optimizer = ft.optim.SGD([w], 0.1)

    def step():
        optimizer.step()

    what = (
        f"SGD.step(): no parameter has a gradient\n    tensor {w.id} (float64[3]): {NO_PATH}"
    )
    fix = "loss.backward() before step(), and zero_grad() after it"
    assert message_of(step, errors.MissingGradientError) == text(what, line_of(step), fix, 13)


# -- 15: a second run that differs

RUNS = []


def changing(x):
    RUNS.append(1)
    y = np.exp(x)
    if len(RUNS) % 2:
        z = np.sin(y)
    else:
        z = np.cos(y)
    return np.sum(z)


def outer(x):
    return ft.checkpoint(changing)(x) * 2.0


def once(c, x):
    return ft.checkpoint(changing)(x), None


def scanned(x):
    return ft.scan(once, 0.0, x[None])[0]


C, D = defined(changing), defined(outer)
AGAIN = f"checkpoint({C})"
DIFFERS = (
    "checkpoint of changing: run again for the backward pass, it did not do the same: operation 1 "
    "was sin, which gives float64[3], and is now cos, which gives float64[3]"
)
REPLAY_FIX = "unseeded random state or a global? Pass what changes as an argument, random keys too"
REPLAYS = {
    "grad": (lambda: ft.grad(ft.checkpoint(changing))(X), f"grad({C}) of {AGAIN}"),
    "value_and_grad": (
        lambda: ft.value_and_grad(ft.checkpoint(changing))(X),
        f"value_and_grad({C}) of {AGAIN}",
    ),
    "vjp": (lambda: ft.vjp(ft.checkpoint(changing), X)[1](1.0), f"vjp({C}) of {AGAIN}"),
    "within a function": (lambda: ft.grad(outer)(X), f"grad({D}) of {AGAIN}"),
    "jit of grad": (lambda: ft.jit(ft.grad(outer))(X), f"jit({D}) of grad({D}) of {AGAIN}"),
    "vmap of grad": (lambda: ft.vmap(ft.grad(outer))(BATCH), f"vmap({D}) of grad({D}) of {AGAIN}"),
    "scan": (lambda: ft.grad(scanned)(X), f"grad({defined(scanned)}) of {AGAIN}"),
}


@pytest.mark.parametrize("name", REPLAYS)
def test_15_the_first_operation_that_differs(name):
    call, under = REPLAYS[name]
    # The body of a loop is run for its types first.
    RUNS[:] = [1] * (name == "scan")
    wanted = text(DIFFERS, line_of(changing, 6), REPLAY_FIX, 15, under)
    assert message_of(call, errors.ReplayError) == wanted


def test_15_of_a_tensor():
    RUNS.clear()
    loss = ft.checkpoint(changing)(ft.Tensor(X, requires_grad=True))

    def run():
        loss.backward()

    assert message_of(run, errors.ReplayError) == text(DIFFERS, line_of(run), REPLAY_FIX, 15)


# -- 18: NaN and infinity


def logarithm(x):
    return np.sum(np.log(x))


def root(x):
    return np.sum(np.sqrt(x))


def calls_root(x):
    return root(x)


L, R = defined(logarithm), defined(root)
FORWARD = "log made infinity of float64[3] from 0 to 4"
BACK = (
    f"the gradient of sqrt by operand 0, which was computed at {line_of(root)}, made infinity of "
    "the cotangent float64[3] from 1 to 1 and float64[3] from 0 to 2"
)
CHECKS = {
    "eager": (lambda: logarithm(X), ""),
    "a tensor": (lambda: logarithm(ft.Tensor(X)), ""),
    "grad": (lambda: ft.grad(logarithm)(X), f"grad({L})"),
    "vmap": (lambda: ft.vmap(logarithm)(BATCH), f"vmap({L})"),
    "checkpoint": (
        lambda: ft.grad(ft.checkpoint(logarithm))(X),
        f"grad({L}) of checkpoint({L})",
    ),
    "scan": (lambda: ft.scan(lambda c, x: (c + logarithm(x), None), 0.0, BATCH), ""),
    "cond": (lambda: ft.cond(True, logarithm, root, X), ""),
}
CHECKS_BACK = {
    "grad": (lambda: ft.grad(root)(X), f"grad({R})"),
    "vjp": (lambda: ft.vjp(root, X)[1](1.0), f"vjp({R})"),
    "vmap of grad": (lambda: ft.vmap(ft.grad(root))(BATCH), f"vmap({R}) of grad({R})"),
    "checkpoint": (lambda: ft.grad(ft.checkpoint(root))(X), f"grad({R})"),
    "a called function": (lambda: ft.grad(calls_root)(X), f"grad({defined(calls_root)})"),
    "backward": (lambda: root(ft.Tensor(X, requires_grad=True)).backward(), ""),
}
FINITE_FIX = (
    "keep operands in the domain: np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the "
    "operation"
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CHECKS)
def test_18_forward(name):
    call, under = CHECKS[name]
    wanted = text(FORWARD, line_of(logarithm), FINITE_FIX, 18, under)
    with ft.config.using(check_finite=True):
        assert message_of(call, errors.NonFiniteError).replace("[1, 3]", "[3]") == wanted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CHECKS_BACK)
def test_18_on_the_way_back(name):
    call, under = CHECKS_BACK[name]
    wanted = text(BACK, line_of(call, 0), FINITE_FIX, 18, under)
    with ft.config.using(check_finite=True):
        assert message_of(call, errors.NonFiniteError).replace("[1, 3]", "[3]") == wanted
