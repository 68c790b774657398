"""PyTorch's results of the expressions, recorded: ``python tests/torch_face/recorded.py`` does it.

So they are compared where PyTorch is not installed too.
"""

import io
import json
from pathlib import Path

import numpy as np

__all__ = ["FILE", "load", "pytorchs", "save"]

FILE = Path(__file__).with_name("recorded.npz")


def pytorchs(torch, expressions, outcomes):
    """Returns PyTorch's outcomes by the expressions; without gradients where it has none."""
    found = {}
    for text in expressions:
        try:
            found[text] = outcomes(torch, text)
        except RuntimeError:
            found[text] = outcomes(torch, text, derive=False)
    return found


def save(found, version):
    """Writes outcomes: one row of numbers for every dtype, and where each array stands in it."""
    rows, table = {}, {}
    for text, both in found.items():
        table[text] = []
        for arrays in both:
            table[text].append([])
            for a in arrays:
                row = rows.setdefault(a.dtype.name, [])
                start = sum(x.size for x in row)
                row.append(a.reshape(-1))
                table[text][-1].append([a.dtype.name, start, list(a.shape)])
    flat = {name: np.concatenate(row) for name, row in rows.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, table=np.array(json.dumps([version, table])), **flat)
    FILE.write_bytes(buffer.getvalue())


def load():
    """Returns the version of PyTorch, and its outcomes by the expressions."""
    with np.load(FILE) as file:
        version, table = json.loads(str(file["table"]))
        rows = {name: file[name] for name in file.files if name != "table"}

    def array(name, start, shape):
        return rows[name][start : start + int(np.prod(shape, dtype=int))].reshape(shape)

    return version, {
        text: [[array(*place) for place in places] for places in both]
        for text, both in table.items()
    }


if __name__ == "__main__":
    import torch
    from expressions import EXPRESSIONS, outcomes

    save(pytorchs(torch, EXPRESSIONS, outcomes), torch.__version__)
