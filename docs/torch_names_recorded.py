"""Records PyTorch's public names, and how often its own tutorials and examples use each.

``python docs/torch_names_recorded.py FOLDER ...``, with PyTorch installed, reads the Python files
in checkouts of PyTorch's examples and tutorials, and writes ``torch_names.txt``: a line for every
namespace, with names and numbers of uses. A method is taken for a tensor's, or a module's, by its
name alone, where its object is no module that the file imports and Python's own objects have none
of that name.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import warnings
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["NAMESPACES", "RECORD"]

RECORD = Path(__file__).with_name("torch_names.txt")
# Namespaces, and the classes whose methods count as one.
NAMESPACES = [
    "torch", "torch.Tensor", "torch.nn", "torch.nn.Module", "torch.nn.functional",
    "torch.nn.init", "torch.nn.utils", "torch.nn.utils.rnn", "torch.optim",
    "torch.optim.lr_scheduler", "torch.autograd", "torch.autograd.functional", "torch.linalg",
    "torch.fft", "torch.special", "torch.func", "torch.distributions", "torch.utils.data",
    "torch.nn.utils.parametrizations", "torch.nn.utils.parametrize", "torch.nn.utils.prune",
    "torch.optim.swa_utils", "torch.utils.checkpoint", "torch.autograd.forward_ad", "torch.amp",
]  # fmt: skip
# Namespaces whose names are not recorded one by one, only how often they are used.
OTHERS = [
    "accelerator", "ao", "backends", "compiler", "cpu", "cuda", "distributed", "export",
    "futures", "fx", "hub", "jit", "library", "masked", "mps", "mtia", "multiprocessing", "nested",
    "onnx", "overrides", "package", "profiler", "quantization", "random", "signal", "sparse",
    "testing", "utils", "xpu",
]  # fmt: skip
# Methods of Python's own objects count as no tensor's.
OF_PYTHON = {name for kind in (dict, list, str, set, Path) for name in dir(kind)}
CLASSES = ("torch.Tensor", "torch.nn.Module")
# Classes of PyTorch's core that are no parts of its compiler for scripts.
OF_THE_CORE = {
    "Event", "FatalError", "Generator", "OutOfMemoryError", "Size", "Stream", "Tag", "device",
    "dtype", "finfo", "iinfo", "layout", "memory_format",
}  # fmt: skip


def owner(path: str) -> Any:
    """Returns a namespace of PyTorch's."""
    if path in CLASSES:
        place, _, name = path.rpartition(".")
        return getattr(import_module(place), name)
    return import_module(path)


def is_public(path: str, name: str, value: Any) -> bool:
    """Says whether a name that a namespace has belongs to it."""
    if inspect.ismodule(value) or type(value).__module__ == "typing" or name.isupper():
        return False
    place = getattr(value, "__module__", None) or "torch"
    if not place.startswith("torch") or place == "torch._jit_internal" or name.endswith("Storage"):
        return False
    if path == "torch" and not inspect.isroutine(value):
        core = inspect.isclass(value) or type(type(value)).__name__ == "pybind11_type"
        if core and hasattr(import_module("torch._C"), name):
            return name in OF_THE_CORE or name == "default_generator"
    if path == "torch.nn.functional":
        return place in ("torch", path, "torch._C._nn") or "pooling" in place
    return True


def public_names() -> dict[str, list[str]]:
    """Returns the names of every namespace."""
    found = {}
    for path in NAMESPACES:
        module = owner(path)
        listed = getattr(module, "__all__", None) if path != "torch" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[path] = sorted(
                name
                for name in listed or dir(module)
                if not name.startswith("_")
                and (listed or path in CLASSES or is_public(path, name, getattr(module, name)))
            )
    return found


class Uses(ast.NodeVisitor):
    """The names of PyTorch that a file uses."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self.names = names
        self.aliases: dict[str, str] = {}
        self.counted: Counter[tuple[str, str]] = Counter()

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            alone = each.name.partition(".")[0]
            self.aliases[each.asname or alone] = each.name if each.asname else alone

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names:
            self.aliases[each.asname or each.name] = f"{node.module}.{each.name}"

    def path(self, node: ast.expr) -> str | None:
        """Returns the full name that an expression stands for, if it begins at an import."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            before = self.path(node.value)
            return before and f"{before}.{node.attr}"
        return None

    def count(self, full: str) -> None:
        """Counts a full name, where it is one of PyTorch's, or else its namespace."""
        other = next((f"torch.{n}" for n in OTHERS if f"{full}.".startswith(f"torch.{n}.")), None)
        if other and not f"{full}.".startswith("torch.utils.data."):
            self.counted["namespaces", other] += 1
            return
        place, _, name = full.rpartition(".")
        # Classes are defined in modules within their namespaces.
        while place and name not in self.names.get(place, ()):
            place = place.rpartition(".")[0]
        if place:
            self.counted[place, name] += 1

    def visit_Name(self, node: ast.Name) -> None:
        full = self.aliases.get(node.id, "")
        if "." in full:
            self.count(full)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        full = self.path(node)
        if full is not None:
            if full.partition(".")[0] == "torch":
                self.count(full)
            return
        for place in CLASSES:
            if node.attr in self.names[place] and node.attr not in OF_PYTHON:
                self.counted[place, node.attr] += 1
                break
        self.generic_visit(node)


def uses(folders: list[Path], names: dict[str, list[str]]) -> Counter[tuple[str, str]]:
    """Returns how often the Python files of folders use each name."""
    total: Counter[tuple[str, str]] = Counter()
    for file in (file for folder in folders for file in sorted(folder.rglob("*.py"))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(file.read_text())
        except SyntaxError:
            continue
        visitor = Uses(names)
        # Imports first, wherever they stand.
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                visitor.visit(node)
        visitor.visit(tree)
        total += visitor.counted
    return total


def main(folders: list[str]) -> None:
    """Writes the record."""
    torch = import_module("torch")
    names = public_names()
    counted = uses([Path(folder) for folder in folders], names)
    lines = [f"PyTorch {torch.__version__.partition('+')[0]}\n"]
    others = sorted(name for place, name in counted if place == "namespaces")
    for path, there in {**names, "namespaces": others}.items():
        words = [f"{n}:{counted[path, n]}" if counted[path, n] else n for n in there]
        text = textwrap.fill(" ".join(words), 99, break_long_words=False, break_on_hyphens=False)
        lines.append(f"\n[{path}]\n{text}\n")
    RECORD.write_text("".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
