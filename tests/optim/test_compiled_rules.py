"""Updates of optimizers that run as plans: same bits as over NumPy, one plan a step."""

import itertools

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor import optim
from functensor.backends.restoring import setting
from functensor.optim import compiled_rules
from functensor.optim.compiled_rules import CompiledRule

TABLE = {
    "sgd": optim.sgd,
    "momentum": optim.momentum,
    "nesterov": lambda lr: optim.momentum(lr, nesterov=True),
    "adam": optim.adam,
    "adamw": lambda lr: optim.adamw(lr, weight_decay=1e-2),
    "amsgrad": optim.amsgrad,
    "adamax": optim.adamax,
    "nadam": optim.nadam,
    "radam": optim.radam,
    "adagrad": optim.adagrad,
    "adadelta": optim.adadelta,
    "rmsprop": optim.rmsprop,
    "lion": optim.lion,
    "rprop": optim.rprop,
    "decaying": lambda lr: optim.with_weight_decay(optim.adam(lr), 0.1),
}


def compiling_rules():
    """Makes updates run as plans from the first one on, within a block."""
    return setting(compiled_rules.at_once, wanted=True)


@pytest.fixture
def runs(monkeypatch):
    """The numbers of parameters of the updates that ran as plans."""
    seen = []
    run, on_buffers = CompiledRule.__call__, CompiledRule.on_buffers

    def counted(self, columns, numbers):
        seen.append(len(columns[0]))
        return run(self, columns, numbers)

    def counted_once(self, kind, columns, numbers):
        before = len(seen)
        out = on_buffers(self, kind, columns, numbers)
        # The first call of a kind is one of arrays, too.
        seen[before:] = [len(columns[0])]
        return out

    monkeypatch.setattr(CompiledRule, "__call__", counted)
    monkeypatch.setattr(CompiledRule, "on_buffers", counted_once)
    return seen


def trained(optimizer, dtype, steps=12):
    rng = numpy.random.default_rng(0)
    params = [ft.numpy.array(rng.normal(size=s).astype(dtype)) for s in ((30, 7), (7,), ())]
    state = optimizer.init(params)
    for _ in range(steps):
        grads = [ft.numpy.array(rng.normal(size=p.shape).astype(dtype)) for p in params]
        params, state = optimizer.update(params, state, grads)
    return ft.tree.leaves((params, state))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_a_plan_updates_as_numpy_does(name, dtype, runs, monkeypatch):
    # However busy the machine is, updates over NumPy become no plans.
    monkeypatch.setattr(optim.optimizer, "perf_counter", lambda: 0.0)
    by_numpy = trained(TABLE[name](lambda step: 0.01 / (1 + step)), dtype)
    assert not runs
    with compiling_rules():
        planned = trained(TABLE[name](lambda step: 0.01 / (1 + step)), dtype)
    assert runs == [3] * 12
    for x, y in zip(by_numpy, planned, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        numpy.testing.assert_array_equal(numpy.asarray(x), numpy.asarray(y))


def test_updates_become_plans_once_they_have_taken_a_while(runs, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(optim.optimizer, "perf_counter", lambda: next(ticks) / 64)
    monkeypatch.setattr(compiled_rules, "SECONDS_BEFORE_STAGING", 4 / 64)
    trained(optim.adam(0.1), "float32", 12)
    assert len(runs) == 12 - 4


def test_lists_of_many_kinds_are_not_all_staged(runs):
    optimizer = optim.sgd(0.1)
    most = compiled_rules.MOST_KNOWN_SHAPES
    # Those that have plans keep them when others come.
    with compiling_rules():
        for size in [*range(1, 2 * most), 1]:
            x = ft.numpy.ones(size)
            optimizer.update(x, optimizer.init(x), x)
    assert len(runs) == most + 1


@pytest.mark.parametrize("case", ["half", "complex", "integers", "transposed", "disabled"])
def test_what_plans_leave_to_numpy(case, runs):
    x = ft.numpy.array(numpy.ones((3, 2), {"half": "e", "complex": "F"}.get(case, "f")))
    x = numpy.arange(3) if case == "integers" else x.T if case == "transposed" else x
    optimizer = optim.adam(0.1)
    with compiling_rules(), ft.disable_jit(case == "disabled"):
        out, state = optimizer.update(x, optimizer.init(x), x)
    assert not runs
    assert out.dtype == x.dtype
    assert int(state.step) == 1


def test_gradients_of_another_dtype_or_shape_are_left_to_numpy(runs):
    x = ft.numpy.ones(3, "float32")
    optimizer = optim.sgd(0.1)
    with compiling_rules():
        out, _ = optimizer.update([x], optimizer.init([x]), [ft.numpy.ones(3)])
        with pytest.raises(ValueError, match="its gradient"):
            optimizer.update([x], optimizer.init([x]), [ft.numpy.ones((3, 1), "float32")])
    assert out[0].dtype == "float32"
    assert not runs


@pytest.mark.parametrize("what", ["raise", "call"])
def test_errors_that_numpy_is_told_to_raise(what, runs):
    optimizer, x, seen = optim.adam(0.1), ft.numpy.ones(3, "f"), []
    state, g = optimizer.init(x), ft.numpy.full(3, 1e30, "f")
    with compiling_rules(), numpy.errstate(all=what, call=lambda *args: seen.append(args[0])):
        if what == "raise":
            with pytest.raises(FloatingPointError, match="overflow"):
                optimizer.update(x, state, g)
        else:
            optimizer.update(x, state, g)
            assert seen[0] == "overflow"
    assert not runs


def scalar_steps(step_of):
    parameters = [torch.tensor(numpy.full(s, 2.0, "f"), requires_grad=True) for s in ((5, 3), (3,))]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    step = step_of(optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        sum([(p * p).sum() for p in parameters]).backward()
        step()
    return parameters, optimizer


def test_a_compiled_step_of_tensors_is_one_plan(runs):
    eager, one = scalar_steps(lambda optimizer: optimizer.step)
    assert not runs
    compiled, other = scalar_steps(lambda optimizer: torch.compile(optimizer.step))
    assert runs == [2] * 5
    for p, q in zip(eager, compiled, strict=True):
        assert torch.equal(p, q)
        assert p._version == q._version == 5
        for name, slot in one.state[p].items():
            numpy.testing.assert_array_equal(slot, other.state[q][name])


def test_a_compiled_step_takes_new_rates(runs):
    x = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=1.0)
    step = torch.compile(optimizer.step)
    for rate in (1.0, 0.25, 0.125):
        optimizer.param_groups[0]["lr"] = rate
        x.grad = torch.ones(1)
        step()
    assert x.item() == 1 - 1.375
    assert len(runs) == 3


def test_earlier_values_stay_after_a_compiled_step():
    x = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.5)
    step = torch.compile(optimizer.step)
    x.grad = torch.ones(4)
    step()
    before = x.detach().clone(), x.grad, optimizer.state[x]["exp_avg"].clone()
    kept = [numpy.array(v) for v in before]
    step()
    for old, value in zip(kept, before, strict=True):
        numpy.testing.assert_array_equal(old, numpy.asarray(value))


def test_a_step_runs_the_plan_on_buffers_once_it_is_there(monkeypatch):
    calls = []
    run = CompiledRule.__call__

    def noted(self, columns, numbers):
        calls.append(numbers)
        return run(self, columns, numbers)

    monkeypatch.setattr(CompiledRule, "__call__", noted)
    eager, _ = scalar_steps(lambda optimizer: optimizer.step)
    planned, optimizer = scalar_steps(lambda optimizer: torch.compile(optimizer.step))
    assert len(calls) == 1
    for x, y in zip(eager, planned, strict=True):
        numpy.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())
    # Other choices have plans of their own.
    with compiling_rules(), ft.config.using(matmul_precision="tf32"):
        optimizer.step()
        optimizer.step()
    assert len(calls) == 2


def test_planned_steps_are_seen_through_views():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.5)
    step = torch.compile(optimizer.step)
    x.grad = torch.ones(2, 2)
    step()
    row, mean = x.detach()[1], optimizer.state[x]["exp_avg"]
    column, version = mean[:, 0], x._version
    x.grad = torch.full((2, 2), 2.0)
    step()
    assert x._version == version + 1
    assert row.tolist() == x[1].tolist() != [2.5, 3.5]
    assert column.tolist() == mean[:, 0].tolist()
    # What is written through a view, the next step goes on from.
    with torch.no_grad():
        row.fill_(8.0)
        column.zero_()
    before, moved = x.tolist(), mean.tolist()
    x.grad = torch.zeros(2, 2)
    step()
    assert before[1] == [8.0, 8.0]
    numpy.testing.assert_allclose(mean.numpy(), 0.9 * numpy.array(moved), rtol=1e-6)
    assert x[1, 0].item() == 8.0


def test_bytes_in_another_order_are_of_another_kind():
    rule = CompiledRule(lambda columns, numbers: columns)
    swapped = numpy.dtype("f4").newbyteorder()
    kinds = [rule.kind_of([[numpy.ones(3, dtype)]] * 2) for dtype in ("f4", swapped, "f4")]
    assert kinds[0] == kinds[2] != kinds[1]
