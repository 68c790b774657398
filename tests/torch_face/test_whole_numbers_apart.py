"""Differences of whole numbers in losses and distances, and numbers that a tensor cannot hold."""

import pytest

import functensor.torch as torch

F = torch.nn.functional
FUNCTIONS = {
    "mse_loss": (F.mse_loss, 5002.0),
    "l1_loss": (F.l1_loss, 51.0),
    "smooth_l1_loss": (F.smooth_l1_loss, 50.5),
    "huber_loss": (F.huber_loss, 50.5),
    "dist": (torch.dist, 10004**0.5),
    "cdist": (lambda x, y: torch.cdist(x[None], y[None]), 10004**0.5),
    "pairwise_distance": (lambda x, y: F.pairwise_distance(x[None], y[None]), 10004**0.5),
}


@pytest.mark.parametrize(("function", "wanted"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_bytes_do_not_wrap_around(function, wanted):
    x = torch.tensor([1, 200], dtype=torch.uint8)
    y = torch.tensor([3, 100], dtype=torch.uint8)
    for found in (function(x, y), function(y, x), function(x.float(), y), function(x, y.half())):
        assert float(found) == pytest.approx(wanted, rel=1e-3)
    assert function(x, y).dtype.kind == "f"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int32])
def test_complex_numbers_do_not_go_into_real_ones(dtype):
    x, y = torch.ones(2, dtype=dtype), torch.tensor([1 + 2j, 2.0])
    for change in (x.add_, x.mul_, x.sub_):
        with pytest.raises(TypeError, match=r"which tensor .* cannot hold"):
            change(y)
    assert x.tolist() == [1.0, 1.0]
