"""Draws the pictures of hooks.md and drawing.md, and prints the times of a training step.

Run ``python docs/hook_pictures.py`` where ``functensor[plot]`` is installed. Times differ from run
to run. The page of a profile is drawn by Chromium, where it and selenium are installed.
"""

import argparse
import gc
import json
import runpy
import shutil
import tempfile
import tracemalloc
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy
from matplotlib.figure import Figure
from PIL import Image

import functensor as ft
import functensor.numpy as np

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
COLOURS = {"forward": "tab:blue", "backward": "tab:orange"}
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "legend.frameon": False,
}
BROWSER_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
PAGE_SIZE = 1000, 1060


def loss(weights, x, y):
    """A network of two hidden layers."""
    for number, w in enumerate(weights):
        with ft.scope(f"layer {number}"):
            x = ft.tag(np.tanh(x @ w), f"layer {number}")
    return np.mean((x - y) ** 2)


def problem(rows=256):
    """Returns weights, inputs and what the network should make of them."""
    rng = numpy.random.default_rng(0)
    sizes = [16, 64, 64, 4]
    pairs = pairwise(sizes)
    weights = [np.array(rng.normal(size=pair) * 1.5 / pair[0] ** 0.5) for pair in pairs]
    x = np.array(rng.normal(size=(rows, 16)))
    return weights, x, np.tanh(x[:, :4] - x[:, 4:8])


def new_axes(height):
    """Returns the axes of a new figure, of a height in inches."""
    return Figure(figsize=(8, height), layout="constrained").subplots()


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
    axes = new_axes(3.2)
    names = ["tag" if "tag" in event["args"] else event["name"] for event in events]
    rows = list(dict.fromkeys(names))
    begin = events[0]["ts"]
    for name, event in zip(names, events, strict=True):
        place = rows.index(name) - 0.4
        span = (event["ts"] - begin, event["dur"])
        axes.broken_barh([span], (place, 0.8), color=COLOURS[event["cat"]])
    for phase in ("forward", "backward"):
        axes.plot([], [], color=COLOURS[phase], linewidth=6, label=phase)
    axes.legend()
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("microseconds since the step began")
    save(axes.figure, path)
    return timer.report()


def layer(x, w):
    """A layer of the network whose memory is drawn."""
    return np.tanh(np.sin(x @ w) * 2)


def memory_curve(chosen):
    """Returns the bytes that are held after each operation of a step, and the peak in the hook."""
    rng = numpy.random.default_rng(0)
    weights = [np.array(rng.normal(size=(64, 64)) / 8) for _ in range(12)]
    x = np.array(rng.normal(size=(2048, 64)))

    def network(weights):
        h = x
        for w in weights:
            h = chosen(h, w)
        return np.mean(h**2)

    memory, curve = ft.hooks.MemoryHook(), []

    def note(*shown):
        curve.append(memory.live)

    with ft.hooks.use(memory), ft.hooks.use(ft.hooks.FnHook(note, note), on_replay=True):
        ft.grad(network)(weights)
    return numpy.array(curve), memory.peak


def draw_memory(path):
    """Writes the memory of one step, with and without checkpoints around the layers."""
    axes = new_axes(3.2)
    for name, chosen, colour in (
        ("every residual is kept", layer, "tab:blue"),
        ("ft.checkpoint around each layer", ft.checkpoint(layer), "tab:orange"),
    ):
        curve, peak = memory_curve(chosen)
        label = f"{name}: {peak / 2**20:.0f} MiB at the peak"
        axes.step(range(len(curve)), curve / 2**20, where="post", color=colour, label=label)
        axes.fill_between(range(len(curve)), curve / 2**20, step="post", color=colour, alpha=0.15)
    axes.margins(x=0)
    axes.set_ylim(0)
    axes.legend()
    axes.set_xlabel("operations of a training step, in their order")
    axes.set_ylabel("MiB held")
    save(axes.figure, path)


def draw_counts(path):
    """Writes the operations of arithmetic of one step, by scope."""
    weights, x, y = problem()
    counter = ft.hooks.CountHook()
    with ft.hooks.use(counter):
        ft.grad(loss)(weights, x, y)
    costs = counter.costs("scope")
    scopes = list(dict.fromkeys(scope for scope, _ in costs if scope))
    axes = new_axes(2.2)
    for phase, shift in (("forward", -0.2), ("backward", 0.2)):
        flops = [costs[scope, phase].flops / 1e6 for scope in scopes]
        places = [number + shift for number in range(len(scopes))]
        bars = axes.barh(places, flops, 0.38, color=COLOURS[phase], label=phase)
        axes.bar_label(bars, [f"{million:.2f}" for million in flops], padding=3)
    axes.set_yticks(range(len(scopes)), scopes)
    axes.invert_yaxis()
    axes.legend()
    axes.set_xlabel("millions of operations of arithmetic")
    save(axes.figure, path)


def draw_finite(path):
    """Writes the ranges of values and gradients of a network, of which some are NaN."""
    example = runpy.run_path(str(EXAMPLES / "find_a_nan.py"))
    params_key, points_key = ft.random.split(ft.random.key(0))
    points = ft.random.normal(points_key, (example["POINTS"], 2))
    inside = np.sum(points**2, axis=1) < 1.4
    arguments = example["init"](params_key), points, inside, example["distances"]
    ranges = {}

    def note(op, _, x):
        magnitudes = abs(numpy.asarray(ft.hooks.value(x)))
        known = magnitudes[numpy.isfinite(magnitudes) & (magnitudes > 0)]
        number = int(op.scope.removeprefix("layer"))
        ranges[op.phase, number] = (known.min(), known.max()) if known.size else None

    with ft.hooks.use(ft.hooks.FnHook(note, note), match="tanh"):
        ft.grad(example["loss"])(*arguments)
    try:
        with ft.hooks.check_finite():
            ft.grad(example["loss"])(*arguments)
    except ft.errors.NonFiniteError as error:
        found = str(error).partition(",")[0]
    axes = new_axes(3.4)
    bad = [number for (_, number), span in ranges.items() if span is None]
    axes.axvspan(-0.5, max(bad) + 0.5, color="tab:red", alpha=0.15, linewidth=0)
    for phase, shift in (("forward", -0.2), ("backward", 0.2)):
        spans = {n: span for (p, n), span in ranges.items() if p == phase and span}
        bottoms, tops = numpy.array(list(spans.values())).T
        places = numpy.array(list(spans)) - shift
        name = {"forward": "values of tanh", "backward": "its gradients"}[phase]
        axes.bar(places, tops - bottoms, 0.36, bottoms, color=COLOURS[phase], label=name)
    known = numpy.array([span for span in ranges.values() if span])
    axes.set_yscale("log")
    axes.set_ylim(known.min() / 2, known.max() * 2)
    axes.set_xlim(example["LAYERS"] - 0.4, -0.6)
    place = {"ha": "center", "transform": axes.get_xaxis_transform()}
    axes.text(max(bad) / 2, 0.2, "gradients are NaN", color="tab:red", **place)
    axes.axvline(max(bad) + 0.5, color="tab:red", linestyle="--")
    axes.set_title(f"check_finite: {found}", color="tab:red", loc="left")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    axes.set_xticks(range(example["LAYERS"]))
    axes.set_xlabel("layer, in the order of the way back")
    axes.set_ylabel("least to greatest magnitude")
    save(axes.figure, path)


def draw_residuals(path):
    """Writes the memory that is held between the passes, under hooks that keep residuals."""
    example = runpy.run_path(str(EXAMPLES / "activation_offloading.py"))
    rng = numpy.random.default_rng(0)
    normal = lambda *shape: np.array(rng.normal(size=shape).astype("float32"))  # noqa: E731
    weights = [normal(64, 64) / 8 for _ in range(24)]
    arguments = normal(2048, 64), np.sin(normal(2048, 64))

    def held(hook):
        gc.collect()
        tracemalloc.start()
        with ft.hooks.use(hook):
            value, pull = ft.vjp(lambda weights: example["loss"](weights, *arguments), weights)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size, pull(np.ones_like(value))[0]

    hooks = {
        "kept as they are, float32": ft.hooks.Hook(),
        'CompressHook("float16")': ft.hooks.CompressHook("float16"),
        'CompressHook("int8")': ft.hooks.CompressHook("int8"),
        'OffloadHook("disk")': ft.hooks.OffloadHook("disk"),
    }
    # What is imported once is no memory of a step.
    for hook in hooks.values():
        held(hook)
    found = {name: held(hook) for name, hook in hooks.items()}
    exact = next(iter(found.values()))[1]
    axes = new_axes(2.2)
    sizes = [size / 2**20 for size, _ in found.values()]
    bars = axes.barh(list(found), sizes, 0.7, color=["tab:grey", *["tab:blue"] * 3])
    words = [f"{sizes[0]:.1f} MiB"]
    for size, (_, gradient) in list(zip(sizes, found.values(), strict=True))[1:]:
        error = example["largest_error"](gradient, exact)
        words.append(f"{size:.1f} MiB, gradients {f'off by {error:.0e}' if error else 'the same'}")
    axes.bar_label(bars, words, padding=4)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * max(sizes))
    axes.set_xlabel("MiB held between the forward and the backward pass")
    save(axes.figure, path)


def train(weights, x, y):
    """Two steps of gradient descent, whose profile is drawn."""
    for _ in range(2):
        with ft.scope("gradients"):
            gradients = ft.grad(loss)(weights, x, y)
        with ft.scope("update"):
            weights = [w - 0.5 * g for w, g in zip(weights, gradients, strict=True)]
    return weights


def draw_profile(path):
    """Writes the page of a profile as Chromium shows it, with the pointer on an operation."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not (browser and driver):
        return f"{path.name} is left out: Debian's chromium and chromium-driver are missing"
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        from selenium.webdriver.common.action_chains import ActionChains
    except ModuleNotFoundError:
        return f"{path.name} is left out: pip install selenium"
    arguments = problem(rows=8192)
    ft.hooks.profile(train)(*arguments)
    report = ft.hooks.profile(train)(*arguments)
    for event in report.events:
        # The picture tells nothing of the machine on which it was made.
        event.line = Path(event.line).name
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "profile.html"
        report.save(page)
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for option in (*BROWSER_OPTIONS, f"--user-data-dir={folder}/browser"):
            options.add_argument(option)
        opened = webdriver.Chrome(options=options, service=Service(driver))
        try:
            width, height = PAGE_SIZE
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            opened.get(page.as_uri())
            bars = opened.find_elements("css selector", "#timeline rect.bar:not(.scope)")
            widest = max(bars, key=lambda bar: float(bar.get_attribute("width")))
            ActionChains(opened).move_to_element(widest).perform()
            shot = opened.get_screenshot_as_png()
        finally:
            opened.quit()
    reduced(BytesIO(shot), path)
    return f"{path.name} has the page of {len(report.events)} operations"


def save(figure, path):
    """Writes a figure."""
    whole = BytesIO()
    figure.savefig(whole, dpi=96)
    reduced(whole, path)


def reduced(picture, path):
    """Writes a picture in 64 colours, which take a third of the bytes of all colours."""
    Image.open(picture).convert("RGB").quantize(64).save(path, optimize=True)


def main():
    """Draws all pictures into a folder."""
    parser = argparse.ArgumentParser(description="Draws the pictures of hooks.md and drawing.md.")
    words = "where the pictures go; by default beside this script"
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS, help=words)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        draw_histograms(folder / "hook_histograms.png")
        print(draw_timeline(folder / "hook_timeline.png"))
        draw_memory(folder / "hook_memory.png")
        draw_counts(folder / "hook_counts.png")
        draw_finite(folder / "hook_finite.png")
        draw_residuals(folder / "hook_residuals.png")
    print(draw_profile(folder / "profile.png"))


if __name__ == "__main__":
    main()
