"""Every error that functensor raises on purpose, and the words they share.

A message says what happened, the user's file and line, the argument with its shape and dtype,
the stack of transformations, and right code. The classes derive from the built-in error that
NumPy, JAX or PyTorch users already catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, TypeVar

from ...backends import BackendUnavailable, DeviceError
from ...backends.frames import is_users, module_of, user_line
from ...backends.messages import message
from ...backends.notebook_cells import with_cells_named
from .bytecode import closed_over

__all__ = [
    "OF_THE_HOOK",
    "OPERAND_ERRORS",
    "AxisSizeError",
    "BackendUnavailable",
    "BackwardError",
    "CollectiveError",
    "ConcretizationError",
    "DeviceError",
    "DistributedError",
    "EscapedTracerError",
    "GradientInputError",
    "ImmutableArrayError",
    "MissingGradientError",
    "MissingGradientWarning",
    "MissingRuleError",
    "NonFiniteError",
    "NonScalarOutputError",
    "OperandError",
    "ReplayError",
    "RuleResultError",
    "ShapeError",
    "TracerConversionError",
    "UnusedUpdateWarning",
    "describe",
    "failure",
    "function_line",
    "is_inner",
    "message",
    "misfit",
    "missing_rule",
    "no_option",
    "note_rule",
    "refuse_out",
    "refuse_where",
    "unwrapped",
    "user_line",
    "would_change",
]  # fmt: skip


class TracerConversionError(TypeError):
    """A tracer reached code that wants a plain NumPy array (docs/errors.md#error-1)."""


class ImmutableArrayError(TypeError):
    """An item of an array, or of a plain buffer, was assigned a value (docs/errors.md#error-2)."""


class ConcretizationError(TypeError):
    """A traced value was asked for the number that it stands for (docs/errors.md#error-4)."""

    __slots__ = ("__weakref__", "asked")


class EscapedTracerError(RuntimeError):
    """A tracer was used after its transformation had ended (docs/errors.md#error-6)."""


class NonScalarOutputError(TypeError):
    """``grad`` of a function whose output is not a real scalar (docs/errors.md#error-7)."""


class GradientInputError(TypeError):
    """``grad`` with respect to something that is not inexact (docs/errors.md#error-7)."""


class MissingRuleError(TypeError):
    """A primitive lacks the rule that a transformation needs (docs/errors.md#error-8)."""


class OperandError(TypeError):
    """An operand is nothing that holds numbers."""


class RuleResultError(TypeError):
    """A custom rule or a hook returned the wrong thing (docs/errors.md#error-9)."""


class AxisSizeError(ValueError):
    """``vmap`` over axes whose sizes disagree (docs/errors.md#error-10)."""


class BackwardError(RuntimeError):
    """``backward`` cannot run: its graph was freed or changed (docs/errors.md#error-12)."""


class MissingGradientError(RuntimeError):
    """A gradient that is needed is None (docs/errors.md#error-13)."""


class MissingGradientWarning(UserWarning):
    """``.grad`` was read where it cannot be set (docs/errors.md#error-13)."""


class ReplayError(RuntimeError):
    """A checkpointed function did something else when it ran again (docs/errors.md#error-15)."""


class CollectiveError(RuntimeError):
    """Processes that run together do not do the same (docs/errors.md#error-25)."""


class DistributedError(RuntimeError):
    """Another process has ended, or does not come (docs/errors.md#error-26)."""


class NonFiniteError(FloatingPointError, RuntimeError):
    """An operation made NaN or infinity while that is checked (docs/errors.md#error-18)."""


class ShapeError(ValueError):
    """Shapes that do not broadcast or contract (docs/errors.md#error-16)."""


class UnusedUpdateWarning(UserWarning):
    """The result of ``x.at[i].set(v)`` was thrown away (docs/errors.md#error-3)."""


# The sections of docs/errors.md on errors that have one each.
SECTIONS: dict[type[Exception], int] = {
    TracerConversionError: 1, ImmutableArrayError: 3, EscapedTracerError: 6,
    NonScalarOutputError: 7, GradientInputError: 7, MissingRuleError: 8, RuleResultError: 9,
    AxisSizeError: 10, BackwardError: 12, MissingGradientError: 13, ReplayError: 15,
    NonFiniteError: 18, ShapeError: 16, CollectiveError: 25,
    DistributedError: 26,
}  # fmt: skip
ErrorT = TypeVar("ErrorT", bound=Exception)
# The beginning of notes that name a derivative rule.
RULE_NOTE = "in the derivative rule of"
# A part of notes that name a hook.
OF_THE_HOOK = "of the hook"
# The errors of NumPy and Python for wrong operands.
OPERAND_ERRORS = (ValueError, TypeError, IndexError)


def failure(
    kind: type[ErrorT],
    what: str,
    *,
    fix: str,
    under: str = "",
    number: int | None = 0,
    line: str = "",
) -> ErrorT:
    """Returns an error whose message has all parts.

    Args:
        kind: the class.
        what: what happened, naming the offending argument.
        fix: right code, one line.
        under: the stack of transformations; by default the running ones.
        number: the section in docs/errors.md; 0 stands for the class's own, None for none.
        line: the user's ``file:line``; by default the one that is running.
    """
    section = SECTIONS.get(kind) if number == 0 else number
    return kind(message(what, under=under, fix=fix, number=section, line=line))


def describe(x: Any) -> str:
    """Returns an array's dtype and shape as ``float32[2, 3]``, or the type's name."""
    shape = getattr(x, "shape", None)
    dtype = getattr(x, "dtype", None)
    if shape is None or dtype is None:
        return type(x).__name__
    return f"{dtype}[{', '.join(map(str, shape))}]"


def function_name(fun: Any) -> str:
    """Returns the name under which messages mention a function."""
    return getattr(fun, "__name__", None) or type(fun).__name__


def is_function_of_ours(fun: Any) -> bool:
    """Says whether a function is one of functensor's modules, and not the user's."""
    return isinstance(fun, FunctionType) and str(fun.__module__).startswith("functensor.")


def unwrapped(fun: Any) -> Any:
    """Returns the function inside of all wrappers that say which one they wrap."""
    while hasattr(fun, "__wrapped__"):
        fun = fun.__wrapped__
    return fun


def users_function(fun: Any) -> Any:
    """Returns the user's function that another one stands for, or calls; that one if none is."""
    fun = unwrapped(fun)
    while is_function_of_ours(fun):
        # A function of ours that calls the user's, which is the one to name.
        theirs = [f for f in closed_over(fun).values() if isinstance(f, FunctionType)]
        if not theirs:
            break
        fun = next((f for f in theirs if not is_function_of_ours(f)), theirs[0])
    return fun


def is_inner(fun: Any) -> bool:
    """Says whether a function is none that users know, which messages do not mention.

    That is a function within one of ours that calls none of theirs, or a program.
    """
    fun = users_function(fun)
    if is_function_of_ours(fun):
        return "<locals>" in fun.__qualname__
    ours = type(fun).__module__.startswith("functensor.")
    return ours and not hasattr(fun, "__name__")


def function_line(fun: Any) -> str:
    """Returns ``name (file:line)`` of a function's definition, as far as users know it."""
    fun = users_function(fun)
    code = getattr(fun, "__code__", None)
    if code is None or is_function_of_ours(fun):
        return function_name(fun)
    return f"{function_name(fun)} ({code.co_filename}:{code.co_firstlineno})"


def note_rule(error: Exception, name: str) -> None:
    """Adds to an error of NumPy's or Python's which derivative rule raised it, and where."""
    known = [*getattr(error, "__notes__", ()), str(error)]
    named = ("\n  at ", RULE_NOTE, OF_THE_HOOK)
    if any(part in text for text in known for part in named):
        return
    line, level = user_line(), error.__traceback__
    while level is not None:
        if is_users(module_of(level.tb_frame)):
            line = f"{level.tb_frame.f_code.co_filename}:{level.tb_lineno}"
        level = level.tb_next
    error.add_note(with_cells_named(f"{RULE_NOTE} {name!r}, at {line}"))


def no_option(name: str, option: str, known: Sequence[str]) -> TypeError:
    """Returns the error for an option that something called by a name does not have."""
    from ...backends.errors.words import nearest  # which only messages need

    near = nearest(option, known)
    asked = f": did you mean {near!r}?" if near else ""
    error = failure(
        TypeError, f"{name}() has no argument {option!r}{asked}", fix=f"one of {', '.join(known)}"
    )
    # The public function that passed the option on puts its own name there.
    error.misused = name  # type: ignore[attr-defined]
    return error


def misfit(what: str, fix: str) -> ShapeError:
    """Returns the error for shapes that do not fit, from what happened and right code."""
    return failure(ShapeError, what, fix=fix)


def missing_rule(name: str, mode: str, index: int) -> MissingRuleError:
    """Returns the error for a primitive that lacks a rule.

    ``mode`` is ``vjp`` or ``jvp``, of the operand of that index, or ``batch`` or ``infer``.
    """
    wanted = f"{mode} rule for {name!r}"
    if mode in ("vjp", "jvp"):
        wanted = f"{mode} for {name!r} with respect to argument {index}"
        fix = (
            f"declare it, e.g. {name} = unary({name!r}, lambda g, x: g * ...), or give the "
            f"function a rule with ft.custom_{mode}"
        )
    else:
        fix = f"declare it with {mode}=..., or build the primitive with a family that supplies it"
    return failure(MissingRuleError, f"no {wanted}", fix=fix)


def refuse_out(name: str, out: Any, namespace: str = "np") -> None:
    """Refuses an array to write into, which NumPy's signatures have.

    Raises:
        ImmutableArrayError: there is one; None is fine, and so is a tuple of nothing else.
    """
    if out is not None and not (type(out) is tuple and all(x is None for x in out)):
        raise failure(
            ImmutableArrayError,
            f"{name}: out= is {describe(out)}, but arrays are immutable: nothing is written "
            "into one",
            fix=f"y = {namespace}.{name}(...) without out=, and use y",
        )


def would_change(call: str, x: Any, fix: str) -> ImmutableArrayError:
    """Returns the error for a call that in NumPy changes its argument."""
    return failure(
        ImmutableArrayError, f"{call} would change {describe(x)}, but arrays are immutable", fix=fix
    )


def refuse_where(name: str, where: Any, namespace: str = "np") -> None:
    """Refuses the condition of an elementwise function, which belongs to ``out=``.

    Raises:
        ImmutableArrayError: the condition is neither None nor True.
    """
    if where is not None and where is not True:
        raise failure(
            ImmutableArrayError,
            f"{name}: where= says which elements of out= are written, but arrays are "
            "immutable: there is no out=",
            fix=f"np.where(condition, {namespace}.{name}(...), other)",
        )
