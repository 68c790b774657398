"""Calls of jitted functions with tensors, answered by guards as those with arrays."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.jitting.guard import UNLIKE, unguarded


def step(params, rate):
    return {"w": params["w"] - rate * params["w"], "kept": params["kept"]}, params["w"].sum()


def called(f, *args, times=3):
    """Returns the result of a call whose guard is written."""
    for _ in range(times):
        out = f(*args)
    return out


def arguments():
    return {"w": torch.tensor([1.0, 2.0]), "kept": torch.zeros(3)}, torch.tensor(0.5)


def test_a_guard_answers_and_gives_tensors():
    f = ft.jit(step)
    args = arguments()
    out, total = called(f, *args)
    direct = f._last.guard(args, {})
    assert direct is not UNLIKE
    for result in (out, direct[0]):
        assert result["w"].tolist() == [0.5, 1.0]
        assert {type(x) for x in result.values()} == {ft.Tensor}
        assert not result["w"].requires_grad
    assert total == 3
    # What is handed on is a tensor of its own, as from the first call.
    out["kept"].add_(1)
    assert args[0]["kept"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "other",
    [
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(3)[1:].double(),
        torch.ones(3),
        numpy.ones(2, "float32"),
    ],
    ids=["parameter", "dtype", "shape", "array"],
)
def test_other_kinds_of_arguments_are_left_to_the_slow_way(other):
    f = ft.jit(step)
    params, rate = arguments()
    called(f, params, rate)
    params["w"] = other
    assert f._last.guard((params, rate), {}) is UNLIKE
    out, total = f(params, rate)
    numpy.testing.assert_allclose(numpy.asarray(out["w"].detach()), 0.5)
    if getattr(other, "requires_grad", False):
        total.backward()
        assert other.grad.tolist() == [1.0, 1.0]


def test_a_tensor_that_became_a_leaf_is_differentiated():
    f = ft.jit(step)
    params, rate = arguments()
    called(f, params, rate)
    params["w"].requires_grad_()
    assert f._last.guard((params, rate), {}) is not UNLIKE
    f(params, rate)[0]["w"].sum().backward()
    assert params["w"].grad.tolist() == [0.5, 0.5]


def test_memory_of_an_array_is_read_at_every_call():
    f = ft.jit(step)
    array = numpy.ones(2, "float32")
    params = {"w": torch.from_numpy(array), "kept": torch.zeros(3)}
    assert called(f, params, torch.tensor(0.5))[1] == 2
    array[0] = 5
    assert f(params, torch.tensor(0.5))[1] == 6


def test_writes_in_place_are_seen():
    f = ft.jit(step)
    params, rate = arguments()
    called(f, params, rate)
    row = torch.ones(2, 2)
    params["w"] = row[0]
    row.fill_(4)
    assert f(params, rate)[1] == 8


def test_donated_tensors_have_no_guard():
    f = ft.jit(lambda x: x + 1, donate_argnums=0)
    x = torch.ones(2)
    assert called(f, x).tolist() == [2.0, 2.0]
    assert f._last.guard is unguarded
    assert x.tolist() == [1.0, 1.0]


def test_a_step_of_a_module_is_answered_by_a_guard():
    model = torch.nn.Linear(2, 1)
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params, x):
        return torch.func.functional_call(model, params, (x,)).square().mean()

    f = ft.jit(lambda p, x: {k: p[k] - 0.1 * g for k, g in ft.grad(loss)(p, x).items()})
    x = torch.ones(4, 2)
    eager = ft.grad(loss)(params, x)
    for name, value in called(f, params, x).items():
        numpy.testing.assert_allclose(
            numpy.asarray(value), numpy.asarray(params[name] - 0.1 * eager[name]), rtol=1e-6
        )
    assert f._last.guard((params, x), {}) is not UNLIKE
