"""Installed distributions, their versions, and what functensor's extras require of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from typing import Any, NamedTuple

__all__ = [
    "Requirement",
    "command_for",
    "cupy_distributions",
    "extras",
    "installed_version",
    "is_too_old",
    "needed_by",
    "normal_name",
    "requirement_of",
]  # fmt: skip

PATTERN = re.compile(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?", re.DOTALL)
# Those of whoever works on functensor itself.
DEVELOPERS_EXTRAS = {"bench", "dev", "docs", "test"}


class Requirement(NamedTuple):
    """A distribution that functensor or one of its extras needs.

    Attributes:
        name: the distribution.
        parts: its own extras.
        least: its oldest version; empty where any will do.
        extra: the extra that needs it; empty for functensor itself.
    """

    name: str
    parts: str
    least: str
    extra: str

    def __str__(self) -> str:
        return self.name + (f"[{self.parts}]" if self.parts else "") + self.bound

    @property
    def bound(self) -> str:
        """The oldest version, as pip reads it."""
        return f">={self.least}" if self.least else ""


def normal_name(name: str) -> str:
    """Returns the one spelling of a distribution's name.

    >>> normal_name("ML_dtypes")
    'ml-dtypes'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def parsed(text: str) -> Requirement:
    """Returns a requirement of a distribution's metadata.

    >>> parsed('cupy-cuda13x[ctk]>=14; extra == "cuda13"')
    Requirement(name='cupy-cuda13x', parts='ctk', least='14', extra='cuda13')
    """
    found = PATTERN.match(text)
    name, parts, versions, marker = found.groups() if found else (text, "", "", "")
    least = re.search(r">=\s*([^\s,]+)", versions or "")
    extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", marker or "")
    return Requirement(
        name, parts or "", least.group(1) if least else "", extra.group(1) if extra else ""
    )


def needed_by(of: str = "functensor") -> list[Requirement]:
    """Returns all requirements of a distribution, those of its extras too."""
    try:
        return [parsed(text) for text in requires(of) or ()]
    except PackageNotFoundError:
        return []


def extras() -> dict[str, list[Requirement]]:
    """Returns the requirements of functensor's extras by their names, without developers'."""
    every = needed_by()
    names = dict.fromkeys(r.extra for r in every if r.extra)

    def of(extra: str, above: tuple[str, ...] = ()) -> Iterable[Requirement]:
        for requirement in every:
            if requirement.extra == extra and normal_name(requirement.name) != "functensor":
                yield requirement
            elif requirement.extra == extra:
                for other in map(str.strip, requirement.parts.split(",")):
                    if other not in above:
                        yield from of(other, (*above, extra))

    return {name: list(of(name)) for name in names if name not in DEVELOPERS_EXTRAS}


def requirement_of(name: str) -> Requirement | None:
    """Returns what functensor or an extra for users requires of a distribution; None if nothing."""
    candidates = [r for r in needed_by() if not r.extra]
    candidates += [r for group in extras().values() for r in group]
    return next((r for r in candidates if normal_name(r.name) == normal_name(name)), None)


def command_for(name: str) -> str:
    """Returns pip's command that brings a distribution, by the extra that has it."""
    wanted = requirement_of(name)
    if wanted is not None and wanted.extra:
        return f"pip install 'functensor[{wanted.extra}]'"
    return f"pip install '{wanted}'" if wanted is not None else f"pip install {name}"


def installed_version(name: str) -> str | None:
    """Returns the version of an installed distribution; None without one.

    Metadata that has no version gives an empty string.
    """
    try:
        return version(name) or ""
    except PackageNotFoundError:
        return None
    # Metadata is a file that may be broken in any way.
    except Exception:
        return ""


def release(text: str) -> tuple[int, ...]:
    """Returns the numbers of a version.

    >>> release("2.0.1rc1"), release("0.5") < release("0.10")
    ((2, 0, 1), True)
    """
    found = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(number) for number in found.group().split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def is_too_old(found: str, least: str) -> bool:
    """Says whether a version is older than the least; one that is unknown is not.

    >>> is_too_old("1.26.4", "2"), is_too_old("2.0", "2"), is_too_old("", "2")
    (True, False, False)
    """
    return bool(least and release(found)) and release(found) < release(least)


def cupy_distributions() -> list[str]:
    """Returns the names of all installed distributions that bring the module ``cupy``."""
    found = set()
    for distribution in distributions():
        # One whose metadata is broken has no name.
        metadata: Any = distribution.metadata
        name = normal_name((metadata or {}).get("Name") or "")
        if re.fullmatch(r"cupy|cupy-(cuda|rocm).*", name):
            found.add(name)
    return sorted(found)
