"""Sums of the times that profiles measure, by names, and their tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Averages", "NameTimes", "memory_of"]

# The columns of a table, and by what its rows may be sorted.
TABLE_COLUMNS = (
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
)  # fmt: skip
# Those of memory, by the attributes that they show; those of devices where there are bytes there.
CPU_COLUMNS = {"CPU Mem": "cpu_memory_usage", "Self CPU Mem": "self_cpu_memory_usage"}
DEVICE_COLUMNS = {"CUDA Mem": "device_memory_usage", "Self CUDA Mem": "self_device_memory_usage"}
BYTES = (("GB", 2**30), ("MB", 2**20), ("KB", 2**10))
NARROWEST = 12
WIDEST_NAME = 55


class NameTimes:
    """The sum of all that is recorded under one name; times are in microseconds.

    Attributes:
        key: the name.
        count: how often there was such a thing.
        cpu_time_total: how long they took together.
        self_cpu_time_total: how long without what was recorded within them.
        input_shapes: the operands, where they are told apart by these.
        cpu_memory_usage, device_memory_usage: the bytes of memory that results have together,
            where they were measured.
        self_cpu_memory_usage, self_device_memory_usage: those without what was recorded within.
    """

    # A GPU's part is not told apart: operations are timed until their results are there.
    device_time_total = self_device_time_total = device_time = 0.0
    cuda_time_total = self_cuda_time_total = cuda_time = 0.0

    def __init__(self, key: str, input_shapes: str = "") -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0

    def add_memory(self, event: Any, within: Iterable[NameTimes] = ()) -> None:
        """Adds the memory of what was recorded, also to that of what it was recorded within."""
        self.self_cpu_memory_usage += event.cpu_memory_usage
        self.self_device_memory_usage += event.device_memory_usage
        for each in {self, *within}:
            each.cpu_memory_usage += event.cpu_memory_usage
            each.device_memory_usage += event.device_memory_usage

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
    """The averages of all names.

    Args:
        several: the averages.
        memory: whether memory was measured.
    """

    def __init__(self, several: Iterable[NameTimes] = (), memory: bool = False) -> None:
        super().__init__(several)
        self._memory = memory

    def total_average(self) -> NameTimes:
        """Returns the sum of all."""
        total = NameTimes("Total")
        for each in self:
            total.count += each.count
            total.cpu_time_total += each.cpu_time_total
            total.self_cpu_time_total += each.self_cpu_time_total
            for name in (*CPU_COLUMNS.values(), *DEVICE_COLUMNS.values()):
                own = name if name.startswith("self_") else f"self_{name}"
                setattr(total, name, getattr(total, name) + getattr(each, own))
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
        memory = CPU_COLUMNS if self._memory else {}
        if any(each.self_device_memory_usage for each in rows):
            memory = memory | DEVICE_COLUMNS
        columns = (*TABLE_COLUMNS[:-1], *memory, TABLE_COLUMNS[-1])
        texts = [
            (
                cut_name(each.key, max_name_column_width),
                percentage(each.self_cpu_time_total, whole),
                shown_time(each.self_cpu_time_total, time_unit),
                percentage(each.cpu_time_total, whole), shown_time(each.cpu_time_total, time_unit),
                shown_time(each.cpu_time, time_unit),
                *[shown_bytes(getattr(each, name)) for name in memory.values()], str(each.count),
            )
            for each in (rows if row_limit < 0 else rows[:row_limit])
        ]  # fmt: skip
        widths = [
            max(NARROWEST, *map(len, column)) for column in zip(columns, *texts, strict=True)
        ]
        shown = [columns, *texts]
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


def shown_bytes(count: int) -> str:
    """Returns a number of bytes with the greatest unit of which there is one."""
    unit, size = next((x for x in BYTES if count >= x[1]), ("B", 1))
    return f"{count / size:.2f} {unit}" if size > 1 else f"{count} B"


def memory_of(event: Any) -> dict[str, int]:
    """Returns the memory of what was recorded, by what trace files call it."""
    return {"CPU bytes": event.cpu_memory_usage, "device bytes": event.device_memory_usage}


def percentage(part: float, whole: float) -> str:
    """Returns a part in percent."""
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"
