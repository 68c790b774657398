"""The parent's side of a worker process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.case import Unsupported
from benchmarks.peers import PEERS

ROOT = Path(__file__).resolve().parent.parent


class WorkerError(Exception):
    """A worker failed, or died."""


def environment(threads: int, *, caches: bool = True) -> dict[str, str]:
    """The environment in which every library keeps to so many threads, on the CPU.

    Without `caches`, none reads what another process has compiled.
    """
    limits = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
    changed = {f"{library}_NUM_THREADS": str(threads) for library in limits}
    # XLA takes the size of its pool from NPROC, and runs its matrix products on that pool.
    changed["NPROC"] = str(threads)
    flags = [os.environ.get("XLA_FLAGS", "")]
    if threads == 1:
        flags.append("--xla_cpu_multi_thread_eigen=false")
    changed["XLA_FLAGS"] = " ".join(filter(None, flags))
    changed["JAX_PLATFORMS"] = "cpu"
    changed["CUDA_VISIBLE_DEVICES"] = ""
    if not caches:
        changed["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        changed["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        changed["FUNCTENSOR_CACHE_DIR"] = ""
    # As after an installation: modules are not compiled anew in every process.
    kept = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **changed}


class Client:
    """A running worker of one peer."""

    def __init__(self, peer: str, threads: int, *, quiet: bool = True, caches: bool = True) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", peer, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            env={**environment(threads, caches=caches), **PEERS[peer].environment},
            cwd=ROOT,
            text=True,
        )
        try:
            self.version = str(self._receive()["version"])
        except BaseException:
            self.close()
            raise

    def ask(self, *words: object) -> dict[str, Any]:
        """Send a command and return its answer.

        Raises:
            Unsupported: the peer has no such workload.
            WorkerError: the command failed, or the worker died.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(f"{self.peer} died") from None
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"{self.peer} died with status {self._process.wait()}")
        message: dict[str, Any] = json.loads(line)
        if "unsupported" in message:
            raise Unsupported(message["unsupported"])
        if "error" in message:
            raise WorkerError(message["error"])
        return message

    def close(self) -> None:
        """End the worker."""
        self._process.kill()
        self._process.communicate()


def ask_once(
    peer: str, threads: int, *words: object, quiet: bool = True, caches: bool = False
) -> dict[str, Any]:
    """Ask a worker that is started for this command alone, and ended after it.

    Raises:
        Unsupported, WorkerError: as `Client.ask` does.
    """
    client = Client(peer, threads, quiet=quiet, caches=caches)
    try:
        return client.ask(*words)
    finally:
        client.close()


@contextmanager
def running(
    peers: Sequence[str], threads: int, *, quiet: bool = True
) -> Iterator[tuple[dict[str, Client], dict[str, str]]]:
    """Start the peers' workers; yields those that run, and why the others do not."""
    clients: dict[str, Client] = {}
    failures: dict[str, str] = {}
    with ExitStack() as stack:
        for peer in peers:
            try:
                clients[peer] = Client(peer, threads, quiet=quiet)
            except WorkerError as error:
                failures[peer] = str(error)
            else:
                stack.callback(clients[peer].close)
        yield clients, failures
