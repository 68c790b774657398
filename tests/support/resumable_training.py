"""Trainings that go on from their last checkpoint; one of arrays and one of a module.

Both learn digits-like classes with noise, shuffled data, an optimizer with a state and a rate that
changes. Called as a script, one trains until it is killed or done.
"""

import sys

import numpy

import functensor as ft
import functensor.numpy as np
from functensor import random, torch

IMAGES = numpy.random.default_rng(0).normal(size=(40, 16)).astype("float32")
CLASSES = (numpy.arange(40) * 7) % 5
STEPS, BATCH = 24, 8


class Stopped(Exception):
    """Stands for whatever ends a training."""


class Loader:
    """Gives batches in an order that is drawn anew for every epoch, and knows its position."""

    def __init__(self, seed):
        self.seed, self.epoch, self.at = seed, 0, 0

    def batch(self):
        key = random.fold_in(random.key(self.seed), self.epoch)
        order = numpy.asarray(random.permutation(key, len(IMAGES)))
        rows = order[self.at : self.at + BATCH]
        self.at += BATCH
        if self.at >= len(IMAGES):
            self.epoch, self.at = self.epoch + 1, 0
        return IMAGES[rows], CLASSES[rows]

    def state_dict(self):
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state):
        self.epoch, self.at = state["epoch"], state["at"]


def steps_from(checkpoints, state, stop):
    """Yields the steps that are left, after the state has gone on; raises before step ``stop``."""
    first = 0
    if checkpoints.steps():
        restored = checkpoints.restore(state)
        first = restored.step + 1
        state.update(restored.tree)
    for step in range(first, STEPS):
        if step == stop:
            raise Stopped
        yield step


def train_arrays(folder, stop=None):
    """Trains arrays; returns all that a checkpoint has at the end."""
    checkpoints = ft.Checkpoints(folder, keep=2, best="min")
    keys = random.split(random.key(1), 2)
    params = {
        "hidden": random.normal(keys[0], (16, 12), dtype="float32") * 0.3,
        "out": random.normal(keys[1], (12, 5), dtype="float32") * 0.3,
    }
    optimizer = ft.optim.adam(lambda step: 0.01 / (1.0 + 0.1 * step))
    state = {
        "params": params, "optimizer": optimizer.init(params), "noise": random.KeyStream(2),
        "key": random.key(3), "data": Loader(4), "loss": float("inf"),
    }  # fmt: skip

    @ft.jit
    def update(params, moments, key, images, classes):
        def loss(params):
            noisy = images + 0.1 * random.normal(key, images.shape, dtype="float32")
            logits = np.tanh(noisy @ params["hidden"]) @ params["out"]
            return np.mean(ft.nn.softmax_cross_entropy(logits, classes))

        value, gradients = ft.value_and_grad(loss)(params)
        return value, *optimizer.update(params, moments, gradients)

    for step in steps_from(checkpoints, state, stop):
        images, classes = state["data"].batch()
        key = random.fold_in(state["key"], step)
        images = images + 0.1 * random.normal(state["noise"](), images.shape, dtype="float32")
        loss, state["params"], state["optimizer"] = update(
            state["params"], state["optimizer"], key, images, classes
        )
        state["loss"] = float(loss)
        checkpoints.save(step, state, metric=state["loss"])
    return checkpoints.restore().tree


def train_module(folder, stop=None):
    """Trains a module; returns all that a checkpoint has at the end."""
    checkpoints = ft.Checkpoints(folder, keep=2)
    torch.manual_seed(5)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 12), torch.nn.BatchNorm1d(12), torch.nn.Dropout(0.2),
        torch.nn.Linear(12, 5),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.7)
    noise = torch.Generator().manual_seed(6)
    state = {
        "model": model, "optimizer": optimizer, "schedule": schedule, "data": Loader(7),
        "random": [noise, torch.default_generator],
    }  # fmt: skip
    for step in steps_from(checkpoints, state, stop):
        images, classes = (torch.as_tensor(x) for x in state["data"].batch())
        images = images + 0.1 * torch.randn(*images.shape, generator=noise)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
        schedule.step()
        checkpoints.save(step, state)
    return checkpoints.restore().tree


def of_one_plan(train):
    """Returns a training in whose functions no machine code takes over."""

    def run(*args):
        with ft.config.using(deterministic=True):
            return train(*args)

    return run


TRAININGS = {"arrays": of_one_plan(train_arrays), "module": of_one_plan(train_module)}

if __name__ == "__main__":
    TRAININGS[sys.argv[1]](sys.argv[2])
