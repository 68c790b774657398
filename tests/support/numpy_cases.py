"""Arrays that the tests of functensor.numpy share, and how a result is compared with NumPy's."""

import numpy as np

import functensor as ft

RNG = np.random.default_rng(7)
V = RNG.uniform(-2, 2, 5)
W = RNG.uniform(-2, 2, 5)
M = RNG.uniform(-2, 2, (3, 4))
N = RNG.uniform(-2, 2, (3, 4))
T = RNG.uniform(-2, 2, (2, 3, 4))
S = np.sort(RNG.uniform(-2, 2, 6))
C = M + 1j * N
I = np.array([[3, 1, 2], [0, -4, 5]])  # noqa: E741 - the integers beside M and N
B = np.array([[True, False], [True, True]])
F = M.astype(np.float32)
BAD = np.array([1.0, np.nan, np.inf, -np.inf])


def same(got, wanted, exact=False):
    """Compares a result, or each of several, with NumPy's in type, shape, dtype and values."""
    if isinstance(wanted, tuple | list):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            same(one, other, exact)
        return
    assert isinstance(got, ft.Array)
    assert got.shape == np.shape(wanted)
    assert got.dtype == np.asarray(wanted).dtype
    rtol = 0 if exact else 1e-5 if got.dtype.itemsize == 4 and got.dtype.kind == "f" else 1e-12
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=rtol, atol=0 if exact else 1e-15)
