"""Gradients by complex tensors are conjugates of cotangents, as PyTorch 2.13 has them."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch

Z = 1 + 2j


def leaf():
    return torch.tensor([Z], requires_grad=True)


def test_grad_of_a_leaf():
    for loss, wanted in [
        (lambda z: (z * z).real, 2 - 4j),
        (lambda z: z.abs() ** 2, 2 + 4j),
        (lambda z: (z * z).imag, 4 + 2j),
    ]:
        z = leaf()
        loss(z).sum().backward()
        assert z.grad.item() == pytest.approx(wanted)
        z = leaf()
        loss(z).sum().backward(create_graph=True)
        assert z.grad.item() == pytest.approx(wanted)
        assert torch.func.grad(lambda z, loss=loss: loss(z).sum())(z.detach()).item() == (
            pytest.approx(wanted)
        )


def test_given_gradients():
    z = leaf()
    g = torch.tensor([1 + 1j])
    assert torch.autograd.grad(z * z, z, g, retain_graph=True)[0].item() == 6 - 2j
    rows = torch.stack([g, 1j * g])
    found = torch.autograd.grad(z * z, z, rows, is_grads_batched=True)[0]
    assert found.tolist() == [[6 - 2j], [2 + 6j]]
    out, pull = torch.func.vjp(lambda z: z * z, z.detach())
    assert pull(g)[0].item() == 6 - 2j
    assert out.item() == Z**2


def test_second_derivatives():
    z = leaf()
    (first,) = torch.autograd.grad((z * z * z).real.sum(), z, create_graph=True)
    assert first.item() == -9 - 12j
    (second,) = torch.autograd.grad(first.imag.sum(), z)
    assert second.item() == -12 - 6j


def test_hooks_and_rules_see_gradients():
    seen = []
    z = leaf()
    y = z * z
    y.register_hook(lambda g: seen.append(g.item()))
    z.register_hook(lambda g: 2 * g)
    y.imag.sum().backward()
    assert (seen, z.grad.item()) == ([1j], 8 + 4j)

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x.conj()

    z = leaf()
    Square.apply(z).imag.sum().backward()
    assert z.grad.item() == 4 + 2j
    # Transformations have JAX's convention, whose gradient is the conjugate.
    assert ft.grad(lambda z: Square.apply(z).imag.sum())(torch.tensor([Z])).item() == 4 - 2j


def test_gradients_of_kept_results():
    z = leaf()
    y = z * 3
    y.retain_grad()
    (y * y).imag.sum().backward()
    assert y.grad.item() == 2 * complex(6, 3)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, ft.optim.SGD])
def test_steps_go_down(optimizer):
    z = leaf()
    step = optimizer([z], 0.1)
    (z.real * 3 + z.imag * 5).sum().backward()
    step.step()
    numpy.testing.assert_allclose(z.detach().numpy(), [0.7 + 1.5j], rtol=1e-6)


def test_a_complex_output_has_no_jacobian():
    with pytest.raises(RuntimeError, match=r"an output is complex; give out\.real and out\.imag"):
        torch.autograd.functional.jacobian(lambda z: z * z, torch.tensor([Z]))
