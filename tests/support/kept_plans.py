"""Counts of plans that are made, and damages to their files, for tests of plans on the disk."""

import os
import pickle

import numpy as np
from support.native import run_python

import functensor as ft
from functensor.backends.native import machine
from functensor.backends.native.background import later
from functensor.backends.native.object_cache import user_cache
from functensor.jitting import tiers


class Counts:
    """How often plans are scheduled, and texts compiled."""

    scheduled = compiled = 0


def counted(folder, monkeypatch):
    """Returns counts from now on, with an empty folder for plans."""
    found, schedule, image = Counts(), tiers.scheduled_plan, machine.Llvm.image

    def scheduled(*args):
        found.scheduled += 1
        return schedule(*args)

    def compiled(*args):
        found.compiled += 1
        return image(*args)

    # What earlier tests have left to the compiling thread is none of this one's.
    assert later(int).wait(60)
    monkeypatch.setenv("FUNCTENSOR_CACHE_DIR", str(folder))
    monkeypatch.setattr(tiers, "scheduled_plan", scheduled)
    monkeypatch.setattr(machine.Llvm, "image", compiled)
    return found


def compiled(function, *args, **options):
    """Returns a jitted function that runs as machine code."""
    jitted = ft.jit(function, **options).compile(*args)
    assert jitted.explain().endswith("as machine code")
    return jitted


def plan_of(jitted):
    """Returns the plan of the last call."""
    return jitted._last.compiled.run


def bits(values):
    """Returns what tells arrays from all others."""
    return [(x.dtype, x.shape, x.tobytes()) for x in map(np.asarray, ft.tree.leaves(values))]


def files(ending):
    """Returns the paths of kept files."""
    return [path for path in user_cache().folder.iterdir() if path.suffix == ending]


DAMAGES = {
    "no pickle": lambda known: b"damaged",
    "another content": lambda known: pickle.dumps({"name": "plan"}),
    "a part": lambda known: known[: len(known) // 2],
    "a foreign function": lambda known: pickle.dumps(os.getcwd),
}


def check_another_process(program, folder):
    """A program that prints its results has its plans from the disk in a second process.

    That process needs neither LLVM nor the printer. The program prints which modules are there.
    """
    from functensor.backends.native.object_loader import can_load

    script = folder / "script.py"
    script.write_text(program)
    source = f"import runpy; runpy.run_path({str(script)!r})"
    objects = str(folder / "objects")
    first, again = [run_python(source, FUNCTENSOR_CACHE_DIR=objects).split("\n") for _ in range(2)]
    assert first[0] == again[0]
    assert first[1] == "True True True"
    assert again[1] == f"{not can_load()} False False"
