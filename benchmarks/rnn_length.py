"""Time per step of the recurrent network as it grows: `python -m benchmarks.rnn_length`.

`rnn` differentiates the parameters; `rnn-input` the sequence x as well, whose gradient gathers the
gradients of all the slices x[:, i]. The columns stay level where both cost linear time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.client import WorkerError, running
from benchmarks.data import SIZED
from benchmarks.peers import PEERS
from benchmarks.report import milliseconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line a length; 1 if the peer fails."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.rnn_length", description=__doc__)
    options.add_argument("--peer", choices=PEERS, default="functensor")
    options.add_argument("--lengths", default="100,1000,10000", metavar="A,B")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
    parsed = options.parse_args(arguments)
    lengths = [int(length) for length in parsed.lengths.split(",")]

    with running([parsed.peer], parsed.threads) as (clients, failures):
        if failures:
            print(f"{parsed.peer} does not start: {failures[parsed.peer]}")
            return 1
        version = clients[parsed.peer].version
        print(f"{parsed.peer} {version}: milliseconds a step, forward and backward")
        print("".join(cell.rjust(12) for cell in ("length", *SIZED)))
        for length in lengths:
            cells = [str(length)]
            for family in SIZED:
                try:
                    clients[parsed.peer].ask("load", f"{family}:{length}", "grad")
                    seconds = clients[parsed.peer].ask("time", parsed.repeats)["minimum"]
                except WorkerError as error:
                    print(f"{family}:{length}: {error}")
                    return 1
                cells.append(milliseconds(seconds / length))
            print("".join(cell.rjust(12) for cell in cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
