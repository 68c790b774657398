"""Processes that fail: the others end soon, with an error that names the one."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.long_forms import only_long
from support.processes import mpirun

from functensor.distributed import watching
from functensor.distributed.failures import Absence, Limit, News, set_timeout
from functensor.errors import DistributedError

PROGRAM = Path(__file__).parent / "failing_program.py"
# A run that takes longer, in seconds, hangs.
LONGEST_RUN = 240


@pytest.fixture
def run(tmp_path):
    """A function that returns the exit code and the errors of four processes.

    It is given how they fail, and options of mpirun's.
    """
    if mpirun() is None:
        pytest.skip("there is no mpirun")

    def run(how, *options):
        program = (sys.executable, str(PROGRAM), how, str(tmp_path))
        command = [mpirun(), *options, "-n", "4", *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_RUN)
        assert "the training ended" not in done.stdout
        return done.returncode, "".join(file.read_text() for file in sorted(tmp_path.iterdir()))

    return run


def test_a_rank_that_raises_is_named_by_all_others(run):
    code, said = run("raises")
    assert code != 0
    assert said.count("FileNotFoundError: no such shard\n") == 4
    assert said.count("rank 2 ended by an error: FileNotFoundError: no such shard") == 3


@only_long
@pytest.mark.long
def test_an_exception_without_words_is_named_alone(run):
    _, said = run("is interrupted")
    assert said.count("rank 2 ended by an error: KeyboardInterrupt\n") == 3


@only_long
@pytest.mark.long
def test_a_rank_that_does_not_come_is_named(run):
    code, said = run("sleeps")
    assert code != 0
    assert "ranks that did not come within 3 seconds: 2\n" in said
    assert "    ranks 0, 1, 3 wait for the sum\n" in said


@only_long
@pytest.mark.long
def test_a_rank_that_does_not_begin_is_named(run):
    code, said = run("is not there")
    assert code != 0
    assert "ranks that did not come within 3 seconds: 2\n" in said
    assert "    this one waits for the call of distributed.initialize\n" in said


@only_long
@pytest.mark.long
def test_the_launcher_ends_all_where_a_rank_is_killed(run):
    code, _ = run("dies")
    assert code != 0


def has_hydra():
    """Says whether mpirun is MPICH's."""
    said = mpirun() and subprocess.run([mpirun(), "--version"], capture_output=True, text=True)
    return bool(said) and "HYDRA" in said.stdout


@only_long
@pytest.mark.long
@pytest.mark.skipif(not has_hydra(), reason="mpirun is not MPICH's")
def test_a_killed_rank_is_named_where_the_launcher_lets_the_others_go_on(run):
    """Each process has a launcher of its own, as on four hosts."""
    hosts = ("-launcher", "fork", "-hosts", "a,b,c,d", "-ppn", "1")
    code, said = run("dies", "-disable-auto-cleanup", *hosts)
    assert code != 0
    # One that looks late may hear of it from another.
    assert said.count("DistributedError: rank 2 died\n") == 3


@only_long
@pytest.mark.long
def test_processes_end_that_block_for_ever(run):
    code, said = run("blocks")
    assert code != 0
    words = "DistributedError: ranks that did not come within 3 seconds: none: each waits"
    assert said.count(words) == 4


@only_long
@pytest.mark.long
def test_a_rank_that_ends_before_the_others_is_named(run):
    code, said = run("ends")
    assert code != 0
    assert "rank 2 ended its program while others go on" in said


class Alone:
    """The communicator of a process that hears nothing of another one."""

    rank, size = 0, 2

    def __init__(self, other):
        self.other = other

    def Dup(self):
        return self

    def allgather(self, own):
        return [own, (own[0], self.other)]

    def improbe(self):
        return None


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system tells nothing of processes")
def test_a_dead_process_of_the_same_host_is_named():
    """Some launchers let the others go on."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        known = News(Alone(other.pid))
        known.check("sum")
        other.send_signal(signal.SIGKILL)
        other.wait()
        with pytest.raises(DistributedError, match=r"rank 1 died\n    rank 0 of 2 waits for the s"):
            known.check("sum")


@pytest.mark.parametrize("out", ["os.fdopen(write, 'w')", "None"])
def test_a_process_ends_at_once_whose_output_nobody_takes(out):
    program = f"""
import os, sys
from functensor.distributed.failures import end_at_once
read, write = os.pipe()
os.close(read)
sys.stdout = {out}
print("lost")
end_at_once()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_the_time_to_wait_is_positive():
    before = Limit.seconds
    for given in (0, "60", float("nan")):
        with pytest.raises(ValueError, match=r"set_timeout: .* is no time to wait"):
            set_timeout(given)
    assert Limit.seconds == before


class Ending:
    """The news of a process that is on its way to its end, where another one has died."""

    def absence(self, what, ranks=None):
        return Absence("rank 1 died", f"    rank 0 of 2 waits for the {what}", "look")

    def leave(self, words):
        pass


def test_a_watch_tells_once_why_work_was_given_up(monkeypatch, capsys):
    monkeypatch.setattr(watching, "SECONDS_TO_COME_BACK", 0.0)
    watch = watching.Watch(Ending())
    watch.queued("mean", (0, 1), lambda: False)
    watch._thread.join()
    with pytest.raises(DistributedError, match="rank 1 died"):
        watch.check()
    assert capsys.readouterr().err.count("rank 1 died") == 1


class Broken:
    """The news of a process whose MPI fails."""

    def absence(self, what, ranks=None):
        raise OSError("the link is down")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_process_ends_whose_watch_has_failed():
    watch = watching.Watch(Broken())
    watch.queued("mean", (0, 1), lambda: False)
    watch._thread.join()
    closing = threading.Thread(target=watch.close, daemon=True)
    closing.start()
    closing.join(10)
    ended = not closing.is_alive()
    watch._queued.clear()
    assert ended
