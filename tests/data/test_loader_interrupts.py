"""Ctrl-C, wherever it comes, leaves no thread of a loader behind, and a position to go on from."""

import gc
import signal
import threading
import time

import pytest
from support.interrupts import ran
from support.long_forms import only_long

from functensor.data import DataLoader, IterableDataset

pytestmark = [
    only_long,
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no signal to send"),
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(), reason="signals go elsewhere"
    ),
    # An interrupt within a finalizer is printed, and nothing else comes of it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MOST_SECONDS = 10
EXPECTED = [[0, 1], [2, 3], [4, 5], [6]]


class Read(IterableDataset):
    """Numbers that are read one after the other."""

    def __iter__(self):
        return iter(range(7))


def left():
    """Returns the threads of loaders that have not ended after some seconds."""
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end:
        found = [t for t in threading.enumerate() if t.name.startswith("functensor-data")]
        if not found:
            break
        time.sleep(0.001)
    return found


@pytest.mark.parametrize("dataset", [range(7), Read()], ids=["numbered", "read"])
def test_an_interrupt_anywhere(dataset):
    handler = signal.getsignal(signal.SIGUSR1)
    place, whole = 0, False
    try:
        while not whole:
            loader, got = DataLoader(dataset, 2, threads=2), []

            def work(loader=loader, got=got):
                for batch in loader:
                    got.append(batch.tolist())

            whole = ran(work, place)
            gc.collect()
            assert left() == [], place
            state = loader.state_dict()
            handed = len(EXPECTED) if state["epoch"] else state["batches"]
            # The interrupt may come when a batch is on its way.
            assert got in (EXPECTED[:handed], EXPECTED[: handed - 1]), place
            again = DataLoader(dataset, 2)
            again.load_state_dict(state)
            rest = [batch.tolist() for batch in again]
            assert rest == (EXPECTED if state["epoch"] else EXPECTED[handed:]), place
            place += 1
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert place > 50
