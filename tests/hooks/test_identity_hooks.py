"""Hooks that change nothing leave every bit as it is, and see the same everywhere."""

from collections import Counter

import numpy
import pytest
from support.hooked_programs import program
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use, value


class Observing(Hook):
    def forward(self, op, inputs, output):
        value(output)

    def backward(self, op, grad_inputs, grad_output):
        value(grad_output)


class Returning(Hook):
    def forward(self, op, inputs, output):
        return output

    def backward(self, op, grad_inputs, grad_output):
        return grad_inputs


class Noting(Hook):
    """Notes names, numbers of examples, and the mean over the examples of values, rounded.

    ``whole`` says that no cotangent may be that of all examples or of each.
    """

    def __init__(self, whole):
        self.seen = Counter()
        self.whole = whole

    def forward(self, op, inputs, output):
        self.seen[op.phase, op.name, op.batch_size, numbers(output)] += 1

    def backward(self, op, grad_inputs, grad_output):
        known = numbers(grad_output) if self.whole else np.shape(grad_output)
        # In a plan, examples may share a cotangent and have it for each, or not be known in a loop.
        examples = examples_of(grad_output)
        told = self.whole and numpy.ptp(examples, axis=0).max() > 1e-6
        self.seen[op.phase, op.name, known, told and op.batch_size] += 1


def examples_of(x):
    return numpy.asarray(value(x), float).reshape(-1, *np.shape(x))


def numbers(x):
    return str(numpy.round(examples_of(x).mean(axis=0), 6) + 0.0)


def bits(values):
    return [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(values)]


def scalar(f):
    return lambda x, w: np.sum(np.sin(f(x, w)))


def gradient(f):
    return ft.grad(scalar(f), (0, 1))


TRANSFORMATIONS = {
    "evaluated": lambda f: f,
    "grad": gradient,
    "grad of vmap": lambda f: gradient(lambda x, w: ft.vmap(f, (0, None))(w * x, w)),
    "vmap of grad": lambda f: lambda x, w: ft.vmap(gradient(f), (0, None))(w + x, w),
    "hessian": lambda f: ft.hessian(scalar(f)),
    "grad of jvp": lambda f: gradient(lambda x, w: ft.jvp(lambda x: f(x, w), (x,), (w[0],))[1]),
}


def data(seed):
    draw = numpy.random.RandomState(seed)
    return np.asarray(draw.randn(3)), np.asarray(draw.randn(3, 3) * 0.7)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(12, 60)))
def test_results_are_bit_identical(seed):
    f, args = program(seed), data(seed)
    for mode, transform in TRANSFORMATIONS.items():
        plain = bits(transform(f)(*args))
        for hook in (Observing(), Returning()):
            with use(hook):
                assert bits(transform(f)(*args)) == plain, (f.__name__, mode)


def is_branch_of_a_batch(mode, name):
    """Says whether both branches of a `cond` run, for some of whose examples neither is seen."""
    return "cond" in name and ("vmap" in mode or "vmap" in name or "psum" in name)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(12, 30)))
def test_the_same_is_seen_in_plans(seed):
    f, args = program(seed), data(seed)
    for mode in ("evaluated", "grad", "grad of vmap", "vmap of grad"):
        if is_branch_of_a_batch(mode, f.__name__):
            continue
        # What all examples share has one cotangent, but in the plan of a loop one of each example.
        whole = "psum" not in f.__name__
        transform, wanted, found = TRANSFORMATIONS[mode], Noting(whole), Noting(whole)
        with use(wanted):
            transform(f)(*args)
        jitted = ft.jit(transform(f))
        for _ in range(3):
            found.seen.clear()
            with use(found):
                jitted(*args)
            assert found.seen == wanted.seen, (f.__name__, mode)


def cut(op, grad_inputs, grad_output):
    return [g if g is None else np.clip(g, -0.2, 0.3) for g in grad_inputs]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(12, 30)))
def test_changed_cotangents_of_a_batch_are_those_of_its_examples(seed):
    f, (x, w) = program(seed), data(seed)
    if is_branch_of_a_batch("vmap", f.__name__):
        return
    xs, ws = w + x, np.stack([w, w / 2, -w])
    with use(FnHook(backward=cut)):
        found = ft.grad(lambda ws: ft.vmap(scalar(f))(xs, ws) @ np.ones(3))(ws)
        # The product with one is there for a batch too.
        wanted = [ft.grad(lambda x, w: scalar(f)(x, w) * 1.0, 1)(*each) for each in zip(xs, ws)]
    numpy.testing.assert_allclose(found, np.stack(wanted), rtol=1e-9, atol=1e-11)


W = numpy.random.RandomState(0).randn(3, 3)
BATCHES = {
    "products": lambda w: ft.vmap(lambda r: np.tanh(w @ np.tanh(w[0] * (w @ r))))(w)[0],
    "twice": lambda w: ft.vmap(lambda r: w @ r)(w)[1] - np.std(ft.vmap(lambda r: w @ r)(w)),
    "psum": lambda w: ft.vmap(lambda r: ft.psum(np.tanh(w @ r), "i") + r, axis_name="i")(w),
    "all_gather": lambda w: ft.vmap(
        lambda r: ft.all_gather(w @ r, "i") @ np.sin(r), axis_name="i"
    )(w),
    "outer name": lambda w: ft.vmap(
        lambda m: ft.vmap(lambda r: ft.psum(np.tanh(w @ r), "i") * r)(m), axis_name="i"
    )(w * w[:, None]),
    "nested": lambda w: ft.vmap(lambda a: ft.vmap(lambda b: np.tanh(w @ (a * b)))(w) @ w)(w),
    "complex": lambda w: np.real(ft.vmap(lambda r: np.exp(1j * (w @ r)) * (w @ r + 2j))(w)),
    "checkpoint": ft.checkpoint(lambda w: ft.vmap(lambda r: w @ np.tanh(w @ r) * r)(w)),
    "scan": lambda w: ft.scan(
        lambda c, r: (ft.vmap(lambda a: np.tanh(w @ (a * r)))(c), None), w, w
    )[0],
    "lookups": lambda w: ft.vmap(lambda r: w[np.array([0, 2, 0])] @ r + w[1] * r)(w),
}


def derivatives(f):
    def total(w):
        return np.sum(np.sin(f(w)))

    t = ft.Tensor(W, requires_grad=True)
    total(t).backward()
    again = ft.grad(lambda w: np.sum(ft.grad(total)(w) ** 2))(W)
    tangent = ft.jvp(ft.grad(total), (W,), (W,))[1]
    pushed = ft.grad(lambda w: np.sum(ft.jvp(f, (w,), (w,))[1]))(W)
    return ft.grad(total)(W), t.grad, again, tangent, pushed, ft.jacrev(f)(W)


@pytest.mark.parametrize("name", BATCHES)
def test_backward_hooks_leave_the_order_of_sums_in_batches(name):
    plain = bits(derivatives(BATCHES[name]))
    for hooks in ([Observing()], [Returning(), Observing()]):
        with use(hooks[0]), use(hooks[-1]):
            assert bits(derivatives(BATCHES[name])) == plain


def test_hooks_see_the_whole_cotangent_of_what_all_examples_share():
    xs, seen = np.array([1.0, 2.0, 3.0]), []

    def total(xs):
        return np.sum(ft.vmap(lambda x: ft.psum(x, "i") * x, axis_name="i")(xs))

    def noted(op, grad_inputs, g):
        seen.append([value(g).tolist(), value(grad_inputs[0]).tolist(), op.batch_size])

    with use(FnHook(backward=noted), "psum"):
        numpy.testing.assert_allclose(ft.grad(total)(xs), [12.0] * 3)
    assert seen == [[6.0, [6.0] * 3, 3]]
    halved = FnHook(backward=lambda op, grad_inputs, g: [grad_inputs[0] / 2])
    with use(halved, "psum"):
        numpy.testing.assert_allclose(ft.grad(total)(xs), [9.0] * 3)

    # One operand for all examples: each has a part of its cotangent.
    def shared(x):
        return np.sum(ft.vmap(lambda y: ft.psum(x, "i") * y, axis_name="i")(xs))

    numpy.testing.assert_allclose(ft.grad(shared)(2.0), 18.0)
    with use(halved, "psum"):
        numpy.testing.assert_allclose(ft.grad(shared)(2.0), 9.0)


def test_a_batching_rule_may_return_its_operand():
    same = ft.extend.Primitive(
        "same_as_given",
        compute=lambda xp, x: x,
        infer=lambda primitive, x: x,
        batch=lambda primitive, values, flags, params: values[0],
        vjp=(lambda g: g,),
        jvp=(lambda g: g,),
    )

    def f(x):
        return np.sum(ft.vmap(lambda r: np.sin(same.bind([r], {})))(x))

    plain = bits(ft.grad(f)(W))
    seen = []
    with use(FnHook(backward=lambda op, gi, g: seen.append(np.shape(g))), "same_as_given"):
        assert bits(ft.grad(f)(W)) == plain
    assert seen == [(3,)]
    with use(FnHook(backward=lambda op, gi, g: [3 * gi[0]]), "same_as_given"):
        numpy.testing.assert_allclose(ft.grad(f)(W), 3 * numpy.cos(W))


def test_hooks_of_a_loop_know_the_batch_around_it():
    def f(x):
        return np.sum(ft.fori_loop(0, 2, lambda i, c: np.sin(c) * x, x))

    step, seen = ft.jit(ft.vmap(ft.grad(f))), []
    hook = FnHook(backward=lambda op, gi, g: seen.append((op.name, op.batch_size, np.shape(g))))
    for _ in range(3):
        seen.clear()
        with use(hook, "sin|multiply"):
            step(W)
        assert Counter(seen) == {("sin", 3, (3,)): 2, ("multiply", 3, (3,)): 2}
