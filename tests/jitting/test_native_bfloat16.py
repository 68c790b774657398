"""Machine code of bfloat16: computed in float32, and rounded behind each operation."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
KIND = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(0)
EVERY = np.arange(1 << 16, dtype=np.uint16).view(KIND)


def drawn(*shape, scale=1.0):
    return fnp.asarray((scale * RNG.normal(size=shape)).astype(KIND))


def compiled(f, *args):
    jitted = ft.jit(f).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    return jitted


def bits(x):
    x = np.asarray(x)
    return x.view(np.uint16) if x.dtype == KIND else x


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u1", "?"])
def test_casts_of_every_number(dtype):
    x = fnp.asarray(EVERY)
    if dtype in ("i4", "u1"):
        x = x[np.abs(EVERY.astype("f4")) < 200]
    f = compiled(lambda x: fnp.astype(x, dtype), x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(x), np.asarray(x).astype(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "?"])
def test_numbers_are_rounded_to_even(dtype):
    if dtype in ("f4", "f8"):
        words = RNG.integers(0, 1 << 32, 20000, dtype=np.uint32)
        words[:4000] = (words[:4000] & 0xFFFF0000) | 0x8000  # halfway
        with np.errstate(invalid="ignore"):
            x = words.view("f4").astype(dtype)
        x[:6] = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 3.4e38]
    else:
        x = RNG.integers(0, 2 if dtype == "?" else 1 << 20, 2000).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = x.astype(KIND)
    found = np.asarray(compiled(lambda x: fnp.astype(x, "bfloat16"), x)(x))
    known = ~np.isnan(x)
    np.testing.assert_array_equal(bits(found)[known], bits(wanted)[known])
    assert np.isnan(found.astype("f4")[~known]).all()


ELEMENTWISE = {
    "arithmetic": lambda x, y: (x + y) * x - y / (x * x + 1),
    "functions": lambda x, y: fnp.tanh(x) * fnp.exp(-y * y) + fnp.sin(x),
    "numbers": lambda x, y: 0.1 * x + y * 3 - 1 / 3,
    "choices": lambda x, y: fnp.where(x > y, x, fnp.maximum(y, 0.25)),
    "signs": lambda x, y: fnp.abs(x) + fnp.sign(y) - fnp.negative(x),
    "broadcast": lambda x, y: x * y[:1] + y[:, :1],
    "activations": lambda x, y: nn.gelu(x) + nn.silu(y) + nn.relu(x),
    "gathers": lambda x, y: x[np.array([3, 1, 1])] * 2 + y[:3],
    "joined": lambda x, y: fnp.concatenate([x, y + x]) * 2,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_results_are_those_of_eager_mode(name):
    f, x, y = ELEMENTWISE[name], drawn(40, 30), drawn(40, 30)
    found, wanted = compiled(f, x, y)(x, y), f(x, y)
    assert found.dtype == wanted.dtype == KIND
    # Functions of either are one unit of float32 off at most, which seldom rounds otherwise.
    apart = np.abs(bits(found).astype(int) - bits(wanted).astype(int))
    assert apart.max() <= 1
    assert (apart > 0).mean() < (1e-3 if name in ("functions", "activations") else 1e-9)


ROWS = {
    "sum": lambda x: fnp.sum(x, 1),
    "mean": lambda x: fnp.mean(x * x, 0),
    "var": lambda x: fnp.var(x, -1),
    "max": lambda x: fnp.max(x, 1) + fnp.min(x, 1),
    "softmax": lambda x: nn.softmax(x, axis=-1),
    "log softmax": lambda x: nn.log_softmax(x, axis=-1),
    "layer norm": lambda x: nn.layer_norm(x, weight=x[0], bias=x[1]),
    "product": lambda x: x @ x.T,
    "slope": ft.grad(lambda x: fnp.sum(nn.softmax(fnp.tanh(x) @ x.T, axis=-1) ** 2)),
}


@pytest.mark.parametrize("name", ROWS)
def test_reductions_and_products(name):
    f, x = ROWS[name], drawn(50, 60, scale=0.5)
    found, wanted = compiled(f, x)(x), f(x)
    assert found.dtype == wanted.dtype == KIND
    wide = np.asarray(wanted, "f4")
    # One unit in the last place of bfloat16, of which the slope has several roundings.
    units = 4 if name == "slope" else 1
    np.testing.assert_allclose(
        np.asarray(found, "f4"), wide, rtol=units / 128, atol=units / 128 * np.abs(wide).max() / 64
    )


def test_loops_and_sums_at_slices():
    x = drawn(6, 5)

    def f(x):
        return ft.fori_loop(0, 3, lambda i, x: fnp.tanh(x) * 2 + x * i, x)

    np.testing.assert_array_equal(bits(ft.jit(f).compile(x)(x)), bits(f(x)))
    slope = ft.grad(lambda x: fnp.sum(x[1:] * x[:-1]))
    np.testing.assert_array_equal(bits(compiled(slope, x)(x)), bits(slope(x)))
