"""Writers that are killed at random moments leave the old file or the new one, whole."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy
import pytest
from support.long_forms import sized

import functensor as ft

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forks")

# Starts a writer for every number that it reads. The writer saves one tree after another, and tells
# after each which is on the disk.
WRITERS = """
import os, sys
import functensor as ft, functensor.numpy as np

def write(folder, first):
    checkpoints = ft.Checkpoints(folder + "/steps", keep=2)
    for n in range(first, first + 1_000_000):
        tree = {"w": np.full((300, 400), n), "n": n}
        ft.save(folder + "/tree.safetensors", tree)
        checkpoints.save(n, tree)
        os.write(1, b"saved %d\\n" % n)

# What is imported with the first save is here before there are writers.
ft.save(sys.argv[1] + "/first.safetensors", np.full(3, 1))
for line in sys.stdin:
    writer = os.fork()
    if not writer:
        write(sys.argv[1], int(line))
    os.write(1, b"writer %d\\n" % writer)
    os.waitpid(writer, 0)
    os.write(1, b"ended 0\\n")
"""


def tree_number(tree):
    """Returns the number of a tree, all of whose elements have it."""
    assert tree["w"].shape == (300, 400)
    assert (numpy.asarray(tree["w"]) == tree["n"]).all()
    return tree["n"]


@pytest.fixture
def writers(tmp_path):
    command = [sys.executable, "-c", WRITERS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process


def killed(writers, first, awaited):
    """Returns the last number that a writer told of before it was killed, or None.

    Every second writer is killed some time after it has saved for the first time, as ``awaited``
    says, and the others some time after they have begun.
    """
    writers.stdin.write(b"%d\n" % first)
    writers.stdin.flush()
    told, writer = None, 0
    for line in writers.stdout:
        kind, number = line.split()
        if kind == b"ended":
            return told
        if kind == b"writer":
            writer = int(number)
        else:
            told = int(number)
        if writer and awaited == (kind == b"saved"):
            # A save takes some milliseconds.
            time.sleep(random.uniform(0, 0.02))
            os.kill(writer, signal.SIGKILL)
            writer = 0
    raise AssertionError("the process that starts writers has ended")


@pytest.mark.long
def test_a_killed_writer_loses_and_halves_nothing(tmp_path, writers):
    path = tmp_path / "tree.safetensors"
    last, last_step, saved, left_over = -1, -1, 0, 0
    for i in range(sized(5, 200)):
        told = killed(writers, last + 1, awaited=i % 2 == 0)
        saved += told is not None
        # What was told is there, and the next one may be.
        known = last if told is None else told
        found = tree_number(ft.load(path)) if path.exists() else -1
        assert known <= found <= known + 1
        checkpoints = ft.Checkpoints(tmp_path / "steps", keep=2)
        steps = checkpoints.steps()
        # A step is saved after the tree of its number.
        assert (last_step if told is None else told) <= (steps or [-1])[-1] <= found
        last_step = (steps or [-1])[-1]
        for step in steps:
            assert tree_number(checkpoints.restore(step=step).tree) == step
        left_over += any(tmp_path.rglob("*.tmp"))
        last = found
    # The next writer removes what killed ones have left.
    ft.save(path, {})
    for step in (last + 1, last + 2):
        checkpoints.save(step, {})
    assert [*tmp_path.rglob("*.tmp")] == []
    assert checkpoints.steps() == [last + 1, last + 2]
    assert saved >= sized(3, 100)
    assert sized(True, left_over)
