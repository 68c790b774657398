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

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

# The columns of a table, and by what its rows may be sorted.
TABLE_COLUMNS = (
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
)  # fmt: skip
NARROWEST = 12
# The beginning of the names of steps, which are averaged under one name.
STEP_NAME = "ProfilerStep"
WIDEST_NAME = 55


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
    """

    name: str
    begin: int
    nanoseconds: int
    thread: int
    inputs: str = ""


class NameTimes:
    """The sum of all that is recorded under one name; times are in microseconds.

    Attributes:
        key: the name.
        count: how often there was such a thing.
        cpu_time_total: how long they took together.
        self_cpu_time_total: how long without what was recorded within them.
        input_shapes: the operands, where they are told apart by these.
    """

    # A GPU's part is not told apart: operations are timed until their results are there.
    device_time_total = self_device_time_total = device_time = 0.0
    cuda_time_total = self_cuda_time_total = cuda_time = 0.0

    def __init__(self, key: str, input_shapes: str = "") -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        """The time of one of them, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"<{self.key}: {self.count} calls, {shown_time(self.cpu_time_total)}, of which "
            f"{shown_time(self.self_cpu_time_total)} by itself>"
        )


class Averages(list[NameTimes]):
    """The averages of all names."""

    def total_average(self) -> NameTimes:
        """Returns the sum of all."""
        total = NameTimes("Total")
        for each in self:
            total.count += each.count
            total.cpu_time_total += each.cpu_time_total
            total.self_cpu_time_total += each.self_cpu_time_total
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all, in microseconds."""
        return self.total_average().self_cpu_time_total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = WIDEST_NAME, max_shapes_column_width: int = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """Returns a table.

        Args:
            sort_by: an attribute of rows, such as ``"cpu_time_total"``, of which the greatest
                come first.
            row_limit: how many rows it has at most; -1 for all.
            max_name_column_width: how long names are at most.
            header: a line above it.
            time_unit: ``"s"``, ``"ms"`` or ``"us"``, of all times.
            max_src_column_width, max_shapes_column_width, top_level_events_only: no effect.
        """
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda each: float(getattr(each, sort_by)), reverse=True)
        whole = self.self_cpu_time_total
        texts = [
            (
                cut_name(each.key, max_name_column_width),
                percentage(each.self_cpu_time_total, whole),
                shown_time(each.self_cpu_time_total, time_unit),
                percentage(each.cpu_time_total, whole), shown_time(each.cpu_time_total, time_unit),
                shown_time(each.cpu_time, time_unit), str(each.count),
            )
            for each in (rows if row_limit < 0 else rows[:row_limit])
        ]  # fmt: skip
        widths = [
            max(NARROWEST, *map(len, column)) for column in zip(TABLE_COLUMNS, *texts, strict=True)
        ]
        shown = [TABLE_COLUMNS, *texts]
        lines = ["  ".join(x.rjust(n) for x, n in zip(row, widths)) for row in shown]
        rule = "  ".join("-" * n for n in widths)
        above = [] if header is None else [header]
        end = f"Self CPU time total: {shown_time(whole, time_unit)}"
        return "\n".join([*above, rule, lines[0], rule, *lines[1:], rule, end, ""])


def cut_name(name: str, width: int) -> str:
    """Returns a name, or its beginning with dots."""
    return name if len(name) <= width or width < 4 else f"{name[: width - 3]}..."


def shown_time(microseconds: float, unit: str | None = None) -> str:
    """Returns a time with its unit, by default the greatest of which there is one."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def percentage(part: float, whole: float) -> str:
    """Returns a part in percent."""
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


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
        profile_memory, with_stack, with_flops, with_modules: no effect.
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
        self.step_num = 0
        self._action = self._action_of(0)
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
        """Begins, as a ``with`` block does."""
        if self.enabled:
            self._moved(ProfilerAction.NONE, self._action)
            self._begin_step()

    def stop(self) -> None:
        """Ends, as a ``with`` block does."""
        if self.enabled:
            self._end_step()
            self._moved(self._action, None)

    def step(self) -> None:
        """Says that a step of the program has ended."""
        if not self.enabled:
            return
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
            self._timer, self._parts = TimerHook(), []
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
                event.shown.get("inputs", ""),
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
            outer.append((event.begin + event.nanoseconds, average))
        return Averages(found.values())

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
                "dur": x.nanoseconds / 1e3, "tid": x.thread, "args": {"inputs": x.inputs},
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
