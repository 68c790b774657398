"""Views that are made at once are those of the primitives: values, graphs, writes and errors."""

import numpy as np
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.tensors import in_place, tape, views

VIEWS = {
    "view": lambda x: x.view(6, 4),
    "view of a tuple": lambda x: x.view((3, 8)),
    "view of nothing": lambda x: x[:0].view(0, 7),
    "view of a transpose": lambda x: x.transpose(0, 1).view(24),
    "reshape": lambda x: x.reshape(2, 12),
    "a copy": lambda x: x.transpose(0, 2).reshape(24),
    "transpose": lambda x: x.transpose(0, -1),
    "swapaxes": lambda x: x.swapaxes(-1, 1),
    "flat": lambda x: x.flatten(),
    "flat axes": lambda x: x.flatten(0, -2),
    "flat last axes": lambda x: x.flatten(1),
    "flat axes of a transpose": lambda x: x.transpose(0, 1).flatten(0, 1),
    "permute": lambda x: x.permute(2, 0, -2),
    "permute by a tuple": lambda x: x.permute((0, 2, 1)),
    "a slice": lambda x: x[1:, :, ::2],
    "a row": lambda x: x[-1],
    "an element": lambda x: x[1, 2, 3],
    "new axes": lambda x: x[None, ..., 0],
    "pieces": lambda x: x.split(3, dim=-1)[1],
}
# What goes the way through primitives.
LONG = {
    "an unknown length": lambda x: x.view(-1, 4),
    "numbers of NumPy": lambda x: x.view(np.int64(6), 4),
    "by name": lambda x: x.transpose(dim0=0, dim1=1),
    "a list": lambda x: x[[0, 1]],
}
WRONG = {
    "too many elements": lambda x: x.view(5, 5),
    "negative lengths": lambda x: x.view(-2, -12),
    "an axis twice": lambda x: x.permute(0, 1, 1),
    "an axis twice, from both ends": lambda x: x.permute(0, 1, -2),
    "no such axes": lambda x: x.permute(0, 1, 5),
    "flat axes that there are not": lambda x: x.flatten(0, 3),
    "no such axis": lambda x: x.transpose(0, 3),
    "no such place": lambda x: x[2],
    "too many places": lambda x: x[0, 0, 0, 0],
}


def tensor():
    return torch.tensor(np.arange(24, dtype="f4").reshape(2, 3, 4), requires_grad=True) * 2


def graph(node):
    if node is None or node.primitive is None:
        return None
    params = {name: repr(value) for name, value in node.params.items()}
    return node.primitive.name, node.shape, node.dtype, params, [*map(graph, node.parents)]


def told(function):
    """Returns all that can be seen of a function of a tensor, its gradient and a write included."""
    x = tensor()
    out = function(x)
    found = [out.shape, out.dtype, out.stride(), out.detach().numpy().tolist(), graph(out.node)]
    (gradient,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    found.append(gradient.tolist())
    with torch.no_grad():
        plain = x.detach()
        function(plain).mul_(10)
        found.append(plain.tolist())
    return found


@pytest.mark.parametrize("name", [*VIEWS, *LONG])
def test_short_views_are_those_of_primitives(monkeypatch, name):
    function = (VIEWS | LONG)[name]
    short = told(function)
    for module in (views, in_place):
        monkeypatch.setattr(module, "short_view", lambda *given: None)
    assert short == told(function)


@pytest.mark.parametrize("name", [*VIEWS, *LONG])
def test_views_do_not_ask_the_tape(monkeypatch, name):
    asked = []
    process = tape.TapeTrace.process

    def noted(self, primitive, *rest):
        asked.append(primitive.name)
        return process(self, primitive, *rest)

    x = tensor()
    monkeypatch.setattr(tape.TapeTrace, "process", noted)
    (VIEWS | LONG)[name](x)
    assert bool(asked) == (name in LONG)


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_primitives(monkeypatch, name):
    with pytest.raises(
        (ValueError, IndexError), match=r"axis|axes|elements|bounds|indices"
    ) as short:
        WRONG[name](tensor())
    for module in (views, in_place):
        monkeypatch.setattr(module, "short_view", lambda *given: None)
    with pytest.raises(type(short.value)) as long:
        WRONG[name](tensor())
    assert str(short.value) == str(long.value)


def test_hooks_see_views():
    x = tensor()
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with ft.hooks.use(hook):
        x.view(24)
        x.transpose(0, 1)
        x[0]
    assert seen == ["reshape", "transpose", "index"]


def test_without_a_graph_views_have_no_node():
    x = tensor()
    with torch.no_grad():
        assert x.view(24).node is None
    assert x.detach()[0].node is None
    assert torch.arange(6).view(2, 3).node is None
