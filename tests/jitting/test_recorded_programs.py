"""Gradients of jitted functions of tensors, by plans: with the loss, and by a way back."""

import gc
import threading

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.jitting.compile import Compiled
from functensor.jitting.recorded_program import RecordedProgram


@pytest.fixture
def joint(monkeypatch):
    """One entry for each call that computes gradients with its outputs."""
    seen = []
    run = RecordedProgram._with_gradients

    def noted(self, *args):
        seen.append(None)
        return run(self, *args)

    monkeypatch.setattr(RecordedProgram, "_with_gradients", noted)
    return seen


def loss_of(w, x):
    return torch.tanh(x @ w).square().mean()


def operands(seed=0):
    rng = numpy.random.default_rng(seed)
    w = torch.tensor(rng.normal(size=(3, 2)).astype("f"), requires_grad=True)
    return w, torch.tensor(rng.normal(size=(5, 3)).astype("f"))


def gradient(loss, w, *rest, factor=1.0):
    w.grad = None
    (loss(w, *rest) * factor).backward()
    return w.grad


def close(x, y, rtol=1e-5):
    numpy.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=rtol, atol=1e-7)


@pytest.fixture
def warm():
    """A compiled loss that computes gradients with it, and its arguments."""
    compiled = torch.compile(loss_of)
    w, x = operands()
    for _ in range(4):
        gradient(compiled, w, x)
    return compiled, w, x


@pytest.mark.parametrize("compile", [torch.compile, ft.jit])
def test_gradients_come_with_the_loss_where_backward_follows(compile, joint):
    compiled = compile(loss_of)
    for seed in range(6):
        w, x = operands(seed)
        close(gradient(compiled, w, x), gradient(loss_of, w, x))
    # The guard is made by the second or third call, and the first way back tells.
    assert len(joint) >= 2


def test_a_step_of_training_runs_one_plan_for_loss_and_gradients(warm, monkeypatch):
    compiled, w, x = warm
    ran = []
    for entry in plans():
        run = entry.run
        monkeypatch.setattr(entry, "run", lambda buffers, run=run: ran.append(1) or run(buffers))
    gradient(compiled, w, x)
    assert len(ran) == 1


def test_a_loss_that_is_trained_has_no_plan_for_the_way_there(joint):
    before = {id(x) for x in recorded()}
    compiled = torch.compile(loss_of)
    w, x = operands()
    for _ in range(4):
        gradient(compiled, w, x)
    (made,) = [x for x in recorded() if id(x) not in before]
    assert len(joint) == 4
    assert not compiled_forms(made._parts.brief)
    assert not made._backward


def test_numbers_beside_tensors(joint):
    f = ft.jit(lambda w, x, rate: loss_of(w, x) * rate)
    w, x = operands()
    for rate in (2.0, 3, numpy.float64(0.5), True, 0.25):
        close(gradient(f, w, x, rate), gradient(loss_of, w, x, factor=float(rate)))


def compiled_forms(program):
    """Returns the choices of numerics for which a program was compiled."""
    return [key[1] for key in program.derived if key[0] == "compiled"]


def plans():
    return [x for x in gc.get_objects() if type(x) is Compiled and x.name == "loss_of"]


def test_another_cotangent_than_one_is_pulled_back(warm):
    compiled, w, x = warm
    expected = gradient(loss_of, w, x, factor=3.0)
    for _ in range(3):
        close(gradient(compiled, w, x, factor=3.0), expected)
    close(gradient(compiled, w, x), expected / 3)


def test_losses_without_a_way_back_stop_to_compute_gradients(warm, joint):
    compiled, w, x = warm
    for _ in range(5):
        assert compiled(w, x).requires_grad
    assert len(joint) == 1
    close(gradient(compiled, w, x), gradient(loss_of, w, x))


def test_no_loss_computes_gradients_with_deterministic_where_passes_are_outside_of_it(joint):
    compiled, (w, x) = torch.compile(loss_of), operands()
    for _ in range(6):
        w.grad = None
        with ft.config.using(deterministic=True):
            loss = compiled(w, x)
        loss.backward()
    assert not joint
    close(w.grad, gradient(loss_of, w, x))


def test_two_losses_before_one_pass(warm, joint):
    compiled, w, x = warm
    expected = gradient(lambda w: loss_of(w, x) + loss_of(w, 2 * x), w)
    for _ in range(3):
        close(gradient(lambda w: compiled(w, x) + compiled(w, 2 * x), w), expected)
    assert len(joint) == 5


def test_nothing_is_recorded_without_gradients(warm, joint):
    compiled, w, x = warm
    with torch.no_grad():
        out = compiled(w, x)
    assert not out.requires_grad
    assert not joint
    close(out, loss_of(w, x))


def test_a_retained_graph_gives_its_gradients_again(warm):
    compiled, w, x = warm
    expected = gradient(loss_of, w, x)
    w.grad = None
    loss = compiled(w, x)
    loss.backward(retain_graph=True)
    first = w.grad
    w.grad = None
    loss.backward(retain_graph=True)
    second = w.grad
    second.mul_(7)
    close(first, expected)
    w.grad = None
    loss.backward(torch.tensor(2.0))
    close(w.grad, 2 * expected)
    with pytest.raises(ft.errors.BackwardError, match="a second time"):
        loss.backward()


def test_gradients_accumulate_and_belong_to_nobody_else(warm):
    compiled, w, x = warm
    expected = gradient(loss_of, w, x)
    w.grad = None
    compiled(w, x).backward()
    kept = w.grad.detach().clone()
    given = w.grad
    compiled(w, x).backward()
    assert w.grad is given
    close(w.grad, 2 * expected)
    w.grad.zero_()
    close(kept, expected)
    compiled(w, x).backward()
    close(w.grad, expected)


def test_parameters_written_to_meanwhile(warm):
    compiled, w, x = warm
    expected = gradient(loss_of, w, x)
    w.grad = None
    loss = compiled(w, x)
    with torch.no_grad():
        w.zero_()
    loss.backward(torch.tensor(1.0))
    close(w.grad, expected)
    assert gradient(compiled, w, x).abs().max() == 0


def test_gradients_that_are_differentiated_again(warm):
    compiled, w, x = warm

    def curvature(loss):
        w.grad = None
        (g,) = torch.autograd.grad(loss(w, x), w, create_graph=True)
        g.square().sum().backward()
        return w.grad

    close(curvature(compiled), curvature(loss_of), rtol=1e-4)


def test_gradients_by_one_of_several_tensors(warm):
    compiled, w, x = warm
    x.requires_grad_()
    for _ in range(5):
        loss, expected = compiled(w, x), loss_of(w, x)
        found = torch.autograd.grad(loss, [x])
        close(found[0], torch.autograd.grad(expected, [x])[0])


def test_hooks_of_tensors_see_the_gradients(warm):
    compiled, w, x = warm
    seen = []
    handle = w.register_hook(lambda g: seen.append(g) or 2 * g)
    close(gradient(compiled, w, x), 2 * seen[0])
    handle.remove()
    loss = compiled(w, x)
    loss.register_hook(lambda g: 5 * g)
    w.grad = None
    loss.backward()
    close(w.grad, 5 * gradient(loss_of, w, x))


def test_further_outputs_and_those_that_are_arguments(joint):
    def loss(w, x):
        out = x @ w
        return out.square().mean(), out, x, (out > 0).sum()

    compiled = torch.compile(loss)
    w, x = operands()
    expected = gradient(lambda w: loss(w, x)[0], w)
    for _ in range(5):
        total, out, same, count = compiled(w, x)
        w.grad = None
        total.backward()
        close(w.grad, expected)
        assert out.requires_grad
        assert not count.requires_grad
        numpy.testing.assert_array_equal(same.detach(), x)
    assert joint
    # A pass from another output.
    found = torch.autograd.grad(compiled(w, x)[1].sum(), w)[0]
    close(found, torch.autograd.grad((x @ w).sum(), w)[0])


def test_arrays_of_numpy_are_read_at_the_call(warm):
    _, w, x = warm
    compiled, array = torch.compile(loss_of), x.numpy().copy()
    for _ in range(4):
        gradient(compiled, w, array)
    expected = gradient(loss_of, w, torch.tensor(array))
    w.grad = None
    loss = compiled(w, array)
    array[...] = 0
    loss.backward(torch.tensor(1.0))
    close(w.grad, expected)


def test_threads_train_by_one_compiled_loss(warm):
    compiled, w, x = warm
    expected, wrong = gradient(loss_of, w, x), []
    start = threading.Barrier(4)

    def train():
        own = w.detach().clone().requires_grad_()
        start.wait()
        for i in range(30):
            g = gradient(compiled, own, x, factor=1.0 if i % 3 else 2.0)
            if not torch.allclose(g, expected * (1 if i % 3 else 2), rtol=1e-4):
                wrong.append(g)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_an_error_in_a_guarded_call_names_the_function(warm):
    def loss(w, labels):
        return torch.nn.functional.cross_entropy(w, labels)

    compiled = torch.compile(loss)
    w, labels = torch.ones(2, 3, requires_grad=True), torch.tensor([0, 2])
    for _ in range(4):
        gradient(compiled, w, labels)
    with pytest.raises(IndexError, match="label 5") as raised:
        compiled(w, torch.tensor([0, 5]))
    assert raised.value.__notes__[0].startswith("in cross_entropy of loss, at")
    close(gradient(compiled, w, labels), gradient(torch.nn.functional.cross_entropy, w, labels))


def test_the_way_back_takes_images_as_they_lie():
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 5, 3)]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten())
    x = torch.tensor(numpy.random.default_rng(0).normal(size=(2, 3, 8, 9)).astype("f"))
    compiled = torch.compile(model)
    weights = list(model.parameters())
    expected = torch.autograd.grad(model(x).square().sum(), weights)
    before = recorded()
    for _ in range(4):
        found = torch.autograd.grad(compiled(x).square().sum(), weights)
        for g, wanted in zip(found, expected, strict=True):
            close(g, wanted, rtol=1e-4)
    (made,) = [x for x in recorded() if not any(x is y for y in before)]
    ((way, *_),) = made._backward.values()
    orders = {x.order for x in way.inputs if len(x.type.shape) == 4}
    assert (0, 2, 3, 1) in orders


def recorded():
    return [x for x in gc.get_objects() if type(x) is RecordedProgram]


def test_a_deterministic_function_keeps_its_plans(joint):
    compiled = torch.compile(loss_of)
    w, x = operands()
    with ft.config.using(deterministic=True):
        found = [gradient(compiled, w, x).numpy().tobytes() for _ in range(5)]
    assert not joint
    assert len({*found}) == 1


def test_ways_back_are_compiled_for_the_choices_of_their_pass():
    def seven_times(w, x):
        return loss_of(w, x) * 7

    compiled = ft.jit(seven_times)
    w, x = operands()
    for precision in ("highest", "tf32", "highest"):
        # No pass begins with one, so that there is a plan for the way back alone.
        loss = compiled(w, x) * 3
        with ft.config.using(matmul_precision=precision):
            loss.backward()
    ways = [way for made in recorded() for way, *_ in made._backward.values()]
    (way,) = [way for way in ways if way.name == "seven_times"]
    assert compiled_forms(way) == [("highest", False), ("tf32", False)]


def test_a_compiled_function_reads_the_choices_of_its_call():
    """Whether tensors record, and the default dtype, as PyTorch's compiled functions do."""
    compiled = torch.compile(lambda x: x * 2 if torch.is_grad_enabled() else x * 3)
    summed = torch.compile(lambda x: (x * torch.ones(3)).sum())
    x = torch.ones(3)
    for _ in range(4):
        assert compiled(x).tolist() == [2.0] * 3
        with torch.no_grad():
            assert compiled(x).tolist() == [3.0] * 3
        assert summed(x).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert summed(x).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("compile", [ft.jit, torch.compile])
def test_outputs_without_a_derivative_require_no_gradient(compile):
    def f(w, x):
        y = w * x
        return y.sum(), y.detach(), x * 2, w.sum().detach() + x.sum()

    compiled = compile(f)
    w, x = torch.ones(2, requires_grad=True), torch.ones(2)
    for _ in range(4):
        outs = compiled(w, x)
        assert [out.requires_grad for out in outs] == [True, False, False, False]
        assert outs[1].numpy().tolist() == [1, 1]
        w.grad = None
        outs[0].backward()
        assert w.grad.tolist() == [1, 1]
    # The loss of parameters that are frozen meanwhile is one of those.
    w.requires_grad_(False)
    other = torch.ones(2, requires_grad=True)
    unused = compile(lambda w, x, other: (w * x).sum())
    for _ in range(3):
        assert not unused(w, x, other).requires_grad
        with pytest.raises(ft.errors.BackwardError):
            unused(w, x, other).backward()
