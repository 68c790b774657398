"""The packages that functensor needs, those of its extras, and others that it can work with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from .children import examined
from .distributions import (
    Requirement,
    command_for,
    extras,
    installed_version,
    is_too_old,
    needed_by,
    normal_name,
)
from .finding import ABSENT, PRESENT, WRONG, Finding
from .probes import TRYING, again

__all__ = ["extra_packages", "imports", "needed_packages"]

# What programs around functensor use, beside the extras.
UNNAMED = ("mpi4py",)
# Imported where the GPU is looked at, since they load NVIDIA's libraries.
OF_NVIDIA = ("cupy", "nvidia-")
SECONDS = 120.0
ENDED = "the process"
NOT_INSTALLED = "it is not installed"


def is_installed(name: str) -> bool:
    """Says whether a distribution is installed."""
    return installed_version(name) is not None


def too_old(section: str, name: str, requirement: Requirement, found: str) -> Finding:
    """Returns the finding of a package that is older than it may be."""
    what = f"{requirement.name} {found} is too old: {requirement.least} is needed"
    return Finding(section, name, WRONG, what, f"pip install '{requirement}'")


def needed_packages() -> Iterator[Finding]:
    """Yields the packages without which functensor cannot be imported, if they do not fit."""
    if not is_installed("functensor"):
        what = "it has no metadata, so that its extras are not known"
        yield Finding("packages", "functensor", WRONG, what, "pip install functensor")
    for requirement in (r for r in needed_by() if not r.extra):
        found = installed_version(requirement.name)
        if found is None:
            command = f"pip install '{requirement}'"
            yield Finding("packages", requirement.name, WRONG, NOT_INSTALLED, command)
        elif is_too_old(found, requirement.least):
            yield too_old("packages", requirement.name, requirement, found)


def extra_packages() -> Iterator[Finding]:
    """Yields for every extra whether its packages are there, and those that are too old."""
    for name, requirements in extras().items():
        shown, missing = [], []
        for requirement in requirements:
            found = installed_version(requirement.name)
            if found is None:
                missing.append(str(requirement))
                continue
            shown.append(f"{requirement.name} {found}")
            if is_too_old(found, requirement.least):
                yield too_old("extras", name, requirement, found)
                break
        else:
            if missing:
                what = ", ".join([*shown, f"without {', '.join(missing)}"])
                yield Finding("extras", name, ABSENT, what, f"pip install 'functensor[{name}]'")
            elif name == "draw" and shutil.which("dot") is None:
                what = f"{', '.join(shown)}, without Graphviz's program dot"
                command = "apt install graphviz, or conda install graphviz"
                yield Finding("extras", name, ABSENT, what, command)
            else:
                yield Finding("extras", name, PRESENT, ", ".join(shown))


def imports() -> Iterator[Finding]:
    """Yields what came of importing every package that is installed."""
    every = [r.name for r in needed_by() if not r.extra]
    every += [r.name for group in extras().values() for r in group]
    names = {normal_name(name): name for name in [*every, *UNNAMED]}.values()
    left = [name for name in names if not name.startswith(OF_NVIDIA) and is_installed(name)]
    while left:
        # A package that ends the process is named, and the rest is tried in another one.
        trying = left[0]
        for finding in examined(
            "probes", *left, section="packages", name=ENDED, seconds=SECONDS, bare=True
        ):
            if finding.state == TRYING:
                trying = finding.name
            elif finding.name == ENDED:
                yield finding._replace(name=trying, command=again(trying))
            else:
                yield finding
        left = left[left.index(trying) + 1 :]
    for name in UNNAMED:
        if not is_installed(name):
            yield Finding("packages", name, ABSENT, NOT_INSTALLED, command_for(name))
