"""What functions with rules of their own have in common: their arguments, and what is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any
from weakref import WeakKeyDictionary

from .arguments import is_array_like
from .custom_call import CustomCall
from .primitives.array import Tracer
from .primitives.core import base_trace
from .primitives.errors import MissingRuleError, RuleResultError, describe, function_name, message
from .primitives.rules import shape_of
from .primitives.types import ShapeDtype, shape_dtype
from .staging import eval_shape
from .tree import containers as tree

__all__ = ["CallArguments", "RuleBearer", "replaced"]

Values = list[Any]


class CallArguments:
    """The arguments of one call, taken apart into arrays and the rest.

    Attributes:
        static: the arguments that rules get as they are, by position.
        named: the keyword-only ones, likewise.
        dynamic: the others.
        arrays: the array leaves of those.
        out_tree: the output's structure, known once the function or its rule has run.
    """

    def __init__(
        self, args: Sequence[Any], named: dict[str, Any], static: Sequence[int]
    ) -> None:
        self.count = len(args)
        self.named = named
        self.static = {i: args[i] for i in static}
        self.dynamic = tuple(a for i, a in enumerate(args) if i not in self.static)
        self.leaves, self.treedef = tree.flatten(self.dynamic)
        self.places = [i for i, leaf in enumerate(self.leaves) if is_array_like(leaf)]
        self.arrays = [self.leaves[i] for i in self.places]
        self.out_tree: Any = None

    def with_arrays(self, values: Sequence[Any]) -> Any:
        """Returns the differentiable arguments with other arrays in their places."""
        return self.treedef.unflatten(replaced(self.leaves, self.places, values))

    def full(self, differentiable: Sequence[Any]) -> list[Any]:
        """Returns all arguments in order, given the differentiable ones."""
        rest = iter(differentiable)
        return [self.static[i] if i in self.static else next(rest) for i in range(self.count)]

    def flatten_output(self, out: Any) -> Values:
        """Returns an output's leaves and remembers its structure."""
        leaves, self.out_tree = tree.flatten(out)
        return leaves


def replaced(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> Values:
    filled = list(leaves)
    for i, value in zip(places, values, strict=True):
        filled[i] = value
    return filled


# For how many signatures of a function it is noted that its rule is right.
MANY = 256


class Known:
    """What is known of a function with a rule, whichever objects have its code.

    Attributes:
        compared: the rules, with the shapes and dtypes of arguments, whose output is right.
        unstaged: whether it cannot be staged.
    """

    def __init__(self) -> None:
        self.compared: set[Any] = set()
        self.unstaged = False


knowledge: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


def known_of(fun: Any) -> Known:
    """Returns what is known of a function, and of those that the same statement makes again."""
    try:
        return knowledge.setdefault(getattr(fun, "__code__", fun), Known())
    except TypeError:  # nothing can refer to it weakly
        return Known()


class RuleBearer:
    """What functions with rules have in common: how a call binds."""

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        self._fun = fun
        import inspect  # costs milliseconds

        parameters = inspect.signature(fun).parameters.values()
        positional = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self._names = positional
        self._arity = len(positional)
        self._has_named = bool(named)
        argnums = [nondiff_argnums] if isinstance(nondiff_argnums, int) else [*nondiff_argnums]
        argnames = [nondiff_argnames] if isinstance(nondiff_argnames, str) else nondiff_argnames
        if not all(-self._arity <= i < self._arity for i in argnums):
            raise ValueError(
                f"nondiff_argnums={tuple(argnums)}: {function_name(fun)} has "
                f"{self._arity} positional arguments"
            )
        for name in argnames:
            if name not in positional and name not in named:
                raise ValueError(
                    f"nondiff_argnames: {function_name(fun)} has no argument {name!r}; it has "
                    + ", ".join(positional + named)
                )
        argnums += [positional.index(name) for name in argnames if name in positional]
        self._nondiff = tuple(sorted({i % self._arity for i in argnums}))
        self._known = known_of(fun)
        update_wrapper(self, fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named: dict[str, Any] = {}
        if kwargs or self._has_named or len(args) < self._arity:
            import inspect

            bound = inspect.signature(self._fun).bind(*args, **kwargs)
            bound.apply_defaults()
            args, named = bound.args, bound.kwargs
        arguments = CallArguments(args, named, self._nondiff)
        if arguments.static or named:
            self._check_static(arguments)
        outs = self._call(arguments).bind(arguments.arrays)
        return arguments.out_tree.unflatten(outs)

    def _check_static(self, arguments: CallArguments) -> None:
        """Checks that no static argument holds a value of the transformation that is running."""
        level = base_trace()
        static = {self._name(i): value for i, value in arguments.static.items()}
        for name, value in (static | arguments.named).items():
            for leaf in tree.leaves(value):
                if isinstance(leaf, Tracer) and leaf.owner is level:
                    raise TypeError(
                        f"{function_name(self)}: the argument {name!r} is not differentiated, but "
                        f"holds a traced value {leaf.describe()}; make it an ordinary positional "
                        "argument, with None for its cotangent"
                    )

    def _name(self, position: int) -> str:
        return self._names[position] if position < self._arity else f"*args[{position}]"

    def _evaluation(self, arguments: CallArguments) -> Callable[[Values], Values]:
        """Returns the function itself on flat lists."""

        def evaluate(values: Values) -> Values:
            args = arguments.full(arguments.with_arrays(values))
            return arguments.flatten_output(self._fun(*args, **arguments.named))

        return evaluate

    def _call(self, arguments: CallArguments) -> CustomCall:
        raise self._without_rule()

    def _without_rule(self) -> MissingRuleError:
        name, kind = function_name(self), type(self).__name__
        setter = "defvjp(fwd, bwd)" if kind == "custom_vjp" else "defjvp(rule)"
        return MissingRuleError(
            message(f"{kind} function {name} has no rule", fix=f"{name}.{setter}", number=8)
        )

    def _rule_named(self, rule: str) -> Any:
        """Returns the rule that messages call by a name."""
        raise self._without_rule()

    def _wrong(self, rule: str, detail: str, fix: str) -> RuleResultError:
        name = f"the {rule} rule of {function_name(self)}"
        return RuleResultError(message(f"{name} {detail}", fix=fix, number=9))

    def _pair(self, rule: str, result: Any, fix: str) -> tuple[Any, Any]:
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._wrong(rule, f"returned {outline(result)}, not a pair", fix)
        return result

    def _aligned(self, rule: str, like: Any, got: Any, what: str) -> None:
        """Checks that a tree has the structure and shapes of another, None for zero aside."""
        wanted, treedef = tree.flatten_with_path(like)
        found, got_tree = tree.flatten(got)
        fix = f"return {what} in the structure and shapes {outline(like)}"
        if got_tree != treedef:
            detail = f"returned {what} {outline(got)}, expected {outline(like)}"
            try:
                tree.map(lambda a, b: a, like, got)
            except ValueError as error:
                detail += f": {error}"
            raise self._wrong(rule, detail, fix)
        for (path, leaf), value in zip(wanted, found, strict=True):
            if is_array_like(leaf) and shape_of(value) != shape_of(leaf):
                raise self._wrong(
                    rule,
                    f"returned {what} {outline(got)}, expected {outline(like)}: at "
                    f"{tree.keystr(path) or 'the top'} the shape is {shape_of(value)}, "
                    f"not {shape_of(leaf)}",
                    fix,
                )

    def _cotangents(self, rule: str, arguments: CallArguments, result: Any) -> Values:
        """Returns a cotangent or None for every array among the arguments, checked."""
        expected = arguments.dynamic
        if not isinstance(result, tuple | list) or len(result) != len(expected):
            raise self._wrong(
                rule,
                f"returned {outline(result)}, expected a tuple of {len(expected)} cotangents "
                f"for {outline(expected)}",
                "return a tuple with a cotangent, or None, of each differentiable argument",
            )
        found: Values = []
        for argument, cotangent in zip(expected, result, strict=True):
            arrays = [is_array_like(leaf) for leaf in tree.leaves(argument)]
            if cotangent is None:
                found += [None] * sum(arrays)
                continue
            self._aligned(rule, argument, cotangent, "a cotangent")
            found += [c for c, wanted in zip(tree.leaves(cotangent), arrays) if wanted]
        return found

    def _compare(self, rule: str, arguments: CallArguments, values: Values, out: Any) -> None:
        """Checks that a rule's output is like that of the function, once for every signature.

        The function is staged for that. If that fails, it is not staged again: it would only be
        run as far as it goes, at every gradient.
        """
        known = self._known
        if known.unstaged:
            return
        kinds = [shape_dtype(v).strong() for v in values]
        way = self._rule_named(rule)
        signature = (getattr(way, "__code__", id(way)), *kinds)
        if signature in known.compared:
            return

        def abstract(*arrays: Any) -> Any:
            given = arguments.full(arguments.with_arrays(arrays))
            return self._fun(*given, **arguments.named)

        try:
            wanted = eval_shape(abstract, *kinds)
        except Exception:  # what cannot be staged is not compared
            known.unstaged = True
            return
        got = tree.map(lambda x: shape_dtype(x).strong() if is_array_like(x) else x, out)
        leaves, treedef = tree.flatten_with_path(wanted)
        found, got_tree = tree.flatten(got)
        fix = f"return an output like that of {function_name(self)} itself"
        detail = f"returned the output {outline(got)}, but the function returns {outline(wanted)}"
        if got_tree != treedef:
            raise self._wrong(rule, detail, fix)
        for (path, leaf), value in zip(leaves, found, strict=True):
            if isinstance(leaf, ShapeDtype) and leaf != value:
                where = tree.keystr(path) or "the top"
                raise self._wrong(rule, f"{detail}: at {where}", fix)
        if len(known.compared) < MANY:
            known.compared.add(signature)


def outline(value: Any) -> str:
    """Returns a tree with every array replaced by its dtype and shape, for messages."""
    return str(tree.map(lambda leaf: _Name(describe(leaf)), value))


class _Name(str):
    """A string that prints without quotes."""

    __repr__ = str.__str__
