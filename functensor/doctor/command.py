"""The command ``functensor``: ``functensor doctor`` examines what is installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from .children import examined
from .finding import WRONG, Finding, first_line
from .machine import machine, version_of_functensor
from .packages import extra_packages, imports, needed_packages
from .report import faults, pasted_block, section_lines, verdict

__all__ = ["main"]

DESCRIPTION = "Commands of functensor, function transformations over NumPy."
DOCTOR = "says what is installed, tries it on every device, and names what does not fit"
# Kernels are compiled when they are first run.
SECONDS_OF_TRIALS, SECONDS_ON_GPU = 120.0, 540.0


def devices() -> Iterator[Finding]:
    """Yields whether functensor is imported, and what trials gave on the CPU."""
    seconds = SECONDS_OF_TRIALS
    yield from examined("trials", "cpu", section="devices", name="functensor", seconds=seconds)
    yield from examined("native", section="devices", name="cpu native", seconds=seconds)


def of_nvidia() -> Iterator[Finding]:
    """Yields what is known of NVIDIA's driver, CuPy and GPUs, with the trials there."""
    yield from examined("nvidia", section="NVIDIA", name="functensor", seconds=SECONDS_ON_GPU)


PARTS: dict[str, Callable[[], Iterator[Finding]]] = {
    "machine": machine, "needed": needed_packages, "packages": imports, "extras": extra_packages,
    "devices": devices, "NVIDIA": of_nvidia,
}  # fmt: skip


def findings() -> Iterator[Finding]:
    """Yields all findings; a part that raises is one of them."""
    for name, part in PARTS.items():
        try:
            yield from part()
        # A report of all else is worth more than a traceback.
        except Exception as error:
            yield Finding(name, name, WRONG, first_line(error))


def doctor() -> int:
    """Prints the report; returns 1 where something has to be mended, else 0."""
    found: list[Finding] = []
    for finding in findings():
        for line in section_lines(finding, found[-1] if found else None):
            show(line)
        found.append(finding)
    for line in verdict(found):
        show(line)
    show("\nFor a report, paste this:\n")
    for line in pasted_block(found):
        show(line)
    return 1 if faults(found) else 0


def show(line: str) -> None:
    """Prints a line, with marks in place of what the terminal cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "replace").decode(encoding), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: by default those of the process.
    """
    parser = argparse.ArgumentParser(prog="functensor", description=DESCRIPTION)
    version = f"functensor {version_of_functensor()}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("doctor", help=DOCTOR, description=f"It {DOCTOR}.")
    if parser.parse_args(arguments).command is None:
        parser.print_help()
        return 0
    try:
        return doctor()
    except OSError as error:
        # The interpreter is not to write there at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Whoever reads a pipe has enough, as `head`; a full disk is told.
        if not isinstance(error, BrokenPipeError):
            print(f"functensor: the report cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
