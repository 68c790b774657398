"""PyTorch's functions that set how it computes: devices, threads, precision, printing."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..backends import protocol
from ..backends.config import config
from ..backends.devices import placement
from ..backends.devices import set_default_device as place_by_default
from ..tensors.device_names import device as device_of_name

__all__ = [
    "are_deterministic_algorithms_enabled", "get_default_device", "get_float32_matmul_precision",
    "get_num_threads", "set_default_device", "set_float32_matmul_precision", "set_num_threads",
    "set_printoptions", "use_deterministic_algorithms",
]  # fmt: skip

# PyTorch's words for the precision of products, and ours.
PRECISION_OF_PRODUCTS = {"highest": "highest", "high": "tf32", "medium": "tf32"}


def set_default_device(device: Any) -> None:
    """Makes tensors on a device from here on, when nothing says where, in this thread.

    Args:
        device: its name; None for the CPU.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.
    """
    place_by_default("cpu" if device is None else str(device))


def get_default_device() -> device_of_name:
    """Returns the device on which tensors are made when nothing says where."""
    return device_of_name(placement.device)


def set_num_threads(int: builtins.int) -> None:
    """Sets how many threads share large work on the CPU, BLAS's too, for the whole process.

    Args:
        int: the number, at least 1.

    Raises:
        RuntimeError: it is below 1.

    >>> import functensor.torch as torch
    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    if int < 1:
        raise RuntimeError(f"set_num_threads takes a number of at least 1, not {int}")
    cpu: Any = protocol.get("numpy")
    cpu.set_threads(int)


def get_num_threads() -> builtins.int:
    """Returns how many threads share large work on the CPU."""
    cpu: Any = protocol.get("numpy")
    threads: builtins.int = cpu.threads()
    return threads


def set_float32_matmul_precision(precision: str) -> None:
    """Sets the precision of products of float32 matrices on a GPU, in this thread.

    Args:
        precision: ``"highest"`` for float32; ``"high"`` and ``"medium"`` allow TF32.

    Raises:
        ValueError: it is another word.
    """
    if precision not in PRECISION_OF_PRODUCTS:
        words = ", ".join(map(repr, PRECISION_OF_PRODUCTS))
        raise ValueError(f"set_float32_matmul_precision takes one of {words}, not {precision!r}")
    config.matmul_precision = PRECISION_OF_PRODUCTS[precision]


def get_float32_matmul_precision() -> str:
    """Returns the precision of products of float32 matrices on a GPU: "highest" or "high"."""
    return "highest" if config.matmul_precision == "highest" else "high"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Sets whether results are the same bits in every run, in this thread.

    Args:
        mode: whether they are.
        warn_only: of no effect: every operation has a way that is deterministic.
    """
    config.deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """Says whether results are the same bits in every run."""
    return config.deterministic


def set_printoptions(
    precision: builtins.int | None = None, threshold: builtins.int | None = None,
    edgeitems: builtins.int | None = None, linewidth: builtins.int | None = None,
    profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Sets how arrays and tensors are printed, those of NumPy too.

    Args:
        precision: digits behind the point.
        threshold: how many elements are printed before the middle is left out.
        edgeitems: how many are printed at each end then.
        linewidth: the number of characters in a line.
        profile: ``"default"``, ``"short"`` or ``"full"``, for all that is not given.
        sci_mode: False for no exponents.
    """
    profiles = {
        None: {}, "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
        "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3, "linewidth": 80},
    }  # fmt: skip
    given = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth, "suppress": None if sci_mode is None else not sci_mode,
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value is not None}
    np.set_printoptions(**{**profiles[profile], **chosen})  # type: ignore[arg-type]
