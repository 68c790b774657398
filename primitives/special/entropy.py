"""Products with logarithms, which are 0 where their first factor is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.arrays import special_error as kernels
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.test_samples import POSITIVE, Domain
from .scipy_functions import scipy_elementwise, scipy_unary

__all__ = ["entr", "kl_div", "rel_entr", "xlog1py", "xlogy"]

# fmt: off - a rule stands beside its name, as in a table.


def _ratio_or_zero(x: Array, y: Array) -> Array:
    """Returns ``x / y``, and 0 where both are."""
    both = ops.logical_and(ops.equal(x, 0), ops.equal(y, 0))
    return x / ops.where(both, 1, y)


# A cotangent of 0 stays 0, whatever the logarithm is: g log(y) is xlogy(g, y).
xlogy = scipy_elementwise(
    "xlogy",
    lambda g, y: ops.xlogy(g, y),
    lambda g, x, y: g * _ratio_or_zero(x, y),
    domains=POSITIVE, dtypes="fdD",
    doc="Returns ``x * log(y)``, and 0 where x is 0 and y is not NaN.",
    example="special.xlogy(0.0, 0.0) -> 0.0",
)
xlog1py = scipy_elementwise(
    "xlog1py",
    lambda g, y: ops.xlog1py(g, y),
    lambda g, x, y: g * _ratio_or_zero(x, 1 + y),
    domains=Domain(-0.7, 2.0), dtypes="fdD",
    doc="Returns ``x * log(1 + y)``, and 0 where x is 0 and y is not NaN.",
    example="special.xlog1py(0.0, -1.0) -> 0.0",
)


def _entr_vjp(g: Array, x: Array) -> Array:
    # The value left of 0 is -inf, which has no derivative.
    outside = ops.less(x, 0)
    g, x = ops.where(outside, 0, g), ops.where(outside, 1, x)
    # Close to 1 / e the sum of the two terms would cancel. Far from it e x may lose digits of x.
    near = ops.logical_and(ops.greater(x, 0.1), ops.less(x, 1))
    return -ops.where(near, ops.xlogy(g, np.e * ops.where(near, x, 1)), ops.xlogy(g, x) + g)


entr = scipy_unary(
    "entr", _entr_vjp, domains=POSITIVE,
    doc="Returns ``-x * log(x)``, 0 at 0 and -inf left of it.",
    example="special.entr([0.0, 1.0]) -> [0.0, -0.0]",
)


def _proper(rule: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    """Returns a rule that is 0 where a relative entropy is infinite."""

    def of_proper(g: Array, x: Array, y: Array) -> Array:
        positive = ops.logical_and(ops.greater(x, 0), ops.greater(y, 0))
        zero = ops.logical_and(ops.equal(x, 0), ops.greater_equal(y, 0))
        proper = ops.logical_or(positive, zero)
        return rule(ops.where(proper, g, 0), ops.where(proper, x, 1), ops.where(proper, y, 1))

    return of_proper


def _kl_div_vjp_y(g: Array, x: Array, y: Array) -> Array:
    # Close to x the difference is exact, far from it the quotient is that of x alone.
    far = ops.less(2 * x, y)
    return g * ops.where(far, 1 - _ratio_or_zero(x, y), _ratio_or_zero(y - x, y))


rel_entr = scipy_elementwise(
    "rel_entr",
    _proper(lambda g, x, y: ops.xlogy(g, _ratio_or_zero(x, y)) + g),
    _proper(lambda g, x, y: -(g * _ratio_or_zero(x, y))),
    domains=POSITIVE,
    doc="Returns ``x * log(x / y)``, 0 where x is 0, and inf where it is not defined.",
    example="special.rel_entr([1.0, 0.0], [1.0, 2.0]) -> [0.0, 0.0]",
)
kl_div = scipy_elementwise(
    "kl_div",
    _proper(lambda g, x, y: ops.xlogy(g, _ratio_or_zero(x, y))),
    _proper(_kl_div_vjp_y),
    compute=kernels.kl_div, domains=POSITIVE,
    doc="Returns ``x * log(x / y) - x + y``, y where x is 0, and inf where it is not defined.",
    example="special.kl_div([1.0, 0.0], [1.0, 2.0]) -> [0.0, 2.0]",
)
