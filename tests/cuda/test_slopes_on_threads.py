"""The kernels of the cross entropy that write a slope, on the CPU's threads."""

import ctypes
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from support import many_threads, one_thread
from support.leaf_kernels import Buffer
from support.long_forms import with_slow

from functensor.backends.cuda.launch import source

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")

# What the compiler of GPUs knows.
KNOWN = """
struct int4 { int x, y, z, w; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct uint4 { unsigned int x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static double2 make_double2(double x, double y) { return {x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <typename T> static void __stwb(T *to, T value) { *to = value; }
static float __fadd_rn(float x, float y) { return x + y; }
static double __dadd_rn(double x, double y) { return x + y; }
static float __int_as_float(int bits) { return __uint_as_float((unsigned int)bits); }
static int __syncthreads_or(int x) { return x; }
alignas(16) static int4 memory[1 << 12];
"""
LOSS = "const void *x, const void *labels, void *out, void *grad"
WITH_GRAD = [f"n{i}" for i in range(8)]
AHEAD = (
    "const void *x, const void *labels, void *loss, void *exact, void *out, const void *bets, "
    "void *staked, const void *bias"
)
EXACT = {"float": "float", "double": "double", "half_t": "float", "bfloat16_t": "float"}
THREADS = 64


class Kernel:
    """A kernel as a function of the CPU, compiled for each instance.

    Args:
        name: its name.
        text: what declares it, and the call, for the type of elements.
    """

    def __init__(self, name, declared, call):
        self.name, self.declared, self.call = name, declared, call
        self.libraries = {}
        self.launched = []

    def __call__(self, types, grid, block, *arguments, shared=0):
        """Runs an instance."""
        if types not in self.libraries:
            kind = types.partition(",")[0]
            call = self.call.replace("T *", f"{kind} *").replace("A *", f"{EXACT[kind]} *")
            text = f'extern "C" __global__ void\ninstance({self.declared}) {{\n'
            text += f"    {self.name}<{types}>({call});\n}}\n"
            kernel = SimpleNamespace(name="instance", text=text)
            whole = source("cross_entropy").replace("extern __shared__ int4 memory[];", "")
            made = many_threads.Compiled(KNOWN + whole + text, [kernel])
            self.libraries[types] = made.library
        self.launched.append((types, grid, block))
        self.libraries[types].run_instance(grid, 1, block, *map(argument, arguments))


def argument(x):
    """Returns an argument of C: a number, or the address of an array."""
    if isinstance(x, np.ndarray):
        return ctypes.c_void_p(x.ctypes.data)
    return ctypes.c_longlong(x) if isinstance(x, int) else ctypes.c_double(x)


def rows_kernel():
    numbers = ", ".join(f"long long {x}" for x in WITH_GRAD)
    call = f"(const T *)x, labels, (T *)out, (T *)grad, {', '.join(WITH_GRAD)}, g"
    return Kernel("loss_with_grad", f"{LOSS}, {numbers}, double g", call)


def ahead_kernel():
    names = [f"n{i}" for i in range(6)]
    numbers = ", ".join(f"long long {x}" for x in names)
    call = (
        "(const T *)x, labels, (T *)loss, (A *)exact, (T *)out, (const A *)bets, (A *)staked, "
        f"(const T *)bias, {', '.join(names)}"
    )
    return Kernel("ahead", f"{AHEAD}, {numbers}", call)


@pytest.fixture(scope="module")
def compiled():
    return SimpleNamespace(rows=rows_kernel(), ahead=ahead_kernel())


@pytest.fixture
def module(compiled, monkeypatch):
    """The module, its kernels and memory being the CPU's."""
    from functensor.backends.cuda import row_layout
    from functensor.backends.cuda.kernels import cross_entropy

    def empty(shape, dtype):
        return np.full(shape, 7, dtype).view(Buffer)

    def contiguous(x):
        return np.ascontiguousarray(x).view(Buffer)

    ours = SimpleNamespace(
        empty=empty, asarray=lambda x: np.asarray(x).view(Buffer), ascontiguousarray=contiguous
    )
    limits = {"shared": 1 << 16, "shared_of_processor": 1 << 16, "processors": 3}
    monkeypatch.setattr(cross_entropy, "cupy", ours)
    monkeypatch.setattr(cross_entropy, "copied_once", lambda: None)
    monkeypatch.setattr(cross_entropy, "limit", lambda name, device: limits[name])
    monkeypatch.setattr(cross_entropy, "PROCESSOR_THREADS", THREADS)
    monkeypatch.setattr(cross_entropy, "geometry", lambda *given: (given[1], THREADS, 0))
    monkeypatch.setattr(row_layout, "ndarray", lambda shape, dtype: empty(shape, dtype))
    monkeypatch.setattr(cross_entropy, "LOSS_WITH_GRAD", compiled.rows)
    monkeypatch.setattr(cross_entropy, "LOSS_AHEAD", compiled.ahead)
    monkeypatch.setattr(cross_entropy, "FEWEST_AHEAD_BYTES", 0)
    cross_entropy.stakes_of.cache_clear()
    yield cross_entropy
    cross_entropy.stakes_of.cache_clear()


def aligned(x, step):
    """Returns a copy whose rows lie some elements apart, at the beginning of 16 bytes."""
    count, length = x.shape
    memory = np.full(count * step * x.itemsize + 16, 99, "u1")
    start = -memory.ctypes.data % 16
    whole = memory[start : start + count * step * x.itemsize].view(x.dtype).reshape(count, step)
    whole[:, :length] = x
    return whole[:, :length].view(Buffer)


def doubles(x, labels, g):
    """Returns the losses, and the slopes for a cotangent."""
    top = x.max(axis=-1, keepdims=True)
    powers = np.exp(x - top)
    total = powers.sum(axis=-1, keepdims=True)
    places = np.arange(len(x)), labels
    slopes = powers / total
    slopes[places] -= 1
    return (np.log(total) + top)[:, 0] - x[places], slopes * g


ROUNDING = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}
CASES = {
    f"{dtype}, {classes}, {way}": (dtype, classes, way)
    for dtype in ROUNDING
    for classes in (1, 5, 103, 2503)
    for way in ("neighbours", "padded", "biased", "read again", "into padded", "out of padded",
                "again into padded")
}
QUICK = [x for x in CASES if x.startswith("float32") and x.split(", ")[1] in ("103", "2503")]
QUICK.append("bfloat16, 2503, biased")


@pytest.mark.parametrize("name", with_slow(CASES, [x for x in CASES if x not in QUICK]))
def test_slopes_and_losses_are_those_of_doubles(module, monkeypatch, name):
    dtype, classes, way = CASES[name]
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(classes)
    rows, unit, g = 8, 16 // kind.itemsize, 0.25
    x = rng.normal(0, 3, (rows, classes)).astype(kind)
    labels = rng.integers(0, classes, rows)
    biased = way == "biased"
    bias = rng.normal(0, 3, classes).astype(kind) if biased else None
    pitch = -(-classes // unit) * unit
    if "again" in way:
        monkeypatch.setattr(module, "FEWEST_AHEAD_BYTES", 1 << 40)
    given = aligned(x, classes if way == "neighbours" or "into" in way else pitch)
    padded = way not in ("neighbours", "out of padded")
    loss, slope = module.cross_entropy_with_grad(
        given, labels.view(Buffer), g, padded, None if bias is None else bias.view(Buffer)
    )
    exact = (x + bias if biased else x).astype(float)
    wanted = doubles(exact, labels, g)
    for found, value in zip((loss, slope), wanted, strict=True):
        assert found.shape == value.shape
        close = ROUNDING[dtype]
        np.testing.assert_allclose(np.asarray(found).astype(float), value, close, close)
    if padded:
        assert slope.strides[0] == pitch * kind.itemsize
        whole = np.lib.stride_tricks.as_strided(np.asarray(slope), (rows, pitch))
        assert not whole[:, classes:].astype(float).any()


def test_infinities_and_labels_that_are_none(module):
    classes = 1003
    x = np.random.default_rng(0).normal(size=(7, classes)).astype("f4")
    x[0, 500] = np.inf
    x[1] = -np.inf
    x[2, 1] = np.nan
    x[3, 4] = -np.inf
    x[6, 1002] = 1e30
    labels = np.array([3, 1, 3, 3, 4, 1003, 1002])
    loss, slope = module.cross_entropy_with_grad(aligned(x, classes), labels.view(Buffer), 1.0)
    assert np.isposinf(loss[0])
    assert np.isnan(loss[[1, 2, 5]]).all()
    wanted, slopes = doubles(x[[3, 4, 6]].astype(float), labels[[3, 4, 6]], 1.0)
    np.testing.assert_allclose(np.asarray(loss)[[3, 4, 6]], wanted, 1e-6, 1e-6)
    np.testing.assert_allclose(np.asarray(slope)[[3, 4, 6]], slopes, 1e-5, 1e-6)
    assert np.isnan(slope[[2, 5]]).all()


def test_a_cotangent_that_is_not_a_number_makes_slopes_that_are_none(module):
    x = aligned(np.zeros((3, 40), "f4"), 40)
    loss, slope = module.cross_entropy_with_grad(x, np.arange(3).view(Buffer), float("nan"))
    np.testing.assert_allclose(loss, np.log(40), 1e-6)
    assert np.isnan(slope).all()
