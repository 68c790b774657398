"""einsum in all its notations, and the products that are made of matmul and einsum, are NumPy's."""

from itertools import product

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ShapeError
from functensor.primitives.core.registry import registry as ops

RNG = np.random.default_rng(0)
X = RNG.random((2, 3, 4))
Y = RNG.random((4, 3, 5))
Z = RNG.random((5, 2))
SHAPES = [(), (3,), (2, 3), (4, 2, 3)]


def same(got, wanted):
    """Compares shape, dtype and values."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("subscripts", "operands"),
    [
        ("ijk,kjl", (X, Y)),
        ("ijk,kjl->li", (X, Y)),
        ("ijk,kjl,lm->im", (X, Y, Z)),
        ("i...,i...->...", (X, X)),
        ("...k,kjl->...jl", (X, Y)),
        ("a...b,b...c->...ca", (X, Y)),
        ("ijk->kij", (X,)),
        ("BAC,CAD", (X, Y)),
        ("k...,k...", (np.ones((3, 1, 2)), np.ones((3, 4, 1)))),
        ("ij,jk->ik", (np.ones((2, 1)), np.ones((3, 4)))),
        ("...,...", (X, 3.0)),
        (" i j k , k j l -> i l ", (X, Y)),
        ("ijk,jl->", (X, np.ones((3, 7)))),
        ("i,j,k,l->lkji", (X[0, 0], X[0, 1], X[1, 0], X[1, 1])),
        ("ab,b,b,ca->c", (Z, Z[0], Z[1], RNG.random((3, 5)))),
        ("ij,jk->ik", (np.arange(6, dtype=np.int8).reshape(2, 3), np.ones((3, 2), bool))),
    ],
)
def test_einsum_is_numpys(subscripts, operands):
    same(fnp.einsum(subscripts, *operands), np.einsum(subscripts, *operands))


@pytest.mark.parametrize(
    "arguments",
    [
        (X, [0, 1, 2], Y, [2, 1, 3], [3, 0]),
        (X, [9, 1, 2], Y, [2, 1, 3]),
        (X, [..., 2], Y, [2, 1, 3], [..., 3, 1]),
    ],
)
def test_einsum_by_lists_is_numpys(arguments):
    same(fnp.einsum(*arguments), np.einsum(*arguments))


def test_einsum_of_more_axes_than_letters():
    matrices = [RNG.random((2, 2)) for _ in range(60)]
    chain = [term for i, m in enumerate(matrices) for term in (m, [i, i + 1])]
    wanted = np.linalg.multi_dot(matrices)
    same(fnp.einsum(*chain, [0, 60]), wanted)
    many = np.stack([matrices[0], 2 * matrices[0]])
    mapped = ft.vmap(lambda m: fnp.einsum(m, *chain[1:], [0, 60]))(many)
    same(mapped, np.stack([wanted, 2 * wanted]))
    gradient = ft.grad(lambda m: fnp.einsum(m, *chain[1:], []))(matrices[0])
    same(gradient, np.ones((2, 1)) * np.linalg.multi_dot(matrices[1:]).sum(1))


def test_infinite_cotangent_of_a_diagonal_stays_on_it():
    pull = ft.vjp(lambda m: fnp.einsum("ii->i", m), np.ones((2, 2)))[1]
    same(pull(np.array([np.inf, 1.0]))[0], np.diag([np.inf, 1.0]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fnp.einsum("ij,jk", X[0], Y[0]), ["'j'", "length 4 and length 3"]),
        (lambda: fnp.einsum("ij->iz", Z), ["'z'", "no operand has it"]),
        (lambda: fnp.einsum("ij->ii", Z), ["'i' twice"]),
        (lambda: fnp.einsum("i", Z), ["names 1 axes", "which has 2"]),
        (lambda: fnp.einsum("ij,jk", Z), ["2 terms for 1 operands"]),
        (lambda: fnp.einsum("...i,...i", Z, Y[0]), ["axis -1 of '...'", "5 and length 3"]),
        (lambda: fnp.matmul(X, Y), ["(2, 3, 4)", "(4, 3, 5)", "axis -1", "4", "axis -2", "3"]),
        (
            lambda: fnp.matmul(X, np.ones((4, 4, 5))),
            ["axis -3 of the first has length 2", "second 4"],
        ),
        (lambda: fnp.matmul(2.0, X), ["()", "scalar"]),
        (lambda: fnp.tensordot(Z, Z, axes=1), ["axis 1 of the first has length 2", "second 5"]),
        (lambda: ops.vecdot(Z, Z.T), ["(5, 2)", "(2, 5)"]),
    ],
)
def test_errors_name_shapes_and_axes(call, words):
    with pytest.raises(ShapeError) as caught:
        call()
    for word in [*words, "python -m functensor.errors 16"]:
        assert word in str(caught.value)


@pytest.mark.parametrize(("m", "n"), list(product(SHAPES, SHAPES)))
def test_products_are_numpys(m, n):
    x, y = RNG.random(m), RNG.random(n)
    for name in ("inner", "outer", "kron"):
        same(getattr(ops, name)(x, y), getattr(np, name)(x, y))
    turned = y.mT if y.ndim > 1 else y
    same(ops.dot(x, turned), np.dot(x, turned))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32", "bool"])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((20, 1), (1, 30)),
        ((80, 1), (1, 60)),
        ((3, 40, 1), (3, 1, 60)),
        ((2, 1, 40, 1), (4, 1, 60)),
        ((9, 20, 1), (1, 30)),
        ((2, 1), (1, 3000)),
        ((300, 1), (1, 2)),
        ((2, 1), (1, 300)),
        ((5, 1, 1), (5, 1, 400)),
        ((300, 1), (1, 2000)),
        ((0, 20, 1), (0, 1, 30)),
        ((2, 3, 1), (2, 1, 3)),
    ],
)
def test_columns_times_rows_are_exact(x, y, dtype):
    draw = np.random.default_rng(2)
    x, y = (draw.integers(-9, 9, shape).astype(dtype) for shape in (x, y))
    if dtype in ("float32", "float64") and x.size:
        x.flat[0], x.flat[-1], y.flat[0], y.flat[-1] = np.inf, 1e-30, np.nan, 1e30
    if x.dtype.kind == "f" and x.size:
        x /= x.dtype.type(7)
    with np.errstate(invalid="ignore"):
        got = fnp.matmul(x, y)
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got), x * y)
        np.testing.assert_array_equal(np.asarray(ft.jit(fnp.matmul)(x, y)), x * y)
    # As all sums do, those of one term begin with zero.
    if x.dtype.kind in "fc":
        for made in (fnp.matmul, ft.jit(fnp.matmul)):
            assert not np.signbit(np.asarray(made(-np.zeros_like(x), np.ones_like(y))).real).any()


def test_columns_times_rows_warn_of_nothing_that_is_not_there():
    x, y = np.full((3, 37, 1), np.inf), np.full((3, 1, 51), 2.0)
    assert np.isinf(np.asarray(fnp.matmul(x, y))).all()


def test_gradients_of_vectors_times_vectors_are_elementwise():
    def both(x, y):
        return fnp.tanh(x @ y)

    program = ft.make_program(ft.grad(both, argnums=(0, 1)))(np.ones(5), np.ones(5))
    names = [equation.primitive.name for equation in program.equations]
    assert names.count("matmul") == 1
    assert "reshape" not in names


def test_gradients_of_vectors_times_matrices_are_products_of_matrices():
    def loss(w, x):
        return fnp.sum(fnp.tanh(x @ w))

    w, x = np.ones((30, 20)), np.arange(90.0).reshape(3, 30) / 90
    each = ft.vmap(ft.grad(loss), (None, 0))
    assert "multiply" not in str(ft.make_program(ft.vjp(lambda w: x[0] @ w, w)[1])(np.ones(20)))
    expected = np.stack([np.outer(row, 1 - np.tanh(row @ w) ** 2) for row in x])
    np.testing.assert_allclose(np.asarray(each(w, x)), expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(ft.jit(each)(w, x)), expected, rtol=1e-12)


@pytest.mark.parametrize("axes", [2, 0, ([1, 2], [1, 0]), (-1, 0), ((), ())])
def test_tensordot_is_numpys(axes):
    y = RNG.random((3, 4, 6)) if axes == 2 else Y
    same(fnp.tensordot(X, y, axes=axes), np.tensordot(X, y, axes=axes))


def test_vdot_and_vecdot_conjugate_the_first():
    x = X + 1j * X[::-1]
    same(ops.vdot(x, X), np.vdot(x, X))
    same(ops.vecdot(x, X[:1]), np.vecdot(x, X[:1]))
    same(ops.vecdot(x, x, axis=1), np.vecdot(x, x, axis=1))


@pytest.mark.parametrize("offset", [-9, -1, 0, 1, 3, 9])
@pytest.mark.parametrize("axes", [(0, 1), (-1, 0), (1, 2)])
def test_trace_is_numpys(offset, axes):
    same(ops.trace(X, offset, *axes), np.trace(X, offset, *axes))


MASK, BYTES = np.array([[True, True], [True, False]]), np.full((2, 2), 100, np.int8)
PAIR, WHOLE = np.array([1.0, 2.0]), np.array([1, 2])
OTHER_DTYPES = [
    ("ij,k->k", MASK, PAIR), ("ij,j->", MASK, PAIR), ("ij,k->", MASK, WHOLE),
    ("ij,ik->", MASK, PAIR[:, None]), ("i,i->", MASK[0], WHOLE[:1]), ("ij,k->k", BYTES, PAIR),
    ("ij,jk,kl->il", BYTES, BYTES, MASK * 1.0), ("ij,jk,k->i", MASK, MASK, WHOLE),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(OTHER_DTYPES)))
def test_einsum_sums_in_the_dtype_of_the_result(case):
    subscripts, *operands = OTHER_DTYPES[case]
    wanted = np.einsum(subscripts, *operands)
    for f in (fnp.einsum, ft.jit(fnp.einsum, static_argnums=0)):
        found = f(subscripts, *operands)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_gradients_of_einsum_beside_masks():
    found = ft.grad(lambda w: fnp.einsum("ij,k->", MASK, w))(PAIR)
    np.testing.assert_array_equal(found, [3.0, 3.0])
    found = ft.grad(lambda w: fnp.einsum("ij,jk,k->", MASK, MASK, w))(PAIR)
    np.testing.assert_array_equal(found, [3.0, 2.0])
