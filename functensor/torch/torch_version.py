"""A string of PyTorch's version that is compared by its numbers: ``torch.torch_version``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import eq, ge, gt, le, lt
from typing import Any

from ..faces.publish import publish

__all__ = ["TorchVersion"]

# Epoch, release, what comes before it, what comes after it, and the local part, as in PEP 440.
VERSION_PARTS = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)"
    r"(?:[-_.]?(a|alpha|b|beta|c|rc|pre|preview)[-_.]?(\d*))?"
    r"(?:[-_.]?(?:post|rev|r)[-_.]?(\d*))?"
    r"(?:[-_.]?dev[-_.]?(\d*))?"
    r"(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
STAGE_NAMES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


class TorchVersion(str):
    """A version that is a string, and is compared by its numbers with strings and tuples.

    A string that is no version is compared as a string is, and numbers are not compared.

    >>> import functensor.torch as torch
    >>> torch.__version__ >= "2.9", torch.__version__ > (2, 1), torch.__version__ < "10"
    (True, True, True)
    """

    __slots__ = ()

    def _compared(self, other: Any, compare: Any, as_texts: Any) -> bool:
        given = isinstance(other, Iterable)
        text = ".".join(map(str, other)) if given and not isinstance(other, str) else other
        mine, theirs = version_order(self), version_order(text) if given else None
        if mine is None or theirs is None:
            found: bool = as_texts(self, other)
            return found
        return bool(compare(mine, theirs))

    def __eq__(self, other: object) -> bool:
        return self._compared(other, eq, str.__eq__)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, lt, str.__lt__)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, le, str.__le__)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, gt, str.__gt__)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, ge, str.__ge__)

    __hash__ = str.__hash__


def version_order(text: str) -> tuple[Any, ...] | None:
    """Returns what orders versions as PEP 440 does, None of what is none."""
    found = VERSION_PARTS.fullmatch(text.strip().lower())
    if found is None:
        return None
    epoch, release, stage, number, post, dev, local = found.groups()
    numbers = [int(x) for x in release.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    before = (STAGE_NAMES.get(stage, stage), int(number or 0)) if stage else ("z", 0)
    if not stage and post is None and dev is not None:
        # What is developed comes before the first stage.
        before = ("", 0)
    parts = re.split(r"[-_.]", local) if local else []
    return (
        int(epoch or 0), numbers, before, -1 if post is None else int(post or 0),
        float("inf") if dev is None else int(dev or 0),
        [(1, int(x), "") if x.isdigit() else (0, 0, x) for x in parts],
    )  # fmt: skip


publish(globals())
