"""Sixteen-bit floats: promotion, accumulation in float32, derivatives, what is built on them."""

import re
import subprocess
import sys

import numpy as onp
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn, optim, random
from functensor.backends import BackendUnavailable
from functensor.backends.dtypes import result_type
from functensor.primitives.core.errors import OperandError
from functensor.primitives.core.registry import registry as ops
from functensor.primitives.core.shape_dtype import number_dtype
from functensor.scipy.special import logsumexp

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = onp.dtype(ml_dtypes.bfloat16)
HALVES = ["float16", "bfloat16"]


def eps_of(dtype):
    return float(np.finfo(dtype).eps)


def numbers(shape, dtype, low=0.5, high=1.5, seed=0):
    """Returns numbers that the dtype holds, in it and as float64."""
    values = onp.random.default_rng(seed).uniform(low, high, shape)
    given = np.asarray(values, dtype=dtype)
    return given, onp.asarray(given).astype(onp.float64)


def wide(x):
    return onp.asarray(x).astype(onp.float64)


def assert_rounded(got, wanted, dtype, units=1.0):
    """Checks a result's dtype, and that it is the exact one rounded, or a few units off."""
    assert got.dtype == number_dtype(dtype)
    wanted = onp.asarray(wanted)
    assert got.shape == wanted.shape
    smallest = float(np.finfo(dtype).smallest_subnormal)
    onp.testing.assert_allclose(wide(got), wanted, rtol=units * eps_of(dtype), atol=smallest)


# -- the dtype


def test_names_of_bfloat16():
    assert np.bfloat16 is ml_dtypes.bfloat16
    for name in ("bfloat16", np.bfloat16, BFLOAT16):
        assert np.zeros(2, name).dtype == BFLOAT16
        assert np.ones(2).astype(name).dtype == BFLOAT16
    assert np.finfo("bfloat16").bits == 16
    assert np.finfo(np.bfloat16).max == pytest.approx(3.3895e38, rel=1e-4)
    assert np.issubdtype(np.bfloat16, np.floating)
    assert not np.issubdtype(np.bfloat16, np.integer)
    assert np.isdtype(BFLOAT16, "real floating")
    assert not np.isdtype(BFLOAT16, ("integral", "complex floating"))


def test_ml_dtypes_is_imported_only_for_bfloat16():
    code = "import sys, functensor.numpy as np; np.exp(1); assert 'ml_dtypes' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_ml_dtypes_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['ml_dtypes'] = None; import functensor.numpy as np\n"
        "try: np.zeros(2, 'bfloat16')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.startswith(BackendUnavailable.__name__)
    assert "pip install 'functensor[bfloat16]'" in out.stdout


def test_other_dtypes_of_ml_dtypes_are_refused():
    with pytest.raises(OperandError, match=re.escape("not dtype float8_e4m3fn")):
        np.exp(onp.ones(2, ml_dtypes.float8_e4m3fn))


def test_raw_bfloat16_is_understood_by_the_first_transformation():
    code = (
        "import numpy, ml_dtypes, functensor as ft\n"
        "x = numpy.ones(2, ml_dtypes.bfloat16)\n"
        "print(ft.vmap(lambda x: x * 1.5)(x).dtype, ft.grad(lambda x: x[0] * 1.5)(x).dtype)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["bfloat16", "bfloat16"]


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (1, "bfloat16"),
        (1.5, "bfloat16"),
        (True, "bfloat16"),
        (1j, "complex64"),
        (onp.int8(1), "bfloat16"),
        (onp.bool_(True), "bfloat16"),
        (onp.float16(1), "float32"),
        (onp.float32(1), "float32"),
        (onp.float64(1), "float64"),
        (onp.int64(1), "float64"),
        (onp.complex64(1), "complex64"),
    ],
)
def test_bfloat16_promotes_as_float16_does(other, wanted):
    x = np.ones(2, "bfloat16")
    assert (x * other).dtype == (other * x).dtype == onp.dtype(wanted)
    assert result_type(onp.asarray(x), other) == onp.dtype(wanted)
    assert np.where(x > 0, x, other).dtype == onp.dtype(wanted)
    assert np.result_type(x, other) == onp.dtype(wanted)
    assert ft.eval_shape(lambda x: x * other, x).dtype == onp.dtype(wanted)


# -- accumulation


LONG = 4000
ACCUMULATING = {
    "sum": (lambda x: x.sum(1), lambda x: x.sum(1)),
    "sum over rows": (lambda x: x.T.copy().sum(0), lambda x: x.sum(1)),
    "sum of all": (lambda x: x.sum(), lambda x: x.sum()),
    "mean": (lambda x: x.mean(1), lambda x: x.mean(1)),
    "var": (lambda x: x.var(1), lambda x: x.var(1)),
    "prod": (lambda x: np.prod(x, 1), lambda x: x.prod(1)),
    "cumsum": (lambda x: np.cumsum(x, 1), lambda x: x.cumsum(1)),
    "cumprod": (lambda x: np.cumprod(x, 1), lambda x: x.cumprod(1)),
    "matmul": (lambda x: x @ x.T, lambda x: x @ x.T),
    "matrix times vector": (lambda x: x @ x[0], lambda x: x @ x[0]),
    "einsum": (lambda x: np.einsum("ij,kj->ki", x, x), lambda x: x @ x.T),
    "vecdot": (lambda x: np.vecdot(x, x), lambda x: (x * x).sum(1)),
    "norm": (lambda x: np.linalg.norm(x, axis=1), lambda x: onp.linalg.norm(x, axis=1)),
    "logsumexp": (lambda x: logsumexp(x, 1), lambda x: onp.log(onp.exp(x).sum(1))),
    "softmax": (
        lambda x: nn.softmax(x)[:, :5],
        lambda x: (onp.exp(x) / onp.exp(x).sum(1, keepdims=True))[:, :5],
    ),
    "scatter": (
        lambda x: np.zeros(2, x.dtype).at[onp.zeros(LONG, int)].add(x[0])[:1],
        lambda x: x[0].sum(keepdims=True),
    ),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ACCUMULATING)
def test_many_terms_are_accumulated_in_single_precision(name, dtype):
    ours, theirs = ACCUMULATING[name]
    close = name in ("prod", "cumprod")
    x, exact = numbers((3, LONG), dtype, *((0.999, 1.001) if close else (0.5, 1.5)))
    scale = 0.01 if name == "cumsum" and dtype == "float16" else 1.0
    got = ours(x * scale)
    assert_rounded(got, theirs(wide(x * scale)), dtype, 2.0 if name == "softmax" else 1.0)
    del exact


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_what_is_broadcast_are_accumulated_too(dtype):
    x, exact = numbers((LONG, 3), dtype)
    by_row = ft.grad(lambda b: (x * b).sum() * 0.5)(np.ones(3, dtype))
    assert_rounded(by_row, exact.sum(0) / 2, dtype)
    table = ft.grad(lambda t: (t[onp.zeros(LONG, int)] * x[:, 0]).sum())(np.ones(2, dtype))
    assert_rounded(table, [exact[:, 0].sum(), 0], dtype)


# -- every elementwise primitive


INTEGERS = {"gcd", "invert", "lcm", "ldexp", "left_shift", "right_shift"}
ELEMENTWISE = sorted(
    p.name
    for p in ops
    if p.family == "elementwise" and "d" in p.dtypes and not any(s.params for s in p.samples)
    # SciPy's special functions give float32 for float16.
    and (".special." not in p.module or p.module.endswith(".modified_bessel"))
    and p.name not in INTEGERS
    and not p.name.startswith("bitwise")
)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_have_the_rounded_value_and_gradients_of_the_dtype(name, dtype):
    primitive = ops[name]
    values = onp.array([0.25, 0.5, 0.75] if name.startswith("arc") else [1.25, 1.5, 3.0])
    values += 1.0 if name == "arccosh" else 0.0
    arity = len(primitive.samples[1].operands)
    given = [np.asarray(values + 0.125 * i, dtype=dtype) for i in range(arity)]
    wanted = primitive(*(np.asarray(wide(x)) for x in given))
    out = primitive(*given)
    if wanted.dtype.kind == "f" and name not in ("spacing", "nextafter"):
        assert_rounded(out, wanted, dtype)
    elif wanted.dtype.kind == "c":
        # There are no complex numbers of half precision.
        assert out.dtype == "complex64"
    else:
        assert out.dtype in (wanted.dtype, number_dtype(dtype))
    if primitive.constant or wanted.dtype.kind != "f":
        return
    slopes = ft.grad(lambda *xs: primitive(*xs).astype("float32").sum(), range(arity))(*given)
    for slope in slopes:
        assert slope.dtype == number_dtype(dtype)
    mapped = ft.vmap(primitive)(*given)
    assert mapped.dtype == out.dtype
    onp.testing.assert_array_equal(wide(mapped), wide(out))


# -- what is built on it


@pytest.mark.parametrize("dtype", HALVES)
def test_transformations_keep_the_dtype(dtype):
    x, exact = numbers((4, 3), dtype)

    def loss(x):
        return (np.tanh(x @ x.T * 0.25) * 1.5).sum()

    value, slope = ft.value_and_grad(loss)(x)
    wanted_value, wanted = ft.value_and_grad(loss)(np.asarray(exact))
    assert value.dtype == slope.dtype == number_dtype(dtype)
    onp.testing.assert_allclose(wide(value), wide(wanted_value), rtol=4 * eps_of(dtype))
    onp.testing.assert_allclose(wide(slope), wide(wanted), rtol=8 * eps_of(dtype))
    _, tangent = ft.jvp(loss, (x,), (np.ones_like(x),))
    assert tangent.dtype == number_dtype(dtype)
    onp.testing.assert_allclose(wide(tangent), wide(wanted).sum(), rtol=16 * eps_of(dtype))
    rows = ft.vmap(ft.grad(lambda r: (r * r * 0.5).sum()))(x)
    assert_rounded(rows, exact, dtype)
    curvature = ft.hessian(lambda r: (r * r * r).sum())(x[0])
    assert curvature.dtype == number_dtype(dtype)
    assert_rounded(np.diagonal(curvature), 6 * exact[0], dtype, 4.0)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_cast_carries_the_gradient_across_dtypes(dtype):
    x, exact = numbers((3,), "float32")
    slope = ft.grad(lambda x: (x.astype(dtype) ** 2).astype("float64").sum())(x)
    assert slope.dtype == onp.float32
    onp.testing.assert_allclose(wide(slope), 2 * exact, rtol=4 * eps_of(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("make", [optim.sgd, optim.adam, optim.adamw, optim.adagrad, optim.lion])
def test_optimizers_keep_parameters_in_their_dtype(make, dtype):
    target, exact = numbers((5,), dtype)
    step = make(1e-1).minimize(lambda p: ((p - target) ** 2).sum())
    params = np.zeros(5, dtype)
    state = make(1e-1).init(params)
    for _ in range(100):
        params, state = step(params, state)
    assert params.dtype == number_dtype(dtype)
    limit = 0.2 if make in (optim.lion,) else 0.1
    if make is not optim.adagrad:
        assert onp.abs(wide(params) - exact).max() < limit


# Layers and losses as functions of an input (4, 6) and a weight (6, 6).
LABELS = onp.array([0, 1, 2, 5])
LAYERS = {
    "linear": lambda x, w: nn.linear(x, w, w[0], nn.gelu),
    "layer_norm": lambda x, w: nn.layer_norm(x, w[0], w[1]),
    "rms_norm": lambda x, w: nn.rms_norm(x, w[0]),
    "softmax": lambda x, w: nn.softmax(x @ w),
    "attention": lambda x, w: nn.scaled_dot_product_attention(
        (x @ w)[None, None], x[None, None], x[None, None]
    ),
    "conv": lambda x, w: nn.conv(x[None, None], w[None, None, :3, :3], padding="SAME"),
    "max_pool": lambda x, w: nn.max_pool((x * w[:4])[None, None], 2),
    "avg_pool": lambda x, w: nn.avg_pool((x * w[:4])[None, None], 2),
    "embedding": lambda x, w: nn.embedding(w, LABELS) * x,
    "softmax_cross_entropy": lambda x, w: nn.softmax_cross_entropy(x @ w, LABELS),
    "mse": lambda x, w: nn.mse(x @ w, x),
    "huber": lambda x, w: nn.huber(x @ w, x),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_compute_in_the_dtype_of_their_operands(name, dtype):
    layer = LAYERS[name]
    x, exact_x = numbers((4, 6), dtype, -1, 1)
    w, exact_w = numbers((6, 6), dtype, -1, 1, seed=1)
    out = layer(x, w)
    assert out.dtype == number_dtype(dtype)
    wanted = wide(layer(np.asarray(exact_x), np.asarray(exact_w)))
    onp.testing.assert_allclose(wide(out), wanted, rtol=8 * eps_of(dtype), atol=8 * eps_of(dtype))

    def loss(x, w):
        return (layer(x, w) ** 2 * 0.5).mean()

    slopes = ft.grad(loss, (0, 1))(x, w)
    exact = ft.grad(loss, (0, 1))(np.asarray(exact_x), np.asarray(exact_w))
    for slope, true in zip(slopes, exact, strict=True):
        assert slope.dtype == number_dtype(dtype)
        largest = onp.abs(wide(true)).max()
        onp.testing.assert_allclose(wide(slope), wide(true), atol=16 * eps_of(dtype) * largest)


@pytest.mark.parametrize("dtype", HALVES)
def test_random_numbers(dtype):
    key = random.key(3)
    u = random.uniform(key, (2000,), dtype)
    n = random.normal(key, (2000,), dtype)
    assert u.dtype == n.dtype == number_dtype(dtype)
    assert abs(float(u.mean()) - 0.5) < 0.03
    assert 0 <= wide(u).min() <= wide(u).max() < 1
    assert abs(float(n.astype("float32").std()) - 1) < 0.05


def test_printing_and_conversion_of_bfloat16():
    x = np.asarray([1.0, 2.5], dtype="bfloat16")
    assert repr(x) == "Array([1, 2.5], dtype=bfloat16, device='cpu')"
    assert float(x[1]) == x[1].item() == 2.5
    assert x.tolist() == [1.0, 2.5]
    assert onp.asarray(x).dtype == BFLOAT16
    assert (x == np.asarray([1, 2.5], "float32")).all()


def test_linear_algebra_refuses_sixteen_bits():
    for dtype in HALVES:
        with pytest.raises(TypeError, match=re.escape("x.astype('float32')")):
            np.linalg.inv(np.eye(2, dtype=dtype))


def test_the_gradient_of_a_mean_of_more_than_half_precision_can_count():
    x = onp.ones(70000, "float16")
    onp.testing.assert_allclose(
        ft.grad(lambda x: np.mean(x) * 1000)(x)[:2].tolist(), [1 / 70] * 2, rtol=2**-10
    )


def test_a_parameter_without_a_gradient_stays_where_it_is():
    p = np.ones(3, "float16")
    for opt in (optim.adam(1e-3), optim.adamw(1e-3), optim.adagrad(1e-3)):
        moved, _ = opt.update(p, opt.init(p), np.asarray([0.0, 1e-4, 1.0], "float16"))
        assert moved.dtype == "float16"
        # Half of what is between neighbours just below 1.
        onp.testing.assert_allclose(moved.tolist(), [1, 0.999, 0.999], rtol=0, atol=2**-12)


def test_roots_of_sums_of_squares_that_half_precision_cannot_hold():
    x = onp.full(1000, 100.0, "float16")
    assert np.linalg.norm(x).dtype == "float16"
    assert np.linalg.norm(x).item() == 3162
    assert np.std(onp.tile([-300.0, 300.0], 500).astype("float16")).item() == 300
    slope = ft.grad(np.linalg.norm)(x)
    onp.testing.assert_allclose(slope[:2].tolist(), [1000**-0.5] * 2, rtol=2e-3)


@pytest.mark.parametrize("text", ["np.mean(x)", "nn.softmax(x)", "x * 0.1", "np.clip(x, -1, 3)"])
def test_types_are_those_of_bfloat16_before_there_is_an_array_of_it(text):
    program = (
        "import ml_dtypes, numpy; import functensor as ft, functensor.numpy as np\n"
        "from functensor import nn\n"
        f"f = lambda x: {text}\n"
        "x = numpy.ones(3, ml_dtypes.bfloat16)\n"
        "assert ft.eval_shape(f, x).dtype == x.dtype\n"
        "assert ft.make_program(f)(x).outputs[0].type.dtype == x.dtype\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_numbers_of_numpy_beside_halves_in_programs():
    x = np.asarray(onp.ones(3, ml_dtypes.bfloat16))
    both = ft.value_and_grad(lambda x: np.mean(x) ** 2)
    (value, slope), (wanted, wanted_slope) = ft.jit(both)(x), both(x)
    assert (value.dtype, float(value)) == (wanted.dtype, float(wanted))
    assert slope.tolist() == wanted_slope.tolist()
