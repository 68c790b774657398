"""The common parts of distributions, so that a table of formulas declares one.

A formula is written for the standard form of a distribution, inside of its support. The class
supplies location and scale, values outside of the support (where no derivative becomes NaN), NaN
for parameters out of range, the functions that follow from others, signatures and docstrings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from math import inf, nan
from typing import Any, TypeAlias

import numpy as np

from ...backends.errors.public_functions import entry
from ...backends.restoring import quiet
from ...numpy.creation import asarray
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.shape_dtype import INEXACT, result_type
from .parameter_domains import DOMAINS

__all__ = [
    "Continuous", "Discrete", "Family", "Law", "LawParameter", "floating", "log1mexp",
    "log_or_minus_inf",
]  # fmt: skip

Formula: TypeAlias = Callable[..., Array]
# A float is a Python number, whose dtype gives way to those of arrays.
Real: TypeAlias = Array | float
# Formulas get numbers in the dtype of the arrays.
LawParameter: TypeAlias = Array | np.floating[Any]


LOG_2 = 0.6931471805599453
POSITIVE_AXIS: dict[str, Any] = {"support": (0.0, inf), "inner": 1.0}
# The kinds of location and scale.
PLACED = "real", "positive"
METHOD_WORDS = {
    "pdf": "the density",
    "logpdf": "the logarithm of the density",
    "pmf": "the probability",
    "logpmf": "the logarithm of the probability",
    "cdf": "the probability of at most x",
    "logcdf": "the logarithm of the probability of at most x",
    "sf": "the probability of more than x",
    "logsf": "the logarithm of the probability of more than x",
    "ppf": "the quantile, below which lies the probability q",
    "isf": "the quantile above which lies the probability q",
}
# These functions depend on the parameters alone.
OF_PARAMETERS = {"entropy": "the entropy, in nats,"}
# A probability, its logarithm, and the probability of the opposite.
PROBABILITIES = ("cdf", "logcdf", "sf"), ("sf", "logsf", "cdf")
# The values of functions of probability below and above the support.
ENDS = {"cdf": (0.0, 1.0), "logcdf": (-inf, 0.0), "sf": (1.0, 0.0), "logsf": (0.0, -inf)}


def floating(*operands: ArrayLike) -> list[Real]:
    """Returns operands as floats: counts get the dtype of the rest; Python's numbers stay weak."""
    arrays = [
        float(x) if type(x) is float or type(x) is int or type(x) is bool else asarray(x)
        for x in operands
    ]
    kinds = [x.dtype for x in arrays if not isinstance(x, float) and x.dtype.kind in INEXACT]
    number = result_type(*kinds) if kinds else np.dtype(np.float64)
    return [
        x if isinstance(x, float) or x.dtype.kind in INEXACT else ops.astype(x, number)
        for x in arrays
    ]


def log1mexp(d: Array) -> Array:
    """Returns ``log(1 - exp(-d))``, precise for small and large d; -inf for d = 0.

    Source: M. Mächler, "Accurately computing log(1 - exp(-abs(a)))", 2012.
    """
    zero = ops.less_equal(d, 0)
    small = ops.less(d, LOG_2)
    near = ops.log(-ops.expm1(-ops.where(ops.logical_and(small, ops.greater(d, 0)), d, 0.5)))
    value = ops.where(small, near, ops.log1p(-ops.exp(-ops.where(small, 1.0, d))))
    return ops.where(zero, -inf, value)


def log_or_minus_inf(p: Array) -> Array:
    """Returns the logarithm of a probability, without a derivative where it is zero."""
    zero = ops.equal(p, 0)
    return ops.where(zero, -inf, ops.log(ops.where(zero, 1.0, p)))


HOME = "functensor.scipy.stats"


def named(name: str) -> Law:
    """Returns the only object of a distribution by its name, to which pickles refer."""
    law: Law = getattr(import_module(HOME), name)
    return law


class Family:
    """A family of distributions, with SciPy's name."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __repr__(self) -> str:
        return f"<functensor.scipy.stats.{self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return named, (self.name,)


class Law(Family):
    """A family of distributions, with SciPy's names for its functions.

    Args:
        name: SciPy's name of it.
        title: its name in documents.
        parameters: its shape parameters and the kind of each.
        support: the least and the greatest value, numbers or functions of the parameters.
        inner: a value inside of the support, a number or a function of the parameters.
        open_support: whether the least value does not belong to it.
        vanishes: ``vanishes(x, *parameters)`` tells where else the density is zero, and its
            logarithm would have derivatives that are not finite.
        example: a call and its result, for the docstring.
        source: the source of the formulas.
        valid: ``valid(*parameters)`` tells whether parameters of these kinds fit each other.
        formulas: for each function of the standard form ``formula(x, *parameters)``.
    """

    density = ""
    placed: tuple[tuple[str, float], ...] = ()

    def __init__(
        self,
        name: str,
        title: str,
        parameters: dict[str, str] | None = None,
        *,
        support: tuple[float | Formula, float | Formula] = (-inf, inf),
        inner: float | Formula = 0.0,
        open_support: bool = False,
        vanishes: Formula | None = None,
        example: str = "",
        source: str = "",
        valid: Formula | None = None,
        **formulas: Formula,
    ) -> None:
        super().__init__(name)
        self.title = title
        self._kinds = parameters or {}
        self._support = support
        self._inner = inner
        self._open = open_support
        self._vanishes = vanishes
        self._valid = valid
        self._formulas = formulas
        self._names = (*self._kinds, *(given for given, _ in self.placed))
        made = self._derived()
        for kind in (*METHOD_WORDS, *OF_PARAMETERS):
            if kind in made:
                setattr(self, kind, self._method(kind, made[kind]))
        self.methods = tuple(kind for kind in METHOD_WORDS if kind in made)
        self.__doc__ = self._document(example, source)

    def __getattr__(self, name: str) -> Formula:
        if name in METHOD_WORDS or name in OF_PARAMETERS:
            raise AttributeError(
                f"{self.name} has no {name} here; it has {', '.join(self.methods)}"
            )
        raise AttributeError(f"{type(self).__name__} {self.name!r} has no attribute {name!r}")

    def _derived(self) -> dict[str, Formula]:
        """Returns the functions of values and parameters that are declared or follow."""
        given = dict(self._formulas)
        made = self._densities()
        for plain, log, opposite in PROBABILITIES:
            if plain in given:
                given.setdefault(log, _log_of(given[plain], given.get(opposite)))
            for kind in (plain, log):
                if kind in given:
                    made[kind] = partial(self._probability, kind, given[kind])
            if log in given and plain not in given:
                made[plain] = lambda *args, f=made[log]: ops.exp(f(*args))
        for kind in ("ppf", "isf"):
            if kind in given:
                made[kind] = partial(self._quantile, kind, given[kind])
        return made

    def _densities(self) -> dict[str, Formula]:
        """Returns the density and its logarithm, and functions of the parameters alone."""
        raise NotImplementedError

    # Each kind of law computes functions of probability, and their inverses, in its own way.
    _probability: Formula
    _quantile: Formula

    # -- one call

    def _method(self, kind: str, compute: Formula) -> Formula:
        alone = kind in OF_PARAMETERS
        names = self._names
        variable = {"ppf": "q", "isf": "q"}.get(kind, "k" if self.density == "pmf" else "x")

        def method(*args: Any, **kwargs: Any) -> Array:
            missing = len(names) + (not alone) - len(args)
            if kwargs or not 0 <= missing <= len(self.placed):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                args = bound.args
            elif missing:
                args = (*args, *(value for _, value in self.placed[-missing:]))
            # Infinite values and ends of the support are no reason to warn.
            with quiet():
                x, *given = floating(0.0, *args) if alone else floating(*args)
                return self._guarded(compute, x, given)

        either = inspect.Parameter.POSITIONAL_OR_KEYWORD
        defaults = dict(self.placed)
        signature = inspect.Signature(
            [
                inspect.Parameter(name, either, default=defaults.get(name, inspect.Parameter.empty))
                for name in (names if alone else (variable, *names))
            ]
        )
        method.__signature__ = signature  # type: ignore[attr-defined]
        method.__name__ = kind
        method.__qualname__ = f"{self.name}.{kind}"
        method.__module__ = type(self).__module__
        method.__doc__ = self._method_document(kind, variable)
        public: Formula = entry(method, f"functensor.scipy.stats.{self.name}.{kind}")
        return public

    def _guarded(self, compute: Formula, x: Real, given: Sequence[Real]) -> Array:
        """Computes with parameters in their range; the result is NaN where they are not."""
        count = len(self._kinds)
        safe: list[Real] = []
        valid: list[ArrayLike] = []
        for p, kind in zip(given, [*self._kinds.values(), *PLACED], strict=False):
            allowed = DOMAINS[kind]
            if isinstance(p, float):
                admitted = allowed.admits(p)
                safe.append(p if admitted else allowed.replacement)
                if not admitted:
                    valid.append(np.False_)
            elif kind == "real":
                safe.append(p)
            else:
                right = allowed.tests(p)
                safe.append(ops.where(right, p, allowed.replacement))
                valid.append(right)
        # Python's numbers take the dtype of the arrays, which formulas rely on.
        dtypes = [p.dtype for p in (x, *safe) if not isinstance(p, float)]
        number = result_type(*dtypes).type if dtypes else np.float64
        z, *parameters = (number(p) if isinstance(p, float) else p for p in (x, *safe[:count]))
        if self._valid is not None:
            valid.append(self._valid(*parameters))
        out = compute(z, parameters, *safe[count:])
        for fits in valid:
            out = ops.where(fits, out, nan)
        return out

    def _ends(self, parameters: Sequence[LawParameter]) -> tuple[Real, Real, Real]:
        """Returns the least, the greatest and an inner value of the support."""
        low, high, inner = (
            end(*parameters) if callable(end) else end for end in (*self._support, self._inner)
        )
        return low, high, inner

    # -- documents

    def _arguments(self) -> list[str]:
        lines = [
            f"    {name}: a parameter, {DOMAINS[kind].word}." for name, kind in self._kinds.items()
        ]
        if self.placed:
            names = ", ".join(name for name, _ in self.placed)
            what = "where it stands and how wide it is" if len(self.placed) > 1 else "its shift"
            lines.append(f"    {names}: {what}.")
        return lines

    def _document(self, example: str, source: str) -> str:
        parts = [f"The {self.title} distribution: {', '.join(self.methods)}."]
        lines = self._arguments()
        if lines:
            parts.append("\n".join(["Parameters of every function:", *lines]))
        parts.append("Derivatives flow to the argument and to every parameter.")
        if self.density == "pmf":
            parts[-1] = "Derivatives flow to every parameter."
        if source:
            parts.append(f"Source: {source}")
        if example:
            call, result = example.split(" -> ")
            parts.append(
                f">>> from functensor.scipy import stats\n>>> stats.{self.name}.{call}\n{result}"
            )
        return "\n\n".join(parts)

    def _method_document(self, kind: str, variable: str) -> str:
        what = (METHOD_WORDS | OF_PARAMETERS)[kind].replace(" x", f" {variable}")
        described = "a probability" if variable == "q" else "where, an array or a number"
        lines = [f"    {variable}: {described}.", *self._arguments()]
        lines = lines[1:] if kind in OF_PARAMETERS else lines
        return "\n".join(
            [
                f"Returns {what} of the {self.title} distribution.",
                "",
                "Args:",
                *lines,
                "",
                "Returns:",
                "    An array of the shape to which the arguments broadcast.",
                "    NaN where a parameter is out of its range.",
            ]
        )


def _infinite(end: Real) -> bool:
    return type(end) is float and end in (inf, -inf)


def _log_of(formula: Formula, complement: Formula | None) -> Formula:
    """Returns the logarithm of a probability: by that of the opposite where it is likely."""
    if complement is None:
        return lambda *args: log_or_minus_inf(formula(*args))

    def logarithm(*args: Array) -> Array:
        p = formula(*args)
        likely = ops.greater(p, 0.5)
        rest = ops.where(likely, complement(*args), 0.0)
        return ops.where(likely, ops.log1p(-rest), log_or_minus_inf(ops.where(likely, 1.0, p)))

    return logarithm


class Continuous(Law):
    """A family with a density, declared by ``logpdf`` and further formulas."""

    density = "pdf"
    placed = (("loc", 0.0), ("scale", 1.0))

    def _densities(self) -> dict[str, Formula]:
        if "pdf" in self._formulas:
            return {"logpdf": self._logpdf, "pdf": self._pdf}
        return {"logpdf": self._logpdf, "pdf": lambda *args: ops.exp(self._logpdf(*args))}

    def _logpdf(
        self, x: Array, parameters: Sequence[LawParameter], loc: Real, scale: Real
    ) -> Array:
        z = _standard(x, loc, scale)
        low, high, inner = self._ends(parameters)
        reaches = ops.less_equal if self._open or _infinite(low) else ops.less
        over = ops.greater_equal(z, high) if _infinite(high) else ops.greater(z, high)
        outside = ops.logical_or(reaches(z, low), over)
        if self._vanishes is not None:
            outside = ops.logical_or(outside, self._vanishes(z, *parameters))
        value = self._formulas["logpdf"](ops.where(outside, inner, z), *parameters)
        if not (type(scale) is float and scale == 1.0):
            value = ops.subtract(value, ops.log(scale))
        return ops.where(outside, -inf, value)

    def _pdf(self, x: Array, parameters: Sequence[LawParameter], loc: Real, scale: Real) -> Array:
        # A law declares it only if its support is infinite and the formula vanishes at both ends.
        return self._formulas["pdf"](_standard(x, loc, scale), *parameters) / scale

    def _probability(
        self,
        kind: str,
        formula: Formula,
        x: Array,
        parameters: Sequence[LawParameter],
        loc: Real,
        scale: Real,
    ) -> Array:
        """Computes a function of probability, which is constant beyond the support."""
        z = _standard(x, loc, scale)
        low, high, inner = self._ends(parameters)
        below, above = ENDS[kind]
        # A logarithm has no derivative where it becomes infinite.
        closed = below == -inf or self._open or _infinite(low)
        under = (ops.less_equal if closed else ops.less)(z, low)
        closed = above == -inf or _infinite(high)
        over = (ops.greater_equal if closed else ops.greater)(z, high)
        value = formula(ops.where(ops.logical_or(under, over), inner, z), *parameters)
        return ops.where(under, below, ops.where(over, above, value))

    def _quantile(
        self,
        kind: str,
        formula: Formula,
        q: Array,
        parameters: Sequence[LawParameter],
        loc: Real,
        scale: Real,
    ) -> Array:
        low, high, _ = self._ends(parameters)
        ends = (low, high) if kind == "ppf" else (high, low)
        places = ops.equal(q, 0), ops.equal(q, 1)
        inside = ops.logical_and(ops.greater(q, 0), ops.less(q, 1))
        z = formula(ops.where(inside, q, 0.5), *parameters)
        value = _located(z, loc, scale)
        for at, end in zip(places, ends):
            if not _infinite(end):
                end = _located(z.dtype.type(end) if type(end) is float else end, loc, scale)
            value = ops.where(at, end, value)
        return ops.where(ops.logical_or(inside, ops.logical_or(*places)), value, nan)


def _standard(x: Array, loc: Real, scale: Real) -> Array:
    """Returns the argument of the standard form."""
    if not (type(loc) is float and loc == 0.0):
        x = ops.subtract(x, loc)
    return x if type(scale) is float and scale == 1.0 else ops.divide(x, scale)


def _located(z: Real, loc: Real, scale: Real) -> Real:
    """Returns the value whose standard form `_standard` returns."""
    if type(loc) is float and type(scale) is float and (loc, scale) == (0, 1):
        return z
    return ops.add(ops.multiply(z, scale), loc)


class Discrete(Law):
    """A family on whole numbers, declared by ``logpmf``, ``pmf`` and further formulas.

    The formulas get whole numbers only, and no derivative flows to them.
    """

    density = "pmf"
    placed = (("loc", 0.0),)

    def _densities(self) -> dict[str, Formula]:
        made: dict[str, Formula] = {
            "logpmf": partial(self._mass, "logpmf", -inf),
            "pmf": partial(self._mass, "pmf", 0.0),
        }
        entropy = self._formulas.get("entropy")
        if entropy is not None:
            made["entropy"] = lambda x, parameters, loc: entropy(*parameters) + 0 * loc
        return made

    def _quantile(
        self, kind: str, formula: Formula, q: Array, parameters: Sequence[LawParameter], loc: Real
    ) -> Array:
        low, high, _ = self._ends(parameters)
        # The quantile of the probability 0 is the number before the first one.
        first, last = (low - 1, high) if kind == "ppf" else (high, low - 1)
        inside = ops.logical_and(ops.greater(q, 0), ops.less(q, 1))
        value = formula(ops.where(inside, q, 0.5), *parameters)
        value = ops.where(ops.equal(q, 0), first, ops.where(ops.equal(q, 1), last, value))
        known = ops.logical_and(ops.greater_equal(q, 0), ops.less_equal(q, 1))
        return ops.where(known, _located(value, loc, 1.0), nan)

    def _mass(
        self, kind: str, elsewhere: float, k: Array, parameters: Sequence[LawParameter], loc: Real
    ) -> Array:
        k = ops.stop_gradient(_standard(k, loc, 1.0))
        low, high, inner = self._ends(parameters)
        outside = ops.logical_or(ops.less(k, low), ops.greater(k, high))
        between = ops.logical_or(ops.not_equal(k, ops.floor(k)), ops.equal(ops.abs(k), inf))
        # NaN differs from its own floor, and stays.
        outside = ops.logical_and(ops.logical_or(outside, between), ops.equal(k, k))
        value = self._formulas[kind](ops.where(outside, inner, k), *parameters)
        return ops.where(outside, elsewhere, value)

    def _probability(
        self, kind: str, formula: Formula, k: Array, parameters: Sequence[LawParameter], loc: Real
    ) -> Array:
        k = ops.floor(ops.stop_gradient(_standard(k, loc, 1.0)))
        low, high, inner = self._ends(parameters)
        below, above = ENDS[kind]
        under, over = ops.less(k, low), ops.greater_equal(k, high)
        value = formula(ops.where(ops.logical_or(under, over), inner, k), *parameters)
        return ops.where(under, below, ops.where(over, above, value))
