"""Layer norm and RMS norm with their cotangents on a GPU, against doubles."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.primitives.core.registry import registry as ops

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-6, "float64": 1e-13}
# Rows for a warp, for a block, with and without whole packs; the last are too long for registers.
LENGTHS = [1, 8, 33, 768, 4096, 5001, 8200]
EPS = 1e-3


@pytest.fixture(scope="module", autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import normalization

    return normalization


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def samples(*shapes, name="float32", offset=0.0):
    rng = numpy.random.default_rng(sum(shapes[0]))
    return [(rng.normal(size=shape) + offset).astype(dtype_of(name)) for shape in shapes]


def wanted_of(primitive, *operands, **params):
    return ops[primitive].reference(
        *(numpy.asarray(v, numpy.float64) for v in operands), eps=EPS, **params
    )


def close(got, wanted, name, scale=1.0):
    assert got.dtype == dtype_of(name)
    assert got.shape == wanted.shape
    tolerance = TOLERANCES[name] * scale
    got = got.get().astype(numpy.float64)
    numpy.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def check(kernels, rows, length, name, center, bias):
    shape = rows, length
    x, g, *affine = samples(shape, shape, *[(length,)] * (1 + bias), name=name)
    on_gpu = [cupy.asarray(v) for v in (x, *affine)]
    got = kernels.affine_normalize(*on_gpu, eps=EPS, center=center)
    close(got, wanted_of("affine_normalize", x, *affine, center=center), name, 2)
    got = kernels.normalize(on_gpu[0], eps=EPS, center=center)
    close(got, wanted_of("normalize", x, center=center), name)
    operands = [cupy.asarray(g), *on_gpu[:2]]
    got = kernels.normalize_grad(*operands[:2], eps=EPS, center=center)
    close(got, wanted_of("normalize_grad", g, x, center=center), name, 3)
    got = kernels.affine_normalize_grad(*operands, eps=EPS, center=center, bias=bias)
    wanted = wanted_of("affine_normalize_grad", g, x, affine[0], center=center, bias=bias)
    close(got[:rows], wanted[:rows], name, 5)
    close(got[rows:], wanted[rows:], name, 2 * rows**0.5)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("center", [True, False])
def test_lengths(kernels, length, center):
    check(kernels, 7, length, "float32", center, bias=center)


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("length", [24, 67, 4100])
def test_dtypes(kernels, name, length):
    check(kernels, 5, length, name, True, True)


@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_numbers_of_rows(kernels, rows):
    check(kernels, rows, 40, "float32", True, True)


@pytest.mark.parametrize("length", [40, 37, 8200])
def test_weights_by_group(kernels, length):
    shape = 3, 2, 5, length
    x, g, weight, bias = samples(shape, shape, (3, 2, length), (3, 2, length))
    params = {"center": True}
    for view in (lambda v: v, lambda v: v[::-1], lambda v: v[1:2], lambda v: v[:, :1]):
        operands = [view(v) for v in (x, weight, bias)]
        on_gpu = [view(cupy.asarray(v)) for v in (x, weight, bias)]
        got = kernels.affine_normalize(*on_gpu, eps=EPS, **params)
        close(got, wanted_of("affine_normalize", *operands, **params), "float32", 2)
        got = kernels.affine_normalize_grad(
            view(cupy.asarray(g)), *on_gpu[:2], eps=EPS, bias=True, **params
        )
        wanted = wanted_of("affine_normalize_grad", view(g), *operands[:2], bias=True, **params)
        close(got, wanted, "float32", 10)
    shared = cupy.broadcast_to(cupy.asarray(weight[0, 0]), weight.shape)
    got = kernels.affine_normalize(cupy.asarray(x), shared, eps=EPS, **params)
    wanted = wanted_of("affine_normalize", x, weight[0, 0], **params)
    close(got, wanted, "float32", 2)


VIEWS = [
    lambda v: v[:, ::2],
    lambda v: v[::2, 3:],
    lambda v: v[:, 4:],
    lambda v: v[::-1, ::-1],
    lambda v: v.T,
    lambda v: v[:1].repeat(9, axis=0)[::3],
]


@pytest.mark.parametrize("view", VIEWS)
def test_strides(kernels, view):
    x, g = samples((20, 44), (20, 44))
    weight = samples((44,))[0][: view(x).shape[-1]]
    if weight.size < view(x).shape[-1]:
        pytest.fail("the weight is too short")
    on_gpu = [view(cupy.asarray(x)), cupy.asarray(weight)]
    got = kernels.affine_normalize(*on_gpu, eps=EPS, center=True)
    close(got, wanted_of("affine_normalize", view(x), weight, center=True), "float32", 2)
    two = cupy.broadcast_to(cupy.asarray(numpy.float32(2)), view(g).shape)
    for cotangent in (view(cupy.asarray(g)), two):
        got = kernels.affine_normalize_grad(cotangent, *on_gpu, eps=EPS, center=True, bias=True)
        operands = cotangent.get(), view(x), weight
        wanted = wanted_of("affine_normalize_grad", *operands, center=True, bias=True)
        close(got, wanted, "float32", 20)


def test_a_mean_far_from_zero(kernels):
    (x,) = samples((4, 500), offset=1000.0)
    got = kernels.normalize(cupy.asarray(x), eps=0.0, center=True)
    exact = ops.normalize.reference(x.astype(float), eps=0.0, center=True)
    numpy.testing.assert_allclose(got.get(), exact, atol=1e-4)


def test_dtypes_mixed_and_nan(kernels):
    x, weight = samples((3, 8), (8,))
    got = kernels.affine_normalize(
        cupy.asarray(x, numpy.float16), cupy.asarray(weight), eps=EPS, center=True
    )
    assert got.dtype == numpy.float32
    assert kernels.normalize(cupy.arange(4), eps=0.0, center=True).dtype == numpy.float64
    x[1, 2] = numpy.nan
    got = kernels.affine_normalize(cupy.asarray(x), cupy.asarray(weight), eps=EPS, center=True)
    assert numpy.isnan(got.get()).all(axis=1).tolist() == [False, True, False]


def test_layers(launches):
    x, weight, bias = samples((2, 3, 8), (8,), (8,), name="float64")

    def loss(x, weight, bias):
        return np.sum(nn.layer_norm(x, weight, bias) ** 3 + nn.rms_norm(x, weight))

    arguments = x, weight, bias
    on_gpu = [ft.to_device(v, "cuda:0") for v in arguments]
    wanted = ft.grad(loss, (0, 1, 2))(*arguments)
    got = ft.grad(loss, (0, 1, 2))(*on_gpu)
    for a, b in zip(got, wanted, strict=True):
        numpy.testing.assert_allclose(ft.to_device(a, "cpu"), b, rtol=1e-11, atol=1e-12)
    assert sorted(n for n in launches if n in ("forward", "backward", "finish")) == (
        ["backward"] * 2 + ["finish"] * 2 + ["forward"] * 2
    )
    second = ft.grad(lambda *args: np.sum(ft.grad(loss)(*args) ** 2), (0, 1))
    for a, b in zip(second(*on_gpu), second(*arguments), strict=True):
        numpy.testing.assert_allclose(ft.to_device(a, "cpu"), b, rtol=1e-9, atol=1e-9)
    each = ft.vmap(ft.grad(loss, (0, 1)), (0, None, None))
    for a, b in zip(each(*on_gpu), each(*arguments), strict=True):
        numpy.testing.assert_allclose(ft.to_device(a, "cpu"), b, rtol=1e-10, atol=1e-11)
