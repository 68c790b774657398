"""Examples of several processes do what the scripts for one do, with few other lines."""

import difflib
import os
import re
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


def run(name, folder, count):
    """Returns what an example prints on so many processes."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    if count > 1:
        if mpirun() is None:
            pytest.skip("there is no mpirun")
        command = [mpirun(), "-n", str(count), *command]
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


@pytest.mark.parametrize("name", with_slow(NAMES, {"character_gpt"}))
def test_two_processes_reach_the_losses_of_one(name, tmp_path):
    pytest.importorskip("sklearn")
    alone, together = run(f"{name}_alone", tmp_path, 1), run(name, tmp_path, 2)
    losses = [re.findall(r"\d+\.\d{6}", said) for said in (alone, together)]
    assert len(losses[1]) == 2
    # Sums are rounded in another order, in single precision.
    assert list(map(float, losses[1])) == pytest.approx(list(map(float, losses[0])), abs=2e-5)
    assert together.count("the loss was") == 1
