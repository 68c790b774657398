"""The page on state of the process lists all that there is, as the sources have it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from support.long_forms import only_long

# They read the whole house, which takes seconds.
pytestmark = [only_long, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "process_state.md"
FLOORS = ("backends", "primitives", "functensor")
MUTATING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "remove", "setdefault", "update",
}  # fmt: skip
# State that modules of others keep for the whole process.
OTHERS = {
    "cache", "excepthook", "filters", "mallopt", "meta_path", "path_hooks", "register_at_fork",
    "sched_setaffinity", "set_num_threads", "setrecursionlimit", "setswitchinterval", "seterr",
    "showwarning",
}  # fmt: skip
OWNERS = {"ctypes", "gc", "linecache", "np", "os", "sys", "threading", "warnings"}
VARIABLE = re.compile(r"[A-Z]+(_[A-Z]+)+_?")
FUNCTIONS = (ast.FunctionDef, ast.Lambda)
# Calls that make what can change.
CONTAINERS = {"WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "defaultdict", "deque"}
CONTAINERS |= {"dict", "list", "set"}


@cache
def trees():
    """Returns the syntax trees of all modules, by their paths."""
    return {
        path.relative_to(ROOT): ast.parse(path.read_text())
        for floor in FLOORS
        for path in sorted((ROOT / floor).rglob("*.py"))
    }


@cache
def nodes(tree):
    """Returns the nodes of a module."""
    return list(ast.walk(tree))


def listed(heading):
    """Returns the first two columns of the table below a heading of the page, as pairs."""
    text = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`|]+)` \| `([^`|]+)` \|", text, re.MULTILINE))


def stored(tree):
    """Returns the names that are assigned anywhere in a tree."""
    names = (n for n in nodes(tree) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


@cache
def assigned(tree):
    """Returns the names that a module's own statements assign."""
    return {n for s in tree.body if isinstance(s, ast.Assign | ast.AnnAssign) for n in stored(s)}


@cache
def imports(path, tree):
    """Returns by name what a module imports from modules of the house: their paths and names."""
    found = {}
    for node in nodes(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        package = path.parts[:-1]
        mapped = ("functensor", *package) if package[0] != "functensor" else package
        mapped = mapped[: len(mapped) - node.level + 1] + tuple((node.module or "").split("."))
        if mapped[1:2] in (("backends",), ("primitives",)):
            mapped = mapped[1:]
        module = Path(*mapped).with_suffix(".py")
        for alias in node.names:
            found[alias.asname or alias.name] = module, alias.name
    return found


def mutated(function):
    """Returns the names whose values a function changes and that are none of its own."""
    arguments = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    told = {x for n in ast.walk(function) if isinstance(n, ast.Global) for x in n.names}
    found = set(told)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes, value = node.func.attr in MUTATING, node.func.value
        else:
            changes = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            value = getattr(node, "value", None)
        if changes and isinstance(value, ast.Name):
            found.add(value.id)
    return found - ((arguments | stored(function)) - told)


@cache
def classes(tree):
    """Returns a module's classes, by their names."""
    return {node.name: node for node in nodes(tree) if isinstance(node, ast.ClassDef)}


def is_container(value):
    """Says whether an expression makes a container that can change."""
    made = isinstance(value, ast.Call) and ast.unparse(value.func) in CONTAINERS
    return made or isinstance(value, ast.Dict | ast.List | ast.Set)


def set_on_classes(path, tree):
    """Yields what a module sets on classes: their attributes, and whatever is patched."""
    known = set(classes(tree))
    for name, (module, original) in imports(path, tree).items():
        if module in trees() and original in classes(trees()[module]):
            known.add(name)
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = getattr(node.value, "id", None)
            if owner in known and not node.attr.startswith("__"):
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign | ast.AnnAssign) and is_container(line.value):
                    yield from (f"{node.name}.{name}" for name in stored(line))
        elif isinstance(node, ast.FunctionDef):
            given = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
            of_classes = {a.arg for a in given if getattr(a.annotation, "id", None) == "type"}
            for call in (n for n in ast.walk(node) if isinstance(n, ast.Call) and n.args):
                called = getattr(call.func, "id", None)
                if called == "setattr" and ast.unparse(call.args[0]) in of_classes | known:
                    yield "setattr"
                elif called == "patch":
                    yield f"patch({ast.unparse(call.args[0])})"


def test_the_page_lists_what_is_set_on_classes():
    found = {(x, str(path)) for path, tree in trees().items() for x in set_on_classes(path, tree)}
    assert found
    assert listed("Classes") == found


def test_planted_state_of_a_class_is_found():
    source = """
class Known:
    kept = {}
    fixed = ()

def change(kind: type, other):
    Known.told = 1
    setattr(kind, "a", 1)
    setattr(other, "a", 1)
    patch(Known, "why", dict)
"""
    found = set(set_on_classes(Path("functensor/planted.py"), ast.parse(source)))
    assert found == {"Known.kept", "Known.told", "setattr", "patch(Known)"}


def test_the_page_lists_what_belongs_to_a_thread():
    found = {
        (node.name, str(path))
        for path, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        and {"threading.local", "local"} & {*map(ast.unparse, node.bases)}
    }
    assert found
    assert listed("Threads") == found


def test_the_page_lists_the_variables_of_the_environment():
    found = set()
    for path, tree in trees().items():
        read = [node for node in nodes(tree) if isinstance(node, ast.Attribute)]
        if any(ast.unparse(node) in ("os.environ", "os.getenv") for node in read):
            strings = (n.value for n in nodes(tree) if isinstance(n, ast.Constant))
            names = {s for s in strings if isinstance(s, str) and VARIABLE.fullmatch(s)}
            found |= {(name, str(path)) for name in names - assigned(tree)}
    assert found
    assert listed("Environment") == found


def test_the_page_lists_what_of_others_is_changed():
    found = set()
    for path, tree in trees().items():
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr in OTHERS:
                root = ast.unparse(node.value)
                if root in OWNERS:
                    found.add((f"{root}.{node.attr}", str(path)))
            writes = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if writes and ast.unparse(node.value) == "sys.modules":
                found.add(("sys.modules", str(path)))
            if isinstance(node, ast.Name) and node.id == "set_compute_type":
                found.add((node.id, str(path)))
            if isinstance(node, ast.Constant) and node.value == "mallopt":
                found.add(("mallopt", str(path)))
    assert found
    assert listed("Python, NumPy and the C library") == found


def test_the_page_lists_what_modules_remember():
    found = set()
    for path, tree in trees().items():
        imported = imports(path, tree)
        for function in (node for node in nodes(tree) if isinstance(node, FUNCTIONS)):
            for name in mutated(function):
                module, original = (path, name) if name in assigned(tree) else imported.get(
                    name, (None, name)
                )
                # Another name for the registry, whose `add` is a primitive.
                if original == "operations":
                    continue
                if module in trees() and original in assigned(trees()[module]):
                    found.add((original, str(module)))
    assert found
    assert listed("Modules") == found
