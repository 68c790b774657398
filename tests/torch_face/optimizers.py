"""Optimizers and schedules, each for 60 steps over a matrix and a vector of doubles."""

from pathlib import Path

import numpy as np

__all__ = ["OPTIMIZERS", "optimizer_outcomes"]

OPTIMIZERS = Path(__file__).with_suffix(".txt").read_text().splitlines()
STEPS = 60


def optimizer_outcomes(torch, line, derive=True):
    """Returns the parameters after some numbers of steps, and the learning rates of all."""
    text, _, schedule = line.partition("|")
    rng = np.random.default_rng(3)
    a, b = (
        torch.tensor(rng.normal(size=shape).tolist(), dtype=torch.float64, requires_grad=True)
        for shape in ((3, 4), (4,))
    )
    names = {**vars(torch.optim), "params": [a, b]}
    optimizer = eval("optim." + text, {**names, "optim": torch.optim})
    scheduler = None
    if schedule:
        known = {name: getattr(torch.optim.lr_scheduler, name) for name in scheduled()}
        scheduler = eval(schedule.strip(), {**known, "optimizer": optimizer})
    found, rates = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (1 - a).pow(2).sum() + 5 * (b - a.pow(2)).pow(2).mean() + b.sin().sum()
        loss.backward()
        optimizer.step()
        rates.append([group["lr"] for group in optimizer.param_groups])
        if scheduler is not None:
            scheduler.step()
        if step in (0, 1, 9, STEPS - 1):
            found += [np.asarray(x.detach().cpu().numpy()).copy() for x in (a, b)]
    return [*found, np.array(rates)], []


def scheduled():
    """Returns the names of schedules in the lines."""
    return {
        "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
        "CyclicLR", "ExponentialLR", "MultiplicativeLR", "OneCycleLR",
        "LambdaLR", "LinearLR", "MultiStepLR", "PolynomialLR", "SequentialLR", "StepLR",
    }  # fmt: skip
