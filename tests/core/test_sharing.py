"""Arrays do not change: whoever writes to a NumPy array that was given changes nothing."""

import warnings

import numpy
import pytest
from public_functions import all_cases
from public_functions.harness import leaves_of
from support.long_forms import sized
from support.registry_cases import operands_of

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose

pytestmark = pytest.mark.long


def fresh():
    return numpy.arange(1.0, 7.0).reshape(2, 3).copy()


def same(x):
    return x


def turned(x):
    return x.T


def total(x):
    return np.sum(x * x)


def jitted_with(X):
    f = ft.jit(lambda s: np.sum(np.asarray(X) * s) + np.sum(X * s))
    f(1.0)
    return lambda: f(2.0)


def pulled_with(X):
    pull = ft.vjp(lambda s: np.sum(s * X) + np.sum(np.sin(s * X[0])), fresh())[1]
    return lambda: pull(1.0)


def pulled_by(X):
    pull = ft.vjp(total, X)[1]
    return lambda: pull(1.0)


def linearized(X):
    linear = ft.linearize(lambda s: s * s * X, fresh())[1]
    return lambda: linear(numpy.ones((2, 3)))


def linearized_at(X):
    linear = ft.linearize(total, X)[1]
    return lambda: linear(numpy.ones((2, 3)))


def staged(X):
    program = ft.make_program(lambda s: X * s)(1.0)
    return lambda: program(2.0)


def tensor_graph(X):
    w = ft.Tensor(fresh(), requires_grad=True, dtype="float64")
    loss = ((w * X) ** 2).sum() + (X * w).sum() + np.sum(np.where(X > 2, w, X))

    def gradient():
        w.grad = None
        loss.backward(retain_graph=True)
        return w.grad.numpy()

    return gradient


def hooked(X):
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda *_: None)):
        out = np.reshape(X, -1)
    return lambda: out


@ft.custom_jvp
def passed(x):
    return x


passed.defjvp(lambda primals, tangents: (*primals, *tangents))

ENTRIES = {
    "asarray": np.asarray,
    "array": np.array,
    "array as needed": lambda X: np.array(X, copy=None),
    "asarray of a view": lambda X: np.asarray(X[::-1].T),
    "asarray of a read-only view": lambda X: np.asarray(numpy.broadcast_to(X, (2, 2, 3))),
    "asarray of a list": lambda X: np.asarray([X, X]),
    "asarray of a dtype": lambda X: np.asarray(X, float),
    "Tensor": lambda X: ft.Tensor(X).numpy(),
    "Tensor float64": lambda X: ft.Tensor(X, dtype="float64").numpy(),
    "jit": lambda X: ft.jit(same)(X),
    "jit, a view": lambda X: ft.jit(turned)(X),
    "grad": lambda X: ft.grad(lambda x: np.sum(x) / 2)(X),
    "value and extras": lambda X: ft.value_and_grad(lambda x: (total(x), x.T), has_aux=True)(X),
    "extras": lambda X: ft.grad(lambda x: (total(x), (x, x[0])), has_aux=True)(X),
    "extras of others": lambda X: ft.grad(lambda s, x: (s, np.asarray(x)), has_aux=True)(1.0, X),
    "extras of a constant": lambda X: ft.grad(lambda s: (s, np.reshape(X, -1)), has_aux=True)(1.0),
    "vjp": lambda X: ft.vjp(same, X)[0],
    "vjp of a constant": lambda X: ft.vjp(lambda s: np.reshape(X, -1), 1.0)[0],
    "pull": lambda X: ft.vjp(turned, fresh())[1](X.T),
    "jvp": lambda X: ft.jvp(turned, (X,), (X,)),
    "jvp of a constant": lambda X: ft.jvp(lambda s: (X, np.transpose(X)), (1.0,), (1.0,))[0],
    "linearize": lambda X: ft.linearize(same, X)[0],
    "vmap": lambda X: ft.vmap(same)(X),
    "vmap, a view": lambda X: ft.vmap(lambda x: x[::-1])(X),
    "vmap of a constant": lambda X: ft.vmap(lambda s: X.T, out_axes=None)(fresh()),
    "vmap of what is shared": lambda X: ft.vmap(lambda s, x: x, (0, None))(fresh(), X),
    "custom_jvp": passed,
    "scan": lambda X: ft.scan(lambda c, x: (x, c), X[0], X),
    "scan of nothing": lambda X: ft.scan(lambda c, x: (c, x), X, np.ones(0)),
    "cond": lambda X: ft.cond(True, same, turned, X),
    "switch": lambda X: ft.switch(1, [turned, same], X),
    "fori_loop": lambda X: ft.fori_loop(0, 0, lambda i, x: x, X),
    "while_loop": lambda X: ft.while_loop(lambda x: False, same, X),
    "stop_gradient": ft.stop_gradient,
    "value": ft.value,
    "value within": lambda X: ft.grad(lambda x: (total(x), ft.value(x)), has_aux=True)(X),
    "to_device": lambda X: ft.to_device(X, "cpu"),
    "ravel": lambda X: ft.tree.ravel({"w": X})[0],
    "state": lambda X: ft.optim.adam(0.1).init({"w": X}),
    "frombuffer": np.frombuffer,
}
LATER = {
    "a constant of jit": jitted_with,
    "a constant of a program": staged,
    "a constant of vjp": pulled_with,
    "an argument of vjp": pulled_by,
    "a constant of linearize": linearized,
    "an argument of linearize": linearized_at,
    "an operand of a graph of tensors": tensor_graph,
    "a hook": hooked,
}


def check(later, X):
    """Checks that what a function returns does not change with an array."""
    before = ft.tree.map(lambda x: numpy.array(x), later())
    X[...] = -100.0
    assert_allclose(later(), before, rtol=0, atol=0)


@pytest.mark.parametrize("name", ENTRIES)
def test_results_do_not_change_with_what_was_given(name):
    X = fresh()
    out = ENTRIES[name](X)
    check(lambda: out, X)


@pytest.mark.parametrize("name", LATER)
def test_what_is_used_later_does_not_change_with_what_was_given(name):
    X = fresh()
    check(LATER[name](X), X)


def test_primitives_return_memory_of_their_own():
    for primitive in list(registry):
        for sample in primitive.samples:
            for dtype in "dD":
                with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    operands = [numpy.array(x) for x in operands_of(primitive, sample, dtype)]
                    try:
                        outs = [primitive.bind(operands, dict(sample.params))]
                        if not sample.params and len(operands) == primitive.arity:
                            outs.append(primitive(*operands))
                    except (ValueError, TypeError, ft.errors.MissingRuleError):
                        continue  # it is not for that dtype, or needs a batch axis
                shared = [
                    numpy.shares_memory(numpy.asarray(out), x) for out in outs for x in operands
                ]
                assert not any(shared), primitive


def test_public_functions_return_memory_of_their_own():
    wrong = []
    for case in all_cases()[:: sized(7, 1)]:
        operands = case.values("d")
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outs = leaves_of(case.ours(*operands))
        for out in outs:
            mine = numpy.asarray(out) if type(out) is ft.Array else numpy.zeros(0)
            if any(numpy.may_share_memory(mine, x) for x in operands):
                wrong.append(repr(case))
    assert not wrong


# Arrays that are read within a call are not copied, but can be checked


def rewriting(buffer):
    def f(x):
        total = 0.0
        for i in range(3):
            buffer[:] = i
            total = total + np.sum(x * buffer)
        return total

    return f


CALLS = {
    "grad": lambda f: ft.grad(f)(numpy.ones(2)),
    "grad of jit": lambda f: ft.jit(ft.grad(f))(numpy.ones(2)),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(numpy.ones((3, 2))),
    "hessian": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x)))(numpy.ones(2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_buffer_that_is_written_to_is_found(name):
    f = rewriting(numpy.zeros(2))
    with ft.config.using(check_buffers=True), pytest.raises(ft.errors.BackwardError) as caught:
        CALLS[name](f)
    line = f.__code__.co_firstlineno + 4
    assert str(caught.value).splitlines()[0] == (
        f"a NumPy array float64[2] that multiply read at {__file__}:{line} was written to before "
        "the backward pass, which reads it again"
    )


def written_after(operation):
    def f(x):
        buffer = numpy.full((2, 2), 3.0)
        y = operation(x, buffer)
        buffer[:] = 7.0
        return np.sum(y * y)

    return f


def graph_of(f):
    def gradient(x):
        t = ft.Tensor(x, requires_grad=True, dtype="float64")
        f(t).backward()
        return t.grad.numpy()

    return gradient


def pulled(f):
    return lambda x: ft.vjp(f, x)[1](1.0)[0]


KEPT = {
    "multiply": lambda x, b: x * b,
    "matmul": lambda x, b: b @ x,
    "einsum": lambda x, b: np.einsum("ij,jk->ik", b, x),
    "a view": lambda x, b: x * b.T,
    "a tangent": lambda x, b: ft.jvp(lambda y: y * b, (x,), (x,))[1],
}
NOT_KEPT = {
    "add": lambda x, b: x + b,
    "concatenate": lambda x, b: np.concatenate([x, b]),
    "asarray": lambda x, b: x * np.asarray(b),
    "checkpoint": lambda x, b: ft.checkpoint(lambda y: y * b)(x),
}


@pytest.mark.parametrize("name", KEPT)
def test_check_buffers_finds_what_the_way_back_reads(name):
    with ft.config.using(check_buffers=True), pytest.raises(ft.errors.BackwardError):
        ft.grad(written_after(KEPT[name]))(numpy.ones((2, 2)))


@pytest.mark.parametrize("name", KEPT | NOT_KEPT)
@pytest.mark.parametrize("way", [ft.grad, pulled, graph_of])
def test_check_buffers_raises_no_false_alarm(name, way):
    if way is ft.grad and name in KEPT:
        return
    f = written_after((KEPT | NOT_KEPT)[name])
    with ft.config.using(check_buffers=True):
        got = way(f)(numpy.ones((2, 2)))
    assert_allclose(got, way(f)(numpy.ones((2, 2))))
    h = 1e-6
    x, step = numpy.ones((2, 2)), h * numpy.eye(2)
    assert_allclose(numpy.sum(numpy.diag(got)), (f(x + step) - f(x - step)) / (2 * h), rtol=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_a_buffer_that_is_left_alone_is_fine(name):
    buffer = numpy.array([2.0, 3.0])

    def f(x):
        return np.sum(np.sin(x * buffer) * buffer[::-1])

    wanted = CALLS[name](f)
    with ft.config.using(check_buffers=True, check_finite=True):
        got = CALLS[name](f)
    assert_allclose(got, wanted, rtol=1e-14, atol=1e-14)
    assert not ft.config.check_buffers
    buffer[...] = 0.0
    CALLS[name](rewriting(buffer))


# Sharing that is asked for


def test_copy_false_shares():
    X = fresh()
    shared = np.asarray(X, copy=False)
    X[0, 0] = 9.0
    assert shared[0, 0] == 9.0


def test_what_nobody_can_write_to_is_shared():
    X = fresh()
    X.flags.writeable = False
    assert numpy.shares_memory(np.asarray(X), X)
    read = numpy.frombuffer(bytes(16))
    assert numpy.shares_memory(np.asarray(read), read)


def test_arrays_are_not_copied():
    x = np.asarray(fresh())
    assert np.asarray(x) is x
    assert ft.value(x) is x
    assert numpy.shares_memory(np.reshape(x, -1), x)
    assert numpy.shares_memory(ft.vmap(same)(x), x)


def test_a_constant_of_a_program_is_copied_once():
    X = fresh()
    program = ft.make_program(lambda s: (X * s) @ (X * s).T)(1.0)
    constants = {
        numpy.asarray(x).__array_interface__["data"]
        for equation in program.equations
        for x in equation.operands
        if isinstance(x, ft.Array) and x.shape == X.shape
    }
    assert len(constants) == 1


def test_a_constant_that_changes_while_a_function_is_staged_is_copied_each_time():
    X = fresh()

    def f(s):
        first = X * s
        X[...] *= 2
        return first + X * s

    assert_allclose(ft.make_program(f)(1.0)(1.0), 3 * fresh())


OVER_TENSORS = {
    "vmap": lambda t, b: ft.vmap(lambda t, c: t * c)(t, b),
    "vmap of a closure": lambda t, b: ft.vmap(lambda t: t * b)(t),
    "jvp": lambda t, b: ft.jvp(lambda t: t**2 * b, (t,), (b,))[1],
    "linearize": lambda t, b: ft.linearize(lambda t: t**2 * b, t)[1](b),
    "checkpoint": lambda t, b: ft.checkpoint(lambda t, c: np.sin(t * c))(t, b),
    "checkpoint of a closure": lambda t, b: ft.checkpoint(lambda t: np.sin(t * b))(t),
}


@pytest.mark.parametrize("name", OVER_TENSORS)
def test_graphs_of_transformed_tensors_do_not_change_with_arrays(name):
    gradients = []
    for written in (False, True):
        b, t = numpy.ones(3), ft.Tensor(numpy.ones(3), requires_grad=True)
        y = OVER_TENSORS[name](t, b)
        if written:
            b[:] = 7.0
        y.sum().backward()
        gradients.append(numpy.asarray(t.grad.detach()))
    numpy.testing.assert_array_equal(*gradients)


def test_what_runs_again_does_not_change_with_arrays():
    b = numpy.ones(3)
    checkpointed = ft.checkpoint(lambda x: np.sin(x * b))
    _, pull = ft.vjp(checkpointed, numpy.ones(3))
    transposed = ft.linear_transpose(lambda x: x * b, numpy.ones(3))
    b[:] = 7.0
    numpy.testing.assert_allclose(pull(numpy.ones(3))[0], numpy.cos(numpy.ones(3)))
    numpy.testing.assert_array_equal(transposed(numpy.ones(3))[0], numpy.ones(3))
