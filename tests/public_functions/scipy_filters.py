"""Cases of filters, smoothing, resampling and analytic signals."""

import numpy
import scipy.signal
from support.run_on_device import beside

from functensor.primitives.core.test_samples import POSITIVE, Domain

from .harness import Case, Operand

SMALL = Domain(-0.3, 0.3)
POSITIVE_NUMBER = Operand((), POSITIVE)
SOS = scipy.signal.butter(3, 0.3, output="sos")
WINDOW = [1.0, 2.0, 0.5, -1.0, 3.0]
# Numerators and denominators that follow their first coefficients.
TAIL = Operand((2,), SMALL)




def led(tail):
    """Returns a polynomial that begins with 1."""
    one = tail[:1] * 0 + 1
    return numpy.concatenate([one, tail])


def case(name, call, *operands, **options):
    return Case(f"scipy.signal.{name}", lambda sp, *xs: call(sp.signal, *xs), *operands, **options)


def sections(tails):
    """Returns two second-order sections from an array of shape (2, 5)."""
    one = tails[:, :1] * 0 + 1
    return numpy.concatenate([tails[:, :3], one, tails[:, 3:]], axis=1)


SECTIONS = Operand((2, 5), SMALL)

CASES = [
    case("lfilter", lambda s, b, a, x: s.lfilter(b, led(a), x), (3,), TAIL, (2, 5), dtypes="fdD"),
    case("lfilter", lambda s, b, a, x: s.lfilter(b, led(a), x, axis=0), (1,), TAIL, (4, 2)),
    case("lfilter", lambda s, b, x: s.lfilter(b, 2.0, x), (2,), (3,), dtypes="d"),
    case(
        "lfilter",
        lambda s, b, a, x, zi: s.lfilter(b, led(a), x, 0, zi),
        (4,),
        TAIL,
        (2, 2),
        (3, 2),
    ),
    case("lfilter", lambda s, x, zi: s.lfilter([1.0], [1.0, 0.5], x, zi=zi), (2, 4), (1, 1)),
    case("lfilter_zi", lambda s, b, a: s.lfilter_zi(b, led(a)), (4,), TAIL, dtypes="d"),
    case("filtfilt", lambda s, b, x: s.filtfilt(b, [1.0, 0.5], x, 0), (2,), (8, 2)),
    *[
        case("filtfilt", lambda s, x, p=p: s.filtfilt([1.0, 0.5], 1.0, x, padtype=p), (8,), order=1)
        for p in ("even", "constant", None)
    ],
    case("sosfilt", lambda s, t, x: s.sosfilt(sections(t), x), SECTIONS, (2, 4), dtypes="d"),
    case(
        "sosfilt",
        lambda s, t, x, zi: s.sosfilt(sections(t), x, 0, zi),
        SECTIONS,
        (3, 2),
        (2, 2, 2),
        dtypes="d",
    ),
    case("sosfilt_zi", lambda s, t: s.sosfilt_zi(sections(t)), SECTIONS, dtypes="d"),
    case(
        "sosfiltfilt",
        lambda s, t, x: s.sosfiltfilt(sections(t), x, padlen=3),
        SECTIONS,
        (2, 6),
        dtypes="d",
    ),
    case("sosfiltfilt", lambda s, x: s.sosfiltfilt(beside(x, SOS), x), (14,), dtypes="d"),
    case(
        "oaconvolve",
        lambda s, x, y: s.oaconvolve(x, y),
        (6, 2),
        (2, 2),
        dtypes="fdD",
    ),
    case("oaconvolve", lambda s, x, y: s.oaconvolve(x, y, "same", axes=0), (7, 2), (3, 2)),
    case("savgol_coeffs", lambda s, d: s.savgol_coeffs(5, 2, 1, d), POSITIVE_NUMBER, dtypes="d"),
    case(
        "savgol_coeffs",
        lambda s, d: s.savgol_coeffs(4, 2, delta=d, pos=1, use="dot"),
        POSITIVE_NUMBER,
        dtypes="d",
    ),
    *[
        case("savgol_filter", lambda s, x, m=m: s.savgol_filter(x, 5, 2, mode=m), (2, 7))
        for m in ("interp", "mirror", "nearest", "wrap")
    ],
    case("savgol_filter", lambda s, x: s.savgol_filter(x, 4, 2, 1, 0.5, 0), (6, 2), dtypes="d"),
    case(
        "savgol_filter",
        lambda s, x: s.savgol_filter(x, 3, 1, axis=0, mode="constant", cval=2.0),
        (4, 2),
    ),
    case("hilbert", lambda s, x: s.hilbert(x), (2, 5)),
    case("hilbert", lambda s, x: s.hilbert(x, 6, 0), (4, 2)),
    case("hilbert2", lambda s, x: s.hilbert2(x), (4, 3)),
    case("hilbert2", lambda s, x: s.hilbert2(x, (2, 6), axes=(0, 2)), (3, 2, 4), dtypes="d"),
    *[
        case("resample", lambda s, x, n=n: s.resample(x, n), shape, dtypes="fdD")
        for n, shape in ((3, (6, 2)), (4, (6, 2)), (8, (4, 2)), (7, (4,)))
    ],
    case("resample", lambda s, x, t: s.resample(x, 5, t, 1), (2, 4), (4,), dtypes="d"),
    case("resample", lambda s, x: s.resample(x, 6, window="hamming"), (4, 2), dtypes="dD"),
    case(
        "resample",
        lambda s, x: s.resample(x, 4, window=beside(x, numpy.array(WINDOW))),
        (5,),
        dtypes="d",
    ),
    case("resample", lambda s, x: s.resample(x, 6, domain="freq"), (4, 2), dtypes="D"),
]
