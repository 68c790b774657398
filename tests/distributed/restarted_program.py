"""A training that goes on from its last checkpoint; a process may be killed in the middle.

    python restarted_program.py FOLDER STEP

STEP is the one before which the last process is killed; -1 for none.
"""

import os
import signal
import sys

import numpy

import functensor as ft
import functensor.numpy as np
from functensor.data import DataLoader, TensorDataset

STEPS = 12


def examples():
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(64, 5))
    return x, numpy.tanh(x @ rng.normal(size=(5, 2)))


def loss(params, x, y):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.mean((hidden @ params["v"] - y) ** 2)


def main(folder, killed_before):
    # Machine code that took over at another step would round otherwise.
    ft.config.deterministic = True
    here = ft.distributed.initialize(device="cpu")
    loader = DataLoader(TensorDataset(*examples()), 16, shuffle=True, key=0)
    loader = ft.distributed.shard(loader)
    optimizer = ft.distributed.sharded(ft.optim.adam(0.02), stage=2)
    step = ft.jit(ft.distributed.data_parallel(optimizer.minimize(loss)))
    rng = numpy.random.default_rng(1)
    params = {"w": rng.normal(size=(5, 7)), "b": np.zeros(7), "v": rng.normal(size=(7, 2))}
    state = optimizer.init(params)
    checkpoints = ft.distributed.Checkpoints(folder)
    number, batches = 0, iter(())
    if checkpoints.steps():
        found = checkpoints.restore({"training": (params, state), "loader": loader})
        number, (params, state) = found.step, found.tree["training"]
        ft.distributed.print_once("went on from step", number)
    while number < STEPS:
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            continue
        if number == killed_before and here.rank == here.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        params, state = step(params, state, *batch)
        number += 1
        if number % 3 == 0:
            checkpoints.save(number, {"training": (params, state), "loader": loader})
    ft.distributed.print_once("the last loss is", float(state.loss).hex())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
