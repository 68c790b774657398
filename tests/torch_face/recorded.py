"""PyTorch's results of expressions and layers, recorded by ``tests/torch_face/recorded.py``.

So they are compared where PyTorch is not installed too.
"""

import io
import json
import warnings
from pathlib import Path

import numpy as np

__all__ = ["differences", "load", "pytorchs", "save", "unlike", "unlike_the_record"]


def pytorchs(torch, expressions, outcomes):
    """Returns PyTorch's outcomes by the expressions; without gradients where it has none."""
    found = {}
    for text in expressions:
        try:
            found[text] = outcomes(torch, text)
        except RuntimeError:
            found[text] = outcomes(torch, text, derive=False)
    return found


def save(name, found, version):
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
    Path(__file__).with_name(f"{name}.npz").write_bytes(buffer.getvalue())


def load(name):
    """Returns the version of PyTorch, and its outcomes by the expressions."""
    with np.load(Path(__file__).with_name(f"{name}.npz")) as file:
        version, table = json.loads(str(file["table"]))
        rows = {name: file[name] for name in file.files if name != "table"}

    def array(name, start, shape):
        return rows[name][start : start + int(np.prod(shape, dtype=int))].reshape(shape)

    return version, {
        text: [[array(*place) for place in places] for places in both]
        for text, both in table.items()
    }


def differences(ours, theirs):
    """Yields how outcomes differ; gradients count where PyTorch's are finite."""
    for what, mine, others in zip(("result", "gradient"), ours, theirs):
        if what == "result" and len(mine) != len(others):
            yield f"{len(mine)} results, not {len(others)}"
        for a, b in zip(mine, others):
            texts = a.dtype.kind == b.dtype.kind == "U"
            if a.shape != b.shape or (a.dtype != b.dtype and not texts):
                yield f"{what} {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
                continue
            if texts:
                if a.tolist() != b.tolist():
                    yield f"{what} {a.tolist()}, not {b.tolist()}"
                continue
            tolerance = 2e-3 if b.dtype == np.float16 else 2e-5
            if what == "gradient":
                finite = np.isfinite(b)
                a, b = a[finite], b[finite]
            if not np.allclose(a, b, tolerance, tolerance, equal_nan=True):
                yield f"{what} {a.tolist()}, not {b.tolist()}"


if __name__ == "__main__":
    import sys

    import torch

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from torch_face.expressions import EXPRESSIONS, outcomes
    from torch_face.further_expressions import FURTHER
    from torch_face.laws import LAWS
    from torch_face.layers import LAYERS, layer_outcomes
    from torch_face.name_expressions import NAME_EXPRESSIONS
    from torch_face.namespaces import FOURIER, SPECIAL
    from torch_face.optimizers import OPTIMIZERS, optimizer_outcomes

    save("expressions", pytorchs(torch, EXPRESSIONS, outcomes), torch.__version__)
    save("name_expressions", pytorchs(torch, NAME_EXPRESSIONS, outcomes), torch.__version__)
    save("further_expressions", pytorchs(torch, FURTHER, outcomes), torch.__version__)
    save("optimizers", pytorchs(torch, OPTIMIZERS, optimizer_outcomes), torch.__version__)
    save("layers", pytorchs(torch, LAYERS, layer_outcomes), torch.__version__)
    save("fourier", pytorchs(torch, FOURIER, outcomes), torch.__version__)
    save("special", pytorchs(torch, SPECIAL, outcomes), torch.__version__)
    save("laws", pytorchs(torch, LAWS, outcomes), torch.__version__)


def unlike(torch, texts, recorded, outcomes):
    """Returns lines of what expressions give here and what was recorded, where these differ."""
    bad = []
    for text in texts:
        theirs = recorded[text]
        try:
            found = list(differences(outcomes(torch, text, bool(theirs[1])), theirs))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        bad += [f"{text}: {each}" for each in found]
    return bad


def unlike_the_record(there, texts, recorded, outcomes):
    """Returns the expressions that PyTorch itself gives another outcome than was recorded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytorchs(there, texts, outcomes)
    return [text for text in texts if list(differences(found[text], recorded[text]))]
