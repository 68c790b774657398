"""The protocol of backends, and the registry of backends by name."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from .messages import message

if TYPE_CHECKING:
    from .annotations import ArrayModule, Buffer, DTypeLike, Shape

__all__ = [
    "BACKENDS", "BY_BUFFER", "Arrival", "Backend", "BackendUnavailable", "DeviceError", "Loop",
    "LoopPrograms", "Plan", "get", "info", "loaded", "no_device", "on_several_devices",
    "operands_on_one_device", "register", "to_host", "when_registered",
]  # fmt: skip


class BackendUnavailable(ImportError):
    """A backend was asked for that is not there (docs/errors.md#error-17)."""


class DeviceError(ValueError):
    """Arrays of different devices meet, or a device does not exist (docs/errors.md#error-14)."""


class Loop:
    """The inputs and outputs of a body that runs again and again.

    Attributes:
        carries: the number of carries: the first inputs, and the first outputs of the step before.
        slices: the number of slices of arrays along the first axis, which are the next inputs.
        sums: the number of outputs that are added up, which are the last ones.
        tested: whether one more output tells if there is another step.
        backwards: whether the last slice comes first.
    """

    def __init__(
        self,
        carries: int,
        slices: int = 0,
        sums: int = 0,
        tested: bool = False,
        backwards: bool = False,
    ) -> None:
        self.carries = carries
        self.slices = slices
        self.sums = sums
        self.tested = tested
        self.backwards = backwards


class LoopPrograms(NamedTuple):
    """A loop in the form of which machine code is made.

    Attributes:
        body: takes carries, slices, values that are the same in every step, and the totals of sums;
            returns the next carries, what is stacked, and the next totals.
        condition: takes carries and values of its own, and says if there is another step; None for
            a loop without a test. Its own values are operands of the loop before those of the body.
        loop: the meaning of the body's inputs and outputs.
        steps: how many steps there are, or at most; None where nothing limits that.
    """

    body: Any
    condition: Any
    loop: Loop
    steps: int | None


class Plan(Protocol):
    """A plan: it runs a program on raw buffers.

    Attributes:
        source: the text that was generated for it.
    """

    @property
    def source(self) -> str: ...

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Returns the results' buffers, which are fresh memory or that of donated inputs."""


def no_device(name: object, there: list[str]) -> DeviceError:
    """Returns the error for a device of that name, which is none of those that exist."""
    return DeviceError(
        message(
            f"there is no device {name!r}; there are {', '.join(map(repr, there))}",
            fix='ft.to_device(x, "cuda"); names are "cpu", "cuda" for the current GPU, and those '
            "that ft.devices() lists",
            number=14,
        )
    )


# The table of a backend that has no kernels, no rules or no updates.
NO_ENTRIES: Mapping[str, Any] = MappingProxyType({})


def do_nothing() -> None:
    """Does nothing."""


class Arrival:
    """Buffers' values on their way to the host's memory; here they have arrived."""

    def __init__(self, hosts: Sequence[Buffer]) -> None:
        self.hosts = hosts

    def ready(self) -> bool:
        """Says whether all of them are there."""
        return True

    def values(self) -> Sequence[Buffer]:
        """Returns each as a ``numpy.ndarray``, once all are there."""
        return self.hosts


class Backend(Protocol):
    """One array module and what it does better than by the module's own functions.

    A subclass gives ``name``, ``kind``, ``xp``, ``buffer_type`` and ``to_host``; the rest has
    defaults, those of a backend with one device and without kernels of its own.

    Attributes:
        name: the name that ``get`` takes.
        kind: what names of its devices begin with, like ``cuda``.
        lacks: the errors with which its array module refuses what it does not have; the floors
            above then say which primitive and which backend it is.
        xp: the array module (NumPy's functions over its buffers).
        kernels: functions that replace ``xp``'s, by the name of the primitive.
        fresh: the names of the primitives, beside ufuncs and reductions, whose functions return
            memory that neither an operand nor another result has, whatever they are called with.
            A result of others may be an operand, or lie in one: nothing is written into an operand
            of theirs while the result is needed.
        ahead: functions that replace kernels where reverse mode will ask for a derivative. They
            return the output twice, the second one for the rules: work that was done for the
            derivative at the same time may hang on it.
        buffer_type: the class of its buffers.
        grads: rules of reverse mode that are quicker on its buffers than the declared ones, by
            the primitive's name: for every operand None, or ``rule(g, saved, params)``, which may
            give None to leave it to the declared one.
        accumulating: the names of the primitives that would add up or multiply many numbers in
            float16; they get them widened to float32.
        takes_bfloat16: the names of the primitives whose operands may be in bfloat16; operands of
            others are widened to float32 first.
        mixes_bfloat16: the names of those that take it beside other dtypes too, and decide the
            result's dtype themselves.
        add_into: adds a buffer to another one of its shape and dtype, in the other one's place, if
            it does so quicker than ``+=``, else None.
        updates: functions that update many parameters at once, by the optimizer's rule. Of columns
            (parameters, gradients, remembered arrays) and the step's numbers they make the new
            columns, with None for parameters that they leave to others.
        waited: is called when the host has waited for what was queued. It raises an error where
            that was given up, so that nobody takes what is in its memory for results.
    """

    name: str
    kind: str
    xp: ArrayModule
    buffer_type: type
    lacks: tuple[type[Exception], ...] = ()
    kernels: Mapping[str, Callable[..., Any]] = NO_ENTRIES
    fresh: frozenset[str] = frozenset()
    ahead: Mapping[str, Callable[..., tuple[Any, Any]]] = NO_ENTRIES
    grads: Mapping[str, tuple[Callable[[Any, Any, Any], Any] | None, ...]] = NO_ENTRIES
    accumulating: frozenset[str] = frozenset()
    takes_bfloat16: frozenset[str] = frozenset()
    mixes_bfloat16: frozenset[str] = frozenset()
    add_into: Callable[[Any, Any], Any] | None = None
    updates: Mapping[str, Callable[..., list[Any]]] = NO_ENTRIES
    waited: Callable[[], None] = staticmethod(do_nothing)

    def outside_of_plans(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns what computes a primitive where no plan does, of the function that plans call.

        Another function has that one as its ``wide``, by which plans find it.
        """
        return function

    def asarray(self, values: Any, dtype: DTypeLike | None = None) -> Buffer:
        """Returns a buffer that holds the values, without a copy where that is possible."""
        return self.xp.asarray(values, dtype=dtype)

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """Returns a buffer of zeros."""
        return self.xp.zeros(shape, dtype=np.dtype(dtype))

    def ones(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """Returns a buffer of ones."""
        return self.xp.ones(shape, dtype=np.dtype(dtype))

    def to_host(self, buffer: Buffer) -> Buffer:
        """Returns the buffer's values as a ``numpy.ndarray``."""

    def to_host_later(self, buffers: Sequence[Buffer]) -> Arrival:
        """Begins to copy buffers of the current device to the host, behind what computes them."""
        return Arrival([self.to_host(buffer) for buffer in buffers])

    def synchronize(self) -> None:
        """Waits until all work that was queued is done."""
        return

    def copy_all(self, pairs: Sequence[tuple[Buffer, Buffer]]) -> None:
        """Copies arrays into others of the same shape and dtype: each first one into its second."""
        for x, out in pairs:
            out[...] = x

    def call_at_launches(self, before: Callable[[], None], behind: Callable[[], None]) -> bool:
        """Has functions called at each launch of the graph that this thread records.

        Args:
            before: is called before it is launched.
            behind: is called when it is queued.

        Returns:
            Whether this thread records one.
        """
        return False

    def devices(self) -> list[str]:
        """Returns the names of the devices that are present."""
        return [self.kind]

    def device(self, name: str) -> str:
        """Returns the full name of a device; ``DeviceError`` where there is none of that name."""
        if name not in self.devices():
            raise no_device(name, self.devices())
        return name

    def device_of(self, buffer: Any) -> str:
        """Returns the name of the device where one of its buffers lies."""
        return self.kind

    def current(self, device: str) -> AbstractContextManager[Any]:
        """Makes a device the one where its array module computes, for a ``with`` block."""
        return nullcontext()

    def stream_of_thread(self) -> Callable[[], AbstractContextManager[Any]]:
        """Returns what makes, in another thread, a block queue its work where this thread does."""
        return nullcontext

    def put(self, buffer: Buffer, device: str) -> Buffer:
        """Returns any backend's buffer with its values on one of this backend's devices."""
        return self.asarray(to_host(buffer))

    def adopted(self, array: Any) -> Buffer:
        """Returns another library's array as a buffer that shares its memory."""
        return self.asarray(array)

    def adopt(self, primitive: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns an implementation that brings its operands to one device, or refuses to.

        Args:
            primitive: its ``movable`` is the slice of operands (indices, keys) that may be
                brought from the host, unless it is ``hosted``.
            function: computes it on this backend's buffers.
        """
        ndarray, movable, hosted = np.ndarray, primitive.movable, primitive.hosted

        def implementation(*buffers: Any, **params: Any) -> Any:
            for buffer in buffers:
                if type(buffer) is ndarray:
                    buffers = operands_on_one_device(self, buffers, movable, hosted)
                    break
            return function(*buffers, **params)

        return implementation

    def plan(
        self,
        program: Any,
        donated: Sequence[int] = (),
        watched: bool = False,
        native: bool = False,
    ) -> Plan:
        """Returns the plan of a program.

        Args:
            program: a program, as staging makes it.
            donated: the numbers of inputs whose memory results may take.
            watched: whether it reports where NaN or infinity is made, to the function that its
                caller has given NumPy for overflow and invalid values.
            native: whether its regions become machine code, which takes a while.
        """
        raise without_plans(self.name)

    def is_native(self, equation: Any) -> bool:
        """Says whether machine code computes an equation that can be a part of a region."""
        return False

    def plan_threads(self) -> int:
        """Returns how many threads share the work of plans."""
        return 1

    def native_test(self, program: Any, of_loop: bool = False) -> Callable[[Any], bool]:
        """Returns what says whether kernels compute an equation of a program, or of a loop's."""
        return self.is_native

    def synchronize_device(self, device: str) -> None:
        """Waits until all work on a device is done; by default nothing is under way."""
        return

    def owns_memory(self, buffer: Any) -> bool:
        """Says whether a buffer has memory of its own, which no other library knows."""
        return False

    def plan_of_kernels(
        self,
        program: Any,
        bound: Callable[[Any], Any],
        donated: Sequence[int] = (),
        moving: bool = False,
    ) -> Any:
        """Returns what runs a program on a GPU's buffers, its regions as kernels made for it.

        Args:
            program: the program.
            bound: returns what computes an equation that is a call, such as a loop, on buffers.
            donated: the numbers of inputs whose memory results may take.
            moving: whether inputs are large and lie elsewhere in each call.
        """
        raise without_plans(self.name)

    def load_plans(self) -> None:
        """Imports what plans are made with, so that the first one does not wait for it."""
        return

    def kept_plan(
        self,
        tell: Callable[[], Any],
        make: Callable[[], Any],
        keys: Collection[str] | None = None,
    ) -> Any:
        """Returns a plan of machine code from the disk, or makes it, and keeps it there.

        Args:
            tell: returns the text of its program, with the constants; or None.
            make: returns the plan; or None.
            keys: those of plans, of which it is to be one that is there; otherwise None is
                returned.
        """
        return make() if keys is None else None

    def load_native_plans(self) -> None:
        """Imports what plans of machine code are made with."""
        return

    def loop(self, program: Any, loop: Loop) -> Any:
        """Returns the plan of a loop.

        Args:
            program: the body.
            loop: the meaning of its inputs and outputs.
        """
        raise without_plans(self.name)

    def memory(self) -> dict[str, int]:
        """Returns memory figures in bytes: ``used`` and ``peak``."""
        return {}

    def info(self) -> dict[str, Any]:
        """Returns versions and the libraries below."""
        return {"devices": self.devices()}


def operands_on_one_device(
    backend: Backend, buffers: tuple[Any, ...], movable: slice, hosted: bool
) -> tuple[Any, ...]:
    """Returns operands with indices brought from the host; random keys stay there.

    Args:
        backend: the backend that computes with them.
        buffers: its own, NumPy's and numbers.
        movable, hosted: the primitive's.

    Raises:
        DeviceError: an operand that may not be moved is a NumPy array.
    """
    free = range(len(buffers))[movable]
    first = next((b for b in buffers if type(b) is backend.buffer_type), None)
    device = backend.device(backend.kind) if first is None else backend.device_of(first)
    out: list[Any] = []
    for i, buffer in enumerate(buffers):
        if type(buffer) is not np.ndarray:
            out.append(buffer)
        elif i in free:
            out.append(buffer if hosted else backend.put(buffer, device))
        elif buffer.ndim:
            raise on_several_devices(backend, buffers)
        else:
            out.append(buffer[()])
    return tuple(out)


def without_plans(name: str) -> NotImplementedError:
    """Returns the error for a backend that runs programs operation by operation."""
    return NotImplementedError(f"there are no plans for {name}: run the program itself")


def on_several_devices(backend: Backend, buffers: tuple[Any, ...]) -> DeviceError:
    """Returns the error for operands on several devices."""
    places = [
        "cpu"
        if isinstance(b, np.ndarray) and b.ndim
        else backend.device_of(b)
        if type(b) is backend.buffer_type
        else ""
        for b in buffers
    ]
    return DeviceError(
        ", ".join(
            f"operand {i} ({b.dtype}{list(b.shape)}) on {place}"
            for i, (b, place) in enumerate(zip(buffers, places, strict=True))
            if place
        )
    )


# The backends by the kind of device that holds their buffers.
BACKENDS = {"cpu": "numpy", "cuda": "cupy"}
_MODULES = {"numpy": "functensor.backends.cpu.backend", "cupy": "functensor.backends.cuda.backend"}
_loaded: dict[str, Backend] = {}
# The backends beside NumPy's, by the class of their buffers.
BY_BUFFER: dict[type, Backend] = {}
_backend_listeners: list[Callable[[Backend], None]] = []
_lock = threading.RLock()
loaded = BY_BUFFER.get


def to_host(buffer: Any) -> Any:
    """Returns a buffer's values as NumPy's; waits for what computes them."""
    backend = loaded(type(buffer))
    return buffer if backend is None else backend.to_host(buffer)


def register(backend: Backend) -> Backend:
    """Makes a backend known under its name and returns it; the name must be free."""
    with _lock:
        if _loaded.get(backend.name, backend) is not backend:
            raise ValueError(f"a backend named {backend.name!r} is registered already")
        BACKENDS.setdefault(backend.kind, backend.name)
        if backend.name != "numpy":
            BY_BUFFER[backend.buffer_type] = backend
            for listener in _backend_listeners:
                listener(backend)
        # The last step, since ``get`` finds it without the lock.
        _loaded[backend.name] = backend
    return backend


def when_registered(listener: Callable[[Backend], None]) -> None:
    """Calls a function with every backend beside NumPy's, once it is there."""
    with _lock:
        _backend_listeners.append(listener)
        for backend in BY_BUFFER.values():
            listener(backend)


def get(name: str = "numpy") -> Backend:
    """Returns the backend of that name, importing it when it is first asked for.

    Raises:
        BackendUnavailable: it is not installed; the message has the pip command.

    >>> get("numpy").zeros((2,), "float32").dtype
    dtype('float32')
    """
    if name in _loaded:
        return _loaded[name]
    with _lock:
        if name in _MODULES:
            importlib.import_module(_MODULES[name])
        if name in _loaded:
            return _loaded[name]
    known = ", ".join(sorted({*_MODULES, *_loaded}))
    raise BackendUnavailable(f"no backend named {name!r}; available: {known}")


def info() -> dict[str, dict[str, Any]]:
    """Returns, for every backend that is loaded, its versions and the libraries below it.

    >>> sorted(info()["numpy"])
    ['blas', 'devices', 'version']
    """
    get("numpy")
    return {name: backend.info() for name, backend in _loaded.items()}
