"""Devices by name, what is said where there is no GPU, and memory shared with other libraries."""

import re
import sys
from pathlib import Path

import numpy
import pytest
from support.error_cases import check, line_of, text

import functensor as ft
import functensor.numpy as np
from functensor.backends import BackendUnavailable, DeviceError
from functensor.backends.cuda import driver

X = numpy.arange(3.0)
COMMAND = (
    "pip install 'functensor[cuda13]' on a machine with an NVIDIA GPU; no driver of one was found "
    "here"
)


class NoDevice(RuntimeError):
    """The error of a stand-in for CuPy in place of ``CUDARuntimeError``."""


class Runtime:
    """A stand-in for ``cupy.cuda.runtime``: so many devices, or an error."""

    CUDARuntimeError = NoDevice

    def __init__(self, found):
        self.found = found

    def getDeviceCount(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def machine(monkeypatch):
    """Returns a function that says what there is: CuPy, its GPUs, and the driver."""

    def there_is(cupy, *, found=0, distribution="cupy-cuda13x", version=None):
        monkeypatch.setattr(driver, "driver_version", lambda: version)
        monkeypatch.setattr(driver, "distribution_of_cupy", lambda: distribution)
        if cupy:
            runtime = Runtime(found)
            module = type(sys)("cupy")
            module.__version__, module.cuda = "14.2.0", type(sys)("cuda")
            module.cuda.runtime = runtime
            monkeypatch.setitem(sys.modules, "cupy", module)
        else:
            monkeypatch.setitem(sys.modules, "cupy", None)

    return there_is


# 17: a backend that is not there


@pytest.mark.parametrize(
    ("version", "fix"),
    [
        (None, COMMAND),
        (13, "pip install 'functensor[cuda13]', since this machine's driver is for CUDA 13"),
        (12, "pip install 'functensor[cuda12]', since this machine's driver is for CUDA 12"),
        (11, "pip install 'functensor[cuda12]', since this machine's driver is for CUDA 11"),
        (14, "pip install 'functensor[cuda13]', since this machine's driver is for CUDA 14"),
    ],
)
def test_17_cupy_is_not_installed(machine, version, fix):
    machine(cupy=False, version=version)
    check(
        BackendUnavailable,
        lambda: driver.imported(),
        "arrays on a GPU need CuPy, which cannot be imported",
        fix,
        17,
    )


@pytest.mark.parametrize(
    ("distribution", "version", "fix"),
    [
        ("cupy-cuda13x", None, COMMAND),
        (
            "cupy-cuda13x",
            13,
            (
                "see that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES hides none; the "
                "driver and cupy-cuda13x are both for CUDA 13"
            ),
        ),
        (
            "cupy-cuda13x",
            12,
            (
                "pip uninstall cupy-cuda13x; pip install 'functensor[cuda12]', since this "
                "machine's driver is for CUDA 12"
            ),
        ),
    ],
)
@pytest.mark.parametrize(("found", "reason"), [(0, "there is none"), (NoDevice("no!"), "no!")])
def test_17_cupy_finds_no_gpu(machine, distribution, version, fix, found, reason):
    machine(cupy=True, found=found, distribution=distribution, version=version)
    check(
        BackendUnavailable,
        lambda: driver.imported(),
        f"CuPy is installed ({distribution} 14.2.0), but finds no GPU: {reason}",
        fix,
        17,
    )


def test_a_gpu_that_is_there_is_used(machine):
    machine(cupy=True, found=1)
    assert driver.imported() is sys.modules["cupy"]


WAYS = {
    "to_device": lambda: ft.to_device(X, "cuda"),
    "default_device": lambda: ft.default_device("cuda:0").__enter__(),
    "creation": lambda: np.zeros(3, device="cuda"),
    "array": lambda: np.asarray(X, device="cuda:1"),
    "tensor": lambda: ft.Tensor([1.0]).cuda(),
    "constructor": lambda: ft.CudaTensor([1.0]),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_17_every_way_to_a_gpu_says_so_in_the_users_line(monkeypatch, way):
    forget_the_gpu(monkeypatch)
    with pytest.raises(BackendUnavailable) as info:
        way()
    assert str(info.value) == text(
        "arrays on a GPU need CuPy, which cannot be imported",
        line_of(info.tb, __file__),
        COMMAND,
        17,
    )


def test_17_under_a_transformation(monkeypatch):
    forget_the_gpu(monkeypatch)

    def f(x):
        return np.sum(ft.to_device(x, "cuda"))

    check(
        BackendUnavailable,
        lambda: ft.grad(f)(X),
        "arrays on a GPU need CuPy, which cannot be imported",
        COMMAND,
        17,
        f"grad(f ({__file__}:{f.__code__.co_firstlineno}))",
    )


def forget_the_gpu(monkeypatch):
    """Makes a machine one without CuPy and without a driver, whatever it is."""
    from functensor.backends import protocol

    monkeypatch.setattr(driver, "driver_version", lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(sys.modules, "functensor.backends.cuda.backend", raising=False)
    monkeypatch.setattr(protocol, "_loaded", {"numpy": protocol.get("numpy")})


# Names of devices


def test_devices_without_a_gpu(monkeypatch):
    forget_the_gpu(monkeypatch)
    assert ft.devices() == ["cpu"]


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "CPU", "", 0, "cuda:-1"])
def test_names_that_are_none(name):
    with pytest.raises(DeviceError, match=r"there is no device .*; there are 'cpu'"):
        ft.to_device(X, name)


NAMES = (
    'ft.to_device(x, "cuda"); names are "cpu", "cuda" for the current GPU, and those that '
    "ft.devices() lists"
)


def test_14_there_is_no_such_device(monkeypatch):
    forget_the_gpu(monkeypatch)
    for call in (
        lambda: ft.to_device(X, "gpu"),
        lambda: np.zeros(2, device="gpu"),
        lambda: ft.Tensor([1.0], device="gpu"),
        lambda: ft.Tensor([1.0]).to("gpu"),
        lambda: ft.set_default_device("gpu"),
    ):
        check(DeviceError, call, "there is no device 'gpu'; there are 'cpu'", NAMES, 14)


def test_the_default_device_is_put_back():
    with ft.default_device("cpu") as name:
        assert name == "cpu"
        assert np.zeros(2).device == "cpu"
    assert np.zeros(2).device == "cpu"
    with pytest.raises(DeviceError), ft.default_device("tpu"):
        pass
    assert np.zeros(2).device == "cpu"


def test_a_tree_is_moved():
    given = {"w": X, "b": [1, 2.0], "name": "first", "none": None}
    moved = ft.to_device(given, "cpu")
    assert moved["name"] == "first"
    assert moved["none"] is None
    assert [type(x) for x in ft.tree.leaves((moved["w"], moved["b"]))] == [ft.Array] * 3
    assert not numpy.shares_memory(numpy.asarray(moved["w"]), X)
    assert numpy.shares_memory(ft.to_device(moved["w"], "cpu"), moved["w"])


def test_derivatives_go_through_a_move():
    def f(x):
        return np.sum(ft.to_device(x, "cpu") ** 2)

    numpy.testing.assert_array_equal(ft.grad(f)(X), 2 * X)
    numpy.testing.assert_array_equal(ft.vmap(ft.grad(f))(X), 2 * X)
    numpy.testing.assert_array_equal(ft.jvp(f, (X,), (X,))[1], 2 * (X * X).sum())


def test_choices_about_computing():
    assert (ft.config.matmul_precision, ft.config.deterministic) == ("highest", False)
    before = repr(ft.config)
    with ft.config.using(matmul_precision="tf32", deterministic=True):
        assert (ft.config.matmul_precision, ft.config.deterministic) == ("tf32", True)
        kind = type(ft.config)
        choices = {n for n, x in vars(kind).items() if isinstance(x, property)} - {"numerics"}
        during = repr(ft.config)
        shown = dict(re.findall(r"(\w+)=('?\w+'?)", during))
        assert shown == {name: repr(getattr(ft.config, name)) for name in choices}
    assert repr(ft.config) == before != during
    with pytest.raises(ValueError, match="not 'half'") as info:
        ft.config.matmul_precision = "half"
    assert str(info.value) == (
        "config.matmul_precision is one of 'highest', 'tf32', not 'half'\n"
        f"  at {line_of(info.tb, __file__)}\n"
        "  fix: ft.config.matmul_precision = 'tf32'"
    )
    with pytest.raises(ValueError, match=r"config\.deterministic is one of True, False, not 1"):
        ft.config.deterministic = 1
    with pytest.raises(AttributeError, match="config has no 'threads'"):
        ft.config.using(threads=2).__enter__()
    with pytest.raises(AttributeError) as info:
        ft.config.matmul_precison = "tf32"
    assert "  fix: ft.config.matmul_precision" in str(info.value).splitlines()


def test_a_default_device_needs_a_with_block():
    with pytest.warns(UserWarning, match="does nothing") as caught:
        ft.default_device("cpu")
    (warning,) = caught
    assert warning.filename == __file__
    first, _, fix = str(warning.message).splitlines()
    assert first == "default_device('cpu') without `with` does nothing"
    assert fix == "  fix: ft.set_default_device('cpu'), or with ft.default_device('cpu'): ..."

    @ft.default_device("cpu")
    def made():
        return np.zeros(1).device

    assert made() == made() == "cpu"


# On a GPU

gpu = pytest.mark.gpu


@gpu
def test_arrays_are_made_where_they_should_be():
    with ft.default_device("cuda") as name:
        assert name == "cuda:0"
        made = [np.zeros(2), np.asarray([1.0]), np.arange(3), np.eye(2), np.linspace(0, 1, 3)]
        made += [ft.random.normal(ft.random.key(0), (2,)), ft.Tensor([1.0])]
        assert [x.device for x in made] == ["cuda:0"] * len(made)
        assert np.zeros(2, device="cpu").device == "cpu"
    assert np.zeros(2).device == "cpu"
    assert np.zeros(2, device="cuda").device == "cuda:0"
    assert np.ones_like(np.zeros(2, device="cuda")).device == "cuda:0"


@gpu
def test_a_default_device_stays_until_another_is_set():
    try:
        ft.set_default_device("cuda")
        assert (np.zeros(2).device, ft.Tensor([1.0]).device) == ("cuda:0", "cuda:0")
        with ft.default_device("cpu"):
            assert np.zeros(2).device == "cpu"
        assert np.arange(2).device == "cuda:0"
    finally:
        ft.set_default_device("cpu")
    assert np.zeros(2).device == "cpu"

    @ft.default_device("cuda")
    def made():
        return np.zeros(1).device

    assert (made(), made(), np.zeros(1).device) == ("cuda:0", "cuda:0", "cpu")


MADE = {
    "logspace": lambda device: np.logspace(0.0, 2.0, 3, device=device),
    "geomspace": lambda device: np.geomspace(1.0, 4.0, 3, device=device),
    "identity": lambda device: np.identity(2, device=device),
    "tri": lambda device: np.tri(2, device=device),
    "linspace": lambda device: np.linspace(0.0, 2.0, 3, device=device),
    "astype": lambda device: np.astype(np.asarray(X), "float32", device=device),
}


@gpu
@pytest.mark.parametrize("name", MADE)
def test_functions_that_make_arrays_take_a_device(name):
    there, here = MADE[name]("cuda"), MADE[name]("cpu")
    assert (there.device, here.device) == ("cuda:0", "cpu")
    assert there.tolist() == here.tolist()
    if name in ("logspace", "geomspace", "linspace"):
        ends = ft.to_device(numpy.array([1.0, 2.0]), "cuda")
        assert getattr(np, name)(ends, 4.0, 3).device == "cuda:0"
        assert getattr(np, name)(ends, 4.0, 3, device="cpu").device == "cpu"


@gpu
def test_trees_and_tensors_move_there_and_back():
    given = {"w": X, "b": [1, 2.0], "name": "first"}
    there = ft.to_device(given, "cuda")
    assert [x.device for x in (there["w"], *there["b"])] == ["cuda:0"] * 3
    back = ft.to_device(there, "cpu")
    numpy.testing.assert_array_equal(back["w"], X)
    assert (back["b"][0].dtype, back["b"][1].dtype) == (numpy.int64, numpy.float64)
    t = ft.Tensor(X, requires_grad=True)
    moved = t.cuda()
    assert (moved.device, moved.cpu().device) == ("cuda:0", "cpu")
    (moved * moved).sum().backward()
    assert t.grad.device == "cpu"
    numpy.testing.assert_array_equal(t.grad.numpy(), 2 * X)


@gpu
def test_what_is_moved_may_be_changed_at_once():
    x = numpy.ones(1 << 20)
    moved = ft.to_device(x, "cuda")
    x[:] = 2.0
    assert float(np.sum(moved)) == 1 << 20


@gpu
def test_14_arrays_on_two_devices_do_not_meet():
    there = ft.to_device(X, "cuda")
    check(
        DeviceError,
        lambda: there + np.asarray(X),
        "add of arrays on different devices: operand 0 (float64[3]) on cuda:0, operand 1 "
        "(float64[3]) on cpu",
        'x = ft.to_device(x, "cuda:0") for each that is elsewhere',
        14,
    )
    assert (there + 1.0).device == "cuda:0"
    assert there[numpy.array([2, 0])].tolist() == [2.0, 0.0]


@gpu
def test_14_numpy_does_not_get_the_memory_of_an_array_on_a_gpu():
    there = ft.to_device(X, "cuda")
    check(
        DeviceError,
        lambda: numpy.asarray(there),
        "NumPy asked for the memory of float64[3], which is on cuda:0",
        'numpy.asarray(ft.to_device(x, "cpu")), or x.tolist()',
        14,
    )


@gpu
def test_the_current_stream_is_used():
    import cupy

    x = ft.to_device(numpy.ones(1 << 20), "cuda")
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        y = np.sum(x * 2.0)
        event = stream.record()
    event.synchronize()
    assert float(y) == 2 << 20


@gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64", "float16", "bool"])
def test_memory_is_shared_with_cupy_and_torch(dtype):
    cupy = pytest.importorskip("cupy")
    x = ft.to_device((X > 1).astype(dtype), "cuda")
    assert cupy.from_dlpack(x).data.ptr == cupy.asarray(x).data.ptr
    y = cupy.ones((2, 3), dtype)
    for given in (np.from_dlpack(y), np.asarray(y)):
        assert given.device == "cuda:0"
        assert given.__cuda_array_interface__["data"][0] == y.data.ptr
    torch = pytest.importorskip("torch")
    t = torch.from_dlpack(x)
    assert (t.device.type, t.data_ptr()) == ("cuda", cupy.asarray(x).data.ptr)
    back = np.from_dlpack(t)
    assert back.__cuda_array_interface__["data"][0] == t.data_ptr()
    numpy.testing.assert_array_equal(ft.to_device(back, "cpu"), (X > 1).astype(dtype))


@gpu
def test_memory_is_shared_with_jax():
    jax = pytest.importorskip("jax")
    import cupy

    # Of several GPUs JAX leaves the last one current when it begins.
    with cupy.cuda.Device():
        found = jax.default_backend()
    if found != "gpu":
        pytest.skip("needs JAX with CUDA")
    x = ft.to_device(X.astype("float32"), "cuda")
    y = jax.numpy.from_dlpack(x)
    assert y.tolist() == x.tolist()
    assert np.from_dlpack(y + 1).tolist() == [1.0, 2.0, 3.0]


@gpu
def test_info_tells_of_the_gpu():
    from functensor.backends import info

    found = info()["cupy"]
    assert found["devices"][0] == "cuda:0"
    assert found["blas"] == "cuBLAS"


def test_the_sources_of_kernels_lie_beside_their_modules():
    folder = Path(driver.__file__).with_name("include")
    assert {"common.cuh", "half.cuh"} <= {path.name for path in folder.glob("*.cuh")}


@pytest.mark.gpu
def test_a_list_is_an_index_where_the_gpu_is_the_default():
    with ft.default_device("cuda"):
        x = np.arange(6.0).reshape(2, 3)
        assert x[[1, 0]].tolist() == [[3, 4, 5], [0, 1, 2]]
        assert x[[0, 1], [1, 2]].tolist() == [1, 5]
        assert x[[]].shape == (0, 3)
