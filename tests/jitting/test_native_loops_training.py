"""Loops of training steps as machine code: labels, checkpointed layers, stacks of products."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled, drawn, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

LOGITS = drawn((3, 4, 5), "f8")
LABELS = np.array([[0, 4, 2, 2], [1, 1, 3, 0], [4, 0, 0, 3]])


def losses(x, labels):
    def step(c, given):
        row, label = given
        return c + nn.softmax_cross_entropy(row * c[:, None], label), fnp.sum(c)

    return ft.scan(step, fnp.ones(4, x.dtype), (x, labels))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("labels", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_labels_of_any_integers(labels, dtype):
    args = LOGITS.astype(dtype), LABELS.astype(labels)
    assert_same(compiled(losses, *args)(*args), losses(*args), 1e-4 if dtype == "f4" else 1e-12)


LABELS_IN_A_STEP = {
    "computed": lambda x, i: (x, i % 5),
    "reversed": lambda x, i: (x, i[::-1]),
    "of every second row": lambda x, i: (x[::2], i[::2]),
    "of a column": lambda x, i: (x, fnp.stack([i, i + 0], axis=1)[:, 0]),
    "computed by the loss": lambda x, i: (fnp.tanh(x), fnp.where(i > 1, i - 1, i)),
    "of a transposed stack": lambda x, i: (
        fnp.stack([x, x * 2]).transpose(1, 0, 2), fnp.stack([i, i]).T,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", LABELS_IN_A_STEP.values(), ids=LABELS_IN_A_STEP)
def test_labels_in_any_order(form):
    def loss(x, i):
        return fnp.sum(nn.softmax_cross_entropy(*form(x, i)))

    both = of_slices(ft.value_and_grad(loss))
    args = LOGITS[0], LABELS[0]
    assert_same(compiled(both, *args)(*args), both(*args))


@pytest.mark.parametrize("wrong", [-1, 5, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("grad", [False, True])
def test_wrong_labels_raise_the_same_error(grad, wrong):
    def loss(x, labels):
        return fnp.sum(losses(x, labels)[0])

    function = ft.grad(loss) if grad else loss
    labels = LABELS.copy()
    labels[1, 2] = wrong
    x = LOGITS.copy()
    told = []
    for jitted in (compiled(function, x, LABELS, loops=1 + grad), ft.jit(function)):
        with pytest.raises(IndexError) as info:
            jitted(x, labels)
        told.append((str(info.value), info.value.__notes__[0]))
        assert_same(jitted(x, LABELS), function(x, LABELS), 1e-12)
    assert told[0] == told[1]
    np.testing.assert_array_equal(x, LOGITS)


def layer(x, weights):
    scale, w = weights
    y = nn.layer_norm(x) * scale
    return x + nn.gelu(y @ w), fnp.sum(x)


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
def test_checkpointed_layers(shape):
    weights = drawn((4, 6), "f8", 1), drawn((4, 6, 6), "f8", 2)

    def energy(x, weights):
        x, sums = ft.scan(ft.checkpoint(layer), x, weights)
        return fnp.sum(x**2) + fnp.sum(sums)

    both = ft.value_and_grad(energy, argnums=(0, 1))
    args = drawn(shape, "f8"), weights
    assert_same(compiled(both, *args, loops=2)(*args), both(*args), 1e-10)


STACKS = {
    "rows of a stack": ((2, 3, 4), (4, 5)),
    "a stack of one": ((1, 3, 4), (1, 4, 5)),
    "two stacks": ((6, 30, 17), (6, 17, 33)),
    "a stack of stacks": ((2, 3, 30, 17), (2, 3, 17, 33)),
    "stacks that broadcast": ((2, 1, 30, 17), (3, 17, 33)),
    "a matrix and a stack": ((30, 17), (4, 17, 33)),
    "vectors": ((4, 70), (4, 70, 40)),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shapes", STACKS.values(), ids=STACKS)
def test_stacks_of_products(shapes, dtype, turned):
    x, y = (drawn(shape, dtype, i) for i, shape in enumerate(shapes))
    order = [*range(y.ndim - 2), y.ndim - 1, y.ndim - 2]
    if turned:
        y = y.transpose(order).copy()

    def f(x, y):
        y = fnp.transpose(y, order) if turned else y
        both = (x * 2) @ y
        return both + 1, fnp.sum(fnp.tanh(both), axis=-1)

    once = of_slices(f)
    rtol = 1e-4 if dtype == "f4" else 1e-11
    assert_same(compiled(once, x, y)(x, y), once(x, y), rtol)


def test_long_stacks_of_products_run_step_by_step():
    x, y = drawn((65, 20, 20), "f8"), drawn((65, 20, 20), "f8", 1)

    def f(x, y):
        def step(c, _):
            c = fnp.tanh(fnp.sin(c) + fnp.cos(c) * fnp.exp(-c * c) + 0.5) / (1 + c * c)
            return c @ y, None

        return ft.scan(step, x, None, 2)[0]

    jitted = ft.jit(f).compile(x, y)
    assert jitted.explain().endswith("as machine code")
    assert_same(jitted(x, y), f(x, y), 1e-11)
