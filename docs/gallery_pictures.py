"""Draws the pictures of gallery.md, each of what an example computes.

Run ``python docs/gallery_pictures.py`` where ``functensor[examples,scipy]`` is installed. All take
some minutes; with names behind it, as in ``programs/drum torch/vae``, it draws these alone. The
picture of ``backend`` needs PyTorch too. `gallery_drawings.py` says what is drawn.
"""

import argparse
import importlib.util
import os
import sys
import time
from io import BytesIO
from pathlib import Path

import gallery_drawings_torch  # noqa: F401 - it enters its drawings into the table
import matplotlib as mpl
from gallery_drawings import DRAWINGS
from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelsize": 7,
    "axes.titlesize": 7,
    "font.size": 7,
    "legend.fontsize": 6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
}
WIDTH, HEIGHT = 320, 200
DOTS_PER_INCH = 100
LARGEST = 25_000  # bytes of a picture
# Bars of progress would stand between the names of the pictures.
os.environ["TQDM_DISABLE"] = "1"


def load(name):
    """Imports an example by its path below the folder of examples, without ``.py``."""
    path = EXAMPLES / f"{name}.py"
    # Examples import helpers that lie beside them.
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
    finally:
        sys.path.remove(str(path.parent))
    return example


def save(figure, path):
    """Writes a figure in 128 colours, or in fewer if the file would be too large."""
    whole = BytesIO()
    figure.savefig(whole, dpi=DOTS_PER_INCH)
    picture = Image.open(whole).convert("RGB")
    for colours in (128, 64, 32, 16):
        picture.quantize(colours).save(path, optimize=True)
        if path.stat().st_size <= LARGEST:
            return
    raise ValueError(f"{path.name} has more than {LARGEST} bytes in 16 colours")


def draw(name, folder):
    """Runs an example and writes its picture; returns the picture's path."""
    figure = Figure(figsize=(WIDTH / DOTS_PER_INCH, HEIGHT / DOTS_PER_INCH), layout="constrained")
    # Examples read the command line; FUNCTENSOR_EXAMPLE_STEPS is left to them.
    arguments, sys.argv = sys.argv, [name]
    try:
        DRAWINGS[name](load(name), figure)
    finally:
        sys.argv = arguments
    path = folder / f"{name.replace('/', '_')}.png"
    save(figure, path)
    return path


def main():
    """Draws the pictures into a folder."""
    parser = argparse.ArgumentParser(description="Draws the pictures of gallery.md.")
    parser.add_argument("names", nargs="*", help="such as programs/drum; all unless told")
    words = "where the pictures go; by default gallery, beside this script"
    parser.add_argument("--folder", type=Path, default=DOCS / "gallery", help=words)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in options.names or DRAWINGS:
            # The folder of examples has one that is called torch.
            if name == "backend" and not importlib.util.find_spec("torch"):
                print("backend.png is left out: PyTorch is missing")
                continue
            begin = time.perf_counter()
            path = draw(name, options.folder)
            size = path.stat().st_size / 1000
            print(f"{path.name}: {size:.1f} kB, {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
