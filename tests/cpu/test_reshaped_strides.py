"""Reshaped values that lie in the memory of others: strides as NumPy finds them, and no copy."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native.layouts import reshaped_strides
from functensor.backends.cpu.plan.native.segments import segmented
from functensor.jitting.tiers import native_program


def lengths(rng, size):
    """Returns lengths of axes that have so many elements together."""
    found = []
    while size > 1 and len(found) < 4:
        found.append(int(rng.choice([n for n in range(1, size + 1) if size % n == 0])))
        size //= found[-1]
    return [*found, size]


def drawn(rng):
    """Returns an array of bytes whose axes lie in any order, and another shape for it."""
    shape = lengths(rng, int(rng.choice([1, 7, 12, 36])))
    x = np.arange(4 * np.prod(shape), dtype=np.int8)[: np.prod(shape)].reshape(shape)
    x = x.transpose(rng.permutation(x.ndim))
    kind = rng.integers(4)
    if kind == 0:
        x = np.broadcast_to(x[:1], x.shape)
    elif kind == 1:
        x = x[::2]
    return x, lengths(rng, x.size)


def test_strides_are_found_where_numpy_finds_them():
    rng = np.random.default_rng(0)
    views = 0
    for x, wanted in (drawn(rng) for _ in range(1500)):
        numpys = x.reshape(wanted)
        found = reshaped_strides(x.shape, x.strides, wanted)
        if np.shares_memory(numpys, x):
            views += 1
            assert found is not None, (x.shape, x.strides, wanted)
        if found is not None:
            own = np.lib.stride_tricks.as_strided(x, wanted, found)
            np.testing.assert_array_equal(own, numpys)
    assert 500 < views < 1500


@pytest.mark.skipif(bool(missing), reason=missing)
def test_a_product_reads_joined_axes_where_they_lie():
    def kernel_gradient(x, g):
        rows = fnp.transpose(fnp.tanh(g), (2, 0, 1)).reshape(8, -1)
        return rows @ fnp.tanh(x).reshape(-1, 16)

    x, g = np.ones((4, 32, 16), "f"), np.linspace(0, 1, 1024, dtype="f").reshape(4, 32, 8)
    program = segmented(native_program(ft.make_program(kernel_gradient)(x, g)))
    (segment,) = program.segments
    assert len(segment.code.calls) == 3
    found = ft.jit(kernel_gradient).compile(x, g)(x, g)
    np.testing.assert_allclose(found, kernel_gradient(x, g), rtol=1e-5)
