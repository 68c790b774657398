"""Folders of checkpoints: which are kept, which is restored, and what a damaged one says."""

import math

import numpy
import pytest
from support.error_cases import line_of
from support.saved_trees import same

import functensor as ft
import functensor.numpy as np


@pytest.mark.parametrize(
    ("keep", "best", "metrics", "steps"),
    [
        (3, None, [1.0, 2.0, 3.0, 4.0, 5.0], [2, 3, 4]),
        (1, None, [None] * 4, [3]),
        (2, "min", [3.0, 1.0, 2.0, 5.0, 4.0], [1, 3, 4]),
        (2, "max", [3.0, 1.0, 2.0, 5.0, 4.0], [3, 4]),
        (1, "max", [math.nan, 7.0, math.nan, None, -math.inf], [1, 4]),
        (1, "min", [math.nan, None], [1]),
        (1, "min", [2.0, 2.0, 3.0], [1, 2]),
    ],
)
def test_the_last_and_the_best_are_kept(tmp_path, keep, best, metrics, steps):
    checkpoints = ft.Checkpoints(tmp_path, keep=keep, best=best)
    for step, metric in enumerate(metrics):
        checkpoints.save(step, {"n": step}, metric=metric)
    assert checkpoints.steps() == steps
    assert [checkpoints.restore(step=step).tree["n"] for step in steps] == steps
    # The metrics are in the files: another process goes on with them.
    again = ft.Checkpoints(tmp_path, keep=keep, best=best)
    assert again.steps() == steps
    if best and steps[0] < len(metrics) - keep:
        assert again.restore(step="best").step == steps[0]


def test_a_checkpoint_has_step_tree_metric_and_metadata(tmp_path):
    checkpoints = ft.Checkpoints(tmp_path / "a" / "b")
    tree = {"w": np.ones(3), "key": ft.random.key(1)}
    checkpoints.save(12, tree, metric=np.asarray(0.5), metadata={"run": "first"})
    step, found, metric, metadata = checkpoints.restore(tree)
    assert (step, metric, metadata) == (12, 0.5, {"run": "first"})
    assert same(found, tree)
    assert same(checkpoints.restore(step=12, mmap=True).tree, tree)
    checkpoints.save(12, [1])
    assert checkpoints.restore(step="latest") == (12, [1], None, {})


def test_an_earlier_step_than_others_is_kept_once_it_is_saved(tmp_path):
    checkpoints = ft.Checkpoints(tmp_path, keep=2)
    for step in (10, 20, 5):
        checkpoints.save(step, step)
    assert checkpoints.steps() == [5, 10, 20]
    assert checkpoints.restore(step=5).tree == 5


def test_other_files_are_left_alone(tmp_path):
    names = ["step_1.safetensors", "notes.txt", f".step_0000000001.safetensors.{'0a' * 8}.tmp"]
    for name in names:
        (tmp_path / name).write_text("x")
    checkpoints = ft.Checkpoints(tmp_path, keep=1)
    assert checkpoints.steps() == []
    checkpoints.save(1, 1)
    checkpoints.save(2, 2)
    # A temporary file whose writer is gone is none.
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"step_1.safetensors", "notes.txt", "step_0000000002.safetensors"}


def test_a_damaged_checkpoint_names_the_one_before(tmp_path):
    checkpoints = ft.Checkpoints(tmp_path, best="max")
    w = {"w": np.ones(100)}
    for step in (3, 8):
        checkpoints.save(step, w, metric=step)
    path = checkpoints.path(8)
    for length in (path.stat().st_size - 1, 20, 0):
        with open(path, "r+b") as file:
            file.truncate(length)
        with pytest.raises(ft.errors.FileError) as info:
            checkpoints.restore(w)
        message = str(info.value)
        assert message.startswith(f"the checkpoint of step 8 is damaged: {path}: ")
        assert f"\n  at {line_of(info.tb, __file__)}\n" in message
        assert "fix: checkpoints.restore(like, step=3) takes the one before\n" in message
        assert message.endswith("functensor.errors 19")
    assert checkpoints.restore(w, step=3).step == 3
    # It is not the best of those that can be read, and it is not removed for that.
    assert checkpoints.restore(step="best").step == 3
    for step in (11, 12, 13):
        checkpoints.save(step, w, metric=0.0)
    assert checkpoints.steps() == [3, 8, 11, 12, 13]


def test_the_first_checkpoint_has_none_before_it(tmp_path):
    checkpoints = ft.Checkpoints(tmp_path)
    checkpoints.save(0, 1)
    checkpoints.path(0).write_bytes(b"")
    with pytest.raises(ft.errors.FileError, match="there is no checkpoint before it: begin anew"):
        checkpoints.restore()


def test_a_checkpoint_that_does_not_fit(tmp_path):
    checkpoints = ft.Checkpoints(tmp_path)
    checkpoints.save(0, {"w": np.ones(3)})
    with pytest.raises(ft.errors.TreeMismatchError, match="expected float64"):
        checkpoints.restore({"w": np.ones(2)})


def test_what_is_not_there(tmp_path):
    checkpoints = ft.Checkpoints(tmp_path, best="min")
    for step in (None, "latest", "best", 3):
        with pytest.raises(FileNotFoundError, match=f"no checkpoint of step {step!r}: there"):
            checkpoints.restore(step=step)
    checkpoints.save(4, 1)
    with pytest.raises(FileNotFoundError, match="no checkpoint of step 3: there are 4\n"):
        checkpoints.restore(step=3)
    with pytest.raises(ValueError, match="a number, \"latest\" or \"best\", not 'last'"):
        checkpoints.restore(step="last")


def test_wrong_arguments(tmp_path):
    for options, text in (
        ({"keep": 0}, "keep is 1 or more, not 0"),
        ({"best": "least"}, "best is \"min\", \"max\" or None, not 'least'"),
    ):
        with pytest.raises(ValueError, match=text):
            ft.Checkpoints(tmp_path, **options)
    with pytest.raises(ValueError, match="a step is 0 or more, not -1"):
        ft.Checkpoints(tmp_path).save(-1, 1)
    with pytest.raises(TypeError):
        ft.Checkpoints(tmp_path).save(0, {"a": {1}})
    assert numpy.array([*tmp_path.iterdir()]).size == 0
