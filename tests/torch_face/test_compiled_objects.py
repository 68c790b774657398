"""`torch.compile`: objects among the arguments, whose attributes change between calls."""

import types
import warnings

import pytest

import functensor.torch as torch
from functensor.torch import nn


class Scaling:
    def __init__(self):
        self.by = 2.0
        self.shift = torch.zeros(2)
        self.calls = 0

    def __call__(self, x):
        return x * self.by + self.shift

    @torch.compile
    def compiled(self, x):
        return self(x)

    @torch.compile
    def counted(self, x):
        self.calls += 1
        return x * self.calls


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = 2.0
        self.register_buffer("shift", torch.zeros(2))

    def forward(self, x):
        return x * self.by + self.shift


class Taking(nn.Module):
    def forward(self, x, scaling):
        return x * scaling.by + scaling.shift


def apply(x, scaling):
    return x * scaling.by + scaling.shift


def apply_first(x, group):
    return apply(x, group[0])


# What makes the objects, what is compiled, and how it is called.
CALLS = {
    "a method": (Scaling, lambda: Scaling.compiled, lambda call, x, scaling: call(scaling, x)),
    "an argument": (Scaling, lambda: apply, lambda call, x, scaling: call(x, scaling)),
    "in a list": (Scaling, lambda: apply_first, lambda call, x, scaling: call(x, [scaling])),
    "by name": (Scaling, lambda: apply, lambda call, x, scaling: call(x, scaling=scaling)),
    "a module": (Module, lambda: apply, lambda call, x, scaling: call(x, scaling)),
    "of a module": (Scaling, Taking, lambda call, x, scaling: call(x, scaling)),
    "without a hash": (
        lambda: types.SimpleNamespace(by=2.0, shift=torch.zeros(2)),
        lambda: apply,
        lambda call, x, scaling: call(x, scaling),
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CALLS)
def test_changed_attributes_are_seen(name):
    make, function, run = CALLS[name]
    call = function()
    if name != "a method":
        call = torch.compile(call)
    changed, other = make(), make()
    x = torch.ones(2)
    for step in range(4):
        for _ in range(4):
            assert torch.equal(run(call, x, changed), apply(x, changed))
            assert torch.equal(run(call, x, other), x * 2)
        if step % 2:
            changed.shift.add_(1)
        else:
            changed.by = float(step)


def test_attributes_that_calls_change():
    scaling = Scaling()
    with pytest.warns(UserWarning, match="changes values beside its arguments"):
        found = [scaling.counted(torch.ones(1)).item() for _ in range(5)]
    assert (found, scaling.calls) == ([1, 2, 3, 4, 5], 5)


@pytest.mark.parametrize("of_module", [False, True])
def test_attributes_that_change_with_every_call(of_module):
    scaling = Scaling()
    call = torch.compile(Taking() if of_module else apply)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in range(40):
            scaling.by = float(step)
            assert call(torch.ones(2), scaling).tolist() == [step, step]
    assert ["has changed again and again" in str(w.message) for w in told] == [True]


def test_attributes_are_assigned_to_the_module_that_is_compiled():
    class Scaling(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = 1.0
            self.register_buffer("shift", torch.zeros(1))

        def forward(self, x):
            return x * self.by + self.shift

    net = Scaling()
    compiled = torch.compile(net, fullgraph=True)
    assert compiled(torch.ones(1)).item() == 1
    compiled.by, compiled.shift, compiled.new = 3.0, torch.ones(1), nn.Linear(1, 1)
    assert compiled(torch.ones(1)).item() == net(torch.ones(1)).item() == 4
    assert [*compiled.state_dict()] == [f"_orig_mod.{name}" for name in net.state_dict()]
    del compiled.new
    assert not hasattr(net, "new")
    net.eval()
    assert compiled.training is False
    compiled.train()
    assert net.training is True
    compiled.training = False
    assert net.training is False
