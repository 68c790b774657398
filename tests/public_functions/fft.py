"""Cases of Fourier transforms."""

import numpy

from .harness import Case, Operand

NORMS = ("backward", "ortho", "forward")

CASES = [
    Case("numpy.fft.fft", lambda np, x: np.fft.fft(x), (5,), dtypes="fdD"),
    Case("numpy.fft.fft", lambda np, x: np.fft.fft(x, 3, 0, "ortho"), (4, 2), dtypes="dD"),
    Case("numpy.fft.ifft", lambda np, x: np.fft.ifft(x, 6, norm="forward"), (2, 4), dtypes="fdD"),
    Case("numpy.fft.rfft", lambda np, x: np.fft.rfft(x), (2, 5)),
    Case("numpy.fft.rfft", lambda np, x: np.fft.rfft(x, 6, axis=0, norm="forward"), (4, 2)),
    Case("numpy.fft.irfft", lambda np, x: np.fft.irfft(x), (2, 4), dtypes="fdD"),
    Case("numpy.fft.irfft", lambda np, x: np.fft.irfft(x, 5, 0, "ortho"), (4, 2), dtypes="dD"),
    Case("numpy.fft.hfft", lambda np, x: np.fft.hfft(x, norm="ortho"), (2, 4), dtypes="fdD"),
    Case("numpy.fft.hfft", lambda np, x: np.fft.hfft(x, 5), (4,), dtypes="dD"),
    Case("numpy.fft.ihfft", lambda np, x: np.fft.ihfft(x, norm="forward"), (2, 4)),
    Case("numpy.fft.ihfft", lambda np, x: np.fft.ihfft(x, 5, axis=0), (4, 2)),
    *[
        Case("numpy.fft.fftn", lambda np, x, n=n: np.fft.fftn(x, norm=n), (2, 3), dtypes="dD")
        for n in NORMS
    ],
    Case(
        "numpy.fft.fftn",
        lambda np, x: np.fft.fftn(x, s=(3, -1), axes=(2, 0)),
        (2, 2, 4),
        dtypes="fdD",
    ),
    Case("numpy.fft.fftn", lambda np, x: np.fft.fftn(x, s=(2, 3), axes=(0, 0)), (3, 2)),
    Case("numpy.fft.ifftn", lambda np, x: np.fft.ifftn(x, (3, 2), (0, 1)), (2, 3), dtypes="fdD"),
    *[Case("numpy.fft.rfftn", lambda np, x, n=n: np.fft.rfftn(x, norm=n), (2, 3)) for n in NORMS],
    Case("numpy.fft.rfftn", lambda np, x: np.fft.rfftn(x, (3, 4), axes=(2, 0)), (2, 2, 4)),
    *[
        Case("numpy.fft.irfftn", lambda np, x, n=n: np.fft.irfftn(x, norm=n), (2, 3), dtypes="dD")
        for n in NORMS
    ],
    Case(
        "numpy.fft.irfftn",
        lambda np, x: np.fft.irfftn(x, (3, 5), axes=(2, 0)),
        (2, 2, 4),
        dtypes="fdD",
    ),
    Case("numpy.fft.fft2", lambda np, x: np.fft.fft2(x), (2, 2, 3), dtypes="dD"),
    Case("numpy.fft.ifft2", lambda np, x: np.fft.ifft2(x, axes=(0, 1)), (2, 3), dtypes="dD"),
    Case("numpy.fft.rfft2", lambda np, x: np.fft.rfft2(x), (2, 2, 3)),
    Case("numpy.fft.irfft2", lambda np, x: np.fft.irfft2(x), (2, 2, 3), dtypes="dD"),
    Case("numpy.fft.fftfreq", lambda np, d: np.fft.fftfreq(5, d), Operand(()), dtypes="d"),
    Case(
        "numpy.fft.rfftfreq",
        lambda np, d: np.fft.rfftfreq(6, d),
        Operand(()),
        reference=lambda d: numpy.fft.rfftfreq(6, float(d)),
        dtypes="d",
    ),
    Case("numpy.fft.fftshift", lambda np, x: np.fft.fftshift(x), (2, 3), dtypes="fdD"),
    Case("numpy.fft.fftshift", lambda np, x: np.fft.fftshift(x, axes=1), (2, 3)),
    Case("numpy.fft.ifftshift", lambda np, x: np.fft.ifftshift(x, axes=(0,)), (3, 2), dtypes="dD"),
]
