"""Affine layers of tensors: one pass, with the bits and the nodes of a product and a sum."""

import numpy as np
import pytest

import functensor as ft
import functensor.torch as torch
import functensor.torch.nn.functional as F
from functensor.backends import blas_calls
from functensor.tensors import tape

SHAPES = [(5, 7), (7,), (2, 3, 7), (2, 1, 3, 7)]


def layer(shape, dtype="f4", outputs=4):
    """Returns an input, a weight and a bias that require grad."""
    draw = np.random.default_rng(0).standard_normal
    shapes = shape, (outputs, shape[-1]), (outputs,)
    return [torch.tensor(draw(s).astype(dtype), requires_grad=True) for s in shapes]


def in_steps(x, weight, bias):
    """Returns the same by two operations."""
    return F.linear(x, weight) + bias


def steps_of(node):
    """Returns the graph of a node as the names, shapes and parameters of its operations."""
    if node is None or node.primitive is None:
        return node
    below = tuple(map(steps_of, node.parents))
    return node.primitive.name, node.shape, node.dtype, node.params, below


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_gradients_and_graphs_are_those_of_two_steps(shape, dtype):
    found = []
    operands = layer(shape, dtype)
    for function in (F.linear, in_steps):
        for x in operands:
            x.grad = None
        out = function(*operands)
        graph = steps_of(out.node)
        torch.sum(out * out).backward()
        bits = [x.numpy().tobytes() for x in (out.detach(), *(x.grad for x in operands))]
        found.append((out.shape, out.dtype, graph, bits))
    assert found[0] == found[1]


@pytest.mark.parametrize("wanted", range(8))
def test_only_operands_that_require_grad_are_in_the_graph(wanted):
    operands = [x.detach() for x in layer((5, 7))]
    for place, x in enumerate(operands):
        x.requires_grad_(bool(wanted >> place & 1))
    one, two = F.linear(*operands), in_steps(*operands)
    assert steps_of(one.node) == steps_of(two.node)
    assert one.requires_grad == two.requires_grad == bool(wanted)
    with torch.no_grad():
        assert F.linear(*operands).node is None


def test_a_bias_is_added_in_the_memory_of_the_product(monkeypatch):
    products = []

    def noted(x, y):
        products.append(np.matmul(x, y))
        return products[-1]

    monkeypatch.setattr(blas_calls, "by_blas", noted)
    out = F.linear(*layer((5, 7)))
    assert len(products) == 1
    assert np.shares_memory(out._data, products[0])


def test_an_affine_layer_is_no_two_calls_of_the_tape(monkeypatch):
    seen = []
    process = tape.TapeTrace.process

    def noted(self, primitive, *rest):
        seen.append(primitive.name)
        return process(self, primitive, *rest)

    monkeypatch.setattr(tape.TapeTrace, "process", noted)
    operands = layer((5, 7))
    F.linear(*operands)
    assert seen == []
    in_steps(*operands)
    assert seen == ["einsum", "add"]


def test_hooks_see_both_steps():
    operands = layer((5, 7))
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with ft.hooks.use(hook):
        F.linear(*operands)
    assert seen == ["einsum", "add"]


@pytest.mark.parametrize("dtypes", [("f4", "f4", "f8"), ("f4", "f8", "f4"), ("f2", "f2", "f2")])
def test_other_dtypes_are_computed_in_steps(dtypes):
    operands = [
        torch.tensor(x.detach().numpy().astype(dtype))
        for x, dtype in zip(layer((5, 7)), dtypes, strict=True)
    ]
    one, two = F.linear(*operands), in_steps(*operands)
    assert one.dtype == two.dtype
    np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_a_bias_of_another_shape_broadcasts_as_before():
    x, weight, _ = layer((5, 7))
    for shape in ((), (1,), (5, 4), (3, 1, 4)):
        bias = torch.ones(shape)
        assert F.linear(x, weight, bias).shape == in_steps(x, weight, bias).shape


def test_an_input_of_no_rows_has_no_rows():
    _, weight, bias = layer((5, 7))
    assert F.linear(torch.zeros(0, 7), weight, bias).shape == (0, 4)
