"""Names of arguments in errors about traced values: a public function asked for such a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import ref

__all__ = ["Refused", "asking", "name_the_asking", "with_clause"]

# The beginning of the clause that names the argument.
CLAUSE_WORDS = "; a plain value is wanted for "
# The words in front of the value.
ASKED_WORDS = " asked for the value of "
# The depth to which lists and tuples are searched for a value.
DEEPEST_SEARCH = 3


class Refused:
    """Tells what value an error of NumPy's is about; the core puts its own answer here."""

    value: Callable[[Exception], Any] = staticmethod(lambda error: None)


def asking(error: Any, value: Any) -> Any:
    """Returns an error that holds the value of its message, by a weak reference.

    Errors outlive what they are about: this one does not keep it alive. Its class has a slot for
    it, since all that is in an error's ``__dict__`` is pickled with it.
    """
    error.asked = ref(value)
    return error


def holds(given: Any, value: Any, depth: int = DEEPEST_SEARCH) -> bool:
    """Says whether an argument is a value, or a list or tuple with it."""
    if given is value:
        return True
    if depth and isinstance(given, list | tuple):
        return any(holds(item, value, depth - 1) for item in given)
    return False


def traced_integer(given: Any, kind: type, depth: int = DEEPEST_SEARCH) -> Any:
    """Returns an argument, or an item of a list, that is traced and holds integers, or None."""
    if isinstance(given, kind):
        return given if given.dtype.kind in "iub" else None  # type: ignore[attr-defined]
    if depth and isinstance(given, list | tuple):
        found = (traced_integer(item, kind, depth - 1) for item in given)
        return next((x for x in found if x is not None), None)
    return None


def parameter_of(value: Any, given: Mapping[str, Any]) -> str | None:
    """Returns the name of the argument that is a value, or from which it was computed."""
    found = [key for key, x in given.items() if holds(x, value)]
    if not found:
        # It was computed from an argument: which one is clear where there is only one.
        kind = type(value)
        found = [key for key, x in given.items() if traced_integer(x, kind) is not None]
        if len(found) > 1:
            return None
    return found[0] if found else None


def arguments_of_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], bound: int
) -> dict[str, Any]:
    """Returns the user's arguments of a call by their names, as far as they are known."""
    import inspect  # costs milliseconds

    try:
        known = inspect.signature(function).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    parameters = list(known.signature.parameters.values())
    given = {
        p.name: known.arguments[p.name]
        for p in parameters[bound:]
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name in known.arguments
    }
    return given | next((dict(kwargs) for p in parameters if p.kind is p.VAR_KEYWORD), {})


def name_the_asking(
    error: Any,
    function: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    bound: int = 0,
) -> None:
    """Names a function's argument in the error that its value, which is traced, is not known.

    An outer function puts its own name in the place of an inner one's. An error of NumPy's keeps
    the words for ours, which takes its place where the function was transformed.
    """
    ours = hasattr(error, "asked")
    value = error.asked() if ours else Refused.value(error)
    given = {} if value is None else arguments_of_call(function, args, kwargs, bound)
    parameter = parameter_of(value, given)
    if parameter is None:
        return
    clause = f"{CLAUSE_WORDS}{parameter!r} of {name}()"
    if not ours:
        error.clause = clause
        return
    text = str(error)
    if not holds(given[parameter], value):
        # The user gave an integer, from which the value was computed.
        integer = traced_integer(given[parameter], type(value))
        text = text.replace(
            f"{ASKED_WORDS}{value.describe()}", f"{ASKED_WORDS}{integer.describe()}", 1
        )
    error.args = (with_clause(text, clause),)


def with_clause(text: str, clause: str) -> str:
    """Returns a message with a clause behind its first line, in the place of an earlier one."""
    head, newline, rest = text.partition("\n")
    return f"{head.partition(CLAUSE_WORDS)[0]}{clause}{newline}{rest}"
