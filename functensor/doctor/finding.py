"""One line of a report: what was looked at, its state, and the command that mends it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ABSENT", "PRESENT", "WRONG", "Finding", "first_line"]

# The states: it is there; it is not, and need not be; it does not fit or does not work.
PRESENT, ABSENT, WRONG = "yes", "no", "WRONG"
# The characters of an error that are shown.
LONGEST = 200


class Finding(NamedTuple):
    """The facts of one part.

    Attributes:
        section: the part's heading in the report.
        name: the part.
        state: ``yes``, ``no`` or ``WRONG``.
        what: its version and place, or what is wrong with it.
        command: the command that mends or brings it; empty where nothing has to be done.
    """

    section: str
    name: str
    state: str
    what: str
    command: str = ""


def first_line(error: BaseException) -> str:
    """Returns an exception in one line.

    >>> first_line(ValueError("two\\nlines")), first_line(KeyError())
    ('ValueError: two', 'KeyError')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
