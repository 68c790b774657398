"""L-BFGS by PyTorch's name goes as PyTorch's, and what its optimizers refuse."""

import numpy
import pytest
from torch_face.lbfgs_runs import RECORD, RUNS, made, run

import functensor.torch as torch

with numpy.load(RECORD) as file:
    RECORDED = {name: file[name] for name in RUNS}


@pytest.mark.parametrize("name", RUNS)
def test_losses_and_steps_are_pytorchs(name):
    found = run(torch, RUNS[name])
    numpy.testing.assert_allclose(found, RECORDED[name], rtol=1e-7, atol=1e-9)


def test_a_line_search_in_rosenbrocks_valley():
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    options = {"max_iter": 60, "tolerance_change": 1e-15, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([x], **options)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(24.2)
    assert closure().item() < 1e-12
    assert optimizer.state[x]["func_evals"] < 75


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_loss_without_a_value_is_no_fall():
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([x], lr=10, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (x - 2 * x.log()).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    # The step ends where the loss, flat at its minimum, changes by less than 1e-9.
    assert x.item() == pytest.approx(2, abs=1e-4)


@pytest.mark.parametrize("name", ["plain", "searching"])
def test_a_state_goes_on(name):
    params, optimizer, closure, _ = made(torch, RUNS[name])
    others, other, again, _ = made(torch, RUNS[name])
    for _ in range(2):
        optimizer.step(closure)
    with torch.no_grad():
        for x, y in zip(params, others, strict=True):
            y.copy_(x)
    other.load_state_dict(optimizer.state_dict())
    optimizer.step(closure)
    other.step(again)
    assert [x.tolist() for x in params] == [y.tolist() for y in others]
    with pytest.raises(ValueError, match=r"groups of \[1\] parameters, not of \[2\]"):
        other.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})


def test_wrong_uses_of_lbfgs():
    x = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"(?s)was given no closure.*optimizer\.step\(closure\)"):
        torch.optim.LBFGS([x]).step()
    with pytest.raises(ValueError, match="line_search_fn is 'wolfe'; it is 'strong_wolfe' or"):
        torch.optim.LBFGS([x], line_search_fn="wolfe")
    y = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="LBFGS: it takes one group of parameters"):
        torch.optim.LBFGS([{"params": [x]}, {"params": [y]}])


NAMES = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta"]


@pytest.mark.parametrize("name", NAMES)
def test_differentiable_steps_are_refused(name):
    x = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match=f"{name}: differentiable=True is not here"):
        getattr(torch.optim, name)([x], differentiable=True)


def test_no_history_is_kept_where_none_is_wanted():
    params, optimizer, closure, _ = made(torch, {"history_size": 0, "lr": 0.1, "max_iter": 4})
    optimizer.step(closure)
    memory = optimizer.state[params[0]]
    assert memory["n_iter"] == 4
    assert [memory[name] for name in ("old_dirs", "old_stps", "ro")] == [[], [], []]
