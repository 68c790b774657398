"""The names of the house: one for each idea; annotations that say something; plain docstrings."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest
from support.long_forms import only_long

import functensor
from functensor import primitives
from functensor.primitives.core.primitive import Primitive
from functensor.primitives.core.registry import registry

# They read the whole house, which takes seconds.
pytestmark = [only_long, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("backends", "primitives", "functensor")
# So many names may stand in several modules, beside those that users and primitives have there.
MOST_SHARED_NAMES = 60
# The part of the annotations that may say no more than ``Any``.
MOST_ANY = 0.15
# A docstring says what is done, subject first, and does not ask.
ASKING = re.compile(r"(What|Which|How|Where|Whether|Who|When|Why)\b")
# The namespaces whose names are NumPy's, SciPy's, JAX's and PyTorch's.
FACES = (
    "", "numpy", "numpy.linalg", "numpy.fft", "scipy.fft", "scipy.integrate", "scipy.interpolate",
    "scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.sparse",
    "scipy.spatial.distance", "scipy.special", "scipy.stats", "random", "nn", "nn.init", "optim",
    "sparse", "tree", "hooks", "control", "testing", "extend", "errors", "checkpoint_policies",
    "distributed", "torch", "torch.autograd", "torch.autograd.functional", "torch.autograd.graph",
    "torch.func",
    "torch.distributions", "torch.distributions.constraints", "torch.distributions.transforms",
    "torch.fft", "torch.linalg", "torch.nn", "torch.nn.functional", "torch.nn.init",
    "torch.nn.utils", "torch.nn.utils.parametrizations", "torch.nn.utils.parametrize",
    "torch.nn.utils.prune", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils",
    "torch.special", "torch.utils", "torch.utils.checkpoint", "torch.amp", "torch.cuda.amp",
    "torch.autograd.forward_ad", "torch.utils.data", "data", "datasets", "torch.backends",
    "torch.accelerator", "torch.cuda", "training", "testing.strategies", "torch.compiler",
    "torch.nn.attention", "torch.profiler", "torch.random", "torch.testing", "torch.torch_version",
    "torch.utils.benchmark",
)  # fmt: skip

Sources = dict[str, ast.Module]


@cache
def sources(root: Path) -> Sources:
    """Returns the syntax trees of all modules of the three floors, by their paths."""
    return {
        str(path.relative_to(root)): ast.parse(path.read_text())
        for floor in FLOORS
        for path in sorted((root / floor).rglob("*.py"))
        if "__pycache__" not in path.parts
    }


# Names


def defined(module: ast.Module) -> Iterator[str]:
    """Yields the names that a module gives to its own functions, classes and values."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield name.id


def shared_names(modules: Sources, public: Iterable[str]) -> dict[str, list[str]]:
    """Returns the names that several modules define, with these, but for public ones."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, module in modules.items():
        for name in set(defined(module)):
            found[name].append(path)
    known = {*public}
    return {
        name: paths
        for name, paths in sorted(found.items())
        if len(paths) > 1 and name not in known and not name.startswith("__")
    }


def public_names() -> set[str]:
    """Returns the names of users' namespaces and of primitives.

    NumPy, SciPy and PyTorch have many of them in several places, and a kernel is called like the
    primitive that it computes.
    """
    # Some primitives enter the registry when a namespace is first used.
    for module in pkgutil.walk_packages(primitives.__path__, "functensor.primitives."):
        importlib.import_module(module.name)
    found = {primitive.name for primitive in registry}
    for face in FACES:
        try:
            module = importlib.import_module(f"functensor.{face}" if face else "functensor")
        except ImportError:
            continue
        found |= {name for name in dir(module) if not name.startswith("_")}
    return found


def test_one_name_is_for_one_idea():
    found = shared_names(sources(ROOT), public_names())
    listed = "\n".join(f"{name}: {', '.join(paths)}" for name, paths in found.items())
    assert len(found) <= MOST_SHARED_NAMES, listed


def test_planted_shared_name_is_found():
    modules = {
        "backends/a.py": ast.parse("SMALL = 3\ndef sin(x): ..."),
        "functensor/b.py": ast.parse("SMALL: int = 4\ndef sin(x): ...\nOTHER, = 1,"),
    }
    assert shared_names(modules, {"sin"}) == {"SMALL": ["backends/a.py", "functensor/b.py"]}


# Annotations


def annotations(module: ast.Module) -> Iterator[ast.expr]:
    """Yields the annotations of parameters, results and variables."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield from (x.annotation for x in every if x is not None and x.annotation is not None)
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def part_of_any(modules: Iterable[ast.Module]) -> float:
    """Returns what part of all annotations is a bare ``Any``, written or as another name for it."""
    modules = [*modules]
    names = {"Any"}
    for module in modules:
        for node in module.body:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and ast.dump(value or node) == ANY:
                names |= set(defined(ast.Module([node], [])))
    found = [x for module in modules for x in annotations(module)]
    return sum(isinstance(x, ast.Name) and x.id in names for x in found) / len(found)


ANY = ast.dump(ast.parse("Any", mode="eval").body)


def test_annotations_say_something():
    assert part_of_any(sources(ROOT).values()) <= MOST_ANY


def test_planted_any_is_found():
    module = ast.parse(
        "Value: TypeAlias = Any\n"
        "def f(x: Any, *rest: int, flag: list[Any] = ()) -> Value: ...\n"
        "y: str = ''"
    )
    # Of the annotations TypeAlias, Any, int, list[Any], Value and str.
    assert part_of_any([module]) == 2 / 6


def test_public_signatures_tell_results():
    told = 0
    for face in FACES:
        try:
            module = importlib.import_module(f"functensor.{face}" if face else "functensor")
        except ImportError:
            continue
        for name in getattr(module, "__all__", ()):
            function = getattr(module, name)
            if isinstance(function, FunctionType | Primitive):
                told += 1
                # That of `prepare` is a call's operands and parameters.
                result = str(inspect.signature(function).return_annotation)
                assert result not in ("Prepared", "tuple[Any, ...]"), f"{face}.{name}"
    assert told > 500


# Docstrings


def asking(modules: Sources) -> list[str]:
    """Returns where a docstring opens with a question word."""
    found = []
    for path, module in modules.items():
        for node in ast.walk(module):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            words = ast.get_docstring(node) or ""
            if ASKING.match(words):
                found.append(f"{path}:{getattr(node, 'lineno', 1)} {words.splitlines()[0]}")
    return found


def test_docstrings_do_not_ask():
    assert asking(sources(ROOT)) == []


def test_planted_question_is_found():
    module = ast.parse('def f():\n    """What it does."""\ndef g():\n    """Does it."""')
    assert asking({"a.py": module}) == ["a.py:1 What it does."]


# Namespaces


def strangers(module: object) -> list[str]:
    """Returns the names in a namespace's ``dir`` that are no users' business."""
    ours = {"Any", "annotations", "import_module"}
    return [name for name in dir(module) if name in ours or re.match("_[^_]", name)]


def test_namespaces_show_public_names():
    for face in FACES:
        try:
            module = importlib.import_module(f"functensor.{face}" if face else "functensor")
        except ImportError:
            continue
        assert strangers(module) == [], face
    assert "grad" in dir(functensor)
