"""Lanes of loops in machine code: their number is a power of two."""

import numpy as np
import pytest
from support.native import missing

from functensor.backends.kernels.kernel import Buffer, For, Index, LoopAxis, LoopKernel, Store
from functensor.backends.native.printer import printed_module

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def filling(lanes):
    axis = LoopAxis("i", 100)
    out = Buffer("out", np.dtype(np.float32), (100,), "out")
    store = Store(out, Index([(axis, 1)]), np.float32(3))
    return LoopKernel("filling", [out], [], [For(axis, [store], (), lanes)])


@pytest.mark.parametrize("lanes", [3, 24, 48])
def test_other_numbers_are_refused(lanes):
    with pytest.raises(ValueError, match=f"filling: {lanes} lanes are no power of two"):
        printed_module([filling(lanes)])
    assert f"<{1 << lanes.bit_length()} x float>" in printed_module(
        [filling(1 << lanes.bit_length())]
    )
