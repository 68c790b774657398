"""Lanes of loops in machine code: their number is a power of two, and they fill whole lines."""

import numpy as np
import pytest
from support.native import missing, run_compiled

from functensor.backends.kernels.kernel import (
    BLOCK_NUMBER,
    Buffer,
    For,
    Index,
    LoopAxis,
    LoopKernel,
    Store,
)
from functensor.backends.native.printer import printed_module

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def filling(lanes, size=100):
    axis = LoopAxis("i", size)
    out = Buffer("out", np.dtype(np.float32), (size,), "out")
    store = Store(out, Index([(axis, 1)]), np.float32(3))
    return LoopKernel("filling", [out], [], [For(axis, [store], (), lanes)])


@pytest.mark.parametrize("lanes", [3, 24, 48])
def test_other_numbers_are_refused(lanes):
    with pytest.raises(ValueError, match=f"filling: {lanes} lanes are no power of two"):
        printed_module([filling(lanes)])
    assert f"<{1 << lanes.bit_length()} x float>" in printed_module(
        [filling(1 << lanes.bit_length())]
    )


def test_large_results_ask_for_lines_ahead():
    size = (1 << 18) + 3
    assert "llvm.prefetch" in printed_module([filling(16, size)])
    assert "llvm.prefetch" not in printed_module([filling(16, size // 2)])
    assert "llvm.prefetch" not in printed_module([filling(8, size)])
    out = np.zeros(size, np.float32)
    run_compiled(filling(16, size), [out], [(0, 0, 0)])
    assert (out == 3).all()


def test_parts_of_folds_ask_for_no_line_of_another_block():
    axis = LoopAxis("j", 512)
    part = Buffer("part", np.dtype(np.float32), (BLOCK_NUMBER.extent, 512), "part")
    store = Store(part, Index([(BLOCK_NUMBER, 512), (axis, 1)]), np.float32(3))
    kernel = LoopKernel("clearing", [part], [], [For(axis, [store], (), 16)])
    assert "llvm.prefetch" not in printed_module([kernel])
