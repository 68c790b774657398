"""Cases of Fourier, cosine and sine transforms under SciPy's signatures."""

import numpy

from .harness import Case, Operand


def case(name, call, *operands, **options):
    return Case(f"scipy.fft.{name}", lambda sp, *xs: call(sp.fft, *xs), *operands, **options)


def named(name, *arguments, **keywords):
    """Returns the call of a transform with arguments."""
    return lambda f, x: getattr(f, name)(x, *arguments, **keywords)


CASES = []
for root in ("dct", "dst"):
    for name in (root, f"i{root}"):
        for kind in (1, 2, 3, 4):
            # Odd and even lengths, which are taken apart differently.
            CASES.append(case(name, named(name, kind), (2, 4)))
            CASES.append(case(name, named(name, kind, axis=0, norm="ortho"), (5, 2)))
        CASES.append(case(name, named(name, 2, 3, norm="forward"), (5,), dtypes="dD"))
        CASES.append(case(name, named(name, 3, 6, orthogonalize=True), (4,), dtypes="d"))
        CASES.append(case(f"{name}n", named(f"{name}n"), (2, 3)))
        CASES.append(
            case(f"{name}n", named(f"{name}n", 3, [2, 3], [2, 0], "ortho"), (2, 1, 4), dtypes="d")
        )
for name in ("fft", "ifft"):
    CASES.append(case(name, named(name, 3, 0, "ortho"), (4, 2), dtypes="fdD"))
    CASES.append(case(f"{name}n", named(f"{name}n", (3, 2), workers=1), (2, 3, 2), dtypes="fdD"))
    CASES.append(case(f"{name}2", named(f"{name}2"), (2, 2, 3), dtypes="fdD"))
for name in ("rfft", "ihfft"):
    CASES.append(case(name, named(name, 5, norm="forward"), (2, 4)))
    CASES.append(case(f"{name}n", named(f"{name}n", axes=(2, 0), norm="ortho"), (2, 2, 4)))
    CASES.append(case(f"{name}2", named(f"{name}2", (3, 4)), (2, 2, 3)))
for name in ("irfft", "hfft"):
    CASES.append(case(name, named(name, 5, norm="forward"), (2, 4), dtypes="fdD"))
    CASES.append(case(f"{name}n", named(f"{name}n", (3, 4)), (2, 3), dtypes="dD"))
    CASES.append(case(f"{name}2", named(f"{name}2", norm="forward"), (2, 3), dtypes="fdD"))
CASES += [
    case("fftshift", named("fftshift", axes=1), (2, 3)),
    case("ifftshift", named("ifftshift"), (2, 3), dtypes="dD"),
    case("fftfreq", lambda f, d: f.fftfreq(5, d), Operand(()), dtypes="d"),
    case(
        "rfftfreq",
        lambda f, d: f.rfftfreq(6, d),
        Operand(()),
        reference=lambda d: numpy.fft.rfftfreq(6, float(d)),
        dtypes="d",
    ),
]
