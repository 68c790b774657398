"""The machine, Python, and the place where functensor lies."""

from __future__ import annotations

import ast
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from .finding import PRESENT, WRONG, Finding

__all__ = ["machine", "version_of_functensor", "working_directory"]

OWN_FOLDER = Path(os.path.abspath(__file__)).parent.parent
# Variables that change what is installed or computed.
VARIABLES = ("CUDA_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "PYTHONPATH")
BEGINNINGS = ("CUPY_", "FUNCTENSOR_", "MKL_NUM", "OMP_NUM", "OPENBLAS_NUM")


def version_of_functensor() -> str:
    """Returns functensor's version, which is read and not imported."""
    for node in ast.parse((OWN_FOLDER / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__version__":
            return str(ast.literal_eval(node.value))
    return "of an unknown version"


def processor() -> str:
    """Returns the processor's name, and how many cores this process may use."""
    name = ""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() in ("model name", "hardware"):
                name = value.strip()
                break
    if not name and sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
            name = done.stdout.strip()
    name = name or platform.processor() or "an unknown processor"
    every = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    shown = str(every) if usable == every else f"{usable} of {every}"
    return f"{name}, {platform.machine()}, {shown} cores"


def found_package(path: Sequence[str]) -> ModuleSpec | None:
    """Returns what ``import functensor`` would find with a path of folders; None if nothing."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None:
            continue
        spec: ModuleSpec | None = find("functensor", list(path) if finder is PathFinder else None)
        if spec is not None:
            return spec
    return None


def folder_of(spec: ModuleSpec | None) -> Path | None:
    """Returns the folder or the file that a package is imported from."""
    if spec is None:
        return None
    if spec.origin and spec.has_location:
        file = Path(spec.origin).resolve()
        return file.parent if file.name == "__init__.py" else file
    return Path(next(iter(spec.submodule_search_locations or ["."]))).resolve()


def working_directory() -> str | None:
    """Returns the folder in which the process runs; None where it was deleted."""
    with suppress(FileNotFoundError):
        return os.getcwd()
    return None


def shadow(here: str) -> Path | None:
    """Returns the folder or file here that programs would import in functensor's place, or None."""
    others = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]
    wanted, found = folder_of(found_package(others)), folder_of(found_package([here, *others]))
    if found is None or found == (wanted or OWN_FOLDER.resolve()):
        return None
    return found


def machine() -> Iterator[Finding]:
    """Yields what Python, the platform, the processor and functensor's place are."""
    name = platform.python_implementation()
    python = f"{platform.python_version()}, {name}, {sys.executable}"
    yield Finding("machine", "python", PRESENT, python)
    yield Finding("machine", "platform", PRESENT, platform.platform())
    yield Finding("machine", "processor", PRESENT, processor())
    own = f"{version_of_functensor()}, {OWN_FOLDER}"
    yield Finding("machine", "functensor", PRESENT, own)
    variables = [
        f"{key}={os.environ[key]}"
        for key in sorted(os.environ)
        if key in VARIABLES or key.startswith(BEGINNINGS)
    ]
    yield Finding("machine", "environment", PRESENT, ", ".join(variables) or "no variable is set")
    here = working_directory()
    if here is None:
        what = "it was deleted, and packages that ask for it cannot be imported"
        yield Finding("machine", "working directory", WRONG, what, "cd")
        return
    other = shadow(here)
    if other is not None:
        kind = "folder" if other.is_dir() else "file"
        what = f"programs here import the {kind} {other} in place of functensor, "
        what += f"which is {OWN_FOLDER}"
        # A checkout that is installed from where it lies is not to be moved.
        leave = (other / "pyproject.toml").exists()
        command = "cd .." if leave else f"mv {shlex.quote(other.name)} my_{shlex.quote(other.name)}"
        yield Finding("machine", "working directory", WRONG, what, command)
