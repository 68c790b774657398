"""Contractions on a GPU: values by dtype and layout, and what is copied and launched for them."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.config import config

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy")

# A sum of ten products may be off by this much, by dtype.
TOLERANCES = {
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float32": 2e-6,
    "float64": 1e-14,
    "complex64": 2e-6,
    "complex128": 1e-14,
}


def numbers(shape, dtype="float32", seed=0):
    """Returns an array on the GPU and its exact values."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.uniform(0.5, 1.5, shape)
    x = fnp.asarray(values, dtype=dtype, device="cuda")
    return x, host(x)


def host(x):
    values = np.asarray(ft.to_device(x, "cpu"))
    return values if values.dtype.kind in "?biuc" else values.astype(np.float64)


def assert_close(got, wanted, dtype):
    assert str(got.dtype) == dtype
    assert got.device == "cuda:0"
    assert got.shape == wanted.shape
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(host(got), wanted, rtol=tolerance, atol=tolerance)


class Counted:
    """Counts allocations and calls of cuBLAS in a ``with`` block."""

    def __enter__(self):
        from cupy_backends.cuda.libs import cublas

        from functensor.backends.cuda.cublas import contraction

        class Library:
            calls = 0

            def __getattr__(self, name):
                function = getattr(cublas, name)

                def counted(*args):
                    self.calls += "gemm" in name
                    return function(*args)

                return counted

        self.prepared, self.handle = contraction.PREPARED, cupy.cuda.device.get_cublas_handle()
        self.before = contraction.cublas_on(self.handle)
        self.library = self.prepared[self.handle] = Library()
        counter = self

        class Hook(cupy.cuda.memory_hook.MemoryHook):
            name = "counting"

            def malloc_preprocess(self, **arguments):
                counter.allocations += 1

        self.allocations = 0
        self.hook = Hook()
        self.hook.__enter__()
        return self

    def __exit__(self, *error):
        self.hook.__exit__(*error)
        self.prepared[self.handle] = self.before


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((7, 5), (5, 3)),
        ((5,), (5,)),
        ((5,), (5, 3)),
        ((7, 5), (5,)),
        ((2, 7, 5), (5, 3)),
        ((7, 5), (4, 5, 3)),
        ((4, 7, 5), (4, 5, 3)),
        ((2, 1, 7, 5), (4, 5, 3)),
        ((1, 1), (1, 1)),
        ((3, 33, 65), (3, 65, 17)),
    ],
)
def test_matmul(dtype, x, y):
    (a, exact_a), (b, exact_b) = numbers(x, dtype), numbers(y, dtype, 1)
    assert_close(a @ b / 10, exact_a @ exact_b / 10, dtype)
    if len(x) > 1:
        turned = fnp.asarray(np.swapaxes(exact_a, -1, -2), dtype=dtype, device="cuda")
        assert_close(fnp.swapaxes(turned, -1, -2) @ b / 10, exact_a @ exact_b / 10, dtype)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize(("x", "y"), [((4, 5), (5, 3)), ((2, 4, 5), (2, 5, 3)), ((5,), (5,))])
def test_integers(dtype, x, y):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2 if dtype == "bool" else 9, s).astype(dtype) for s in (x, y))
    got = fnp.matmul(fnp.asarray(a, device="cuda"), fnp.asarray(b, device="cuda"))
    assert got.dtype == (a @ b).dtype
    np.testing.assert_array_equal(host(got), a @ b)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("bfloat16", "float32", "float32"),
        ("bfloat16", "float16", "float32"),
        ("float32", "complex64", "complex64"),
        ("float64", "complex64", "complex128"),
        ("int32", "float32", "float64"),
        ("int8", "float16", "float16"),
    ],
)
def test_mixed_dtypes_promote(one, other, wanted):
    (a, exact_a), (b, exact_b) = numbers((4, 5), one), numbers((5, 3), other)
    assert_close(a @ b, exact_a @ exact_b, wanted)
    assert_close(fnp.einsum("ij,jk->ki", a, b), (exact_a @ exact_b).T, wanted)


@pytest.mark.parametrize(("x", "y"), [((2, 0), (0, 3)), ((0, 3), (3, 2)), ((2, 0, 3), (3, 4))])
def test_no_elements(x, y):
    for dtype in ("float32", "bfloat16", "int64"):
        a, b = fnp.zeros(x, dtype, device="cuda"), fnp.zeros(y, dtype, device="cuda")
        out = a @ b
        assert out.dtype == a.dtype
        np.testing.assert_array_equal(host(out), np.zeros(x) @ np.zeros(y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,kj->ki", ((4, 5), (3, 5))),
        ("bthd,bshd->bhts", ((2, 5, 3, 4), (2, 6, 3, 4))),
        ("bhts,bshd->bthd", ((2, 3, 5, 6), (2, 6, 3, 4))),
        ("bij,bjk->ikb", ((2, 3, 4), (2, 4, 5))),
        ("bi,bi->b", ((3, 4), (3, 4))),
        ("i,i->", ((7,), (7,))),
        ("ijk,kl,lj->i", ((2, 3, 4), (4, 5), (5, 3))),
        ("ii->i", ((3, 3),)),
        ("ij->j", ((2, 3),)),
        ("ij,j->ij", ((3, 4), (4,))),
        ("i,j->ij", ((3,), (4,))),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
    ],
)
def test_einsum(dtype, subscripts, shapes):
    pairs = [numbers(s, dtype, i) for i, s in enumerate(shapes)]
    got = fnp.einsum(subscripts, *(x for x, _ in pairs))
    wanted = np.einsum(subscripts, *(exact for _, exact in pairs))
    scale = max(1.0, float(np.abs(wanted).max()))
    assert_close(got / scale, wanted / scale, dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x, y: xp.dot(x, y.T),
        lambda xp, x, y: xp.tensordot(x, y, axes=(1, 1)),
        lambda xp, x, y: xp.inner(x, y),
        lambda xp, x, y: xp.vecdot(x, y[:3]),
        lambda xp, x, y: xp.vdot(x, y[:3]),
        lambda xp, x, y: xp.outer(x, y),
        lambda xp, x, y: xp.kron(x, y),
        lambda xp, x, y: xp.convolve(x[0], y[0]),
    ],
)
def test_functions_made_of_products(call):
    (a, exact_a), (b, exact_b) = numbers((3, 5)), numbers((4, 5))
    assert_close(call(fnp, a, b) / 10, call(np, exact_a, exact_b) / 10, "float32")


def test_gradients():
    (x, _), (w, _), (v, _) = numbers((6, 4, 5)), numbers((5, 3)), numbers((6, 3, 2))

    def loss(x, w, v):
        return fnp.sum(fnp.tanh(x @ w) @ v)

    got = ft.grad(loss, (0, 1, 2))(x, w, v)
    wanted = ft.grad(loss, (0, 1, 2))(*(fnp.asarray(host(a)) for a in (x, w, v)))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(host(a), host(b), rtol=1e-5, atol=1e-5)
    mapped = ft.vmap(lambda x, v: fnp.tanh(x @ w) @ v)(x, v)
    np.testing.assert_allclose(host(mapped), host(fnp.tanh(x @ w) @ v), rtol=1e-6)


COUNTED = {
    "contiguous": (lambda x, w: x @ w, 1),
    "transposed right": (lambda x, w: x @ w.T, 1),
    "transposed left": (lambda x, w: x.T @ w, 1),
    "both transposed": (lambda x, w: x.T @ w.T, 1),
    "rows of a stack": (lambda x, w: fnp.reshape(x, (4, 16, 64)) @ w, 1),
    "slice": (lambda x, w: x[:, 8:40] @ w[8:40, :24], 1),
    "stack": (lambda x, w: fnp.reshape(x, (4, 16, 64)) @ fnp.reshape(w, (4, 64, 16)), 1),
    "transposed stack": (
        lambda x, w: fnp.reshape(x, (4, 16, 64)).mT @ fnp.reshape(w, (4, 16, 64)), 1
    ),
    "shared operand": (lambda x, w: x @ fnp.reshape(w, (4, 64, 16)), 1),
    "broadcast": (
        lambda x, w: fnp.broadcast_to(x, (5, 64, 64)) @ w, 1
    ),
    "heads": (
        lambda x, w: fnp.einsum(
            "bthd,bshd->bhts",
            fnp.reshape(x, (2, 16, 4, 32)),
            fnp.reshape(w, (2, 16, 4, 32)),
        ),
        2,
    ),
    "named": (lambda x, w: fnp.einsum("ij,kj->ki", x, w), 1),
    "matrix times vector": (lambda x, w: x @ w[0], 1),
    "sum over two axes": (
        lambda x, w: fnp.tensordot(fnp.reshape(x, (64, 8, 8)), fnp.reshape(w, (8, 8, 64))), 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_nothing_is_copied(name):
    call, calls = COUNTED[name]
    (x, exact_x), (w, exact_w) = numbers((64, 64)), numbers((64, 64), seed=1)
    wanted = host(call(x, w))
    with Counted() as counted:
        got = call(x, w)
    assert counted.library.calls == calls
    # The result is all that is made.
    assert counted.allocations == 1
    exact = host(call(fnp.asarray(exact_x), fnp.asarray(exact_w)))
    np.testing.assert_allclose(host(got), exact, rtol=1e-5)
    np.testing.assert_array_equal(host(got), wanted)


def test_gradients_of_a_dense_layer_copy_nothing():
    (x, _), (w, _) = numbers((64, 32)), numbers((32, 16))
    _, pull = ft.vjp(fnp.matmul, x, w)
    g, _ = numbers((64, 16))
    with Counted() as counted:
        pull(g)
    assert (counted.library.calls, counted.allocations) == (2, 2)


def test_float32_is_not_rounded_to_tf32_unless_asked():
    # 1 + 2^-20 needs more digits than TF32 has.
    x = fnp.full((256, 256), 1 + 2.0**-20, "float32", device="cuda")
    eye = fnp.eye(256, dtype="float32", device="cuda")
    assert config.matmul_precision == "highest"
    np.testing.assert_array_equal(host(x @ eye), host(x))
    np.testing.assert_array_equal(host(fnp.einsum("ij,kj->ik", x, eye)), host(x))
    image = fnp.reshape(x, (1, 1, 256, 256))
    kernel = fnp.ones((1, 1, 1, 1), "float32", device="cuda")
    np.testing.assert_array_equal(host(ft.nn.conv(image, kernel)), host(image))
    with config.using(matmul_precision="tf32"):
        rough = host(x @ eye)
    np.testing.assert_allclose(rough, 1, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_added_up_in_single(dtype):
    x = fnp.full((8, 20000), 1.0, dtype, device="cuda")
    out = x @ fnp.full((20000, 8), 2.0**-6, dtype, device="cuda")
    np.testing.assert_allclose(host(out), 20000 / 64, rtol=float(fnp.finfo(dtype).eps))


def test_results_are_the_same_bits_every_time():
    (x, _), (y, _) = numbers((128, 4096)), numbers((4096, 64), seed=1)
    first = host(x @ y)
    for _ in range(3):
        np.testing.assert_array_equal(host(x @ y), first)
