"""Records PyTorch's loss curves of the second half of ``examples/torch``.

Run it where PyTorch is installed: ``python tests/torch_face/record_second_examples.py``. It runs
each file with ``torch`` in place of ``functensor.torch``.
"""

from pathlib import Path

import numpy as np

__all__ = ["CURVES", "SCRIPTS", "STEPS", "losses"]

FOLDER = Path(__file__).parents[2] / "examples" / "torch"
CURVES = Path(__file__).with_name("example_curves_second.npz")
SCRIPTS = [
    "char_rnn", "ddpm", "graph_convolution", "min_gpt", "neural_ode", "super_resolution",
    "time_sequence", "word_lm",
]  # fmt: skip
STEPS = 25


def losses(name, steps, library="functensor.torch"):
    """Returns the loss curve of an example that imports a library."""
    path = FOLDER / f"{name}.py"
    text = path.read_text(encoding="utf-8").replace("functensor.torch", library)
    scope = {"__name__": name}
    exec(compile(text, str(path), "exec"), scope)
    return np.array(scope["train"](steps))


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    found = {name: losses(name, STEPS, "torch") for name in SCRIPTS}
    np.savez_compressed(CURVES, version=np.array(torch.__version__), **found)
    for name, curve in found.items():
        print(name, curve[[0, 1, -1]])
