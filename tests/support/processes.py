"""Runs of a file's checks on several MPI processes, from within pytest.

A file of checks has functions named ``check_...``. All processes call each of them, in order.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = TESTS / "support" / "rank_program.py"
# A run that takes longer, in seconds, hangs.
LONGEST_RUN = 900


def mpirun():
    """Returns the path of the mpirun beside Python, or of another one; None without one."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return shutil.which("mpirun", path=places)


def checks_of(file):
    """Returns the names of a file's checks."""
    tree = ast.parse(Path(file).read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]


def run_checks(file, count, folder):
    """Returns the names of the checks that all processes went through, and what was printed."""
    if mpirun() is None:
        pytest.skip("there is no mpirun")
    done = Path(folder) / "done"
    command = [mpirun(), "-n", str(count), sys.executable, str(PROGRAM), str(file), str(done)]
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LONGEST_RUN
        )
        said = run.stdout + run.stderr
    except subprocess.TimeoutExpired as error:
        said = f"it did not end within {LONGEST_RUN} seconds\n{error.stdout}\n{error.stderr}"
    return (done.read_text().split() if done.exists() else []), said
