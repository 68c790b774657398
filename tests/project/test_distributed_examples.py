"""Examples of several processes do what the scripts for one do, with few other lines."""

import difflib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import with_slow
from support.processes import mpirun

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"
NAMES = ["train_digits", "character_gpt"]
MOST_LINES = 15
STEPS = 6


def run(name, folder):
    """Returns what an example prints on two processes."""
    if mpirun() is None:
        pytest.skip("there is no mpirun")
    program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    command = [mpirun(), "-n", "2", *program]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FUNCTENSOR_EXAMPLE_STEPS": str(STEPS)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_one_for_one_process():
    wanted = {*NAMES, *(f"{name}_alone" for name in NAMES)}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == wanted


@pytest.mark.parametrize("name", NAMES)
def test_few_lines_differ(name):
    alone, together = (
        (EXAMPLES / f"{each}.py").read_text().splitlines() for each in (f"{name}_alone", name)
    )
    changes = [line for line in difflib.ndiff(alone, together) if line[0] in "+-"]
    added = sum(line[0] == "+" for line in changes)
    assert 0 < added <= MOST_LINES
    assert len(changes) - added <= MOST_LINES


@pytest.mark.parametrize("name", with_slow(NAMES, {"train_digits"}))
def test_two_processes_reach_the_losses_of_one(name, tmp_path):
    pytest.importorskip("sklearn")
    losses = runpy.run_path(str(EXAMPLES / f"{name}_alone.py"))["fit"](STEPS)[1]
    said = run(name, tmp_path)
    assert said.count("the loss was") == 1
    found = [float(text) for text in re.findall(r"\d+\.\d{6}", said)]
    # Sums are rounded in another order, in single precision.
    assert found == pytest.approx([losses[0], losses[-1]], abs=2e-5)
