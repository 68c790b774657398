"""`torch.compile`: calls that change what is neither an argument nor in the module."""

import warnings

import pytest

import functensor.torch as torch
from functensor.torch import nn

COUNT = 0
TABLE = {}


class Counter:
    shared = 0

    def __init__(self):
        self.own = 0


def of_a_global():
    def count(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    return count


def of_a_cell():
    number = 0

    def count(x):
        nonlocal number
        number += 1
        return x * number

    return count


def of_an_object():
    counter = Counter()

    def count(x):
        counter.own += 1
        return x * counter.own

    return count


def of_a_class():
    def count(x):
        Counter.shared += 1
        return x * Counter.shared

    return count


def of_a_list():
    met = []

    def count(x):
        met.append(x.sum())
        return x * len(met) + met[-1]

    return count


def of_a_table():
    def count(x):
        TABLE["number"] = TABLE.get("number", 0) + 1
        return x * TABLE["number"]

    return count


def found(make, how):
    """Returns the results of some calls, and whether a warning came."""
    global COUNT
    COUNT = Counter.shared = 0
    TABLE.clear()
    count = make()

    class Counting(nn.Module):
        def forward(self, x):
            return count(x)

    call = count
    if how == "module":
        call = torch.compile(Counting())
    elif how == "hook":
        module = nn.Identity()
        module.register_forward_hook(lambda module, args, out: count(out))
        call = torch.compile(module)
    elif how == "function":
        call = torch.compile(count)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return [call(torch.ones(2)).tolist() for _ in range(6)], len(told)


@pytest.mark.parametrize("how", ["function", "module", "hook"])
@pytest.mark.parametrize(
    "make", [of_a_global, of_a_cell, of_an_object, of_a_class, of_a_list, of_a_table]
)
def test_a_call_that_changes_what_is_beside_it_runs_as_it_is(make, how):
    assert found(make, how) == (found(make, "as it is")[0], 1)


def test_hooks_that_keep_tensors_have_those_of_every_call():
    features = {}
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    module[0].register_forward_hook(lambda module, args, out: features.update(last=out.detach()))
    compiled = torch.compile(module)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in range(4):
            x = torch.full((1, 2), float(step))
            compiled(x)
            assert torch.allclose(features["last"], module[0].forward(x))
    assert ["changes values beside its arguments" in str(w.message) for w in told] == [True]


@pytest.mark.parametrize("of_module", [False, True])
def test_what_is_filled_once_is_filled_by_a_call_that_runs_as_it_is(of_module):
    tables = {}

    def run(x):
        if x.shape not in tables:
            tables[x.shape] = torch.arange(float(x.shape[0]))
        return x * tables[x.shape]

    class Running(nn.Module):
        def forward(self, x):
            return run(x)

    compiled = torch.compile(Running() if of_module else run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            assert compiled(torch.ones(3)).tolist() == [0, 1, 2]
    assert [x.tolist() for x in tables.values()] == [[0, 1, 2]]


def test_a_call_that_may_not_run_as_it_is_raises_and_has_changed_nothing():
    met = []

    def run(x):
        met.append(x)
        return x

    with pytest.raises(RuntimeError, match="changes values beside its arguments"):
        torch.compile(run, fullgraph=True)(torch.ones(2))
    assert met == []


def test_an_interrupt_is_not_taken_for_a_change():
    met = []

    def run(x):
        met.append(x)
        raise KeyboardInterrupt

    class Running(nn.Module):
        def forward(self, x):
            return run(x)

    for call in (torch.compile(run), torch.compile(Running())):
        with pytest.raises(KeyboardInterrupt):
            call(torch.ones(2))
    assert met == []
