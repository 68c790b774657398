"""Threads differentiate without disturbing each other, and an exception leaves nothing behind."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.trace import slot
from functensor.testing import assert_allclose

pytestmark = pytest.mark.long
ROUNDS = sized(4, 40)


# Eight threads, each with a function and a transformation of its own


@ft.custom_vjp
def softened(x):
    return np.log(1 + np.exp(x))


softened.defvjp(lambda x: (softened(x), x), lambda x, g: (g / (1 + np.exp(-x)),))


@ft.custom_jvp
def cubed(x):
    return x**3


cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))


class Doubled(ft.hooks.Hook):
    def backward(self, op, grad_inputs, grad_output):
        return [2 * g for g in grad_inputs]


def network(params, x):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.sum(hidden**2)


def hooked(x):
    with ft.hooks.use(Doubled(), match="sin"):
        return ft.grad(lambda x: np.sum(np.sin(x) * x))(x)


def by_tensor(x):
    t = ft.Tensor(x, requires_grad=True)
    u = t * t + t.sum()
    with ft.no_grad():
        weight = (u * 2).sum().item()
    (u.exp() / weight).sum().backward()
    return numpy.asarray(t.grad.detach())


def staged(x):
    program = ft.make_program(lambda x: np.cumsum(np.exp(x) * x[::-1]))(x)
    return ft.jacrev(program)(x)


POINT = numpy.linspace(-1.0, 1.5, 6)
PARAMS = {"w": numpy.outer(POINT, POINT[:4]), "b": POINT[:4]}
BATCH = numpy.stack([POINT, POINT[::-1], POINT**2])

WORK = {
    "gradients of a network": lambda: ft.value_and_grad(network)(PARAMS, BATCH),
    "per-example gradients": lambda: ft.vmap(ft.grad(network), in_axes=(None, 0))(PARAMS, BATCH),
    "hessian": lambda: ft.hessian(lambda x: np.sum(np.sin(x) * np.exp(x[::-1])))(POINT),
    "forward mode": lambda: ft.jacfwd(lambda x: np.cumprod(cubed(x) + 2))(POINT),
    "custom rules": lambda: ft.grad(lambda x: np.sum(softened(x) * cubed(x)))(POINT),
    "hooks": lambda: hooked(POINT),
    "tensors": lambda: by_tensor(POINT),
    "staging": lambda: staged(POINT),
}


def repeat(work, expected, start):
    """Repeats some work, as soon as all threads are ready."""
    start.wait()
    for _ in range(ROUNDS):
        assert_allclose(work(), expected, rtol=1e-13, atol=1e-13)
        assert slot.trace is None


def test_threads_agree_with_one_thread():
    expected = {name: work() for name, work in WORK.items()}
    assert len(WORK) == 8
    start = threading.Barrier(len(WORK))
    interval = sys.getswitchinterval()
    # Threads take turns in the middle of nearly every operation.
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(WORK)) as pool:
            runs = [
                pool.submit(repeat, work, expected[name], start)
                for name, work in WORK.items()
            ]
            for run in runs:
                run.result()
    finally:
        sys.setswitchinterval(interval)


def test_a_thread_starts_without_the_trace_of_another():
    seen = []

    def f(x):
        def other():
            seen.append(slot.trace)
            seen.append(ft.grad(np.sin)(0.0))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x * x

    assert ft.grad(f)(3.0) == 6
    assert seen[0] is None
    assert seen[1] == 1


# Exceptions: every entry calls ``step`` in the middle of a transformation, and step may raise


class Boom(Exception):
    pass


def nothing():
    """A step that does nothing."""


def boom():
    """A step that raises."""
    raise Boom


def stepping(step):
    """Returns a function of an array that takes the step after its first operation."""

    def f(x):
        y = x * x
        step()
        return np.sum(y * x)

    return f


def each(step):
    """Returns the same, but with an output for every element."""

    def f(x):
        y = x * x
        step()
        return y * x

    return f


def with_rules(fwd_step=nothing, bwd_step=nothing):
    @ft.custom_vjp
    def f(x):
        return np.sum(x**2)

    def fwd(x):
        out = np.sum(x**2)
        fwd_step()
        return out, x

    def bwd(x, g):
        c = 2 * x * g
        bwd_step()
        return (c,)

    f.defvjp(fwd, bwd)
    return f


def with_jvp(step):
    @ft.custom_jvp
    def f(x):
        return np.sum(x**2)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        out = np.sum(x**2)
        step()
        return out, np.sum(2 * x * t)

    return f


def stepping_body(step):
    @ft.custom_vjp
    def f(x):
        y = x**2
        step()
        return np.sum(y)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (2 * x * g,))
    return f


def forward_hook(step):
    return ft.hooks.FnHook(forward=lambda op, inputs, output: step())


def backward_hook(step):
    return ft.hooks.FnHook(backward=lambda op, grad_inputs, grad_output: step())


def under_hook(hook, call):
    with ft.hooks.use(hook):
        return call(lambda x: np.sum(np.sin(x) * x))(X)


def tensor_backward(step, where):
    x = ft.Tensor(X, requires_grad=True)
    if where == "forward":
        loss = stepping(step)(x)
    elif where == "hook":
        y = x * x
        y.register_hook(lambda g: step())
        loss = y.sum()
    else:
        loss = with_rules(bwd_step=step)(x)
    loss.backward()
    return numpy.asarray(x.grad.detach())


def tensor_no_grad(step):
    x = ft.Tensor(X, requires_grad=True)
    with ft.no_grad():
        stepping(step)(x)
    assert ft.is_grad_enabled()
    return numpy.asarray((x * 2).detach())


def caught_inside(step):
    """An exception of an inner transformation, caught within the outer one's function."""

    def f(x):
        try:
            y = ft.grad(stepping(step))(x)
        except Boom:
            y = 3 * x * x
        return np.sum(y * x)

    return ft.grad(f)(X)


X = numpy.array([0.5, -1.0, 2.0])

TRANSFORMATIONS = {
    "grad": lambda step: ft.grad(stepping(step))(X),
    "value_and_grad": lambda step: ft.value_and_grad(stepping(step))(X),
    "vjp": lambda step: ft.vjp(each(step), X)[1](X),
    "the pulled-back function": lambda step: ft.vjp(with_rules(bwd_step=step), X)[1](1.0),
    "jvp": lambda step: ft.jvp(each(step), (X,), (X,)),
    "linearize": lambda step: ft.linearize(each(step), X)[1](X),
    "the linear function": lambda step: ft.linearize(lambda x: with_jvp(step)(x) * 2, X)[1](X),
    "vmap": lambda step: ft.vmap(each(step))(X),
    "jacfwd": lambda step: ft.jacfwd(each(step))(X),
    "jacrev": lambda step: ft.jacrev(each(step))(X),
    "jacrev's backward": lambda step: ft.jacrev(with_rules(bwd_step=step))(X),
    "hessian": lambda step: ft.hessian(stepping(step))(X),
    "hvp": lambda step: ft.hvp(stepping(step), (X,), (X,)),
    "custom_vjp, evaluated": lambda step: stepping_body(step)(X),
    "custom_vjp, fwd": lambda step: ft.grad(with_rules(fwd_step=step))(X),
    "custom_vjp, bwd": lambda step: ft.grad(with_rules(bwd_step=step))(X),
    "custom_vjp, bwd in forward mode": lambda step: ft.jvp(with_rules(bwd_step=step), (X,), (X,)),
    "custom_vjp, fwd under vmap": lambda step: ft.vmap(ft.grad(with_rules(step)))(X[None]),
    "custom_vjp, bwd under vmap": lambda step: ft.vmap(ft.grad(with_rules(nothing, step)))(X[None]),
    "custom_jvp": lambda step: ft.jvp(with_jvp(step), (X,), (X,)),
    "custom_jvp, transposed": lambda step: ft.grad(with_jvp(step))(X),
    "make_program": lambda step: ft.make_program(each(step))(X)(X),
    "eval_shape": lambda step: ft.eval_shape(each(step), X),
    "hook, evaluated": lambda step: under_hook(forward_hook(step), lambda f: f),
    "hook, forward": lambda step: under_hook(forward_hook(step), ft.grad),
    "hook, backward": lambda step: under_hook(backward_hook(step), ft.grad),
    "hook, forward mode": lambda step: under_hook(forward_hook(step), ft.jacfwd),
    "hook, vmap": lambda step: under_hook(forward_hook(step), ft.vmap),
    "Tensor, forward": lambda step: tensor_backward(step, "forward"),
    "Tensor, backward": lambda step: tensor_backward(step, "rule"),
    "Tensor, hook": lambda step: tensor_backward(step, "hook"),
    "Tensor, no_grad": tensor_no_grad,
    "grad of grad": lambda step: ft.grad(lambda x: np.sum(ft.grad(stepping(step))(x)))(X),
    "vmap of grad": lambda step: ft.vmap(ft.grad(stepping(step)))(X[None]),
    "grad of vmap": lambda step: ft.grad(lambda x: np.sum(ft.vmap(each(step))(x)))(X),
    "jvp of vmap of grad": lambda step: ft.jvp(ft.vmap(ft.grad(stepping(step))), (X,), (X,)),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_exception_leaves_nothing_behind(name):
    transform = TRANSFORMATIONS[name]
    expected = transform(nothing)
    for _ in range(3):
        with pytest.raises(Boom):
            transform(boom)
        assert slot.trace is None
        assert ft.grad(lambda x: x * x)(3.0) == 6
        assert isinstance(np.sin(1.0), ft.Array)
        assert_allclose(transform(nothing), expected, rtol=0, atol=0)


def test_exception_caught_within_a_transformation():
    assert_allclose(caught_inside(boom), caught_inside(nothing))
    assert slot.trace is None


def test_exception_inside_leaves_the_outer_trace_in_place():
    traces = []

    def f(x):
        traces.append(slot.trace)
        for transform in (ft.grad, ft.jacfwd, ft.vmap, ft.make_program):
            with pytest.raises(Boom):
                transform(stepping(boom))(x)
            assert slot.trace is traces[0]
        return np.sum(x * x)

    assert_allclose(ft.grad(f)(X), 2 * X)
    assert slot.trace is None
