"""Runs parts of the examination in processes of their own, which may fail, crash or hang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator

from .finding import WRONG, Finding, first_line
from .machine import working_directory

__all__ = ["examined", "report_to_parent"]

# Whatever else a package prints, lines that begin with this are the child's own.
MARK = "functensor-doctor:"
PROGRAM = "from functensor.doctor.{0} import {0} as part; from functensor.doctor.children import "
PROGRAM += "report_to_parent; import sys; report_to_parent(part, sys.argv[1:])"
# A package whose __init__ does not run: for parts that need the standard library alone.
BARE = "import sys, importlib.util as u; "
BARE += "sys.modules['functensor'] = u.module_from_spec(u.find_spec('functensor')); "


def report_to_parent(part: Callable[..., Iterator[Finding]], arguments: Iterable[str]) -> None:
    """Writes a part's findings to the standard output, each as soon as it is known."""
    for finding in part(*arguments):
        print(f"\n{MARK}{json.dumps(finding)}", flush=True)


def cause_of(code: int, errors: str) -> str:
    """Returns why a process ended, in one line."""
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        return f"the process was ended by {known.get(-code, f'signal {-code}')}"
    # A traceback ends with the exception; the lines of its message follow at the margin.
    lines = [line for line in errors.splitlines() if line.strip()]
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback ")]
    raised = [line for line in lines[starts[-1] + 1 :] if line[0] != " "] if starts else lines[-1:]
    return raised[0].strip() if raised else f"the process ended with status {code}"


def examined(
    part: str, *arguments: str, section: str, name: str, seconds: float, bare: bool = False
) -> Iterator[Finding]:
    """Yields the findings of a part of the examination that runs in another process.

    Args:
        part: a module of this folder, and the function of the same name in it.
        arguments: texts for the function.
        section, name: the heading and the part of what is yielded of a process that did not end
            well, with the cause.
        seconds: how long it may take.
        bare: whether functensor is not to be imported there.
    """
    # With -P programs in the working directory are not imported in a package's place.
    program = (BARE if bare else "") + PROGRAM.format(part)
    command = [sys.executable, "-P", "-c", program, *arguments]
    try:
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        # Packages are not to be blamed for a working directory that was deleted.
        cwd = os.sep if working_directory() is None else None
        done = subprocess.run(
            command, capture_output=True, timeout=seconds, env=environment, check=False, cwd=cwd
        )
        output, errors, code = done.stdout, done.stderr, done.returncode
        cause = cause_of(code, errors.decode(errors="replace")) if code else ""
    except subprocess.TimeoutExpired as error:
        output, cause = error.stdout or b"", f"it did not end within {seconds:g} seconds"
    except OSError as error:
        output, cause = b"", first_line(error)
    for line in output.decode(errors="replace").splitlines():
        if line.startswith(MARK):
            yield Finding(*json.loads(line.removeprefix(MARK)))
    if cause:
        yield Finding(section, name, WRONG, cause)
