"""Cases of distances of vectors."""

import numpy as np
from scipy.spatial.distance import pdist
from support.run_on_device import beside

from functensor.primitives.core.test_samples import DISTINCT, POSITIVE

from .harness import Case, Operand

X, Y = Operand((4, 3), DISTINCT), Operand((2, 3), DISTINCT)
P, Q = Operand((4, 3), POSITIVE), Operand((2, 3), POSITIVE)
WEIGHTS = np.array([0.5, 2.0, 1.0])
SCALES = np.diag(WEIGHTS)
SMOOTH = (
    "euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra",
    "braycurtis", "seuclidean",
)  # fmt: skip


def case(name, call, *operands, dtypes="d", **options):
    """Returns a case. SciPy's distances are of double precision."""

    def ours(sp, *xs):
        return call(sp.spatial.distance, *xs)

    return Case(f"scipy.spatial.distance.{name}", ours, *operands, dtypes=dtypes, **options)


CASES = [
    *[
        case("pdist", lambda d, x, m=m: d.pdist(x, m), P if m == "braycurtis" else X)
        for m in SMOOTH
    ],
    *[case("cdist", lambda d, x, y, m=m: d.cdist(x, y, m), P, Q) for m in SMOOTH],
    case("pdist", lambda d, x: d.pdist(x, "minkowski", p=3, w=beside(x, WEIGHTS)), X),
    # SciPy's own has the base in the function of two vectors alone.
    case(
        "pdist",
        lambda d, x: d.pdist(x, "jensenshannon", base=2),
        P,
        reference=lambda x: pdist(x, "jensenshannon") / np.sqrt(np.log(2)),
    ),
    case("pdist", lambda d, x, v: d.pdist(x, "seuclidean", V=v), X, Operand((3,), POSITIVE)),
    case("pdist", lambda d, x: d.pdist(x, "mahalanobis"), Operand((5, 2), DISTINCT)),
    case("pdist", lambda d, x: d.pdist(x, "hamming"), X, smooth=False),
    case("pdist", lambda d, x: d.pdist(x * (x > 0), "jaccard"), X, smooth=False),
    case("pdist", lambda d, x: d.pdist(x, lambda u, v: ((u - v) ** 4).sum()), X),
    case("cdist", lambda d, x, y: d.cdist(x, y, "minkowski", p=1.5), X, Y),
    case("cdist", lambda d, x, y: d.cdist(x, y, "jensenshannon"), P, Q),
    case("cdist", lambda d, x, y: d.cdist(x, y, "mahalanobis", VI=beside(x, SCALES)), X, Y),
    case("cdist", lambda d, x, y: d.cdist(x, y, "cosine", w=beside(x, WEIGHTS)), X, Y),
    case("cdist", lambda d, x, y: d.cdist(x, y, lambda u, v: (u * v).sum()), X, Y),
    case("squareform", lambda d, x: d.squareform(x), (6,), dtypes="fd"),
    case("squareform", lambda d, x: d.squareform(x), (1,)),
    case("squareform", lambda d, x: d.squareform(x, checks=False), (4, 4), dtypes="fd"),
]
