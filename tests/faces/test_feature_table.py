"""The table of features says what is installed, and logs tell what happens if somebody reads."""

import logging
import os
import subprocess
import sys

import pytest

import functensor as ft
from functensor.backends import logs
from functensor.data import DataLoader
from functensor.faces import feature_table


def run(source):
    """Returns what a program in an interpreter of its own prints."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


def test_the_table_tells_packages_and_how_to_get_them(monkeypatch):
    table = ft.features()
    assert [*table] == [
        "cuda", "cudnn", "bfloat16", "serialization", "mnist", "scipy", "draw", "plot", "native",
        "blas", "debug logs",
    ]  # fmt: skip
    scipy = pytest.importorskip("scipy")
    assert table["scipy"] == (True, f"scipy {scipy.__version__}", "pip install 'functensor[scipy]'")
    absent = ("no_such_module", ("none",), "draw")
    monkeypatch.setitem(feature_table.PACKAGED_FEATURES, "draw", absent)
    without = ft.features()
    assert not without["draw"]
    (line,) = [line for line in repr(without).splitlines() if line.startswith("draw ")]
    assert line.split() == [
        *("draw", "no", "no_such_module", "is", "not", "installed"),
        *("pip", "install", "'functensor[draw]'"),
    ]
    assert len(repr(without).splitlines()) == len(without)


def test_the_blas_and_its_threads():
    table = ft.features()
    assert table["blas"].what.endswith(" threads")
    assert run("import functensor as ft; print(ft.features()['blas'].what)").endswith(
        (" 1 threads\n", "an unknown number of threads\n")
    )


def test_nothing_heavy_is_imported():
    heavy = {"cupy", "matplotlib", "scipy", "pooch", "safetensors", "sklearn", "logging"}
    source = "import functensor as ft, sys; before = {*sys.modules}; ft.features(); "
    source += "print(*{*sys.modules} - before)"
    assert {*run(source).split()} & heavy == set()


def test_logs_tell_what_happens(caplog):
    caplog.set_level(logging.DEBUG, logger="functensor")
    assert ft.features()["debug logs"].what.endswith("functensor.files: DEBUG")
    f = ft.jit(lambda x: x + 1)
    f(1.0)
    list(DataLoader(range(3), 2))
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("functensor.jit", "DEBUG"),
        ("functensor.data", "DEBUG"),
    ]
    assert "is staged: the first call" in caplog.records[0].getMessage()
    assert caplog.records[1].getMessage() == "epoch 0 begins at batch 0"


def test_logs_are_off_where_nobody_reads(monkeypatch):
    monkeypatch.delitem(sys.modules, "logging")
    logs.log_debug("jit", "%s")
    assert "logging" not in sys.modules
    assert not ft.features()["debug logs"]
