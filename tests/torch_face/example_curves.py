"""Loss curves of scripts in ``examples/torch``, and PyTorch's, which this file records.

    python tests/torch_face/example_curves.py

Needs PyTorch. It runs the same scripts, with ``functensor.torch`` replaced by ``torch`` in them.
"""

import sys
import tempfile
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from pathlib import Path

import numpy as np

__all__ = ["CURVES", "FILE", "SCRIPTS", "curve", "of_pytorch"]

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "torch"
FILE = Path(__file__).with_name("example_curves.npz")

# By script: its steps in the short form, and in the long one.
CURVES = {
    "mnist": (2, 20),
    "vae": (3, 60),
    "dcgan": (3, 40),
    "wgan_gp": (2, 25),
    "siamese": (3, 40),
    "reinforce": (3, 40),
    "actor_critic": (3, 30),
}


@contextmanager
def modules_of(folder):
    """Lets scripts import each other, and forgets them afterwards."""
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)


def curve(name, steps, dtype, folder=SCRIPTS):
    """Returns the losses that a script computes in a dtype: a row for every step."""
    with modules_of(folder):
        common, script = import_module("common"), import_module(name)
        common.FLOAT = getattr(common.torch, dtype)
        return np.array(script.train(steps), float).reshape(steps, -1)


def of_pytorch(steps):
    """Returns PyTorch's curves in both dtypes, by script and dtype; of so many steps by script."""
    with tempfile.TemporaryDirectory() as folder:
        for path in SCRIPTS.glob("*.py"):
            text = path.read_text(encoding="utf-8").replace("functensor.torch", "torch")
            Path(folder, path.name).write_text(text, encoding="utf-8")
        return {
            f"{name} {dtype}": curve(name, count, dtype, Path(folder))
            for name, count in steps.items()
            for dtype in ("float32", "float64")
        }


if __name__ == "__main__":
    np.savez_compressed(FILE, **of_pytorch({name: steps for name, (_, steps) in CURVES.items()}))
