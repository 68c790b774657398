"""Cases of interpolation."""

from functensor.primitives.core.test_samples import Domain, Operand

from .harness import Case

# Within the array and beyond, and nowhere whole or half.
PLACES = Domain(-2.0, 6.0, distinct=True)
INSIDE = Domain(0.1, 2.9, distinct=True)
MODES = ("constant", "grid-constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap")
# At edges that reflect, SciPy's filter begins with a truncated sum: it is right to nine digits.
TRUNCATED = {"reflect", "nearest", "grid-mirror"}


def interpolation(order, mode, shape, places, **options):
    """Returns a case of interpolation."""
    return Case(
        "scipy.ndimage.map_coordinates",
        lambda sp, x, c: sp.ndimage.map_coordinates(x, c, order=order, mode=mode, cval=0.7),
        shape,
        places,
        rtol=1e-7 if order > 1 and mode in TRUNCATED else 1e-10,
        **options,
    )


CASES = [
    *[interpolation(1, mode, (5,), Operand((1, 7), PLACES)) for mode in MODES],
    *[interpolation(3, mode, (6,), Operand((1, 5), PLACES)) for mode in MODES],
    interpolation(2, "grid-mirror", (7,), Operand((1, 4), PLACES)),
    interpolation(4, "mirror", (6,), Operand((1, 4), PLACES)),
    interpolation(5, "grid-wrap", (6,), Operand((1, 4), PLACES)),
    interpolation(2, "mirror", (4, 3), Operand((2, 3), INSIDE)),
    interpolation(3, "constant", (4, 4), Operand((2, 2, 2), INSIDE)),
    interpolation(1, "constant", (4, 4, 4), Operand((3, 2), INSIDE)),
    *[
        Case(
            "scipy.ndimage.map_coordinates",
            lambda sp, x, m=mode: sp.ndimage.map_coordinates(
                x, [[-0.3, 1.7, 3.2], [0.6, 4.4, -2.2]], order=0, mode=m
            ),
            (3, 4),
        )
        for mode in MODES
    ],
    Case(
        "scipy.ndimage.map_coordinates",
        lambda sp, x: sp.ndimage.map_coordinates(x, [[0.3, 1.7]], prefilter=False),
        (4,),
    ),
    Case(
        "scipy.ndimage.map_coordinates",
        lambda sp, x: sp.ndimage.map_coordinates(x, [[0.3, 1.7], [0.2, 4.1]], mode="mirror"),
        (4, 3),
        dtypes="D",
    ),
]
