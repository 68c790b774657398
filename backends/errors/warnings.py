"""NumPy's warnings of floating point, at the user's line.

NumPy warns of a division by zero, an overflow or an invalid value where one of its functions is
called: within functensor. Python then asks the filters of warnings. One of them is ours. It drops
warnings from our modules and warns again at the user's line, with the registry of that module.
Operations without a warning cost nothing more.

Filters that are set later go before it, as Python has it: after ``simplefilter("always")``, and
where ``catch_warnings`` around the import took it away, such warnings name functensor's line.
"""

from __future__ import annotations

import threading
import warnings
from types import FrameType

from ..frames import user_frame

__all__ = ["relocate_warnings", "warn_user"]

OUR_MODULES = "functensor."
# Beginnings of NumPy's warnings. Our own warnings name the user's line themselves.
NUMPY_WARNINGS = ("divide by zero enc", "overflow enc", "underflow enc", "invalid value enc")
# Modules in which threads begin. Helpers have no frame of the user's.
THREAD_MODULES = ("threading", "concurrent.futures.thread")


def warn_at(
    frame: FrameType, text: str, kind: type[Warning], *, each_time: bool = False
) -> None:
    """Warns at a frame's line: once there by Python's default filter, or each time."""
    scope = frame.f_globals
    registry = None if each_time else scope.setdefault("__warningregistry__", {})
    module = scope.get("__name__") or "<unknown>"
    warnings.warn_explicit(text, kind, frame.f_code.co_filename, frame.f_lineno, module, registry)


def warn_user(text: str, kind: type[Warning], *, each_time: bool = False) -> None:
    """Warns at the user's line, as `warn_at` does."""
    frame = user_frame()
    if frame is None:
        warnings.warn(text, kind, stacklevel=3)
    else:
        warn_at(frame, text, kind, each_time=each_time)


class Relocation(threading.local):
    """Takes the place of two patterns of a filter: of the message, and of the module.

    Python asks for the message first.

    Attributes:
        pattern: a pattern that matches nothing, for those who read filters.
        text: the warning in question, if it is one of NumPy's.
    """

    pattern = r"(?!)"
    text: str | None = None

    def match(self, asked: str) -> bool:
        """Says whether a message, or a module, is one that is warned of elsewhere, and does so."""
        if asked.startswith(NUMPY_WARNINGS):
            self.text = asked
            return True
        text, self.text = self.text, None
        if text is None or not asked.startswith(OUR_MODULES):
            return False
        frame = user_frame()
        if frame is None or frame.f_globals.get("__name__") in THREAD_MODULES:
            return False
        warn_at(frame, text, RuntimeWarning)
        return True

    def __reduce__(self) -> str:
        return "RELOCATION"


RELOCATION = Relocation()
ENTRY = ("ignore", RELOCATION, RuntimeWarning, RELOCATION, 0)


class StandIn(RuntimeWarning):
    """The category of an entry that can be nobody else's: Python moves one that it has already."""


def relocate_warnings() -> None:
    """Puts our filter in front of all others."""
    # Python makes entries of patterns that are strings alone. It notes that the filters have
    # changed, and asks them again of what it has told.
    warnings.simplefilter("ignore", StandIn)
    filters: list[object] = warnings.filters  # type: ignore[assignment]
    if ENTRY in filters:
        filters.remove(ENTRY)
    filters.insert(0, ENTRY)
    filters.remove(("ignore", None, StandIn, None, 0))
