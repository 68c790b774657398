"""Expressions of torch.fft and torch.special, with the names of `torch_face.expressions`."""

__all__ = ["FOURIER", "SPECIAL"]

NORMS = ("backward", "ortho", "forward")
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def _fourier():
    for name in ONE_AXIS:
        operands = ("f", "m", "d", "i") if name in ("rfft", "ihfft") else ("f", "m", "d", "i", "w")
        for x in operands:
            yield f"torch.fft.{name}({x})"
        for norm in NORMS:
            yield f"torch.fft.{name}(m, dim=0, norm='{norm}')"
            yield f"torch.fft.{name}(m, 6, -1, '{norm}').abs()"
            yield f"torch.fft.{name}(d, 3, norm='{norm}').real"
            yield f"torch.fft.{name}2(c, norm='{norm}').abs()"
            yield f"torch.fft.{name}n(d, norm='{norm}')"
        yield f"torch.fft.{name}2(c, (3, 4), (0, 1))"
        yield f"torch.fft.{name}n(c, s=(4,), dim=(1,)).real"
        yield f"torch.fft.{name}n(c, s=(3, 4)).imag" if name in ("fft", "ifft") else (
            f"torch.fft.{name}n(c, s=(3, 4))"
        )
        yield f"torch.fft.{name}n(c, dim=(0, 2)).abs()"
    for name in ("fftshift", "ifftshift"):
        yield f"torch.fft.{name}(m)"
        yield f"torch.fft.{name}(c, dim=1)"
        yield f"torch.fft.{name}(c, dim=(0, 2))"
    for name in ("fftfreq", "rfftfreq"):
        yield f"torch.fft.{name}(5)"
        yield f"torch.fft.{name}(6, 0.5)"
        yield f"torch.fft.{name}(4, d=2.0, dtype=torch.float64)"
    yield "torch.fft.ifft(torch.fft.fft(m) * torch.fft.fft(f)).real"
    yield "torch.fft.irfft(torch.fft.rfft(m) * torch.fft.rfft(f), n=4)"


FOURIER = sorted(set(_fourier()))

OF_ONE = (
    "digamma", "erf", "erfc", "erfcx", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1",
    "i1e", "log1p", "log_ndtr", "ndtr", "psi", "round", "sinc", "entr",
)  # fmt: skip
WITHOUT_GRADIENT = (
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
    "modified_bessel_i0", "modified_bessel_i1",
)  # fmt: skip
POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
    "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)  # fmt: skip


def _special():
    for name in OF_ONE:
        for x in ("p", "q", "d", "f") if name == "round" else ("p", "q", "d", "f", "j"):
            yield f"torch.special.{name}({x})"
    for name in WITHOUT_GRADIENT:
        yield f"torch.special.{name}(p.detach())"
        yield f"torch.special.{name}(q.detach().double())"
        yield f"torch.special.{name}(j)"
    for name in POLYNOMIALS:
        yield f"torch.special.{name}(m.detach(), 4)"
        yield f"torch.special.{name}(d.detach(), j)"
    for name in ("ndtri", "erfinv", "logit"):
        yield f"torch.special.{name}(q)"
        yield f"torch.special.{name}(q.double())"
    yield "torch.special.logit(q, eps=0.2)"
    for name in ("xlogy", "xlog1py"):
        for operands in ("p, q", "d, q", "2, q", "p, 2.0", "j, p"):
            yield f"torch.special.{name}({operands})"
    yield "torch.special.zeta(p.detach() + 1.1, q)"
    yield from ("torch.special.zeta(2, p)", "torch.special.zeta(p.detach() + 2, 3)")
    yield "torch.special.gammainc(p.detach(), q)"
    yield "torch.special.gammaincc(p.detach(), d.exp())"
    yield from ("torch.special.multigammaln(p + 2, 3)", "torch.special.polygamma(2, p)")
    yield from ("torch.special.log_softmax(m, 1)", "torch.special.softmax(c, dim=0)")
    yield from ("torch.special.logsumexp(m, 1)", "torch.special.softmax(i, 1, dtype=torch.float32)")
    yield "torch.special.round(p, decimals=1)"


SPECIAL = sorted(set(_special()))
