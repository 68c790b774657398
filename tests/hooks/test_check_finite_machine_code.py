"""Machine code under `check_finite` is that of other calls, where the processor tells of it all."""

import re

import numpy
import pytest
from support.kept_plans import bits, compiled, counted, plan_of
from support.native import missing

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.backends.cpu.plan.plan import CpuPlan
from functensor.backends.cpu.plan.threads.pool import threads
from functensor.backends.processor import IS_X86_64
from functensor.jitting.compile import Compiled
from functensor.jitting.reported_run import MOST_FALSE_ALARMS

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(not IS_X86_64, reason="only x86-64 is asked"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

RNG = numpy.random.default_rng(3)
X, Y = RNG.uniform(0.5, 1.5, (2, 256, 1024)).astype("f")
W = RNG.uniform(0.5, 1.5, (1024, 300)).astype("f") / 1024
LABELS = RNG.integers(0, 300, 256)
LARGE = numpy.float32(3e38)


def network(x, w):
    hidden = nn.relu(x @ w - 0.5)
    logits = nn.relu(hidden @ w.T) @ w
    return np.mean(nn.softmax_cross_entropy(logits, LABELS))


def hidden_by_relu(x, y):
    return nn.relu(x + y)


# A function, which operand has the bad number, the number, and the beginning of the message.
CASES = {
    "a product": (lambda x, y: x @ W, 0, LARGE * 100, "matmul made"),
    "a product, hidden": (lambda x, y: nn.relu(-x @ W.T[:, :1].T), 0, LARGE, ""),
    "a sum of two": (lambda x, y: x + y, 0, LARGE, "add made infinity"),
    "hidden by relu": (hidden_by_relu, 0, -LARGE, "add made infinity"),
    "a difference": (lambda x, y: x - y, 0, -LARGE, "subtract made infinity"),
    "a quotient": (lambda x, y: (x + 1) / y, 1, 0.0, "divide made infinity"),
    "NaN of a quotient": (lambda x, y: (x - x) / y, 1, 0.0, "divide made NaN"),
    "a root": (lambda x, y: np.sqrt(x) + y, 0, -1.0, "sqrt made NaN"),
    "a square": (lambda x, y: x**2 + y, 0, LARGE, "square made infinity"),
    "a mean": (lambda x, y: np.mean(x * 100, axis=0), 0, LARGE, "multiply made infinity"),
    "a sum of rows": (lambda x, y: np.sum(np.stack([x, x, x]), axis=0), 0, LARGE, "sum made"),
}
