"""Cases of arrays in other forms, and of numbers in parts."""

import numpy

from functensor.primitives.core.test_samples import INTEGER, LOGICAL, NONZERO, POSITIVE, Domain

from .harness import Case, Operand

BYTE = Domain(0, 255, kind="i")
ZEROS = numpy.array([0.0, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0])


def trimmed(size, fill, trim):
    """Returns what NumPy leaves of an array between zeros, filled up or cut to a size."""

    def call(x):
        out = numpy.trim_zeros(x * ZEROS, trim)[:size]
        return numpy.concatenate([out, numpy.full(size - len(out), fill)])

    return call


CASES = [
    Case("numpy.asanyarray", lambda np, x: np.asanyarray(x), (2,), dtypes="fdD"),
    Case("numpy.ascontiguousarray", lambda np, x: np.ascontiguousarray(x), ()),
    Case("numpy.asfortranarray", lambda np, x: np.asfortranarray(x), (2, 2)),
    Case("numpy.require", lambda np, x: np.require(x, "float64", ["C"]), (2,), dtypes="d"),
    Case("numpy.asarray_chkfinite", lambda np, x: np.asarray_chkfinite(x), (2,), static=True),
    Case("numpy.resize", lambda np, x: np.resize(x, (3, 3)), (2, 2), dtypes="fdD"),
    Case("numpy.resize", lambda np, x: np.resize(x, 2), (3,)),
    Case("numpy.rollaxis", lambda np, x: np.rollaxis(x, 2), (2, 3, 4)),
    Case("numpy.rollaxis", lambda np, x: np.rollaxis(x, 0, -1), (2, 3, 4)),
    Case("numpy.row_stack", lambda np, x, y: np.row_stack([x, y]), (3,), (2, 3),
         reference=lambda x, y: numpy.vstack([x, y])),
    *[
        Case("numpy.trim_zeros",
             lambda np, x, trim=trim: np.trim_zeros(x * np.asarray(ZEROS), trim),
             Operand((7,), POSITIVE), static=True, dtypes="d")
        for trim in ("fb", "f", "b")
    ],
    Case("numpy.trim_zeros", lambda np, x: np.trim_zeros(x * np.asarray(ZEROS)[:, None], axis=0),
         Operand((7, 2), POSITIVE), static=True, dtypes="d"),
    *[
        Case("numpy.trim_zeros",
             lambda np, x, trim=trim: np.trim_zeros(
                 x * np.asarray(ZEROS), trim, size=6, fill_value=2.0
             ),
             Operand((7,), POSITIVE), reference=trimmed(6, 2.0, trim), dtypes="d")
        for trim in ("fb", "f", "b")
    ],
    Case("numpy.trim_zeros",
         lambda np, x: np.trim_zeros(
             x * np.asarray(ZEROS)[:, None], size=3, axis=0, fill_value=2.0
         ),
         Operand((7, 2), POSITIVE), reference=lambda x: (x * ZEROS[:, None])[2:5], dtypes="d"),
    Case("numpy.real_if_close", lambda np, x: np.real_if_close(x), (3,)),
    Case("numpy.real_if_close", lambda np, x: np.real_if_close(x), (3,), dtypes="D", static=True),
    Case("numpy.real_if_close", lambda np, x: np.real_if_close(x + 0j), (3,), static=True,
         dtypes="d"),
    Case("numpy.gcd", lambda np, x, y: np.gcd(x, y), Operand((2, 3), INTEGER),
         Operand((3,), INTEGER), smooth=False),
    Case("numpy.lcm", lambda np, x, y: np.lcm(x, y), Operand((2, 3), INTEGER),
         Operand((3,), INTEGER), smooth=False),
    Case("numpy.bitwise_count", lambda np, x: np.bitwise_count(x), Operand((4,), INTEGER),
         smooth=False),
    Case("numpy.ldexp", lambda np, x, i: np.ldexp(x, i), (2, 3), Operand((3,), INTEGER)),
    Case("numpy.frexp", lambda np, x: np.frexp(x), Operand((2, 3), NONZERO)),
    Case("numpy.frexp", lambda np, x: np.frexp(x), Operand((4,), INTEGER), smooth=False),
    Case("numpy.modf", lambda np, x: np.modf(x)[0], Operand((4,), NONZERO)),
    Case("numpy.modf", lambda np, x: np.modf(x)[1], (4,), smooth=False),
    Case("numpy.spacing", lambda np, x: np.spacing(x), Operand((3,), NONZERO), smooth=False),
    Case("numpy.divmod", lambda np, x, y: np.divmod(x, y), Operand((2, 3), NONZERO),
         Operand((3,), Domain(0.7, 1.4)), dtypes="d"),
    Case("numpy.divmod", lambda np, x: np.divmod(x, 3), Operand((4,), INTEGER), smooth=False),
    Case("numpy.packbits", lambda np, x: np.packbits(x), Operand((11,), LOGICAL), smooth=False),
    Case("numpy.packbits", lambda np, x: np.packbits(x, axis=0, bitorder="little"),
         Operand((9, 2), LOGICAL), smooth=False),
    Case("numpy.unpackbits", lambda np, x: np.unpackbits(x.astype("uint8")), Operand((2, 2), BYTE),
         smooth=False),
    *[
        Case(
            "numpy.unpackbits",
            lambda np, x, n=n: np.unpackbits(x.astype("uint8"), 1, n, "little"),
            Operand((2, 2), BYTE),
            smooth=False,
        )
        for n in (5, 19, -3)
    ],
]
