"""Cases of convolution and correlation."""

from functensor.primitives.core.test_samples import INTEGER

from .harness import Case, Operand

MODES = ("full", "same", "valid")


def cases(name, call, *operands, **options):
    """Returns a case for every mode."""
    name = f"scipy.signal.{name}"
    return [
        Case(name, lambda sp, x, y, m=m: call(sp.signal, x, y, m), *operands, **options)
        for m in MODES
    ]


CASES = [
    *cases("convolve", lambda s, x, y, m: s.convolve(x, y, m), (5,), (3,), dtypes="fdD"),
    *cases("convolve", lambda s, x, y, m: s.convolve(x, y, m, "fft"), (3, 4), (2, 2), dtypes="fdD"),
    *cases("convolve", lambda s, x, y, m: s.convolve(x, y, m, "direct"), (2, 2), (3, 4)),
    *cases("convolve", lambda s, x, y, m: s.convolve(x, y, m, "direct"), (2,), (3,), dtypes="D"),
    *cases("correlate", lambda s, x, y, m: s.correlate(x, y, m), (4,), (3,), dtypes="fdD"),
    *cases("correlate", lambda s, x, y, m: s.correlate(x, y, m, "fft"), (2,), (4,), dtypes="dD"),
    *cases("correlate", lambda s, x, y, m: s.correlate(x, y, m, "direct"), (3, 2, 2), (2, 1, 2)),
    *cases("fftconvolve", lambda s, x, y, m: s.fftconvolve(x, y, m), (4, 3), (2, 2), dtypes="fdD"),
    *cases("fftconvolve", lambda s, x, y, m: s.fftconvolve(x, y, m, axes=1), (2, 3), (1, 2)),
    *cases("fftconvolve", lambda s, x, y, m: s.fftconvolve(x, y, m, axes=[0]), (2, 3), (4, 3)),
    Case("scipy.signal.convolve", lambda sp, x, y: sp.signal.convolve(x, y), (), ()),
    Case(
        "scipy.signal.convolve",
        lambda sp, x, y: sp.signal.convolve(x, y),
        Operand((4,), INTEGER),
        Operand((3,), INTEGER),
        smooth=False,
    ),
    Case(
        "scipy.signal.convolve",
        lambda sp, x, y: sp.signal.convolve(x, y, method="fft"),
        Operand((4,), INTEGER),
        Operand((3,), INTEGER),
        smooth=False,
    ),
    Case("scipy.signal.detrend", lambda sp, x: sp.signal.detrend(x), (2, 5), dtypes="fdD"),
    Case("scipy.signal.detrend", lambda sp, x: sp.signal.detrend(x, 0, bp=[2, 3]), (6, 2)),
    Case("scipy.signal.detrend", lambda sp, x: sp.signal.detrend(x, type="constant"), (2, 4)),
    *cases("convolve2d", lambda s, x, y, m: s.convolve2d(x, y, m, "wrap"), (3, 4), (2, 3)),
    *cases("convolve2d", lambda s, x, y, m: s.convolve2d(x, y, m, "symm"), (2, 2), (3, 4)),
    *cases("correlate2d", lambda s, x, y, m: s.correlate2d(x, y, m), (2, 3), (3, 4), dtypes="dD"),
    *cases("correlate2d", lambda s, x, y, m: s.correlate2d(x, y, m, "fill", 2.0), (4, 3), (2, 2)),
]
