"""Tensors on a GPU: the same operations, changes in place, gradients and steps as on the CPU."""

import copy
import pickle

import numpy
import pytest
from support.error_cases import check

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch
from functensor import nn, optim
from functensor.backends import DeviceError

pytestmark = pytest.mark.gpu


def here(x):
    """Returns a tensor's or an array's values as NumPy's."""
    return numpy.asarray(ft.to_device(ft.value(x), "cpu"))


def both(f, *operands, rtol=1e-6, **options):
    """Calls a function with tensors of each device; the results agree, and are on them.

    Returns:
        What the function returned for tensors on the GPU.
    """
    cpu = [ft.CpuTensor(x, **options) for x in operands]
    gpu = [ft.CudaTensor(x, **options) for x in operands]
    wanted, got = f(*cpu), f(*gpu)
    if isinstance(got, ft.Tensor):
        assert got.device == "cuda:0"
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    numpy.testing.assert_allclose(here(got), here(wanted), rtol=rtol, atol=rtol)
    for a, b in zip(cpu, gpu, strict=True):
        if options.get("requires_grad"):
            assert b.grad.device == "cuda:0"
            numpy.testing.assert_allclose(here(b.grad), here(a.grad), rtol=rtol, atol=rtol)
    return got


X = numpy.arange(1, 7, dtype="float32").reshape(2, 3) / 4
Y = numpy.array([[2.0, -1.0, 0.5], [1.0, 3.0, -2.0]], "float32")

OPERATIONS = {
    "arithmetic": lambda x, y: (x + y) * 2 - x / y + 1,
    "power": lambda x, y: x**2 + x**0.5 + abs(y) ** x,
    "matmul": lambda x, y: x @ y.T,
    "reductions": lambda x, y: x.sum(0) + y.mean(0) + x.max() - y.std(0),
    "comparison": lambda x, y: ft.numpy.where(x > y, x, y),
    "index": lambda x, y: x[0] + y[:, 1].sum() + x[[1, 0], [2, 1]].sum(),
    "shape": lambda x, y: ft.numpy.concatenate([x.T, y.reshape(3, 2)]).flatten(),
    "softmax": lambda x, y: nn.log_softmax(x, axis=1) * nn.gelu(y),
    "norm": lambda x, y: nn.layer_norm(x, y[0], y[1]),
    "beside a number": lambda x, y: 1 - x * numpy.float32(2) + True,
    "beside a list": lambda x, y: x.masked_fill(y > 0, 0.5),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    out = both(OPERATIONS[name], X, Y)
    assert out.dtype == "float32"


@pytest.mark.parametrize("name", OPERATIONS)
def test_backward(name):
    def run(x, y):
        x, y = x.requires_grad_(), y.requires_grad_()
        loss = (OPERATIONS[name](x, y) ** 2).sum() + 0 * y.sum()
        loss.backward()
        return loss

    both(run, X, Y, rtol=1e-5, requires_grad=True)


CHANGES = {
    "+=": lambda x, y: x.__iadd__(y),
    "*= number": lambda x, y: x.__imul__(3),
    "x[...] = number": lambda x, y: x.__setitem__((0, slice(None, None, 2)), 9.0),
    "x[...] = tensor": lambda x, y: x.__setitem__([1, 0], y),
    "x[mask] = number": lambda x, y: x.__setitem__(x > 1, -1.0),
    "fill_": lambda x, y: x.fill_(7),
    "zero_": lambda x, y: x.zero_(),
    "copy_": lambda x, y: x.copy_(y),
    "add_": lambda x, y: x.add_(y, alpha=0.5),
    "clamp_": lambda x, y: x.clamp_(0.5, 1.0),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, -1),
    "exp_": lambda x, y: x.exp_(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_in_place(name):
    def run(x, y):
        before = x.clone()
        CHANGES[name](x, y)
        # Names that had the value before keep it.
        numpy.testing.assert_array_equal(here(before), X)
        return x

    assert both(run, X, Y)._version == 1


def test_a_change_in_place_is_followed_back():
    def run(x, y):
        total = x * y
        total += x
        total[0] = y[1] * 2
        total.sum().backward()
        return total

    both(run, X, Y, requires_grad=True)


def test_copy_takes_from_every_device():
    there, cpu = ft.CudaTensor(X), ft.CpuTensor(Y)
    there.copy_(cpu)
    cpu.copy_(ft.CudaTensor(X))
    assert (there.device, cpu.device) == ("cuda:0", "cpu")
    numpy.testing.assert_array_equal(here(there), Y)
    numpy.testing.assert_array_equal(here(cpu), X)


# -- where tensors are


def test_moves():
    t = ft.CpuTensor(X, requires_grad=True)
    moved = t.to("cuda")
    assert [x.device for x in (moved, t.cuda(), t.cuda(0), moved.cpu())] == [
        "cuda:0", "cuda:0", "cuda:0", "cpu",
    ]
    assert moved.to("cuda:0") is moved
    half = t.to("cuda", dtype="float16")
    assert (half.device, half.dtype) == ("cuda:0", "float16")
    assert t.to(moved).device == "cuda:0"
    (moved * moved.cpu().cuda()).sum().backward()
    assert t.grad.device == "cpu"
    numpy.testing.assert_array_equal(t.grad.numpy(), 2 * X)


def test_the_words_of_pytorch_for_moves():
    t = ft.Tensor(X, device="cuda")
    assert (t.device, t.is_cuda, t.cpu().is_cuda) == ("cuda:0", True, False)
    assert ft.Tensor([1.0], True, device="cuda").requires_grad
    assert ft.Tensor(t, device="cpu").device == "cpu"
    assert t.to("cpu", non_blocking=True).device == "cpu"
    assert t.cpu().cuda(non_blocking=True).device == "cuda:0"
    half = t.to("cpu", "float16", True)
    assert (half.device, half.dtype) == ("cpu", "float16")
    assert t.to("cuda") is t.to(None) is t
    assert t.to("cuda", copy=True) is not t
    assert t.to("cuda", "float32", False, True) is not t


def test_14_a_new_value_does_not_move_a_tensor():
    there, cpu = ft.CudaTensor(X), ft.CpuTensor(X)
    check(
        DeviceError,
        lambda: setattr(there, "data", np.asarray(Y)),
        "x.data = value: the value is on cpu, but what it belongs to is on cuda:0",
        'ft.to_device(x, "cuda:0")',
        14,
    )
    with pytest.raises(DeviceError, match="is on cuda:0, but what it belongs to is on cpu"):
        cpu.data = ft.to_device(Y, "cuda")
    there.data = Y.tolist()
    assert there.device == "cuda:0"
    numpy.testing.assert_array_equal(here(there), Y)
    with ft.default_device("cuda"):
        cpu.data = Y.tolist()
    assert cpu.device == "cpu"


def test_a_tensor_moves_to_the_memory_of_another():
    x, y = ft.CpuTensor(X), ft.CudaTensor(Y)
    view = x[0]
    x.data = y
    y.mul_(2)
    assert (x.device, view.device) == ("cuda:0", "cpu")
    numpy.testing.assert_array_equal(here(x), 2 * Y)
    bits = x.view(numpy.dtype(numpy.int32))
    bits.zero_()
    assert not here(y).any()
    p = torch.nn.Parameter(y)
    torch.add(y, 1, out=y)
    numpy.testing.assert_array_equal(here(p), numpy.ones_like(Y))
    assert (x.t_().device, x.shape, y.shape) == ("cuda:0", (3, 2), (2, 3))


def test_a_number_of_the_cpu_has_its_gradient_there():
    scale = ft.Tensor(2.0, requires_grad=True)
    (scale * scale * ft.CudaTensor(X)).sum().backward()
    assert scale.grad.device == "cpu"
    numpy.testing.assert_allclose(scale.grad.numpy(), 4 * X.sum())
    free = ft.Tensor(2.0)
    x = ft.CudaTensor(X, requires_grad=True)
    (free * x).sum().backward()
    assert x.grad.device == "cuda:0"
    numpy.testing.assert_array_equal(here(x.grad), numpy.full_like(X, 2))


@pytest.mark.parametrize("data", [1.5, [1.0, 2.0], X, numpy.float64(2)])
def test_numbers_go_to_the_default_device(data):
    cpu = ft.Tensor(data)
    with ft.default_device("cuda"):
        made = [ft.Tensor(data), ft.tensor(data)]
        assert [x.device for x in made] == ["cuda:0", "cuda:0"]
        assert {x.dtype for x in made} == {cpu.dtype}
        assert ft.CpuTensor(data).device == "cpu"
        assert ft.Tensor(cpu).device == "cpu"
    assert ft.CudaTensor(data).device == "cuda:0"


def test_14_tensors_on_two_devices_do_not_meet():
    there, cpu = ft.CudaTensor(X), ft.CpuTensor(X)
    check(
        DeviceError,
        lambda: there * cpu,
        "multiply of arrays on different devices: operand 0 (float32[2, 3]) on cuda:0, operand 1 "
        "(float32[2, 3]) on cpu",
        'x = ft.to_device(x, "cuda:0") for each that is elsewhere',
        14,
    )
    with pytest.raises(DeviceError, match="add of arrays on different devices"):
        there += cpu
    with pytest.raises(DeviceError, match="which is on cuda:0"):
        there.numpy()
    assert (there + 1.0).device == (there + cpu.sum()).device == "cuda:0"


def test_pickles_and_copies_come_back_where_they_were():
    leaf = ft.CudaTensor(X, requires_grad=True)
    for other in (pickle.loads(pickle.dumps(leaf)), copy.deepcopy(leaf)):
        assert (other.device, other.dtype, other.requires_grad) == ("cuda:0", "float32", True)
        numpy.testing.assert_array_equal(here(other), X)
        assert other is not leaf


def test_values_that_are_asked_for():
    t = ft.CudaTensor(X)
    assert (t.tolist(), t.sum().item(), float(t[0, 0])) == (X.tolist(), X.sum(), 0.25)
    assert t.item(1) == 0.5
    assert [10, 20, 30][ft.CudaTensor(1)] == 20
    assert bool((t > 0).all()) is True
    assert f"{t[0, 1]:.2f}" == "0.50"
    assert repr(ft.CudaTensor([1.0])) == "Tensor([1.], dtype=float32, device='cuda:0')"
    assert str(t) == str(X)


# -- training


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "MomentumSGD": lambda p: optim.MomentumSGD(p, lr=0.1),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "Lion": lambda p: optim.Lion(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    rng = numpy.random.default_rng(0)
    inputs = rng.normal(size=(8, 3)).astype("float32")
    targets = rng.normal(size=(8, 2)).astype("float32")
    start = rng.normal(size=(3, 2)).astype("float32")

    def trained(make):
        w, b = make(start), make(numpy.zeros(2, "float32"))
        x, y = make(inputs), make(targets)
        opt = OPTIMIZERS[name]([w.requires_grad_(), b.requires_grad_()])
        losses = []
        for _ in range(4):
            opt.zero_grad()
            loss = nn.mse(nn.linear(x, w, b), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        assert w.device == b.device == x.device
        assert w.is_leaf
        return [here(w), here(b), losses]

    for got, wanted in zip(trained(ft.CudaTensor), trained(ft.CpuTensor), strict=True):
        numpy.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)


def test_hooks_and_gradients_stay_there():
    seen = []
    x = ft.CudaTensor(X, requires_grad=True)
    x.register_hook(lambda g: seen.append(g.device) or g * 2)
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert seen == ["cuda:0", "cuda:0"]
    numpy.testing.assert_array_equal(here(x.grad), 8 * X)
    x.grad = ft.CudaTensor(X)
    assert x.grad.device == "cuda:0"
    y = ft.CudaTensor(X, requires_grad=True)
    (y * 3).backward(ft.CudaTensor(Y))
    numpy.testing.assert_array_equal(here(y.grad), 3 * Y)
    assert np.asarray(y.detach()).device == "cuda:0"
