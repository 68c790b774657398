"""`torch.compile`: plans of functions and modules, their state and their draws."""

import copy
import pickle

import pytest

import functensor.torch as torch
from functensor.jitting import staged_entry
from functensor.torch import nn
from functensor.torch.compiling import MOST_GUARDS
from functensor.torch.nn import functional as F


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    )


def trained(compiled, steps=3):
    module = network()
    module[3].p = 0.0
    call = torch.compile(module) if compiled else module
    optimizer = torch.optim.Adam(call.parameters(), lr=0.01)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, module


def test_a_compiled_module_trains_as_the_module():
    losses, module = trained(compiled=True)
    wanted, other = trained(compiled=False)
    assert losses == pytest.approx(wanted, rel=1e-5)
    for name, value in other.state_dict().items():
        assert torch.allclose(module.state_dict()[name], value, atol=1e-5), name
    assert module[1].num_batches_tracked.item() == 3


def test_training_and_evaluation_are_different_plans():
    module = network()
    compiled = torch.compile(module)
    x = torch.randn(16, 4)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    compiled.eval()
    assert not module.training
    assert torch.allclose(compiled(x), module(x), atol=1e-6)
    assert torch.equal(compiled(x), compiled(x))
    assert sorted(compiled.state_dict())[0] == "_orig_mod.0.bias"


def test_draws_go_on_from_the_default_generator():
    noise = torch.compile(lambda x: x + torch.rand(3))
    torch.manual_seed(1)
    rows = [noise(torch.zeros(3)).tolist() for _ in range(3)]
    torch.manual_seed(1)
    assert [noise(torch.zeros(3)).tolist() for _ in range(3)] == rows
    assert len({tuple(row) for row in rows}) == 3
    torch.manual_seed(1)
    plain = torch.compile(lambda x: x + 1)
    plain(torch.zeros(3))
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))


def test_other_arguments_are_constants():
    @torch.compile(fullgraph=True)
    def scaled(x, by=2, double=False):
        return x * by * (2 if double else 1)

    x = torch.ones(2, requires_grad=True)
    assert scaled(x).tolist() == [2, 2]
    assert scaled(x, 3).tolist() == [3, 3]
    scaled(x, by=3, double=True).sum().backward()
    assert x.grad.tolist() == [6, 6]
    assert scaled.__name__ == "scaled"
    assert torch.compile(len, disable=True) is len
    with pytest.raises(TypeError, match="model"):
        torch.compile(3)


def test_a_parameter_that_is_no_argument_is_refused():
    layer = nn.Linear(2, 2)
    with pytest.raises(Exception, match="requires grad and was used inside a transformation"):
        torch.compile(lambda x: layer(x))(torch.ones(2))


def test_settings():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    with pytest.raises(RuntimeError, match="at least 1, not 0"):
        torch.set_num_threads(0)
    torch.set_float32_matmul_precision("high")
    assert torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("highest")
    assert torch.get_float32_matmul_precision() == "highest"
    torch.use_deterministic_algorithms(True)
    assert torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = False
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_default_device("cpu")
    assert torch.get_default_device() == torch.device("cpu")
    assert not torch.backends.mps.is_available()
    with pytest.raises(ValueError, match="takes one of 'highest', 'high', 'medium', not 'low'"):
        torch.set_float32_matmul_precision("low")


def test_vmap_by_its_short_name():
    assert torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("turns", ["abab", "aabb"])
def test_kinds_of_calls_that_take_turns_have_a_guard_each(turns, monkeypatch):
    compiled = torch.compile(lambda x, factor: x * factor)
    kinds = {"a": (torch.ones(3), 2.0), "b": (torch.ones(4), 3.0)}
    for turn in 2 * turns:
        compiled(*kinds[turn])
    slow = []
    monkeypatch.setattr(compiled, "_run", lambda *args, **kwargs: slow.append(args))
    for turn in 2 * turns:
        x, factor = kinds[turn]
        assert compiled(x, factor).tolist() == [factor] * len(x)
    assert not slow


def test_guards_of_many_kinds_are_made_seldom_and_few_are_tried(monkeypatch):
    made = []
    write = staged_entry.guard
    monkeypatch.setattr(staged_entry, "guard", lambda *a, **k: made.append(1) or write(*a, **k))
    compiled = torch.compile(lambda x: x + 1)
    kinds = [torch.ones(n) for n in range(1, 2 * MOST_GUARDS)]
    for x in 64 * kinds:
        assert torch.equal(compiled(x), x + 1)
        compiled(x)
    # Those of a kind that is not tried any more are made anew after 2, 4, 8 calls and so on, both
    # that of the compiled function and that of the jitted one behind it.
    assert len(made) <= 2 * 7 * len(kinds)
    assert len(compiled._guards) == MOST_GUARDS


def doubled(x):
    return 2 * x


@torch.compile
def tripled(x):
    return 3 * x


def unpickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, unpickled])
def test_functions_are_copied_and_pickled_after_calls(copied):
    x = torch.ones(3)
    compiled = torch.compile(doubled)
    for _ in range(3):
        tripled(x)
        compiled(x)
    assert copied(compiled)(x).tolist() == [2.0] * 3
    assert copied(tripled) is tripled


@pytest.mark.parametrize("copied", [copy.deepcopy, unpickled])
def test_copies_of_modules_compute_with_what_is_theirs(copied):
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 2), nn.Dropout(1.0)).eval())
    x = torch.ones(3, 4)
    for _ in range(3):
        wanted = compiled(x)
    other = copied(compiled)
    assert torch.equal(other(x), wanted)
    linear, dropout = other._orig_mod
    dropout.p = 0.0
    other.train()
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.fill_(3.0)
    assert other(x).tolist() == [[3.0, 3.0]] * 3
    assert torch.equal(compiled(x), wanted)
