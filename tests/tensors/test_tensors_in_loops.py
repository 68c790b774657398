"""Bodies of loops and branches of choices compute with tensors, staged or not."""

import numpy
import pytest

import functensor as ft
from functensor.errors import ImmutableArrayError

X = numpy.array([1.0, 2.0, 3.0])
W = ft.Tensor(numpy.array([3.0, 1.0, 2.0]))


def doubled(x):
    return x.clone().mul_(2)


def step(carry, row):
    new = carry.clone()
    new[0] = row
    return new.add_(carry), new.sum()


def of_outer_tensors(x):
    y = doubled(x)
    return ft.fori_loop(0, 2, lambda i, c: (c * W).clone().add_(y[i]), x)


FUNCTIONS = {
    "scan": lambda x: ft.scan(step, x, x),
    "scan of steps": lambda x: ft.scan(lambda c, _: (doubled(c), c.sum()), x, None, length=2),
    "fori_loop": lambda x: ft.fori_loop(0, 3, lambda i, c: doubled(c) * i, x),
    "while_loop": lambda x: ft.while_loop(lambda c: c.clone().sum() < 99, doubled, x),
    "cond": lambda x: ft.cond(x[0] > 0, doubled, lambda x: x, x),
    "cond, the other": lambda x: ft.cond(x[0] < 0, lambda x: x, doubled, x),
    "switch": lambda x: ft.switch(x[0].astype(int), [lambda x: x, doubled], x),
    "map": lambda x: ft.control.map(doubled, x),
    "nested": lambda x: ft.fori_loop(
        0, 2, lambda i, c: ft.cond(c[0] > 1, doubled, lambda c: c.clone().add_(W), c), x
    ),
    "outer tensors": of_outer_tensors,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jitted_bodies_are_given_tensors_as_eager_ones(name):
    f, x = FUNCTIONS[name], ft.Tensor(X)
    wanted, found = ft.tree.leaves(f(x)), ft.tree.leaves(ft.jit(f)(x))
    for got, right in zip(found, wanted, strict=True):
        assert type(got) is type(right) is ft.Tensor
        numpy.testing.assert_allclose(got, right)


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"while_loop"}))
def test_derivatives_of_jitted_bodies(name):
    def loss(x):
        return sum(out.sum() for out in ft.tree.leaves(FUNCTIONS[name](x)))

    x = ft.Tensor(X)
    numpy.testing.assert_allclose(ft.jit(ft.grad(loss))(x), ft.grad(loss)(x))


def test_a_write_to_the_argument_of_a_staged_body_asks_for_a_copy():
    f = ft.jit(lambda x: ft.fori_loop(0, 2, lambda i, c: c.mul_(2), x.clone()))
    with pytest.raises(ImmutableArrayError, match=r"x = x\.clone\(\)"):
        f(ft.Tensor(X))
