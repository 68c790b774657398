"""Runs of L-BFGS over doubles; run as a script it records PyTorch's."""

from pathlib import Path

import numpy as np

__all__ = ["RECORD", "RUNS", "made", "run"]

RECORD = Path(__file__).with_name("lbfgs_runs.npz")
# Options by the name of a run.
RUNS = {
    "plain": {"lr": 0.1, "max_iter": 4},
    "long": {"lr": 0.5, "max_iter": 12},
    "forgetful": {"lr": 0.3, "max_iter": 8, "history_size": 2},
    "counted": {"lr": 0.3, "max_iter": 10, "max_eval": 5},
    "tolerant": {"lr": 0.5, "max_iter": 20, "tolerance_grad": 0.5, "tolerance_change": 0.05},
    "searching": {"max_iter": 10, "line_search_fn": "strong_wolfe"},
    "counted searching": {
        "max_iter": 9, "max_eval": 5, "lr": 0.05, "line_search_fn": "strong_wolfe",
    },
    "far searching": {"lr": 9, "max_iter": 3, "history_size": 2, "line_search_fn": "strong_wolfe"},
}
STEPS = 6


def made(torch, options):
    """Returns parameters, an optimizer, its closure, and a list that this writes losses to."""
    rng = np.random.default_rng(3)
    a, b = (
        torch.tensor(rng.normal(size=shape).tolist(), dtype=torch.float64, requires_grad=True)
        for shape in ((3, 4), (4,))
    )
    optimizer = torch.optim.LBFGS([a, b], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (1 - a).pow(2).sum() + 5 * (b - a.pow(2)).pow(2).mean() + b.sin().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    return (a, b), optimizer, closure, losses


def run(torch, options, steps=STEPS):
    """Returns all losses, and a row for each step: counts, and the parameters after it."""
    params, optimizer, closure, losses = made(torch, options)
    rows = []
    for _ in range(steps):
        loss = optimizer.step(closure).item()
        memory = optimizer.state[params[0]]
        values = [np.asarray(x.detach().cpu().numpy()).ravel() for x in params]
        rows.append(np.concatenate([[loss, memory["n_iter"], memory["func_evals"]], *values]))
    return np.concatenate([losses, *rows])


if __name__ == "__main__":
    import torch

    found = {name: run(torch, options) for name, options in RUNS.items()}
    np.savez_compressed(RECORD, version=torch.__version__, **found)
