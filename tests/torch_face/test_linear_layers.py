"""Linear layers: gradients lie in memory as weights do, and lengths that do not fit are refused."""

import numpy as np
import pytest

import functensor.torch as torch
import functensor.torch.nn.functional as F
from functensor.primitives.core.errors import ShapeError

INPUTS, OUTPUTS = 40, 30


def normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize("examples", [(), (3,), (2, 5), (0,)], ids=str)
def test_results_and_gradients(examples):
    x, w, b, g = normal(*examples, INPUTS), normal(OUTPUTS, INPUTS), normal(OUTPUTS), 0.5
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    out = F.linear(*leaves)
    (out * g).sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), x @ w.T + b, 1e-12, 1e-12)
    rows = x.reshape(-1, INPUTS)
    wanted = np.broadcast_to(g * w.sum(0), x.shape), np.tile(g * rows.sum(0), (OUTPUTS, 1))
    for leaf, derivative in zip(leaves, wanted):
        np.testing.assert_allclose(leaf.grad.numpy(), derivative, 1e-12, 1e-12)
    np.testing.assert_allclose(leaves[2].grad.numpy(), g * len(rows))


def test_the_gradient_lies_in_memory_as_the_weight_does():
    w = torch.tensor(normal(OUTPUTS, INPUTS), requires_grad=True)
    F.linear(torch.tensor(normal(3, INPUTS)), w).sum().backward()
    assert w.grad.numpy().strides == w.detach().numpy().strides


def test_a_length_that_does_not_fit():
    w = torch.tensor(normal(OUTPUTS, INPUTS))
    for length in (1, INPUTS + 1):
        with pytest.raises(ShapeError, match=rf"matmul: shapes \(3, {length}\)"):
            F.linear(torch.ones(3, length), w)


def test_a_weight_of_one_output_without_an_axis_for_it():
    x, w = normal(3, INPUTS), normal(INPUTS)
    np.testing.assert_allclose(F.linear(torch.tensor(x), torch.tensor(w)).numpy(), x @ w)
