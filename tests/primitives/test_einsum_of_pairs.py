"""Einsum without a sum: columns times rows are left to BLAS, with NumPy's bits, jitted or not."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.arrays import einsum as einsum_plans

pytestmark = pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning")

# Subscripts, the shapes of the operands, and what is left to BLAS.
CASES = [
    ("i,j->ij", (200,), (150,), True),
    ("i,j->ji", (200,), (150,), True),
    ("bi,bj->bij", (40, 20), (40, 30), True),
    ("bi,bj->bji", (40, 20), (40, 30), True),
    ("xyr,yxc->yxrc", (3, 5, 40), (5, 3, 50), True),
    ("ab,cd->abcd", (20, 10), (8, 20), True),
    ("bij,bkl->bijlk", (4, 5, 6), (4, 12, 15), True),
    ("bi,bj->ibj", (40, 20), (40, 30), False),
    ("i,j->ij", (20,), (30,), False),
    ("i,j->ij", (200,), (900,), True),
    ("i,j->ij", (200,), (1100,), False),
    ("i,i->i", (7,), (7,), False),
    (",->", (), (), False),
    ("i,i->i", (20000,), (20000,), False),
]


def operand(shape, dtype, seed):
    """Returns numbers, zeros of both signs and what is not finite among them."""
    draw = np.random.default_rng(seed)
    x = draw.integers(-99, 99, shape).astype(dtype)
    if x.dtype.kind == "f":
        x /= x.dtype.type(7)
        x.flat[: min(4, x.size)] = [0.0, -0.0, np.inf, np.nan][: x.size]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "complex64"])
@pytest.mark.parametrize(("subscripts", "x", "y", "blas"), CASES)
def test_pairs_have_the_bits_of_numpy(subscripts, x, y, blas, dtype):
    x, y = operand(x, dtype, 0), operand(y, dtype, 1)

    def fun(x, y):
        return fnp.einsum(subscripts, x, y)

    with np.errstate(invalid="ignore"):
        wanted = np.einsum(subscripts, x, y)
    blas = blas and dtype in ("float32", "float64")
    jitted = ft.jit(fun)
    assert ("matmul" in str(jitted.lower(x, y).optimized)) == blas
    with np.errstate(invalid="ignore"):
        for got in (np.asarray(fun(x, y)), np.asarray(jitted(x, y))):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_array_equal(got, wanted)
            if wanted.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(got[wanted == 0]), False)


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_of_any_strides(transposed):
    x, y = operand((40, 40), "float64", 0), operand((40, 30), "float64", 1)
    x = x.T if transposed else np.broadcast_to(x[:1], (40, 40))
    with np.errstate(invalid="ignore"):
        wanted = x[:, :, None] * y[:, None]
        for fun in (fnp.einsum, ft.jit(fnp.einsum, static_argnums=0)):
            np.testing.assert_array_equal(np.asarray(fun("bi,bj->bij", x, y)), wanted)


def test_a_plan_widens_what_is_not_stacked():
    x, y = operand((200, 1), "float32", 0), operand((1, 150), "float32", 1)
    jitted = ft.jit(fnp.matmul)
    # NumPy itself takes ten times as long.
    assert "np_matmul" not in jitted.lower(x, y).source
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.asarray(jitted(x, y)), x * y)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "steps"),
    [
        # The second operand has the output's last axis, or the first one has.
        ("ij,jk->ik", [(2, 3), (3, 4)], 0),
        ("bi,oi->bo", [(2, 3), (4, 3)], 1),
        ("abi,oi->abo", [(2, 5, 3), (4, 3)], 3),
        ("bo,bi->oi", [(2, 4), (2, 3)], 1),
        ("bij,bki->bkj", [(2, 3, 4), (2, 5, 3)], 0),
        ("ij,j->i", [(2, 3), (3,)], 3),
        ("i,i->", [(3,), (3,)], 3),
        ("ij,kj->ik", [(2, 0), (3, 0)], 1),
    ],
)
def test_one_product_of_matrices_is_one_call(subscripts, shapes, steps):
    """It does what the steps of the plan do, and nothing that changes nothing."""
    x, y = (np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(shapes))
    way = einsum_plans.sole_contract(subscripts, x.shape, y.shape)
    operands = [x, y]
    for step in einsum_plans.plan(subscripts, (x.shape, y.shape)):
        step(np, operands, None)
    got = way(x, y)
    np.testing.assert_array_equal(got, operands[0])
    assert (got.shape, got.dtype) == (operands[0].shape, operands[0].dtype)
    assert sum(change is not None for change in way[1:]) == steps


@pytest.mark.parametrize("subscripts", ["ii,ij->j", "ij,j->ij", "ij,k->k", "ij,kl->ijkl"])
def test_others_are_not_one_call(subscripts):
    shapes = [(2,) * len(term) for term in subscripts.partition("->")[0].split(",")]
    assert einsum_plans.sole_contract(subscripts, *shapes) is None
