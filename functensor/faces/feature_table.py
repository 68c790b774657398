"""The table of what the library can do here: packages, the BLAS, logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

from ..backends.blas_threads import blas_name_and_threads
from ..backends.logs import SUBJECTS, log_level

__all__ = ["Feature", "FeatureTable", "features"]


class Feature(NamedTuple):
    """A part of the library that may be there.

    Attributes:
        there: whether it can be used, as far as the installed packages tell.
        what: the packages with their versions, or the state.
        command: the pip command that brings it, or the code that switches it on.
    """

    there: bool
    what: str
    command: str

    def __bool__(self) -> bool:
        return self.there


class FeatureTable(Mapping[str, Feature]):
    """Features by their names; prints as a table."""

    def __init__(self, rows: dict[str, Feature]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Feature:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        lines = [
            (name, "yes" if row.there else "no", row.what, "" if row.there else row.command)
            for name, row in self._rows.items()
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        shown = ["  ".join(text.ljust(w) for text, w in zip(line, [*widths, 0])) for line in lines]
        return "\n".join(line.rstrip() for line in shown)


# The module of an extra, the distributions that may have it, and the extra's name.
PACKAGED_FEATURES = {
    "cuda": ("cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "cuda"),
    "cudnn": ("cudnn", ("nvidia-cudnn-frontend",), "cudnn"),
    "bfloat16": ("ml_dtypes", ("ml_dtypes",), "bfloat16"),
    "serialization": ("safetensors", ("safetensors",), "serialization"),
    "mnist": ("pooch", ("pooch",), "mnist"),
    "scipy": ("scipy", ("scipy",), "scipy"),
    "draw": ("graphviz", ("graphviz",), "draw"),
    "plot": ("matplotlib", ("matplotlib",), "plot"),
    "native": ("llvmlite", ("llvmlite",), "native"),
}


def installed(module: str, distributions: tuple[str, ...], name: str) -> Feature:
    """Returns whether an extra's package is installed; nothing is imported."""
    command = f"pip install 'functensor[{name}]'"
    if find_spec(module) is None:
        return Feature(False, f"{module} is not installed", command)
    for distribution in distributions:
        try:
            return Feature(True, f"{distribution} {version(distribution)}", command)
        except PackageNotFoundError:
            continue
    return Feature(True, f"{module} of an unknown version", command)


def blas() -> Feature:
    """Returns the name of NumPy's BLAS, and how many threads it uses."""
    name, threads = blas_name_and_threads()
    shown = "an unknown number of threads" if threads is None else f"{threads} threads"
    return Feature(True, f"{name}, {shown}", "OPENBLAS_NUM_THREADS=4 python program.py")


def logs() -> Feature:
    """Returns whether debug messages are shown."""
    command = "import logging; logging.basicConfig(level=logging.DEBUG)"
    level = log_level()
    names = ", ".join(f"functensor.{subject}" for subject in SUBJECTS)
    return Feature(level != "off", f"{names}: {level}", command)


OTHERS: dict[str, Callable[[], Feature]] = {"blas": blas, "debug logs": logs}


def features() -> FeatureTable:
    """Returns which parts of the library can be used here.

    Packages are looked up, and not imported. That of CUDA is there or not; `devices` says whether
    there is a GPU, too.

    Returns:
        A mapping by the names ``cuda``, ``cudnn``, ``bfloat16``, ``serialization``, ``mnist``,
        ``scipy``, ``draw``, ``plot``, ``native``, ``blas`` and ``debug logs``. Each value is true
        where the part is there, and has ``what``, its packages and versions, and ``command``,
        which brings it. The mapping prints as a table.

    >>> import functensor as ft
    >>> table = ft.features()
    >>> bool(table["blas"]), table["mnist"].command
    (True, "pip install 'functensor[mnist]'")
    """
    rows = {name: installed(*facts) for name, facts in PACKAGED_FEATURES.items()}
    return FeatureTable(rows | {name: tell() for name, tell in OTHERS.items()})
