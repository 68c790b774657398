"""`torch.compile`: arrays, long containers, iterators and the like that change between calls."""

import array
import collections
import contextvars
import itertools
import os
import random
import sys
import threading
import types
import warnings
from queue import Queue

import numpy as np
import pytest
import scipy.sparse

import functensor.torch as torch
from functensor.torch import nn
from functensor.torch.compilation import pictures


class Slotted:
    __slots__ = ("held",)


class Outer:
    held = None


def in_global(value):
    global HELD
    HELD = value
    return lambda: HELD


def in_cell(value):
    held = value
    return lambda: held


def in_object(value):
    held = types.SimpleNamespace(inner=types.SimpleNamespace(held=value))
    return lambda: held.inner.held


def in_list(value):
    several = [{"held": (value,)}]
    return lambda: several[0]["held"][0]


def in_slot(value):
    slotted = Slotted()
    slotted.held = value
    return lambda: slotted.held


def in_class(value):
    Outer.held = value
    return lambda: Outer.held


HOLDERS = [in_global, in_cell, in_object, in_list, in_slot, in_class]
PROXIED = {"a": 1.0}
LARGEST = pictures.MOST_BYTES // 8


def replaced(index, value=9.0):
    def change(x):
        x[index] = value

    return change


def filled_queue(count):
    made = Queue()
    for number in range(count):
        made.put(float(number))
    return made


# What makes a value, what a call reads of it, and what changes it in place.
VALUES = {
    "an array": (lambda: np.ones(3), lambda v: float(v.sum()), replaced(1)),
    "a number of an array": (lambda: np.ones(3), lambda v: v[1], replaced(1)),
    "the last of many bytes": (lambda: np.ones(10_000), lambda v: float(v[-1]), replaced(-1)),
    "an array in another order": (
        lambda: np.asfortranarray(np.ones((2, 3))),
        lambda v: float(v[1, 2]),
        replaced((1, 2)),
    ),
    "a part of an array": (lambda: np.ones(6)[::2], lambda v: float(v[1]), replaced(1)),
    "an array too large": (lambda: np.ones(LARGEST + 1), lambda v: float(v[7]), replaced(7)),
    "an array of objects": (lambda: np.array([1.0, None]), lambda v: v[0], replaced(0)),
    "an array with a mask": (
        lambda: np.ma.array([1.0, 2.0], mask=[False, False]),
        lambda v: float(v.sum()),
        lambda v: replaced(0, np.ma.masked)(v),
    ),
    "a sparse array": (
        lambda: scipy.sparse.csr_array(np.eye(2)),
        lambda v: float(v[0, 0]),
        lambda v: replaced(0)(v.data),
    ),
    "a tensor over an array": (
        lambda: torch.from_numpy(np.ones(2)),
        lambda v: v[0].float(),
        lambda v: replaced(0)(v.numpy()),
    ),
    "a long list": (lambda: [1.0] * 3000, lambda v: v[2000], replaced(2000)),
    "a list too long": (
        lambda: [1.0] * (pictures.MOST_VALUES + 1),
        lambda v: v[7],
        replaced(7),
    ),
    "a long dictionary": (lambda: dict.fromkeys(range(3000), 1.0), lambda v: v[7], replaced(7)),
    "many short lists": (
        lambda: [[1.0] * 900 for _ in range(30)],
        lambda v: v[25][800],
        lambda v: replaced(800)(v[25]),
    ),
    "deep lists": (
        lambda: [[[[[[[[1.0]]]]]]]],
        lambda v: v[0][0][0][0][0][0][0][0],
        lambda v: replaced(0)(v[0][0][0][0][0][0][0]),
    ),
    "a view of a dictionary": (
        lambda: types.MappingProxyType(PROXIED),
        lambda v: v["a"],
        lambda v: PROXIED.update(a=PROXIED["a"] + 1),
    ),
    "a chain of dictionaries": (
        lambda: collections.ChainMap({}, {"a": 1.0}),
        lambda v: v["a"],
        lambda v: replaced("a")(v.maps[1]),
    ),
    "bytes": (lambda: bytearray(b"ab"), lambda v: v[0], replaced(0, 9)),
    "an array of Python's": (lambda: array.array("d", [1.0]), lambda v: v[0], replaced(0)),
    "a context's variable": (
        lambda: contextvars.ContextVar("held", default=1.0),
        lambda v: v.get(),
        lambda v: v.set(v.get() + 1),
    ),
    "an optimizer": (
        lambda: torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0),
        lambda v: v.param_groups[0]["lr"],
        lambda v: v.param_groups[0].update(lr=5.0),
    ),
    "an iterator": (lambda: iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), next, lambda v: None),
    "a generator": (lambda: (float(i) for i in range(9)), next, lambda v: None),
    "a count": (itertools.count, next, next),
    "a stream": (lambda: random.Random(0), lambda v: v.random(), lambda v: v.random()),
    "a generator of NumPy's": (
        lambda: np.random.default_rng(0),
        lambda v: float(v.normal()),
        lambda v: None,
    ),
    "a queue": (
        lambda: filled_queue(6),
        lambda v: v.get(),
        lambda v: None,
    ),
    "a generator of tensors": (
        lambda: torch.Generator().manual_seed(0),
        lambda v: torch.rand(1, generator=v),
        lambda v: None,
    ),
}


def found(name, holder, of_module, compiles):
    make, read, change = VALUES[name]
    PROXIED["a"] = 1.0
    value = make()
    held = holder(value)

    def run(x):
        return x * read(held())

    class Running(nn.Module):
        def forward(self, x):
            return run(x)

    call = Running() if of_module else run
    call = torch.compile(call) if compiles else call
    out = []
    with warnings.catch_warnings(action="ignore"):
        for step in range(6):
            if step in (2, 4):
                change(value)
            out.append(call(torch.ones(1)).tolist())
    return out


@pytest.mark.parametrize("of_module", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_values_that_change_in_place_are_seen(name, of_module):
    holder = HOLDERS[sum(map(ord, name)) % len(HOLDERS)]
    wanted = found(name, holder, of_module, compiles=False)
    assert len({*map(tuple, wanted)}) > 1
    assert found(name, holder, of_module, compiles=True) == wanted


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", ["an array", "a long list", "an iterator"])
def test_values_that_change_are_seen_wherever_they_are(name, holder):
    assert found(name, holder, False, compiles=True) == found(name, holder, False, compiles=False)


@pytest.mark.filterwarnings("error")
def test_arrays_and_long_lists_that_stay_end_no_plans():
    table, numbers = np.ones(1000), [1.0] * 5000
    compiled = torch.compile(lambda x: x * float(table.sum()) + numbers[7], fullgraph=True)
    for _ in range(4):
        assert compiled(torch.ones(1)).item() == 1001


@pytest.mark.filterwarnings("error")
def test_what_code_does_not_name_is_no_obstacle():
    held = types.SimpleNamespace(by=2.0, unread=np.ones(LARGEST + 1), source=iter([]))
    compiled = torch.compile(lambda x: x * held.by, fullgraph=True)
    for by in (2.0, 3.0):
        held.by = by
        held.unread[0] += 1
        assert compiled(torch.ones(1)).item() == by


@pytest.mark.filterwarnings("error")
def test_much_that_code_does_not_name_costs_little():
    records = [{"number": float(i)} for i in range(pictures.MOST_UNNAMED)]
    held = types.SimpleNamespace(unread=records, steps=[1.0] * 5000)
    compiled = torch.compile(lambda x: x * held.steps[4000], fullgraph=True)
    for step in (1.0, 2.0):
        held.steps[4000] = step
        assert compiled(torch.ones(1)).item() == step
    seen = pictures.Picture()
    seen.of(held)
    seen.of_named()
    assert len(seen.tables) < pictures.MOST_UNNAMED / 2


def test_attributes_that_no_code_names_count_where_code_reads_any():
    held = types.SimpleNamespace(first=iter([1.0, 2.0, 3.0]))
    compiled = torch.compile(lambda x: x * next(getattr(held, "fir" + "st")))
    with pytest.warns(UserWarning, match="reads an object of list_iterator"):
        assert [compiled(torch.ones(1)).item() for _ in range(3)] == [1, 2, 3]


def test_a_modules_attributes_under_made_up_names():
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.held0, self.held1 = np.ones(2), np.ones(LARGEST + 1)

        def forward(self, x):
            return x * sum([float(getattr(self, f"held{i}")[0]) for i in range(2)])

    net = Reading()
    compiled = torch.compile(net)

    def result(step):
        net.held0[0] = net.held1[0] = step
        return compiled(torch.ones(1)).item()

    with pytest.warns(UserWarning, match="reads arrays of NumPy of more than 16,000,000 bytes"):
        assert [result(step) for step in range(4)] == [0, 2, 4, 6]


@pytest.mark.filterwarnings("error")
def test_a_modules_attributes_that_no_call_reads_are_no_obstacle():
    class Trained(nn.Module):
        def __init__(self):
            super().__init__()
            self.block0 = nn.Linear(1, 1)
            trainer = types.SimpleNamespace(batches=iter([]), data=np.ones(LARGEST + 1))
            self.trainer, self.source = trainer, iter([])

        def forward(self, x):
            return getattr(self, f"block{0}")(x)

    net = Trained()
    compiled = torch.compile(net, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(1)), net.block0(torch.ones(1)))


def test_a_modules_iterator_under_a_made_up_name():
    class Drawing(nn.Module):
        def __init__(self):
            super().__init__()
            self.source0 = iter([1.0, 2.0, 3.0])

        def forward(self, x):
            return x * next(getattr(self, f"source{0}"))

    compiled = torch.compile(Drawing())
    with pytest.warns(UserWarning, match="reads an object of list_iterator"):
        assert [compiled(torch.ones(1)).item() for _ in range(3)] == [1, 2, 3]


class Meta(type):
    by = 1.0

    def of_class(cls):
        return cls.by


class Read(metaclass=Meta):
    own = 1.0


OWN = types.ModuleType("own_namespace")
NUMBER = 1.0
NAMES = {
    "a class by a made-up name": (Read, "own", lambda: getattr(Read, "o" + "wn")),
    "a class by its namespace": (Read, "own", lambda: vars(Read)["own"]),
    "a class of a class": (Meta, "by", lambda: Read.of_class()),
    "a module by a made-up name": (OWN, "own", lambda: getattr(OWN, "o" + "wn")),
    "all globals": (sys.modules[__name__], "NUMBER", lambda: globals()["NUM" + "BER"]),
}


@pytest.mark.parametrize("of_module", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_names_that_code_does_not_have(name, of_module, monkeypatch):
    owner, attribute, read = NAMES[name]

    class Running(nn.Module):
        def forward(self, x):
            return x * read()

    compiled = torch.compile(Running() if of_module else lambda x: x * read())
    with warnings.catch_warnings(action="ignore"):
        for value in (1.0, 2.0, 3.0):
            monkeypatch.setattr(owner, attribute, value, raising=False)
            assert compiled(torch.ones(1)).item() == value


def test_a_seed_is_set_in_every_call():
    compiled = torch.compile(lambda x: torch.manual_seed(3) and x * 2)
    with warnings.catch_warnings(action="ignore"):
        drawn = {compiled(torch.ones(1)) is not None and torch.rand(1).item() for _ in range(5)}
    assert len(drawn) == 1


ARGUMENTS = {
    "an iterator": (lambda: iter([1.0, 2.0, 3.0, 4.0]), next),
    "a set": (lambda: {1}, lambda v: v.add(len(v) + 1) or len(v)),
    "a deque": (lambda: collections.deque([1.0]), lambda v: v.append(1.0) or len(v)),
    "a list": (lambda: [1.0], lambda v: v.append(1.0) or len(v)),
    "a dictionary": (lambda: {"a": 1.0}, lambda v: v.update(a=v["a"] + 1) or v["a"]),
    "a list in a dictionary": (lambda: {"a": [1.0]}, lambda v: v["a"].append(1) or len(v["a"])),
    "a generator": (lambda: np.random.default_rng(0), lambda v: float(v.normal())),
    "an array": (lambda: np.ones(2), lambda v: replaced(0, v[0] + 1)(v) or float(v[0])),
    "an object's array": (
        lambda: types.SimpleNamespace(held=np.ones(2)),
        lambda v: replaced(0, v.held[0] + 1)(v.held) or v.held[0],
    ),
}


@pytest.mark.parametrize("of_module", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_a_call_changes(name, of_module):
    make, read = ARGUMENTS[name]

    class Running(nn.Module):
        def forward(self, x, value):
            return x * read(value)

    def results(compiles):
        call = Running() if of_module else Running().forward
        call, value = torch.compile(call) if compiles else call, make()
        return [call(torch.ones(1), value).tolist() for _ in range(4)]

    with warnings.catch_warnings(action="ignore"):
        assert results(compiles=True) == results(compiles=False)


def test_a_dictionary_of_arguments_loses_what_a_call_takes():
    def loss(batch):
        return batch["x"] * batch.pop("labels")

    compiled = torch.compile(loss)
    batches = [{"x": torch.ones(1), "labels": torch.full((1,), 3.0)} for _ in range(4)]
    with pytest.warns(UserWarning, match="it changes containers among its arguments"):
        assert [compiled(batch).item() for batch in batches] == [3, 3, 3, 3]
    assert [[*batch] for batch in batches] == 4 * [["x"]]


def test_attributes_of_a_class_among_a_modules_arguments():
    class Taking(nn.Module):
        def forward(self, x, settings):
            return x * settings.kind.by

    kind = type("Kind", (), {"by": 1.0})
    compiled = torch.compile(Taking(), fullgraph=True)
    for by in (1.0, 2.0, 3.0):
        kind.by = by
        assert compiled(torch.ones(1), types.SimpleNamespace(kind=kind)).item() == by


@pytest.mark.parametrize("read", [lambda: os.environ["HELD"], lambda: os.getenv("HELD")])
def test_variables_of_the_environment(monkeypatch, read):
    compiled = torch.compile(lambda x: x * float(read()), fullgraph=True)
    for value in "122":
        monkeypatch.setenv("HELD", value)
        assert compiled(torch.ones(1)).item() == float(value)


@pytest.mark.parametrize(
    "draw",
    [random.random, lambda: random.random(), np.random.rand, lambda: float(np.random.rand())],  # noqa: NPY002
)
def test_draws_of_global_generators_are_made_in_every_call(draw):
    def drawn(compiles):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the global generator is what is tested
        call = (lambda x: x * draw()) if not compiles else torch.compile(lambda x: x * draw())
        return [call(torch.ones(1)).item() for _ in range(5)]

    with pytest.warns(UserWarning, match="runs as it is"):
        assert drawn(compiles=True) == drawn(compiles=False)


def test_threads_lose_no_update_of_a_module():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))
            self.total = torch.zeros(1)

        def forward(self, x):
            self.calls += 1
            self.total = self.total + x.sum()
            return x + 1

    net = Counting()
    compiled = torch.compile(net, fullgraph=True)
    wrong = []

    def work():
        wrong.extend(k for k in range(60) if compiled(torch.full((1,), k)).item() != k + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, net.calls.item(), net.total.item()) == ([], 240, 4 * sum(range(60)))


def test_threads_that_call_a_module_with_many_shapes():
    net = nn.Linear(2, 1)
    wanted = net(torch.ones(2)).item()
    compiled = torch.compile(net, fullgraph=True)
    wrong = []

    def work(first):
        for count in range(first, first + 12):
            out = compiled(torch.ones(count, 2))
            if not torch.allclose(out, torch.full((count, 1), wanted)):
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
