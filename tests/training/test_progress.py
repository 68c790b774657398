"""Bars of training loops: figures, quiet, and what is read when."""

import io
import sys
from types import SimpleNamespace

import pytest

import functensor as ft
import functensor.numpy as np
from functensor import training
from functensor.backends.optional_modules import MissingExtraError


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_shows_figures_rate_and_time():
    out = Terminal()
    bar = training.progress(range(4), desc="fit", file=out, interval=0.0)
    for step in bar:
        bar.report(loss=np.asarray(1.0 / (1 + step)), accuracy=0.5)
    text = out.getvalue()
    assert "fit" in text
    assert "4/4" in text
    assert "loss=0.25" in text
    assert "accuracy=0.5" in text
    assert "it/s" in text or "s/it" in text


def test_a_number_of_steps_is_counted():
    out = Terminal()
    bar = training.progress(10, file=out, interval=0.0)
    bar.update(4, loss=2.0)
    bar.update(6)
    bar.close()
    assert "10/10" in out.getvalue()
    assert "loss=2" in out.getvalue()


def test_it_is_quiet_where_there_is_no_terminal():
    out = io.StringIO()
    bar = training.progress(range(3), file=out)
    for _ in bar:
        bar.report(loss=Unread())
    assert out.getvalue() == ""
    loud = io.StringIO()
    list(training.progress(range(3), file=loud, quiet=False))
    assert "3/3" in loud.getvalue()


def test_a_notebook_is_no_terminal_but_shows_it(monkeypatch):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    out = io.StringIO()
    list(training.progress(range(3), file=out))
    assert "3/3" in out.getvalue()
    quiet = io.StringIO()
    list(training.progress(range(3), file=quiet, quiet=True))
    assert quiet.getvalue() == ""


class Unread:
    def __float__(self):
        raise AssertionError("the figure was read")


def test_figures_are_read_when_they_are_drawn():
    reads = []

    class Figure:
        def __float__(self):
            reads.append(1)
            return 1.0

    bar = training.progress(range(100), file=Terminal(), interval=3600.0)
    for _ in bar:
        bar.report(loss=Figure())
    assert len(reads) == 2



def test_without_tqdm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'functensor\[progress\]'"):
        ft.training.progress(range(3))
