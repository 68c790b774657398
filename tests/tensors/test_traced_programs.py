"""Random programs of views and second names do as eagerly under transformations."""

import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from tensors.test_traced_tensors import TRANSFORMATIONS, X

import functensor as ft
import functensor.numpy as np
from functensor.tensors import views

NAMES = "abc"
STATEMENTS = [
    "{0} = {1}", "{0} = {1}[1:]", "{0} = {1}[:1]", "{0} = {1}.reshape(-1)", "{0} = {1}.T",
    "{0} = {1} * 2", "{0} = {1}.copy()", "{0} *= 3", "{0} += 1", "{0} += {1}[:1]", "{0} -= x[:1]",
    "{0}[0] = {1}[-1]", "{0}[1:].mul_({1}.sum())", "{0} = {1}.detach()",
    "{0} = np.sin({1})", "{0} = {1}[[0]]", "{0}, *_ = {1}.reshape(1, -1)",
]  # fmt: skip


@settings(max_examples=sized(40, 400))
@given(st.data())
def test_random_programs_do_as_eagerly(data):
    lines = [
        data.draw(st.sampled_from(STATEMENTS)).format(*data.draw(st.permutations(NAMES))[:2])
        for _ in range(data.draw(st.integers(1, 7)))
    ]
    source = ["def f(x):", "a, b, c = x * 2, x + 1, x * x", *lines]
    source.append("return a.sum() + 2 * b.sum() - c.sum()")
    space = {"np": np}
    exec("\n    ".join(source), space)
    f = space["f"]
    try:
        wanted = float(f(ft.Tensor(X)))
    except (IndexError, ValueError):
        # A missing part cannot be unpacked; empty slices do not broadcast.
        return
    for name in ("jit", "value_and_grad", "jvp", "vmap"):
        found = float(TRANSFORMATIONS[name](f))
        assert math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-4), (name, source)


def of_rows(x):
    """Writes to all rows one after the other, and holds the views of all."""
    y = x.clone()
    rows = [y[i] for i in range(len(x))]
    for row in rows:
        row.add_(rows[0])
    return y


@pytest.mark.parametrize("transformed", [ft.jit, ft.vmap, lambda f: ft.jit(ft.jacrev(f))])
def test_views_that_are_not_read_make_no_write_slower(monkeypatch, transformed):
    taken, take = [], views._take_anew

    def noted(*args):
        taken.append(args)
        take(*args)

    x = ft.Tensor(numpy.arange(60.0).reshape(30, 2))
    given = x[None] if transformed is ft.vmap else x
    wanted = transformed(lambda x: np.concatenate([2 * x[:1], x[1:] + 2 * x[:1]]))(given)
    monkeypatch.setattr(views, "_take_anew", noted)
    numpy.testing.assert_allclose(transformed(of_rows)(given), wanted)
    # Row 0 is read for each write, and each row once.
    assert len(taken) < 100


def test_views_that_are_behind_are_read_by_inner_functions():
    def f(x):
        y = x.clone()
        first, rest = y[0], y[1:]
        y.mul_(2.0)
        inner = ft.grad(lambda v: (v * first * v).sum())(x[0])
        y.add_(1.0)
        return inner + ft.cond(x[0, 0] > 0, lambda: rest.sum(), lambda: first.sum()), rest

    x = ft.Tensor(numpy.array([[1.0, 2.0], [3.0, 4.0]]))
    for transformed in (f, ft.jit(f), lambda x: [out[0] for out in ft.vmap(f)(x[None])]):
        inner, rest = transformed(x)
        numpy.testing.assert_allclose(inner, [20.0, 32.0])
        numpy.testing.assert_allclose(rest, [[7.0, 9.0]])
