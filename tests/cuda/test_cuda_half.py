"""Sixteen-bit floats on a GPU: the results of the CPU, in every layout, and long accumulations."""

import numpy as np
import pytest
from core.test_half_precision import LAYERS

import functensor as ft
import functensor.numpy as fnp
from functensor import nn, optim, random
from functensor.primitives.core.registry import registry as ops
from functensor.primitives.core.shape_dtype import number_dtype

pytestmark = pytest.mark.gpu
pytest.importorskip("cupy")
pytest.importorskip("ml_dtypes")

HALVES = ["float16", "bfloat16"]


def numbers(shape, dtype, low=0.5, high=1.5, seed=0):
    """Returns the same numbers on the GPU and on the CPU."""
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return fnp.asarray(values, dtype=dtype, device="cuda"), fnp.asarray(values, dtype=dtype)


def wide(x):
    return np.asarray(ft.to_device(x, "cpu")).astype("D" if x.dtype.kind == "c" else "d")


def assert_like(got, wanted, units=1.0, atol=0.0):
    """Checks a result on the GPU against the CPU's: the dtype, and units in the last place."""
    assert got.device == "cuda:0"
    assert got.dtype == wanted.dtype
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(wide(got), wide(wanted))
        return
    limits = fnp.finfo(got.dtype)
    least = max(float(limits.smallest_subnormal), atol)
    np.testing.assert_allclose(
        wide(got), wide(wanted), rtol=units * float(limits.eps), atol=least
    )


SCALARS = {
    "x + 1": lambda x: x + 1,
    "x * 1.5": lambda x: x * 1.5,
    "1.5 - x": lambda x: 1.5 - x,
    "x / 3": lambda x: x / 3,
    "x ** 2": lambda x: x**2,
    "x ** 2.5": lambda x: x**2.5,
    "where": lambda x: fnp.where(x > 1, x, 0.0),
    "maximum": lambda x: fnp.maximum(x, 1.0),
    "clip": lambda x: fnp.clip(x, 0.75, 1.25),
    "greater": lambda x: x > 0.75,
    "equal": lambda x: x == x.T[0, 0],
    "remainder": lambda x: x % 0.5,
    "complex": lambda x: fnp.real(x * 1j),
    "float32 scalar": lambda x: x * np.float32(1.5),
    "scalar of its own": lambda x: x * x[0, 0],
    "array of its own without axes": lambda x: x * fnp.sum(x),
    "int8": lambda x: x + fnp.ones((5, 7), "int8", device="cuda") if on_gpu(x) else x + np.int8(1),
    "row": lambda x: x + x[0],
    "column": lambda x: x * x[:, :1],
    "turned": lambda x: fnp.exp(x.T) * 1.5,
    "every other": lambda x: fnp.tanh(x[:, ::2]) + 0.5,
    "sort": lambda x: fnp.sort(x, axis=0),
    "argsort": lambda x: fnp.argsort(x, axis=1),
    "argmax": lambda x: fnp.argmax(x),
    "max": lambda x: x.max(0),
    "median": lambda x: fnp.median(x),
    "concatenate": lambda x: fnp.concatenate([x, x * 2]),
    "stack": lambda x: fnp.stack([x, x]),
    "pad": lambda x: fnp.pad(x, 1),
    "roll": lambda x: fnp.roll(x, 2, 1),
    "flip": lambda x: x[::-1, ::-1] + 1,
    "tril": lambda x: fnp.tril(x),
    "index": lambda x: x[np.array([0, 2, 2]), 1],
    "mask": lambda x: fnp.where(fnp.isnan(x), 0, x),
    "set": lambda x: x.at[1, 2].set(5.0),
    "add at": lambda x: x.at[np.array([0, 0, 1])].add(1.0),
    "cumsum": lambda x: fnp.cumsum(x, 1),
    "erf": lambda x: ops.erf(x),
    "logaddexp": lambda x: fnp.logaddexp(x, 0.5),
    "arctan2": lambda x: fnp.arctan2(x, 0.5),
    "round": lambda x: fnp.round(x, 1),
    "sign": lambda x: fnp.sign(x - 1),
    "abs": lambda x: abs(-x),
    "prod": lambda x: fnp.prod(x, 1),
    "norm": lambda x: fnp.linalg.norm(x),
    "to float32": lambda x: x.astype("float32"),
    "from int": lambda x: fnp.arange(5, device=x.device).astype(x.dtype),
}


def on_gpu(x):
    return getattr(x, "device", "cpu") != "cpu"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", SCALARS)
def test_functions_of_a_matrix(name, dtype):
    x, same = numbers((5, 7), dtype)
    # One rounding of a result computed in single precision, and one within composed functions.
    assert_like(SCALARS[name](x), SCALARS[name](same), 2.0)


INTEGERS = {"gcd", "invert", "lcm", "ldexp", "left_shift", "right_shift"}
ELEMENTWISE = sorted(
    p.name
    for p in ops
    if p.family == "elementwise"
    and "d" in p.dtypes
    and not any(s.params for s in p.samples)
    and (".special." not in p.module or p.module.endswith(".modified_bessel"))
    and p.name not in INTEGERS
    and not p.name.startswith("bitwise")
)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, dtype):
    primitive = ops[name]
    low, high = (0.25, 0.75) if name.startswith("arc") and name != "arccosh" else (1.25, 3.0)
    arity = len(primitive.samples[1].operands)
    pairs = [numbers((3, 9), dtype, low, high, i) for i in range(arity)]
    given, same = [x for x, _ in pairs], [y for _, y in pairs]
    wanted = primitive(*same)
    assert_like(primitive(*given), wanted, 1.5, atol=1e-6)
    turned = primitive(*(x.T for x in given))
    assert_like(turned, wanted.T, 1.5, atol=1e-6)
    if primitive.constant or wanted.dtype.kind not in "fV":
        return
    places = range(len(given))
    slopes = ft.grad(lambda *xs: primitive(*xs).astype("float32").sum(), places)(*given)
    exact = ft.grad(lambda *xs: primitive(*xs).astype("float32").sum(), places)(*same)
    for slope, true in zip(slopes, exact, strict=True):
        assert_like(slope, true, 8.0, atol=8 * float(fnp.finfo(dtype).eps))


LONG = 30000
ACCUMULATING = {
    "sum": lambda x: x.sum(1),
    "sum over rows": lambda x: fnp.sum(x.T, 0),
    "sum of all": lambda x: (x * 0.25).sum(),
    "mean": lambda x: x.mean(1),
    "var": lambda x: x.var(1),
    "cumsum": lambda x: fnp.cumsum(x * 0.01, 1),
    "matmul": lambda x: x @ (x.T * 0.25),
    "vecdot": lambda x: fnp.vecdot(x, x * 0.25),
    "logsumexp": lambda x: nn.logsumexp(x, 1),
    "softmax": lambda x: nn.softmax(x * 8, 1) * 1000,
    "layer_norm": lambda x: nn.layer_norm(x),
    "gradient": lambda x: ft.grad(lambda b: (x * b * 0.25).sum())(fnp.sum(x, 1, keepdims=True) * 0),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ACCUMULATING)
def test_many_terms_are_accumulated_in_single_precision(name, dtype):
    x, same = numbers((2, LONG), dtype)
    # The CPU's own accumulation in single precision is off by as much again. The rest of
    # terms of about 1 that cancel is off by their sum's rounding: at worst 30,000 times 6e-8.
    assert_like(ACCUMULATING[name](x), ACCUMULATING[name](same), 2.0, atol=1e-3)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, dtype):
    layer = LAYERS[name]
    (x, same_x), (w, same_w) = numbers((4, 6), dtype, -1, 1), numbers((6, 6), dtype, -1, 1, 1)
    eps = float(fnp.finfo(dtype).eps)
    assert_like(layer(x, w), layer(same_x, same_w), 8.0, atol=8 * eps)

    def loss(x, w):
        return (layer(x, w) ** 2 * 0.5).mean()

    slopes = ft.grad(loss, (0, 1))(x, w)
    for slope, true in zip(slopes, ft.grad(loss, (0, 1))(same_x, same_w), strict=True):
        assert_like(slope, true, 16.0, atol=16 * eps * np.abs(wide(true)).max())


@pytest.mark.parametrize("dtype", HALVES)
def test_transformations(dtype):
    x, same = numbers((4, 3), dtype)

    def f(r):
        return (fnp.tanh(r * 1.5) * r).sum()

    assert_like(ft.vmap(ft.grad(f))(x), ft.vmap(ft.grad(f))(same), 16.0)
    assert_like(ft.hessian(f)(x[0]), ft.hessian(f)(same[0]), 32.0, 0.05)
    (_, tangent), (_, wanted) = (ft.jvp(f, (v,), (v,)) for v in (x, same))
    assert_like(tangent, wanted, 8.0)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("make", [optim.sgd, optim.adam, optim.adamw, optim.adagrad, optim.lion])
def test_optimizers(make, dtype):
    opt = make(1e-2)
    (p, same_p), (g, same_g) = numbers((50,), dtype), numbers((50,), dtype, seed=1)
    state, same_state = opt.init(p), opt.init(same_p)
    for _ in range(3):
        p, state = opt.update(p, state, g)
        same_p, same_state = opt.update(same_p, same_state, same_g)
    assert_like(p, same_p, 4.0)


@pytest.mark.parametrize("dtype", HALVES)
def test_random_numbers_are_the_cpus(dtype):
    key = random.key(5)
    wanted = random.uniform(key, (1000,), dtype)
    normal = random.normal(key, (1000,), dtype)
    with ft.default_device("cuda"):
        got = random.uniform(key, (1000,), dtype)
        assert got.dtype == number_dtype(dtype)
        np.testing.assert_array_equal(wide(got), wide(wanted))
        assert_like(random.normal(key, (1000,), dtype), normal, 2.0, 1e-5)


def test_bfloat16_moves_between_devices():
    x, same = numbers((3, 4), "bfloat16")
    np.testing.assert_array_equal(wide(x), wide(same))
    back = ft.to_device(x, "cpu")
    assert back.dtype == same.dtype
    np.testing.assert_array_equal(wide(ft.to_device(same, "cuda")), wide(same))
