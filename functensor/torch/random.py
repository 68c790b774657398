"""PyTorch's names for the state of random numbers: ``torch.random``.

>>> import functensor.torch as torch
>>> with torch.random.fork_rng():
...     a = torch.rand(2)
>>> torch.equal(a, torch.rand(2))
True
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..faces.publish import publish
from ..random.generator import (
    Generator,
    default_generator,
    initial_seed,
    keeping_draws,
    manual_seed,
    seed,
)
from ..tensors import Tensor

__all__ = [
    "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
]  # fmt: skip

# A state is a seed and a number of draws, each of eight bytes.
STATE_BYTES = 16


def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str | None = None,
) -> keeping_draws:  # fmt: skip
    """Sets the default generator back at the end of a ``with`` block, or of a function's calls.

    Args:
        devices, device_type: have no effect: one generator draws for all devices.
        enabled: whether it does.
    """
    return keeping_draws(default_generator if enabled else Generator())


def get_rng_state() -> Tensor:
    """Returns the state of the default generator, a tensor of bytes.

    >>> import functensor.torch as torch
    >>> state = torch.get_rng_state()
    >>> a = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(a, torch.rand(2))
    True
    """
    numbers = np.array(default_generator.get_state(), np.uint64)
    return Tensor(numbers.astype("<u8").view(np.uint8), device="cpu")


def set_rng_state(new_state: Tensor) -> None:
    """Lets the default generator go on from a state that `get_rng_state` returned.

    Raises:
        TypeError: it is no tensor of bytes.
        RuntimeError: it has another size.
    """
    if not isinstance(new_state, Tensor) or new_state.dtype != np.uint8:
        raise TypeError("set_rng_state: a state is a tensor of uint8, as get_rng_state returns it")
    if new_state.shape != (STATE_BYTES,):
        raise RuntimeError(
            f"set_rng_state: the state has the shape {tuple(new_state.shape)}, not ({STATE_BYTES},)"
        )
    seed, draws = np.asarray(new_state.detach().cpu().numpy()).view("<u8").tolist()
    default_generator.set_state((seed, draws))


publish(globals())
