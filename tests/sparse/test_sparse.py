"""Sparse derivatives are the dense ones, their patterns are no larger than they have to be."""

from functools import partial

import numpy as onp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counted import lines_run, peak_of

import functensor as ft
import functensor.numpy as np
from functensor import nn, sparse, tree
from functensor.primitives.core.errors import ShapeError

X = onp.random.default_rng(0).normal(size=6)
PLACES = np.array([1, 3, 5])


def square(x):
    return np.reshape(x, (2, 3))


def doubled(x):
    return x * 2


custom = ft.custom_vjp(doubled)
custom.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))

# Functions of six numbers, and how many places of their patterns hold a zero nevertheless.
FUNCTIONS = {
    "differences": (np.diff, 0),
    "matrix and constant": (lambda x: square(x) @ np.ones((3, 2)), 0),
    "two matrices": (lambda x: np.matmul(square(x), np.reshape(x, (3, 2))), 0),
    "matrix and vector": (lambda x: square(x) @ x[:3], 0),
    "vector and matrix": (lambda x: x[:2] @ square(x), 0),
    "two vectors": (lambda x: x[:3] @ x[3:], 0),
    "stacks": (lambda x: np.matmul(np.reshape(x, (3, 1, 2)), np.reshape(x, (3, 2, 1))), 0),
    "stacks that broadcast": (lambda x: np.matmul(np.reshape(x, (3, 1, 2)), np.ones((2, 4))), 0),
    "softmax": (lambda x: nn.softmax(square(x), axis=1), 0),
    "logarithm of it": (lambda x: nn.log_softmax(np.reshape(x, (3, 2))), 0),
    "sums": (lambda x: np.sum(square(x) ** 2, axis=0), 0),
    "products": (lambda x: np.prod(square(x), axis=1), 0),
    "variances": (lambda x: np.var(np.reshape(x, (3, 2)), axis=1), 0),
    "set": (lambda x: np.zeros(8).at[PLACES].set(x[:3] * x[3:]), 0),
    "add and set": (lambda x: x.at[2:4].add(x[0]).at[0].set(3.0), 0),
    "multiply": (lambda x: x.at[PLACES].multiply(x[0]), 0),
    "taken": (lambda x: x[np.array([[0, 1], [5, 5]])] ** 2, 0),
    "padded": (lambda x: np.pad(x, 2) + np.pad(x, (1, 3)), 0),
    "einsum": (lambda x: np.einsum("ij,kj->ik", square(x), square(x)), 0),
    "diagonal": (lambda x: np.einsum("ii->i", np.reshape(x[:4], (2, 2))), 0),
    "trace": (lambda x: np.einsum("ii,ij->j", np.reshape(x[:4], (2, 2)), square(x)), 0),
    "stacked": (lambda x: np.stack([x, np.roll(x, 1)], 1)[::2], 0),
    "concatenated": (lambda x: np.concatenate([x[::-1], x[:2], np.ones(2)]), 0),
    "tree": (lambda x: {"a": x[0] * x[1], "b": (np.tril(square(x)), np.triu(square(x)))}, 0),
    "custom rule": (lambda x: custom(x[1:]), 0),
    "a batch": (lambda x: ft.vmap(lambda y: np.sum(y) * y)(np.reshape(x, (3, 2))), 0),
    "rounded": (lambda x: np.floor(x) * 3, 0),
    "constant": (lambda x: np.ones(4), 0),
    "either branch": (lambda x: np.where(x > 0, x, x[::-1]), 6),
    "sorted": (np.sort, 30),
    "running sums": (np.cumsum, 15),
    "convolution": (lambda x: nn.conv(x[None, None], np.ones((1, 1, 3)), padding=1), 20),
}


def flat(fun):
    return lambda x: tree.ravel(fun(x))[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian_and_its_pattern(name):
    fun, extra = FUNCTIONS[name]
    dense = onp.asarray(ft.jacrev(flat(fun))(X))
    pattern = sparse.jacobian_pattern(fun)(X)
    assert onp.sum(pattern.todense() & (dense == 0)) == extra
    for mode in ("auto", "fwd", "rev"):
        found = sparse.jacobian(fun, mode=mode)(X)
        assert found.pattern == pattern
        onp.testing.assert_allclose(found.todense(), dense, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessian(name):
    fun, _ = FUNCTIONS[name]

    def energy(x):
        return np.sum(np.sin(flat(fun)(x)))

    found = sparse.hessian(energy)(X)
    onp.testing.assert_allclose(found.todense(), ft.hessian(energy)(X), rtol=1e-11, atol=1e-13)


def springs(x):
    stretched = x[1:] - x[:-1]
    return np.sum(stretched**2 / 2 + stretched**4 / 10)


def test_a_chain_of_springs_costs_what_it_is_long():
    lines, bytes_used = {}, {}
    for length in (5_000, 20_000):
        x = onp.sin(onp.arange(length))
        hessian = sparse.hessian(springs)
        found = hessian(x)
        lines[length] = lines_run(partial(hessian, x))
        bytes_used[length] = peak_of(partial(hessian, x))
        assert len(found.pattern) == 3 * length - 2
        v = onp.cos(onp.arange(length))
        product = ft.hvp(springs, (x,), (v,))
        onp.testing.assert_allclose(found @ v, product, rtol=1e-10, atol=1e-10)
    # A dense matrix would take sixteen times the memory for four times the length.
    assert lines[20_000] < 4.5 * lines[5_000]
    assert bytes_used[20_000] < 4.5 * bytes_used[5_000]


def test_few_directions_are_enough(monkeypatch):
    directions = []
    vmap = sparse.derivatives.vmap
    monkeypatch.setattr(
        sparse.derivatives,
        "vmap",
        lambda fun: lambda seeds: directions.append(len(seeds)) or vmap(fun)(seeds),
    )
    sparse.hessian(springs)(onp.ones(100))
    sparse.jacobian(lambda x: x * np.sum(x))(onp.ones(5))
    sparse.jacobian(lambda x: np.stack([np.sum(x), np.prod(x)]))(onp.ones(5))
    assert directions == [3, 5, 2]


@given(st.integers(2, 6), st.integers(2, 6), st.data())
def test_colours_of_columns_that_meet_differ(height, width, data):
    places = data.draw(st.sets(st.tuples(st.integers(0, height - 1), st.integers(0, width - 1))))
    pattern = sparse.Pattern([r for r, _ in places], [c for _, c in places], (height, width))
    colours = sparse.colouring.coloured(pattern.rows, pattern.cols, width)
    dense = pattern.todense()
    assert set(zip(pattern.rows.tolist(), pattern.cols.tolist())) == places
    for row in dense:
        assert len(set(colours[row])) == row.sum()
    assert set(colours) == set(range(colours.max() + 1))


def test_arguments_and_results_may_be_trees():
    params = {"w": X[:4].reshape(2, 2), "b": X[4:]}

    def model(scale, params, shift=0.0):
        return {"out": params["w"] @ params["b"] * scale + shift}

    found = sparse.jacobian(model, 1)(2.0, params, shift=1.0)
    vector, unravel = tree.ravel(params)
    dense = ft.jacfwd(lambda v: model(2.0, unravel(v))["out"])(vector)
    onp.testing.assert_allclose(found.todense(), dense)


def test_values_can_be_differentiated_and_batched():
    def curvature(x):
        return np.sum(sparse.hessian(springs)(x).values ** 2)

    dense = ft.grad(lambda x: np.sum(ft.hessian(springs)(x) ** 2))(X)
    onp.testing.assert_allclose(ft.grad(curvature)(X), dense, rtol=1e-12)
    rows = onp.stack([X, X[::-1]])
    batch = ft.vmap(sparse.hessian(springs))(rows)
    for i, row in enumerate(rows):
        onp.testing.assert_allclose(batch.values[i], sparse.hessian(springs)(row).values)
    program = ft.make_program(lambda x: sparse.hessian(springs)(x).values)(X)
    onp.testing.assert_allclose(program(X), sparse.hessian(springs)(X).values)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_dtypes(dtype):
    x = X.astype(dtype)
    found = sparse.jacobian(lambda x: x[1:] * x[:-1])(x)
    assert found.values.dtype == dtype
    onp.testing.assert_allclose(found.todense()[0, :2], [x[1], x[0]])


def test_no_elements():
    found = sparse.jacobian(lambda x: x * 2)(onp.zeros(0))
    assert found.todense().shape == (0, 0)
    found = sparse.jacobian(lambda x: np.zeros((0,)) * x[0])(onp.zeros(3))
    assert found.todense().shape == (0, 3)


def test_triplets():
    found = sparse.jacobian(lambda x: x[1:] * x[:-1])(X)
    matrix = onp.ones((6, 2)) * [1, 2]
    onp.testing.assert_allclose(found @ matrix, onp.asarray(found.todense()) @ matrix)
    onp.testing.assert_allclose(found.toscipy().toarray(), found.todense())
    assert repr(found) == "Triplets(10 values, shape=(5, 6))"
    assert hash(found.pattern) == hash(sparse.Pattern(found.rows, found.cols, (5, 6)))
    doubled = tree.map(lambda v: v * 2, found)
    onp.testing.assert_allclose(doubled.todense(), 2 * found.todense())
    with pytest.raises(ShapeError, match=r"\(5, 6\) times an array of shape \(5,\)"):
        found @ onp.ones(5)


def test_mistakes():
    with pytest.raises(ValueError, match="mode='both' is none of auto, fwd, rev"):
        sparse.jacobian(np.sin, mode="both")
    with pytest.raises(ValueError, match=r"argnums=\(0, 1\): give the position of one of the 1"):
        sparse.jacobian(np.sin, (0, 1))(X)
    with pytest.raises(TypeError, match="argument 0 is of dtype int64; pass real"):
        sparse.jacobian(lambda x: x * 2.0)(onp.arange(3))
    with pytest.raises(ShapeError, match="has 3 columns, but the argument has 6 elements"):
        sparse.jacobian(np.sin, pattern=sparse.Pattern([0], [1], (3, 3)))(X)
    with pytest.raises(ValueError, match=r"outside of the shape \(2, 2\)"):
        sparse.Pattern([2], [0], (2, 2))
    with pytest.raises(ShapeError, match=r"rows of shape \(2,\) and columns of shape \(1,\)"):
        sparse.Pattern([0, 1], [0], (2, 2))
