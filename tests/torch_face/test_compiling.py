"""`torch.compile`: plans of functions and modules, their state and their draws."""

import copy
import pickle
import warnings
from queue import SimpleQueue

import pytest

import functensor as ft
import functensor.torch as torch
from functensor.jitting import staged_entry
from functensor.torch import nn
from functensor.torch.compilation.functions import MOST_GUARDS
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


def test_hooks_see_the_function_and_not_the_key_of_a_call():
    seen = []

    class Names(ft.hooks.Hook):
        def forward(self, op, inputs, output):
            seen.append(op.name)

    for compiled in (torch.compile(lambda x: torch.sin(x) * 2), torch.compile(nn.Linear(2, 2))):
        for _ in range(3):
            with ft.hooks.use(Names()):
                compiled(torch.ones(2))
    assert seen == 3 * ["sin", "multiply"] + 3 * ["einsum", "add"]
    noise = torch.compile(lambda x: x + torch.rand(2))
    found = []
    for _ in range(3):
        seen.clear()
        with ft.hooks.use(Names()):
            noise(torch.ones(2))
        found.append([*seen])
    assert found == 3 * found[:1]
    assert found[0].count("random_keys") == 1


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
        torch.compile(lambda x: layer(x), fullgraph=True)(torch.ones(2))
    compiled = torch.compile(lambda x: layer(x).sum())
    with pytest.warns(UserWarning, match="runs as it is, without a plan"):
        loss = compiled(torch.ones(2))
    loss.backward()
    assert layer.weight.grad.tolist() == [[1, 1], [1, 1]]


def adding(x, total=torch.zeros(2)):  # noqa: B008
    return total.add_(x) * 1


def deriving(x):
    y = x.detach().requires_grad_()
    return torch.autograd.grad((y * y).sum(), y)[0]


UNSTAGED = [
    (lambda x: x * 2 if x.sum() > 0 else x - 1, [2.0, 4.0], [-4.0, -3.0]),
    (lambda x: x * x.sum().item(), [3.0, 6.0], [15.0, 10.0]),
    (lambda x: x[x > 0], [1.0, 2.0], []),
    (lambda x: torch.from_numpy(x.numpy() + 1), [2.0, 3.0], [-2.0, -1.0]),
    (lambda x: x.add_(1), [2.0, 3.0], [-2.0, -1.0]),
    (adding, [1.0, 2.0], [-2.0, 0.0]),
    (deriving, [2.0, 4.0], [-6.0, -4.0]),
]


@pytest.mark.parametrize("case", range(len(UNSTAGED)))
def test_what_cannot_be_staged_runs_as_it_is(case):
    fun, first, second = UNSTAGED[case]
    compiled = torch.compile(fun)
    with pytest.warns(UserWarning, match="runs as it is"):
        assert compiled(torch.tensor([1.0, 2.0])).tolist() == first
    # There is no second warning, which would be an error here.
    assert compiled(torch.tensor([-3.0, -2.0])).tolist() == second
    with pytest.raises((TypeError, RuntimeError)):
        torch.compile(fun, fullgraph=True)(torch.tensor([1.0, 2.0]))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(2, 1)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.line(x) if x.sum() > 0 else -self.line(x)


def test_a_module_that_cannot_be_staged_runs_as_it_is():
    module = Branching()
    compiled = torch.compile(module)
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="Branching runs as it is"):
        results = [compiled(x), compiled(-x)]
    results[0].backward()
    assert torch.equal(results[0], module.line(x))
    assert torch.equal(results[1], -module.line(-x))
    assert module.line.weight.grad.tolist() == [[1, 1]]
    assert module.calls.item() == 2
    with pytest.raises(TypeError, match="bool"):
        torch.compile(module, fullgraph=True)(x)


def test_a_plan_stays_whose_caller_cannot_be_staged():
    # A call that changes a list is not compiled.
    staged = SimpleQueue()

    @torch.compile
    def inner(x):
        staged.put(torch.compiler.is_compiling())
        return x * 2

    outer = torch.compile(lambda x: inner(x) if x.sum() > 0 else x)
    with pytest.warns(UserWarning, match="runs as it is") as caught:
        assert outer(torch.ones(2)).tolist() == [2, 2]
    assert len(caught) == 1
    while not staged.empty():
        staged.get()
    inner(torch.ones(5))
    assert staged.get() is True
    assert staged.empty()


def test_a_step_of_training_in_one_compiled_function():
    results = []
    for compiles in (False, True):
        module = network().eval()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x, module=module, optimizer=optimizer):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = torch.compile(step) if compiles else step
        with warnings.catch_warnings(action="ignore"):
            results.append([call(torch.ones(3, 4)).item() for _ in range(3)])
    assert results[0] == results[1]


def test_a_module_compiles_in_place():
    module, staged = network(), SimpleQueue()
    module.register_forward_hook(lambda *_: staged.put(torch.compiler.is_compiling()))
    module.compile()
    x = torch.randn(16, 4)
    module.eval()
    first, second = module(x), module(x)
    assert torch.equal(first, second)
    assert staged.get() is True
    assert staged.empty()
    assert sorted(module.state_dict())[0] == "0.bias"
    for other in (copy.deepcopy(module), copy.copy(module)):
        assert torch.allclose(other(x), first, atol=1e-6)
        assert staged.get() is False
    module.train()
    module(x).sum().backward()
    assert module[1].num_batches_tracked.item() == 1
    assert module[0].weight.grad is not None
    assert len(list(module.modules())) == 6
    branching = Branching()
    branching.compile(fullgraph=True)
    with pytest.raises(TypeError, match="bool"):
        branching(torch.ones(2))


def test_a_function_that_is_not_to_be_compiled():
    seen = []

    @torch.compiler.disable(reason="it keeps values")
    def note(x):
        seen.append((x.sum().item(), torch.compiler.is_compiling()))
        return x

    compiled = torch.compile(lambda x: note(x) * 2)
    with pytest.warns(UserWarning, match="note is not to be compiled: it keeps values"):
        assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert compiled(torch.zeros(2)).tolist() == [0, 0]
    assert seen == [(2, False), (0, False)]
    with pytest.raises(RuntimeError, match="is not to be compiled"):
        torch.compile(lambda x: note(x) * 2, fullgraph=True)(torch.ones(2))
    module = torch.compiler.disable(nn.Linear(2, 1))
    with pytest.warns(UserWarning, match="is not to be compiled"):
        assert torch.equal(torch.compile(module)(torch.ones(2)), module(torch.ones(2)))

    @torch.compiler.disable
    class Doubling(nn.Module):
        def forward(self, x):
            return x * 2

    with pytest.warns(UserWarning, match="is not to be compiled"):
        assert torch.compile(Doubling())(torch.ones(1)).tolist() == [2]
    # Within other transformations it is a function as any.
    assert ft.jit(torch.compiler.disable(lambda x: x * 2))(torch.ones(2)).tolist() == [2, 2]


def test_a_stance_for_a_block_a_function_and_from_here_on():
    asked = torch.compiler.is_compiling
    compiled = torch.compile(lambda x: x + asked())
    zero = torch.zeros(1)

    @torch.compiler.set_stance("force_eager")
    def eagerly():
        return compiled(zero).item()

    assert (compiled(zero).item(), eagerly(), compiled(zero).item()) == (1, 0, 1)
    with torch.compiler.set_stance("force_eager"):
        assert compiled(zero).item() == 0
        with torch.compiler.set_stance("default"):
            assert compiled(zero).item() == 1
        assert compiled(zero).item() == 0
    assert compiled(zero).item() == 1
    torch.compiler.set_stance("force_eager")
    assert compiled(zero).item() == 0
    torch.compiler.set_stance("default")
    assert compiled(zero).item() == 1
    with pytest.raises(ValueError, match="'default' and 'force_eager', not 'fast'"):
        torch.compiler.set_stance("fast")


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
    assert not torch.backends.cudnn.benchmark
    with ft.config.using(benchmark=False):
        torch.backends.cudnn.benchmark = True
        assert ft.config.benchmark
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_default_device("cpu")
    assert torch.get_default_device() == torch.device("cpu")
    assert not torch.backends.mps.is_available()
    with pytest.raises(ValueError, match="takes one of 'highest', 'high', 'medium', not 'low'"):
        torch.set_float32_matmul_precision("low")


def test_switches_are_imported_as_modules():
    import functensor.torch.backends.cudnn as cudnn
    from functensor.torch.backends import cuda

    assert (cudnn, cuda) == (torch.backends.cudnn, torch.backends.cuda)
    cudnn.deterministic = True
    assert torch.backends.cudnn.deterministic
    cudnn.deterministic = False


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_names_of_gpus_where_there_is_none():
    cuda, accelerator = torch.cuda, torch.accelerator
    assert (cuda.memory_allocated(), accelerator.memory_reserved()) == (0, 0)
    assert not cuda.is_initialized()
    assert cuda.get_rng_state_all() == []
    state = cuda.get_rng_state()
    first = torch.rand(2)
    cuda.set_rng_state_all([state])
    assert torch.equal(torch.rand(2), first)
    cuda.seed_all()
    assert cuda.initial_seed() == torch.initial_seed()
    torch.manual_seed(0)
    with accelerator.device_index(None):
        assert not accelerator.is_available()
    for call in (cuda.get_device_properties, accelerator.get_memory_info):
        with pytest.raises(ft.errors.BackendUnavailable):
            call()


@pytest.mark.gpu
def test_what_a_gpu_is():
    found = torch.cuda.get_device_properties()
    assert found.name == torch.cuda.get_device_name()
    assert (found.major, found.minor) == torch.cuda.get_device_capability()
    assert found.total_memory == torch.accelerator.get_memory_info()[1]
    torch.accelerator.set_device_index(0)
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_idx() == 0


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
