"""Messages for wrong calls of public functions: by their public names, at the user's line.

Python's own errors about arguments name inner functions, and NumPy's know neither the function that
was called nor the line. `complain` puts both into an exception that leaves a public function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ..frames import module_of, place
from ..messages import MISSING, message
from ..notebook_cells import with_cells_named
from .asked_values import name_the_asking
from .right_code import right_code
from .tracebacks import tidy, wholly_ours
from .words import INDEXED, WRAPPER_CODES, nearest, shown

__all__ = ["misuse", "not_a_function", "prepare_for_user"]

Parameter = inspect.Parameter
# The kinds of parameters that take an argument by its position, and by its name.
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
# Right code for arguments that another function has, by the end of the function's name.
ELSEWHERE = {
    ("optim.SGD", "momentum"): "ft.optim.MomentumSGD(params, lr, momentum=0.9)",
    ("optim.SGD", "nesterov"): "ft.optim.MomentumSGD(params, lr, momentum=0.9, nesterov=True)",
    ("optim.sgd", "momentum"): "ft.optim.momentum(lr, 0.9)",
    ("optim.sgd", "nesterov"): "ft.optim.momentum(lr, 0.9, nesterov=True)",
    ("optim.Adam", "weight_decay"): "ft.optim.AdamW(params, lr, weight_decay=0.01)",
    ("optim.adam", "weight_decay"): "ft.optim.adamw(lr, weight_decay=0.01)",
}
# Right code for arguments that few functions have.
NOWHERE = {"device": "ft.to_device(x, device)"}
# The names of parameters that take a sequence of arrays.
SEQUENCE_PARAMETERS = ("arrays", "tup", "seq", "operands")
# The beginnings of notes that tell the place of an exception.
NOTE_BEGINNINGS = ("  in ", "  at ")


def signature_of(function: Any, bound: int) -> inspect.Signature | None:
    """Returns a function's signature without annotations and without the first parameters.

    None stands for functions of which Python knows none.
    """
    try:
        known = inspect.signature(function)
    except (TypeError, ValueError):  # some functions that are written in C
        return None
    plain = [p.replace(annotation=Parameter.empty) for p in known.parameters.values()]
    return known.replace(parameters=plain[bound:], return_annotation=Parameter.empty)


def misuse(
    name: str, form: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """Returns what is wrong with a call's arguments, by name and number; None if nothing is."""
    parameters = form.parameters.values()
    positional = [p for p in parameters if p.kind in POSITIONAL]
    keywords = [p.name for p in parameters if p.kind in NAMED]
    kinds = {p.kind for p in parameters}
    call = f"{name}{form}"
    given = [p.name for p in positional[: len(args)]]
    for keyword in kwargs:
        if keyword not in keywords and Parameter.VAR_KEYWORD not in kinds:
            what = f"{name}() has no argument {keyword!r}"
            if keyword in (p.name for p in positional):
                return message(f"{what} by name: it goes by position", fix=call)
            other = ELSEWHERE.get((".".join(name.split(".")[-2:]), keyword))
            near = nearest(keyword, keywords)
            if near and not other:
                return message(f"{what}: did you mean {near!r}?", fix=f"{near}=, as in {call}")
            return message(what, fix=other or NOWHERE.get(keyword, call))
        if keyword in given and keyword in keywords:
            what = f"{name}() was given its argument {keyword!r} twice, by position and by name"
            return message(what, fix=call)
    if len(args) > len(positional) and Parameter.VAR_POSITIONAL not in kinds:
        most, extra = len(positional), args[len(positional)]
        takes = f"{most} positional argument{'s' * (most != 1)}" if most else "none by position"
        what = f"{name}() was given {len(args)} positional arguments, but takes {takes}: "
        what += f"argument {most}, {shown(extra)}, is one too many"
        return message(what, fix=call)
    lacking = [
        p.name
        for i, p in enumerate(parameters)
        if p.default is Parameter.empty
        and p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        and p.name not in kwargs
        and (p.kind is Parameter.KEYWORD_ONLY or i >= len(args))
    ]
    if lacking:
        names = " and ".join(map(repr, lacking))
        what = f"{name}() lacks its argument{'s' * (len(lacking) > 1)} {names}"
        return message(what, fix=call)
    return None


def not_a_function(name: str, parameter: str, given: Any) -> str:
    """Returns the message for what should be a function, and is the result of calling one."""
    word = name.rpartition(".")[2]
    article = "an" if type(given).__name__[:1] in "AEIOUaeiou" else "a"
    fix = "pass the function itself, not what it returns"
    if word in TRANSFORMATIONS and parameter in TRANSFORMED:
        fix = f"pass the function itself and call what comes back: {word}(f)(x), not {word}(f(x))"
    elif word in IMMEDIATE and parameter in TRANSFORMED:
        fix = f"pass the function itself and its arguments: {word}(f, x), not {word}(f(x), x)"
    return message(
        f"{name} takes a function as {parameter!r}, but got {article} {type(given).__name__}, "
        f"{shown(given)}",
        fix=fix,
    )


# The names of the parameter of transformations that is the function.
TRANSFORMED = ("f", "fun", "fn")
# Transformations that return a function.
TRANSFORMATIONS = frozenset(
    (
        *("grad", "value_and_grad", "elementwise_grad", "jacobian", "jacrev", "jacfwd", "hessian"),
        *("vmap", "jit", "checkpoint", "remat", "make_program"),
        *("custom_vjp", "custom_jvp", "custom_gradient"),
    )
)
# Transformations that call the function at once.
IMMEDIATE = frozenset(("vjp", "linearize", "eval_shape", "linear_transpose"))


# The beginnings of annotations of functions.
FUNCTIONS = ("Callable", "_Function")
# The endings of Python's messages about calls of objects that are not functions.
NOT_CALLABLE = ("object is not callable", "is not a callable object")


def wrong_kind_message(
    error: Exception,
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str | None:
    """Returns a message for arguments of a kind that such a parameter never has, or None."""
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    given = bound.arguments
    called = hasattr(error, "advised") or str(error).endswith(NOT_CALLABLE)
    for parameter in bound.signature.parameters.values() if called else ():
        if str(parameter.annotation).startswith(FUNCTIONS) and parameter.name in given:
            value = given[parameter.name]
            if not callable(value) and value is not None:
                return not_a_function(name, parameter.name, value)
    first = next(iter(given), "")
    word = name.rpartition(".")[2]
    axis, dtype = given.get("axis"), given.get("dtype")
    no_dtype = f"{name}: dtype={dtype} is no dtype: a shape is one argument, a tuple"
    if first == "key" and isinstance(dtype, int) and isinstance(given.get("shape"), int):
        return message(no_dtype, fix=f"{word}(key, shape=({given['shape']}, {dtype}))")
    if first == "shape" and isinstance(dtype, int) and not isinstance(dtype, bool):
        more = [v for k, v in given.items() if isinstance(v, int) and k not in (first, "dtype")]
        lengths = ", ".join(map(shown, (given[first], dtype, *more)))
        return message(no_dtype, fix=f"{word}(({lengths}))")
    if isinstance(axis, list) or getattr(axis, "shape", None):
        what = f"{name}: axis={shown(axis)} is an array, and an axis is an integer"
        if first in SEQUENCE_PARAMETERS:
            return message(f"{what}: arrays go in one sequence", fix=f"{word}((x, y))")
        if word in ("max", "min", "amax", "amin"):
            return message(
                f"{what}: this is the {word} of one array",
                fix=f"np.{word[-3:]}imum(x, y) compares two, element by element",
            )
        return message(what, fix=f"{word}(x, axis=0)")
    return None


def is_bare(level: TracebackType | None) -> bool:
    """Says whether an exception was raised by what gives a function its arguments.

    That is Python itself, a wrapper, or what makes a context of a function or binds a signature.
    """
    while level is not None and level.tb_next is not None:
        level = level.tb_next
    if level is None or level.tb_frame.f_code in WRAPPER_CODES:
        return True
    return module_of(level.tb_frame) in ("contextlib", "inspect")


def prepare_for_user(
    error: Exception,
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    bound: int = 0,
) -> None:
    """Makes an exception that leaves a public function ready for the user.

    Args:
        error: the exception, whose traceback begins with the function's own frames.
        function, name: the called function and its public name.
        args, kwargs: the call's arguments.
        bound: how many of the first arguments are not the user's: 1 for a method.
    """
    if bound and hasattr(args[0], "public"):
        # A method of one of many functions, which has that function's name.
        name = f"{args[0].public or args[0].name}.{name.rpartition('.')[2]}"
    level = error.__traceback__
    given = tuple([x for x in args if x is not MISSING])
    bare = type(error) is TypeError and level is not None and is_bare(level.tb_next)
    if bare or len(given) < len(args):
        args = given
        form = signature_of(function, bound)
        text = misuse(name, form, args[bound:], kwargs) if form is not None else None
        if text is not None:
            error.args = (text,)
            error.misused = name  # type: ignore[attr-defined]
    if wholly_ours(level):
        describe_call(error, function, name, args, kwargs, bound)
    tidy(error)


def describe_call(
    error: Exception, function: Callable[..., Any], name: str, args: tuple[Any, ...],
    kwargs: dict[str, Any], bound: int,
) -> None:
    """Says in an exception which public function was called, with what, and where."""
    inner = getattr(error, "misused", None)
    if inner is not None:
        # An option that was passed on: it is the outer function's, for the user.
        text = str(error)
        if inner != name and any(f"{inner}() has no argument {key!r}" in text for key in kwargs):
            text = text.replace(f"{inner}(", f"{name}(")
            if bound and not hasattr(args[0], "public"):
                opening = rf"(, as in |fix: ){re.escape(name)}\(\w+, (/, )?"
                text = re.sub(opening, rf"\1{name}(", text)
            error.args = (text,)
            error.misused = name  # type: ignore[attr-defined]
        return
    if isinstance(error, AssertionError):
        return
    if hasattr(error, "asked"):
        if isinstance(function, type):  # a conversion, which has one argument
            return
        name_the_asking(error, function, name, args, kwargs, bound)
        return
    if type(error) is TypeError and "Tracer' object" in str(error):
        # An error of NumPy's. Ours takes its place if the function was transformed.
        name_the_asking(error, function, name, args, kwargs, bound)
    notes = getattr(error, "__notes__", [])
    mine = [note for note in notes if note.startswith(NOTE_BEGINNINGS)]
    advised = getattr(error, "advised", False)
    if "\n  at " in str(error) and not advised:
        return
    if any(", at " in note for note in notes):
        # A statement of a plan, which knows its line.
        if not any("fix: " in note for note in notes):
            remedied(error, name, None, {})
        return
    if type(error) in (TypeError, ValueError, IndexError):
        better = wrong_kind_message(error, name, function, args, kwargs)
        if better is not None:
            error.args = (better,)
            error.advised = True  # type: ignore[attr-defined]
            error.__notes__ = [note for note in notes if note not in mine]
            return
    if advised:
        return
    for note in mine:
        notes.remove(note)
    called = call_of(name, args[bound:], kwargs)
    form = signature_of(function, bound)
    if type(error) is np.exceptions.AxisError and error.axis is not None:
        own = getattr(error, "own_words", error._msg)  # type: ignore[attr-defined]
        error.own_words = own  # type: ignore[attr-defined]
        error._msg = f"{called}: {own}" if own else called  # type: ignore[attr-defined]
        error.add_note(with_cells_named(f"  at {place()}"))
    else:
        error.add_note(with_cells_named(f"  in {called}\n  at {place()}"))
    given = arguments_of(form, args[bound:], kwargs)
    # The method's object and the called function may hold functions of the user's.
    remedied(error, name, form, {**given, "self": args[:bound], "function": function})


def call_of(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Returns a call as messages show it."""
    if name == INDEXED:
        keys = args[0] if isinstance(args[0], tuple) else (args[0],)
        return f"x[{', '.join(key_of(key) for key in keys)}]"
    pieces = [argument_with_line(x) for x in args] + [
        f"{k}={argument_with_line(v)}" for k, v in kwargs.items()
    ]
    return f"{name}({', '.join(pieces)})"


def key_of(key: Any) -> str:
    """Returns an index as messages show it."""
    if isinstance(key, slice):
        parts = [key.start, key.stop, *([] if key.step is None else [key.step])]
        return ":".join("" if part is None else shown(part) for part in parts)
    return "..." if key is Ellipsis else shown(key)


def argument_with_line(x: Any) -> str:
    """Returns an argument as messages show it, a function of the user's with its line."""
    code = getattr(x, "__code__", None)
    if code is None or str(x.__module__).partition(".")[0] == "functensor":
        return shown(x)
    return f"{shown(x)} ({code.co_filename}:{code.co_firstlineno})"


def arguments_of(
    form: inspect.Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns a call's arguments by their names, as far as they fit a signature."""
    try:
        return {} if form is None else form.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return {}


def remedied(
    error: Any, name: str, form: inspect.Signature | None, given: Mapping[str, Any]
) -> None:
    """Adds right code to the last note of an error that does not have any."""
    plain = len(error.args) == 1 and isinstance(error.args[0], str)
    if plain:
        # An outer function finds what NumPy said, not what an inner one made of it.
        error.said = getattr(error, "said", error.args[0])
        error.args = (error.said,)
    what, fix = right_code(error, name, form, given)
    if what and plain:
        error.args = (what,)
    if fix:
        error.__notes__[-1] += f"\n  fix: {fix}"
