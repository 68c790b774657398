"""Fourier transforms in loops of machine code: those of eager mode, but for rounding."""

import numpy as np
import pytest
from support.long_forms import with_slow
from support.native import missing
from support.native_loops import compiled, loops_of, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import fourier

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

DTYPES = ("f4", "f8", "c8", "c16")
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 26, 30, 49, 64, 100, 143, 256, 360, 1000)


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def assert_near(found, wanted):
    """Asserts that transforms differ by some units in the last place of the largest number."""
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        size = max(np.abs(y).max(initial=0), np.finfo(y.dtype).smallest_normal)
        error = np.abs(x - y).max(initial=0) / size / np.finfo(y.dtype).eps
        assert error <= 4 + np.log2(max(x.size, 1)), error


@pytest.mark.parametrize("dtype", with_slow(DTYPES, ["f8", "c8"]))
def test_lengths_with_small_factors(dtype):
    rows = [drawn(n, dtype, n) for n in LENGTHS]

    def every(*rows):
        found = [[fnp.fft.fft(x), fnp.fft.ifft(x)] for x in rows]
        if dtype[0] == "f":
            found += [fnp.fft.rfft(x) for x in rows]
        else:
            found += [fnp.fft.irfft(x[: n // 2 + 1], n) for x, n in zip(rows, LENGTHS, strict=True)]
        return found

    assert_near(compiled(of_slices(every), *rows)(*rows), every(*map(fnp.asarray, rows)))


def test_errors_are_those_of_numpy_beside_more_precise_numbers():
    x = drawn(1024, "c8")
    precise = np.fft.fft(x.astype("c16"))
    found = np.asarray(compiled(of_slices(fnp.fft.fft), x)(x))
    by_numpy = np.linalg.norm(np.fft.fft(x) - precise)
    assert np.linalg.norm(found - precise) <= 2 * by_numpy


TRANSFORMS = {
    "along the first axis": lambda x: fnp.fft.fft(x, axis=0),
    "over two axes": lambda x: fnp.fft.fft2(x, norm="forward"),
    "over all axes": lambda x: fnp.fft.ifftn(x),
    "an axis twice": lambda x: fnp.fft.fftn(x, axes=(1, 1)),
    "orthogonal": lambda x: fnp.fft.ifft(x, axis=1, norm="ortho"),
    "padded": lambda x: fnp.fft.fft(x, n=9),
    "cut": lambda x: fnp.fft.fft(x, n=3, axis=0),
    "real results": lambda x: fnp.fft.irfft(x, axis=1),
    "of an odd length": lambda x: fnp.fft.irfft(x, n=5, axis=0),
    "over two axes to real numbers": lambda x: fnp.fft.irfft2(x),
    "hermitian": lambda x: fnp.fft.hfft(x, axis=1),
    "of real parts": lambda x: fnp.fft.rfft(fnp.real(x), axis=1, norm="ortho"),
    "of real parts over two axes": lambda x: fnp.fft.rfft2(fnp.imag(x)),
    "strided": lambda x: fnp.fft.fft(x[::2, :, ::-1], axis=1),
    "shifted": lambda x: fnp.fft.ifftshift(fnp.fft.fft(fnp.fft.fftshift(x))),
}


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("function", TRANSFORMS.values(), ids=TRANSFORMS)
def test_axes_norms_and_lengths(function, dtype):
    x = drawn((4, 6, 5), dtype)
    assert_near(compiled(of_slices(function), x)(x), function(fnp.asarray(x)))


@pytest.mark.parametrize("n", [6, 8, 9, 64])
def test_ends_of_the_spectrum_of_real_numbers_are_real(n):
    x = drawn(n, "f8")
    found = np.asarray(compiled(of_slices(fnp.fft.rfft), x)(x))
    ends = [0, n // 2] if n % 2 == 0 else [0]
    assert (found.imag[ends].view("i8") == 0).all()


@pytest.mark.parametrize("n", [6, 9])
def test_imaginary_parts_of_the_ends_are_not_read(n):
    x = drawn(n // 2 + 1, "c16")
    x[0] = complex(2.0, np.nan)
    if n % 2 == 0:
        x[-1] = complex(1.0, np.inf)
    found = compiled(of_slices(lambda x: fnp.fft.irfft(x, n)), x)(x)
    assert_near(found, np.fft.irfft(x, n))


def test_rows_with_nan_leave_the_others_alone():
    x = drawn((3, 16), "f8")
    x[1, 4] = np.nan
    found = np.asarray(compiled(of_slices(fnp.fft.fft), x)(x))
    assert np.isnan(found[1]).all()
    assert_near(found[[0, 2]], np.fft.fft(x[[0, 2]]))


def burgers(u):
    """Two steps of a spectral method for a flow with shocks."""
    k = np.fft.rfftfreq(32) * 32

    def step(u, _):
        v = fnp.fft.rfft(u)
        steep = fnp.fft.rfft(u * fnp.fft.irfft(1j * k * v))
        return fnp.fft.irfft((v - 0.01 * steep) * np.exp(-0.01 * k**2)), fnp.sum(u**2)

    return ft.scan(step, u, None, 2)


@pytest.mark.parametrize("batched", [False, True])
def test_derivatives_and_batches(batched):
    def energy(u):
        u, sums = burgers(u)
        return fnp.sum(u**3) + fnp.sum(sums)

    both = ft.value_and_grad(energy)
    x = drawn(32, "f8")
    if batched:
        both, x = ft.vmap(both), drawn((3, 32), "f8")
    found, wanted = compiled(both, x, loops=2)(x), both(fnp.asarray(x))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_transforms_outside_of_loops(dtype):
    x = drawn((4, 30), dtype)

    def f(x):
        spectrum = fnp.fft.rfft(x * 2)
        return fnp.fft.irfft(spectrum * np.exp(-np.arange(16.0)).astype(dtype)), fnp.fft.fft2(x.T)

    jitted = ft.jit(f).compile(x)
    source = jitted._last.compiled.run.source
    assert source.count("segment_0(") == 1, source
    assert "fft" not in source.partition("\n\n")[0], source
    assert_near(jitted(x), f(fnp.asarray(x)))
    assert_near(jitted(np.asfortranarray(x)), f(fnp.asarray(x)))


def test_many_numbers_are_transformed_by_numpy():
    x = drawn((300, 256), "f8")
    jitted = ft.jit(lambda x: fnp.fft.fft(x) * 2).compile(x)
    np.testing.assert_array_equal(jitted(x), fnp.fft.fft(fnp.asarray(x)) * 2)


LEFT = {
    "a large prime factor": np.ones(17),
    "long rows": np.ones(2 * fourier.LONGEST_TRANSFORM),
    "float16": np.ones(8, "f2"),
}


@pytest.mark.parametrize("x", LEFT.values(), ids=LEFT)
def test_other_transforms_stay_with_numpy(x):
    once = of_slices(fnp.fft.fft)
    jitted = ft.jit(once).compile(x)
    assert loops_of(jitted)[0] == 0
    np.testing.assert_array_equal(jitted(x), fnp.fft.fft(fnp.asarray(x)))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4)])
def test_no_rows(shape):
    x = np.ones(shape)
    once = of_slices(fnp.fft.fft)
    assert np.asarray(ft.jit(once).compile(x)(x)).shape == shape
