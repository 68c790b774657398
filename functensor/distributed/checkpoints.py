"""Checkpoints of a training of several processes, each of which writes its shards.

A checkpoint is a folder: ``rank_00000.safetensors`` and so on have each process's parts, by the
number of the shard, and say which parts they are; ``whole.safetensors`` has all else, with the
number of a shard in its place; and ``manifest.json`` says what belongs together. The folder gets
its name when all is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from .. import tree as trees
from ..backends.devices import on_device
from ..files.checkpoints import RestoredCheckpoint, StepFolder
from ..files.file_errors import FileError, TreeMismatchError
from ..files.loading import load, read_metadata
from ..files.safe_write import synchronize_folder, write_whole
from ..files.saving import save
from ..primitives.core.buffers import device_of, to_buffer, wrap
from ..primitives.core.errors import failure
from ..primitives.gradient_buckets import shard_length
from .checking import compare_processes
from .failures import Absence
from .objects import broadcast_object, gathered_words
from .shards import Shard, is_shard
from .world import world

__all__ = ["Checkpoints"]

MANIFEST_FORMAT = 1
# Of what a process could not do the others get so many bytes.
LONGEST_REASON = 500


class Checkpoints(StepFolder):
    """Saves and restores the state of a training of several processes, keeping the last ones.

    All processes call its methods, in a folder that all see. A checkpoint is there as a whole or
    not at all, also where a process is killed while it writes. It is restored by any number of
    processes: each reads the parts that it needs.

    Args:
        folder: where the checkpoints are; it is made if it does not exist.
        keep: how many of the latest steps are kept.

    Raises:
        ValueError: ``keep`` is no positive integer.

    >>> import tempfile
    >>> import functensor as ft, functensor.numpy as np
    >>> optimizer = ft.distributed.sharded(ft.optim.adam(0.1))
    >>> params = {"w": np.ones(3)}
    >>> state = optimizer.init(params)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = ft.distributed.Checkpoints(folder)
    ...     checkpoints.save(7, (params, state))
    ...     restored = checkpoints.restore((params, state))
    >>> restored.step, restored.tree[1][2]
    (7, {'w': <one of 1 shards of float64[3]>})
    """

    who, suffix = "distributed.Checkpoints", ""

    def __init__(self, folder: str | PathLike[str], *, keep: int = 3) -> None:
        super().__init__(folder, keep)
        if world().rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)

    def steps(self) -> list[int]:
        """Returns the steps of which there are whole checkpoints, from first to last.

        They are those that the process of rank 0 sees.
        """
        found: list[int] = broadcast_object(
            self._steps() if world().rank == 0 else None, world().comm
        )
        return found

    def _steps(self) -> list[int]:
        found = super().steps()
        return [step for step in found if (self.path(step) / "manifest.json").exists()]

    def save(self, step: int, tree: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Saves the state of a step, and removes checkpoints that are not kept any more.

        Args:
            step: how far the training is, from 0 up; one that is there already is replaced.
            tree: all that the training goes on from, of the same structure on all processes.
                Shards are those of each process, and all else is that of rank 0.
            metadata: as for `functensor.save`.

        Raises:
            OSError: a file cannot be written; older checkpoints are as they were.
            DistributedError: another process could not write.
            CollectiveError: another process saves another step, or other shards.
        """
        here = world()
        path = self.path(step)
        temporary = path.with_name(f".{path.name}.tmp")
        leaves, treedef = trees.flatten(tree, is_leaf=is_shard)
        shards = [leaf for leaf in leaves if is_shard(leaf)]
        kinds = ", ".join(f"{x.dtype}{list(x.shape)}" for x in shards) or "none"
        compare_processes(f"{self.who}.save of step {step} with shards: {kinds}")

        def begin() -> None:
            if here.rank == 0:
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir()

        def write() -> None:
            save(
                temporary / f"rank_{here.rank:05d}.safetensors",
                {str(i): shard.part for i, shard in enumerate(shards)},
                metadata={"places": [shard.place for shard in shards]},
            )
            if here.rank == 0:
                numbers = iter(range(len(shards)))
                whole = treedef.unflatten([next(numbers) if is_shard(x) else x for x in leaves])
                notes = {"step": int(step), "metadata": {} if metadata is None else dict(metadata)}
                save(temporary / "whole.safetensors", whole, metadata=notes)

        def finish() -> None:
            if here.rank == 0:
                self._finish(temporary, path, shards)

        done_by_all(begin, "beginning of a checkpoint")
        done_by_all(write, "end of a checkpoint")
        done_by_all(finish, "name of a checkpoint")

    def _finish(self, temporary: Path, path: Path, shards: list[Shard]) -> None:
        """Gives a checkpoint that is written its name, and removes older ones."""
        manifest = {
            "format": MANIFEST_FORMAT,
            "processes": world().size,
            "shards": [{**_kind(x), "count": x.count} for x in shards],
        }

        def write(file: IO[bytes]) -> None:
            file.write(json.dumps(manifest).encode())

        write_whole(temporary / "manifest.json", write, lambda path: None)
        synchronize_folder(temporary)
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
        synchronize_folder(self.folder)
        for step in self._steps()[: -self.keep]:
            if self.path(step) != path:
                shutil.rmtree(self.path(step))
        for left in self.folder.glob(".step_*.tmp"):
            shutil.rmtree(left, ignore_errors=True)

    def restore(self, like: Any, step: int | None = None) -> RestoredCheckpoint:
        """Returns the state of a step, which another number of processes may have saved.

        Args:
            like: a tree of the same structure, as for `functensor.load`, with the shards of these
                processes.
            step: a step; None for the last one.

        Returns:
            A named tuple ``(step, tree, metric, metadata)``; the metric is None.

        Raises:
            FileError: a file is damaged or missing.
            FileNotFoundError: there is no such checkpoint.
            TreeMismatchError: it does not fit ``like``.
        """
        steps = self.steps()
        wanted = steps[-1] if step is None and steps else step
        if wanted not in steps:
            raise self._no_step(step, steps)
        path = self.path(wanted)
        manifest = json.loads((path / "manifest.json").read_text())
        leaves, treedef = trees.flatten(like, is_leaf=is_shard)
        shards = [leaf for leaf in leaves if is_shard(leaf)]
        written = [(each.pop("count"), each) for each in manifest["shards"]]
        kinds = [_kind(x) for x in shards]
        if kinds != [kind for _, kind in written]:
            raise failure(
                TreeMismatchError,
                f"the checkpoint of step {wanted} has {len(written)} shards of other "
                f"shapes or dtypes than the {len(kinds)} that are wanted",
                fix="restore(like) with the state of the same optimizer and parameters",
                number=None,
            )
        whole_path = path / "whole.safetensors"
        numbers = iter(range(len(shards)))
        outline = treedef.unflatten([next(numbers) if is_shard(x) else x for x in leaves])
        whole = trees.leaves(load(whole_path, outline))
        paths = [self._part_file(path, rank) for rank in range(manifest["processes"])]
        files = [(load(part, mmap=True), read_metadata(part)["places"]) for part in paths]
        parts = iter([
            self._part(files, i, count, shard)
            for i, ((count, _), shard) in enumerate(zip(written, shards, strict=True))
        ])
        made = [next(parts) if is_shard(x) else new for x, new in zip(leaves, whole, strict=True)]
        metadata = read_metadata(whole_path).get("metadata", {})
        return RestoredCheckpoint(wanted, treedef.unflatten(made), None, metadata)

    def _part_file(self, path: Path, rank: int) -> Path:
        found = path / f"rank_{rank:05d}.safetensors"
        if not found.exists():
            raise failure(
                FileError,
                f"{path} has no file of rank {rank}",
                fix="a folder that all processes see, and that is copied as a whole",
                number=19,
            )
        return found

    def _part(
        self, files: list[tuple[Any, list[int]]], number: int, count: int, shard: Shard
    ) -> Shard:
        """Returns this process's part of an array, from the files of so many other parts."""
        # Along other axes of a mesh processes have the same parts.
        rows = {places[number]: to_buffer(file[str(number)]) for file, places in files}
        size = prod(shard.shape)
        length, old = shard_length(size, shard.count), shard_length(size, count)
        begin = shard.place * length
        end = min(begin + length, size)
        out = np.zeros(length, shard.dtype)
        for i in range(count):
            low, high = max(begin, i * old), min(end, (i + 1) * old)
            if low < high:
                out[low - begin : high - begin] = rows[i][low - i * old : high - i * old]
        device = device_of(shard.part)
        return replace(shard, part=wrap(on_device(out, device)))

    def __repr__(self) -> str:
        return f"distributed.Checkpoints({str(self.folder)!r}, keep={self.keep})"


def _kind(shard: Shard) -> dict[str, Any]:
    """Returns what a whole array has in common, however it is cut."""
    return {"shape": list(shard.shape), "dtype": str(shard.dtype)}


def done_by_all(do: Callable[[], None], what: str) -> None:
    """Does something, and waits until all processes have done it.

    Args:
        do: does the part of this process.
        what: what is done, in words.

    Raises:
        DistributedError: another process could not do it.
    """
    here = world()
    failed: Exception | None = None
    try:
        do()
    except Exception as error:
        failed = error
    if here.comm is not None:
        words = [type(failed).__name__, *str(failed).splitlines()[:1]] if failed else []
        told = gathered_words(here.comm, ": ".join(words), what, LONGEST_REASON)
        rank = next((i for i, words in enumerate(told) if words), None)
        if failed is None and rank is not None:
            raise Absence(
                f"rank {rank} could not save its part of a checkpoint: {told[rank]}",
                f"    rank {here.rank} of {here.size} waits for the {what}",
                "mend that error; checkpoints of earlier steps are as they were",
            ).error()
    if failed is not None:
        raise failed
