"""Convolution on a GPU, by columns and cuBLAS and by cuDNN, against the CPU in double precision."""

from types import SimpleNamespace

import numpy as np
import pytest

from functensor.backends.config import config
from functensor.backends.cpu import convolution as on_the_cpu
from functensor.primitives.contract.conv import Geometry

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(0)
# Sums of up to a few hundred products; of 16 bits, the result is rounded once.
RTOL = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-12}
RTOL |= {"complex64": RTOL["float32"], "complex128": RTOL["float64"]}

# Shapes of x and w, and the geometry.
CASES = {
    "one axis": ((2, 3, 11), (4, 3, 3), Geometry((1,), ((0, 0),), (1,), 1)),
    "plain": ((3, 5, 9, 8), (7, 5, 3, 3), Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), 1)),
    "every parameter": (
        (2, 4, 11, 9),
        (6, 2, 3, 2),
        Geometry((2, 3), ((1, 0), (0, 2)), (2, 1), 2),
    ),
    "more groups than images": (
        (1, 6, 5, 7),
        (12, 1, 2, 3),
        Geometry((1, 1), ((0, 0), (1, 1)), (1, 1), 6),
    ),
    "one by one": ((3, 6, 5, 4), (4, 3, 1, 1), Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), 2)),
    "one by one, apart": (
        (2, 3, 7, 5),
        (4, 3, 1, 1),
        Geometry((2, 3), ((0, 1), (0, 0)), (1, 1), 1),
    ),
    "steps that skip": ((2, 3, 8, 9), (2, 3, 1, 2), Geometry((3, 4), ((0, 0),) * 2, (1, 1), 1)),
    "three axes": (
        (2, 2, 5, 4, 6),
        (4, 1, 2, 3, 2),
        Geometry((1, 2, 1), ((0, 1), (1, 1), (0, 0)), (1, 1, 2), 2),
    ),
    "four axes": (
        (1, 2, 3, 4, 3, 2),
        (3, 2, 2, 2, 2, 2),
        Geometry((1,) * 4, ((0, 1),) * 4, (1,) * 4, 1),
    ),
    "eight channels": ((3, 8, 25, 24), (70, 8, 3, 3), Geometry((1, 1), ((1, 1),) * 2, (1, 1), 1)),
    "eight channels, apart": (
        (2, 34, 19, 17),
        (40, 17, 3, 2),
        Geometry((2, 1), ((1, 0), (0, 2)), (1, 2), 2),
    ),
    "eight channels, one axis": ((2, 16, 99), (9, 16, 5), Geometry((1,), ((2, 2),), (1,), 1)),
    "each channel alone": ((2, 9, 7, 8), (9, 1, 3, 3), Geometry((1, 1), ((1, 1),) * 2, (1, 1), 9)),
    "no images": ((0, 3, 6, 5), (4, 3, 2, 2), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
    "no channels": ((2, 0, 6, 5), (4, 0, 2, 2), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
    "no outputs": ((2, 3, 6, 5), (0, 3, 2, 2), Geometry((1, 1), ((0, 0),) * 2, (1, 1), 1)),
}


@pytest.fixture(autouse=True, params=["columns", "cudnn"])
def way(request, monkeypatch):
    """Runs every test without cuDNN, and with it where it is installed."""
    pytest.importorskip("cupy")
    from functensor.backends.cuda import cudnn

    if request.param == "columns":
        monkeypatch.setattr(cudnn, "available", lambda: False)
    elif not cudnn.available():
        pytest.skip(f"cuDNN: {cudnn.describe()}")
    return request.param


def draw(shape, dtype):
    values = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.normal(size=shape)
    return values.astype(dtype)


def device(x, order="C"):
    """Returns an array on the GPU, with channels last in memory or with gaps between elements."""
    import cupy

    if order == "channels last":
        return cupy.moveaxis(cupy.asarray(np.ascontiguousarray(np.moveaxis(x, 1, -1))), -1, 1)
    if order == "apart":
        wide = cupy.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = cupy.asarray(x)
        return wide[..., ::2]
    return cupy.asarray(x)


def compare(got, wanted, dtype, terms):
    assert got.dtype == np.dtype(dtype)
    assert got.shape == wanted.shape
    kind = complex if np.dtype(dtype).kind == "c" else float
    error = np.abs(got.get().astype(kind) - wanted)
    assert (error <= RTOL[np.dtype(dtype).name] * (1 + np.sqrt(terms))).all()


def check(x_shape, w_shape, geometry, dtype, order="C"):
    """Compares all three on the GPU with the CPU's in double precision."""
    from functensor.backends.cuda.kernels import convolution

    x, w = draw(x_shape, dtype), draw(w_shape, dtype)
    wide = complex if np.dtype(dtype).kind == "c" else float
    exact_x, exact_w = x.astype(wide), w.astype(wide)
    out = on_the_cpu.conv(exact_x, exact_w, geometry=geometry)
    g = draw(out.shape, dtype)
    exact_g = g.astype(wide)
    terms = np.prod(w_shape[1:], dtype=float)
    on_x, on_w, on_g = device(x, order), device(w), device(g, order)
    compare(convolution.conv(on_x, on_w, geometry=geometry), out, dtype, terms)
    spatial = x_shape[2:]
    compare(
        convolution.conv_input_grad(on_g, on_w, spatial=spatial, geometry=geometry),
        on_the_cpu.conv_input_grad(exact_g, exact_w, spatial=spatial, geometry=geometry),
        dtype,
        terms * max(w_shape[0], 1),
    )
    kernel = w_shape[2:]
    compare(
        convolution.conv_kernel_grad(on_x, on_g, kernel=kernel, geometry=geometry),
        on_the_cpu.conv_kernel_grad(exact_x, exact_g, kernel=kernel, geometry=geometry),
        dtype,
        np.prod(out.shape, dtype=float),
    )


@pytest.mark.parametrize("name", CASES)
def test_every_geometry(name):
    check(*CASES[name], "float32")


@pytest.mark.parametrize("way", ["columns"], indirect=True)
@pytest.mark.parametrize("images", [1, 2])
def test_more_groups_than_a_grid_has_layers(images, way):
    groups = (1 << 16) + 3
    geometry = Geometry((1,), ((1, 0),), (1,), groups)
    check((images, groups, 4), (groups, 1, 2), geometry, "float32")


@pytest.mark.parametrize("name", CASES)
def test_places_of_64_bits(name, monkeypatch):
    from functensor.backends.cuda.kernels import convolution

    monkeypatch.setattr(convolution, "FEWEST_64_BIT_COLUMNS", 1)
    check(*CASES[name], "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["plain", "every parameter", "one by one"])
def test_every_dtype(name, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    check(*CASES[name], dtype)


@pytest.mark.parametrize("order", ["channels last", "apart"])
@pytest.mark.parametrize(
    "name", ["one axis", "every parameter", "one by one", "eight channels", "each channel alone"]
)
def test_every_layout(name, order):
    check(*CASES[name], "float32", order)


@pytest.mark.parametrize("block", [1, 2000, 9000])
def test_blocks_of_columns_of_any_size(monkeypatch, block, way):
    from functensor.backends.cuda.kernels import convolution

    if way == "cudnn":
        pytest.skip("cuDNN has no columns")
    monkeypatch.setattr(convolution, "MOST_COLUMN_BYTES", block)
    for name in ("every parameter", "plain", "one axis"):
        check(*CASES[name], "float32")
    check(*CASES["plain"], "float16")


def test_integers_are_exact():
    from functensor.backends.cuda.kernels import convolution

    x_shape, w_shape, geometry = CASES["plain"]
    x, w = RNG.integers(-9, 9, x_shape), RNG.integers(-9, 9, w_shape)
    out = convolution.conv(device(x), device(w), geometry=geometry)
    wanted = on_the_cpu.conv(x, w, geometry=geometry)
    assert out.dtype == wanted.dtype
    np.testing.assert_array_equal(out.get(), wanted)


def test_operands_of_two_dtypes():
    from functensor.backends.cuda.kernels import convolution

    x_shape, w_shape, geometry = CASES["one axis"]
    x, w = draw(x_shape, "float32"), draw(w_shape, "float64")
    out = convolution.conv(device(x), device(w), geometry=geometry)
    compare(out, on_the_cpu.conv(x, w, geometry=geometry), "float64", 9)


@pytest.mark.parametrize("channels", [1, 8])
def test_infinity_and_nan_stay_where_they_belong(channels):
    from functensor.backends.cuda.kernels import convolution

    x = np.zeros((1, channels, 8), np.float32)
    x[0, -1, 1], x[0, 0, 6] = np.nan, np.inf
    w = np.ones((1, channels, 2), np.float32)
    geometry = Geometry((1,), ((0, 0),), (1,), 1)
    out = convolution.conv(device(x), device(w), geometry=geometry).get()
    np.testing.assert_array_equal(np.isnan(out[0, 0]), [1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(np.isinf(out[0, 0]), [0, 0, 0, 0, 0, 1, 1])


def test_deterministic_and_tf32_are_heeded():
    from functensor.backends.cuda.kernels import convolution

    geometry = CASES["plain"][2]
    x, w = draw((8, 16, 24, 24), "float32"), draw((32, 16, 3, 3), "float32")
    wanted = on_the_cpu.conv(x.astype(float), w.astype(float), geometry=geometry)
    g = device(draw(wanted.shape, "float32"))
    operands = device(x), device(w)
    exact = convolution.conv(*operands, geometry=geometry).get()
    assert np.abs(exact - wanted).max() < 1e-4
    with config.using(matmul_precision="tf32"):
        rounded = convolution.conv(*operands, geometry=geometry).get()
    assert np.abs(rounded - wanted).max() < 5e-2
    with config.using(deterministic=True):
        runs = [
            convolution.conv_kernel_grad(operands[0], g, kernel=(3, 3), geometry=geometry).get()
            for _ in range(3)
        ]
    assert all((run == runs[0]).all() for run in runs)


@pytest.mark.parametrize("accepted", [True, False])
def test_the_front_ends_quick_way_is_taken_where_it_is_known(monkeypatch, accepted):
    cupy = pytest.importorskip("cupy")
    from functensor.backends.cuda import cudnn

    calls = []

    class Graph:
        def get_workspace_size(self):
            return 64

        def _execute(self, pointers, workspace, handle, *more):
            if not accepted:
                raise TypeError("other arguments")
            calls.append(("quick", pointers, workspace != 0, handle))

        def execute(self, pointers, workspace, handle=None):
            calls.append(("slow", pointers, workspace != 0, handle))

    monkeypatch.setattr(cudnn, "handle", lambda: 7)
    plan = cudnn.CudnnGraph(Graph())
    buffers = [cupy.zeros(3), cupy.ones(2)]
    plan(*buffers)
    plan(*buffers)
    pointers = {1: buffers[0].data.ptr, 2: buffers[1].data.ptr}
    assert calls == [("quick" if accepted else "slow", pointers, True, 7)] * 2


def test_newer_front_ends_launch_plans_without_describing_operands(monkeypatch):
    cupy = pytest.importorskip("cupy")
    from functensor.backends.cuda import cudnn

    calls = []
    lowered = SimpleNamespace(_execute_plan_at_index=lambda *given: calls.append(given))
    graph = SimpleNamespace(
        selected_engine=None, _plans=["first", "second"], _plan_index=1, _lowered_graph=lowered,
        _materialize_backend_plan=lambda index: SimpleNamespace(cpp_index=10 + index),
        get_workspace_size=lambda: 0, execute=lambda *given: calls.append("slow"),
    )  # fmt: skip
    monkeypatch.setattr(cudnn, "handle", lambda: SimpleNamespace(backend_handle=7))
    plan, x = cudnn.CudnnGraph(graph), cupy.zeros(3)
    plan(x)
    assert calls == [({1: x.data.ptr}, 0, 11, 7, None, None, None)]
    graph.selected_engine = "one of Python's"
    cudnn.CudnnGraph(graph)(x)
    assert calls[1:] == ["slow"]
