"""Debug logs, by Python's ``logging``: a logger named ``functensor``, with one for each subject.

A program that never imports ``logging`` has nobody who reads them, so that nothing is made.
"""

from __future__ import annotations

import sys

__all__ = ["SUBJECTS", "log_debug", "log_level"]

# The loggers below ``functensor``, and what they tell.
SUBJECTS = {
    "jit": "each function that is staged, and why",
    "data": "epochs of loaders",
    "files": "files of data sets that are looked for, read and fetched",
}
QUIET_LEVEL = "off"


def log_debug(subject: str, words: str, *values: object) -> None:
    """Logs what happened, if somebody reads it.

    Args:
        subject: one of `SUBJECTS`.
        words: the message, with places for values.
        values: those, whose texts are made only if they are shown.
    """
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger(f"functensor.{subject}").debug(words, *values)


def log_level() -> str:
    """Returns the name of the level from which ``functensor``'s messages are shown, or ``off``.

    >>> import logging
    >>> logging.getLogger("functensor").setLevel(logging.DEBUG)
    >>> log_level()
    'DEBUG'
    >>> logging.getLogger("functensor").setLevel(logging.NOTSET)
    """
    logging = sys.modules.get("logging")
    if logging is None:
        return QUIET_LEVEL
    logger = logging.getLogger("functensor")
    shown: str = logging.getLevelName(logger.getEffectiveLevel())
    return shown if logger.isEnabledFor(logging.DEBUG) else QUIET_LEVEL
