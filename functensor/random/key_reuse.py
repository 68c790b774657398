"""Finds keys that are used twice, where the same numbers would come again unnoticed."""

from __future__ import annotations

import os
import warnings

import numpy as np

from ..backends.annotations import Buffer
from ..backends.devices import to_host
from ..backends.restoring import setting
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import message, user_line

__all__ = ["KeyReuseWarning", "check_reuse", "ledger", "warn_on_reuse"]

# After so many keys the oldest ones are forgotten: some ten megabytes.
CAPACITY = 100_000


class KeyReuseWarning(UserWarning):
    """A key was used a second time (docs/errors.md#error-21)."""


class Ledger:
    """The first use of every key, while that is being checked.

    Attributes:
        active: whether it is.
    """

    def __init__(self, active: bool) -> None:
        self.active = active
        self._lines: dict[bytes, str] = {}

    def consume(self, key: Array | Buffer) -> None:
        """Notes that a key is used, and warns where it was before.

        A key is known by its value, so that ``keys[0]`` is the same each time; one whose value is
        not known, under a transformation, passes.
        """
        if isinstance(key, Tracer):
            return
        value, line = np.asarray(to_host(to_buffer(key))).tobytes(), user_line()
        first = self._lines.setdefault(value, line)
        if first is line:
            if len(self._lines) > CAPACITY:
                self._lines.pop(next(iter(self._lines)), None)
            return
        file, _, number = line.rpartition(":")
        warnings.warn_explicit(
            message(
                f"a key was used twice, which gives the same numbers twice: first at {first}, and "
                f"again at {line}",
                fix="first, second = random.split(key), or keys = random.KeyStream(key) and "
                "keys() for each use",
                number=21,
            ),
            KeyReuseWarning,
            file,
            int(number or 0),
        )

    def forget(self, key: Buffer) -> None:
        """Lets a key be used anew: it was made of its seed again, to repeat what it gives."""
        self._lines.pop(key.tobytes(), None)

    def fresh(self) -> setting:
        """Returns a block that checks what happens in it, as if no key had been used before."""
        return setting(self, active=True, _lines={})

    def replaying(self) -> setting:
        """Returns a block in which keys may be used again, to repeat what a function did."""
        return setting(self, active=False)

    def clear(self) -> None:
        """Forgets all keys."""
        self._lines = {}


ledger = Ledger(os.environ.get("FUNCTENSOR_CHECK_KEYS", "0") not in ("", "0"))


def warn_on_reuse(enabled: bool = True) -> None:
    """Switches on, or off, that a key which is used twice gives a warning.

    A key is used by every function that draws numbers of it and by `split`; `fold_in`, which makes
    a different key of every number, does not count. `key` starts its seed's key anew. A key that
    is a traced argument passes. It is off by default, unless the environment variable
    ``FUNCTENSOR_CHECK_KEYS`` is 1, and then costs nothing.

    Args:
        enabled: whether to warn, in all threads, with `KeyReuseWarning`.

    >>> from functensor import random
    >>> random.warn_on_reuse(True)
    >>> random.warn_on_reuse(False)
    """
    ledger.active = enabled
    ledger.clear()


def check_reuse() -> setting:
    """Returns a context manager within which a key that is used twice gives a warning.

    Keys that were used before do not count; what `warn_on_reuse` says comes back afterwards.

    >>> import warnings
    >>> from functensor import random
    >>> with warnings.catch_warnings(record=True) as caught, random.check_reuse():
    ...     warnings.simplefilter("always")
    ...     key = random.key(0)
    ...     pair = random.normal(key), random.uniform(key)
    >>> [warning.category.__name__ for warning in caught]
    ['KeyReuseWarning']
    """
    return ledger.fresh()
