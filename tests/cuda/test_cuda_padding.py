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


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("sizes", [(132, 516, 1028), (516, 132, 1028)], ids=str)
def test_products_of_turned_factors_are_those_of_the_operands(sizes, transposed, monkeypatch):
    import cupy

    import functensor as ft
    import functensor.numpy as fnp
    from functensor.backends.cuda.cublas import contraction, turned_factors
    from functensor.backends.cuda.row_layout import limit

    monkeypatch.setattr(turned_factors, "HOPPER", limit("generation", 0))
    monkeypatch.setattr(turned_factors, "FEWEST_TURNING_OPERATIONS", 1)
    monkeypatch.setattr(turned_factors, "TURNED_BYTES_PER_OPERATION", 1)
    m, n, k = sizes
    rng = cupy.random.default_rng(0)
    x, y = rng.random((m, k), "f4") - 0.5, rng.random((k, n), "f4") - 0.5
    wanted = x.astype("f8") @ y.astype("f8")
    if transposed[0]:
        x = cupy.ascontiguousarray(x.T).T
    if transposed[1]:
        y = cupy.ascontiguousarray(y.T).T
    made = []

    def noted(*given):
        made.append(found_of(*given))
        return made[-1]

    found_of = contraction.turned_factors
    monkeypatch.setattr(contraction, "turned_factors", noted)
    with ft.config.using(matmul_precision="tf32"):
        found = fnp.matmul(x, y)
    # To cuBLAS the second operand comes first, and rows are columns.
    ((first, second, flags),) = made
    untouched = first.array.data.ptr == y.data.ptr, second.array.data.ptr == x.data.ptr
    if transposed == (1, 0):
        assert (untouched, flags) == (((True, False), (0, 0)) if m < n else ((False, True), (1, 1)))
    else:
        assert (untouched, flags) == ((True, True), (transposed[1], transposed[0]))
    error = cupy.linalg.norm(found._data.astype("f8") - wanted) / cupy.linalg.norm(wanted)
    assert float(error) < 1e-3


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize(
    "sizes", [(3, 2, 5, 4), (3, 7, 3, 7), (50257, 9, 50264, 16), (1, 300, 8, 304), (5, 6, 2, 3)]
)
def test_columns_are_copied_with_zeros_behind_them(sizes, dtype):
    import cupy

    from functensor.backends.cuda.cublas.padding import Matrix, copy_columns

    rows, columns, all_rows, all_columns = sizes
    leading = rows + 3
    given = cupy.arange(columns * leading).reshape(columns, leading).astype(dtype)
    made = cupy.full((all_columns, all_rows + 1), 7, dtype)
    copy_columns(
        Matrix(given, rows, columns, leading), Matrix(made, all_rows, all_columns, all_rows + 1)
    )
    wanted = np.zeros((all_columns, all_rows), dtype)
    kept = given.get()[:all_columns, : min(rows, all_rows)]
    wanted[: len(kept), : kept.shape[1]] = kept
    np.testing.assert_array_equal(made.get()[:, :-1], wanted)
    assert (made.get()[:, -1] == 7).all()


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
