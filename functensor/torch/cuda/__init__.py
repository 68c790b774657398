"""PyTorch's names for NVIDIA GPUs: which there are, their memory, and waiting for them.

>>> import functensor.torch as torch
>>> torch.cuda.is_available() == (torch.cuda.device_count() > 0)
True
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...backends.devices import DefaultDevice, default_device, devices, resolved
from ...backends.protocol import Backend
from ...faces.publish import publish
from ...random.generator import default_generator
from ...tensors import Tensor
from ..random import get_rng_state as cpu_state
from ..random import set_rng_state as set_cpu_state

# Modules within this one that are imported when they are first used.
NAMESPACES = {"amp"}

__all__ = [
    "DeviceProperties", "Event", "current_device", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state",
    "get_rng_state_all", "init", "initial_seed", "ipc_collect", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "mem_get_info",
    "memory_allocated", "memory_reserved", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "synchronize",
]  # fmt: skip

Gpu = int | str | None


def device_count() -> int:
    """Returns the number of GPUs; 0 without CuPy."""
    return len([name for name in devices() if name.startswith("cuda:")])


def is_available() -> bool:
    """Says whether there is a GPU, and CuPy to compute on it."""
    return device_count() > 0


def _named_gpu(device: Gpu) -> tuple[Backend, str]:
    """Returns the backend and the full name of a GPU: a number, a name, or the current one."""
    name = "cuda" if device is None else device
    return resolved(f"cuda:{name}" if isinstance(name, int) else str(name))


def _library(device: Gpu) -> tuple[Any, int]:
    """Returns the array module of a GPU, and the GPU's number."""
    backend, name = _named_gpu(device)
    return backend.xp, int(name.partition(":")[2])


def current_device() -> int:
    """Returns the number of the GPU that ``"cuda"`` stands for.

    Raises:
        BackendUnavailable: there is no GPU.
    """
    return _library(None)[1]


def set_device(device: int | str) -> None:
    """Makes a GPU the one that ``"cuda"`` stands for, in this thread.

    Raises:
        BackendUnavailable: there is no GPU.
        DeviceError: there is none of that number.
    """
    library, number = _library(device)
    library.cuda.Device(number).use()


def device(device: int | str) -> DefaultDevice:
    """Makes a GPU the current one for a ``with`` block, and the default device.

    Raises:
        BackendUnavailable: there is no GPU, when the block begins.
    """
    return default_device(f"cuda:{device}" if isinstance(device, int) else str(device))


def synchronize(device: Gpu = None) -> None:
    """Waits until a GPU, by default the current one, has done all that it was given.

    Raises:
        BackendUnavailable: there is no GPU.
    """
    backend, name = _named_gpu(device)
    backend.synchronize_device(name)


def get_device_name(device: Gpu = None) -> str:
    """Returns a GPU's name, as its maker gave it."""
    library, number = _library(device)
    name: str = library.cuda.runtime.getDeviceProperties(number)["name"].decode()
    return name


def get_device_capability(device: Gpu = None) -> tuple[int, int]:
    """Returns a GPU's compute capability, as two numbers."""
    library, number = _library(device)
    digits = library.cuda.Device(number).compute_capability
    return int(digits[:-1]), int(digits[-1])


class DeviceProperties(NamedTuple):
    """The properties of a GPU.

    Attributes:
        name: its name.
        major, minor: its compute capability.
        total_memory: the bytes of its memory.
        multi_processor_count, warp_size: how many multiprocessors it has, and threads of a warp.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int


def get_device_properties(device: Gpu = None) -> DeviceProperties:
    """Returns what a GPU is.

    Raises:
        BackendUnavailable: there is no GPU.
    """
    library, number = _library(device)
    found = library.cuda.runtime.getDeviceProperties(number)
    return DeviceProperties(
        found["name"].decode(), *get_device_capability(number), int(found["totalGlobalMem"]),
        int(found["multiProcessorCount"]), int(found["warpSize"]),
    )  # fmt: skip


def init() -> None:
    """Does nothing: a GPU is made ready when it is first used."""


def is_initialized() -> bool:
    """Says whether there is a GPU, and CuPy to compute on it."""
    return is_available()


def ipc_collect() -> None:
    """Does nothing: tensors are not shared by processes."""


def is_bf16_supported() -> bool:
    """Says whether the current GPU computes in bfloat16: from compute capability 8.0."""
    return is_available() and get_device_capability() >= (8, 0)


# -- memory


def _bytes(device: Gpu) -> dict[str, int]:
    backend, name = _named_gpu(device)
    with backend.current(name):
        return backend.memory()


def memory_allocated(device: Gpu = None) -> int:
    """Returns the bytes that tensors use on a GPU; without one there are none."""
    return _bytes(device)["used"] if is_available() else 0


def memory_reserved(device: Gpu = None) -> int:
    """Returns the bytes that are held for tensors on a GPU, in use or not; see above."""
    return _bytes(device)["held"] if is_available() else 0


def mem_get_info(device: Gpu = None) -> tuple[int, int]:
    """Returns how many bytes of a GPU are free, and how many it has."""
    found = _bytes(device)
    return found["free"], found["total"]


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the GPU; without a GPU there is none."""
    if is_available():
        _library(None)[0].get_default_memory_pool().free_all_blocks()


# -- random numbers


def manual_seed(seed: int) -> None:
    """Begins the default generator anew with a seed: it is the same on all devices."""
    default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Begins the default generator anew with a seed that chance gives."""
    default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """Returns the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state(device: Gpu = "cuda") -> Tensor:
    """Returns the state of the default generator, which is the same on all devices."""
    return cpu_state()


def set_rng_state(new_state: Tensor, device: Gpu = "cuda") -> None:
    """Lets the default generator, the same on all devices, go on from a state."""
    set_cpu_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Returns the state of the default generator once for every GPU."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Lets the default generator go on from the last of some states."""
    for state in new_states:
        set_rng_state(state)


# -- time


class Event:
    """A mark in the work of the current GPU, to wait for and to measure time by.

    Args:
        enable_timing: whether `elapsed_time` will be asked for.

    Raises:
        BackendUnavailable: there is no GPU.
    """

    def __init__(self, enable_timing: bool = False) -> None:
        library, _ = _library(None)
        self._event = library.cuda.Event(disable_timing=not enable_timing)

    def record(self) -> None:
        """Marks the end of all work that was given to the GPU so far."""
        self._event.record()

    def query(self) -> bool:
        """Says whether the GPU has come to the mark."""
        return bool(self._event.done)

    def synchronize(self) -> None:
        """Waits until the GPU has come to the mark."""
        try:
            self._event.synchronize()
        finally:
            _named_gpu(None)[0].waited()

    def elapsed_time(self, end_event: Event) -> float:
        """Returns the milliseconds from this mark to a later one."""
        from cupy.cuda import get_elapsed_time

        elapsed: float = get_elapsed_time(self._event, end_event._event)
        return elapsed


publish(globals())
