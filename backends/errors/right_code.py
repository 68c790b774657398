"""Right code for errors of NumPy and Python, which only say what is wrong."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np

__all__ = ["right_code"]

# The largest number of characters of a signature.
LONGEST_SIGNATURE = 120
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("int", "float", "complex", "half", "single", "double"),
)
# The fixes for messages of NumPy and Python about values of arguments.
FIXES_BY_MESSAGE = {
    r"^invalid literal for int\(\)|^could not convert string to float": (
        "a number in place of the text: int(text), float(text)"
    ),
    "^negative dimensions are not allowed": "lengths from 0 up; -1 stands for a length in reshape",
    "^Integers to negative integer powers": "x.astype(float) ** n, or np.float_power(x, n)",
    r"^The truth value of an(?: empty)? array": "x.any() or x.all(); x.size > 0 for any elements",
    "^only (0-dimensional|length-1|size-1|integer scalar) arrays": (
        "x.item() of an array with one element; x.tolist() for all; np.sin(x), not math.sin(x)"
    ),
    "^can only convert an array of size 1": "x.item() of an array with one element; x.tolist()",
    "^ufunc '(bitwise_|left_shift|right_shift|invert)": (
        "x.astype(int) for bits; np.logical_and(x, y), np.logical_not(x) for truth values"
    ),
    "names an axis twice": "every axis once",
}
# Frequent messages of ours with right code behind a semicolon, which gets a line of its own.
FREQUENT = r"^expected a key, |is of type \w+, not an array$"
# The number of objects among which a function is looked for.
MOST_SEARCHED = 200
# The names of arguments whose names are not known.
ARGUMENT_LETTERS = "abcdefgh"
# Errors of our own kernels have their fix behind a semicolon.
WITH_ADVICE = np.linalg.LinAlgError


def fix_of_axis(error: np.exceptions.AxisError) -> tuple[str, str]:
    """Returns the fix for an axis that does not exist."""
    if error.axis is None or error.ndim is None:
        return "", "axis=-1 is the last axis, x.ndim says how many there are"
    if not error.ndim:
        return "", "np.atleast_1d(x) has an axis"
    return "", f"an axis from {-error.ndim} to {error.ndim - 1}; -1 is the last one"


def fix_of_index(error: IndexError, name: str) -> tuple[str, str]:
    """Returns the fix for an index that does not exist."""
    found = re.search(r"is out of bounds for axis \d+ with size (\d+)", str(error))
    if found is None:
        found = re.search(r"too many indices for array: array is (\d+)-dimensional", str(error))
        if found is not None:
            return "", f"one index for each axis, at most {found[1]}"
        if re.search(r"must be of integer|indices are integers", str(error)) is None:
            return "", ""
        return "", "x[int(i)], x[n // 2] rather than x[n / 2]; a dict goes by names"
    count = int(found[1])
    fix = f"an index from {-count} to {count - 1}" if count else "none: there are no elements"
    if name.startswith("x.at[i]"):
        fix += ', or mode="drop", which leaves such updates out'
    return "", fix


def fix_of_operand(text: str) -> tuple[str, str]:
    """Returns the fix for an operand that is neither an array nor a number."""
    found = re.search(r"expected an array or a number, got (\w+)", text)
    fixes = {
        "str": "float(text) reads a number, np.asarray([float(t) for t in texts]) several",
        "NoneType": "give an array; a function without a return statement returns None",
        "dict": "np.stack(list(d.values())) for an array, ft.tree.map(f, d) for each value",
        "set": "np.asarray(sorted(s))",
        "function": "call the function: f(x), not f",
        "builtin_function_or_method": "call the method: x.sum(), not x.sum",
        "method": "call the method: x.sum(), not x.sum",
        "generator": "np.asarray(list(g))",
    }
    if "arrays hold numbers" in text:
        return "", "np.asarray(x, float), if what x holds are numbers"
    if found is None:
        return "", ""
    return "", fixes.get(found[1], "np.asarray(x) of numbers, or of lists of them")


def fix_of_dtype(text: str) -> tuple[str, str]:
    """Returns the fix for a wrong dtype."""
    found = re.search(r"data type '(.*)' not understood|Cannot interpret '(.*)' as a data", text)
    if found is None:
        return "", ""
    from .words import nearest

    word = (found[1] or found[2]).rpartition(".")[2]
    near = word if word in DTYPES else nearest(word, DTYPES)
    if not near:
        return "", 'dtype="float32", or another one of bool, integers, floats and complex numbers'
    return f"{text}: did you mean {near!r}?", f'dtype="{near}"'


def fix_of_integer(text: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the message and the fix for an argument that should be an integer."""
    found = re.search(r"'(\w+)' object cannot be interpreted as an integer", text)
    if found is None:
        return "", ""
    from .words import shown

    for key, value in given.items():
        if key in ("self", "function"):
            continue
        several = value if isinstance(value, list | tuple) else (value,)
        for item in several:
            if type(item).__name__ == found[1]:
                whole = isinstance(item, float) and item == item // 1
                fix = f"{key}={int(item)}" if whole and item is value else f"int(...) in {key}="
                return f"{key}={shown(value)} should be an integer: {text}", fix
    return "", "int(n), or n // 2 in place of n / 2"


def fix_of_callback(error: BaseException, given: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the fix for a function of the user's that takes other arguments."""
    text = str(error)
    found = re.match(r"(\S+)\(\) (takes|missing|got an unexpected keyword) ", text)
    if found is None:
        return "", ""
    for value in (*functions_in(given.values()), *functions_beneath(error)):
        if value.__qualname__ == found[1]:
            code = value.__code__
            where = f"{code.co_filename}:{code.co_firstlineno}"
            lacks = re.search(r"missing .* arguments?: (.*)", text)
            if lacks is not None:
                place = f"{value.__name__} at {where}"
                return "", f"pass {lacks[1]} too, or write a default into {place}"
            count = re.search(r"but (\d+) (was|were) given", text)
            given_to = int(count[1]) if count else 0
            few = 0 < given_to <= len(ARGUMENT_LETTERS)
            names = ", ".join(ARGUMENT_LETTERS[:given_to]) if few else "*args, **kwargs"
            call = f"lambda {names}: ..." if value.__name__ == "<lambda>" else (
                f"def {value.__name__}({names}): ..."
            )
            return "", f"{call} at {where} takes what it is called with"
    return "", ""


def functions_beneath(error: BaseException) -> Iterator[Any]:
    """Yields the functions that the place which raised an error knows."""
    level = error.__traceback__
    while level is not None and level.tb_next is not None:
        level = level.tb_next
    return functions_in([] if level is None else level.tb_frame.f_locals.values())


def functions_in(values: Iterable[Any]) -> Iterator[Any]:
    """Yields the functions with code of Python's among values, and in what those hold."""
    pending = list(values)
    for value in pending:
        plain = inspect.unwrap(value) if callable(value) else value
        if isinstance(plain, FunctionType):
            yield plain
        elif len(pending) < MOST_SEARCHED:
            if isinstance(value, list | tuple):
                pending += value
            elif isinstance(getattr(value, "__dict__", None), dict):
                pending += vars(value).values()
            slots = getattr(type(value), "__slots__", ())
            if type(value).__module__.startswith("functensor.") and isinstance(slots, tuple):
                pending += [getattr(value, slot, None) for slot in slots]


def right_code(
    error: Exception, name: str, form: inspect.Signature | None, given: Mapping[str, Any]
) -> tuple[str, str]:
    """Returns another message for an error, or none, and right code, if it is known.

    It knows the called function's public name and signature, and the call's arguments by name.
    """
    text = str(error)
    if "fix: " in text:
        return "", ""
    if isinstance(error, WITH_ADVICE):
        what, _, fix = text.partition("; ")
        return (what if fix else ""), fix or "np.isfinite(x).all() and np.linalg.cond(x) tell why"
    if isinstance(error, np.exceptions.AxisError):
        return fix_of_axis(error)
    if isinstance(error, IndexError):
        return fix_of_index(error, name)
    for pattern, fix in FIXES_BY_MESSAGE.items():
        if re.search(pattern, text):
            return "", fix
    if not isinstance(error, TypeError):
        return "", ""
    for known in (
        fix_of_callback(error, given),
        fix_of_operand(text),
        fix_of_dtype(text),
        fix_of_integer(text, given),
    ):
        if known[1]:
            return known
    what, _, fix = text.rpartition("; ")
    if what:
        # Right code is there already; in the messages seen most it gets a line of its own.
        return (what, fix) if re.search(FREQUENT, what) else ("", "")
    if form is None:
        return "", ""
    call = f"{name}{form}"
    if len(call) > LONGEST_SIGNATURE:
        call = f"{call[:LONGEST_SIGNATURE].rpartition(',')[0]}, ...)"
    return "", f"as in {call}"
