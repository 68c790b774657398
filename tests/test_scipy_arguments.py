"""What is wrong with arguments of functions under SciPy's names is said by the function's name."""

import numpy as np
import pytest

import functensor as ft
from functensor.primitives.errors import ConcretizationError

fft, signal = ft.scipy.fft, ft.scipy.signal
FIVE = np.arange(5.0)
SECTION = [[1.0, 0, 0, 1.0, -0.5, 0]]

SIGNAL = {
    "a zero in front": (lambda: signal.lfilter([1.0], [0.0, 1.0], FIVE), r"lfilter.*a\[0\] is 0"),
    "a matrix": (lambda: signal.lfilter(np.ones((2, 2)), 1.0, FIVE), "polynomial b has shape"),
    "no coefficients": (lambda: signal.lfilter([1.0], [], FIVE), "polynomial a has shape"),
    "a number": (lambda: signal.lfilter([1.0], [1.0], 2.0), "x is a number"),
    "a state": (lambda: signal.lfilter([1.0, 1], [1.0], FIVE, zi=[1.0, 2]), "initial state of"),
    "no steady state": (lambda: signal.lfilter_zi([1.0], [1.0, -1]), "lfilter_zi.*sums up to 0"),
    "short": (lambda: signal.filtfilt([1.0, 1], [1.0], FIVE), "more than padlen, 6"),
    "padtype": (lambda: signal.filtfilt([1.0], [1.0], FIVE, padtype="x"), "filtfilt: padtype='x'"),
    "gust": (lambda: signal.filtfilt([1.0], [1.0], FIVE, method="gust"), "method='gust' is not"),
    "method": (lambda: signal.filtfilt([1.0], [1.0], FIVE, method="x"), "filtfilt: method='x'"),
    "sections": (lambda: signal.sosfilt([[1.0, 2.0]], FIVE), "sosfilt: sos array must be"),
    "section's lead": (lambda: signal.sosfilt([[1.0, 0, 0, 2, 0, 0]], FIVE), "all ones"),
    "states": (lambda: signal.sosfilt(SECTION, FIVE, zi=np.ones(2)), "Invalid zi shape"),
    "degree": (lambda: signal.savgol_coeffs(3, 3), "savgol_coeffs: polyorder"),
    "place": (lambda: signal.savgol_coeffs(3, 1, pos=3), "savgol_coeffs: pos"),
    "use": (lambda: signal.savgol_coeffs(3, 1, use="x"), "savgol_coeffs: `use`"),
    "window": (lambda: signal.savgol_filter(FIVE, 7, 2), "savgol_filter: If mode is 'interp'"),
    "mode": (lambda: signal.savgol_filter(FIVE, 3, 2, mode="x"), "savgol_filter: mode must"),
    "complex": (lambda: signal.hilbert(FIVE * 1j), "hilbert: x must be real"),
    "length": (lambda: signal.hilbert(FIVE, 0), "hilbert: N must be positive"),
    "axes": (lambda: signal.hilbert2(np.eye(2), axes=(0, 0)), "hilbert2: axes"),
    "lengths": (lambda: signal.hilbert2(np.eye(2), N=(1, 0)), "hilbert2: N"),
    "rank": (lambda: signal.hilbert2(FIVE), "hilbert2: x of shape"),
    "domain": (lambda: signal.resample(FIVE, 3, domain="x"), "resample: domain='x'"),
    "number": (lambda: signal.resample(FIVE, 0), "resample: num=0"),
    "weights": (lambda: signal.resample(FIVE, 3, window=np.ones(4)), "a window of shape"),
    "overlap": (lambda: signal.oaconvolve(FIVE, np.eye(2)), "oaconvolve: in1 and in2"),
}
FFT = {
    "type": (lambda: fft.dct(FIVE, 5), "dct: type=5"),
    "norm": (lambda: fft.idst(FIVE, norm="x"), "idst: norm='x'"),
    "points": (lambda: fft.dct(FIVE, n=0), r"dct: invalid number of data points \(0\)"),
    "one point": (lambda: fft.dct([1.0], 1), "dct: type 1 is not defined"),
    "lengths": (lambda: fft.dctn(np.eye(2), s=(2,), axes=(0, 1)), "dctn: when given, axes"),
    "the same axis": (lambda: fft.dstn(np.eye(2), axes=(0, 0)), "dstn: .*unique"),
    "plan": (lambda: fft.fft(FIVE, plan=1), "fft: there are no plans"),
    "axes": (lambda: fft.fftn(np.eye(2), axes=(0, 0)), "fftn: all axes must be unique"),
    "hermitian norm": (lambda: fft.hfftn(np.eye(2), norm="x"), "hfftn: norm='x'"),
    "target": (lambda: fft.next_fast_len(0), "next_fast_len: Target"),
    "target before": (lambda: fft.prev_fast_len(0), "prev_fast_len: Target"),
}
CASES = {f"signal, {what}": case for what, case in SIGNAL.items()}
CASES |= {f"fft, {what}": case for what, case in FFT.items()}


@pytest.mark.parametrize("what", CASES)
def test_wrong_argument_is_named(what):
    call, words = CASES[what]
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=words):
        call()


def test_padding_that_depends_on_unknown_sections_is_asked_for():
    staged = ft.jit(lambda sos, x: signal.sosfiltfilt(sos, x))
    with pytest.raises(ConcretizationError, match=r"padlen=9"):
        staged(np.array(SECTION), np.arange(30.0))


def test_a_long_filter_costs_no_equation_per_sample():
    program = ft.make_program(ft.grad(lambda x: signal.lfilter([1.0], [1.0, -0.9], x).sum()))
    assert len(program(np.ones(10_000)).equations) < 20
