"""What a Function saved has its place in the graph, also where the way back is not recorded."""

import functensor.torch as torch


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
