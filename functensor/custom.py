"""Functions that bring their own derivative rule: ``custom_vjp``, ``custom_jvp``.

A call with a rule for one mode works in the other too: reverse mode is the transpose of a jvp rule
and forward mode that of a vjp rule, and both are linear, so that reverse mode over the rule itself
transposes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from . import tree
from .arguments import is_array_like
from .forward import zeros_like
from .gradients import vjp
from .primitives.array import Tracer, concrete
from .primitives.buffers import to_buffer, wrap
from .primitives.core import RAW, Trace, at_face, slot, under
from .primitives.errors import MissingRuleError, RuleResultError, describe, function_name, message
from .primitives.indexing import Scatter
from .primitives.keys import Key
from .primitives.registry import registry as ops
from .primitives.rules import shape_of
from .reverse import is_inexact
from .vectorize import vmap

__all__ = ["CustomCall", "custom_jvp", "custom_vjp", "stop_gradient", "value"]

Values = list[Any]

EVERYWHERE = Key((Ellipsis,))


class CustomCall:
    """One call of a function with its own rule, on flat lists of public values.

    Args:
        name: the function's name.
        evaluate: ``evaluate(operands) -> outputs``.
        fwd, bwd: ``fwd(operands) -> (outputs, residuals)`` and ``bwd(residuals, cotangents) ->
            cotangents of the operands``, None for zeros.
        jvp: ``jvp(operands, tangents) -> (outputs, tangents)``.
        sparse: which operands are indexed: the walker adds up the cotangents of those at last.
    """

    def __init__(
        self,
        name: str,
        evaluate: Callable[[Values], Values],
        fwd: Any = None,
        bwd: Any = None,
        jvp: Any = None,
        sparse: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.evaluate = evaluate
        self.fwd = fwd
        self.bwd = bwd
        self.jvp = jvp
        self.sparse = sparse

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if trace is None:
            met = next((x for x in operands if isinstance(x, Tracer)), None)
            if met is None:
                outs = self.evaluate(list(operands))
                return [wrap(out) if is_array_like(out) else out for out in outs]
            trace = met.trace
            if not trace.standing:
                return trace.leave(met)  # type: ignore[no-any-return]
        return trace.custom(self, operands)

    def reverse(self, level: Trace, values: Values) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        fwd, bwd = self.rules()
        with under(level):
            outs, residuals = at_face_pair(fwd, values)

        def pull(gs: Values) -> Values:
            cotangents = at_face_sparse(bwd, residuals, _filled(gs, outs))
            for i in self.sparse:
                c = cotangents[i]
                if c is not None and type(c) is not Scatter:
                    cotangents[i] = Scatter(shape_of(values[i]), c.dtype, EVERYWHERE, (), c)
            return cotangents

        return outs, pull

    def rules(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Returns ``fwd`` and ``bwd``, transposed from ``jvp`` where there are none."""
        if self.fwd is not None:
            return self.fwd, self.bwd
        return lambda values: (self.evaluate(values), values), self._pull_by_jvp

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents."""
        with under(level):
            filled = _filled(tangents, values)
            return at_face_pair(self.jvp or self._push_by_vjp, values, filled)

    def _pull_by_jvp(self, values: Values, gs: Values) -> Values:
        _, pull = vjp(lambda *ts: self.jvp(values, list(ts))[1], *map(zeros_like, values))
        return list(pull(gs))

    def _push_by_vjp(self, values: Values, tangents: Values) -> tuple[Values, Values]:
        outs, residuals = self.fwd(values)
        known = [i for i, v in enumerate(values) if is_inexact(v)]

        def transposed(*gs: Any) -> Values:
            cotangents = self.bwd(residuals, list(gs))
            return [
                zeros_like(values[i]) if cotangents[i] is None else cotangents[i] for i in known
            ]

        _, pull = vjp(transposed, *map(zeros_like, outs))
        return outs, list(pull([tangents[i] for i in known]))

    def batched(self, flags: Sequence[bool], size: int) -> CustomCall:
        """Returns the same for a batch; operands without a flag are shared by all examples."""
        axes = [0 if flag else None for flag in flags]

        def over(fun: Callable[..., Any], in_axes: Any) -> Callable[..., Any]:
            return vmap(fun, in_axes=in_axes, axis_size=size)

        def bwd(residuals: Values, gs: Values) -> Values:
            cotangents = over(self.bwd, 0)(residuals, gs)
            return [
                c if flag or c is None else ops.sum(c, axis=0)
                for c, flag in zip(cotangents, flags, strict=True)
            ]

        def jvp(values: Values, tangents: Values) -> tuple[Values, Values]:
            outs, out_tangents = over(self.jvp, (axes, axes))(values, tangents)
            return outs, out_tangents

        return CustomCall(
            self.name,
            over(self.evaluate, (axes,)),
            self.fwd and over(self.fwd, (axes,)),
            self.bwd and bwd,
            self.jvp and jvp,
            self.sparse,
        )


def at_face_pair(fun: Callable[..., Any], *groups: Values) -> tuple[Values, Values]:
    """Calls a function that returns two lists, as `at_face` does with one."""
    split = 0

    def joined(*groups: Any) -> Values:
        nonlocal split
        first, second = fun(*groups)
        split = len(first)
        return [*first, *second]

    both = at_face(joined, *groups)
    return both[:split], both[split:]


def at_face_sparse(fun: Callable[..., Values], *groups: Values) -> Values:
    """Calls a function that returns cotangents, sparse ones among them, as `at_face` does."""
    sparse: dict[int, Scatter] = {}

    def values_only(*groups: Any) -> Values:
        found = list(fun(*groups))
        sparse.update((i, c) for i, c in enumerate(found) if type(c) is Scatter)
        return [c.g if type(c) is Scatter else c for c in found]

    found = at_face(values_only, *groups)
    for i, c in sparse.items():
        raw = slot.trace is RAW
        arrays = [to_buffer(a) for a in c.index_arrays] if raw else c.index_arrays
        found[i] = Scatter(c.shape, c.dtype, c.key, arrays, found[i])
    return found


def _filled(values: Values, like: Values) -> Values:
    return [zeros_like(x) if v is None else v for v, x in zip(values, like, strict=True)]


class _Arguments:
    """The arguments of one call, taken apart into arrays and the rest.

    Attributes:
        static: the arguments that rules get as they are, by position.
        dynamic: the others.
        arrays: the array leaves of those.
        out_tree: the output's structure, known once the function or its rule has run.
    """

    def __init__(self, args: Sequence[Any], static: Sequence[int]) -> None:
        self.count = len(args)
        self.static = {i: args[i] for i in static}
        self.dynamic = tuple(a for i, a in enumerate(args) if i not in self.static)
        self.leaves, self.treedef = tree.flatten(self.dynamic)
        self.places = [i for i, leaf in enumerate(self.leaves) if is_array_like(leaf)]
        self.arrays = [self.leaves[i] for i in self.places]
        self.out_tree: Any = None

    def with_arrays(self, values: Sequence[Any]) -> Any:
        """Returns the differentiable arguments with other arrays in their places."""
        return self.treedef.unflatten(_replaced(self.leaves, self.places, values))

    def full(self, differentiable: Sequence[Any]) -> list[Any]:
        """Returns all arguments in order, given the differentiable ones."""
        rest = iter(differentiable)
        return [self.static[i] if i in self.static else next(rest) for i in range(self.count)]

    def flatten_output(self, out: Any) -> Values:
        """Returns an output's leaves and remembers its structure."""
        leaves, self.out_tree = tree.flatten(out)
        return leaves


def _replaced(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> Values:
    filled = list(leaves)
    for i, value in zip(places, values, strict=True):
        filled[i] = value
    return filled


class _Custom:
    """What `custom_vjp` and `custom_jvp` have in common: how a call binds."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        self._fun = fun
        import inspect  # costs milliseconds

        kinds = [p.kind for p in inspect.signature(fun).parameters.values()]
        self._arity = sum(k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD) for k in kinds)
        if not all(-self._arity <= i < self._arity for i in nondiff_argnums):
            raise ValueError(
                f"nondiff_argnums={tuple(nondiff_argnums)}: {function_name(fun)} has "
                f"{self._arity} positional arguments"
            )
        self._nondiff = tuple(i % self._arity for i in nondiff_argnums)
        update_wrapper(self, fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) < self._arity:
            import inspect

            bound = inspect.signature(self._fun).bind(*args, **kwargs)
            if bound.kwargs:
                raise TypeError(
                    f"{function_name(self)} has keyword-only arguments, which a custom rule "
                    "cannot take: make them positional"
                )
            bound.apply_defaults()
            args = bound.args
        arguments = _Arguments(args, self._nondiff)
        outs = self._call(arguments).bind(arguments.arrays)
        return arguments.out_tree.unflatten(outs)

    def _evaluation(self, arguments: _Arguments) -> Callable[[Values], Values]:
        """Returns the function itself on flat lists."""

        def evaluate(values: Values) -> Values:
            args = arguments.full(arguments.with_arrays(values))
            return arguments.flatten_output(self._fun(*args))

        return evaluate

    def _call(self, arguments: _Arguments) -> CustomCall:
        raise self._without_rule()

    def _without_rule(self) -> MissingRuleError:
        name, kind = function_name(self), type(self).__name__
        setter = "defvjp(fwd, bwd)" if kind == "custom_vjp" else "defjvp(rule)"
        return MissingRuleError(
            message(f"{kind} function {name} has no rule", fix=f"{name}.{setter}", number=8)
        )

    def _wrong(self, rule: str, detail: str, fix: str) -> RuleResultError:
        name = f"the {rule} rule of {function_name(self)}"
        return RuleResultError(message(f"{name} {detail}", fix=fix, number=9))

    def _pair(self, rule: str, result: Any, fix: str) -> tuple[Any, Any]:
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._wrong(rule, f"returned {_outline(result)}, not a pair", fix)
        return result

    def _aligned(self, rule: str, like: Any, got: Any, what: str) -> None:
        """Checks that a tree has the structure and shapes of another, None for zero aside."""
        wanted, treedef = tree.flatten_with_path(like)
        found, got_tree = tree.flatten(got)
        fix = f"return {what} in the structure and shapes {_outline(like)}"
        if got_tree != treedef:
            detail = f"returned {what} {_outline(got)}, expected {_outline(like)}"
            try:
                tree.map(lambda a, b: a, like, got)
            except ValueError as error:
                detail += f": {error}"
            raise self._wrong(rule, detail, fix)
        for (path, leaf), value in zip(wanted, found, strict=True):
            if is_array_like(leaf) and shape_of(value) != shape_of(leaf):
                raise self._wrong(
                    rule,
                    f"returned {what} {_outline(got)}, expected {_outline(like)}: at "
                    f"{tree.keystr(path) or 'the top'} the shape is {shape_of(value)}, "
                    f"not {shape_of(leaf)}",
                    fix,
                )


def _outline(value: Any) -> str:
    """Returns a tree with every array replaced by its dtype and shape, for messages."""
    return str(tree.map(lambda leaf: _Name(describe(leaf)), value))


class _Name(str):
    """A string that prints without quotes."""

    __repr__ = str.__str__


class custom_vjp(_Custom):
    """Gives a function its own rule for reverse mode.

    Args:
        fun: takes and returns trees of arrays; it has no keyword-only arguments.
        nondiff_argnums: positions of arguments that ``bwd`` gets as they are, before all else.

    The rules are set with ``defvjp(fwd, bwd)``: ``fwd(*args)`` returns ``(out, residuals)``, and
    ``bwd(*nondiff, residuals, cotangent)`` a tuple with a cotangent, or None for zero, of each
    differentiable argument.

    Raises:
        RuleResultError: a rule returned the wrong thing; the message has both trees and the path.

    >>> import functensor as ft
    >>> @ft.custom_vjp
    ... def product(x, y):
    ...     return x * y
    >>> product.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (g * res[1], g * res[0]))
    >>> ft.grad(product)(2.0, 3.0)
    Array(3., dtype=float64, device='cpu')
    """

    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets the rules."""
        self._rules = fwd, bwd

    def _call(self, arguments: _Arguments) -> CustomCall:
        if self._rules is None:
            raise self._without_rule()
        user_fwd, user_bwd = self._rules
        # What residuals are made of beside arrays; the same in every run of the rule.
        template: list[Any] = []

        def fwd(values: Values) -> tuple[Values, Values]:
            result = user_fwd(*arguments.full(arguments.with_arrays(values)))
            out, residuals = self._pair("fwd", result, "return out, residuals")
            leaves, treedef = tree.flatten(residuals)
            places = [i for i, leaf in enumerate(leaves) if is_array_like(leaf)]
            template[:] = leaves, treedef, places
            return arguments.flatten_output(out), [leaves[i] for i in places]

        def bwd(residuals: Values, gs: Values) -> Values:
            leaves, treedef, places = template
            saved = treedef.unflatten(_replaced(leaves, places, residuals))
            static = arguments.static.values()
            result = user_bwd(*static, saved, arguments.out_tree.unflatten(gs))
            return self._cotangents(arguments, result)

        return CustomCall(function_name(self), self._evaluation(arguments), fwd, bwd)

    def _cotangents(self, arguments: _Arguments, result: Any) -> Values:
        """Returns a cotangent or None for every array among the arguments, checked."""
        expected = arguments.dynamic
        if not isinstance(result, tuple | list) or len(result) != len(expected):
            raise self._wrong(
                "bwd",
                f"returned {_outline(result)}, expected a tuple of {len(expected)} cotangents "
                f"for {_outline(expected)}",
                "return a tuple with a cotangent, or None, of each differentiable argument",
            )
        found: Values = []
        for argument, cotangent in zip(expected, result, strict=True):
            arrays = [is_array_like(leaf) for leaf in tree.leaves(argument)]
            if cotangent is None:
                found += [None] * sum(arrays)
                continue
            self._aligned("bwd", argument, cotangent, "a cotangent")
            found += [c for c, wanted in zip(tree.leaves(cotangent), arrays) if wanted]
        return found


class custom_jvp(_Custom):
    """Gives a function its own rule for forward mode; reverse mode transposes it.

    Args:
        fun: takes and returns trees of arrays; it has no keyword-only arguments.
        nondiff_argnums: positions of arguments that the rule gets as they are, before all else.

    The rule is set with ``defjvp(rule)``: ``rule(*nondiff, primals, tangents)`` returns
    ``(out, tangent_out)`` and is linear in the tangents.

    Raises:
        RuleResultError: the rule returned the wrong thing; the message has both trees and the path.

    >>> import functensor as ft
    >>> @ft.custom_jvp
    ... def cube(x):
    ...     return x**3
    >>> _ = cube.defjvp(lambda primals, tangents: (primals[0]**3, 3 * primals[0]**2 * tangents[0]))
    >>> ft.grad(cube)(2.0)
    Array(12., dtype=float64, device='cpu')
    """

    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule and returns it, so that it serves as a decorator."""
        self._rule = rule
        return rule

    def _call(self, arguments: _Arguments) -> CustomCall:
        rule = self._rule
        if rule is None:
            raise self._without_rule()

        def jvp(values: Values, tangents: Values) -> tuple[Values, Values]:
            primals = arguments.with_arrays(values)
            result = rule(*arguments.static.values(), primals, arguments.with_arrays(tangents))
            out, tangent = self._pair("jvp", result, "return out, tangent_out")
            self._aligned("jvp", out, tangent, "a tangent")
            return arguments.flatten_output(out), tree.leaves(tangent)

        return CustomCall(function_name(self), self._evaluation(arguments), jvp=jvp)


def stop_gradient(x: Any) -> Any:
    """Returns its argument as a constant: no derivative flows through it.

    Args:
        x: a tree of arrays.

    Returns:
        The same tree, whose arrays have derivatives of zero in every mode.

    >>> import functensor as ft
    >>> ft.grad(lambda x: x * ft.stop_gradient(x))(3.0)
    Array(3., dtype=float64, device='cpu')
    """
    return tree.map(lambda leaf: ops.stop_gradient(leaf) if is_array_like(leaf) else leaf, x)


def value(x: Any) -> Any:
    """Returns the plain array behind a tracer, for printing, logging and foreign code.

    Args:
        x: a tree of arrays.

    Returns:
        The same tree of arrays that belong to no transformation.

    Raises:
        ConcretizationError: under vmap or staging there is no value yet.

    >>> import functensor as ft
    >>> ft.value(ft.numpy.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return tree.map(
        lambda leaf: wrap(concrete(leaf, "ft.value()")) if is_array_like(leaf) else leaf, x
    )
