"""Kernels of attention on the CPU's threads, in the forms that older GPUs run."""

import re
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from support import gpu_memory, many_threads, one_thread, slope_kernels
from support.gpu_memory import GpuArray, on_gpu
from support.long_forms import only_long

from functensor.backends.config import config

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = [
    *(pytest.mark.long, only_long),
    pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++"),
]

RNG = np.random.default_rng(0)
# What the compiler of GPUs knows, and the memory that blocks share.
KNOWN = """
static float __int_as_float(int bits) { return __uint_as_float((unsigned int)bits); }
template <typename T> static T min(T x, T y) { return x < y ? x : y; }
template <typename T> static T max(T x, T y) { return x > y ? x : y; }
alignas(16) static unsigned int memory[1 << 16];
"""
# Shuffles of 32 words for each product would take minutes.
SHUFFLES = re.compile(r"(void multiply_by_shuffles\(.*?\) \{\n).*?\n\}\n", re.DOTALL)
MULTIPLY = r"""\1    static word_t passed[32][32][6];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    word_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(passed[warp][lane], own, sizeof(own));
    warps[warp]->arrive_and_wait();
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < 4; t++) {
            word_t *x = passed[warp][(lane & ~3) + t];
            word_t *y = passed[warp][lane % 4 * 8 + i % 2 * 4 + t];
            c[i] += P::product(x[i / 2], y[4]) + P::product(x[2 + i / 2], y[5]);
        }
    warps[warp]->arrive_and_wait();
}
"""
POWER = 'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));'
SHARED = "extern __shared__ word_t memory[];"
# The parameters of each kernel: T for those of the operands' type.
KERNELS = {
    "ATTENTION_FORWARD": ("attention_forward", "T T T void T float shape_t d"),
    "ATTENTION_BY_QUERY": ("attention_by_query", "T T T T T void float float T shape_t d"),
    "ATTENTION_BY_KEY": ("attention_by_key", "T T T T void float float T shape_t d"),
}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# The shapes of queries, keys and values, the dtype, the kind of mask, and whether it is causal.
CASES = {
    "odd": ((1, 2, 5, 3), (1, 2, 7, 3), (1, 2, 7, 6), "f4", None, False),
    "causal": ((1, 1, 70, 8), (1, 1, 70, 8), (1, 1, 70, 8), "f4", None, True),
    "causal, more queries": ((1, 1, 70, 8), (1, 1, 5, 8), (1, 1, 5, 8), "f2", None, True),
    "causal, more keys": ((1, 1, 5, 64), (1, 1, 70, 64), (1, 1, 70, 64), "f2", None, True),
    "boolean": ((2, 1, 9, 8), (2, 1, 20, 8), (2, 1, 20, 8), BFLOAT16, "boolean", False),
    "added": ((1, 2, 9, 8), (1, 2, 20, 8), (1, 2, 20, 8), "f4", "added", True),
    "wide": ((1, 1, 17, 72), (1, 1, 33, 72), (1, 1, 33, 128), "f2", None, False),
    "wide floats": ((1, 1, 17, 68), (1, 1, 33, 68), (1, 1, 33, 68), "f4", None, True),
}


class Kernel:
    """A kernel as a function of the CPU, compiled for each instance.

    Args:
        name: its name.
        parameters: as above.
        libraries: those that are compiled.
    """

    def __init__(self, name, parameters, libraries):
        self.name, self.parameters = name, parameters.split()
        self.libraries = libraries

    def __call__(self, types, grid, block, *arguments, shared=0):
        """Runs an instance."""
        key = self.name, types
        if key not in self.libraries:
            self.libraries[key] = self.compiled(types)
        given = map(slope_kernels.argument, [*arguments[:-1], float(arguments[-1])])
        self.libraries[key].run_instance(grid, 1, block, *given)

    def compiled(self, types):
        """Returns the library with an instance."""
        from functensor.backends.cuda.launch import source

        element = f"typename {types.rpartition(', ')[0].split(', ')[0]}::element"
        declared, given = [], []
        for i, kind in enumerate(self.parameters):
            declared.append(f"double n{i}" if kind == "d" else f"const void *n{i}")
            cast = "" if kind == "d" else f"({element if kind == 'T' else kind} *)"
            given.append(f"{cast}n{i}")
        text = f'extern "C" __global__ void\ninstance({", ".join(declared)}) {{\n'
        text += f"    {self.name}<{types}>({', '.join(given)});\n}}\n"
        whole = source("attention")
        assert POWER in whole
        whole, count = SHUFFLES.subn(MULTIPLY, whole)
        assert count == 1
        whole = whole.replace(SHARED, "").replace(POWER, "y = exp2f(x);")
        kernel = SimpleNamespace(name="instance", text=text)
        return many_threads.Compiled(KNOWN + whole + text, [kernel]).library


@pytest.fixture(scope="module")
def libraries():
    return {}


@pytest.fixture
def module(monkeypatch, libraries):
    """The module of attention, its kernels and memory being the CPU's."""
    from functensor.backends.cuda.kernels import attention

    ours = SimpleNamespace(**vars(gpu_memory.cupy), broadcast_to=broadcast)
    monkeypatch.setattr(attention, "cupy", ours)
    monkeypatch.setattr(attention, "table", lambda numbers, device: np.array(numbers, "i8"))
    monkeypatch.setattr(attention, "shared_limit", lambda device: 1 << 18)
    monkeypatch.setattr(attention.cudnn, "available", lambda: False)
    monkeypatch.setattr(attention, "LAUNCHES", {})
    for name, known in KERNELS.items():
        monkeypatch.setattr(attention, name, Kernel(*known, libraries))
    return attention


def broadcast(x, shape):
    """Returns an array in another shape, as CuPy's function does."""
    return np.broadcast_to(x, shape, subok=True)


def formula(q, k, v, mask, causal, scale, g):
    """Returns what attention gives, and the gradients, in double precision."""
    q, k, v, g = (np.asarray(x).astype(float) for x in (q, k, v, g))
    scores = scale * q @ k.swapaxes(-1, -2)
    if mask is not None:
        added = np.asarray(mask)
        scores = scores + (np.where(added, 0, -np.inf) if added.dtype == bool else added)
    if causal:
        scores[..., np.arange(q.shape[2])[:, None] < np.arange(k.shape[2])] = -np.inf
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    out = weights @ v
    by_scores = weights * (g @ v.swapaxes(-1, -2) - (g * out).sum(-1, keepdims=True)) * scale
    turned = by_scores.swapaxes(-1, -2), weights.swapaxes(-1, -2)
    return out, by_scores @ k, turned[0] @ q, turned[1] @ g


def mask_of(kind, q, k):
    """Returns a mask by which the first query sees no key if it is boolean."""
    if kind is None:
        return None
    shape = (q[2], k[2])
    if kind == "added":
        return on_gpu(np.where(RNG.random(shape) < 0.3, -np.inf, RNG.normal(size=shape)))
    seen = RNG.random(shape) < 0.5
    seen[0] = False
    return on_gpu(seen)


@pytest.mark.parametrize("scale", [0.3, -0.7])
@pytest.mark.parametrize("name", CASES)
def test_kernels_do_what_the_formula_says(module, name, scale):
    q_shape, k_shape, v_shape, dtype, kind, causal = CASES[name]
    q, k, v = (on_gpu(RNG.normal(size=s).astype(dtype)) for s in (q_shape, k_shape, v_shape))
    mask = mask_of(kind, q_shape, k_shape)
    if kind == "added":
        mask = on_gpu(np.asarray(mask).astype(dtype))
    out = module.attention(q, k, v, mask, causal=causal, scale=scale)
    g = on_gpu(RNG.normal(size=out.shape).astype(dtype))
    assert module.recalled(out, q, k).way == "kernels"
    grads = module.attention_grad(g, out, q, k, v, mask, causal=causal, scale=scale)
    wanted = formula(q, k, v, mask, causal, scale, g)
    atol = {"f4": 2e-6, "f2": 4e-3}.get(dtype, 3e-2)
    found = [out, *(grads[i][..., : x.shape[2], : x.shape[3]] for i, x in enumerate((q, k, v)))]
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == np.dtype(dtype)
        x = np.asarray(x).astype(float)
        np.testing.assert_allclose(x, y, 0, atol * max(np.abs(y).max(), 1))


def test_factors_of_tf32_are_rounded_once_a_tile(module):
    q, k, v = (on_gpu(RNG.normal(size=(1, 1, n, 40)).astype("f4")) for n in (9, 35, 35))
    with config.using(matmul_precision="tf32"):
        out = module.attention(q, k, v, causal=False, scale=0.2)
        g = on_gpu(RNG.normal(size=out.shape).astype("f4"))
        grads = module.attention_grad(g, out, q, k, v, causal=False, scale=0.2)
    found = [out, *(grads[i][..., : x.shape[2], :] for i, x in enumerate((q, k, v)))]
    for x, y in zip(found, formula(q, k, v, None, False, 0.2, g), strict=True):
        worst = np.abs(np.asarray(x) - y).max()
        assert 1e-5 < worst < 4e-3 * max(np.abs(y).max(), 1)


def test_rows_that_are_joined_get_joined_gradients(module):
    images, rows, heads, width = 1, 6, 2, 4
    joined = on_gpu(RNG.normal(size=(images, rows, 3, heads, width)).astype("f4"))
    q, k, v = (joined[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    out = module.attention(q, k, v, causal=True, scale=0.5)
    g = on_gpu(RNG.normal(size=out.shape).astype("f4"))
    grads = module.attention_grad(g, out, q, k, v, causal=True, scale=0.5)
    assert isinstance(grads, GpuArray)
    assert grads.transpose(1, 3, 0, 2, 4).flags.c_contiguous
    for x, y in zip(grads, formula(q, k, v, None, True, 0.5, g)[1:], strict=True):
        np.testing.assert_allclose(np.asarray(x), y, 0, 2e-6)
