"""Checkpoints of a training: a folder with a file for each step that is kept."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..primitives.core.errors import failure
from .file_errors import FileError, path_text
from .loading import load, read_metadata
from .safe_write import remove_left_over, synchronize_folder
from .saving import save

__all__ = ["Checkpoints", "RestoredCheckpoint", "StepFolder"]


class RestoredCheckpoint(NamedTuple):
    """A checkpoint that was restored: its step, its tree, its metric and its metadata."""

    step: int
    tree: Any
    metric: float | None
    metadata: dict[str, Any]


class StepFolder:
    """A folder with checkpoints of steps.

    Attributes:
        who: the name of the class in messages.
        suffix: how the names of checkpoints end.
    """

    who = "Checkpoints"
    suffix = ".safetensors"

    def __init__(self, folder: str | PathLike[str], keep: int) -> None:
        if operator.index(keep) < 1:
            raise ValueError(f"{self.who}: keep is 1 or more, not {keep}")
        self.folder = Path(path_text(folder))
        self.keep = int(keep)

    def path(self, step: int) -> Path:
        """Returns where the checkpoint of a step is, whether it is there or not."""
        number = operator.index(step)
        if number < 0:
            raise ValueError(f"{self.who}: a step is 0 or more, not {step}")
        return self.folder / f"step_{number:010d}{self.suffix}"

    def steps(self) -> list[int]:
        """Returns the steps of which there are checkpoints, from first to last."""
        form = re.compile(r"step_(\d{10,})" + re.escape(self.suffix))
        names = [form.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted(int(name[1]) for name in names if name is not None)

    def _no_step(self, step: Any, steps: Sequence[int]) -> BaseException:
        """Returns the error that there is no checkpoint of a step."""
        there = f"there are {', '.join(map(str, steps))}" if steps else "there are none"
        return failure(
            FileNotFoundError,
            f"{self.folder} has no checkpoint of step {step!r}: {there}",
            fix="if checkpoints.steps(): restored = checkpoints.restore(like)",
            number=None,
        )


class Checkpoints(StepFolder):
    """Saves and restores the state of a training, keeping the last checkpoints and the best one.

    A checkpoint is one file, which is there as a whole or not at all, also if the process is
    killed. Older ones are removed once a new one is on the disk.

    Args:
        folder: where the files are; it is made if it does not exist.
        keep: how many of the latest steps are kept.
        best: ``"min"`` or ``"max"`` keeps the checkpoint of the least or greatest metric too;
            None keeps none for its metric.

    Raises:
        ValueError: ``keep`` is no positive integer, or ``best`` is none of those.

    >>> import tempfile
    >>> import functensor as ft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = ft.Checkpoints(folder, keep=2, best="min")
    ...     for step, loss in enumerate([3.0, 1.0, 2.0, 4.0]):
    ...         checkpoints.save(step, {"w": ft.numpy.ones(2) * step}, metric=loss)
    ...     checkpoints.steps(), checkpoints.restore(step="best").tree["w"]
    ([1, 2, 3], Array([1., 1.], dtype=float64, device='cpu'))
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        keep: int = 3,
        best: Literal["min", "max"] | None = None,
    ) -> None:
        if best not in (None, "min", "max"):
            raise ValueError(f'Checkpoints: best is "min", "max" or None, not {best!r}')
        super().__init__(folder, keep)
        self.best = best
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(
        self,
        step: int,
        tree: Any,
        metric: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Saves the state of a step, and removes checkpoints that are not kept any more.

        Args:
            step: how far the training is, from 0 up; one that is there already is replaced.
            tree: all that the training goes on from, as for `functensor.save`: parameters, the
                state of the optimizer, random keys, the position in the data.
            metric: how good it is, a real number; NaN is never the best.
            metadata: as for `functensor.save`.

        Raises:
            OSError: the file cannot be written; older checkpoints are as they were.
            TypeError: a leaf of the tree is nothing that files hold.
        """
        path = self.path(step)
        number = None if metric is None else float(metric)
        notes = {
            "step": int(step),
            # JSON has no numbers that are not finite.
            "metric": number.hex() if number is not None else None,
            "metadata": {} if metadata is None else dict(metadata),
        }
        save(path, tree, metadata=notes)
        remove_left_over(self.folder, ".step_*.tmp")
        self._remove_others(int(step))

    def _remove_others(self, step: int) -> None:
        """Removes what is not kept; never the step that was just saved, nor a damaged file."""
        kept = {step, *self.steps()[-self.keep :]}
        metrics = self._metrics()
        best = self._best(metrics)
        removed = False
        for other in metrics:
            if other not in kept and other != best:
                self.path(other).unlink(missing_ok=True)
                removed = True
        if removed:
            synchronize_folder(self.folder)

    def _metrics(self) -> dict[int, float | None]:
        """Returns the metrics of all checkpoints that can be read, by step."""
        found = {}
        for step in self.steps():
            try:
                found[step] = self._notes(step)[0]
            except (FileError, FileNotFoundError):
                continue
        return found

    def _best(self, metrics: Mapping[int, float | None]) -> int | None:
        """Returns the step of the best metric, the later one of equal ones."""
        if self.best is None:
            return None
        sign = 1 if self.best == "max" else -1
        ranks = [
            (sign * metric, step)
            for step, metric in metrics.items()
            if metric is not None and not math.isnan(metric)
        ]
        return max(ranks)[1] if ranks else None

    def _notes(self, step: int) -> tuple[float | None, dict[str, Any]]:
        """Returns the metric and the metadata of a step."""
        notes = read_metadata(self.path(step))
        metric, metadata = notes.get("metric"), notes.get("metadata")
        try:
            number = None if metric is None else float.fromhex(metric)
        except (TypeError, ValueError):
            number = None
        return number, metadata if isinstance(metadata, dict) else {}

    def restore(
        self,
        like: Any = None,
        step: int | Literal["latest", "best"] | None = None,
        *,
        mmap: bool = False,
        device: str | None = None,
    ) -> RestoredCheckpoint:
        """Returns the state of a step.

        Args:
            like: a tree of the same structure, as for `functensor.load`; modules, optimizers and
                generators in it go on from their states.
            step: a step; ``"latest"``, or None, for the last one, ``"best"`` for that of the best
                metric.
            mmap, device: as for `functensor.load`.

        Returns:
            A named tuple ``(step, tree, metric, metadata)``.

        Raises:
            FileError: the file is damaged; the message names the checkpoint before it.
            FileNotFoundError: there is no such checkpoint.
            TreeMismatchError: it does not fit ``like``.
        """
        steps = self.steps()
        wanted = self._wanted(step, steps)
        path = self.path(wanted)
        try:
            metric, metadata = self._notes(wanted)
            tree = load(path, like, mmap=mmap, device=device)
        except FileError as error:
            before = [other for other in steps if other < wanted]
            if before:
                fix = f"checkpoints.restore(like, step={before[-1]}) takes the one before"
            else:
                fix = "there is no checkpoint before it: begin anew"
            what = str(error).partition("\n")[0]
            raise failure(
                FileError, f"the checkpoint of step {wanted} is damaged: {what}", fix=fix, number=19
            ) from None
        return RestoredCheckpoint(wanted, tree, metric, metadata)

    def _wanted(self, step: int | str | None, steps: list[int]) -> int:
        """Returns the step that is asked for.

        Raises:
            FileNotFoundError: there is none.
        """
        found: int | None
        if step is None or step == "latest":
            found = steps[-1] if steps else None
        elif step == "best":
            found = self._best(self._metrics())
        elif isinstance(step, str):
            raise ValueError(f'restore: step is a number, "latest" or "best", not {step!r}')
        else:
            found = operator.index(step) if step in steps else None
        if found is None:
            raise self._no_step(step, steps)
        return found

    def __repr__(self) -> str:
        return f"Checkpoints({str(self.folder)!r}, keep={self.keep}, best={self.best!r})"
