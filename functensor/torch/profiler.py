"""PyTorch's names for measuring operations, over `hooks.TimerHook`: ``torch.profiler``.

>>> import functensor.torch as torch
>>> from functensor.torch.profiler import ProfilerActivity, profile, record_function
>>> x = torch.ones(2, 3)
>>> with profile(activities=[ProfilerActivity.CPU]) as prof:
...     with record_function("two products"):
...         y = (x @ x.T) @ x
>>> {event.key: event.count for event in prof.key_averages()}
{'two products': 1, 'transpose': 1, 'matmul': 2}
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from enum import Enum
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple, Self

from ..backends.errors.public_functions import check_function
from ..backends.restoring import InC, leaving
from ..faces.publish import publish
from ..hooks.handle import use
from ..hooks.timer import TimerHook
from .cuda import is_available
from .profiled_memory import MemoryTimer
from .profiled_times import Averages, NameTimes, memory_of

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

# The beginning of the names of steps, which are averaged under one name.
STEP_NAME = "ProfilerStep"


class ProfilerActivity(Enum):
    """Kinds of devices; times are those of the CPU, which waits for a GPU's results."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(Enum):
    """The things that a step does: nothing, nothing yet, recording, recording for the last time."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Returns the kinds of devices that there are."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if is_available() else set())


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Returns a function from the number of a step to what is done in it, in cycles.

    Args:
        wait, warmup, active: how many steps of a cycle are left out, left out still, and recorded.
        repeat: how many cycles there are; 0 for no end.
        skip_first: how many steps are left out before the first cycle.
        skip_first_wait: whether the first cycle has no ``wait``.

    Raises:
        AssertionError: an argument is negative, or nothing is recorded.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"schedule: wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}: active must be positive, and the others not negative"
        )
    if warmup == 0:
        warnings.warn("schedule: without warmup the first steps count too", stacklevel=2)
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule: the step is {step}, it must not be negative")
        if step < skip_first:
            return ProfilerAction.NONE
        number = step - skip_first + (wait if skip_first_wait else 0)
        if repeat and number >= repeat * length:
            return ProfilerAction.NONE
        place = number % length
        if place < wait + warmup:
            return ProfilerAction.NONE if place < wait else ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


class Recorded(NamedTuple):
    """An operation, or a part of a program with a name, that has ended.

    Attributes:
        name: what tables call it.
        begin: when it began, in nanoseconds.
        nanoseconds: how long it took.
        thread: the number of its thread.
        inputs: the operands of an operation.
        cpu_memory_usage, device_memory_usage: the bytes that its results have of memory.
    """

    name: str
    begin: int
    nanoseconds: int
    thread: int
    inputs: str = ""
    cpu_memory_usage: int = 0
    device_memory_usage: int = 0


class Profiles(threading.local):
    """The profiles that record a thread."""

    def __init__(self) -> None:
        self.recording: list[profile] = []


profiles = Profiles()


class record_function(ContextDecorator):
    """Names a part of a program in profiles: a context manager, and a decorator.

    Args:
        name: the name.
        args: what else is to be known of it; has no effect.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._begun: list[int] = []

    def __enter__(self) -> Self:
        self._begun += (perf_counter_ns(),)
        return self

    @InC
    def __exit__(self) -> Any:
        return leaving(self._end)

    def _end(self) -> None:
        begin = self._begun.pop()
        thread = threading.get_native_id()
        part = Recorded(self.name, begin, perf_counter_ns() - begin, thread)
        for each in profiles.recording:
            each._parts.append(part)

    def _recreate_cm(self) -> Self:
        return type(self)(self.name, self.args)


class profile:
    """Measures all operations of this thread within a ``with`` block.

    An operation on a GPU is timed until its result is there. Operations of derivatives have
    their phase behind their names: ``"matmul (backward)"``.

    Args:
        enabled: whether anything is measured.
        activities: has no effect.
        schedule: a function from the number of a step to a `ProfilerAction`, as `schedule` makes;
            then the program calls `step` at the end of each of its steps.
        on_trace_ready: is called with the profile at the end of every cycle, and of the block.
        record_shapes: whether `key_averages` can tell operands apart.
        use_cuda: as ``activities``.
        profile_memory: whether the memory of results is measured: of those of operations, without
            that which they share with others.
        with_stack, with_flops, with_modules: no effect.
        experimental_config, execution_trace_observer, acc_events, use_kineto: no effect.

    Attributes:
        step_num: how many steps have ended.
    """

    def __init__(
        self, enabled: bool = True, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False,
        use_cuda: bool | None = None, use_kineto: bool = True,
    ) -> None:  # fmt: skip
        if activities is not None and not list(activities):
            raise AssertionError("profile: there are no activities")
        if schedule is not None:
            check_function("profile", schedule, "schedule")
        if on_trace_ready is not None:
            check_function("profile", on_trace_ready, "on_trace_ready")
        self.enabled = enabled
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.step_num = 0
        self._action = self._action_of(0)
        # The thread that it records, while it does.
        self._thread: int | None = None
        self._timer: TimerHook | None = None
        self._handle: Any = None
        self._parts: list[Recorded] = []
        self._step: record_function | None = None

    def _action_of(self, step: int) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(step)

    def __enter__(self) -> Self:
        self.start()
        return self

    @InC
    def __exit__(self) -> Any:
        return leaving(self.stop)

    def start(self) -> None:
        """Begins, as a ``with`` block does.

        Raises:
            RuntimeError: it has begun already.
        """
        if self.enabled:
            if self._thread is not None:
                raise RuntimeError("profile: start() of a profile that has begun already")
            self._thread = threading.get_ident()
            self._moved(ProfilerAction.NONE, self._action)
            self._begin_step()

    def stop(self) -> None:
        """Ends, as a ``with`` block does.

        Raises:
            AssertionError: it has not begun.
            RuntimeError: it has begun in another thread.
        """
        if self.enabled:
            self._check_begun("stop")
            self._thread = None
            self._end_step()
            self._moved(self._action, None)

    def _check_begun(self, name: str) -> None:
        if self._thread is None:
            raise AssertionError(f"profile: {name}() of a profile that has not begun")
        if self._thread != threading.get_ident():
            raise RuntimeError(f"profile: {name}() of a profile that has begun in another thread")

    def step(self) -> None:
        """Says that a step of the program has ended."""
        if not self.enabled:
            return
        if self.schedule is not None:
            self._check_begun("step")
        self._end_step()
        before, self.step_num = self._action, self.step_num + 1
        self._action = self._action_of(self.step_num)
        self._moved(before, self._action)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.schedule is not None:
            self._step = record_function(f"{STEP_NAME}#{self.step_num}").__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step._end()
            self._step = None

    def _moved(self, before: ProfilerAction, now: ProfilerAction | None) -> None:
        """Begins and ends recording between two steps; None stands for the end of all."""
        ends = before is ProfilerAction.RECORD_AND_SAVE or (
            before is ProfilerAction.RECORD and now not in RECORDING
        )
        left = (ProfilerAction.NONE, ProfilerAction.WARMUP)
        if (before is ProfilerAction.RECORD and now in left) or (
            before is ProfilerAction.WARMUP and now is ProfilerAction.NONE
        ):
            assert now is not None
            text = f"profile: a wrong schedule has {before.name} followed by {now.name}"
            warnings.warn(text, stacklevel=3)
        if ends:
            self._handle.remove()
            profiles.recording.remove(self)
            complete = before is ProfilerAction.RECORD_AND_SAVE or now is None
            if complete and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if now in RECORDING and (ends or before not in RECORDING):
            self._timer = MemoryTimer() if self.profile_memory else TimerHook()
            self._parts = []
            self._handle = use(self._timer)._begin()
            profiles.recording.append(self)

    def events(self) -> list[Recorded]:
        """Returns all that was recorded in the last cycle, in the order of its beginning.

        Raises:
            AssertionError: nothing was.
        """
        if self._timer is None:
            raise AssertionError("profile: nothing was recorded yet")
        found = [
            Recorded(
                shown_name(event), event.begin, event.nanoseconds, event.thread,
                event.shown.get("inputs", ""), event.shown.get("cpu_bytes", 0),
                event.shown.get("device_bytes", 0),
            )
            for event in list(self._timer._events)
        ]  # fmt: skip
        return sorted([*found, *self._parts], key=lambda x: (x.begin, -x.nanoseconds))

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> Averages:  # fmt: skip
        """Returns what was recorded in the last cycle, by names.

        Args:
            group_by_input_shape: whether operands are told apart; needs ``record_shapes``.
            group_by_stack_n, group_by_overload_name: no effect.

        Raises:
            AssertionError: nothing was recorded.
        """
        shapes = group_by_input_shape and self.record_shapes
        found: dict[tuple[str, str], NameTimes] = {}
        # The ends of those that have not ended, and what they are averaged in, by threads.
        around: dict[int, list[tuple[int, NameTimes]]] = {}
        for event in self.events():
            step = event.name.startswith(STEP_NAME)
            key = f"{STEP_NAME}*" if step else event.name, event.inputs if shapes else ""
            average = found.setdefault(key, NameTimes(*key))
            outer = around.setdefault(event.thread, [])
            while outer and outer[-1][0] <= event.begin:
                outer.pop()
            spent = event.nanoseconds / 1e3
            average.count += 1
            average.cpu_time_total += spent
            average.self_cpu_time_total += spent
            if outer:
                outer[-1][1].self_cpu_time_total -= spent
            average.add_memory(event, within=[each for _, each in outer])
            outer.append((event.begin + event.nanoseconds, average))
        return Averages(found.values(), self.profile_memory)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the last cycle to a file of the Trace Event Format, packed if it ends in .gz.

        Raises:
            AssertionError: nothing was recorded.
        """
        events, process = self.events(), os.getpid()
        start = events[0].begin if events else 0
        rows = [
            {
                "name": x.name, "ph": "X", "ts": (x.begin - start) / 1e3, "pid": process,
                "dur": x.nanoseconds / 1e3, "tid": x.thread, "args": {
                    "inputs": x.inputs, **(memory_of(x) if self.profile_memory else {}),
                },
            }
            for x in events
        ]  # fmt: skip
        text = json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}).encode()
        Path(path).write_bytes(gzip.compress(text) if str(path).endswith(".gz") else text)


def shown_name(event: Any) -> str:
    """Returns what tables call an operation."""
    name: str = event.name
    return name if event.phase == "forward" else f"{name} ({event.phase})"


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:  # fmt: skip
    """Returns a function that writes each cycle of a profile to a file of its own.

    Args:
        dir_name: the folder, which is made.
        worker_name: how names of files begin; by default with the host and the process.
        use_gzip: whether files are packed.
        use_python_export: no effect.
    """
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def handler(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(folder / name)

    return handler


publish(globals())
