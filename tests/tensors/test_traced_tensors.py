"""Tensors within transformations: writes are seen as eagerly, or they raise."""

import copy
import gc
import operator
import threading
import weakref

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.errors import (
    ImmutableArrayError,
)
from functensor.primitives.core.trace import slot

X = numpy.array([1.0, 2.0, 3.0])
# A tensor that functions close over.
CLOSED = [ft.Tensor(X)]


def rows():
    return ft.Tensor(numpy.stack([X, X]))


# Every transformation, called on tensors so that the function's value comes out.
TRANSFORMATIONS = {
    "jit": lambda f: ft.jit(f)(ft.Tensor(X)),
    "value_and_grad": lambda f: ft.value_and_grad(f)(ft.Tensor(X))[0],
    "vjp": lambda f: ft.vjp(f, ft.Tensor(X))[0],
    "jvp": lambda f: ft.jvp(f, (ft.Tensor(X),), (ft.Tensor(X),))[0],
    "linearize": lambda f: ft.linearize(f, ft.Tensor(X))[0],
    "vmap": lambda f: ft.vmap(f)(rows())[1],
    "checkpoint": lambda f: ft.checkpoint(f)(ft.Tensor(X)),
    "value_and_grad of jit": lambda f: ft.value_and_grad(ft.jit(f))(ft.Tensor(X))[0],
    "jit of value_and_grad": lambda f: ft.jit(ft.value_and_grad(f))(ft.Tensor(X))[0],
    "vmap of jit": lambda f: ft.vmap(ft.jit(f))(rows())[1],
    "vmap of value_and_grad": lambda f: ft.vmap(ft.value_and_grad(f))(rows())[0][1],
    "value_and_grad, of a constant": lambda f: ft.value_and_grad(
        lambda s, x: s * f(x), argnums=0
    )(1.0, ft.Tensor(X))[0],
}


def a_view(x):
    y = x * 2
    v = y[1:]
    v *= 3
    return y.sum()


def a_second_name(x):
    y = x * 2
    v = y
    v *= 3
    return y.sum()


def the_base_of_a_view(x):
    y = x * 2
    v = y[1:]
    y -= 3
    return v.sum()


def a_method(x):
    y = x * 2
    v = y.reshape(-1)
    v /= 3
    return y.sum()


def a_property(x):
    y = x * 2
    v = y.T
    v **= 3
    return y.sum()


def iteration(x):
    y = x * 2
    for row in y.reshape(3, 1):
        row *= 3
    return y.sum()


def unpacking(x):
    y = x * 2
    first, *_ = y
    first += 1
    return y.sum()


def a_view_of_what_was_made_inside(x):
    y = ft.Tensor(numpy.zeros(3)) * x
    v = y[0].reshape(1)
    v += x[:1]
    return y.sum()


def the_argument(x):
    x *= 2
    return x.sum()


def in_a_list(x):
    found = [x * 2]
    y = found[0]
    y *= 3
    return found[0].sum()


def increased(y):
    y += 1
    return y


def an_argument_of_a_function(x):
    y = x * 2
    increased(y)
    return y.sum()


def a_name_of_a_closed_over_tensor(x):
    y = CLOSED[0] * 2
    v = y
    v *= 3
    return (y * x).sum()


def a_view_of_a_closed_over_tensor(x):
    y = CLOSED[0] * 2
    v = y[1:]
    v *= 3
    return (y * x).sum()


def the_base_of_a_view_of_a_closed_over_tensor(x):
    y = CLOSED[0] * 2
    v = y[1:]
    y *= 3
    return (v * x[1:]).sum()


WRITTEN = [
    a_view, a_second_name, the_base_of_a_view, a_method, a_property, iteration, unpacking,
    a_view_of_what_was_made_inside, in_a_list, an_argument_of_a_function,
    a_name_of_a_closed_over_tensor, a_view_of_a_closed_over_tensor,
    the_base_of_a_view_of_a_closed_over_tensor,
]  # fmt: skip


def what_was_computed(x):
    y = x * 2
    y *= 3
    return y.sum()


def a_sum_in_a_loop(x):
    total = 0.0
    for i in range(3):
        total += x[i] * x[i]
    return total


def a_view_of_nothing_else(x):
    y = (x * 2).reshape(3, 1)
    y += 1
    y = y[1:]
    y *= 2
    return y.sum()


def a_result_handed_on(x):
    return increased(x * 2).sum()


def a_copy(x):
    y = x * 2
    v = y.copy()
    v *= 3
    w = y.astype(y.dtype)
    w -= 1
    return (y + v * w).sum()


def copies_by_functions(x):
    y = x * 2
    out = 0.0
    for v in map(np.array, [y]):
        v = v * 1
        out = out + v
    a, b, c = np.array(y), np.copy(y), copy.copy(y)
    a -= 1
    b *= 2
    c /= 3
    return (out * y + a * b * c).sum()


def by_an_array_of_places(x):
    y = x * 2
    v = y[[0, 1]]
    v *= 3
    return y.sum() + v.sum()


def attributes_and_items(x):
    class Holder:
        pass

    holder, found, listed = Holder(), {}, [x * 2]
    holder.h = x * 1
    holder.h += 2
    found["k"] = x * 3
    found["k"] -= 1
    listed[0] /= 2
    return (holder.h * found["k"] * listed[0]).sum()


def numbers(x):
    n = 3
    m = n
    m += 1
    return (x * m * n).sum()


def an_array_of_its_own(x):
    total = np.zeros(6).reshape(2, 3)[0]
    for i in range(3):
        total += x * i
    return total.sum()


KEPT = [
    copies_by_functions, what_was_computed, a_sum_in_a_loop, a_view_of_nothing_else,
    a_result_handed_on, a_copy,
    by_an_array_of_places, attributes_and_items, numbers, an_array_of_its_own,
]  # fmt: skip


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("program", WRITTEN, ids=lambda f: f.__name__)
def test_what_is_written_is_seen_by_all(program, transformation):
    wanted = float(program(ft.Tensor(X)))
    assert float(TRANSFORMATIONS[transformation](program)) == pytest.approx(wanted, rel=1e-6)


def a_view_of_the_argument(x):
    v = x[1:]
    v *= 2
    return x.sum()


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("program", [the_argument, a_view_of_the_argument])
def test_a_write_to_an_argument_raises(program, transformation):
    call = TRANSFORMATIONS[transformation]
    if transformation == "checkpoint":
        # It runs the function on tensors.
        assert float(call(program)) == float(program(ft.Tensor(X)))
        return
    with pytest.raises(ImmutableArrayError, match=r"the caller's tensor would not see") as caught:
        call(program)
    assert "test_traced_tensors.py" in str(caught.value)


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("program", KEPT, ids=lambda f: f.__name__)
def test_what_nothing_else_sees_is_as_eagerly(program, transformation):
    wanted = float(program(ft.Tensor(X)))
    assert float(TRANSFORMATIONS[transformation](program)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "program", [f for f in WRITTEN if "inside" not in f.__name__ and "closed" not in f.__name__]
)
def test_arrays_are_given_new_names(program):
    wanted = float(program(np.asarray(X)))
    assert float(ft.jit(program)(np.asarray(X))) == wanted
    assert float(ft.value_and_grad(program)(np.asarray(X))[0]) == wanted


def test_a_plan_for_arrays_is_not_that_for_tensors():
    f = ft.jit(a_view)
    assert float(f(np.asarray(X))) == 12.0
    assert float(f(ft.Tensor(X, dtype="float64"))) == 32.0
    assert float(f(np.asarray(X))) == 12.0


def test_numbers_among_the_arguments_are_numbers():
    def f(x, t):
        u = t
        u += 1
        return (x * u * t).sum()

    assert float(ft.jit(f)(ft.Tensor(X), 2.0)) == float(f(ft.Tensor(X), 2.0))
    assert float(ft.value_and_grad(f)(ft.Tensor(X), 2.0)[0]) == 36.0


def test_other_threads_are_not_asked():
    found = []

    def f(x):
        def other():
            y = np.asarray(X)
            v = y
            v *= 2
            found.append(float(y.sum()))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x.sum()

    ft.jit(f)(ft.Tensor(X))
    assert found == [6.0]


def test_what_is_remembered_keeps_nothing_alive():
    seen = []

    def f(x):
        y = x * 2
        v = y[1:]
        seen.append(weakref.ref(v))
        v = v * 2
        assert seen[0]() is None
        seen.append(weakref.ref(y))
        return v.sum()

    gc.disable()
    try:
        ft.value_and_grad(f)(ft.Tensor(X))
        assert [x() for x in seen] == [None, None]
    finally:
        gc.enable()


def closing(x):
    return (CLOSED[0] * x).sum()


MEETING = {
    "grad": lambda: ft.grad(closing)(np.asarray(X)),
    "jit": lambda: ft.jit(closing)(np.asarray(X)),
    "vmap": lambda: ft.vmap(lambda x: CLOSED[0] * x)(np.ones((2, 3))),
    "jvp": lambda: ft.jvp(closing, (np.asarray(X),), (np.asarray(X),)),
    "linearize": lambda: ft.linearize(closing, np.asarray(X)),
    "hessian": lambda: ft.hessian(closing)(np.asarray(X)),
    "scan": lambda: ft.scan(lambda c, x: (c + CLOSED[0][0] * x, c), 0.0, np.asarray(X)),
    "make_program": lambda: ft.make_program(closing)(np.asarray(X)),
    "a hook": lambda: hooked(ft.grad(closing)),
    "an error": lambda: failed(np.asarray(X)),
    "a tensor": lambda: ft.grad(closing)(ft.Tensor(X)),
    "an error of a tensor": lambda: failed(ft.Tensor(X)),
}


def failing(x):
    closing(x)
    raise KeyError


def failed(x):
    with pytest.raises(KeyError):
        ft.grad(failing)(x)


def hooked(f):
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, inputs, output: None)):
        return f(np.asarray(X))


@pytest.mark.parametrize("name", MEETING)
def test_nothing_is_left_of_a_tensor_that_was_met(name):
    MEETING[name]()
    assert slot.face is None
    assert not slot.met_tensor
    assert float(ft.jit(a_view)(np.asarray(X))) == 12.0


def test_a_function_that_closes_over_a_tensor_is_staged_once():
    runs = []

    @ft.jit
    def f(x):
        runs.append(x)
        y = x * 1
        v = y[1:]
        v = v * 3
        return (y * CLOSED[0]).sum()

    for _ in range(4):
        assert float(f(np.asarray(X))) == 14.0
    assert len(runs) == 1


def test_a_tensor_that_is_met_within_an_inner_transformation_counts_for_the_outer_one():
    def f(x):
        y = ft.vmap(lambda z: z * CLOSED[0][0])(x)
        v = y
        v *= 3
        return y.sum()

    with pytest.raises(ImmutableArrayError):
        ft.grad(f)(np.asarray(X))


def test_an_operand_may_be_the_same():
    def f(x):
        y = x * 2
        y += y
        return y.sum()

    assert float(ft.jit(f)(ft.Tensor(X))) == 24.0


@pytest.mark.parametrize("call", [operator.iadd, lambda y, z: y.__iadd__(z)])
def test_methods_of_operators_write(call):
    def f(x):
        y = x * 2
        call(y, 1)
        return y.sum()

    assert float(ft.jit(f)(ft.Tensor(X))) == 15.0


@pytest.mark.parametrize("symbol", ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^="])
def test_every_operator_writes(symbol):
    space = {}
    exec(f"def f(x):\n    y = x * 2\n    v = y[1:]\n    v {symbol} 2\n    return y.sum()", space)
    f = space["f"]
    whole = numpy.array([1, 2, 3])
    x = ft.Tensor(whole if symbol in ("&=", "|=", "^=") else X)
    assert ft.jit(f)(x).item() == f(x).item()


@pytest.mark.parametrize(
    "view",
    [lambda y: y.ravel(), lambda y: y.flatten(), lambda y: y.squeeze(), lambda y: y.transpose(),
     lambda y: y.swapaxes(0, 0), lambda y: y.T, lambda y: y.flat, lambda y: y.unsqueeze(0),
     lambda y: y.view(3, 1), lambda y: y.expand(3), lambda y: y.detach(), lambda y: y.diagonal()
     if y.ndim > 1 else y],
)  # fmt: skip
def test_every_method_that_views_is_written_through(view):
    def f(x):
        y = x * 2
        v = view(y)
        v *= 3
        return y.sum()

    assert float(ft.jit(f)(ft.Tensor(X))) == float(f(ft.Tensor(X)))
    assert float(ft.vmap(f)(rows())[0]) == float(f(ft.Tensor(X)))


def test_another_shape_of_a_transpose_is_a_copy():
    def f(x):
        y = x * 2
        y.t().reshape(-1).zero_()
        y.reshape(-1)[:2].zero_()
        return y.sum()

    x = ft.Tensor(numpy.arange(6.0).reshape(2, 3))
    assert float(f(x)) == float(ft.jit(f)(x)) == 28.0


def in_place_methods(x):
    y = x.clone()
    y[0].zero_()
    y[1:].clamp_(max=2.0).add_(x[1:], alpha=2)
    y.masked_fill_(y > 6, -1.0)
    out = ft.Tensor(numpy.zeros((2, 3)))
    out[0] = y
    out[1, ::2] = x[:2]
    return (out * out).sum()


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_methods_that_write_and_tensors_made_inside(transformation):
    wanted = float(in_place_methods(ft.Tensor(X)))
    found = TRANSFORMATIONS[transformation](in_place_methods)
    assert float(found) == pytest.approx(wanted, rel=1e-6)


def test_gradients_go_through_writes():
    x = ft.Tensor(X, requires_grad=True)
    in_place_methods(x).backward()
    for f in (ft.grad(in_place_methods), ft.jit(ft.grad(in_place_methods))):
        numpy.testing.assert_allclose(f(x.detach()), x.grad)
