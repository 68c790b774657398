"""Checks of checkpoints that several processes write, and of loaders that deal out examples."""

import contextlib
import io
import shutil
import tempfile
from pathlib import Path

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.data import DataLoader, IterableDataset, TensorDataset
from functensor.distributed import Checkpoints, P, Shard, broadcast, shard, sharded
from functensor.distributed.objects import broadcast_object
from functensor.errors import CollectiveError, DistributedError, FileError, TreeMismatchError
from functensor.torch.utils.data.distributed import DistributedSampler

RANK, SIZE = ft.distributed.rank(), ft.distributed.size()
WORLD = ft.distributed.info().comm


@contextlib.contextmanager
def common_folder():
    """Gives a folder that all processes see."""
    name = broadcast_object(tempfile.mkdtemp() if RANK == 0 else None, WORLD)
    yield Path(name)
    # Where a check fails, all processes end without it.
    WORLD.Barrier()
    if RANK == 0:
        shutil.rmtree(name)


def everywhere(values):
    """Returns the lists of all processes, one behind the other."""
    rows = WORLD.allgather(list(values))
    return [x for row in rows for x in row]


def trained(stage):
    spread = sharded(ft.optim.adam(0.1), stage=stage)
    params = {"w": np.arange(11.0), "b": np.ones((2, 3), "float32")}
    if stage == 3:
        params = spread.shard(params)
    step = spread.minimize(lambda p: np.sum(p["w"] ** 2) + np.sum(p["b"]))
    return spread, *step(params, spread.init(params))


def check_a_checkpoint_has_all_parts():
    for stage in (1, 3):
        _, params, state = trained(stage)
        with common_folder() as folder:
            checkpoints = Checkpoints(folder / "new")
            loader = shard(DataLoader(list(range(64)), 8, shuffle=True, key=0))
            next(iter(loader))
            saved = {"state": (params, state), "loader": loader.state_dict(), "note": "text"}
            checkpoints.save(5, saved, metadata={"epoch": 1})
            like = {"state": (params, state), "loader": None, "note": ""}
            found = Checkpoints(folder / "new").restore({**like, "loader": loader.state_dict()})
            files = sorted(path.name for path in (folder / "new" / "step_0000000005").iterdir())
        assert found.step == 5
        assert found.metadata == {"epoch": 1}
        assert found.tree["loader"] == saved["loader"]
        assert found.tree["note"] == "text"
        for x, y in zip(
            ft.tree.leaves(found.tree["state"]), ft.tree.leaves((params, state)), strict=True
        ):
            numpy.testing.assert_array_equal(numpy.array(x), numpy.array(y))
        assert type(found.tree["state"][1][2]["w"]) is Shard
        ranks = [f"rank_{i:05d}.safetensors" for i in range(SIZE)]
        assert files == ["manifest.json", *ranks, "whole.safetensors"]


def check_parts_of_other_numbers_of_processes():
    """What n processes have written, m read: parts are cut anew."""
    whole = numpy.arange(11.0)
    with common_folder() as folder:
        checkpoints = Checkpoints(folder)
        for count in (1, 3, 7, 16):
            if RANK == 0:
                path = checkpoints.path(count)
                path.mkdir()
                length = -(-11 // count)
                rows = numpy.append(whole, numpy.zeros(length * count - 11)).reshape(count, -1)
                for rank, row in enumerate(rows):
                    file = path / f"rank_{rank:05d}.safetensors"
                    ft.save(file, {"0": row}, metadata={"places": [rank]})
                ft.save(path / "whole.safetensors", [0], metadata={"step": count, "metadata": {}})
                shards = f'[{{"shape": [11], "dtype": "float64", "count": {count}}}]'
                text = f'{{"format": 1, "processes": {count}, "shards": {shards}}}'
                (path / "manifest.json").write_text(text)
            WORLD.Barrier()
            like = [sharded(ft.optim.sgd(0.1), stage=3).shard(np.zeros(11))]
            found = checkpoints.restore(like, step=count).tree[0]
            numpy.testing.assert_array_equal(numpy.array(ft.distributed.gather(found)), whole)


def check_parts_along_one_axis_of_a_mesh():
    """Processes that differ along the other axis have the same part; more read what is left."""
    whole = np.arange(11.0)
    alone = sharded(ft.optim.momentum(1.0)).init(whole)
    mesh = ft.distributed.mesh({"data": 2, "model": SIZE // 2})
    for name in ("data", "model"):
        spread = sharded(ft.optim.momentum(1.0), name)
        specs = P(), P.local()
        begun = ft.distributed.spmd(spread.init, mesh, P(), P.local())(whole)
        _, state = ft.distributed.spmd(spread.update, mesh, (*specs, P()), specs)(
            whole, begun, whole
        )
        with common_folder() as folder:
            checkpoints = Checkpoints(folder)
            checkpoints.save(1, state)
            again, other = checkpoints.restore(begun).tree, checkpoints.restore(alone).tree
        for x, y in zip(ft.tree.leaves(again), ft.tree.leaves(state), strict=True):
            numpy.testing.assert_array_equal(numpy.array(x), numpy.array(y))
        (found,) = [x for x in ft.tree.leaves(ft.distributed.gather(other)) if x.ndim]
        numpy.testing.assert_array_equal(numpy.array(found), numpy.array(whole))


def check_a_checkpoint_is_whole_or_not_there():
    _, params, state = trained(1)
    with common_folder() as folder:
        checkpoints = Checkpoints(folder, keep=2)
        for step in (1, 2, 3):
            checkpoints.save(step, (params, state))
        assert checkpoints.steps() == [2, 3]
        if RANK == 0:
            # A process was killed before the manifest was written.
            shutil.copytree(checkpoints.path(3), folder / ".step_0000000004.tmp")
            (checkpoints.path(2) / "manifest.json").unlink()
        WORLD.Barrier()
        assert checkpoints.steps() == [3]
        checkpoints.save(3, (params, state))
        assert checkpoints.restore((params, state)).step == 3
        assert not (folder / ".step_0000000004.tmp").exists()


def check_errors_of_checkpoints():
    _, params, state = trained(1)
    with common_folder() as folder:
        checkpoints = Checkpoints(folder)
        with pytest.raises(FileNotFoundError, match="has no checkpoint of step 3: there are none"):
            checkpoints.restore((params, state), step=3)
        checkpoints.save(1, (params, state))
        other = sharded(ft.optim.adam(0.1)).init({"w": np.ones(5)})
        with pytest.raises(TreeMismatchError, match="has 4 shards of other shapes"):
            checkpoints.restore((params, other))
        WORLD.Barrier()
        if RANK == 0:
            (checkpoints.path(1) / f"rank_{SIZE - 1:05d}.safetensors").unlink()
        WORLD.Barrier()
        with pytest.raises(FileError, match=f"has no file of rank {SIZE - 1}"):
            checkpoints.restore((params, state))
    with pytest.raises(ValueError, match="keep is 1 or more, not 0"):
        Checkpoints("nowhere", keep=0)


def check_all_raise_where_one_cannot_save():
    _, params, state = trained(1)
    with common_folder() as folder:
        checkpoints = Checkpoints(folder)
        checkpoints.save(1, (params, state))
        # Only rank 0 writes what is not spread.
        kind, words = (TypeError, "which files do not hold") if RANK == 0 else (
            DistributedError, r"rank 0 could not save its part of a checkpoint: TypeError: save: ")
        with pytest.raises(kind, match=words):
            checkpoints.save(2, (params, state, print))
        with pytest.raises(CollectiveError, match=r"rank 1: .*save of step 3 with shards: float32"):
            checkpoints.save(2 + (RANK == 1), (params, state))
        assert checkpoints.steps() == [1]
        checkpoints.save(2, (params, state))
        assert checkpoints.steps() == [1, 2]


def check_batches_are_dealt_out():
    """All parts of a batch, one behind the other, are the batch of one process."""
    numbers = numpy.arange(41)
    for options in ({}, {"shuffle": True, "key": 3}, {"drop_last": True}):
        whole = DataLoader(TensorDataset(numbers), 2 * SIZE, **options)
        loader = shard(DataLoader(TensorDataset(numbers), 2 * SIZE, **options))
        for _ in range(2):
            batches = [x.tolist() for (x,) in whole]
            parts = [x.tolist() for (x,) in loader]
            assert len(parts) == len(loader)
            for batch, part in zip(batches, parts, strict=False):
                kept = batch[: len(batch) // SIZE * SIZE]
                assert everywhere(part) == kept


def check_a_loader_goes_on_where_another_number_of_processes_ended():
    def make():
        return DataLoader(list(range(40)), 2 * SIZE, shuffle=True, key=1)

    whole, loader = make(), shard(make())
    batches = iter(loader)
    wanted = [batch.tolist() for batch in whole]
    next(batches)
    alone, again = make(), shard(make())
    alone.load_state_dict(loader.state_dict())
    again.load_state_dict(loader.state_dict())
    assert [batch.tolist() for batch in alone] == wanted[1:]
    assert [everywhere(batch.tolist()) for batch in again] == wanted[1:]


class Lines(IterableDataset):
    def __iter__(self):
        return iter(range(4 * SIZE + 1))


def check_other_loaders_and_sets():
    parts = [batch.tolist() for batch in shard(DataLoader(Lines(), 2 * SIZE))]
    assert [everywhere(part) for part in parts] == [
        list(range(2 * SIZE)), list(range(2 * SIZE, 4 * SIZE))
    ]  # fmt: skip
    single = list(shard(DataLoader(list(range(4 * SIZE + 1)), None)))
    assert sorted(everywhere(map(int, single))) == list(range(4 * SIZE))
    lists = [[0, 1, 2, 3, 4], list(range(5, 5 + SIZE))]
    by_lists = shard(DataLoader(list(range(10 * SIZE)), batch_sampler=lists))
    assert [len(batch) for batch in by_lists] == [5 // SIZE, 1]
    assert len(shard(list(range(4 * SIZE + 3)))) == 4
    assert sorted(everywhere(shard(list(range(4 * SIZE + 3))))) == list(range(4 * SIZE))


def check_loaders_that_processes_cannot_share():
    from functensor.torch.utils import data

    with pytest.raises(ValueError, match=f"{SIZE} processes do not divide batches of {SIZE + 1}"):
        shard(DataLoader([1.0] * 50, SIZE + 1))
    with pytest.raises(ValueError, match="which each process has its own"):
        shard(data.DataLoader([1.0] * 50, SIZE, shuffle=True))
    with pytest.raises(TypeError, match="a generator is neither a loader nor a set"):
        shard(x for x in [1])


def check_the_sampler_of_torch():
    sampler = DistributedSampler(range(10 * SIZE + 1), seed=1)
    first = list(sampler)
    assert len(first) == len(sampler) == 11
    assert set(everywhere(first)) == set(range(10 * SIZE + 1))
    sampler.set_epoch(1)
    assert list(sampler) != first
    dropped = DistributedSampler(range(10 * SIZE + 1), drop_last=True, shuffle=False)
    assert everywhere(dropped) == [i for rank in range(SIZE) for i in range(rank, 10 * SIZE, SIZE)]


def check_prints_and_progress_are_of_rank_0():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        ft.distributed.print_once("loss", 0.5)
    assert out.getvalue() == ("loss 0.5\n" if RANK == 0 else "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    for _ in ft.training.progress(range(3), file=terminal):
        pass
    assert bool(terminal.getvalue()) == (RANK == 0)


def check_values_of_rank_0():
    found = broadcast({"x": np.full(3, float(RANK)), "n": RANK, "z": np.array(RANK), "s": "text"})
    numpy.testing.assert_array_equal(numpy.array(found["x"]), numpy.zeros(3))
    assert (int(found["n"]), int(found["z"]), found["s"]) == (0, 0, "text")


class Words(dict):
    """A node of trees with arrays, and beside these with what each process has of its own."""


ft.tree.register(
    Words, lambda x: ([x["w"]], x["own"]), lambda own, children: Words(w=children[0], own=own)
)


def check_what_is_no_leaf_may_differ_where_arrays_are_broadcast():
    found = broadcast(Words(w=np.full(2, float(RANK)), own=f"rank {RANK}"))
    assert (found["w"].tolist(), found["own"]) == ([0.0, 0.0], f"rank {RANK}")


def check_values_that_are_not_alike_are_not_broadcast():
    with pytest.raises(CollectiveError, match=r"rank 1: broadcast of .*int64\[2\]   <- differs"):
        broadcast({"x": np.zeros(3, "int64") if RANK != 1 else np.zeros(2, "int64")})
    with pytest.raises(CollectiveError, match=r"rank 1: broadcast of .*'y'"):
        broadcast({"x" if RANK != 1 else "y": np.zeros(3)})
    assert float(broadcast(np.array(float(RANK)))) == 0.0
    for change in (ft.jit, ft.vmap, ft.grad):
        with pytest.raises(ValueError, match="called under a transformation"):
            change(broadcast)(np.ones(2) if change is ft.vmap else 1.0)
