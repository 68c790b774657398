"""The rules of the house: sizes, arrows, circles, folders, packages, and what an import costs.

Every check is a function of its own, and is given a planted violation that it has to find.
"""

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from support.long_forms import only_long

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {"functensor": "functensor", "primitives": "functensor.primitives"}
FLOORS["backends"] = "functensor.backends"
ONE_BACKEND = "functensor.backends.cpu", "functensor.backends.cuda"
PYTHON_FOLDERS = [*FLOORS, "tests", "examples", "benchmarks", "docs", ".ci"]
# Namespaces of one file.
FACES = {"checkpoint_policies", "errors", "extend"}
# The house itself, what tests share, and calls of all public functions.
# A folder named torch would hide PyTorch itself from the tests.
FOLDERS_OF_TESTS = {"project", "support", "public_functions", "torch_face"}
MAX_LINES = 500
# Some 0.25 microseconds each: about 37 ms in all.
MAX_IMPORT_LINES = 150_000
NOT_ON_IMPORT = {"cupy", "hypothesis", "jax", "matplotlib", "pytest", "scipy", "sklearn", "torch"}
NOT_ON_IMPORT |= {"autograd", "llvmlite", "safetensors", "tqdm"}
TEXT = {"", ".c", ".cfg", ".cu", ".cuh", ".in", ".md", ".py", ".pyi", ".toml", ".txt", ".yaml"}
TEXT |= {".yml"}
NOT_OURS = {"__pycache__", "build", "dist", "node_modules", "_build"}


# The files of the tree


def python_files(folder: Path) -> list[Path]:
    """Returns a folder's Python files."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def module_name(path: Path, folder: Path, package: str) -> str:
    """Returns the name by which a file of a mapped folder is imported."""
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join((package, *(part for part in parts if part != "__init__")))


@cache
def house() -> dict[str, Path]:
    """Returns the file of every module of the three floors, by its mapped name."""
    return {
        module_name(path, ROOT / folder, package): path
        for folder, package in FLOORS.items()
        for path in python_files(ROOT / folder)
    }


def floor(name: str) -> str:
    """Returns the floor on which a module stands, or an empty string if it is not ours.

    A bare ``primitives`` or ``backends`` is a floor under its wrong name.
    """
    parts = name.split(".")
    if parts[0] in ("primitives", "backends"):
        return "bare " + parts[0]
    if parts[0] != "functensor":
        return ""
    return parts[1] if parts[1:2] in (["primitives"], ["backends"]) else "functensor"


# Imports


def is_type_checking(test: ast.expr) -> bool:
    """Tells whether a condition is ``TYPE_CHECKING`` or ``typing.TYPE_CHECKING``."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def statements(tree: ast.AST, *, at_import: bool) -> Iterator[ast.AST]:
    """Walks over a module's nodes; over those that run at import alone, if so asked."""
    if not at_import:
        yield from ast.walk(tree)
        return
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and is_type_checking(node.test):
            for other in node.orelse:
                yield other
                yield from statements(other, at_import=True)
            continue
        yield node
        yield from statements(node, at_import=True)


def imports(
    source: str, name: str, *, is_package: bool, known: Iterable[str], at_import: bool
) -> set[str]:
    """Returns the full names of what a module imports.

    ``from a import b`` is an import of ``a.b`` where that is a module, and of ``a`` otherwise.
    """
    known = set(known)
    package = name if is_package else name.rpartition(".")[0]
    found = set()
    for node in statements(ast.parse(source), at_import=at_import):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            inside = {alias.name: f"{base}.{alias.name}" for alias in node.names}
            found.update(full if full in known else base for full in inside.values())
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            target = node.args[0]
            if called in ("import_module", "__import__") and isinstance(target, ast.Constant):
                found.add(str(target.value))
    return found


def import_graph(modules: dict[str, Path], *, at_import: bool = True) -> dict[str, set[str]]:
    """Returns which of the modules each one imports when it is itself imported, or at all."""
    graph = {}
    for name, path in modules.items():
        is_package = path.name == "__init__.py"
        found = imports(
            path.read_text(), name, is_package=is_package, known=modules, at_import=at_import
        )
        graph[name] = found & modules.keys()
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Returns the modules of one import cycle, in order, or an empty list."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def place(name: str) -> str:
    """Returns the folder of a floor in which a module stands; itself if it stands in none."""
    depth = 2 if floor(name) == "functensor" else 3
    parts = name.split(".")
    package = ".".join(parts[:depth])
    return package if len(parts) > depth or (house()[name].name == "__init__.py") else name


def folder_graph(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns which folders of a floor import which others."""
    folders: dict[str, set[str]] = {}
    for name, targets in graph.items():
        folders.setdefault(place(name), set()).update(place(target) for target in targets)
    return {name: targets - {name} for name, targets in folders.items()}


def wrong_arrows(name: str, targets: Iterable[str]) -> list[str]:
    """Returns those imports of a module that its floor may not have.

    The floors above know backends by their protocol, and not one of them.
    """
    allowed = {
        "backends": {"", "backends"},
        "primitives": {"", "backends", "primitives"},
        "functensor": {"", "backends", "primitives", "functensor"},
    }[floor(name)]
    above = floor(name) != "backends"
    return sorted(
        target
        for target in targets
        if floor(target) not in allowed or (above and target.startswith(ONE_BACKEND))
    )


@only_long
@pytest.mark.long
def test_no_circle_of_modules_imports_within_functions_among_them():
    assert cycle(import_graph(house(), at_import=False)) == []


@only_long
@pytest.mark.long
def test_no_circle_of_folders():
    graph = import_graph(house(), at_import=False)
    # A floor's own package names what stands on it.
    for package in FLOORS.values():
        del graph[package]
    assert cycle(folder_graph(graph)) == []


def test_only_faces_stand_at_the_top():
    modules = {path.stem for path in (ROOT / "functensor").glob("*.py")}
    assert modules == {"__init__", "__main__", *FACES}


def test_tests_stand_in_folders_of_the_same_names():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.name[0] not in "_."}
    known = {path.parent.name for path in house().values() if path.name == "__init__.py"}
    assert folders - {"conftest.py"} <= known | FOLDERS_OF_TESTS


def test_arrows_point_one_way():
    modules = house()
    wrong = {}
    for name, path in modules.items():
        is_package = path.name == "__init__.py"
        targets = imports(
            path.read_text(), name, is_package=is_package, known=modules, at_import=False
        )
        if arrows := wrong_arrows(name, targets):
            wrong[name] = arrows
    assert wrong == {}


@pytest.mark.parametrize("folder", ["primitives", "backends"])
def test_bare_import_says_what_to_write(folder):
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert f"functensor.{folder}" in done.stderr.splitlines()[-1]


def test_planted_cycle_is_found(tmp_path):
    sources = {
        "a": "from .b import x\n",
        "b": "def f():\n    from . import a\nfrom . import c\n",
        "c": "try:\n    import functensor.primitives.a as a\nexcept ImportError:\n    a = None\n",
    }
    modules = {}
    for name, source in sources.items():
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        modules[module_name(path, tmp_path, "functensor.primitives")] = path
    ring = cycle(import_graph(modules))
    assert {name[-1] for name in ring} == {"a", "b", "c"}
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n"
    (tmp_path / "c.py").write_text(late + "g = lambda: __import__('functensor.primitives.a')\n")
    assert cycle(import_graph(modules)) == []
    assert len(cycle(import_graph(modules, at_import=False))) == 3
    (tmp_path / "c.py").write_text(late + "else:\n    from . import a\n")
    assert len(cycle(import_graph(modules))) == 4
    assert cycle({"alone": {"alone"}}) == ["alone", "alone"]


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("functensor.backends.protocol", "import functensor", ["functensor"]),
        ("functensor.backends.protocol", "from .. import primitives", ["functensor.primitives"]),
        ("functensor.backends.protocol", "from ..primitives.core import A", "primitives.core"),
        ("functensor.backends.protocol", "from . import protocol; import numpy", []),
        ("functensor.primitives.collectives", "def f():\n    from ..numpy import sin", "numpy"),
        ("functensor.primitives.collectives", "from .. import Tensor", ["functensor"]),
        ("functensor.primitives.collectives", "from functensor.tree import flatten", "tree"),
        ("functensor.primitives.collectives", "import_module('functensor.nn')", "nn"),
        ("functensor.primitives.collectives", "import backends.numpy", ["backends.numpy"]),
        ("functensor.primitives.collectives", "from ..backends import numpy; from . import a", []),
        ("functensor.primitives", "from .core import A; from ..backends import get", []),
        ("functensor.numpy", "from ..primitives import sin; from .. import tree", []),
        ("functensor.numpy", "from primitives import sin", ["primitives"]),
        ("functensor.numpy", "from ..backends.cpu.plan import plan", "backends.cpu.plan"),
    ],
)
def test_planted_arrow_is_found(name, source, found):
    known = {"functensor.primitives", "functensor.backends", "functensor.tree", name}
    is_package = name in ("functensor.primitives", "functensor.numpy")
    targets = imports(source, name, is_package=is_package, known=known, at_import=False)
    expected = [f"functensor.{found}"] if isinstance(found, str) else found
    assert wrong_arrows(name, targets) == expected


# Sizes and packages


def long_files(root: Path, folders: Iterable[str]) -> dict[str, int]:
    """Returns the files with too many lines, those of kernels among them."""
    paths = [path for folder in folders for path in python_files(root / folder)]
    paths += [path for folder in folders for path in (root / folder).rglob("*.cu*")]
    lengths = {str(path.relative_to(root)): len(path.read_text().splitlines()) for path in paths}
    return {name: lines for name, lines in lengths.items() if lines > MAX_LINES}


def packages(root: Path, mapping: dict[str, str]) -> set[str]:
    """Returns the names of all folders with an ``__init__.py`` below the mapped folders."""
    return {
        module_name(path, root / folder, package)
        for package, folder in mapping.items()
        for path in (root / folder).rglob("__init__.py")
    }


def test_no_file_is_too_long():
    assert long_files(ROOT, PYTHON_FOLDERS) == {}


def test_planted_long_file_is_found(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "fits.py").write_text("x = 1\n" * MAX_LINES)
    (tmp_path / "tests" / "long.py").write_text("x = 1\n" * (MAX_LINES + 1))
    (tmp_path / "tests" / "rows.cuh").write_text("int x;\n" * (MAX_LINES + 2))
    found = {"tests/long.py": MAX_LINES + 1, "tests/rows.cuh": MAX_LINES + 2}
    assert long_files(tmp_path, ["tests"]) == found


def test_pyproject_names_every_package():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    mapping = setuptools["package-dir"]
    assert mapping == {package: folder for folder, package in FLOORS.items()}
    assert sorted(setuptools["packages"]) == sorted(packages(ROOT, mapping))


def unshipped(root: Path, mapping: dict[str, str], data: dict[str, list[str]]) -> list[str]:
    """Returns the files of the mapped folders, Python's aside, that no pattern ships."""
    left = []
    for path in sorted(path for folder in mapping.values() for path in (root / folder).rglob("*")):
        if path.is_dir() or path.suffix == ".py" or "__pycache__" in path.parts:
            continue
        floor = next(name for name, folder in mapping.items() if (root / folder) in path.parents)
        package = module_name(path.parent / "__init__.py", root / mapping[floor], floor)
        patterns = [*data.get(package, ()), *data.get(package.rpartition(".")[0], ()), *data["*"]]
        if not any(path.match(pattern) for pattern in patterns):
            left.append(str(path.relative_to(root)))
    return left


def test_pyproject_ships_every_file():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert unshipped(ROOT, setuptools["package-dir"], setuptools["package-data"]) == []


def test_planted_unshipped_file_is_found(tmp_path):
    (tmp_path / "backends" / "cuda").mkdir(parents=True)
    for name in ("cuda/rows.cu", "cuda/rows.cuh", "rows.cuh", "a.pyi"):
        (tmp_path / "backends" / name).touch()
    mapping = {"functensor.backends": "backends"}
    data = {"functensor.backends.cuda": ["*.cu"], "*": ["*.pyi"]}
    assert unshipped(tmp_path, mapping, data) == ["backends/cuda/rows.cuh", "backends/rows.cuh"]


def test_planted_package_is_found(tmp_path):
    for folder in ("functensor", "functensor/numpy", "primitives"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    mapping = {"functensor": "functensor", "functensor.primitives": "primitives"}
    expected = {"functensor", "functensor.numpy", "functensor.primitives"}
    assert packages(tmp_path, mapping) == expected


# Words that must not be in any file


def texts(root: Path) -> Iterator[Path]:
    """Returns the text files that belong to the project: nothing built, cached or installed."""
    for path in sorted(root.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name not in (".ci", ".github")
            built = path.name in NOT_OURS or path.name.endswith(".egg-info")
            if not (hidden or built or (path / "pyvenv.cfg").exists()):
                yield from texts(path)
        elif path.suffix in TEXT and path.name != ".git":
            yield path


def stains(text: str) -> list[str]:
    """Returns the paths of somebody's machine, and the marks of unfinished work, in a text."""
    paths = r"(?<![\w.])/(?:home|root|tmp|opt|work|farm|Users)/\w*"
    marks = r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b"
    return re.findall(f"{paths}|{marks}", text)


def test_no_machine_paths_and_no_unfinished_work():
    found = {path: stains(path.read_text(errors="replace")) for path in texts(ROOT)}
    assert {str(path.relative_to(ROOT)): what for path, what in found.items() if what} == {}


def test_planted_stain_is_found(tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".ci" / "run").write_text("cd /" + "home/ada/x  # TO" + "DO: less\n")
    (tmp_path / ".venv" / "a.py").write_text("# FIX" + "ME\n")
    assert [path.name for path in texts(tmp_path)] == ["run"]
    assert stains((tmp_path / ".ci" / "run").read_text()) == ["/" + "home/ada", "TO" + "DO"]
    assert stains("see docs/work/ and ./opt/x and a method") == []


# The cost of an import


def run_python(source: str, folder: Path) -> str:
    """Returns what a script prints in a fresh interpreter, outside of the repository."""
    command = [sys.executable, "-c", source]
    # As on a user's machine, bytecode is kept from one import to the next.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def import_lines(module: str, folder: Path) -> int:
    """Returns how many lines of Python a module's import runs once NumPy is there."""
    tests = str(Path(__file__).resolve().parents[1])
    source = (
        f"import sys, numpy; sys.path.append({tests!r}); from support.counted import lines_run;"
        "sys.dont_write_bytecode = False;"
        f"print(lines_run(lambda: __import__({module!r})))"
    )
    # The first import after a change compiles modules.
    return min(int(run_python(source, folder)) for _ in range(2))


def loaded(module: str, folder: Path) -> set[str]:
    """Returns the top-level names of all modules that an import leaves loaded."""
    source = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(run_python(source, folder).split())


def test_import_is_cheap(tmp_path):
    assert import_lines("functensor", tmp_path) <= MAX_IMPORT_LINES


def test_import_brings_in_no_optional_module(tmp_path):
    assert loaded("functensor", tmp_path) & NOT_ON_IMPORT == set()


def test_planted_slow_and_greedy_import_is_found(tmp_path):
    busy = f"for _ in range({MAX_IMPORT_LINES}):\n    pass\n"
    (tmp_path / "greedy.py").write_text(f"import pytest\n{busy}")
    assert import_lines("greedy", tmp_path) > MAX_IMPORT_LINES
    assert loaded("greedy", tmp_path) & NOT_ON_IMPORT == {"pytest"}
