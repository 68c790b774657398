"""`torch.compile`: slots, classes, modules and functions that plans read, which change."""

import types

import pytest

import functensor.torch as torch
from functensor.torch import nn


class Slotted:
    __slots__ = ("by", "later")


class Settings:
    by = 2.0

    def grown(self, x):
        return x + 1


class Inner(Settings):
    pass


settings, slotted, own_module = Inner(), Slotted(), types.ModuleType("own_module")
own_module.inner = types.ModuleType("own_module.inner")
slotted.by = own_module.by = own_module.inner.by = 2.0


def with_default(x, by=2.0):
    return x * by


def put_code(x, by=2.0):
    return x - by


KINDS_OF_READS = {
    "a slot": (lambda x: x * slotted.by, slotted, "by", 3.0),
    "a slot that was empty": (lambda x: x * getattr(slotted, "later", 1.0), slotted, "later", 3.0),
    "a class": (lambda x: x * Inner.by, Settings, "by", 3.0),
    "an object's class": (lambda x: x * settings.by, Settings, "by", 3.0),
    "a name that hides another": (lambda x: x * settings.by, Inner, "by", 3.0),
    "a method": (lambda x: settings.grown(x), Settings, "grown", lambda self, x: x - 1),
    "a module": (lambda x: x * own_module.by, own_module, "by", 3.0),
    "a module in a module": (lambda x: x * own_module.inner.by, own_module.inner, "by", 3.0),
    "defaults": (with_default, with_default, "__defaults__", (3.0,)),
    "code": (with_default, with_default, "__code__", put_code.__code__),
}


@pytest.mark.parametrize("of_module", [False, True])
@pytest.mark.parametrize("name", KINDS_OF_READS)
def test_what_objects_classes_and_modules_have_is_seen(monkeypatch, name, of_module):
    read, owner, attribute, value = KINDS_OF_READS[name]

    class Reading(nn.Module):
        def forward(self, x):
            return read(x)

    call = torch.compile(Reading() if of_module else read, fullgraph=True)
    x = torch.ones(3)
    before = read(x)
    for _ in range(3):
        assert torch.equal(call(x), before)
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, value, raising=False)
        assert not torch.equal(read(x), before)
        for _ in range(3):
            assert torch.equal(call(x), read(x))
    assert torch.equal(call(x), before)


def test_attributes_of_a_modules_class_that_are_read_through_it_are_seen(monkeypatch):
    class Net(nn.Module):
        factor = 1.0

    class Through(Net):
        def forward(self, x):
            return x * type(self).factor * self.__class__.factor * super().factor

    net = Through()
    compiled = torch.compile(net, fullgraph=True)
    for owner, factor in ((Net, 2.0), (Through, 3.0), (Net, 4.0)):
        monkeypatch.setattr(owner, "factor", factor)
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(3)), net(torch.ones(3)))
