"""`torch.compile`: mixed precision is a choice of each call, and of blocks within functions."""

import pytest

import functensor as ft
import functensor.torch as torch
from functensor.torch import nn

X = torch.ones(2, 4)


def within(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.T


FUNCTIONS = {
    "a module": nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 1)),
    "a product": lambda x: torch.relu(x @ x.T),
    "a sum of products": lambda x: torch.einsum("ij,kj->ik", x, x),
    "a loss": lambda x: nn.functional.mse_loss(x.bfloat16(), x),
    "a block within": within,
}


@pytest.mark.parametrize("compiles", [torch.compile, ft.jit])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_call_has_the_precision_that_is_set(name, dtype, compiles):
    function = FUNCTIONS[name]
    if isinstance(function, nn.Module):
        function.requires_grad_(False)
    compiled = compiles(function)
    for enabled in (False, True, True, False, False, True):
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            found, wanted = compiled(X), function(X)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


def test_transformed_functions_compute_in_mixed_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.func.vmap(lambda x: x @ x)(torch.ones(3, 2)).dtype == torch.bfloat16
        slope = torch.func.grad(lambda x: (x @ x).float())(torch.ones(2))
    assert slope.dtype == torch.float32
    assert slope.tolist() == [2, 2]
