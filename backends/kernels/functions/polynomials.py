"""Polynomials by fused multiplications, and sums and products with their errors.

D. E. Knuth, The Art of Computer Programming, volume 2, section 4.2.2; T. J. Dekker, A
floating-point technique for extending the available precision, Numerische Mathematik 18, 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .formats import format_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..graph import Expr, Term

__all__ = [
    *("Coefficients", "exact_product", "fma", "polynomial_of", "quick_sum", "quotient"),
    "quotient_terms",
]

# The coefficients of a polynomial in single and in double precision, the constant first.
Coefficients = tuple[tuple[float, ...], tuple[float, ...]]


def fma(x: Expr, y: Term, z: Term) -> Expr:
    """Returns ``x * y + z``, rounded once."""
    return x.graph.fma(x, y, z)


def polynomial_of(x: Expr, coefficients: Coefficients | Sequence[float]) -> Expr:
    """Returns ``c[0] + c[1] x + c[2] x**2 + ...``.

    The two last sums are those of Horner's scheme, so that hardly more than their own rounding is
    in the result. The others are taken side by side, first of neighbours, then of pairs of them:
    G. Estrin, Organization of computer systems: the fixed plus variable structure computer, 1960.
    """
    if isinstance(coefficients[0], tuple):
        coefficients = coefficients[format_of(x).places]
    terms: list[Any] = list(coefficients)
    last = terms[: min(2, len(terms) - 1)]
    terms = terms[len(last) :]
    power = x
    while len(terms) > 1:
        paired = [fma(power, high, low) for low, high in zip(terms[::2], terms[1::2])]
        terms = paired + terms[2 * len(paired) :]
        if len(terms) > 1:
            power = power * power
    total = terms[0]
    for coefficient in reversed(last):
        total = fma(x, total, coefficient)
    return total  # type: ignore[no-any-return]


def quick_sum(x: Expr | float, y: Expr) -> tuple[Expr, Expr]:
    """Returns a rounded sum and its error; x is no smaller than y, or a multiple of its unit."""
    total = x + y
    return total, y - (total - x)


def exact_product(x: Expr, y: Term) -> tuple[Expr, Expr]:
    """Returns a rounded product and its error."""
    product = x * y
    return product, fma(x, y, -product)


def quotient(x: Expr, x_low: Expr, y: Expr, y_low: Expr) -> Expr:
    """Returns ``(x + x_low) / (y + y_low)``, of which the error is hardly more than rounding."""
    first, rest, inverse = quotient_terms(x, x_low, y, y_low)
    return fma(rest, inverse, first)


def quotient_terms(x: Expr, x_low: Expr, y: Expr, y_low: Expr) -> tuple[Expr, Expr, Expr]:
    """Returns three numbers, of which the first and the product of the others give a quotient."""
    inverse = 1.0 / y
    first = x * inverse
    return first, fma(-first, y, x) + fma(-first, y_low, x_low), inverse
