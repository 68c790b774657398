"""News of other processes: which have raised, died, ended, or wait for those that do not come.

Processes tell each other on a communicator of their own, and look for news wherever they wait. A
process that ends by an error tells all others, and gives them time to end by an error that names
it. On its own host a process sees by itself that another one has died.

Two threads may look and tell: the one that computes, and the one of `watching`.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from ..primitives.core.errors import DistributedError, failure

__all__ = [
    "SECONDS_BETWEEN_LOOKS", "Absence", "Limit", "News", "begin_news", "end_at_once", "late",
    "leave", "mpi_is_running", "news", "ranks_in_words", "seconds_before_telling", "set_timeout",
]  # fmt: skip

# Every so many seconds a process that waits looks for news.
SECONDS_BETWEEN_LOOKS = 0.05
# A process tells others what it waits for after so many seconds.
SECONDS_BEFORE_TELLING = 1.0
# So long a process that ends by an error waits for others to do so too.
SECONDS_TO_LEAVE = 5.0
# What a process began with others before it ended may still be on its way for so many seconds.
SECONDS_BEHIND_THE_END = 5.0
# Words of an exception are so long at most.
LONGEST_WORDS = 500


class Limit:
    """The number of seconds for which a process waits for others."""

    seconds = 300.0


def set_timeout(seconds: float) -> None:
    """Sets for how long a process waits for others before it raises an error that names them.

    It is 300 seconds at first. The others compute in that time, compile, read data or write files.

    Args:
        seconds: a positive number.

    >>> import functensor as ft
    >>> ft.distributed.set_timeout(300.0)
    """
    given: Any = seconds
    if isinstance(given, str) or not given > 0:
        what = f"set_timeout: {seconds!r} is no time to wait"
        raise failure(ValueError, what, fix="ft.distributed.set_timeout(60.0)", number=26)
    Limit.seconds = float(seconds)


def seconds_before_telling() -> float:
    """Returns the number of seconds for which a process waits before it tells others."""
    return min(SECONDS_BEFORE_TELLING, Limit.seconds / 4)


@dataclass(frozen=True)
class Absence:
    """Another process that is not there, as one of the others finds it.

    Attributes:
        what: which it is, in words.
        lines: what others wait for.
        fix: what to do.
    """

    what: str
    lines: str
    fix: str

    def error(self) -> DistributedError:
        """Returns the error, which names the line of the user's that this thread runs."""
        return failure(DistributedError, f"{self.what}\n{self.lines}", fix=self.fix)


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Returns the numbers of some ranks, in order, those in a row in short.

    >>> ranks_in_words([0, 1, 2, 5, 6])
    '0 to 2, 5, 6'
    """
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )


def late(missing: Sequence[int], lines: Sequence[str]) -> Absence:
    """Returns the processes that did not come in time, and says what others wait for."""
    names = ranks_in_words(sorted(missing)) or "none: each waits for something else"
    return Absence(
        f"ranks that did not come within {Limit.seconds:g} seconds: {names}",
        "\n".join(f"    {line}" for line in lines),
        "ft.distributed.set_timeout(600), where they need more time",
    )


class News:
    """Keeps what a process knows of the others.

    Args:
        comm: the communicator of all.

    Attributes:
        raised: the words of exceptions by which processes have ended, by their ranks.
        ended: when this process learnt that others had ended without one.
        waiting: what others say that they wait for.
        stale: whether the others may still believe that this process waits, though it does not.
        process: the number of this process for the system.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self._rank: int = comm.rank
        self._size: int = comm.size
        self.raised: dict[int, str] = {}
        self.ended: dict[int, float] = {}
        self.waiting: dict[int, str] = {}
        self.stale = False
        # A child process that ends is no end of this one.
        self.process = os.getpid()
        # What this process has told that it waits for, by what stands for the one that waits.
        self._told: dict[object, str] = {}
        self._sent: list[Any] = []
        self._left = False
        self._lock = threading.RLock()
        self._owner = threading.get_ident()
        self._neighbours = select.poll() if hasattr(select, "poll") else None
        self._rank_of: dict[int, int] = {}
        for rank, (place, number) in enumerate(comm.allgather((_process_space(), os.getpid()))):
            if rank != self._rank and place == _process_space():
                self._see(rank, number)

    def _see(self, rank: int, number: int) -> None:
        """Looks after a process of this host from now on."""
        if self._neighbours is None or not hasattr(os, "pidfd_open"):
            return
        try:
            descriptor = os.pidfd_open(number)
        except OSError:
            return
        self._rank_of[descriptor] = rank
        self._neighbours.register(descriptor, select.POLLIN)

    def _may_talk(self) -> bool:
        """Says whether this thread may call MPI."""
        return threading.get_ident() == self._owner or mpi_takes_threads()

    def tell(self, kind: str, words: str = "") -> None:
        """Tells all others something, without waiting until they know."""
        if not self._may_talk():
            return
        with self._lock:
            self._sent = [request for request in self._sent if not request.Test()]
            for rank in range(self._size):
                if rank != self._rank:
                    self._sent.append(self._comm.isend((kind, self._rank, words), rank))

    def begin_wait(self, what: str) -> object:
        """Tells the others that this process waits for something.

        Returns:
            What `end_wait` takes.
        """
        token = object()
        with self._lock:
            self._told[token] = what
            self.tell("waits", what)
        return token

    def end_wait(self, token: object) -> None:
        """Tells the others that this process waits for that no more."""
        with self._lock:
            if self._told.pop(token, None) is None:
                return
            for what in self._told.values():
                self.tell("waits", what)
                return
            self.tell("goes on")

    def go_on(self) -> None:
        """Tells the others that this process waits for nothing, if they may believe so."""
        with self._lock:
            if self.stale:
                self.stale = False
                self._told.clear()
                self.tell("goes on")

    def look(self) -> None:
        """Takes all news that there are."""
        if not self._may_talk():
            return
        with self._lock:
            while (found := self._comm.improbe()) is not None:
                kind, rank, words = found.recv()
                if kind == "raised":
                    self.raised.setdefault(rank, words)
                elif kind == "ended":
                    self.ended.setdefault(rank, monotonic())
                elif kind == "waits":
                    self.waiting[rank] = words
                else:
                    self.waiting.pop(rank, None)

    def died(self) -> list[int]:
        """Returns the ranks of processes of this host that are there no more, and said nothing."""
        if self._neighbours is None:
            return []
        with self._lock:
            # Python's poll refuses two threads at once.
            dead = [self._rank_of[descriptor] for descriptor, _ in self._neighbours.poll(0)]
        if dead:
            self.look()
        return [rank for rank in dead if rank not in self.raised and rank not in self.ended]

    def check(self, what: str, ranks: Sequence[int] | None = None) -> None:
        """Looks for news while something is waited for.

        Args:
            what: the thing, in words.
            ranks: the processes that it takes; None for all.

        Raises:
            DistributedError: another process has raised an error or has died, or one of ``ranks``
                has ended a while ago.
        """
        found = self.absence(what, ranks)
        if found is not None:
            self.stale = True
            raise found.error()

    def absence(self, what: str, ranks: Sequence[int] | None = None) -> Absence | None:
        """Returns the process for which `check` raises an error, or None."""
        self.look()
        here = f"    rank {self._rank} of {self._size} waits for the {what}"
        for rank, words in [*self.raised.items()]:
            fix = "mend that error; its traceback is what that rank has printed"
            return Absence(f"rank {rank} ended by an error: {words}", here, fix)
        for rank in self.died():
            fix = "look for what ended it: the system's log tells of memory that ran out"
            return Absence(f"rank {rank} died", here, fix)
        for rank, since in [*self.ended.items()]:
            behind = monotonic() - since > min(SECONDS_BEHIND_THE_END, Limit.seconds / 2)
            if behind and (ranks is None or rank in ranks):
                fix = "give all ranks as many steps: ft.distributed.shard(loader)"
                return Absence(f"rank {rank} ended its program while others go on", here, fix)
        return None

    def late(self, what: str, missing: Sequence[int]) -> Absence:
        """Returns the processes that did not come in time.

        Args:
            what: the thing that this process waits for.
            missing: the processes.
        """
        self.stale = True
        ranks: dict[str, list[int]] = {}
        for rank, words in sorted({**self.waiting, self._rank: what}.items()):
            ranks.setdefault(words, []).append(rank)
        return late(missing, [
            f"rank{'s' * (len(those) > 1)} {ranks_in_words(those)} "
            f"wait{'s' * (len(those) == 1)} for the {words}"
            for words, those in ranks.items()
        ])

    def silent(self, ranks: Sequence[int] | None = None) -> list[int]:
        """Returns those of some processes that do not say that they wait for anything."""
        self.look()
        known = {*self.waiting, self._rank}
        return [r for r in (range(self._size) if ranks is None else ranks) if r not in known]

    def leave(self, words: str | None) -> None:
        """Tells the others that this process ends, and waits until they end too.

        Args:
            words: the words of the exception by which it ends; None where there is none. With one
                the others are given some seconds.
        """
        if self._left:
            return
        self._left = True
        self.tell("ended" if words is None else "raised", words or "")
        begun = monotonic()
        others = set(range(self._size)) - {self._rank}
        while not others <= self.raised.keys() | self.ended.keys():
            self.look()
            dead = self.died()
            others -= set(dead)
            failed = words is not None or self.raised or dead
            if failed and monotonic() - begun > min(SECONDS_TO_LEAVE, Limit.seconds):
                break
            if not failed:
                begun = monotonic()
            sleep(0.002)
        if words is None and not self.raised and len(others) == self._size - 1:
            return
        end_at_once()


def end_at_once() -> None:
    """Ends the process without MPI, which would wait for the others once more."""
    for stream in (sys.stdout, sys.stderr):
        # There may be none, or nobody who reads it.
        with suppress(Exception):
            stream.flush()
    os._exit(1)


def _process_space() -> tuple[str, str]:
    """Returns what two processes have in common that see each other's numbers."""
    try:
        return socket.gethostname(), os.readlink("/proc/self/ns/pid")
    except OSError:
        return socket.gethostname(), ""


class NewsHere:
    """The news of this process; None before `begin_news`."""

    news: News | None = None


def news() -> News | None:
    """Returns the news of this process; None where it is alone."""
    return NewsHere.news


def begin_news(comm: Any) -> None:
    """Begins to tell other processes news, and to look for theirs; all of them call it.

    From then on the end of this process is told to all others.
    """
    first = NewsHere.news is None
    NewsHere.news = News(comm)
    if not first:
        return
    before = sys.excepthook

    def told(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        before(kind, error, traceback)
        sys.stderr.flush()
        words = [kind.__name__, *str(error).splitlines()[:1]]
        leave(": ".join(words)[:LONGEST_WORDS])

    sys.excepthook = told
    atexit.register(leave, None)


def leave(words: str | None) -> None:
    """Tells the others that this process ends, as `News.leave` does, if MPI is running."""
    found = NewsHere.news
    if found is not None and found.process == os.getpid() and mpi_is_running():
        found.leave(words)


def mpi_is_running() -> bool:
    """Says whether MPI has begun, and has not been ended."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized()


def mpi_takes_threads() -> bool:
    """Says whether several threads may call MPI at a time."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is None or mpi.Query_thread() == mpi.THREAD_MULTIPLE
