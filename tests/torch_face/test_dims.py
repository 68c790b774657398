"""Axes by NumPy's keywords, axes of numbers, and ties, as PyTorch 2.13 has them."""

import pytest

import functensor as ft
import functensor.torch as torch

X = torch.tensor([[1.0, 2.0, 2.0], [3.0, 2.0, 5.0]])

# Functions that reduce a number along its axis to itself.
SAME = [
    "amax", "amin", "logcumsumexp", "logsumexp", "mean", "nanmean", "nansum", "norm", "prod", "sum",
]
PAIRS = ["max", "median", "min", "mode", "nanmedian"]


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", SAME)
def test_a_number_has_one_axis(name, dim):
    function = getattr(torch, name)
    found = function(torch.tensor(2.5), dim=dim)
    assert (found.item(), found.shape, found.dtype) == (2.5, (), torch.float32)
    with pytest.raises(IndexError):
        function(torch.tensor(2.5), dim=1)


@pytest.mark.parametrize("dim", [0, -1])
def test_a_number_is_its_own_extreme(dim):
    x = torch.tensor(2.5)
    for name in PAIRS:
        values, indices = getattr(torch, name)(x, dim)
        assert (values.item(), values.shape) == (2.5, ())
        assert (indices.item(), indices.dtype) == (0, torch.int64)
    assert torch.argmax(x, dim).item() == x.argmin(dim).item() == 0
    assert torch.any(x, dim).item()
    assert torch.all(x, dim).item()
    assert torch.count_nonzero(x, dim).item() == 1
    assert x.squeeze(dim).shape == torch.squeeze(x, dim).shape == ()
    assert x.sum(dim).item() == x.mean([dim]).item() == x.logsumexp(dim).item() == 2.5
    assert [v.item() for v in torch.aminmax(x, dim=dim)] == [2.5, 2.5]
    assert torch.quantile(x, 0.5, dim).item() == 2.5


def test_a_number_in_a_batch_has_one_axis_too():
    out = ft.vmap(lambda x: torch.sum(x, 0) + torch.max(x, -1).values)(torch.tensor([1.0, 2.0]))
    assert out.tolist() == [2, 4]


def test_axes_by_numpys_names():
    assert torch.sum(X, axis=1, keepdims=True).tolist() == [[5], [10]]
    assert X.amax(axis=0).tolist() == [3, 2, 5]
    assert torch.cat([X, X], axis=1).shape == (2, 6)
    assert torch.max(X, axis=1, keepdims=True).indices.tolist() == [[1], [2]]
    assert torch.softmax(X, axis=0)[0, 1].item() == 0.5
    with pytest.raises(TypeError, match="no argument 'axis'"):
        torch.sum(X, dim=0, axis=1)


def test_the_median_of_all_shares_its_gradient():
    x = torch.tensor([[1.0, 2.0, 2.0], [3.0, 2.0, 5.0]], requires_grad=True)
    x.median().backward()
    third = torch.tensor(1 / 3).item()
    assert x.grad.tolist() == [[0, third, third], [0, third, 0]]
    y = torch.tensor([float("inf"), float("inf"), 0.0], requires_grad=True)
    assert torch.median(y).item() == float("inf")
