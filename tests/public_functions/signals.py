"""Cases of convolutions, numerical derivatives, phases and windows."""

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, POSITIVE, Domain

from .harness import Case, Operand

WINDOWS = ("bartlett", "blackman", "hamming", "hanning")

CASES = [
    *[
        Case(f"numpy.{name}", lambda np, a, v, name=name, mode=mode: getattr(np, name)(a, v, mode),
             (n,), (m,), dtypes="dD" if mode == "full" else "d")
        for name in ("convolve", "correlate")
        for mode, n, m in (("full", 4, 3), ("same", 3, 4), ("same", 5, 2), ("valid", 2, 4))
    ],
    Case("numpy.convolve", lambda np, a, v: np.convolve(a, v), Operand((4,), INTEGER),
         Operand((2,), INTEGER), smooth=False),
    Case("numpy.correlate", lambda np, a, v: np.correlate(a, v), (4,), (2,), dtypes="fD"),
    Case("numpy.gradient", lambda np, f: np.gradient(f), (4,), dtypes="fdD"),
    Case("numpy.gradient", lambda np, f: np.gradient(f, 0.5), (3, 2), dtypes="d"),
    Case("numpy.gradient", lambda np, f: np.gradient(f, axis=1, edge_order=2), (2, 4)),
    Case("numpy.gradient", lambda np, f, x: np.gradient(f, x, axis=0),
         (4, 2), Operand((4,), DISTINCT), dtypes="d", grad_rtol=1e-6),
    Case("numpy.gradient", lambda np, f, x, h: np.gradient(f, x, h, edge_order=2),
         (3, 3), Operand((3,), DISTINCT), Operand((), POSITIVE), dtypes="d", grad_rtol=1e-6),
    Case("numpy.unwrap", lambda np, p: np.unwrap(p), Operand((6,), Domain(-9, 9))),
    Case("numpy.unwrap", lambda np, p: np.unwrap(p, axis=0, period=3.0),
         Operand((4, 2), Domain(-9, 9))),
    Case("numpy.unwrap", lambda np, p: np.unwrap(p, period=5),
         Operand((6,), Domain(-9, 9, kind="i")), smooth=False),
    Case("numpy.unwrap", lambda np, p: np.unwrap(p, discont=4.0), Operand((6,), Domain(-9, 9))),
    Case("numpy.i0", lambda np, x: np.i0(x), Operand((2, 3), Domain(-30, 30)), rtol=1e-13,
         dtypes="d"),
    Case("numpy.i0", lambda np, x: np.i0(x), (3,)),
    Case("numpy.kaiser", lambda np, b: np.kaiser(5, b), Operand((), POSITIVE), dtypes="d"),
    *[
        Case(f"numpy.{name}", lambda np, name=name, m=m: getattr(np, name)(m), dtypes="d",
             smooth=False)
        for name in WINDOWS
        for m in (0, 1, 6)
    ],
]
