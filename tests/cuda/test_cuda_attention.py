"""Attention on a GPU, in every way that it is computed, against the CPU in double precision."""

import gc

import numpy as np
import pytest

from functensor.backends.config import config
from functensor.backends.cpu import attention as on_the_cpu

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(0)
# Results and gradients are of the size of 1. Of 16 bits, weights are rounded before they are
# multiplied with values; TF32 rounds operands to 10 bits.
ATOL = {"float16": 6e-3, "bfloat16": 5e-2, "float32": 4e-6, "float64": 1e-13, "tf32": 6e-3}

# Leading axes, queries, keys, width, outputs.
SHAPES = {
    "one tile": ((), 5, 7, 4, 4),
    "odd": ((2,), 70, 37, 20, 12),
    "heads": ((2, 3), 65, 130, 64, 64),
    "narrow values": ((1, 2), 33, 64, 64, 5),
    "wide": ((2, 1), 40, 67, 128, 96),
    "three leading axes": ((2, 1, 2), 17, 33, 8, 16),
}


@pytest.fixture(autouse=True)
def no_cudnn(monkeypatch):
    """Tests of cuDNN have a place of their own."""
    pytest.importorskip("cupy")
    from functensor.backends.cuda import cudnn

    monkeypatch.setattr(cudnn, "available", lambda: False)


def draw(shape, dtype="float64"):
    return RNG.normal(size=shape).astype(dtype)


def operands_of(name, dtype):
    lead, queries, keys, width, outputs = SHAPES[name]
    shapes = [(*lead, queries, width), (*lead, keys, width), (*lead, keys, outputs)]
    return [draw(shape, dtype) for shape in shapes]


def masks_of(name, dtype):
    """Returns no mask, one of booleans for all heads alike, and one of numbers for each."""
    lead, queries, keys, *_ = SHAPES[name]
    seen = RNG.uniform(size=(queries, keys)) < 0.7
    return None, seen, draw((*lead[-1:], 1, keys), dtype)


def by_blocks(monkeypatch):
    """Lets attention be computed as on GPUs for which the kernels are not."""
    from functensor.backends.cuda.kernels import attention

    monkeypatch.setattr(attention, "shared_limit", lambda device: 0)
    monkeypatch.setattr(attention, "LAUNCHES", {})


def exact(values):
    return [x if x is None or x.dtype == bool else x.astype(float) for x in values]


def check(operands, mask, causal, scale, atol, way=None):
    """Compares output and gradients with the CPU's."""
    import cupy

    from functensor.backends.cuda.kernels import attention

    params = {"causal": causal, "scale": scale}
    on_device = [None if x is None else cupy.asarray(x) for x in (*operands, mask)]
    dtype = operands[0].dtype
    wide = exact([*operands, mask])
    wanted = on_the_cpu.attention(*wide, **params)
    got = attention.attention(*on_device, **params)
    assert way is None or attention.recalled(got, *on_device[:2]).way == way
    assert got.dtype == dtype
    np.testing.assert_allclose(got.get().astype(float), wanted, rtol=0, atol=atol)
    g = draw(wanted.shape, dtype)
    grads = on_the_cpu.attention_grad(g.astype(float), wanted, *wide, **params)
    size = np.abs(grads).max(initial=1)
    # The output that is remembered, and one that comes from elsewhere.
    for out in (got, cupy.asarray(wanted.astype(dtype))):
        pulled = attention.attention_grad(cupy.asarray(g), out, *on_device, **params)
        assert pulled.dtype == dtype
        np.testing.assert_allclose(pulled.get().astype(float), grads, rtol=0, atol=2 * atol * size)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_and_mask(name, causal):
    operands = operands_of(name, "float32")
    for mask in masks_of(name, "float32"):
        # A weight, which is an exponential, errs by its score's rounding.
        largest = 0.3 * np.abs(operands[0] @ operands[1].swapaxes(-1, -2)).max()
        check(operands, mask, causal, 0.3, ATOL["float32"] * max(1, largest / 5), "kernels")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["odd", "heads", "wide"])
def test_every_dtype(name, dtype):
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    operands = operands_of(name, kind)
    _, _, added = masks_of(name, kind)
    way = "blocks" if dtype == "float64" else "kernels"
    check(operands, None, True, 0.2, ATOL[dtype], way)
    check(operands, added, False, 0.2, ATOL[dtype], way)


@pytest.mark.parametrize("block", [1, 3000, 1 << 20])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_blocks_of_any_size(monkeypatch, dtype, block):
    from functensor.backends.cuda.kernels import attention_by_products

    monkeypatch.setattr(attention_by_products, "MOST_SCORE_BYTES", block)
    by_blocks(monkeypatch)
    for name in ("odd", "three leading axes"):
        operands = operands_of(name, dtype)
        for mask in masks_of(name, dtype):
            check(operands, mask, True, 0.3, ATOL[dtype], "blocks")


def test_heads_wider_than_tiles():
    operands = [draw(shape, "float32") for shape in ((2, 9, 150), (2, 11, 150), (2, 11, 3))]
    check(operands, None, False, 0.1, ATOL["float32"], "blocks")


def test_tf32_is_less_exact_and_only_if_asked_for():
    import cupy

    from functensor.backends.cuda.kernels import attention

    operands = operands_of("heads", "float32")
    wanted = on_the_cpu.attention(*exact(operands), causal=True, scale=0.125)
    on_device = [cupy.asarray(x) for x in operands]
    full = attention.attention(*on_device, causal=True, scale=0.125).get()
    with config.using(matmul_precision="tf32"):
        fast = attention.attention(*on_device, causal=True, scale=0.125).get()
        check(operands, None, True, 0.125, ATOL["tf32"], "kernels")
    assert np.abs(full - wanted).max() < 4e-6 < np.abs(fast - wanted).max() < ATOL["tf32"]


def test_heads_split_off_from_the_columns_are_neither_copied_nor_turned():
    import cupy

    from functensor.backends.cuda.kernels import attention

    rows = [draw((2, 33, 3, 16), "float32") for _ in range(3)]
    on_device = [cupy.asarray(x).swapaxes(1, 2) for x in rows]
    turned = [x.swapaxes(1, 2).astype(float) for x in rows]
    wanted = on_the_cpu.attention(*turned, causal=True, scale=0.2)
    out = attention.attention(*on_device, causal=True, scale=0.2)
    np.testing.assert_allclose(out.get(), wanted, rtol=0, atol=ATOL["float32"])
    assert out.swapaxes(1, 2).flags.c_contiguous
    pulled = attention.attention_grad(out, out, *on_device, causal=True, scale=0.2)
    assert pulled[1].swapaxes(1, 2).flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(2, 70, 3, 16), (1, 33, 2, 64), (3, 130, 1, 128)], ids=str)
def test_gradients_of_joined_rows_are_joined_without_a_copy(shape, dtype):
    import cupy

    import functensor as ft
    import functensor.numpy as fnp
    from functensor import nn
    from functensor.backends.cuda.kernels import scatter

    images, rows, heads, width = shape
    joined = fnp.asarray(draw((images, rows, 3 * heads * width)), dtype=dtype)
    g = fnp.asarray(draw((images, heads, rows, width)), dtype=dtype)

    def mixed(x):
        parts = fnp.split(x, 3, axis=-1)
        return nn.attention(*(p.reshape(shape).transpose(0, 2, 1, 3) for p in parts), causal=True)

    def pulled(x, g):
        return ft.vjp(mixed, x)[1](g)[0]

    found = []
    with pytest.MonkeyPatch.context() as patch:
        lying = scatter.lying_there

        def noted(*given):
            found.append(lying(*given))
            return found[-1]

        patch.setattr(scatter, "lying_there", noted)
        there = [ft.to_device(x, "cuda") for x in (joined, g)]
        got = pulled(*there)
        jitted = ft.jit(pulled)
        jitted.compile(*there)
        again = jitted(*there)
    # Compiled, small ones are products, whose gradients lie apart.
    assert type(found[0]) is cupy.ndarray
    wanted = np.asarray(pulled(joined.astype("float64"), g.astype("float64")))
    for x in (got, again):
        x = np.asarray(ft.to_device(x, "cpu")).astype(float)
        np.testing.assert_allclose(x, wanted, rtol=0, atol=ATOL[dtype] * np.abs(wanted).max())


@pytest.mark.parametrize("way", ["kernels", "blocks"])
def test_queries_that_see_nothing_get_zeros(monkeypatch, way):
    import cupy

    from functensor.backends.cuda.kernels import attention

    if way == "blocks":
        by_blocks(monkeypatch)
    operands = operands_of("odd", "float32")
    mask = np.zeros((70, 37), bool)
    mask[3:60, 2] = True
    check(operands, mask, False, 0.3, ATOL["float32"], way)
    check(operands, np.where(mask, 0, -np.inf).astype("float32"), True, 0.3, ATOL["float32"], way)
    blind = cupy.zeros((1, 1), bool)
    out = attention.attention(*map(cupy.asarray, operands), blind, causal=False, scale=1.0)
    assert not out.get().any()


@pytest.mark.parametrize("way", ["kernels", "blocks"])
def test_nan_reaches_the_rows_that_it_belongs_to(monkeypatch, way):
    import cupy

    from functensor.backends.cuda.kernels import attention

    if way == "blocks":
        by_blocks(monkeypatch)
    q, k, v = operands_of("odd", "float32")
    q[0, 3, 0] = np.nan
    k[1, 30] = np.nan
    out = attention.attention(*map(cupy.asarray, (q, k, v)), causal=True, scale=0.3).get()
    wrong = np.isnan(out).all(-1)
    assert (wrong == np.isnan(out).any(-1)).all()
    assert wrong[0].nonzero()[0].tolist() == [3]
    assert wrong[1].nonzero()[0].tolist() == list(range(30, 70))


def test_large_scores_do_not_overflow():
    operands = operands_of("odd", "float32")
    check([100 * operands[0], operands[1], operands[2]], None, False, 1.0, 2e-3, "kernels")


@pytest.mark.parametrize(
    "sizes", [(0, 3, 4, 2, 2), (2, 0, 4, 2, 2), (2, 3, 0, 2, 2), (2, 3, 4, 2, 0), (2, 3, 4, 0, 2)]
)
def test_no_elements(sizes):
    heads, queries, keys, width, outputs = sizes
    shapes = [(heads, queries, width), (heads, keys, width), (heads, keys, outputs)]
    check([draw(s, "float32") for s in shapes], None, False, 0.5, ATOL["float32"])


def test_what_is_remembered_dies_with_the_output():
    import cupy

    from functensor.backends.cuda.kernels import attention

    operands = [cupy.asarray(x) for x in operands_of("odd", "float32")]
    before = len(attention.SUMS_OF_OUTPUTS)
    outs = [attention.attention(*operands, causal=False, scale=0.3) for _ in range(3)]
    assert len(attention.SUMS_OF_OUTPUTS) == before + 3
    del outs
    gc.collect()
    assert len(attention.SUMS_OF_OUTPUTS) == before


def test_the_same_bits_in_every_run():
    import cupy

    from functensor.backends.cuda.kernels import attention

    operands = [cupy.asarray(x) for x in operands_of("heads", "float32")]
    runs = []
    for _ in range(3):
        out = attention.attention(*operands, causal=True, scale=0.3)
        runs.append(attention.attention_grad(out, out, *operands, causal=True, scale=0.3).get())
    assert all((run == runs[0]).all() for run in runs)
