"""What a Function saved has its place in the graph, also where the way back is not recorded."""

import pytest

import functensor.torch as torch
from functensor.torch import nn
from functensor.torch.utils.checkpoint import checkpoint


class Product(torch.autograd.Function):
    """A product whose rule differentiates it by the saved tensors themselves."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        with torch.enable_grad():
            y = x * w
        return torch.autograd.grad(y, (x, w), g)


def test_a_rule_differentiates_by_saved_arguments():
    x = torch.tensor(2.0, requires_grad=True)
    w = torch.tensor(3.0, requires_grad=True)
    Product.apply(x, w).backward()
    assert (x.grad.item(), w.grad.item()) == (3.0, 2.0)


@pytest.mark.parametrize("backward_inside", [True, False])
@pytest.mark.parametrize("compute", ["tensors", "grad"])
def test_checkpoints_run_again_in_the_precision_of_the_first_run(backward_inside, compute):
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    parameters = dict(net.named_parameters())
    x = torch.randn(5, 4)

    def loss(parameters, call):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = call(lambda x: torch.func.functional_call(net, parameters, (x,)), x)
        assert y.dtype == torch.bfloat16
        return y.float().square().sum()

    def gradients(call):
        if compute == "grad":
            return torch.func.grad(lambda p: loss(p, call))(parameters)
        net.zero_grad()
        value = loss(parameters, call)
        with torch.autocast("cpu", enabled=backward_inside):
            value.backward()
        return {name: p.grad.clone() for name, p in parameters.items()}

    wanted = gradients(lambda fun, x: fun(x))
    found = gradients(lambda fun, x: checkpoint(fun, x, use_reentrant=False))
    for name, value in wanted.items():
        assert torch.equal(found[name], value), name


def test_checkpoints_run_again_without_the_precision_of_a_later_block():
    layer, x = nn.Linear(4, 3), torch.randn(5, 4)
    checkpoint(layer, x, use_reentrant=False).square().sum().backward()
    wanted = layer.weight.grad.clone()
    layer.zero_grad()
    y = checkpoint(layer, x, use_reentrant=False).square().sum()
    with torch.autocast("cpu"):
        y.backward()
    assert torch.equal(layer.weight.grad, wanted)


@pytest.mark.parametrize("within", [False, True], ids=["after the block", "within it"])
def test_a_tensor_that_is_packed_as_it_is_is_unpacked_too(within):
    called = []

    def pack(x):
        called.append("pack")
        return x

    def unpack(x):
        called.append("unpack")
        return x * 0

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
        loss = y.sum()
        if within:
            loss.backward()
    if not within:
        loss.backward()
    assert called == ["pack", "unpack"]
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
