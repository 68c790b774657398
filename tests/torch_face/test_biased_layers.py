"""Layers of tensors with a bias: one pass, with the bits and the nodes of all their steps."""

import numpy as np
import pytest

import functensor as ft
import functensor.torch as torch
import functensor.torch.nn.functional as F
from functensor.backends import blas_calls
from functensor.backends.arrays.channel_sums import add_to_channels
from functensor.primitives.core.registry import registry
from functensor.tensors import biased_layers, tape

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


# -- convolutions

IMAGES = {
    "one axis": (F.conv1d, (2, 3, 9), (4, 3, 2)),
    "two axes": (F.conv2d, (2, 3, 9, 8), (4, 3, 2, 2)),
    "many channels": (F.conv2d, (4, 8, 20, 20), (32, 8, 3, 3)),
    "three axes": (F.conv3d, (1, 2, 5, 4, 3), (4, 2, 2, 2, 2)),
    "one image": (F.conv2d, (3, 9, 8), (4, 3, 2, 2)),
}


def convolution(name, dtype="f4"):
    """Returns a function, and images, kernels and a bias that require grad."""
    function, *shapes = IMAGES[name]
    draw = np.random.default_rng(0).standard_normal
    shapes.append(shapes[1][:1])
    return function, [torch.tensor(draw(s).astype(dtype), requires_grad=True) for s in shapes]


def convolved_in_steps(function, x, weight, bias):
    """Returns the same by three operations."""
    out = function(x, weight)
    column = torch.reshape(bias, (-1, *(1,) * (weight.ndim - 2)))
    return out + column


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", IMAGES)
def test_convolutions_with_a_bias_are_those_of_three_steps(name, dtype):
    function, operands = convolution(name, dtype)
    found = []
    for out_of in (function, lambda *given: convolved_in_steps(function, *given)):
        for x in operands:
            x.grad = None
        out = out_of(*operands)
        graph = steps_of(out.node) if name != "one image" else None
        torch.sum(out * out).backward()
        bits = [x.numpy().tobytes() for x in (out.detach(), *(x.grad for x in operands))]
        found.append((out.shape, out.dtype, graph, bits))
    assert found[0] == found[1]


def test_a_bias_is_added_in_the_memory_of_the_convolution(monkeypatch):
    made = []
    conv = registry.conv
    compute = conv.impl

    def noted(*operands, **params):
        made.append(compute(*operands, **params))
        return made[-1]

    monkeypatch.setattr(conv, "impl", noted)
    function, operands = convolution("two axes")
    out = function(*operands)
    assert len(made) == 1
    assert np.shares_memory(out._data, made[0])


def test_what_a_backward_pass_needs_is_not_written_to():
    x = torch.tensor(np.full((1, 2, 2, 2), 0.5, "f4"), requires_grad=True)
    images = torch.exp(x)
    kept = images._data.copy()
    out = biased_layers.images_with_bias(images, torch.ones(2))
    np.testing.assert_array_equal(images._data, kept)
    np.testing.assert_array_equal(out.detach().numpy(), kept + 1)


def test_hooks_see_all_steps_of_a_convolution():
    function, operands = convolution("two axes")
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with ft.hooks.use(hook):
        function(*operands)
    assert seen == ["conv", "reshape", "add"]


@pytest.mark.parametrize(
    "shape", [(2, 3, 4, 5), (2, 70, 30, 7), (1, 1, 1), (2, 3, 0, 4), (0, 3, 4)]
)
@pytest.mark.parametrize("last", [False, True])
def test_numbers_for_channels_have_the_bits_of_a_broadcast_sum(shape, last):
    draw = np.random.default_rng(0).standard_normal
    images, numbers = draw(shape).astype("f4"), draw(shape[1]).astype("f4")
    if last:
        images = np.moveaxis(np.moveaxis(images, 1, -1).copy(), -1, 1)
    wanted = images + numbers.reshape(-1, *(1,) * (len(shape) - 2))
    add_to_channels(images, numbers)
    np.testing.assert_array_equal(images, wanted)
