"""Derivative rules, written with the letters that they need, made callable by traces.

A rule is a function of ``g`` (the cotangent, or the tangent) and of those fixed letters that it
needs, in any order: ``ans`` the output; ``x, y, z`` the first, second and third operand; ``xs``
all of them; ``x_shape, y_shape, z_shape`` only their shapes; ``i`` which operand the derivative is
taken by. Static parameters are named after a ``*``, or ``**params`` takes them. Values that a rule
does not name are not kept alive between the forward and the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from inspect import CO_VARKEYWORDS
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from .bytecode import does_nothing
from .errors import missing_rule

__all__ = [
    "DeclaredRules", "DerivativeRule", "Keepers", "checked_rules", "compile_rule", "compile_rules",
    "keeper", "letters_of_rules", "no_derivative", "shape_of",
]  # fmt: skip

# A rule as it is declared.
DerivativeRule: TypeAlias = Callable[..., Any]
# The rules of a primitive: one for each operand, or one for all; None where there is none.
DeclaredRules: TypeAlias = Sequence[DerivativeRule | None] | DerivativeRule | None
# A rule as traces call it.
RuleCall: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

OPERAND_LETTERS = "xyz"
SHAPE_LETTERS = tuple(f"{operand}_shape" for operand in OPERAND_LETTERS)
RULE_LETTERS = ("ans", "xs", "i", *OPERAND_LETTERS, *SHAPE_LETTERS)
KNOWN_LETTERS = frozenset(RULE_LETTERS)


def shape_of(x: Any) -> tuple[int, ...]:
    """Returns the shape of an operand, of a Python scalar, or of what was kept of one."""
    if type(x) is tuple:
        return x
    try:
        shape: tuple[int, ...] = x.shape
    except AttributeError:
        return np.shape(x)
    return shape


# The globals of generated functions; messages tell by the module's name that they are ours.
GENERATED_GLOBALS = {"__name__": __name__, "shape_of": shape_of}


@cache
def _rule_call(terms: str) -> Callable[..., Callable[..., Any]]:
    source = f"lambda rule: lambda g, saved, params: rule(g{terms})"
    maker: Callable[..., Callable[..., Any]] = eval(source, GENERATED_GLOBALS)
    return maker


def _access(letter: str, index: int | None) -> str:
    if letter == "ans":
        return "saved[0]"
    if letter == "xs":
        return "saved[1:]"
    if letter == "i":
        return repr(index)
    operand, _, shape = letter.partition("_")
    position = f"saved[{OPERAND_LETTERS.index(operand) + 1}]"
    return f"shape_of({position})" if shape else position


def no_derivative(g: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> None:
    """Stands for every rule that is ``lambda g: None``: what depends on it alone is a constant."""


def _letters_of_rule(rule: Callable[..., Any]) -> tuple[str, ...]:
    found = rule.__code__.co_varnames[1 : rule.__code__.co_argcount]
    if not KNOWN_LETTERS.issuperset(found):
        letter = next(x for x in found if x not in KNOWN_LETTERS)
        known = ", ".join(RULE_LETTERS)
        raise ValueError(f"a rule names {letter!r}; the letters are g, {known}")
    return found


def checked_rules(rules: DeclaredRules) -> DeclaredRules:
    """Returns a primitive's rules as they are declared.

    Raises:
        ValueError: one names a letter that there is not.
    """
    for rule in [rules] if callable(rules) else rules or ():
        if rule is not None:
            _letters_of_rule(rule)
    return rules


def letters_of_rules(rules: Any, operands: Iterable[int]) -> frozenset[str]:
    """Returns the letters that are read by the rules of some operands, or by one rule for all."""
    wanted = [rules] if callable(rules) else [rules[i] for i in operands]
    return frozenset().union(*(_letters_of_rule(rule) for rule in wanted if not does_nothing(rule)))


def compile_rule(rule: Callable[..., Any], index: int) -> RuleCall:
    """Compiles a rule to ``call(g, saved, params)`` with ``saved = (ans, *operands)``.

    The rule is a function of ``g``, letters and, after a ``*``, static parameters. The index is
    that of the operand by which it derives, for rules that name ``i``.
    """
    if does_nothing(rule):
        return no_derivative
    code = rule.__code__
    static = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    terms = [f", {_access(letter, index)}" for letter in _letters_of_rule(rule)]
    if code.co_flags & CO_VARKEYWORDS:
        terms.append(", **params")
    else:
        terms += [f", {name}=params[{name!r}]" for name in static]
    return _rule_call("".join(terms))(rule)


class _EveryOperand:
    """Rules of a primitive with any number of operands, made from one that names ``i``."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self._rule = rule
        self._made: dict[int, RuleCall] = {}

    def __getitem__(self, index: int) -> RuleCall:
        if index not in self._made:
            self._made[index] = compile_rule(self._rule, index)
        return self._made[index]

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, count())


def compile_rules(rules: DeclaredRules) -> Any:
    """Compiles a primitive's rules: one for all operands, or one or None for each.

    The calls can be indexed by operand and iterated over; no rules give None.
    """
    if rules is None:
        return None
    if callable(rules):
        return _EveryOperand(rules)
    return tuple(None if rule is None else compile_rule(rule, i) for i, rule in enumerate(rules))


@cache
def keeper(needs: frozenset[str]) -> Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]:
    """Returns ``keep(ans, operands)``, which makes ``saved`` of only what the rules need."""
    if not needs - {"i"}:
        return lambda ans, xs: ()
    if "xs" in needs:
        if "ans" in needs:
            return lambda ans, xs: (ans, *xs)
        return lambda ans, xs: (None, *xs)
    terms = ["ans" if "ans" in needs else "None"]
    for position, letter in enumerate(OPERAND_LETTERS):
        if letter in needs:
            terms.append(f"xs[{position}]")
        elif f"{letter}_shape" in needs:
            terms.append(f"shape_of(xs[{position}])")
        elif needs.intersection((*OPERAND_LETTERS[position:], *SHAPE_LETTERS[position:])):
            terms.append("None")
    source = f"lambda ans, xs: ({', '.join(terms)},)"
    keep: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]] = eval(source, GENERATED_GLOBALS)
    return keep


class Keepers(dict[int, Any]):
    """A table of functions that save what rules need, by the set of operands as bits.

    An entry is made when it is first looked up; it is None where there is no derivative. It is
    what the primitive declares to be saved, by default what the letters of its rules say.
    """

    def __init__(
        self, primitive: Any, keep: Callable[[Any, Any], tuple[Any, ...]] | None = None
    ) -> None:
        super().__init__()
        self.primitive = primitive
        self.declared = keep

    def __missing__(self, mask: int) -> Callable[..., tuple[Any, ...]] | None:
        primitive = self.primitive
        if primitive.constant:
            keep = None
        elif self.declared is not None:
            keep = self.declared
        else:
            operands = [i for i in range(mask.bit_length()) if mask >> i & 1]
            for i in operands:
                if primitive.vjps is None or primitive.vjps[i] is None:
                    raise missing_rule(primitive.name, "vjp", i)
            if all(primitive.vjps[i] is no_derivative for i in operands):
                keep = None
            else:
                keep = keeper(letters_of_rules(primitive.vjp, operands))
        self[mask] = keep
        return keep
