"""The choices that users have about how backends compute."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Self

from .messages import message
from .restoring import Restoring, in_turn

__all__ = ["Config", "config"]

PRECISIONS = ("highest", "tf32")
CHOICES = (
    *("benchmark", "check_buffers", "check_collectives", "check_finite", "check_programs"),
    "check_tracer_leaks",
    *("deterministic", "full_tracebacks", "matmul_precision"),
)
# Threads start with this; tests set the variable.
checked_from_the_start = bool(os.environ.get("FUNCTENSOR_CHECK_PROGRAMS"))
collectives_checked = bool(os.environ.get("FUNCTENSOR_CHECK_COLLECTIVES"))
full_from_the_start = bool(os.environ.get("FUNCTENSOR_FULL_TRACEBACKS"))


def _no_name(name: str) -> AttributeError:
    """Returns the error for a choice that there is not."""
    from difflib import get_close_matches  # costs milliseconds

    (nearest,) = get_close_matches(name, CHOICES, 1, 0.0)
    return AttributeError(
        message(f"config has no {name!r}; it has {', '.join(CHOICES)}", fix=f"ft.config.{nearest}")
    )


def _wrong_choice(name: str, value: Any, choices: tuple[Any, ...]) -> ValueError:
    """Returns the error for a value that a choice does not have."""
    return ValueError(
        message(
            f"config.{name} is one of {', '.join(map(repr, choices))}, not {value!r}",
            fix=f"ft.config.{name} = {choices[-1]!r}",
        )
    )


def _choice(
    name: str, doc: str, choices: tuple[Any, ...] = (True, False), switches: bool = False
) -> Any:
    """Returns the property of a choice.

    Args:
        name: the choice's name.
        doc: the property's documentation.
        choices: its values; messages advise the last one.
        switches: whether an interceptor begins and ends with it.
    """

    def choose(self: Config, value: Any) -> None:
        if not isinstance(value, type(choices[0])) or value not in choices:
            raise _wrong_choice(name, value, choices)
        if switches:
            self._switch(name, value)
        setattr(self, f"_{name}", value)
        self._numerics = self._matmul_precision, self._deterministic

    return property(attrgetter(f"_{name}"), choose, doc=doc)


class Config(threading.local):
    """Choices about how backends compute; every thread starts with the defaults.

    Attributes:
        matmul_precision: ``"highest"`` multiplies float32 matrices in float32; ``"tf32"`` allows
            the GPU's matrix units to round operands to TF32, with 10 bits of mantissa.
        deterministic: whether the GPU adds up values in an order that does not change from run
            to run, which scatters and some gradients pay for with time. A jitted function on the
            CPU keeps the plan of its first call then, and one on a GPU has no plan. NumPy computes
            all eager operations on the CPU. Hooks that only look change no bit of a jitted
            function's results, since it runs once for them and once for the results.
        benchmark: whether large eager operations on the CPU are timed over NumPy and as machine
            code, and backward passes rule by rule and as compiled programs, and the quicker way
            stays, as in PyTorch's ``torch.backends.cudnn.benchmark``. Both ways differ by rounding,
            so that a result may change between two calls. ``deterministic`` forbids it.
        numerics: the choices that results depend on, as one value to compare.
        check_buffers: whether a NumPy array that an operation has read, and that is written to
            before the way back reads it again, raises ``BackwardError``, which names the operation
            and the line. It is compared by a checksum.
        check_collectives: whether processes that run together compare each collective before they
            begin it, and at the end of an ``spmd`` what is to be the same on all. Where they
            differ all raise ``CollectiveError``, which names a process that differs, and its line.
            Each exchange costs another. All processes have to choose the same; threads start with
            True where ``FUNCTENSOR_CHECK_COLLECTIVES`` is set in the environment.
        check_finite: whether the first operation that makes NaN or infinity of finite operands,
            forward or on the way back, raises ``NonFiniteError``, which names it, the line and the
            operands' ranges: for finding faults of one's own. ``ft.hooks.check_finite`` does the
            same for some operations. Functions under ``jit`` run as plans, and operation by
            operation where these report anything. Within a function that is transformed,
            ``config.using`` sets it.
        check_programs: whether every program that staging and its passes make is checked to be
            well formed: for finding faults of passes.
        check_tracer_leaks: whether ``jit`` looks for what it hides: traced values that outlive
            their program are errors, those that are printed and functions that do something else
            when they are staged again give warnings. Every function is then staged twice.
        full_tracebacks: whether tracebacks show the frames of functensor too, which are left out
            by default; threads start with True where ``FUNCTENSOR_FULL_TRACEBACKS`` is set in the
            environment.

    >>> config.matmul_precision
    'highest'
    >>> with config.using(deterministic=True):
    ...     config.deterministic
    True
    """

    matmul_precision: str = _choice(
        "matmul_precision",
        'The precision of products of float32 matrices on a GPU: ``"highest"`` or ``"tf32"``.',
        PRECISIONS,
    )
    deterministic: bool = _choice(
        "deterministic", "Says whether results are the same bits in every run."
    )
    benchmark: bool = _choice(
        "benchmark",
        "Says whether eager operations and backward passes take the way that was quicker.",
        (False, True),
    )
    check_buffers: bool = _choice(
        "check_buffers",
        "Says whether a NumPy array that changes before the way back reads it raises an error.",
        (False, True),
        switches=True,
    )
    check_collectives: bool = _choice(
        "check_collectives",
        "Says whether processes compare each collective before they begin it.",
        (False, True),
    )
    check_finite: bool = _choice(
        "check_finite",
        "Says whether the first operation that makes NaN or infinity raises an error.",
        (False, True),
        switches=True,
    )
    check_programs: bool = _choice("check_programs", "Says whether programs are checked.")
    check_tracer_leaks: bool = _choice(
        "check_tracer_leaks",
        "Says whether ``jit`` looks for side effects of the functions that it stages.",
    )
    full_tracebacks: bool = _choice(
        "full_tracebacks", "Says whether tracebacks show the frames of functensor."
    )
    # For the names of choices, functions that return a handle, which begins and ends the checking.
    checks: ClassVar[dict[str, Callable[[], Any]]] = {}

    def __init__(self) -> None:
        self._benchmark = False
        self._check_buffers = False
        self._check_collectives = collectives_checked
        self._check_finite = False
        self._checking: dict[str, Any] = {}
        self._matmul_precision = "highest"
        self._deterministic = False
        self._check_programs = checked_from_the_start
        self._check_tracer_leaks = False
        self._full_tracebacks = full_from_the_start
        self._numerics = "highest", False

    @property
    def numerics(self) -> tuple[str, bool]:
        """``matmul_precision`` and ``deterministic``."""
        return self._numerics

    def _switch(self, name: str, value: bool) -> None:
        """Begins or ends the interceptor of this thread's operations."""
        checking = dict(self._checking)
        if value and name not in checking:
            checking[name] = self.checks[name]()
            self._checking = checking
            checking[name]._begin()
        elif not value and name in checking:
            ended = checking.pop(name)
            self._checking = checking
            ended.remove()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _no_name(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in CHOICES:
            raise _no_name(name)
        super().__setattr__(name, value)

    def using(self, **choices: Any) -> Using:
        """Makes choices for the length of a ``with`` block; all are set back at its end.

        Raises:
            AttributeError: there is no such choice.
            ValueError: a choice has no such value.
        """
        return Using(choices)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in CHOICES)})"


class Using(Restoring, ContextDecorator):
    """Makes choices for the length of a ``with`` block, or of a decorated function."""

    def __init__(self, choices: dict[str, Any]) -> None:
        for name in choices:
            getattr(config, name)
        self._choices = choices

    def __enter__(self) -> Any:
        known = config.__dict__
        back = partial(known.update, dict(known))
        self.close = back
        ends = [back]
        try:
            for name, value in self._choices.items():
                if name in config.checks and value is False:
                    # The interceptor that checks stays, and does nothing.
                    setattr(config, f"_{name}", False)
                    continue
                if name in config.checks and value is True and name not in config._checking:
                    checking = config.checks[name]()
                    # Before there is anything to end.
                    ends += checking._ends()
                    self.close = in_turn(ends)
                    config._checking = {**config._checking, name: checking}
                    checking._begin()
                setattr(config, name, value)
            return config
        except BaseException:
            self.close()
            raise

    def _recreate_cm(self) -> Self:
        return type(self)(self._choices)


config = Config()
