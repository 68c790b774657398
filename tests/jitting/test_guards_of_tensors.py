"""Calls of jitted functions with tensors, answered by guards as those with arrays."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.jitting.guard import UNLIKE, unguarded
from functensor.jitting.jitted import Jitted
from functensor.jitting.staged_entry import StagedEntry


def step(params, rate):
    return {"w": params["w"] - rate * params["w"], "kept": params["kept"]}, params["w"].sum()


def called(f, *args, times=3):
    """Returns the result of a call whose guard is written."""
    for _ in range(times):
        out = f(*args)
    return out


def arguments():
    return {"w": torch.tensor([1.0, 2.0]), "kept": torch.zeros(3)}, torch.tensor(0.5)


def test_a_guard_answers_and_gives_tensors():
    f = ft.jit(step)
    args = arguments()
    out, total = called(f, *args)
    direct = f._last.guard(args, {})
    assert direct is not UNLIKE
    for result in (out, direct[0]):
        assert result["w"].tolist() == [0.5, 1.0]
        assert {type(x) for x in result.values()} == {ft.Tensor}
        assert not result["w"].requires_grad
    assert total == 3
    # What is handed on is a tensor of its own, as from the first call.
    out["kept"].add_(1)
    assert args[0]["kept"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "other",
    [
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(3)[1:].double(),
        torch.ones(3),
        numpy.ones(2, "float32"),
    ],
    ids=["parameter", "dtype", "shape", "array"],
)
def test_other_kinds_of_arguments_are_left_to_the_slow_way(other):
    f = ft.jit(step)
    params, rate = arguments()
    called(f, params, rate)
    params["w"] = other
    assert f._last.guard((params, rate), {}) is UNLIKE
    out, total = f(params, rate)
    numpy.testing.assert_allclose(numpy.asarray(out["w"].detach()), 0.5)
    if getattr(other, "requires_grad", False):
        total.backward()
        assert other.grad.tolist() == [1.0, 1.0]


def test_a_tensor_that_became_a_leaf_is_differentiated():
    f = ft.jit(step)
    params, rate = arguments()
    called(f, params, rate)
    params["w"].requires_grad_()
    assert f._last.guard((params, rate), {}) is not UNLIKE
    f(params, rate)[0]["w"].sum().backward()
    assert params["w"].grad.tolist() == [0.5, 0.5]


def test_memory_of_an_array_is_read_at_every_call():
    f = ft.jit(step)
    array = numpy.ones(2, "float32")
    params = {"w": torch.from_numpy(array), "kept": torch.zeros(3)}
    assert called(f, params, torch.tensor(0.5))[1] == 2
    array[0] = 5
    assert f(params, torch.tensor(0.5))[1] == 6


def test_writes_in_place_are_seen():
    f = ft.jit(step)
    params, rate = arguments()
    called(f, params, rate)
    row = torch.ones(2, 2)
    params["w"] = row[0]
    row.fill_(4)
    assert f(params, rate)[1] == 8


def test_donated_tensors_have_no_guard():
    f = ft.jit(lambda x: x + 1, donate_argnums=0)
    x = torch.ones(2)
    assert called(f, x).tolist() == [2.0, 2.0]
    assert f._last.guard is unguarded
    assert x.tolist() == [1.0, 1.0]


def test_a_step_of_a_module_is_answered_by_a_guard():
    model = torch.nn.Linear(2, 1)
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params, x):
        return torch.func.functional_call(model, params, (x,)).square().mean()

    f = ft.jit(lambda p, x: {k: p[k] - 0.1 * g for k, g in ft.grad(loss)(p, x).items()})
    x = torch.ones(4, 2)
    eager = ft.grad(loss)(params, x)
    for name, value in called(f, params, x).items():
        numpy.testing.assert_allclose(
            numpy.asarray(value), numpy.asarray(params[name] - 0.1 * eager[name]), rtol=1e-6
        )
    assert f._last.guard((params, x), {}) is not UNLIKE


def guards_made(monkeypatch):
    """Returns a list that gets an entry for each guard that is made from now on."""
    made = []
    for name in ("guarded", "guard_behind"):
        make = getattr(StagedEntry, name)
        note = lambda self, *args, make=make: made.append(1) or make(self, *args)  # noqa: E731
        monkeypatch.setattr(StagedEntry, name, note)
    return made


def test_a_guard_is_made_anew_for_tensors_in_place_of_arrays():
    f = ft.jit(lambda w, state: (w - state, state * 2))
    w, state = torch.ones(2), ft.numpy.ones(2, "float32")
    called(f, w, state)
    for _ in range(4):
        w, state = f(w, state)
    assert f._last.guard((w, state), {}) is not UNLIKE


def test_guards_that_give_up_are_seldom_made_anew(monkeypatch):
    f = ft.jit(lambda x, y: x + y)
    x, made = torch.ones(2), guards_made(monkeypatch)
    for i in range(64):
        f(x, ft.numpy.ones(2, "float32") if i % 2 else torch.ones(2))
    assert 2 <= len(made) <= 7


def test_a_compiled_function_has_a_guard_for_each_kind(monkeypatch):
    f = torch.compile(lambda x, scale: x * scale)
    staged, look = [], Jitted._entry
    monkeypatch.setattr(Jitted, "_entry", lambda *args: staged.append(1) or look(*args))
    for _ in range(3):
        for size in (2, 3):
            for _ in range(5):
                assert f(torch.ones(size), 2.0).tolist() == [2.0] * size
    slow = len(staged)
    # Two calls of each kind make its guard; later a change of kind is one call without a guard.
    assert slow <= 2 * (2 + 2 + 4)
    for _ in range(5):
        f(torch.ones(3), 2.0)
    assert len(staged) == slow
    assert f(torch.ones(3), 3.0).tolist() == [3.0] * 3
    assert f(torch.ones(3), True).tolist() == [1.0] * 3


def test_constants_of_compiled_functions_are_compared():
    f = torch.compile(lambda x, options: x * options["by"] + len(options["name"]))
    for _ in range(3):
        assert f(torch.ones(1), {"by": 2, "name": "ab"}).item() == 4
    assert f(torch.ones(1), {"by": 3, "name": "ab"}).item() == 5
    assert f(torch.ones(1), {"by": 2, "name": "abc"}).item() == 5
    assert f(torch.ones(1), {"by": 2.5, "name": "ab"}).item() == 4.5


def test_draws_of_a_guarded_function_differ_and_follow_the_seed():
    f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(64)

    def draws():
        torch.manual_seed(3)
        return [f(x).tolist() for _ in range(6)] + [torch.rand(3).tolist()]

    first = draws()
    assert len({*map(tuple, first)}) == 7
    assert draws() == first
