"""Loads of several elements at once: which memory they need."""

import numpy as np
import pytest
from support.gpu_programs import fused

cupy = pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")


@pytest.mark.gpu
def test_numbers_may_lie_anywhere():
    from functensor.backends.cuda.plan.region_run import GpuRegion, load_all

    x = np.arange(8.0, dtype="f4")
    program = fused(lambda x, a, b: x * a + b, x, np.float32(2), np.float32(3))
    (equation,) = program.equations
    run = GpuRegion("region_0", equation.primitive, equation.operands, apart=True)
    load_all([run])
    longer, numbers = cupy.arange(9, dtype="f4"), cupy.asarray([0, 2, 3], "f4")
    a, b = numbers[1], numbers[2]
    assert a.data.ptr % 16 == 4
    for begin, widths in ((0, [4]), (1, [4, 1])):
        (out,) = run(longer[begin : begin + 8], a, b)
        np.testing.assert_array_equal(out.get(), (x + begin) * 2 + 3)
        assert [form.width for form in run._forms.values()] == widths
