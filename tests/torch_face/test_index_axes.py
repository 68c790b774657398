"""Integers beside index arrays, which PyTorch takes first and NumPy takes for arrays."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch

PAIR, COLUMN = torch.tensor([1, 2]), torch.tensor([[1], [0], [2]])
MASK = torch.tensor([True, False, True, False])
ALL = slice(None)

# An index of a tensor of shape (2, 3, 4, 5), and the indices that PyTorch takes one after another.
STEPS = [
    ((0, ALL, [1, 2]), (0, (ALL, [1, 2]))),
    ((-1, ALL, PAIR), (-1, (ALL, PAIR))),
    ((torch.tensor(1), ALL, PAIR), (1, (ALL, PAIR))),
    ((0, ..., PAIR), (0, (..., PAIR))),
    ((None, 0, ALL, PAIR), (0, None, (ALL, ALL, PAIR))),
    ((0, None, ALL, COLUMN), (0, None, (ALL, ALL, COLUMN))),
    ((1, ALL, MASK), (1, (ALL, MASK))),
    ((ALL, PAIR, ALL, 2), ((..., 2), (ALL, PAIR))),
    ((0, ALL, PAIR, COLUMN), (0, (ALL, PAIR, COLUMN))),
    ((ALL, 1, ..., PAIR), ((ALL, 1), (..., PAIR))),
    ((0, ALL, PAIR, 3), (0, (..., 3), (ALL, PAIR))),
]


def made():
    return torch.arange(120.0).reshape(2, 3, 4, 5)


def stepped(x, steps):
    for key in steps:
        x = x[None] if key is None else x[key]
    return x


@pytest.mark.parametrize("case", range(len(STEPS)))
def test_elements_their_changes_and_gradients(case):
    key, steps = STEPS[case]
    x = made().requires_grad_()
    found, wanted = x[key], stepped(x, steps)
    assert found.shape == wanted.shape
    assert found.tolist() == wanted.tolist()
    assert found.is_contiguous()
    weights = torch.arange(float(wanted.numel())).reshape(wanted.shape)
    (by_key,) = torch.autograd.grad((found * weights).sum(), x)
    (by_steps,) = torch.autograd.grad((wanted * weights).sum(), x)
    assert by_key.tolist() == by_steps.tolist()
    y = made()
    y[key] = -weights
    assert y[key].tolist() == (-weights).tolist()
    assert (y != made()).sum() <= weights.numel()
    y[key] += 1
    assert y[key].tolist() == (1 - weights).tolist()


def test_values_of_fewer_and_more_axes():
    x = torch.zeros(2, 3, 4)
    x[0, :, [1, 2]] = torch.tensor([5.0, 6.0])
    assert x[0].tolist() == [[0, 5, 6, 0]] * 3
    x[0, :, [1, 2]] = torch.arange(6.0).reshape(1, 1, 3, 2)
    assert x[0, :, 1:3].tolist() == [[0, 1], [2, 3], [4, 5]]
    x[0, :, [1, 2]] = numpy.ones((3, 1))
    x[0, :, [0]] = 7
    assert x[0].tolist() == [[7, 1, 1, 0]] * 3


def test_an_empty_ellipsis_stands_between_no_arrays():
    x = torch.arange(12.0).reshape(4, 3)
    assert x[:, None][:, [0, 0], ..., PAIR].shape == (4, 2)


def test_traced_integers():
    x = made()
    found = torch.func.vmap(lambda k: x[k, :, PAIR])(torch.tensor([0, 1]))
    assert found.tolist() == x[:, :, PAIR].tolist()
    taken = ft.jit(lambda x, k: x[k, :, PAIR])(x, torch.tensor(1))
    assert taken.tolist() == x[1][:, PAIR].tolist()
