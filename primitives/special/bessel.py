"""Bessel functions of both kinds, and modified ones: derivatives are those of other orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf

import numpy as np

from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.primitive import Primitive
from ..core.shape_dtype import shape_dtype
from ..core.test_samples import REAL, Domain
from .scipy_functions import DLMF, ORDER, scipy_elementwise, scipy_unary, without_derivative

__all__ = [
    "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jv", "k0", "k0e", "k1", "k1e", "kn", "kv", "kve",
    "y0", "y1", "yn", "yv",
]  # fmt: skip

RIGHT = Domain(0.5, 4.0)
AT_ZERO = {"j": 1.0, "y": -inf, "i": 1.0, "k": inf}
SCALE_TEXTS = {"i": ", times ``exp(-abs(x))``", "k": ", times ``exp(x)``"}
RECURRENCE = {"j": "10.6.1", "y": "10.6.1", "i": "10.29.1", "k": "10.29.1"}


def _fixed_order(name: str, kind: str, domain: Domain, rule: Callable[..., Array]) -> Primitive:
    """Declares a function of order 0 or 1."""
    scale = SCALE_TEXTS[name[0]] if name.endswith("e") else ""
    return scipy_unary(
        name,
        rule,
        domains=domain,
        doc=f"Returns the {kind} of order {name[1]}{scale}.",
        example=f"special.{name}(0.0) -> {0.0 if name[:2] in ('j1', 'i1') else AT_ZERO[name[0]]}",
        source=DLMF + RECURRENCE[name[0]],
    )


def _any_order(
    name: str, kind: str, domain: Domain, rule: Callable[..., Array], scale: str = ""
) -> Primitive:
    """Declares a function of any order, by which there is no derivative."""
    order, numbers = ("n", "an integer") if name[1] == "n" else ("v", "a real number")
    return scipy_elementwise(
        name,
        without_derivative(name, f"its order {order}"),
        rule,
        domains=(ORDER, domain), dtypes="d",
        doc=f"Returns the {kind} of an order{scale}.",
        arguments={
            order: f"the order, {numbers}; there is no derivative by it.",
            "z": "an array of a shape that broadcasts against the order's, or a number.",
        },
        example=f"special.{name}(0, 0.0) -> {AT_ZERO[name[0]]}",
        source=DLMF + RECURRENCE[name[0]],
    )


def _half_difference(name: str) -> Callable[..., Array]:
    """Returns the rule of J and Y: half of the order below less that above."""
    return lambda g, x, y: g * (0.5 * (ops[name](x - 1, y) - ops[name](x + 1, y)))


def _half_sum(name: str, half: float) -> Callable[..., Array]:
    """Returns the rule of I, and of K but for a sign: the mean of the orders below and above."""
    return lambda g, x, y: g * (half * (ops[name](x - 1, y) + ops[name](x + 1, y)))


FIRST = "Bessel function of the first kind"
SECOND = "Bessel function of the second kind"
MODIFIED_FIRST = "modified Bessel function of the first kind"
MODIFIED_SECOND = "modified Bessel function of the second kind"

j0 = _fixed_order("j0", FIRST, REAL, lambda g, x: -(g * ops.j1(x)))
j1 = _fixed_order("j1", FIRST, REAL, lambda g, x: g * (0.5 * (ops.j0(x) - ops.jv(2.0, x))))
jv = _any_order("jv", FIRST, REAL, _half_difference("jv"))
y0 = _fixed_order("y0", SECOND, RIGHT, lambda g, x: -(g * ops.y1(x)))
y1 = _fixed_order("y1", SECOND, RIGHT, lambda g, x: g * (0.5 * (ops.y0(x) - ops.yv(2.0, x))))
yn = _any_order("yn", SECOND, RIGHT, _half_difference("yn"))
yv = _any_order("yv", SECOND, RIGHT, _half_difference("yv"))


def _i1_vjp(g: Array, x: Array) -> Array:
    return g * (0.5 * (ops.modified_bessel(x, order=0) + ops.modified_bessel(x, order=2)))


# Beyond this, and beyond the square of the order, derivatives of scaled functions are those of
# Hankel's expansion: as differences of the functions themselves they would lose all digits.
HANKEL = 50.0
HANKEL_TERMS = 18


def _hankel_grad(order: Array | float, x: Array, sign: float, factor: float) -> Array:
    """Returns the derivative of ``factor / sqrt(x)`` times a series in 1/x, for large x.

    DLMF 10.40.1 and 10.40.2, whose terms have alternating signs and one sign.
    """
    terms: list[Array | float] = [1.0]
    for k in range(1, HANKEL_TERMS):
        step = (4 * ops.square(order) - (2 * k - 1) ** 2) / (8 * k)
        terms.append(terms[-1] * (sign * step))
    total: Array | float = 0.0
    for k in range(HANKEL_TERMS - 1, -1, -1):
        total = total / x + (k + 0.5) * terms[k]
    # The factors follow one another: the power of large x alone would vanish too early.
    return -factor * (total / ops.sqrt(x) / x)


def _scaled_grad(
    near: Callable[[Array], Array],
    order: Array | float,
    x: Array,
    first: bool,
    sign: Array | None = None,
) -> Array:
    """Returns the derivative by Hankel's expansion where that holds, and ``near(x)`` elsewhere.

    Functions of the ``first`` kind are even or odd; ``sign`` is a factor for negative x.
    """
    if shape_dtype(x).dtype == np.float16:
        # The terms of the expansion overflow in half precision.
        x = ops.astype(x, np.float32)
    far = ops.greater(ops.abs(x), ops.maximum(HANKEL, ops.square(order)))
    safe = ops.where(far, 1.0, x)
    large = ops.where(far, ops.abs(x) if first else x, 2 * HANKEL + ops.square(order))
    if first:
        grad = _hankel_grad(order, large, -1.0, 1 / math.sqrt(2 * math.pi))
    else:
        grad = _hankel_grad(order, large, 1.0, math.sqrt(math.pi / 2))
    return ops.where(far, grad if sign is None else sign * grad, near(safe))


def _i0e_grad(x: Array) -> Array:
    return _scaled_grad(lambda x: ops.i1e(x) - ops.sign(x) * ops.i0e(x), 0.0, x, True, ops.sign(x))


def _i1e_grad(x: Array) -> Array:
    # The mean of the orders below and above, which is smooth at 0, where i1e(x) / x is not.
    return _scaled_grad(
        lambda x: 0.5 * (ops.i0e(x) + ops.ive(2.0, x)) - ops.sign(x) * ops.i1e(x), 1.0, x, True
    )


def _ive_grad(x: Array, y: Array) -> Array:
    # Functions of even orders are even, and their derivatives odd.
    sign = ops.where(ops.less(y, 0), -ops.cos(math.pi * x), 1.0)
    return _scaled_grad(
        lambda y: 0.5 * (ops.ive(x - 1, y) + ops.ive(x + 1, y)) - ops.sign(y) * ops.ive(x, y),
        x, y, True, sign,
    )  # fmt: skip


def _k0e_grad(x: Array) -> Array:
    return _scaled_grad(lambda x: ops.k0e(x) - ops.k1e(x), 0.0, x, False)


def _k1e_grad(x: Array) -> Array:
    return _scaled_grad(lambda x: ops.k1e(x) - ops.k0e(x) - ops.k1e(x) / x, 1.0, x, False)


def _kve_grad(x: Array, y: Array) -> Array:
    return _scaled_grad(
        lambda y: ops.kve(x, y) - 0.5 * (ops.kve(x - 1, y) + ops.kve(x + 1, y)), x, y, False
    )


i1 = _fixed_order("i1", MODIFIED_FIRST, REAL, _i1_vjp)
iv = _any_order("iv", MODIFIED_FIRST, REAL, _half_sum("iv", 0.5))
i0e = _fixed_order("i0e", MODIFIED_FIRST, Domain(gap=0.1), lambda g, x: g * _i0e_grad(x))
i1e = _fixed_order("i1e", MODIFIED_FIRST, Domain(gap=0.1), lambda g, x: g * _i1e_grad(x))
ive = _any_order(
    "ive", MODIFIED_FIRST, Domain(gap=0.1), lambda g, x, y: g * _ive_grad(x, y),
    ", times ``exp(-abs(z))``",
)  # fmt: skip
k0 = _fixed_order("k0", MODIFIED_SECOND, RIGHT, lambda g, x: -(g * ops.k1(x)))
k1 = _fixed_order(
    "k1", MODIFIED_SECOND, RIGHT, lambda g, x: g * (-0.5 * (ops.k0(x) + ops.kv(2.0, x)))
)
kn = _any_order("kn", MODIFIED_SECOND, RIGHT, _half_sum("kn", -0.5))
kv = _any_order("kv", MODIFIED_SECOND, RIGHT, _half_sum("kv", -0.5))
k0e = _fixed_order("k0e", MODIFIED_SECOND, RIGHT, lambda g, x: g * _k0e_grad(x))
k1e = _fixed_order("k1e", MODIFIED_SECOND, RIGHT, lambda g, x: g * _k1e_grad(x))
kve = _any_order(
    "kve", MODIFIED_SECOND, RIGHT, lambda g, x, y: g * _kve_grad(x, y), ", times ``exp(z)``"
)
