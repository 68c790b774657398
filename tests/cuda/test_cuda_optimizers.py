"""Updates of whole trees on a GPU: as on the CPU, in one launch, without waiting for anything."""

import numpy
import pytest
from optim.test_optim import ALGORITHMS, STATEFUL, tensor_loss

import functensor as ft
import functensor.numpy as np
from functensor import optim
from functensor.primitives.core.errors import DeviceError, ShapeError

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu

each = pytest.mark.parametrize("name", ALGORITHMS)
TOLERANCE = {"float16": 3e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}


@pytest.fixture(autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import optimizers

    return optimizers


@pytest.fixture
def launches(monkeypatch, kernels):
    """Returns a list to which every launch of an update is added."""
    names = []
    call = type(kernels.UPDATE).__call__

    def noted(self, types, *args, **kwargs):
        if self is kernels.UPDATE:
            names.append(types)
        return call(self, types, *args, **kwargs)

    monkeypatch.setattr(type(kernels.UPDATE), "__call__", noted)
    return names


def tree(dtype="float32", seed=0):
    rng = numpy.random.default_rng(seed)
    shapes = {"w": (37, 61), "b": (61,), "none": (0, 3), "one": (), "big": (9001,)}
    return {k: (0.5 + rng.random(s)).astype(dtype) for k, s in shapes.items()}


def moved(values):
    return ft.to_device(values, "cuda")


def close(there, here, tolerance):
    for (path, x), y in zip(ft.tree.leaves_with_path(there), ft.tree.leaves(here), strict=True):
        assert x.shape == y.shape
        numpy.testing.assert_allclose(
            x._data.get().astype("complex128"),
            numpy.asarray(y).astype("complex128"),
            rtol=tolerance,
            atol=tolerance,
            err_msg=ft.tree.keystr(path),
        )


@each
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_same_as_on_the_cpu(name, dtype, launches):
    opt = ALGORITHMS[name][0](0.1)
    # Half precision is computed with as float32 and compared with that.
    reference = tree("float32" if dtype == "float16" else dtype)
    here, there = reference, moved(tree(dtype))
    states = [opt.init(here), opt.init(there)]
    for seed in range(1, 4):
        grads = tree(dtype, seed)
        here, states[0] = opt.update(
            here, states[0], {k: g.astype(reference[k].dtype) for k, g in grads.items()}
        )
        there, states[1] = opt.update(there, states[1], moved(grads))
    assert len(launches) == 3
    close(there, here, 3 * TOLERANCE[dtype])
    close(states[1][2:], states[0][2:], 3 * TOLERANCE[dtype])
    assert {x.dtype.name for x in ft.tree.leaves((there, states[1][2:]))} == {dtype}
    assert {x.device for x in ft.tree.leaves((there, states[1][2:]))} == {"cuda:0"}
    assert states[1].step.device == "cpu"


@each
def test_nothing_is_written_over(name):
    opt = ALGORITHMS[name][0](0.1)
    params, grads = moved(tree()), moved(tree(seed=1))
    state = opt.init(params)
    before = ft.tree.map(lambda x: x._data.copy(), (params, grads, state[2:]))
    once = opt.update(params, state, grads)
    again = opt.update(params, state, grads)
    given = ft.tree.leaves((params, grads, state[2:]))
    for x, y in zip(given, ft.tree.leaves(before), strict=True):
        assert (x._data == y).all()
    for x, y in zip(ft.tree.leaves(once[0]), ft.tree.leaves(again[0]), strict=True):
        assert (x._data == y).all()


@each
def test_mixed_trees(name, launches):
    opt = ALGORITHMS[name][0](0.1)
    parts = zip((5, 70, 33, 4099), ("float32", "float16", "float64", "float16"), strict=True)
    values = [(1 + numpy.arange(n) % 7).astype(d) for n, d in parts]
    slopes = [numpy.ones_like(v) for v in values]
    params = [*moved(values), cupy.arange(3), moved(numpy.array([1 + 2j, 0.5j]))]
    grads = [*moved(slopes), cupy.zeros(3), moved(numpy.array([1 - 1j, 0.5]))]
    after, state = opt.update(params, opt.init(params), grads)
    assert len(launches) == 3
    assert [x.dtype for x in after] == [numpy.asarray(v).dtype for v in values] + [
        numpy.dtype("int64"),
        numpy.dtype("complex128"),
    ]
    assert after[4] is params[4]
    for there, p, g in zip(after, values, slopes, strict=False):
        expected, _ = opt.update(p.astype("float64"), opt.init(p.astype("float64")), g.astype("d"))
        close(there, expected, TOLERANCE[there.dtype.name])
    z = numpy.array([1 + 2j, 0.5j])
    close(after[5], opt.update(z, opt.init(z), numpy.array([1 - 1j, 0.5]))[0], 1e-14)
    assert int(state.step) == 1


def test_bfloat16(kernels):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    p, g, m, v = (numpy.linspace(0.5, 2, 9001) * (i + 1) for i in range(4))
    numbers = 0.1, 1e-3, 0.9, 0.99, 0.1, 0.01
    columns = [[cupy.asarray(x.astype(ml_dtypes.bfloat16))] for x in (p, g, m, v)]
    (there, *slots), *_ = zip(*kernels.UPDATE_FUNCTIONS["adam"](columns, numbers), strict=True)
    p, g, m, v = (c[0].get().astype("d") for c in columns)
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    expected = p - 0.1 * m / (v**0.5 + 1e-3), m, v
    for x, y in zip((there, *slots), expected, strict=True):
        numpy.testing.assert_allclose(x.get().astype("d"), y, rtol=4e-3)


@each
def test_layouts_and_alignment(name):
    opt = ALGORITHMS[name][0](0.1)
    base = tree()["big"][:8190].reshape(90, 91)
    p, g = moved(base), moved(base + 1)
    cases = {
        "transposed": (lambda x: x.T),
        "not aligned": (lambda x: x.reshape(-1)[1:]),
        "every other": (lambda x: x[::2, 1:]),
    }
    for view in cases.values():
        for a, b in ((view(p), view(g)), (np.asarray(view(p)._data.copy()), view(g))):
            there, _ = opt.update(a, opt.init(a), b)
            x = numpy.ascontiguousarray(view(base))
            here, _ = opt.update(x, opt.init(x), x + 1)
            close(there, here, 2e-6)


def test_gradients_of_other_dtypes_and_places():
    opt = optim.adam(0.1)
    p = moved(numpy.ones(5, "float16"))
    after, _ = opt.update(p, opt.init(p), moved(numpy.ones(5)))
    assert after.dtype == "float16"
    with pytest.raises(ft.backends.DeviceError):
        opt.update(p, opt.init(p), numpy.ones(5, "float16"))
    with pytest.raises(ShapeError, match="but its gradient is"):
        opt.update(p, opt.init(p), moved(numpy.ones(4, "float16")))


@pytest.mark.parametrize("count", [1, 56, 57, 460])
@pytest.mark.parametrize("newest", [True, False])
def test_many_parameters(count, newest, launches, monkeypatch, kernels):
    if not newest:
        monkeypatch.setattr(kernels, "largest_table", lambda: kernels.SMALL_TABLE_BYTES)
    opt = optim.adam(0.1)
    values = [numpy.full((1 + i % 5,), 1.0 + i, "float32") for i in range(count)]
    params = moved(values)
    after, _ = opt.update(params, opt.init(params), params)
    close(after, opt.update(values, opt.init(values), values)[0], 2e-6)
    capacity = kernels.SMALL_TABLE_BYTES // kernels.row_bytes("adam")
    if newest and kernels.largest_table() > kernels.SMALL_TABLE_BYTES:
        large = kernels.LARGE_TABLE_BYTES // kernels.row_bytes("adam")
        assert len(launches) == (1 if count <= capacity else -(-count // large))
    else:
        assert len(launches) == -(-count // capacity)


@pytest.mark.parametrize("lengths", [[0], [0, 3], [3, 0], [0, 5000, 0, 0, 9000, 0], []])
def test_arrays_without_elements(lengths, launches):
    opt = optim.adam(0.1)
    values = [numpy.linspace(1, 2, n, dtype="float32") for n in lengths]
    params = moved(values)
    after, _ = opt.update(params, opt.init(params), params)
    close(after, opt.update(values, opt.init(values), values)[0], 2e-6)
    assert len(launches) == (sum(lengths) > 0)


def test_the_step_is_counted_on_the_host_even_if_it_was_moved():
    opt = optim.adam(0.1)
    p = moved(numpy.ones(3, "float32"))
    state = moved(opt.init(p))
    p, state = opt.update(p, state, p)
    assert state.step.device == "cpu"
    assert int(state.step) == 1


def test_minimize_and_transformations():
    opt = optim.adamw(0.05)
    target = moved(numpy.linspace(-1, 1, 7, dtype="float32"))
    step = opt.minimize(lambda p: np.sum((p - target) ** 2))
    p = moved(numpy.zeros(7, "float32"))
    state = opt.init(p)
    for _ in range(100):
        p, state = step(p, state)
    assert state.loss.device == "cuda:0"
    assert float(state.loss) < 1e-2
    slope = ft.grad(lambda lr: np.sum(optim.adam(lr).update(p, opt.init(p), target)[0]))(0.1)
    assert numpy.isfinite(float(slope))


@each
def test_tensors(name, launches):
    def run(device):
        params = [
            ft.Tensor(numpy.linspace(-1, 1, 6, dtype="float32").reshape(2, 3), requires_grad=True),
            ft.Tensor(numpy.linspace(0, 1, 3, dtype="float32"), requires_grad=True),
        ]
        params = [p.detach().to(device).requires_grad_() for p in params]
        opt = STATEFUL[name](params)
        for _ in range(3):
            opt.zero_grad()
            tensor_loss(*params).backward()
            opt.step()
        return [p.data for p in params]

    close(run("cuda"), run("cpu"), 2e-5)
    assert len(launches) == 3


def test_a_number_beside_a_transposed_gradient_keeps_its_shape():
    params = ft.to_device({"s": numpy.float32(2.0), "w": numpy.ones((3, 2), "float32")}, "cuda")
    x = ft.to_device(numpy.ones((4, 3), "float32"), "cuda")
    opt = optim.adam(0.1)
    grads = ft.grad(lambda p: np.sum((p["w"].T @ x.T) ** 2 * p["s"]))(params)
    moved, state = opt.update(params, opt.init(params), grads)
    assert moved["s"].shape == state.mean["s"].shape == ()


def test_a_cotangent_on_another_device_is_refused():
    x = ft.to_device(numpy.ones(3), "cuda")
    _, pull = ft.vjp(lambda x: x + 1, x)
    with pytest.raises(DeviceError, match="a cotangent of vjp is on cpu, but what it belongs to"):
        pull(numpy.ones(3))
    with pytest.raises(DeviceError, match="a tangent of jvp is on cpu"):
        ft.jvp(lambda x: x + 1, (x,), (numpy.ones(3),))
    assert ft.vjp(np.sum, x)[1](2.0)[0].device == x.device


def test_steps_are_staged_once():
    optimizer = ft.optim.with_average(ft.optim.adam(0.1), 0.9)
    w = ft.to_device(np.zeros(3, dtype="float32"), "cuda")
    state = optimizer.init(w)
    assert state.loss.device == w.device
    step = ft.jit(optimizer.minimize(lambda w: np.sum((w - 1) ** 2)))
    w, state = step(w, state)
    with step.assert_no_retrace():
        step(w, state)
