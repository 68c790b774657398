"""Optimizers and schedules by PyTorch's names go step by step as PyTorch's."""

import copy

import numpy
import pytest
from torch_face.optimizers import OPTIMIZERS, optimizer_outcomes
from torch_face.recorded import load, pytorchs

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch
from functensor.tensors import gradient_of

VERSION, RECORDED = load("optimizers")


def furthest(found, wanted):
    """Returns how far arrays are apart, relative to those wanted."""
    return max(float(numpy.max(abs(a - b) / (abs(b) + 1e-9))) for a, b in zip(found, wanted))


def tolerance(line):
    """Returns how far the steps of an optimizer may be from PyTorch's."""
    # PyTorch keeps the product of NAdam's momenta in single precision. Muon's products are rounded
    # to eight bits: where a machine sums in another order, one may be rounded the other way.
    return {"NAdam": 1e-8, "Muon": 1e-2}.get(line.partition("(")[0], 1e-9)


def test_all_are_recorded():
    assert set(OPTIMIZERS) == set(RECORDED)

# Each with options that add to its state or to its gradients.
OF_COMPLEX_NUMBERS = {
    "SGD": {"momentum": 0.5, "weight_decay": 0.1}, "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {}, "RMSprop": {"centered": True, "momentum": 0.5}, "Adagrad": {}, "Adadelta": {},
    "Adamax": {}, "NAdam": {}, "RAdam": {}, "Rprop": {}, "ASGD": {"t0": 2},
}  # fmt: skip


@pytest.mark.parametrize("line", OPTIMIZERS)
def test_steps_are_pytorchs(line):
    found, _ = optimizer_outcomes(torch, line)
    assert furthest(found, RECORDED[line][0]) < tolerance(line)


@pytest.mark.gpu
@pytest.mark.parametrize("line", OPTIMIZERS)
def test_steps_are_pytorchs_on_a_gpu(line):
    with ft.default_device("cuda"):
        found, _ = optimizer_outcomes(torch, line)
    assert furthest(found, RECORDED[line][0]) < tolerance(line)


def test_the_record_is_pytorchs():
    there = pytest.importorskip("torch")
    found = pytorchs(there, OPTIMIZERS, optimizer_outcomes)
    assert max(furthest(found[x][0], RECORDED[x][0]) for x in OPTIMIZERS) < 1e-12, VERSION


def leaf(value=1.0):
    return torch.tensor([value], requires_grad=True)


def descend(optimizer, x, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        (x * x * x).sum().backward()
        optimizer.step()


def test_a_state_goes_on_bit_by_bit():
    for make in (
        lambda x: torch.optim.SGD([x], lr=0.01, momentum=0.9),
        lambda x: torch.optim.AdamW([x], lr=0.01),
        lambda x: torch.optim.RMSprop([x], momentum=0.5, centered=True),
    ):
        x = leaf()
        optimizer = make(x)
        descend(optimizer, x, 5)
        y = torch.tensor(x.tolist(), requires_grad=True)
        other = make(y)
        other.load_state_dict(optimizer.state_dict())
        descend(optimizer, x, 5)
        descend(other, y, 5)
        assert x.tolist() == y.tolist()


def test_options_of_groups_may_be_changed():
    x, y = leaf(), leaf()
    one = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    one.param_groups[0]["lr"] = 0.01
    one.param_groups[0]["momentum"] = 0.5
    two = torch.optim.SGD([y], lr=0.01, momentum=0.5)
    descend(one, x, 4)
    descend(two, y, 4)
    assert x.tolist() == y.tolist()


def test_parameters_without_a_gradient_stay():
    x, y = leaf(), leaf()
    optimizer = torch.optim.Adam([{"params": [x]}, {"params": [y], "lr": 1.0}])
    descend(optimizer, x, 2)
    assert y.item() == 1
    assert x.item() < 1
    optimizer.zero_grad()
    with pytest.warns(ft.errors.MissingGradientWarning, match="no parameter has a gradient"):
        optimizer.step()
    assert y.item() == 1


def test_a_closure_is_called():
    x = leaf(3.0)
    optimizer = torch.optim.SGD([x], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9
    assert x.item() == pytest.approx(2.4)


def test_wrong_uses_say_what_is_right():
    x = leaf()
    with pytest.raises(TypeError, match="params is a list of tensors, not a tensor"):
        torch.optim.SGD(x, lr=0.1)
    with pytest.raises(ValueError, match="was given no parameters"):
        torch.optim.SGD([], lr=0.1)
    with pytest.raises(ValueError, match="a parameter is in two groups"):
        torch.optim.SGD([{"params": [x]}, {"params": [x]}], lr=0.1)
    with pytest.raises(ValueError, match="has no option 'momentun'"):
        torch.optim.SGD([{"params": [x], "momentun": 0.9}], lr=0.1)
    with pytest.raises(ValueError, match="lr is -1"):
        torch.optim.Adam([x], lr=-1)
    optimizer = torch.optim.Adam([x])
    with pytest.raises(ValueError, match=r"groups of \[2\] parameters, not of \[1\]"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})


def test_a_plateau_lowers_the_rate():
    optimizer = torch.optim.SGD([leaf()], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    rates = []
    for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0):
        schedule.step(loss)
        rates += schedule.get_last_lr()
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.5]


def test_a_plateau_of_groups_that_begins_with_nan():
    optimizer = torch.optim.SGD([{"params": [leaf()]}, {"params": [leaf()]}], lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    schedule = plateau(optimizer, patience=1, factor=0.5, min_lr=[0.75, 0.0])
    for loss in (float("nan"), 3.0, 2.0, 1.0):
        schedule.step(loss)
    assert schedule.get_last_lr() == [1, 1]
    for loss in (1.0, 1.0):
        schedule.step(loss)
    assert schedule.get_last_lr() == [0.75, 0.5]
    with pytest.raises(ValueError, match="min_lr has 1 rates for 2 groups"):
        plateau(optimizer, min_lr=[0.1])
    with pytest.raises(ValueError, match="it must be below 1"):
        plateau(optimizer, factor=1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ft.optim.rmsprop(0.01, momentum=0.5, centered=True),
        lambda: ft.optim.adadelta(0.5),
        lambda: ft.optim.momentum(0.01, 0.9, dampening=0.3),
        lambda: ft.optim.with_weight_decay(ft.optim.adam(0.01), 0.1),
        lambda: ft.optim.maximized(ft.optim.sgd(0.01)),
        lambda: ft.optim.amsgrad(0.01, weight_decay=0.1),
        lambda: ft.optim.adamax(0.01),
        lambda: ft.optim.nadam(0.01),
        lambda: ft.optim.radam(0.01, b2=0.9),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pure_optimizers_are_the_same_under_jit_and_vmap(make, dtype):
    optimizer = make()
    start = np.array([[1.0, -2.0], [0.5, 3.0]], dtype=dtype)

    def train(x):
        state = optimizer.init(x)
        for _ in range(6):
            x, state = optimizer.update(x, state, np.cos(x))
        return x

    found = train(start)
    assert found.dtype == dtype
    numpy.testing.assert_allclose(ft.jit(train)(start), found, rtol=1e-5)
    numpy.testing.assert_allclose(ft.vmap(train)(start), found, rtol=1e-5)


def test_a_state_has_pytorchs_names():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.1, amsgrad=True)
    assert optimizer.state_dict()["state"] == {}
    descend(optimizer, x, 3)
    saved = optimizer.state_dict()
    names = ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert list(saved["state"][0]) == names
    assert saved["state"][0]["step"].item() == 3
    assert list(optimizer.state[x]) == names
    assert saved["param_groups"][0]["params"] == [0]
    wrong = {**saved, "state": {0: {"step": 1, "momentum_buffer": torch.zeros(2)}}}
    with pytest.raises(ValueError, match="parameter 0 has no 'momentum_buffer'"):
        optimizer.load_state_dict(wrong)
    wrong = {**saved, "state": {0: {"exp_avg": torch.zeros(3)}}}
    with pytest.raises(ValueError, match=r"'exp_avg' of parameter 0 has the shape \(3,\), not"):
        optimizer.load_state_dict(wrong)


def test_a_velocity_of_pytorchs_goes_on():
    x, y = leaf(), leaf()
    one = torch.optim.SGD([x], lr=0.01, momentum=0.9, dampening=0.5)
    descend(one, x, 2)
    two = torch.optim.SGD([y], lr=0.01, momentum=0.9, dampening=0.5)
    two.load_state_dict(one.state_dict())
    with torch.no_grad():
        y.copy_(x)
    descend(one, x, 2)
    descend(two, y, 2)
    assert x.tolist() == y.tolist()


def test_momentum_may_begin_later():
    x = leaf()
    optimizer = torch.optim.SGD([x], lr=0.01)
    descend(optimizer, x, 1)
    optimizer.param_groups[0]["momentum"] = 0.9
    descend(optimizer, x, 2)
    assert list(optimizer.state[x]) == ["momentum_buffer"]


def test_schedules_refuse_what_they_cannot_do():
    schedules = torch.optim.lr_scheduler
    optimizer = torch.optim.Adagrad([leaf()])
    with pytest.raises(ValueError, match="has no momentum; give cycle_momentum=False"):
        schedules.OneCycleLR(optimizer, 0.1, total_steps=10)
    with pytest.raises(ValueError, match="give total_steps, or epochs and steps_per_epoch"):
        schedules.OneCycleLR(optimizer, 0.1, cycle_momentum=False)
    cycle = schedules.OneCycleLR(optimizer, 0.1, total_steps=2, cycle_momentum=False)
    cycle.step()
    cycle.step()
    with pytest.raises(ValueError, match="step 3 of a cycle of 2 steps"):
        cycle.step()
    with pytest.raises(ValueError, match="mode is one of triangular, triangular2, exp_range"):
        schedules.CyclicLR(optimizer, 0.1, 0.2, mode="round", cycle_momentum=False)
    other = schedules.StepLR(torch.optim.Adagrad([leaf()]), 1)
    with pytest.raises(ValueError, match="the schedules are of several optimizers"):
        schedules.ChainedScheduler([schedules.StepLR(optimizer, 1), other])


def test_schedules_go_on_where_they_were():
    def made():
        optimizer = torch.optim.SGD([leaf()], lr=1.0)
        schedules = torch.optim.lr_scheduler
        return schedules.ChainedScheduler(
            [schedules.ExponentialLR(optimizer, 0.9), schedules.StepLR(optimizer, 3, 0.5)]
        )

    schedule = made()
    for _ in range(4):
        schedule.step()
    other = made()
    other.load_state_dict(schedule.state_dict())
    schedule.step()
    other.step()
    assert schedule.get_last_lr() == other.get_last_lr() == [pytest.approx(0.9**5 * 0.5)]


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, ft.optim.MomentumSGD])
def test_a_copied_optimizer_has_its_own_rate(make):
    x = leaf()
    optimizer = make([x], lr=0.5)
    copied = copy.deepcopy(optimizer)
    groups = getattr(copied, "param_groups", None)
    (y,) = groups[0]["params"] if groups else copied.params
    x.grad, y.grad = torch.ones_like(x), torch.ones_like(y)
    if groups:
        groups[0]["lr"] = 0.25
    else:
        copied.lr = 0.25
    before = y.detach().clone()
    copied.step()
    assert torch.allclose(before - y.detach(), torch.full_like(y, 0.25))
    assert torch.equal(x.detach(), before)
    optimizer.step()
    assert torch.allclose(before - x.detach(), torch.full_like(x, 0.5))


@pytest.mark.parametrize("name", OF_COMPLEX_NUMBERS)
def test_complex_parameters_are_pairs_of_real_ones(name):
    start = numpy.array([[1.0 - 2.0j, 0.5j], [-0.3 + 0.1j, 2.0 + 0.0j]])

    def trained(as_complex):
        x = torch.tensor(start)
        p = (x if as_complex else torch.view_as_real(x)).clone().requires_grad_()
        optimizer = getattr(torch.optim, name)([p], lr=0.05, **OF_COMPLEX_NUMBERS[name])
        for step in range(6):
            if step == 3:
                state = optimizer.state_dict()
                optimizer = getattr(torch.optim, name)([p], lr=0.05, **OF_COMPLEX_NUMBERS[name])
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            z = p if as_complex else torch.view_as_complex(p)
            ((z - 1j) * (z - 1j).conj() * (1 + 0.2 * z.real**2)).real.sum().backward()
            optimizer.step()
        moments = [x for key, x in optimizer.state[p].items() if key != "step" and x.shape]
        assert all(x.shape == p.shape and x.dtype == p.dtype for x in moments)
        return (torch.view_as_real(p) if as_complex else p).detach().numpy()

    numpy.testing.assert_array_equal(trained(True), trained(False))


def test_gradients_are_set_to_zeros():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert gradient_of(p) is None


def test_a_plateau_is_a_schedule():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    assert isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
    with pytest.raises(NotImplementedError, match="get_last_lr"):
        schedule.get_lr()


def test_a_count_that_was_set_to_zero_is_counted_on_without_operations(monkeypatch):
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([w])

    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    step()
    count = optimizer.state[w]["step"]
    count.zero_()
    monkeypatch.setattr(type(count), "_spread", None)
    step()
    seen = count.view(1)
    step()
    assert optimizer.state[w]["step"] is count
    assert (count.item(), seen.tolist()) == (2.0, [2.0])
