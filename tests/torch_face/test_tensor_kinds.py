"""Kinds of tensors: constructors by dtype and device, ``isinstance``, devices, default dtypes."""

import inspect
import pickle

import pytest

import functensor as ft
import functensor.torch as torch


def test_constructors_take_numbers_or_sizes():
    x = torch.Tensor([1, 2])
    assert (x.dtype, x.tolist()) == (torch.float32, [1, 2])
    assert torch.Tensor(2, 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert torch.Tensor().shape == (0,)
    assert torch.LongTensor([1.5]).tolist() == [1]
    assert torch.BoolTensor(2).dtype == torch.bool
    assert torch.Tensor(ft.numpy.ones(2, dtype="float64")).dtype == torch.float32
    with pytest.raises(TypeError) as caught:
        torch.LongTensor(2.5)
    lines = str(caught.value).splitlines()
    assert lines[0] == "LongTensor takes one sequence of numbers, or the lengths of axes"
    assert lines[2] == "  fix: torch.LongTensor([1, 2])"


def test_instances_are_told_by_dtype_and_device():
    x = torch.ones(2)
    assert isinstance(x, torch.Tensor)
    assert isinstance(x, ft.Tensor)
    assert isinstance(x, torch.FloatTensor)
    assert not isinstance(x, torch.LongTensor)
    assert not isinstance(ft.numpy.ones(2), torch.Tensor)
    assert isinstance(x * 2, ft.CpuTensor)
    assert not isinstance(x, ft.CudaTensor)
    assert not isinstance(2.0, ft.CpuTensor)
    assert issubclass(torch.nn.Parameter, torch.Tensor)
    assert not issubclass(torch.nn.Parameter, ft.CpuTensor)
    names = list(inspect.signature(ft.CpuTensor).parameters)
    assert names == ["data", "requires_grad", "dtype"]


def test_kinds_make_traced_tensors_within_transformations():
    seen = []

    def f(x):
        y = ft.CpuTensor([1.0, 2.0])
        y += x
        seen.append(isinstance(y, torch.Tensor))
        return y

    assert ft.vmap(f)(torch.tensor([1.0, 2.0])).tolist() == [[2, 3], [3, 4]]
    assert seen == [True]


def test_a_class_derived_from_a_kind_is_a_class():
    class Named(torch.Tensor):
        pass

    x = Named([1.0, 2.0])
    assert type(x) is Named
    assert isinstance(x, torch.Tensor)
    assert not isinstance(torch.ones(2), Named)


def test_devices_know_their_parts():
    x = torch.ones(2)
    assert (x.device, x.device.type, x.device.index) == ("cpu", "cpu", None)
    assert x.to(x.device) is x
    assert torch.zeros(1, device=x.device).device == torch.device("cpu")
    assert type(pickle.loads(pickle.dumps(x)).device.type) is str
    assert ft.jit(lambda x: x + 1 if x.device.type == "cpu" else x)(x).tolist() == [2, 2]
    assert (torch.device("cuda", 1).type, torch.device("cuda:1").index) == ("cuda", 1)


def test_memory_of_views():
    x = torch.zeros(2, 3)
    assert (x.stride(), x.t().stride(), x.stride(-1)) == ((3, 1), (1, 3), 1)
    assert torch.tensor(1.0).stride() == ()
    assert (x.is_contiguous(), x.t().is_contiguous()) == (True, False)
    assert x.t().contiguous().stride() == (2, 1)
    assert (x.element_size(), x.get_device(), x.is_cpu) == (4, -1, True)

    def f(x):
        assert (x.is_contiguous(), x.t().is_contiguous()) == (True, False)
        assert x.stride() == (3, 1)
        return x.t().contiguous().view(-1)

    y = torch.arange(6.0).view(2, 3)
    assert ft.jit(f)(y).tolist() == y.t().reshape(-1).tolist()
    with pytest.raises(NotImplementedError, match="does not know how it will lie in memory"):
        ft.jit(lambda x: x * x.t().stride(0))(x)


def test_types_by_pytorchs_names():
    x = torch.tensor([1.5])
    assert (x.type(), x.long().type()) == ("torch.FloatTensor", "torch.LongTensor")
    for wanted in (torch.LongTensor, "torch.LongTensor", torch.int64, "int64"):
        assert x.type(wanted).dtype == torch.int64
    with pytest.raises(TypeError):
        x.type("torch.Nonsense")


def test_the_default_dtype_may_be_set():
    with pytest.raises(TypeError, match="takes bfloat16, float16, float32, float64, not int64"):
        torch.set_default_dtype(torch.int64)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.get_default_dtype() == torch.float64
        made = [
            torch.tensor(1.5), torch.zeros(2), torch.rand(2), torch.full((1,), 0.5),
            torch.arange(0.0, 1.0, 0.5), torch.tensor([1, 2]) / 2, torch.tensor([1]).exp(),
            torch.Tensor([1]), torch.nn.Linear(1, 1).weight, torch.linspace(0, 1, 3),
            torch.where(torch.tensor([True]), 1.0, 2.0),
        ]  # fmt: skip
        assert {x.dtype for x in made} == {torch.float64}
        assert torch.tensor(1j).dtype == torch.complex128
        assert (torch.tensor([1.0], dtype=torch.float32) * 2.0).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.zeros(1).dtype == torch.float32


def test_what_a_machine_without_a_gpu_says():
    count = torch.cuda.device_count()
    assert torch.cuda.is_available() == (count > 0) == any("cuda" in d for d in ft.devices())
    torch.cuda.manual_seed_all(3)
    assert torch.initial_seed() == 3
    torch.cuda.empty_cache()


@pytest.mark.gpu
def test_names_of_gpus():
    cuda = torch.cuda
    assert cuda.is_available()
    assert cuda.current_device() == 0
    assert cuda.get_device_name()
    assert cuda.get_device_capability() >= (7, 0)
    before = cuda.memory_allocated()
    x = torch.ones(1024, 1024, device="cuda")
    assert cuda.memory_allocated() - before >= 4 * 2**20
    free, total = cuda.mem_get_info()
    assert 0 < free < total
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begin.record()
    y = x @ x
    end.record()
    end.synchronize()
    assert end.query()
    assert begin.elapsed_time(end) > 0
    assert isinstance(y, ft.CudaTensor)
    assert (y.device.type, y.device.index, y.get_device()) == ("cuda", 0, 0)
    assert (y.type(), y.is_cpu) == ("torch.cuda.FloatTensor", False)
    assert y.t().stride() == (1, 1024)
    cuda.synchronize()
    with cuda.device(0):
        assert torch.zeros(1).device == "cuda:0"
    del x, y
    cuda.empty_cache()
    cuda.set_device(0)


def test_bfloat16_is_a_dtype_by_its_name():
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    assert x.dtype == torch.bfloat16 == x.detach().float().to(torch.bfloat16).dtype
    assert isinstance(x.detach(), torch.BFloat16Tensor)
    (x * x).sum().backward()
    assert (x.grad.dtype, x.grad.float().tolist()) == (torch.bfloat16, [2, 2])
    assert torch.promote_types(torch.bfloat16, torch.float32) == torch.float32
    assert torch.finfo(torch.bfloat16).eps == 2**-7
