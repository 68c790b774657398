"""Gradients of elementwise functions as one kernel, with eager mode's values of rare numbers."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.tiers import native_program

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

TINY = 5e-320
RARE = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-200, TINY, 1e300, -TINY])
FUNCTIONS = {
    "maximum": lambda x, y: fnp.maximum(x, y) ** 2,
    "minimum of a number": lambda x, y: fnp.minimum(x, 1.0) * y,
    "clip": lambda x, y: fnp.clip(x, -1.0, 1.0) * y,
    "expm1": lambda x, y: fnp.expm1(fnp.minimum(x, 3.0)),
    "hypot": fnp.hypot,
    "arctan2": fnp.arctan2,
    "abs": lambda x, y: fnp.abs(x) * y,
    "logaddexp": fnp.logaddexp,
    "softplus": lambda x, y: ft.nn.softplus(x) * y,
    "where": lambda x, y: fnp.where(x > y, x * x, y),
    "a power": lambda x, y: fnp.abs(x) ** 1.5,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_one_kernel(name, dtype):
    def slopes(x, y):
        return ft.grad(lambda x, y: fnp.sum(FUNCTIONS[name](x, y)), argnums=(0, 1))(x, y)

    with np.errstate(all="ignore"):
        x, y = (v.ravel().astype(dtype) for v in np.meshgrid(RARE, RARE))
        program = native_program(ft.make_program(slopes)(x, y))
        assert {e.primitive.name for e in program.equations} <= {"fused"}
        got, wanted = ft.jit(slopes).compile(x, y)(x, y), slopes(fnp.asarray(x), fnp.asarray(y))
    for mine, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6 if dtype == "float32" else 1e-14)
