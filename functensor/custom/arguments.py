"""Arguments of functions with rules of their own, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..functions.alike import Unlike, code_of, likeness
from ..functions.closure import kept_as_it_is
from ..primitives.core.annotations import Values
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import (
    ConcretizationError,
    MissingRuleError,
    RuleResultError,
    TracerConversionError,
    describe,
    function_line,
    function_name,
    is_function_of_ours,
    message,
)
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import base_trace, slot
from ..programs.staging import eval_shape
from ..tree import containers as tree
from .call import CustomCall, replaced

if TYPE_CHECKING:
    from typing import Self

__all__ = ["CallArguments", "RuleBearer"]


class CallArguments:
    """The arguments of one call, taken apart into arrays and the rest.

    Attributes:
        fun: the function, as it is at the call.
        static, named: the arguments that rules get as they are, by position, and keyword-only ones.
        dynamic, arrays: the other arguments, and their array leaves.
        out_tree: the output's structure, known once the function or its rule has run.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        args: Sequence[Any],
        named: dict[str, Any],
        static: Sequence[int],
    ) -> None:
        self.fun = fun
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

    def called(self, values: Sequence[Any]) -> Any:
        """Returns what the function returns for other arrays."""
        return self.fun(*self.full(self.with_arrays(values)), **self.named)

    def kept(self, rules: Any) -> Any:
        """Returns rules as they are at the call, since they may run later.

        The function and functions among the arguments stay as they are, too.
        """
        if slot.trace is None and not any(isinstance(x, Tracer) for x in self.arrays):
            return rules  # nothing runs later
        given = (*self.static.values(),), (*self.named.values(),)
        self.fun, rules, (static, named) = kept_as_it_is((self.fun, rules, given), self.arrays)
        self.static = dict(zip(self.static, static, strict=True))
        self.named = dict(zip(self.named, named, strict=True))
        return rules

    def flatten_output(self, out: Any) -> Values:
        """Returns an output's leaves and remembers its structure."""
        leaves, self.out_tree = tree.flatten(out)
        return leaves


# The number of signatures for which a rule is noted to be right.
MOST_SETTLED_SIGNATURES = 256
# The number of functions made by one statement that share notes; each has notes of its own too.
MOST_ALIKE_FUNCTIONS = 4
# The number of values of the static arguments that are compared for arrays of the same types.
MOST_COMPARED_STATICS = 16


class Settled:
    """The signatures for which a rule's output was compared, or cannot be.

    Attributes:
        statics: by the types of arrays, keys of the static arguments.
        unstaged: keys of static arguments for which the function asks for values.
    """

    def __init__(self) -> None:
        self.statics: dict[Any, set[Any]] = {}
        self.unstaged: set[Any] = set()

    def has(self, kinds: Hashable, static: Hashable) -> bool:
        """Says whether a signature is among them, or as many others of the same types are."""
        known = self.statics.get(kinds, ())
        return static in self.unstaged or static in known or len(known) >= MOST_COMPARED_STATICS

    def add(self, kinds: Hashable, static: Hashable) -> None:
        """Adds a signature."""
        if len(self.statics) >= MOST_SETTLED_SIGNATURES:
            self.statics.clear()
        self.statics.setdefault(kinds, set()).add(static)


class Known:
    """The facts that are known of functions with rules and the same code.

    Attributes:
        refusals: how often they could not be staged, since they ask for values.
        settled: the signatures that were settled, by the likeness of function and rule.
    """

    def __init__(self) -> None:
        self.refusals = 0
        self.settled: dict[Any, Settled] = {}

    def settled_for(self, fun: Callable[..., Any], rule: Callable[..., Any] | None) -> Settled:
        """Returns the signatures that are settled for a function and those like it."""
        try:
            alike = likeness((fun, rule))
        except (Unlike, RecursionError):
            return Settled()
        found = self.settled.get(alike)
        if found is None:
            found = Settled()
            self.settled = dict([*self.settled.items()][1 - MOST_ALIKE_FUNCTIONS :])
            self.settled[alike] = found
        return found


knowledge: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


def known_of_function(fun: Callable[..., Any]) -> Known:
    """Returns the facts about a function and about those that the same statement makes again."""
    try:
        return knowledge.setdefault(code_of(fun) or fun, Known())
    except TypeError:  # nothing can refer to it weakly
        return Known()


def asks_for_values(error: BaseException | None) -> bool:
    """Says whether an error came of a value that is not known while staging."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        if isinstance(error, ConcretizationError | TracerConversionError):
            return True
        met.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def difference_of(got: Any, wanted: Any) -> str:
    """Returns how a cotangent or tangent differs from what it belongs to; empty if it fits."""
    if not is_array_like(got):
        return f"it is of type {type(got).__name__}, not an array"
    if shape_of(got) != shape_of(wanted):
        return f"the shape is {shape_of(got)}, not {shape_of(wanted)}"
    found, known = shape_dtype(got).dtype, shape_dtype(wanted).dtype
    # Its imaginary part would get lost.
    return f"the dtype is {found}, not {known}" if found.kind == "c" != known.kind else ""


class RuleBearer:
    """A function with rules of its own: it binds calls."""

    kept_functions: tuple[str, ...] = ("_fun",)

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
            if name not in (*positional, *named):
                what = f"nondiff_argnames: {function_name(fun)} has no argument {name!r}; it has "
                raise ValueError(what + ", ".join(positional + named))
        argnums += [positional.index(name) for name in argnames if name in positional]
        self._nondiff = tuple(sorted({i % self._arity for i in argnums}))
        self._known = known_of_function(fun)
        self._settled = Settled()
        self._settled_rule: Callable[..., Any] | None = None
        self._users = not is_function_of_ours(fun)
        # The same in copies that keep what the functions close over.
        self._bearer = object()
        update_wrapper(self, fun)

    def _is_like(self) -> Callable[[Any], bool]:
        """Returns the function, by which `likeness` compares this object with others."""
        return self._fun

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Stays itself, as functions do: parts of a model may be copied."""
        return self

    def __reduce__(self) -> str:
        """Returns its name, by which functions are pickled."""
        return str(getattr(self, "__qualname__", self))

    def __get__(self, instance: object | None, owner: type | None = None) -> Self:
        """Stays itself in a class; what has this method is a routine to ``help``."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named: dict[str, Any] = {}
        if kwargs or self._has_named or len(args) < self._arity:
            import inspect

            bound = inspect.signature(self._fun).bind(*args, **kwargs)
            bound.apply_defaults()
            args, named = bound.args, bound.kwargs
        arguments = CallArguments(self._fun, args, named, self._nondiff)
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
            return arguments.flatten_output(arguments.called(values))

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
        """Returns the user's function that is a rule."""
        return self._fun

    def _wrong(self, rule: str, detail: str, fix: str) -> RuleResultError:
        name, place = function_name(self), function_line(self._rule_named(rule))
        what = f"the {rule} rule of {name} {detail}\n    the rule is {place}"
        return RuleResultError(message(what, fix=fix, number=9))

    def _pair(self, rule: str, result: Any, fix: str) -> tuple[Any, Any]:
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._wrong(rule, f"returned {outline_of_tree(result)}, not a pair", fix)
        return result

    def _aligned(self, rule: str, like: Any, got: Any, what: str) -> None:
        """Checks that a tree has the structure and shapes of another, None for zero aside."""
        wanted, treedef = tree.flatten_with_path(like)
        found, got_tree = tree.flatten(got)
        fix = f"return {what} in the structure and shapes {outline_of_tree(like)}"
        if got_tree != treedef:
            detail = f"returned {what} {outline_of_tree(got)}, expected {outline_of_tree(like)}"
            try:
                tree.map(lambda a, b: a, like, got)
            except ValueError as error:
                detail += f": {error}"
            raise self._wrong(rule, detail, fix)
        for (path, leaf), value in zip(wanted, found, strict=True):
            difference = difference_of(value, leaf) if is_array_like(leaf) else ""
            if difference:
                detail = f"returned {what} {outline_of_tree(got)}, expected {outline_of_tree(like)}"
                detail += f": at {tree.keystr(path) or 'the top'} {difference}"
                raise self._wrong(rule, detail, fix)

    def _cotangents(self, rule: str, arguments: CallArguments, result: Any) -> Values:
        """Returns a cotangent or None for every array among the arguments, checked."""
        expected = arguments.dynamic
        if not isinstance(result, tuple | list) or len(result) != len(expected):
            detail = f"returned {outline_of_tree(result)}, expected a tuple of {len(expected)} "
            detail += f"cotangents for {outline_of_tree(expected)}"
            fix = "return a tuple with a cotangent, or None, of each differentiable argument"
            raise self._wrong(rule, detail, fix)
        found: Values = []
        for argument, cotangent in zip(expected, result, strict=True):
            arrays = [is_array_like(leaf) for leaf in tree.leaves(argument)]
            if cotangent is None:
                found += [None] * sum(arrays)
                continue
            self._aligned(rule, argument, cotangent, "a cotangent")
            found += [c for c, wanted in zip(tree.leaves(cotangent), arrays) if wanted]
        return found

    def _compare(
        self,
        name: str,
        rule: Callable[..., Any],
        arguments: CallArguments,
        values: Values,
        out: Any,
    ) -> None:
        """Checks that a rule's output is like that of the function, once for every signature.

        The function is staged for that. Where it asks for values, it is not staged again for the
        same static arguments: it would only be run as far as it goes, at every gradient. Where it
        fails otherwise, as by wrong arguments, it is not staged again for the same signature.
        """
        known = self._known
        if known.refusals >= MOST_ALIKE_FUNCTIONS:
            return
        kinds = tuple(shape_dtype(v).strong() for v in values)
        static = likeness_of_static(arguments)
        if self._settled_rule is not rule:
            self._settled, self._settled_rule = Settled(), rule
        if self._settled.has(kinds, static):
            return
        stores = self._settled, known.settled_for(self._fun, rule)
        if stores[1].has(kinds, static):
            return

        try:
            wanted = eval_shape(lambda *arrays: arguments.called(arrays), *kinds)
        except Exception as error:  # without a staged function there is nothing to compare
            asks = asks_for_values(error)
            known.refusals += asks
            for store in stores:
                if asks:
                    store.unstaged.add(static)
                else:
                    store.add(kinds, static)
            return
        got = tree.map(lambda x: shape_dtype(x).strong() if is_array_like(x) else x, out)
        leaves, treedef = tree.flatten_with_path(wanted)
        found, got_tree = tree.flatten(got)
        fix = f"return an output like that of {function_name(self)} itself"
        detail = f"returned the output {outline_of_tree(got)}, but the function returns "
        detail += outline_of_tree(wanted)
        if got_tree != treedef:
            raise self._wrong(name, detail, fix)
        for (path, leaf), value in zip(leaves, found, strict=True):
            if isinstance(leaf, ShapeDtype) and leaf != value:
                where = tree.keystr(path) or "the top"
                raise self._wrong(name, f"{detail}: at {where}", fix)
        for store in stores:
            store.add(kinds, static)


def likeness_of_static(arguments: CallArguments) -> Hashable:
    """Returns a key for the arguments that are no arrays, and for the structure of all."""
    if len(arguments.places) == len(arguments.leaves) and not (arguments.static or arguments.named):
        return arguments.treedef
    given = arguments.static.values(), arguments.named.values()
    places = set(arguments.places)
    rest = [leaf for i, leaf in enumerate(arguments.leaves) if i not in places]
    try:
        return arguments.treedef, *(likeness(tuple(values)) for values in (*given, rest))
    except (Unlike, RecursionError):
        return object()  # equals nothing else


def outline_of_tree(value: Any) -> str:
    """Returns a tree with every array replaced by its dtype and shape, for messages."""
    return str(tree.map(lambda leaf: _Name(describe(leaf)), value))


class _Name(str):
    """A string that prints without quotes."""

    __repr__ = str.__str__
