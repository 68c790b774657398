"""Cases of helpers that make indices, grids and ranges, and of choosing by number."""

from functensor.primitives.core.test_samples import POSITIVE, Domain

from .harness import Case, Operand


def PLACES(length):
    """Returns the domain of indices that are not negative."""
    return Domain(0, length - 1, kind="i")


CASES = [
    Case("numpy.r_", lambda np, x, y: np.r_[x, 1.0, y, 0:3], (2,), (), dtypes="fd"),
    Case("numpy.r_", lambda np, x, y: np.r_["0,2", x, y], (3,), (2, 3)),
    Case("numpy.r_", lambda np, x, y: np.r_["1,2,0", x, y], (2,), (2, 1)),
    Case("numpy.r_", lambda np, x, y: np.r_["-1,3,1", x, y], (2,), (2,), dtypes="d"),
    Case("numpy.r_", lambda np, a, b: np.r_[a:b:4j], (), (), dtypes="d"),
    Case("numpy.c_", lambda np, x, y: np.c_[x, y], (3,), (3, 2), dtypes="fdD"),
    Case("numpy.mgrid", lambda np: np.mgrid[0:3, 1:2:3j], smooth=False, dtypes="d"),
    Case("numpy.mgrid", lambda np: np.mgrid[1:4], smooth=False, dtypes="d"),
    Case("numpy.mgrid", lambda np, a, b: np.mgrid[0:a:2j, 0:b:3j], (), (), dtypes="d"),
    Case("numpy.ogrid", lambda np: np.ogrid[0:3, 1:2:0.5], smooth=False, dtypes="d"),
    Case("numpy.s_", lambda np, x: np.asarray(x)[np.s_[1:, ::2]], (3, 4)),
    Case("numpy.index_exp", lambda np, x: np.asarray(x)[np.index_exp[..., 1]], (3, 4)),
    Case("numpy.ndindex", lambda np, x: np.stack([x[i] for i in np.ndindex(2, 2)]), (2, 2)),
    Case("numpy.ndenumerate",
         lambda np, x: np.stack([(1 + sum(i)) * v for i, v in np.ndenumerate(x)]), (2, 2)),
    Case("numpy.unravel_index", lambda np, i: np.unravel_index(i, (3, 2, 2)),
         Operand((4,), PLACES(12)), smooth=False),
    Case("numpy.unravel_index", lambda np, i: np.unravel_index(i, 5, order="F"),
         Operand((2, 2), PLACES(5)), smooth=False),
    Case("numpy.unravel_index", lambda np, i: np.unravel_index(i, (3, 4), order="F"),
         Operand((), PLACES(12)), smooth=False),
    Case("numpy.ravel_multi_index", lambda np, i, j: np.ravel_multi_index((i, j), (3, 4)),
         Operand((4,), PLACES(3)), Operand((4,), PLACES(4)), smooth=False),
    Case(
        "numpy.ravel_multi_index",
        lambda np, i: np.ravel_multi_index(i, (3, 4), mode=("clip", "wrap"), order="F"),
        Operand((2, 3), Domain(-9, 9, kind="i")),
        smooth=False,
    ),
    Case("numpy.choose", lambda np, i, x, y: np.choose(i, [x, y]), Operand((2, 3), PLACES(2)),
         (3,), (2, 1), dtypes="fdD"),
    Case("numpy.choose", lambda np, i, x: np.choose(i, x, mode="wrap"),
         Operand((3,), Domain(-5, 5, kind="i")), Operand((2, 3), POSITIVE)),
]
