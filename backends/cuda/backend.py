"""The backend named ``cupy``: it runs a primitive's implementation on the GPU of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import protocol
from ..annotations import Buffer, DType
from ..fresh_results import FRESH_PRIMITIVES
from . import driver
from .capturing import captured_here, copied_once, kept_by_graph

if TYPE_CHECKING:
    from cupy import ndarray

__all__ = ["CupyBackend", "PinnedCopies"]

GENERIC = np.generic
# The numbers that are kept on the devices for the next time.
MOST_KEPT_NUMBERS = 1000
# Copies in one block of the host's memory begin at multiples of so many bytes.
ALIGNED = 64


class CupyBackend(protocol.Backend):
    """Implements ``Backend`` over ``cupy``; its devices are ``cuda:0``, ``cuda:1`` and so on."""

    name = "cupy"
    kind = "cuda"
    fresh = FRESH_PRIMITIVES

    def __init__(self, cupy: Any) -> None:
        self.xp = cupy
        self.buffer_type = cupy.ndarray
        self.count: int = cupy.cuda.runtime.getDeviceCount()
        # These modules import CuPy; the driver's module has made sure that it is there.
        from .functions import GPU_FUNCTIONS, TAKES_BFLOAT16
        from .kernels.cross_entropy import AHEAD_FUNCTIONS
        from .kernels.elementwise import GRAD_RULES, add_into
        from .kernels.optimizers import UPDATE_FUNCTIONS
        from .launch import Kernel

        Kernel.alone = self.count == 1
        self.kernels = GPU_FUNCTIONS
        self.grads = {
            name: tuple(rule and self.where_it_is(rule) for rule in rules)
            for name, rules in GRAD_RULES.items()
        }
        self.add_into = self.where_it_is(add_into)
        self.ahead = AHEAD_FUNCTIONS
        self.takes_bfloat16 = TAKES_BFLOAT16
        self.mixes_bfloat16 = frozenset({"cross_entropy_grad"})
        memory = cupy.cuda.memory
        self.own_memory = frozenset({memory.PooledMemory, memory.Memory, memory.MemoryAsync})
        self.numbers: dict[tuple[bytes, DType, str, int], ndarray] = {}
        self.updates = UPDATE_FUNCTIONS

    def where_it_is(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a rule that computes on its cotangent's GPU, where there are several."""
        if self.count == 1:
            return rule

        def placed(g: ndarray, *rest: Any) -> Any:
            with self.xp.cuda.Device(g.data.device_id):
                return rule(g, *rest)

        return placed

    def to_host(self, buffer: ndarray) -> Buffer:
        """Returns a ``numpy.ndarray`` with the values, once they are computed."""
        try:
            with self.current(self.device_of(buffer)):
                host: Buffer = buffer.get()
                return host
        finally:
            self.waited()

    def to_host_later(self, buffers: Sequence[ndarray]) -> protocol.Arrival:
        """Queues copies to the host's memory on the current stream."""
        return PinnedCopies(self, buffers)

    def synchronize(self) -> None:
        """Waits until the work on the current device's current stream is done."""
        try:
            self.xp.cuda.get_current_stream().synchronize()
        finally:
            self.waited()

    def copy_all(self, pairs: Sequence[tuple[ndarray, ndarray]]) -> None:
        """Copies arrays into others, those without strides by one launch."""
        from .kernels.plan import copy_arrays
        from .launch import is_contiguous

        plain = [pair for pair in pairs if all(map(is_contiguous, pair))]
        copy_arrays(plain)
        super().copy_all([pair for pair in pairs if not all(map(is_contiguous, pair))])

    def call_at_launches(self, before: Callable[[], None], behind: Callable[[], None]) -> bool:
        """Has functions called at each launch of the graph that this thread records."""
        if captured_here.kept is None:
            return False
        if (before, behind) not in captured_here.launched:
            captured_here.launched += ((before, behind),)
        return True

    def devices(self) -> list[str]:
        """Returns ``["cuda:0", ...]``."""
        return [f"cuda:{number}" for number in range(self.count)]

    def device(self, name: str) -> str:
        """Returns ``cuda:0`` for ``cuda``, if that is the current device."""
        _, _, number = name.partition(":")
        full = f"cuda:{int(number) if number else self.xp.cuda.runtime.getDevice()}"
        if full not in self.devices():
            raise protocol.no_device(name, ["cpu", *self.devices()])
        return full

    def device_of(self, buffer: ndarray) -> str:
        """Returns the name of the GPU in whose memory a buffer is."""
        return f"cuda:{buffer.data.device_id}"

    def current(self, device: str) -> AbstractContextManager[Any]:
        """Makes a GPU the one where CuPy computes, for a ``with`` block."""
        return self.xp.cuda.Device(int(device.partition(":")[2]))  # type: ignore[no-any-return]

    def stream_of_thread(self) -> Callable[[], AbstractContextManager[Any]]:
        """Returns what makes this thread's current stream that of a block in another thread."""
        # CuPy's streams are context managers, and every thread has a current one of its own.
        stream = self.xp.cuda.get_current_stream()
        return lambda: stream

    def put(self, buffer: Any, device: str) -> ndarray:
        """Returns the values of a NumPy array, or of another GPU's, on a GPU.

        The copy is queued on the current stream: nothing waits for it. CuPy first copies a NumPy
        array into pinned memory, so that it may be changed at once.
        """
        if isinstance(buffer, GENERIC | float | int | bool | complex):
            return self.number(np.asarray(buffer), device)
        with self.current(device):
            if isinstance(buffer, self.xp.ndarray):
                return buffer.copy()
            return self.xp.asarray(np.asarray(buffer))

    def number(self, value: Buffer, device: str) -> ndarray:
        """Returns a number's buffer without axes; on one stream the same one every time."""
        # Another stream would not wait for the copy.
        stream = captured_here.stream
        if stream is None:
            stream = self.xp.cuda.get_current_stream().ptr
        key = value.tobytes(), value.dtype, device, stream
        found = self.numbers.get(key)
        if found is None:
            if len(self.numbers) > MOST_KEPT_NUMBERS:
                self.numbers.clear()
            copied_once()
            with self.current(device):
                found = self.numbers[key] = self.xp.asarray(value)
        return kept_by_graph(found)

    def adopted(self, array: Any) -> ndarray:
        """Returns another library's array on a GPU as a buffer that shares its memory."""
        if isinstance(array, self.xp.ndarray):
            return array
        if hasattr(array, "__dlpack__"):
            return self.xp.from_dlpack(array)
        return self.xp.asarray(array)

    def memory(self) -> dict[str, int]:
        """Returns bytes on the current device: in use by arrays, held by the pool, free, total."""
        pool = self.xp.get_default_memory_pool()
        free, total = self.xp.cuda.runtime.memGetInfo()
        return {"used": pool.used_bytes(), "held": pool.total_bytes(), "free": free, "total": total}

    def info(self) -> dict[str, Any]:
        """Returns versions, the GPUs' names, and which library does what."""
        runtime = self.xp.cuda.runtime
        properties = [runtime.getDeviceProperties(number) for number in range(self.count)]
        return {
            "version": self.xp.__version__,
            "cuda": runtime.runtimeGetVersion(),
            "gpus": [p["name"].decode() for p in properties],
            "blas": "cuBLAS",
            "cudnn": import_module("..cudnn", __name__).describe(),
            "devices": self.devices(),
        }

    def synchronize_device(self, device: str) -> None:
        """Waits until all work on a GPU is done, on whatever stream it is."""
        try:
            with self.current(device) as current:
                current.synchronize()
        finally:
            self.waited()

    def owns_memory(self, buffer: ndarray) -> bool:
        """Says whether a buffer has memory of CuPy's, which no other library knows."""
        return buffer.base is None and type(buffer.data.mem) in self.own_memory

    def native_test(self, program: Any, of_loop: bool = False) -> Callable[[Any], bool]:
        """Returns what says whether kernels compute an equation of a program."""
        from .plan.fused_equations import is_fused  # only compiled functions need it

        return is_fused

    def plan_of_kernels(
        self,
        program: Any,
        bound: Callable[[Any], Any],
        donated: Sequence[int] = (),
        moving: bool = False,
    ) -> Any:
        """Returns what runs a program on buffers, its regions as kernels that are made for it.

        Args:
            program: the program.
            bound: returns what computes an equation that is a call, such as a loop, on buffers.
            donated: the numbers of the inputs whose memory results may take.
            moving: whether inputs are large and lie elsewhere in each call.
        """
        from .plan import gpu_plan  # only compiled functions need it

        return gpu_plan(program, bound, donated, moving)

    def adopt(self, primitive: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns an implementation that runs on the one device of its operands."""
        buffer_type = self.buffer_type

        def placed(*buffers: Any, **params: Any) -> Any:
            places = {b.data.device_id for b in buffers if type(b) is buffer_type}
            if len(places) > 1:
                raise protocol.on_several_devices(self, buffers)
            if not places:
                return function(*buffers, **params)
            with self.xp.cuda.Device(*places):
                return function(*buffers, **params)

        return super().adopt(primitive, function if self.count == 1 else placed)


protocol.register(CupyBackend(driver.imported()))


class PinnedCopies(protocol.Arrival):
    """Copies in one block of pinned memory, which a GPU writes while the program goes on."""

    def __init__(self, backend: CupyBackend, buffers: Sequence[ndarray]) -> None:
        self.backend = backend
        cupy = backend.xp
        stream = cupy.cuda.get_current_stream()
        whole = [cupy.ascontiguousarray(buffer) for buffer in buffers]
        ends = list(accumulate(-(-buffer.nbytes // ALIGNED) * ALIGNED for buffer in whole))
        self.block = cupy.cuda.alloc_pinned_memory(max(ends[-1], 1))
        hosts = []
        for buffer, given, start in zip(whole, buffers, [0, *ends]):
            host = np.frombuffer(self.block, buffer.dtype, buffer.size, start)
            hosts.append(host.reshape(given.shape))
            if buffer.nbytes:
                buffer.data.copy_to_host_async(self.block.ptr + start, buffer.nbytes, stream)
        self.event = cupy.cuda.Event(disable_timing=True)
        self.event.record(stream)
        super().__init__(hosts)

    def ready(self) -> bool:
        return bool(self.event.done)

    def values(self) -> Sequence[Buffer]:
        if self.block is not None:
            try:
                self.event.synchronize()
            finally:
                self.backend.waited()
            # Pinned memory is scarce, and hooks may keep what they are shown.
            self.hosts = [host.copy() for host in self.hosts]
            self.block = None
        return self.hosts
