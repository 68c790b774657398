"""Cases of reductions that leave out NaN."""

from functensor.primitives.core.test_samples import DISTINCT, LOGICAL

from .harness import Case, Operand


def holes(np, x):
    """Returns an array with NaN in the places of its larger elements."""
    return np.where(np.real(x) > 1.2, np.nan, x)


REDUCTIONS = ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")


def reducing(name, **options):
    """Returns a call of one of the functions on an array with holes."""
    return lambda np, x: getattr(np, name)(holes(np, x), **options)


CASES = [
    *[
        Case(f"numpy.{name}", reducing(name), Operand((6,), DISTINCT))
        for name in REDUCTIONS
    ],
    *[
        Case(f"numpy.{name}", reducing(name, axis=(0, 2), keepdims=True),
             Operand((3, 1, 3), DISTINCT), dtypes="d")
        for name in REDUCTIONS
    ],
    *[
        Case(f"numpy.{name}", reducing(name, axis=0), (3, 2), dtypes="D")
        for name in ("nansum", "nanprod", "nanmean", "nanvar")
    ],
    Case("numpy.nanvar", reducing("nanvar", axis=-1, ddof=1), Operand((2, 5), DISTINCT)),
    Case(
        "numpy.nansum",
        lambda np, x, m: np.nansum(holes(np, x), axis=1, where=m, initial=2.0),
        (2, 3),
        Operand((3,), LOGICAL),
    ),
    Case(
        "numpy.nanmax",
        lambda np, x, m: np.nanmax(holes(np, x), axis=1, where=m, initial=-3.0),
        Operand((2, 3), DISTINCT),
        Operand((3,), LOGICAL),
    ),
    *[
        Case(f"numpy.{name}", reducing(name, axis=axis), Operand((3, 4), DISTINCT), smooth=False)
        for name in ("nanargmax", "nanargmin")
        for axis in (None, 0)
    ],
    *[
        Case(f"numpy.{name}", reducing(name, axis=axis), (2, 3))
        for name in ("nancumsum", "nancumprod")
        for axis in (None, 1)
    ],
    *[
        Case(f"numpy.{name}", reducing(name), Operand((5,), DISTINCT))
        for name in ("nanmedian",)
    ],
    Case("numpy.nanmedian", reducing("nanmedian", axis=(0, 2), keepdims=True),
         Operand((3, 2, 3), DISTINCT), dtypes="d"),
    Case("numpy.nanquantile", reducing("nanquantile", q=(0.2, 0.9), axis=1),
         Operand((2, 5), DISTINCT), dtypes="d"),
    Case("numpy.nanquantile", reducing("nanquantile", q=0.3, method="hazen", axis=0),
         Operand((5, 2), DISTINCT)),
    Case("numpy.nanpercentile", reducing("nanpercentile", q=40.0), Operand((6,), DISTINCT)),
    Case(
        "numpy.nanquantile",
        lambda np, x, w: np.nanquantile(
            holes(np, x), [0.0, 0.6], axis=0, weights=np.abs(w), method="inverted_cdf"
        ),
        Operand((4, 2), DISTINCT),
        Operand((4, 2), DISTINCT),
        dtypes="d",
    ),
]
