"""Triangles of matrices in kernels: numbers of rows and columns, and no mask."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.passes.kernel_forms import kernel_forms
from functensor.programs.program import Variable


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (1, 6), (6, 1), (2, 4, 4), (0, 3), (3, 0)])
def test_triangles(name, shape):
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    x[..., :1] = np.nan
    for k in (-(10**12), -7, -6, -5, -1, 0, 1, 4, 5, 6, 7, 10**12):
        program = kernel_forms(ft.make_program(lambda x, k=k: getattr(fnp, name)(x, k))(x))
        assert all(e.primitive.name != name for e in program.equations)
        np.testing.assert_array_equal(program(x), getattr(np, name)(x, k))


def test_a_program_keeps_no_mask():
    program = kernel_forms(ft.make_program(fnp.tril)(ft.ShapeDtype((1000, 1024), "float32")))
    constants = [x for e in program.equations for x in e.operands if type(x) is not Variable]
    assert sum(np.asarray(x).nbytes for x in constants) < 10_000
