"""Schedules by Optax's names and ours; run as a script it records Optax's values."""

from pathlib import Path

import numpy as np

__all__ = ["RECORD", "SCHEDULES", "STEPS"]

RECORD = Path(__file__).with_name("schedules.npz")
STEPS = 40
# Ours | Optax's.
SCHEDULES = """
constant_rate(0.3) | constant_schedule(0.3)
step_decay(0.3, 7, 0.5) | exponential_decay(0.3, 7, 0.5, staircase=True)
exponential_decay(0.3, 7, 0.5) | exponential_decay(0.3, 7, 0.5)
exponential_decay(0.3, 7, 0.5, begin=5, end=0.1) | exponential_decay(0.3, 7, 0.5, 5, end_value=0.1)
exponential_decay(0.3, 7, 1.5, end=0.9) | exponential_decay(0.3, 7, 1.5, end_value=0.9)
polynomial_decay(0.3, 0.01, 20) | linear_schedule(0.3, 0.01, 20)
polynomial_decay(0.3, 0.01, 20, 2.5, begin=6) | polynomial_schedule(0.3, 0.01, 2.5, 20, 6)
cosine_decay(0.3, 25) | cosine_decay_schedule(0.3, 25)
cosine_decay(0.3, 25, 0.1, 1.5) | cosine_decay_schedule(0.3, 25, 0.1, 1.5)
warm_up(10, 0.3) | linear_schedule(0.0, 0.3, 10)
warm_up(10, exponential_decay(0.3, 7, 0.5), 0.1) | warmup_exponential_decay_schedule(0.1, 0.3, 10, 7, 0.5)
warm_up_cosine(0.3, 10, 35) | warmup_cosine_decay_schedule(0.0, 0.3, 10, 35)
warm_up_cosine(0.3, 10, 35, 0.1, 0.2, 2.0) | warmup_cosine_decay_schedule(0.1, 0.3, 10, 35, 0.06, 2.0)
one_cycle(0.3, 30) | cosine_onecycle_schedule(30, 0.3)
one_cycle(0.3, 30, 0.4, 10.0, 100.0) | cosine_onecycle_schedule(30, 0.3, 0.4, 10.0, 100.0)
piecewise_rate(0.3, {5: 0.5, 17: 3.0}) | piecewise_constant_schedule(0.3, {5: 0.5, 17: 3.0})
piecewise_rate(0.3, {5: 0.5, 17: 3.0}, way="linear") | piecewise_interpolate_schedule("linear", 0.3, {5: 0.5, 17: 3.0})
piecewise_rate(0.3, {5: 0.5, 17: 3.0}, way="cosine") | piecewise_interpolate_schedule("cosine", 0.3, {5: 0.5, 17: 3.0})
""".strip().splitlines()  # noqa: E501


if __name__ == "__main__":
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    rows = []
    for line in SCHEDULES:
        schedule = eval(line.split(" | ")[1], vars(optax))
        steps = [jax.numpy.asarray(step, "float64") for step in range(STEPS)]
        rows.append([float(schedule(step)) for step in steps])
    np.savez_compressed(RECORD, rows=np.array(rows), version=optax.__version__)
