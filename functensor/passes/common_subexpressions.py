"""Removes equations that repeat an earlier one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ..primitives.core.index_key import IndexKey
from ..primitives.core.primitive import Primitive
from ..programs.program import Equation, Program, Variable, with_substitutes
from .constants import constant_key

__all__ = ["common_subexpressions"]

# They hash by their values; True is another parameter than 1, so that types are compared too.
PLAIN_PARAMETER_TYPES = frozenset({int, bool, str, bytes, type(None)})
SELF_HASHING_TYPES = (IndexKey, np.dtype)
INTEGERS = frozenset({int})


def common_subexpressions(program: Program) -> Program:
    """Returns a program without the equations that repeat an earlier one.

    They have the same primitive, the same parameters and the same operands: variables, numbers of
    one type, one value and one sign, arrays. Random primitives take part, since they are functions
    of their keys; calls do not, nor do operations of several processes.

    Args:
        program: any program; the one itself is returned where nothing occurs twice.

    >>> import functensor as ft, functensor.numpy as np
    >>> print(common_subexpressions(ft.make_program(lambda x: x[0] * x[0])(np.ones(2))))
    <lambda>(a: float64[2]):
        b: float64[] = index(a, key=[0])
        c: float64[] = multiply(b, b)
        return c
    """
    first: dict[Any, Variable] = {}

    def earlier(equation: Equation) -> Variable | None:
        if not isinstance(equation.primitive, Primitive) or equation.exchanges():
            return None
        out = equation.outputs[0]
        same = first.setdefault(_equation_key(equation, out), out)
        return None if same is out else same

    return with_substitutes(program, earlier)


def _equation_key(equation: Equation, out: Variable) -> Hashable:
    operands: Any = equation.operands
    for x in operands:
        if type(x) is not Variable:
            operands = list(map(constant_key, operands))
            break
    name = equation.primitive.name
    if not equation.params:
        return name, out.device, *operands
    params = [(key, _hashable_parameter(value)) for key, value in equation.params.items()]
    return name, out.device, *operands, *params


def _hashable_parameter(value: Any) -> Any:
    """Returns a parameter as what hashes and is equal by value; what is unknown, by identity."""
    kind = type(value)
    if kind in PLAIN_PARAMETER_TYPES:
        return kind, value
    if isinstance(value, SELF_HASHING_TYPES):
        return value
    if kind is tuple and INTEGERS.issuperset(map(type, value)):
        return value
    if isinstance(value, tuple | list):
        return kind, *map(_hashable_parameter, value)
    if kind is float or kind is complex:
        return kind, repr(value)
    return kind, id(value)
