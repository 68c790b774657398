"""The memory that a process takes while it trains, as Linux counts it."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Unsupported
from benchmarks.data import problem

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
FORGET_PEAK = "5"


def _kibibytes(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


def resident() -> int:
    """Bytes that the process has in memory, once what is free went back to the system."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    return 1024 * _kibibytes("VmRSS")


def peak() -> int:
    """The most bytes that it had since `forget_peak`."""
    return 1024 * _kibibytes("VmHWM")


def forget_peak() -> None:
    """Begin to measure another peak."""
    CLEAR.write_text(FORGET_PEAK)


def footprint(peer: Any, workload: str, count: int) -> dict[str, Any]:
    """Train for a few steps, and measure.

    Args:
        peer: a `benchmarks.case.Peer` that has been imported.
        workload: the name of one that trains.
        count: how many steps to take after the first.

    Returns:
        Bytes: `base`, after imports and with the data as NumPy arrays; the rest is beyond that.
        `first` is the peak of making the peer's arrays and of the first step, which compiles;
        `held` what stays between steps; `steps` the peak of the steps after the first. `before`
        and `after` are the parameters' addresses around one step.
    """
    if not CLEAR.exists():
        raise Unsupported("measured on Linux only")
    data = problem(workload)
    if data.kind != "train":
        raise Unsupported(f"{workload} does not train")
    peer.asarray(np.zeros(1, np.float32))  # starts what the library starts with its first array
    base = resident()
    forget_peak()
    case = peer.build(data, "grad")
    case.forget()
    del data
    case.step()
    first = peak() - base
    case.step()
    held = resident() - base
    forget_peak()
    for _ in range(count - 1):
        case.step()
    before = case.addresses()
    case.step()
    after = case.addresses()
    figures = {"base": base, "first": first, "held": held, "steps": peak() - base}
    return {**figures, "before": before, "after": after}
