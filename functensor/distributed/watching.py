"""A watch over work that processes do together and that goes on without the host: on GPUs.

The host may block anywhere behind such work: where it reads a result, where a queue is full, where
memory is freed. So a thread looks every so often whether the work goes on. Where it does not, the
thread looks for news of the other processes. Then it gives up the work, so that whoever blocks
comes back, and leaves the error for the thread that computes. `nccl_group` has its work watched.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeVar

from .failures import (
    SECONDS_BETWEEN_LOOKS,
    Absence,
    Limit,
    News,
    end_at_once,
    leave,
    ranks_in_words,
    seconds_before_telling,
)

__all__ = ["Watch"]

# A process that fails is found by others within so many seconds where they look for news.
SECONDS_FOR_NEWS = 1.0
# Whoever blocks comes back within so many seconds after work was given up.
SECONDS_TO_COME_BACK = 2.0
Returned = TypeVar("Returned")


class WatchedWork:
    """Something that was begun with other processes.

    Attributes:
        what: the thing, in words.
        ranks: the processes that take part.
        done: says whether it is done, and is asked no more then; for what the host itself is in,
            None.
    """

    __slots__ = ("done", "ranks", "what")

    def __init__(
        self, what: str, ranks: Sequence[int], done: Callable[[], Any] | None = None
    ) -> None:
        self.what = what
        self.ranks = ranks
        self.done = done


class Watch:
    """Looks after work that this process does with others, in a thread of its own.

    Args:
        news: of the other processes.
        prepare: is called first of all in each thread that is made.

    Attributes:
        absence: the process for which the work was given up; None where there is none.
    """

    def __init__(self, news: News, prepare: Callable[[], None] = lambda: None) -> None:
        self.absence: Absence | None = None
        self._news = news
        self._prepare = prepare
        self._queued: deque[WatchedWork] = deque()
        self._called: dict[int, WatchedWork] = {}
        self._engines: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._awake = threading.Event()
        self._closed = False
        self._noticed = False
        self._thread: threading.Thread | None = None
        self._beginning = threading.Lock()
        # When the oldest work became the oldest, and what stands for it among the news.
        self._since = 0.0
        self._oldest: WatchedWork | None = None
        self._token: object = None

    def over(self, give_up: Callable[[], None], check: Callable[[], None]) -> None:
        """Watches over what an engine does, too.

        Args:
            give_up: has its work end at once, so that a host that waits for it comes back.
            check: raises an error where the engine has failed.
        """
        self._engines.append((give_up, check))

    def call(
        self, what: str, ranks: Sequence[int], function: Callable[..., Returned], *args: Any
    ) -> Returned:
        """Calls a function that may block until other processes come, and returns its result.

        Args:
            what: what it does, in words.
            ranks: the processes that take part.
            function, args: what is called.

        Raises:
            DistributedError: another process has ended, or did not come in time.
        """
        self.check()
        place = threading.get_ident()
        self._called[place] = WatchedWork(what, ranks)
        self._wake()
        try:
            out = function(*args)
        except Exception as error:
            # The engine fails where a process dies.
            self._blame(what, ranks, error)
            raise
        finally:
            self._called.pop(place, None)
        self.check()
        return out

    def queued(self, what: str, ranks: Sequence[int], done: Callable[[], Any]) -> None:
        """Watches over work that was queued.

        Args:
            what: the work, in words.
            ranks: the processes that take part.
            done: says whether it is done, and is called no more then; another thread calls it, and
                blocks nowhere in it.
        """
        self._queued.append(WatchedWork(what, ranks, done))
        self._wake()

    def check(self) -> None:
        """Raises the error for which work was given up; what it would have written is no result.

        Raises:
            DistributedError: another process has ended, or did not come in time.
        """
        if self.absence is not None:
            self._noticed = True
            raise self.absence.error()

    def close(self) -> None:
        """Waits until all work is done, or is given up, and ends the thread."""
        if self._thread is None:
            return
        atexit.unregister(self._end_program)
        # A child process has no such thread; an error of MPI's, which Python has printed, ends it.
        while self._queued and self.absence is None and self._thread.is_alive():
            sleep(SECONDS_BETWEEN_LOOKS)
        self._closed = True
        self._awake.set()
        self._thread.join()

    def _end_program(self) -> None:
        """Ends the thread with the program, and all where work was given up.

        An engine that was given up could block once more where its memory is freed.
        """
        self.close()
        if self.absence is not None:
            if not self._noticed:
                self._end(self.absence)
            leave(None)
            end_at_once()

    def _wake(self) -> None:
        if not self._awake.is_set():
            self._awake.set()
        if self._thread is None:
            with self._beginning:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="watch", daemon=True)
                    # Before MPI ends.
                    atexit.register(self._end_program)
                    thread.start()
                    self._thread = thread

    def _run(self) -> None:
        """Looks after work until it is given up."""
        self._prepare()
        while not self._closed and self.absence is None:
            if not self._queued and not self._called:
                self._awake.clear()
                # What came before that may not have set it.
                if not self._queued and not self._called:
                    self._awake.wait()
            sleep(SECONDS_BETWEEN_LOOKS)
            found = self._look()
            if found is not None and not self._closed:
                self._give_up(found)

    def _look(self) -> Absence | None:
        """Returns the process that the oldest work waits for in vain, or None."""
        self._pass_over_done()
        oldest = self._queued[0] if self._queued else next(iter([*self._called.values()]), None)
        now = monotonic()
        if oldest is not self._oldest:
            self._oldest, self._since = oldest, now
            if self._token is not None:
                self._news.end_wait(self._token)
                self._token = None
        if oldest is None:
            return None
        for _, check in self._engines:
            try:
                check()
            except Exception as error:
                return self._reason(oldest, error)
        found = self._news.absence(oldest.what, oldest.ranks)
        if found is not None:
            return found
        if self._token is None and now - self._since > seconds_before_telling():
            self._token = self._news.begin_wait(oldest.what)
        if now - self._since > Limit.seconds:
            return self._news.late(oldest.what, self._news.silent(oldest.ranks))
        return None

    def _blame(self, what: str, ranks: Sequence[int], error: Exception) -> None:
        """Raises the error for the process for which a call failed, if news of one come soon."""
        found = self.absence or self._news_soon(what, ranks)
        if found is not None:
            self._noticed = True
            raise found.error() from error

    def _news_soon(self, what: str, ranks: Sequence[int]) -> Absence | None:
        """Returns the process that has ended or ends in the next second, or None."""
        begun = monotonic()
        while (found := self._news.absence(what, ranks)) is None:
            if monotonic() - begun > min(SECONDS_FOR_NEWS, Limit.seconds):
                return None
            sleep(SECONDS_BETWEEN_LOOKS)
        return found

    def _reason(self, work: WatchedWork, error: Exception) -> Absence:
        """Returns why an engine failed: a process that has ended, or the error itself."""
        found = self._news_soon(work.what, work.ranks)
        ranks = ranks_in_words(sorted(work.ranks))
        return found or Absence(
            f"the {work.what} of ranks {ranks} failed: {type(error).__name__}: {error}",
            "    no rank is known to have ended",
            "look at what the ranks have printed; NCCL_DEBUG=WARN has NCCL say more",
        )

    def _pass_over_done(self) -> None:
        """Looks no more after work that is done."""
        while self._queued and self._is_done(self._queued[0]):
            self._queued.popleft()

    def _is_done(self, work: WatchedWork) -> bool:
        try:
            return work.done is not None and bool(work.done())
        except Exception:
            # The host finds it too, where it reads a result.
            return True

    def _give_up(self, found: Absence) -> None:
        """Has whoever blocks come back to an error; where nobody does, the process ends by it."""
        self.absence = found
        for give_up, _ in self._engines:
            # It may block, where graphs hold a communicator.
            threading.Thread(target=self._given_up, args=(give_up,), daemon=True).start()
        begun = monotonic()
        while not self._closed and (self._called or self._queued):
            if monotonic() - begun > SECONDS_TO_COME_BACK:
                # It comes back where the process is on its way to the end already.
                return self._end(found)
            sleep(SECONDS_BETWEEN_LOOKS)
            self._pass_over_done()

    def _end(self, found: Absence) -> None:
        """Ends the process by an error."""
        error = found.error()
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        leave(f"{type(error).__name__}: {found.what}")

    def _given_up(self, give_up: Callable[[], None]) -> None:
        self._prepare()
        with suppress(Exception):
            give_up()
