"""Draws the pictures of hooks.md, of the training of a small network, and prints the times.

Run ``python docs/hook_pictures.py`` where ``functensor[plot]`` is installed. Times differ from run
to run.
"""

import json
import sys
import tempfile
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy
from matplotlib.figure import Figure
from PIL import Image

import functensor as ft
import functensor.numpy as np

DOCS = Path(__file__).resolve().parent
COLOURS = {"forward": "tab:blue", "backward": "tab:orange"}


def loss(weights, x, y):
    """A network of two hidden layers."""
    for number, w in enumerate(weights):
        with ft.scope(f"layer {number}"):
            x = ft.tag(np.tanh(x @ w), f"layer {number}")
    return np.mean((x - y) ** 2)


def problem():
    """Returns weights, inputs and what the network should make of them."""
    rng = numpy.random.default_rng(0)
    sizes = [16, 64, 64, 4]
    pairs = pairwise(sizes)
    weights = [np.array(rng.normal(size=pair) * 1.5 / pair[0] ** 0.5) for pair in pairs]
    x = np.array(rng.normal(size=(256, 16)))
    return weights, x, np.tanh(x[:, :4] - x[:, 4:8])


def draw_histograms(path):
    """Writes the histograms of the layers' values and gradients over 40 steps."""
    weights, x, y = problem()
    hook = ft.hooks.HistogramHook(by="tag")
    for _ in range(40):
        with ft.hooks.use(hook):
            gradients = ft.grad(loss)(weights, x, y)
        weights = [w - 0.5 * g for w, g in zip(weights, gradients, strict=True)]
        hook.step()
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    hook.draw(figure.subplots(len(hook.names), 2))
    save(figure, path)


def draw_timeline(path):
    """Writes the timeline of one step, a row for each primitive, and returns the report."""
    weights, x, y = problem()
    # The first step imports and allocates.
    for _ in range(3):
        timer = ft.hooks.TimerHook()
        with ft.hooks.use(timer):
            ft.grad(loss)(weights, x, y)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        timer.save_trace(trace)
        events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(event["name"] for event in events))
    begin = events[0]["ts"]
    for event in events:
        place = names.index(event["name"]) - 0.4
        span = (event["ts"] - begin, event["dur"])
        axes.broken_barh([span], (place, 0.8), color=COLOURS[event["cat"]])
    for phase, colour in COLOURS.items():
        axes.plot([], [], color=colour, linewidth=6, label=phase)
    axes.legend()
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("microseconds")
    save(figure, path)
    return timer.report()


def save(figure, path):
    """Writes a figure in 64 colours, which take a third of the bytes of all colours."""
    whole = BytesIO()
    figure.savefig(whole, dpi=72)
    Image.open(whole).convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    draw_histograms(folder / "hook_histograms.png")
    print(draw_timeline(folder / "hook_timeline.png"))
