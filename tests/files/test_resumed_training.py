"""A training that was stopped and goes on gives the bits of one that was not."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.long_forms import only_long, sized
from support.resumable_training import STEPS, TRAININGS, Stopped
from support.saved_trees import same

import functensor as ft

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "resumable_training.py"
both_trainings = pytest.mark.parametrize("name", TRAININGS)


@both_trainings
@pytest.mark.long
def test_a_stopped_training_goes_on_bit_by_bit(tmp_path, name):
    train = TRAININGS[name]
    whole = train(tmp_path / "whole")
    for stop in sized([7], [1, 4, 5, 11, STEPS - 4]):
        with pytest.raises(Stopped):
            train(tmp_path / str(stop), stop)
        with pytest.raises(Stopped):
            train(tmp_path / str(stop), stop + 3)
        assert same(train(tmp_path / str(stop)), whole)
    # Every step changes the state.
    steps = ft.Checkpoints(tmp_path / "whole")
    assert not same(steps.restore(step=STEPS - 2).tree, whole)


@only_long
@pytest.mark.long
@both_trainings
def test_a_killed_training_goes_on_bit_by_bit(tmp_path, name):
    whole = TRAININGS[name](tmp_path / "whole")
    folder, kills = tmp_path / "killed", 0
    checkpoints = ft.Checkpoints(folder)
    while STEPS - 1 not in checkpoints.steps():
        before = checkpoints.steps()
        process = subprocess.Popen([sys.executable, str(SCRIPT), name, str(folder)])
        while process.poll() is None and checkpoints.steps() == before:
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.05))
        process.kill()
        kills += process.wait() != 0
    assert same(checkpoints.restore().tree, whole)
    assert kills
