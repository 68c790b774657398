"""Trainings that are killed, and go on from a checkpoint on fewer processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long
from support.processes import mpirun

PROGRAM = Path(__file__).parent / "restarted_program.py"
LONGEST_RUN = 120


def run(count, folder, killed_before=-1):
    """Returns the exit code and the output of a run on so many processes."""
    command = [sys.executable, str(PROGRAM), str(folder), str(killed_before)]
    if count > 1:
        command = [mpirun(), "-n", str(count), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_RUN)
    return done.returncode, done.stdout + done.stderr


def last_loss(said):
    found = re.search(r"the last loss is (\S+)", said)
    assert found, said
    return float.fromhex(found[1])


@only_long
@pytest.mark.long
@pytest.mark.skipif(mpirun() is None, reason="there is no mpirun")
def test_a_killed_training_goes_on_with_half_as_many_processes(tmp_path):
    code, said = run(4, tmp_path / "killed", killed_before=8)
    assert code != 0
    assert "the last loss" not in said
    code, said = run(2, tmp_path / "killed")
    assert code == 0, said
    assert "went on from step 6" in said
    _, alone = run(1, tmp_path / "alone")
    assert last_loss(said) == pytest.approx(last_loss(alone), rel=1e-9)


@only_long
@pytest.mark.long
@pytest.mark.skipif(mpirun() is None, reason="there is no mpirun")
def test_a_restart_has_the_same_bits(tmp_path):
    _, whole = run(2, tmp_path / "whole")
    run(2, tmp_path / "killed", killed_before=7)
    _, again = run(2, tmp_path / "killed")
    assert "went on from step 6" in again
    assert last_loss(again) == last_loss(whole)
