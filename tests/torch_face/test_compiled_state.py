"""`torch.compile`: what plans read beside their arguments is changed between calls."""

import sys
import threading
import types
import warnings
from argparse import Namespace
from dataclasses import dataclass
from queue import SimpleQueue

import pytest

import functensor as ft
import functensor.torch as torch
from functensor.torch import nn

SCALE = 2.0
TABLE = {"double": True}


class Net(nn.Module):
    factor = 1.0

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.drop = nn.Dropout(0.0)
        self.scale = 1.0
        self.offset = torch.zeros(4)
        self.powers = [1, 2]
        self.tensors = {"by": torch.ones(4)}
        self.config = Namespace(bias=1.0, inner=types.SimpleNamespace(flag=False))
        self.epoch = 0
        self.register_buffer("mean", torch.zeros(4))
        self.hidden = torch.zeros(4)

    def forward(self, x):
        y = self.drop(self.act(self.first(x))) * self.scale * self.factor + self.offset
        y = sum(y**p for p in self.powers) * self.tensors["by"] + self.config.bias
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * y.mean(0).detach()
        self.hidden = (self.hidden + y.sum(0)).detach()
        return y if not self.config.inner.flag else -y


def doubled(module, args, out):
    return out * SCALE


def doubled_activation(module, args, out):
    return 2 * out if isinstance(module, nn.ReLU) else None


def change_global(net):
    global SCALE
    SCALE = 5.0 if SCALE == 2.0 else 2.0


def change_table(net):
    TABLE["double"] = not TABLE["double"]


CHANGES = {
    "a number": lambda net: setattr(net, "scale", 3.0),
    "a number's type": lambda net: setattr(net, "scale", True),
    "the sign of zero": lambda net: setattr(net, "scale", -0.0),
    "a submodule": lambda net: setattr(net, "act", nn.Tanh()),
    "an option of a submodule": lambda net: setattr(net.drop, "p", 1.0),
    "a hook": lambda net: net.act.register_forward_hook(doubled),
    "a hook that goes": lambda net: net.first.register_forward_hook(doubled).remove(),
    "a hook before": lambda net: net.register_forward_pre_hook(lambda m, args: (2 * args[0],)),
    "a hook of all": lambda net: net.handles.append(
        nn.modules.module.register_module_forward_hook(doubled_activation)
    ),
    "a tensor": lambda net: setattr(net, "offset", torch.ones(4)),
    "a tensor in place": lambda net: net.offset.add_(2),
    "a list": lambda net: net.powers.append(3),
    "a tensor in a dictionary": lambda net: net.tensors.update(by=torch.zeros(4)),
    "settings": lambda net: setattr(net.config, "bias", -1.0),
    "settings within": lambda net: setattr(net.config.inner, "flag", True),
    "a method": lambda net: setattr(net, "forward", lambda x: net.first(x)),
    "an attribute of the class": lambda net: setattr(Net, "factor", 7.0),
    "a parameter": lambda net: setattr(net.first, "bias", None),
    "a state": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    "what nothing reads": lambda net: setattr(net, "epoch", net.epoch + 1),
    "a frozen parameter": lambda net: net.first.weight.requires_grad_(False),
    "a new name": lambda net: setattr(net, "factor", 4.0),
    "a name that goes": lambda net: delattr(net, "scale") or setattr(type(net), "scale", 9.0),
    "evaluation": lambda net: net.eval(),
    "a dtype": lambda net: net.double(),
}


def run(change, compiles):
    net = Net()
    net.handles = []
    if compiles == "in place":
        net.compile()
    call = torch.compile(net) if compiles is True else net
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    found = []
    try:
        for step in range(6):
            if step == 3:
                change(net)
            given = x.to(net.first.weight.dtype)
            out = call(given)
            if out.requires_grad:
                out.sum().backward()
            grads = [p.grad is not None and p.grad.tolist() for p in net.parameters()]
            found.append((out.tolist(), out.requires_grad, grads, net.mean.tolist()))
            found.append(net.hidden.tolist())
            net.zero_grad()
    finally:
        for handle in net.handles:
            handle.remove()
        Net.factor = 1.0
        if "scale" in vars(Net):
            del Net.scale
    return found


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("compiles", [True, "in place"])
def test_a_change_between_calls_is_seen(name, compiles):
    found, wanted = run(CHANGES[name], compiles), run(CHANGES[name], False)
    torch.testing.assert_close(found, wanted)


def test_an_attribute_that_nothing_reads_makes_no_other_plan():
    staged = SimpleQueue()

    class Telling(Net):
        def forward(self, x):
            staged.put(1)
            return super().forward(x)

    net = Telling()
    compiled = torch.compile(net, fullgraph=True)
    for epoch in range(40):
        net.epoch = epoch
        compiled(torch.ones(2, 4))
    assert staged.qsize() == 1
    for scale in 3 * [2.0, 3.0]:
        net.scale = scale
        compiled(torch.ones(2, 4))
    assert staged.qsize() == 3


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = []
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(3)
        return x * self.mask


class Keeping(Counting):
    def forward(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        return x * self.calls


def test_what_a_call_fills_once_is_filled_once():
    net = Counting()
    compiled = torch.compile(net, fullgraph=True)
    for i in range(4):
        assert compiled(torch.ones(3)).tolist() == [1 + (i == 3)] * 3
        if i == 2:
            net.mask.add_(1)


def test_a_module_that_changes_itself_runs_as_it_is():
    net = Keeping()
    compiled = torch.compile(net)
    with pytest.warns(UserWarning, match="Keeping runs as it is"):
        found = [compiled(torch.ones(1)).item() for _ in range(5)]
    assert found == net.seen == [1, 2, 3, 4, 5]


def test_an_attribute_that_changes_again_and_again_ends_plans():
    net = Net()
    compiled = torch.compile(net)
    x = torch.ones(2, 4)

    def with_scale(scale):
        net.scale = scale
        return torch.equal(compiled(x), net(x))

    with pytest.warns(UserWarning, match=r"Net\.scale has changed again and again"):
        assert all(with_scale(float(step)) for step in range(20))


def test_a_plan_around_another_sees_what_that_read():
    inner = Net()
    outer = nn.Sequential(torch.compile(inner), nn.Linear(4, 1))
    compiled = torch.compile(outer)
    x = torch.ones(2, 4)
    inner(x)
    outer[0](x)
    for scale in (1.0, 2.0):
        inner.scale = scale
        for _ in range(3):
            assert torch.allclose(compiled(x), outer(x))


def scaled_by_globals(x):
    return x * SCALE * (2 if TABLE["double"] else 1)


@pytest.mark.parametrize("change", [change_global, change_table])
def test_globals_of_a_compiled_function(change):
    compiled = torch.compile(scaled_by_globals)
    through = torch.compile(lambda x: scaled_by_globals(x) + 1)
    x = torch.ones(2)
    for _ in range(2):
        for _ in range(3):
            assert torch.equal(compiled(x), scaled_by_globals(x))
            assert torch.equal(through(x), scaled_by_globals(x) + 1)
        change(None)


def test_what_a_compiled_function_closes_over():
    layer, weights, factor = nn.Linear(2, 1), torch.ones(2), 1.0

    @torch.compile
    def call(x):
        return layer(x * weights * factor)

    x = torch.ones(1, 2)
    with torch.no_grad():
        for change in (
            None,
            layer.weight.zero_,
            weights.zero_,
            lambda: setattr(weights, "data", torch.full((2,), 5.0)),
            lambda: layer.bias.fill_(3.0),
        ):
            if change:
                change()
            factor += 1
            for _ in range(3):
                assert torch.equal(call(x), layer(x * weights * factor))
    with warnings.catch_warnings(action="ignore"):
        call(x).sum().backward()
    assert layer.bias.grad.item() == 1


def test_a_compiled_method_sees_its_object():
    class Scaler:
        by = 1.0

        def scaled(self, x):
            return x * self.by

    scaler = Scaler()
    compiled = torch.compile(scaler.scaled)
    for by in (1.0, 2.0, 1.0):
        scaler.by = by
        assert compiled(torch.ones(1)).item() == by


def test_backward_hooks_are_parts_of_plans():
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        net[1].register_full_backward_hook(lambda module, grads, by_outputs: (3 * grads[0],))
        net[2].register_full_backward_pre_hook(lambda module, grads: (2 * grads[0],))
        call = torch.compile(net, fullgraph=True) if compiles else net
        for scale in (1.0, 2.0, 3.0):
            call(torch.full((2, 2), scale)).sum().backward()
        found.append([p.grad.tolist() for p in net.parameters()])
    torch.testing.assert_close(found[1], found[0])


def test_whether_a_parameter_requires_grad_is_not_guessed():
    class Asking(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (2 if self.weight.requires_grad else 3)

    net = Asking(2, 1)
    compiled = torch.compile(net)
    x = torch.ones(1, 2)
    with pytest.warns(UserWarning, match="it asks for requires_grad"):
        assert torch.equal(compiled(x), net(x))
    net.weight.requires_grad_(False)
    assert torch.equal(compiled(x), net(x))


SETTINGS = types.ModuleType("settings_of_a_test")


class Options:
    base = 1.0

    def __call__(self, x):
        return x * self.base + SCALE

    @property
    def scale(self):
        return SCALE


@dataclass(slots=True)
class SlottedOptions:
    scale: float = 1.0


def importing(x):
    from settings_of_a_test import scale

    return x * scale


options, slotted_options = Options(), SlottedOptions()
READS = {
    "a class": lambda x: x * Options.base,
    "an attribute of the class": lambda x: x * options.base,
    "what a method reads": lambda x: options(x),
    "what a property reads": lambda x: x * options.scale,
    "a slot": lambda x: x * slotted_options.scale,
    "a module": lambda x: x * SETTINGS.scale,
    "a module that it imports": importing,
    "what a module's method reads": nn.Sequential(nn.Identity()),
}


@pytest.mark.parametrize("name", READS)
def test_classes_modules_and_slots(name, monkeypatch):
    class Reader(nn.Module):
        def forward(self, x):
            return READS[name](x)

    monkeypatch.setattr(SETTINGS, "scale", 1.0, raising=False)
    monkeypatch.setitem(sys.modules, SETTINGS.__name__, SETTINGS)
    through = Reader()
    functions = READS[name], through, lambda x: through(x)
    compiled = [torch.compile(function, fullgraph=True) for function in functions]
    x = torch.ones(2)
    for scale in (1.0, 2.0, 3.0):
        monkeypatch.setattr(Options, "base", scale)
        monkeypatch.setattr(SETTINGS, "scale", scale)
        monkeypatch.setitem(globals(), "SCALE", scale)
        monkeypatch.setattr(slotted_options, "scale", scale)
        for _ in range(3):
            assert [call(x).tolist() for call in compiled] == 3 * [READS[name](x).tolist()]


def test_a_function_that_gets_other_code():
    def given(x):
        return 2 * x

    compiled = torch.compile(given)
    assert compiled(torch.ones(1)).item() == 2
    given.__code__ = (lambda x: 3 * x).__code__
    assert compiled(torch.ones(1)).item() == 3


class Kinds(nn.Module):
    by = 1.0

    @classmethod
    def factor(cls):
        return cls.by

    def forward(self, x):
        return x * type(self).by * self.factor()


def test_attributes_that_a_module_reads_of_its_class(monkeypatch):
    net = Kinds()
    compiled = torch.compile(net, fullgraph=True)
    for by in (1.0, 2.0, 3.0):
        monkeypatch.setattr(Kinds, "by", by)
        for _ in range(3):
            assert compiled(torch.ones(1)).item() == by * by


class Scaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = 1.0
        self.register_buffer("weight", torch.ones(1))

    def forward(self, x):
        return self.scaled(x)

    def scaled(self, x):
        return x * self.by * self.weight

    decorated = torch.compile(scaled, fullgraph=True)


def scaled_by(scaler, x):
    return scaler.scaled(x)


ARGUMENTS = {
    "an argument": lambda compiled, scaler, x: compiled(scaler, x),
    "in a list": lambda compiled, scaler, x: compiled([scaler], x),
    "in a dictionary": lambda compiled, scaler, x: compiled({"scaler": scaler}, x),
    "by its name": lambda compiled, scaler, x: compiled(x=x, scaler=scaler),
    "a module's": lambda compiled, scaler, x: compiled(scaler, x),
    "a method's": lambda compiled, scaler, x: scaler.decorated(x),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_objects_among_arguments_may_change(name):
    class Calling(nn.Module):
        def forward(self, scaler, x):
            return scaler.scaled(x)

    def call(scaler, x):
        inner = scaler[0] if isinstance(scaler, list) else scaler
        return scaled_by(inner["scaler"] if isinstance(inner, dict) else inner, x)

    compiled = torch.compile(Calling() if name == "a module's" else call, fullgraph=True)
    scalers, x = [Scaler() for _ in range(3)], torch.ones(1)
    for by in (1.0, 2.0, 3.0):
        for scaler in scalers:
            scaler.by = by
            scaler.weight.add_(1)
        for scaler in 3 * scalers:
            found = ARGUMENTS[name](compiled, scaler, x)
            assert found.item() == by * scaler.weight.item() == by * (1 + by)


def test_many_objects_that_stay_end_no_plans():
    compiled = torch.compile(scaled_by)
    with warnings.catch_warnings(action="error"):
        for scaler in 3 * [Scaler() for _ in range(18)]:
            assert compiled(scaler, torch.ones(1)).item() == 1


def test_transformations_of_compiled_modules_leave_nothing_behind():
    net = nn.Linear(2, 1)
    compiled = torch.compile(net)
    x = torch.ones(1, 2)

    def loss(values):
        return torch.func.functional_call(compiled, values, (x,)).sum()

    values = {f"_orig_mod.{name}": p.detach() for name, p in net.named_parameters()}
    with ft.config.using(check_tracer_leaks=True):
        for _ in range(3):
            grads = torch.func.grad(loss)(values)
    assert grads["_orig_mod.weight"].tolist() == [[1, 1]]
    assert torch.equal(compiled(x), net(x))


def cyclic():
    several, named = [], {}
    several += [several, named, several]
    named["all"] = several
    return several


def deep():
    made = inner = []
    for _ in range(2000):
        inner.append([])
        inner = inner[0]
    return made


class Unwilling(list):
    def __len__(self):
        raise RuntimeError("no length")

    @property
    def __dict__(self):
        raise RuntimeError("no attributes")


@pytest.mark.parametrize("make", [cyclic, deep, Unwilling, threading.Lock])
def test_attributes_of_all_kinds_are_no_obstacle(make):
    net = nn.Linear(2, 1)
    net.held = make()
    held = net.held
    net.register_forward_hook(
        lambda module, args, out: out if module.held is None is held else out * 2
    )
    compiled = torch.compile(net, fullgraph=True)
    x = torch.ones(1, 2)
    for _ in range(3):
        assert torch.allclose(compiled(x), net(x))
    assert len(compiled._plan._states) == 1
