"""Recorded expressions called with ``out``, and PyTorch's names that take it.

``python tests/torch_face/with_out.py`` asks PyTorch, and writes ``names_with_out.txt``.
"""

import ast
import contextlib
import warnings
from pathlib import Path

from torch_face.expressions import EXPRESSIONS, values
from torch_face.further_expressions import FURTHER
from torch_face.laws import LAWS
from torch_face.name_expressions import NAME_EXPRESSIONS
from torch_face.namespaces import FOURIER, SPECIAL

__all__ = ["CALLS", "RECORD", "SPACES", "called", "names_of", "recorded_names"]

RECORD = Path(__file__).with_name("names_with_out.txt")
SPACES = ("torch", "torch.fft", "torch.linalg", "torch.special")
# Calls of names that no recorded expression has: what they draw, or their signs, are not PyTorch's.
MORE = [
    "torch.bernoulli(q)", "torch.empty(2)", "torch.linalg.eig(s)", "torch.linalg.eigh(s)",
    "torch.linalg.eigvals(s)", "torch.linalg.lstsq(s, s)", "torch.linalg.qr(s)",
    "torch.linalg.svd(s)", "torch.multinomial(p, 2)", "torch.nanmedian(m, 1)",
    "torch.normal(0.0, 1.0, (2,))", "torch.qr(s)", "torch.rand(2)", "torch.randint(3, (2,))",
    "torch.randn(2)", "torch.randperm(3)", "torch.svd(s)",
    # These are not among them.
    "torch.poisson(p)", "torch.rand_like(p)", "torch.empty_like(p)", "torch.as_tensor(p)",
]  # fmt: skip


def every():
    """Yields the calls of functions of PyTorch's namespaces: the name, and the text."""
    texts = {*EXPRESSIONS, *NAME_EXPRESSIONS, *FURTHER, *FOURIER, *SPECIAL, *LAWS, *MORE}
    for text in sorted(texts):
        with contextlib.suppress(SyntaxError):
            tree = ast.parse(text, mode="eval").body
            name = ast.unparse(tree.func) if isinstance(tree, ast.Call) else ""
            if name.rpartition(".")[0] in SPACES:
                yield name, text


CALLS = {}
for name, text in every():
    CALLS.setdefault(name, []).append(text)


def called(text, names, out):
    """Returns what a call gives that is given ``out`` too."""
    tree = ast.parse(text, mode="eval").body
    tree.keywords.append(ast.keyword("out", ast.Name("OUT", ast.Load())))
    return eval(ast.unparse(ast.fix_missing_locations(tree)), {**names, "OUT": out})


def takes_out(torch, text):
    """Says whether PyTorch's function of a call takes ``out``."""
    found = eval(text, values(torch))
    several = isinstance(found, tuple | list)
    if not all(isinstance(x, torch.Tensor) for x in (found if several else [found])):
        return False
    out = tuple(torch.empty_like(x) for x in found) if several else torch.empty_like(found)
    try:
        called(text, values(torch), out)
    except (TypeError, RuntimeError):
        return False
    return True


def names_of(torch):
    """Returns the names of the namespaces that take ``out`` in PyTorch, as it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [name for name, texts in CALLS.items() if any(takes_out(torch, t) for t in texts)]
    return {
        space: sorted(n.rpartition(".")[2] for n in found if n.rpartition(".")[0] == space)
        for space in SPACES
    }


def recorded_names():
    """Returns the version of PyTorch that was asked, and the names that it gave."""
    version, *lines = RECORD.read_text().splitlines()
    return version, {space: names.split() for space, _, names in (x.partition(" ") for x in lines)}


if __name__ == "__main__":
    import torch

    lines = [f"{space} {' '.join(names)}\n" for space, names in names_of(torch).items()]
    RECORD.write_text(f"{torch.__version__}\n{''.join(lines)}")
