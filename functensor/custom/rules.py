"""Functions that bring their own derivative rule: ``custom_vjp``, ``custom_jvp`` and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..functions.frozen_closure import frozen
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, concrete
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.errors import function_name
from ..primitives.core.trace import Trace, at_face, under
from ..traces.forward import zeros_like
from .arguments import CallArguments, RuleBearer
from .call import CustomCall, filled_like, replaced

__all__ = ["custom_gradient", "custom_jvp", "custom_vjp", "stop_gradient", "value"]


class custom_vjp(RuleBearer):
    """Gives a function its own rule for reverse mode.

    Args:
        fun: takes and returns trees of arrays.
        nondiff_argnums, nondiff_argnames: positions and names of arguments that are not arrays,
            and need not be hashable: ``bwd`` gets them as they are, before all else.

    The rules are set with ``defvjp(fwd, bwd)``: ``fwd(*args)`` returns ``(out, residuals)``, and
    ``bwd(*nondiff, residuals, cotangent)`` a tuple with a cotangent, or None for zero, of each
    differentiable argument. Keyword-only arguments are not differentiated, and both rules get them
    by keyword. The output of ``fwd`` has to be like that of ``fun``. To compare them, ``fun`` is
    staged once for arguments of the same shapes and dtypes; if it cannot be staged, since it asks
    for values, it is not staged again.

    Raises:
        RuleResultError: a rule returned the wrong thing; the message has both trees and the path.
        TypeError: an argument that is not differentiated holds a traced value.

    >>> import functensor as ft
    >>> @ft.custom_vjp
    ... def product(x, y):
    ...     return x * y
    >>> product.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (g * res[1], g * res[0]))
    >>> ft.grad(product)(2.0, 3.0)
    Array(3., dtype=float64, device='cpu')
    """

    kept_functions = ("_fun", "_rules")
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets the rules."""
        self._rules = fwd, bwd

    def _rule_named(self, rule: str) -> Any:
        return None if self._rules is None else self._rules[rule == "bwd"]

    def _call(self, arguments: CallArguments) -> CustomCall:
        if self._rules is None:
            raise self._without_rule()
        original_fwd = self._rules[0]
        user_fwd, user_bwd = arguments.kept(self._rules)
        # The residuals without their arrays, which are the same in every run of the rule.
        template: list[Any] = []

        def fwd(values: Values) -> tuple[Values, Values]:
            given = arguments.full(arguments.with_arrays(values))
            result = user_fwd(*given, **arguments.named)
            out, residuals = self._pair("fwd", result, "return out, residuals")
            self._compare("fwd", original_fwd, arguments, values, out)
            leaves, treedef = tree.flatten(residuals)
            places = [i for i, leaf in enumerate(leaves) if is_array_like(leaf)]
            template[:] = leaves, treedef, places
            return arguments.flatten_output(out), [leaves[i] for i in places]

        def bwd(residuals: Values, gs: Values) -> Values:
            leaves, treedef, places = template
            saved = treedef.unflatten(replaced(leaves, places, residuals))
            g = arguments.out_tree.unflatten(gs)
            result = user_bwd(*arguments.static.values(), saved, g, **arguments.named)
            return self._cotangents("bwd", arguments, result)

        call = CustomCall(function_name(self), self._evaluation(arguments), fwd, bwd)
        call.users = self._users
        # The rule need not be linear: in a loop it is applied to the cotangent of each step.
        call.each_time = True
        return call


class custom_jvp(RuleBearer):
    """Gives a function its own rule for forward mode; reverse mode transposes it.

    Args:
        fun: takes and returns trees of arrays.
        nondiff_argnums, nondiff_argnames: positions and names of arguments that are not arrays,
            and need not be hashable: the rule gets them as they are, before all else.

    The rule is set with ``defjvp(rule)``: ``rule(*nondiff, primals, tangents)`` returns
    ``(out, tangent_out)`` and is linear in the tangents; or with ``defjvps``, one for each
    argument. Keyword-only arguments are not differentiated, and the rule gets them by keyword.

    Raises:
        RuleResultError: the rule returned the wrong thing; the message has both trees and the path.
        TypeError: an argument that is not differentiated holds a traced value.

    >>> import functensor as ft
    >>> @ft.custom_jvp
    ... def cube(x):
    ...     return x**3
    >>> _ = cube.defjvp(lambda primals, tangents: (primals[0]**3, 3 * primals[0]**2 * tangents[0]))
    >>> ft.grad(cube)(2.0)
    Array(12., dtype=float64, device='cpu')
    """

    kept_functions = ("_fun", "_rule")
    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule and returns it, so that it serves as a decorator."""
        self._rule = rule
        return rule

    def _rule_named(self, rule: str) -> Any:
        return self._rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Sets a rule for each differentiable argument.

        Args:
            rules: ``rule(tangent, out, *args)``: what a tangent of that argument adds to the
                output's; None for nothing. All arguments of the function follow, in order.

        Raises:
            ValueError: there are more or fewer rules than differentiable arguments.

        >>> import functensor as ft
        >>> @ft.custom_jvp
        ... def product(x, y):
        ...     return x * y
        >>> product.defjvps(lambda t, out, x, y: t * y, lambda t, out, x, y: t * x)
        >>> ft.grad(product, 1)(2.0, 3.0)
        Array(2., dtype=float64, device='cpu')
        """
        wanted = self._arity - len(self._nondiff)
        if len(rules) != wanted:
            raise ValueError(
                f"defjvps of {function_name(self)}: {len(rules)} rules for {wanted} "
                "differentiable arguments"
            )

        def rule(*given: Any, **named: Any) -> Any:
            *static, primals, tangents = given
            fixed, rest = dict(zip(self._nondiff, static, strict=True)), iter(primals)
            args = [fixed[i] if i in fixed else next(rest) for i in range(self._arity)]
            out = self(*args, **named)
            total = None
            for partial, tangent in zip(rules, tangents, strict=True):
                if partial is not None:
                    term = partial(tangent, out, *args, **named)
                    self._aligned("jvp", out, term, "a tangent")
                    total = term if total is None else tree.map(ops.add, total, term)
            return out, tree.map(zeros_like, out) if total is None else total

        self._rule = rule

    def _call(self, arguments: CallArguments) -> CustomCall:
        original = self._rule
        if original is None:
            raise self._without_rule()
        rule = arguments.kept(original)

        def jvp(values: Values, tangents: Values) -> tuple[Values, Values]:
            primals = arguments.with_arrays(values)
            moved = arguments.with_arrays(tangents)
            result = rule(*arguments.static.values(), primals, moved, **arguments.named)
            out, tangent = self._pair("jvp", result, "return out, tangent_out")
            self._compare("jvp", original, arguments, values, out)
            self._aligned("jvp", out, tangent, "a tangent")
            return arguments.flatten_output(out), tree.leaves(tangent)

        call = CustomCall(function_name(self), self._evaluation(arguments), jvp=jvp)
        call.bearer = self._bearer
        call.users = self._users
        return call


class custom_gradient(RuleBearer):
    """Gives a function its own rule for reverse mode, made anew by every call.

    Args:
        fun: takes trees of arrays and returns a pair: the output, and a function of its cotangent
            that returns a tuple with a cotangent, or None for zero, of each argument; of a single
            argument, the cotangent alone will do. The values in its closure are kept.
        nondiff_argnums, nondiff_argnames: as for `custom_vjp`; they have no cotangent.

    Raises:
        RuleResultError: the function or its rule returned the wrong thing.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.custom_gradient
    ... def log1pexp(x):
    ...     e = np.exp(x)
    ...     return np.log(1 + e), lambda g: g * (1 - 1 / (1 + e))
    >>> ft.grad(log1pexp)(100.0)
    Array(1., dtype=float64, device='cpu')
    """

    def _call(self, arguments: CallArguments) -> CustomCall:
        arguments.kept(None)

        def parts(values: Values) -> tuple[Values, Callable[..., Any]]:
            result = arguments.called(values)
            out, pull = self._pair("gradient", result, "return out, a function of its cotangent")
            return arguments.flatten_output(out), pull

        def pulled(pull: Callable[..., Any], gs: Values) -> Values:
            result = pull(arguments.out_tree.unflatten(gs))
            if len(arguments.dynamic) == 1:
                alone = tree.structure(result) == tree.structure(arguments.dynamic[0])
                result = (result,) if alone or not isinstance(result, tuple) else result
            return self._cotangents("gradient", arguments, result)

        call = _GradientCall(function_name(self), parts, pulled)
        call.users = self._users
        return call


class _GradientCall(CustomCall):
    """A call whose pullback comes with the output; under vmap and staging it is made again."""

    functions = (*CustomCall.functions, "parts", "pulled")
    each_time = True

    def __init__(
        self,
        name: str,
        parts: Callable[[Values], tuple[Values, Callable[..., Any]]],
        pulled: Callable[[Callable[..., Any], Values], Values],
    ) -> None:
        super().__init__(
            name,
            lambda values: parts(values)[0],
            lambda values: (self.bind(values), values),
            lambda values, gs: pulled(parts(values)[1], gs),
        )
        self.parts = parts
        self.pulled = pulled

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        kept: list[Any] = []

        def evaluate(values: Values) -> Values:
            outs, pull = self.parts(values)
            kept.append(frozen(pull, {}, in_place=True))
            return outs

        with under(level):
            outs = at_face(evaluate, values)

        def pull(gs: Values) -> Values:
            return at_face(lambda gs: self.pulled(kept[0], gs), filled_like(gs, outs))

        return outs, pull


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

    def plain(leaf: Any) -> Any:
        if type(leaf) is Array or not is_array_like(leaf):
            return leaf
        return wrap(owned(concrete(leaf, "ft.value()")))

    return tree.map(plain, x)
