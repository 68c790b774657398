"""`torch.compile`: constants, arguments and views in results, and tensors that modules keep."""

import types
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pytest

import functensor.torch as torch
from functensor.torch import nn


class Pair(NamedTuple):
    first: object
    second: int


def test_constants_come_back_as_they_are():
    class Telling(nn.Module):
        def forward(self, x):
            return Pair({"x": 2 * x, "name": "net", "size": x.shape[0], "no": None}, True)

    for call in (Telling(), Telling().forward):
        compiled = torch.compile(call, fullgraph=True)
        for size in (1, 2, 2, 1, 1):
            out = compiled(torch.ones(size))
            assert type(out) is Pair
            assert out.second is True
            assert out.first.pop("x").tolist() == [2.0] * size
            assert out.first == {"name": "net", "size": size, "no": None}
            assert type(out.first["size"]) is int


@dataclass
class Output:
    loss: object


@pytest.mark.parametrize("make", [Output, lambda x: types.SimpleNamespace(loss=x)])
def test_objects_with_tensors_are_returned(make):
    compiled = torch.compile(lambda x: make(x * 2))
    with warnings.catch_warnings(action="ignore"):
        assert [compiled(torch.full((1,), k)).loss.item() for k in range(4)] == [0, 2, 4, 6]


def test_arguments_and_tensors_of_a_module_come_back_as_the_same_objects():
    class Giving(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            out = x * self.weight
            return x, self.weight, self.calls, out, [out]

    net = Giving()
    compiled = torch.compile(net, fullgraph=True)
    x = torch.ones(1)
    for step in range(1, 5):
        same, weight, calls, out, (again,) = compiled(x)
        assert same is x
        assert weight is net.weight
        assert calls is net.calls
        assert calls.item() == step
        assert out is again
    out.sum().backward()
    assert net.weight.grad.item() == 1


def test_a_module_that_keeps_an_argument_keeps_that_very_tensor():
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = self.result = self.part = torch.zeros(1)

        def forward(self, x):
            self.last, self.part, self.result = x, x[:1], 2 * x
            return self.result

    net = Keeping()
    compiled = torch.compile(net, fullgraph=True)
    for step in range(4):
        x = torch.full((2,), float(step))
        out = compiled(x)
        assert net.last is x
        assert net.result is out
        x.add_(1)
        assert net.part.tolist() == [step + 1]


def test_a_module_that_keeps_a_parameter_under_another_name():
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(1, 1)

        def forward(self, x):
            self.kept = self.line.weight
            return self.line(x)

    net = Keeping()
    compiled = torch.compile(net)
    with pytest.warns(UserWarning, match=r"it assigns to Keeping\.kept"):
        assert all(torch.equal(compiled(x), net.line(x)) for x in 4 * [torch.ones(1)])
    assert net.kept is net.line.weight


VIEWS = {
    "a row": lambda x: x[0],
    "a slice": lambda x: x[:, 1:],
    "another shape": lambda x: x.view(4),
    "turned": lambda x: x.t(),
    "a view of a view": lambda x: x.reshape(4)[1:].view(3, 1),
    "a diagonal": lambda x: x.diagonal(),
    "one more axis": lambda x: x.unsqueeze(0),
    "windows": lambda x: x.unfold(1, 1, 1),
    "without its graph": lambda x: x.detach(),
    "wider": lambda x: x[:1].expand(1, 2),
}


@pytest.mark.parametrize("of_buffer", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_what_is_written_to_a_view_that_a_call_returns_is_seen(name, of_buffer):
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", torch.arange(4.0).reshape(2, 2))

        def forward(self, x):
            return VIEWS[name](self.held if of_buffer else x), x * 2

    def result(compiles):
        net = Viewing()
        call = torch.compile(net, fullgraph=True) if compiles else net
        x = torch.arange(4.0).reshape(2, 2)
        for _ in range(4):
            view, out = call(x)
            assert torch.equal(out, 2 * x)
            view.add_(1)
        return x.tolist(), net.held.tolist(), view.tolist(), tuple(view.shape)

    assert result(compiles=True) == result(compiles=False)


def test_gradients_flow_through_arguments_that_are_returned():
    compiled = torch.compile(lambda x: (x, x[0], x.detach(), x * 2), fullgraph=True)
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        same, first, without, out = compiled(x)
        (same.sum() + 3 * first + without.sum() + out.sum()).backward()
        assert x.grad.tolist() == [6, 3]


def test_functions_of_arrays_of_numpy_return_some():
    compiled = torch.compile(lambda a: (np.sin(a) + 1, a))
    for size in (2, 2, 3, 2):
        given = np.arange(float(size))
        out, same = compiled(given)
        assert type(out) is np.ndarray
        assert same is given
        np.testing.assert_allclose(out, np.sin(given) + 1)
        out += 1


def test_a_tensor_over_an_array_that_is_an_argument():
    def written(array):
        tensor = torch.from_numpy(array)
        tensor.add_(1)
        return tensor * 2

    compiled, array = torch.compile(written), np.zeros(1)
    with pytest.warns(UserWarning, match="asked for a plain NumPy array"):
        assert [compiled(array).item() for _ in range(3)] == [2, 4, 6]
    assert array.item() == 3


def test_caches_keep_no_values_of_plans():
    @lru_cache
    def table(count):
        return torch.arange(float(count))

    class Caching(nn.Module):
        @cached_property
        def own(self):
            return torch.ones(3)

        def forward(self, x):
            return x * table(3) + self.own

    net = Caching()
    for call in (net, lambda x: x * table(3) + 1):
        table.cache_clear()
        compiled = torch.compile(call, fullgraph=call is net)
        with warnings.catch_warnings(action="error"):
            for _ in range(4):
                assert compiled(torch.ones(3)).tolist() == [1, 2, 3]
        assert table(3).tolist() == [0, 1, 2]
        assert table.cache_info().misses == 1
    assert net.own.tolist() == [1, 1, 1]


def test_an_error_behind_changes_leaves_them_as_they_are():
    def failing(seen, x):
        seen.append(len(seen))
        if len(seen) == 2:
            raise ValueError("the second call")
        return x * len(seen)

    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, x):
            return failing(self.seen, x)

    seen = []
    net = Failing()
    for call, kept in ((lambda x: failing(seen, x), seen), (net, net.seen)):
        compiled = torch.compile(call)
        with warnings.catch_warnings(action="ignore"):
            assert compiled(torch.ones(1)).item() == 1
            with pytest.raises(ValueError, match="the second call"):
                compiled(torch.ones(1))
            assert [compiled(torch.ones(1)).item() for _ in range(3)] == [3, 4, 5]
        assert kept == [0, 1, 2, 3, 4]


def test_a_global_and_an_attribute_that_calls_bring():
    def bringing(x):
        global BROUGHT
        BROUGHT = Output.brought = Output.__dict__.get("brought", 0) + 1
        return x * BROUGHT

    compiled = torch.compile(bringing)
    with pytest.warns(UserWarning, match="changes values beside its arguments"):
        assert [compiled(torch.ones(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert Output.brought == BROUGHT == 5
    del Output.brought
