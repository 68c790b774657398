"""Loops and branches against Python's own, under every order of transformations and staging."""

import itertools

import numpy
import pytest
from support.long_forms import LONG

import functensor as ft
import functensor.numpy as np
from functensor.testing import check_grads

X = numpy.array([0.3, -1.2, 2.0, 0.7])
W = numpy.arange(4.0) / 3 + 0.2


def scan(w, x):
    def body(h, xi):
        h = np.tanh(h * w + xi)
        return h, np.sum(h * x)

    h, ys = ft.scan(body, w * 0.1, x)
    return np.sum(h * ys)


def scan_plainly(w, x):
    h, ys = w * 0.1, []
    for i in range(4):
        h = np.tanh(h * w + x[i])
        ys.append(np.sum(h * x))
    return np.sum(h * np.stack(ys))


def backwards(w, x):
    def body(carry, s):
        carry = np.sin(carry * s["x"]) + s["w"]
        return carry, carry * 2

    carry, ys = ft.scan(body, 1.0, {"w": w, "x": x}, reverse=True)
    return carry + np.sum(ys**2 * numpy.arange(4.0))


def backwards_plainly(w, x):
    carry, ys = 1.0, [None] * 4
    for i in reversed(range(4)):
        carry = np.sin(carry * x[i]) + w[i]
        ys[i] = carry * 2
    return carry + np.sum(np.stack(ys) ** 2 * numpy.arange(4.0))


def fori(w, x):
    def body(i, s):
        return np.sin(s[0]) * s[1] + i, np.cos(s[0] * i)

    a, b = ft.fori_loop(1, 5, body, (x, w))
    return np.sum(a * b)


def fori_plainly(w, x):
    a, b = x, w
    for i in range(1, 5):
        a, b = np.sin(a) * b + i, np.cos(a * i)
    return np.sum(a * b)


def nested(w, x):
    def outer(carry, _):
        inner, _ = ft.scan(lambda d, xj: (np.tanh(d + w * xj), None), carry, x)
        return inner * x, None

    return np.sum(ft.scan(outer, np.zeros(4), None, length=3)[0])


def nested_plainly(w, x):
    carry = np.zeros(4)
    for _ in range(3):
        inner = carry
        for j in range(4):
            inner = np.tanh(inner + w * x[j])
        carry = inner * x
    return np.sum(carry)


def cond(w, x):
    s = ft.cond(x[0] > 0, lambda x: np.sum(np.sin(x * w) * w), lambda x: np.sum(x**2), x)
    return s * ft.cond(np.sum(x) > w[0] * 100, lambda: s, lambda: np.cos(w[1]) * 2)


def cond_plainly(w, x):
    s = np.sum(np.where(x[0] > 0, np.sin(x * w) * w, x**2))
    return s * np.where(np.sum(x) > w[0] * 100, s, np.cos(w[1]) * 2)


def switch(w, x):
    index = np.astype(x[2] > 0, int) + np.astype(x[2] > 1, int)
    branches = [lambda x, w: np.sin(x) * w, lambda x, w: w * x * x, lambda x, w: np.exp(w) * x]
    return np.sum(ft.switch(index, branches, x, w))


def switch_plainly(w, x):
    return np.sum(
        np.where(x[2] > 1, np.exp(w) * x, np.where(x[2] > 0, w * x * x, np.sin(x) * w))
    )


def while_(w, x):
    def body(s):
        a, b, n = s
        return a * 1.3 + b * 0.1, np.sin(b) * a, n + 1

    a, b, _ = ft.while_loop(lambda s: np.sum(s[0] ** 2) < 6, body, (x, w, 0), max_steps=6)
    return np.sum(a * b)


def while_plainly(w, x):
    a, b = x, w
    for _ in range(6):
        on = np.sum(a**2) < 6
        a, b = np.where(on, a * 1.3 + b * 0.1, a), np.where(on, np.sin(b) * a, b)
    return np.sum(a * b)


def while_with_closure(w, x):
    def go_on(s):
        return np.logical_and(s[1] < 6, np.sum(s[0] * w) < 2)

    a, _ = ft.while_loop(
        go_on, lambda s: (np.tanh(s[0] * w + x) + s[0] / 2, s[1] + 1), (x * 0.1, 0), max_steps=10
    )
    return np.sum(a**2)


def while_with_closure_plainly(w, x):
    a = x * 0.1
    for _ in range(6):
        a = np.where(np.sum(a * w) < 2, np.tanh(a * w + x) + a / 2, a)
    return np.sum(a**2)


def cond_in_scan(w, x):
    def body(c, xi):
        return ft.cond(xi > 0, lambda c: np.sin(c) * xi, lambda c: c * w, c), None

    return np.sum(ft.scan(body, w, x)[0])


def cond_in_scan_plainly(w, x):
    c = w
    for i in range(4):
        c = np.where(x[i] > 0, np.sin(c) * x[i], c * w)
    return np.sum(c)


def map_(w, x):
    return np.sum(ft.control.map(lambda s: np.exp(s[0]) * s[1] + np.sum(w), (x, w)) ** 2)


def map_in_batches(w, x):
    rows = ft.control.map(lambda s: np.exp(s[0]) * s[1] + np.sum(w), (x, w), batch_size=3)
    return np.sum(rows**2)


def map_plainly(w, x):
    return np.sum(np.stack([np.exp(x[i]) * w[i] + np.sum(w) for i in range(4)]) ** 2)


def associative(w, x):
    a, b = ft.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (w, x))
    return b[0] + np.sum(b * numpy.arange(4.0)) + a[-1]


def associative_plainly(w, x):
    a, b = w[0], x[0]
    total = b
    for i in range(1, 4):
        a, b = a * w[i], b * w[i] + x[i]
        total = total + b * i
    return total + a


CASES = {
    "scan": (scan, scan_plainly),
    "scan backwards": (backwards, backwards_plainly),
    "fori_loop": (fori, fori_plainly),
    "scan in scan": (nested, nested_plainly),
    "cond": (cond, cond_plainly),
    "switch": (switch, switch_plainly),
    "while_loop": (while_, while_plainly),
    "while_loop with closures": (while_with_closure, while_with_closure_plainly),
    "cond in scan": (cond_in_scan, cond_in_scan_plainly),
    "map": (map_, map_plainly),
    "map in batches": (map_in_batches, map_plainly),
    "associative_scan": (associative, associative_plainly),
}

WEIGHTS = numpy.array([1.0, 2.0, 3.0])


def staged(f):
    return lambda *args: ft.make_program(f)(*args)(*args)


def mapped_over_x(f):
    return lambda w, x: np.sum(
        ft.vmap(f, (None, 0))(w, np.stack([x, -x, x * 0.5])) * WEIGHTS
    )


def mapped_over_w(f):
    return lambda w, x: np.sum(
        ft.vmap(f, (0, None))(np.stack([w, -w, w * 0.5]), x) * WEIGHTS
    )


def pushed(f):
    return lambda w, x: ft.jvp(f, (w, x), (w * 0.3 + 1, x + 0.2))[1]


def pulled(f):
    def norm(w, x):
        by_w, by_x = ft.grad(f, (0, 1))(w, x)
        return np.sum(by_w * w) + np.sum(by_x**2)

    return norm


STEPS = {
    "vmap x": mapped_over_x,
    "vmap w": mapped_over_w,
    "jvp": pushed,
    "grad": pulled,
    "staged": staged,
    "jit": ft.jit,
}
ORDERS = [
    order
    for count in range(4)
    for order in itertools.product(STEPS, repeat=count)
    # Three transformations and the program in each place among them; jit only inside and outside.
    if all({a, b} - {"staged", "jit"} for a, b in itertools.pairwise(order))
    and (count < 3 or ("staged" in order and "jit" not in order and len(set(order)) == 3))
]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_every_order_gives_what_a_loop_in_python_gives(case):
    f, plain = CASES[case]
    wrong = []
    # In the short form one in three orders for each loop, others for the next one.
    for order in ORDERS if LONG else ORDERS[[*CASES].index(case) % 3 :: 3]:
        got, wanted = f, plain
        for step in order:
            got = STEPS[step](got)
            if step not in ("staged", "jit"):
                wanted = STEPS[step](wanted)
        a, b = numpy.asarray(got(W, X)), numpy.asarray(wanted(W, X))
        if a.shape != b.shape or not numpy.allclose(a, b, rtol=1e-10, atol=1e-12):
            wrong.append((order, a, b))
    assert not wrong


@pytest.mark.parametrize("form", ["plain", "staged"])
@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_differences(case, form):
    f, _ = CASES[case]
    check_grads(f if form == "plain" else ft.make_program(f)(W, X), (W, X), order=2)


@pytest.mark.parametrize("case", CASES)
def test_hessians(case):
    f, plain = CASES[case]
    wanted = ft.hessian(plain, (0, 1))(W, X)
    hessians = {
        "hessian": ft.hessian(f, (0, 1)),
        "jit of hessian": ft.jit(ft.hessian(f, (0, 1))),
        "hessian of jit": ft.hessian(ft.jit(f), (0, 1)),
        "hessian of a program": ft.hessian(ft.make_program(f)(W, X), (0, 1)),
        "reverse over reverse": ft.jit(ft.hessian(f, (0, 1), mode="rev-rev")),
    }
    for name, hessian in hessians.items():
        for got, rows in zip(ft.tree.leaves(hessian(W, X)), ft.tree.leaves(wanted), strict=True):
            numpy.testing.assert_allclose(got, rows, rtol=1e-9, atol=1e-11, err_msg=name)


# -- Python scalars as arguments decide no dtype


WEAK = {
    "scan": lambda s, x: np.sum(ft.scan(lambda c, xi: (c * s + xi * s, c), s, x)[1]),
    "scan of products": lambda s, x: (
        np.sum(ft.scan(lambda c, xi: (c * s * 2.0 + xi, (s * 2) * xi), 0.0, x)[1])
    ),
    "fori_loop": lambda s, x: np.sum(ft.fori_loop(0, 3, lambda i, c: c * s * i + x, x)),
    "cond": lambda s, x: (
        np.sum(ft.cond(x[0] > s, lambda: x * s, lambda: x * (s * 2.0) ** 2))
    ),
    "cond of scalars": lambda s, x: np.sum(x * ft.cond(x[0] > s, lambda: s, lambda: s * 3.0)),
    "while_loop": lambda s, x: (
        np.sum(
            ft.while_loop(
                lambda t: t[1] < 3,
                lambda t: (t[0] * (s * t[1]) * t[1] ** 2 + x, t[1] + 1.0),
                (x, 0.0),
                max_steps=4,
            )[0]
        )
    ),
}
PAIR = numpy.array([1, 2], numpy.float32)[:, None]
TRANSFORMED = {
    "value": lambda f: f,
    "grad by the scalar": lambda f: ft.grad(f),
    "grad": lambda f: ft.grad(f, 1),
    "jvp": lambda f: lambda s, x: ft.jvp(f, (s, x), (1.0, x)),
    "vmap": lambda f: lambda s, x: ft.vmap(f, (None, 0))(s, PAIR * x),
    "vmap of grad": lambda f: lambda s, x: ft.vmap(ft.grad(f, 1), (None, 0))(s, PAIR * x),
    "grad of vmap": lambda f: ft.grad(lambda s, x: np.sum(ft.vmap(f, (None, 0))(s, PAIR * x)), 1),
    "hessian": lambda f: ft.hessian(f, 1),
}


@pytest.mark.parametrize("transformed", TRANSFORMED)
@pytest.mark.parametrize("case", WEAK)
def test_dtypes_in_programs_are_those_of_plain_loops(case, transformed):
    f, over = WEAK[case], TRANSFORMED[transformed]
    x = numpy.array([0.5, 1.5, 0.25], numpy.float32)
    wanted = ft.tree.leaves(over(f)(0.7, x))
    for jitted in (ft.jit(over(f)), over(ft.jit(f))):
        for a, b in zip(ft.tree.leaves(jitted(0.7, x)), wanted, strict=True):
            assert a.dtype == b.dtype
            numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


M = numpy.array([[2.0, 1.0], [0.5, 3.0]])
REFUSING = {
    "solve": lambda x: np.linalg.solve(M + np.outer(x, x), x),
    "cholesky": lambda x: np.linalg.cholesky(M @ M.T + np.outer(x, x)) @ x,
    "qr": lambda x: np.linalg.qr(M * x)[1] @ x,
}


@pytest.mark.parametrize("second", ["other", "same"])
@pytest.mark.parametrize("first", REFUSING)
def test_batches_of_branches_that_refuse_what_others_computed(first, second):
    one = REFUSING[first]
    # The other branch has a matrix of the same type on its way back, which is singular.
    two = {"other": np.sin, "same": lambda x: np.sum(np.exp(np.outer(x, x * 0)), 1) * x}[second]

    def f(chosen, x):
        return np.sum(ft.cond(chosen, one, two, x) ** 2)

    chosen, x = numpy.array([True, False, True]), numpy.array([[0.3, 1.2], [0.7, 0.4], [2.0, 0.1]])
    batched = ft.vmap(ft.grad(f, 1))
    curved = ft.vmap(ft.hessian(f, 1))
    for over in (batched, curved, ft.grad(lambda c, x: np.sum(batched(c, x) ** 2), 1)):
        numpy.testing.assert_allclose(ft.jit(over)(chosen, x), over(chosen, x), rtol=1e-9)
    for of_one, row in zip((bool(c) for c in chosen), range(3), strict=True):
        numpy.testing.assert_allclose(
            ft.jit(batched)(chosen, x)[row], ft.grad(f, 1)(of_one, x[row]), rtol=1e-9
        )


@pytest.mark.parametrize("far", [0.0, 1.0])
def test_branches_within_branches_of_a_batch_choose_for_all_examples(far):
    def f(chosen, far, x):
        def inner(x):
            # The choice is computed on the way forward, and is no example's own.
            return ft.cond(np.sin(far) > 0.5, REFUSING["solve"], np.sin, x)

        return np.sum(ft.cond(chosen, inner, lambda x: 2 * x, x) ** 2)

    chosen, x = numpy.array([True, False, True]), numpy.array([[0.3, 1.2], [0.7, 0.4], [2.0, 0.1]])
    for over in (ft.vmap(ft.grad(f, 2), (0, None, 0)), ft.vmap(ft.hessian(f, 2), (0, None, 0))):
        got, wanted = ft.jit(over)(chosen, far, x), over(chosen, far, x)
        numpy.testing.assert_allclose(got, wanted, rtol=1e-9)
