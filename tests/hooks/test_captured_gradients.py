"""Gradients by values on the way: their names and axes are those of the values."""

from functools import partial

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.control import BodyTypeError
from functensor.errors import EscapedTracerError
from functensor.hooks import capture, capture_grads

X = np.array([0.3, -0.7, 1.1])
W = np.array(numpy.random.RandomState(0).randn(2, 3))


def tagged(x):
    return ft.tag(np.sin(x), "h")


def scanned(x):
    return ft.scan(lambda c, row: (tagged(c) + row, None), x, W)[0]


@ft.custom_vjp
def pair(x):
    return np.sin(x), 2 * x


pair.defvjp(lambda x: ((np.sin(x), 2 * x), x), lambda x, g: (g[0] * np.cos(x) + 2 * g[1],))


# A function, the tag or name, and whether a program has its gradients.
FUNCTIONS = {
    "two": (lambda x: tagged(x) * tagged(x * 2), "h", True),
    "scan": (scanned, "h", True),
    "scan, then a value": (lambda x: tagged(scanned(x)), "h", True),
    "value, then a scan": (lambda x: scanned(tagged(x)), "h", True),
    "scan of a scan": (lambda x: ft.fori_loop(0, 4, lambda i, c: scanned(c), x), "h", True),
    "unrolled scan": (
        lambda x: ft.scan(lambda c, row: (tagged(c) + row, None), x, W, unroll=True)[0], "h", True
    ),
    "backwards": (
        lambda x: ft.scan(lambda c, row: (tagged(c) * row, None), x, W, reverse=True)[0],
        "h",
        True,
    ),
    "map": (lambda x: ft.control.map(lambda row: tagged(x * row), W), "h", True),
    "while_loop": (
        lambda x: ft.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, tagged(c[1])), (0, x), max_steps=5
        )[1],
        "h",
        False,
    ),
    "checkpoint": (ft.checkpoint(lambda x: tagged(tagged(x) * 3)), "h", True),
    "checkpoints": (lambda x: ft.checkpoint(tagged)(ft.checkpoint(tagged)(x)), "h", True),
    "checkpoint of a scan": (ft.checkpoint(scanned), "h", True),
    "scan of checkpoints": (
        lambda x: ft.scan(lambda c, row: (ft.checkpoint(tagged)(c) + row, None), x, W)[0],
        "h",
        True,
    ),
    "vmap": (lambda x: ft.vmap(lambda row: tagged(row * x))(W), "h", True),
    "vmap of a scan": (
        lambda x: ft.vmap(lambda r: ft.fori_loop(0, 4, lambda i, c: tagged(c) * r, r))(W * x),
        "h",
        True,
    ),
    "batches and loops": (
        lambda x: ft.fori_loop(
            0,
            2,
            lambda i, c: np.sum(
                ft.vmap(lambda r: ft.scan(lambda c, y: (tagged(c) * y, None), r, x)[0])(W * c), 0
            ),
            x,
        ),
        "h",
        True,
    ),
    "one step": (
        lambda x: ft.vmap(lambda r: ft.fori_loop(0, 1, lambda i, c: tagged(c) * r, r))(W * x),
        "h",
        True,
    ),
    "shared by a batch": (lambda x: ft.vmap(lambda r: tagged(x) * r)(W), "h", True),
    "of each of a batch": (lambda x: ft.vmap(lambda r: tagged(x + r))(W), "h", True),
    "branch": (lambda x: ft.cond(True, tagged, np.cos, x), "h", True),
    "several outputs": (lambda x: np.multiply(*pair(x)), "pair", True),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_have_the_names_and_shapes_of_values(name):
    f, match, staged = FUNCTIONS[name]

    def total(x):
        return np.sum(f(x))

    _, values = capture(f, match)(X)
    out, gradients = capture_grads(total, match)(X)
    assert list(gradients) == list(values)
    assert [g.shape for g in gradients.values()] == [v.shape for v in values.values()]
    numpy.testing.assert_allclose(out, total(X))
    if staged:
        again = ft.jit(capture_grads(total, match))(X)[1]
        assert list(again) == list(gradients)
        for key, g in again.items():
            numpy.testing.assert_allclose(g, gradients[key])
    else:
        with pytest.raises(EscapedTracerError, match="cannot be captured"):
            ft.jit(capture_grads(total, match))(X)


def test_stacked_gradients_are_those_of_the_steps():
    _, gradients = capture_grads(lambda x: np.sum(scanned(x)), "h")(X)
    wanted = []
    states = [X, np.sin(X) + W[0]]
    for number in range(2):
        g = np.ones(3)
        for later in states[number + 1 :]:
            g = g * np.cos(later)
        wanted.append(g)
    numpy.testing.assert_allclose(gradients["h"], np.stack(wanted))


def test_steps_that_the_result_does_not_depend_on_have_gradients_of_zero():
    def f(x):
        last = ft.fori_loop(0, 3, lambda i, c: np.sum(tagged(x * i)) * (i == 1) + c * 0, 0.0)
        return last + ft.fori_loop(0, 3, lambda i, c: np.sum(tagged(x)) * (i == 2), 0.0)

    _, gradients = capture_grads(f, "h")(X)
    assert [g.shape for g in gradients.values()] == [(3, 3), (3, 3)]
    numpy.testing.assert_array_equal(gradients["h:1"], [[0] * 3, [0] * 3, [1] * 3])


def test_what_the_result_does_not_depend_on_has_no_gradient_and_keeps_its_number():
    def f(x):
        stopped = ft.fori_loop(0, 3, lambda i, c: tagged(c), ft.stop_gradient(x))
        return np.sum(ft.tag(x * 3, "h") ** 2 + stopped)

    for form in (capture_grads(f, "h"), ft.jit(capture_grads(f, "h"))):
        assert list(form(X)[1]) == ["h:1"]
    assert list(capture(f, "h")(X)[1]) == ["h", "h:1"]


def test_gradients_of_loops_are_batched_and_differentiated():
    def grads(x):
        return capture_grads(lambda x: np.sum(scanned(x) ** 2), "h")(x)[1]["h"]

    batch = ft.vmap(grads)(np.stack([X, 2 * X]))
    numpy.testing.assert_allclose(batch, np.stack([grads(X), grads(2 * X)]))
    ft.testing.check_grads(lambda x: np.sum(grads(x) ** 2), (X,), order=1)


UNLIKE = {
    "some": (
        lambda x: ft.fori_loop(0, 3, lambda i, c: ft.cond(i > 0, tagged, np.cos, c), x),
        r"h, which hooks\.capture takes at .*:\d+, is computed in some steps and not in others",
    ),
    "others": (
        lambda x: ft.scan(lambda c, i: (ft.tag(c, "h" if i > 0 else "k"), None), x, X[:2])[0],
        r"k, which .* is computed in some steps and not in others",
    ),
    "shapes": (
        lambda x: ft.fori_loop(0, 3, lambda i, c: c + np.sum(tagged(x[: int(i) + 1])), x),
        r"h, which .*, has the shape \(1,\) in one step and \(2,\) in another",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_an_error_names_the_value_that_not_all_steps_have(name):
    f, words = UNLIKE[name]
    match = "h|k"
    for form in (capture(f, match), capture_grads(lambda x: np.sum(f(x)), match)):
        with pytest.raises(BodyTypeError, match=words) as caught:
            form(X)
        assert 'fix: compute it in every step and in every branch, or' in str(caught.value)
        assert "python -m functensor.errors 22" in str(caught.value)


def test_the_fix_of_that_error():
    def step(i, c):
        return ft.tag(ft.cond(i > 0, np.sin, np.cos, c), "h")

    def f(x):
        return ft.fori_loop(0, 3, step, x)

    assert capture(f, "h")(X)[1]["h"].shape == (3, 3)


def loop_of_checkpoints(x):
    return ft.scan(lambda c, row: (ft.checkpoint(tagged)(c) * row, None), x, W)[0]


def squares(grads, x):
    return sum(np.sum(g**2) for g in grads(x).values())


NESTED = {
    "scan": scanned,
    "checkpoint": ft.checkpoint(lambda x: tagged(tagged(x) * 3)),
    "checkpoint with a policy": ft.checkpoint(
        lambda x: tagged(x * x), policy=ft.checkpoint_policies.dots_saveable
    ),
    "checkpoint of a scan": ft.checkpoint(scanned),
    "scan of checkpoints": loop_of_checkpoints,
    "vmap of a checkpoint": lambda x: ft.vmap(ft.checkpoint(lambda r: tagged(x * r) ** 2))(W),
    "vmap of a scan": lambda x: ft.vmap(lambda r: scanned(x * r))(W),
    "jit": ft.jit(loop_of_checkpoints),
}


@pytest.mark.parametrize("name", NESTED)
def test_gradients_go_through_every_transformation(name):
    f = NESTED[name]

    def total(x):
        return np.sum(f(x) ** 2)

    def grads(x):
        return capture_grads(total, "h")(x)[1]

    wanted = grads(X)
    assert list(wanted) == list(capture(total, "h")(X)[1])
    for found in (ft.jit(grads)(X), ft.jvp(grads, (X,), (X,))[0], ft.linearize(grads, X)[0]):
        for key, g in wanted.items():
            numpy.testing.assert_allclose(found[key], g)
    batch = ft.jit(ft.vmap(grads))(np.stack([X, 2 * X]))
    for key, g in grads(2 * X).items():
        numpy.testing.assert_allclose(batch[key][1], g)
    for form in (grads, ft.jit(grads)):
        ft.testing.check_grads(partial(squares, form), (X,), order=1)
