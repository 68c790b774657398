"""Products that are padded for the matrix units are those that are not."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu
UNITS = {"float16": 8, "float32": 4}


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("sizes", [(1027, 1531, 1411), (1029, 1539, 1405)], ids=str)
def test_padded_products_are_those_of_the_operands(sizes, transposed, dtype, monkeypatch):
    import cupy

    import functensor as ft
    import functensor.numpy as fnp
    from functensor.backends.cuda.cublas import contraction

    m, n, k = sizes
    rng = cupy.random.default_rng(0)
    x, y = rng.random((m, k), "f4") - 0.5, rng.random((k, n), "f4") - 0.5
    x, y = x.astype(dtype), y.astype(dtype)
    if transposed[0]:
        x = cupy.ascontiguousarray(x.T).T
    if transposed[1]:
        y = cupy.ascontiguousarray(y.T).T
    made = []

    def padded(*matrices):
        found = found_of(*matrices)
        made.append(found)
        return found

    found_of = contraction.padded_product
    monkeypatch.setattr(contraction, "padded_product", padded)
    with ft.config.using(matmul_precision="tf32"):
        found = fnp.matmul(x, y)
    (product,) = made
    assert product is not None
    assert all(size % UNITS[dtype] == 0 for size in product.sizes)
    wanted = x.astype("f8") @ y.astype("f8")
    error = cupy.linalg.norm(found._data.astype("f8") - wanted) / cupy.linalg.norm(wanted)
    assert float(error) < 1e-3
    assert found.shape == (m, n)


def test_small_products_are_not_padded(monkeypatch):
    import functensor as ft
    import functensor.numpy as fnp
    from functensor.backends.cuda.cublas import contraction

    results = []
    found_of = contraction.padded_product

    def noted(*given):
        results.append(found_of(*given))
        return results[-1]

    monkeypatch.setattr(contraction, "padded_product", noted)
    x = ft.to_device(np.ones((31, 33), "f2"), "cuda")
    fnp.matmul(x, fnp.transpose(x))
    assert results == [None]
