"""The error function and its complement, of real and of complex numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...backends.messages import MISSING
from ..core.annotations import operations as ops
from ..core.families import elementwise
from ..core.primitive import Unary
from ..elementwise.cast_and_complex import is_complex

if TYPE_CHECKING:
    from ..core.primitive import AnyPrimitive

__all__ = ["ErrorFunction", "erf", "erfc"]

# fmt: off - a rule stands beside its name, as in a table.

# erf'(x) = 2 exp(-x^2) / sqrt(pi), with the factor in the exponent.
LOG_PEAK = math.log(2.0 / math.sqrt(math.pi))


class ErrorFunction(Unary):
    """A function of real numbers; that of complex ones is made of other primitives."""

    def __call__(self, x: Any = MISSING, /, *rest: Any, **options: Any) -> Any:
        try:
            if x is MISSING or rest or options:
                return super().__call__(x, *rest, **options)
            if not hasattr(x, "dtype") and not isinstance(x, int | float | complex):
                x = ops.asarray(x)
            if not is_complex(x):
                return super().__call__(x)
            from .complex_error import OF_COMPLEX  # which only this needs

            return OF_COMPLEX[self.name](x)
        except Exception as error:
            self.complain(error, (x, *rest), options)
            raise


erf: AnyPrimitive = elementwise(
    "erf", lambda g, x: g * ops.exp(LOG_PEAK - x * x),
    kind=ErrorFunction, reference="scipy.special.erf",
    doc="Returns the error function, the integral of ``2 exp(-t**2) / sqrt(pi)`` from 0 to x.",
    example="np.erf([0.0, np.inf]) -> [0.0, 1.0]",
)
erfc: AnyPrimitive = elementwise(
    "erfc", lambda g, x: -(g * ops.exp(LOG_PEAK - x * x)),
    kind=ErrorFunction, reference="scipy.special.erfc",
    doc="Returns ``1 - erf(x)``, without losing digits where erf is close to 1.",
    example="np.erfc([0.0, np.inf]) -> [1.0, 0.0]",
)
