"""Says which public name stands on which page of the reference.

The pages are ``docs/reference/*.md``. A block such as ::

    ```{reference} functensor.numpy
    all any nan*
    ```

is the place of these names of a module, or of these members of a class. A pattern stands for the
names that no page spells out; a block without words has all the names that are left. Other names of
the same object need no place of their own: ``absolute`` is shown with ``abs``.

``reference_pages.py`` writes the entries; ``tests/project/test_reference.py`` holds that no name is
missing, and that none stands twice.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from functensor.primitives.core.missing_attributes import ForeignName

__all__ = ["Block", "Entry", "Plan", "blocks_of", "member_names", "module_names", "namespaces"]

PAGES = Path(__file__).parent / "reference"
BLOCK = re.compile(r"^```\{reference\} +(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# These classes have so many members that blocks of their own list them.
SPREAD = ("functensor.Array", "functensor.Tensor")
# Members that the machinery of traces, tapes and layers asks for.
OF_THE_MACHINERY = {
    *("concrete", "copy_value", "dependence", "function", "home", "is_known", "lazy", "mutable"),
    *("node", "origin", "owner", "remove_hook", "take_value", "under", "value", "without_graph"),
}
# Values of these classes may be the same object without being one thing.
PLAIN_VALUES = (bool, int, float, str, tuple, dict, type(None), property)


class Block(NamedTuple):
    """The place of some names.

    Attributes:
        page: the page's name, without its ending.
        number: which block of the page it is.
        owner: the module, or the class, that has the names.
        words: names and patterns; none stand for all that is left.
    """

    page: str
    number: int
    owner: str
    words: tuple[str, ...]


class Entry(NamedTuple):
    """A name with its place.

    Attributes:
        owner: the module or class.
        name: the name.
        value: the object; of a member, as the class has it.
        aliases: other public names of the same object, with their owners.
    """

    owner: str
    name: str
    value: Any
    aliases: list[str]


@cache
def namespaces() -> dict[str, ModuleType]:
    """Returns the public modules, by their names."""
    found: dict[str, ModuleType] = {}

    def visit(name: str) -> None:
        if name in found:
            return
        module = found[name] = import_module(name)
        inner = {x for x in getattr(module, "__all__", ()) if inspect.ismodule(getattr(module, x))}
        for part in sorted(inner | set(getattr(module, "NAMESPACES", ()))):
            visit(f"{name}.{part}")

    visit("functensor")
    # Those who add a backend use it.
    visit("functensor.backends")
    return found


def module_names(name: str) -> list[str]:
    """Returns the public names of a module, but for modules."""
    module = namespaces()[name]
    names = getattr(module, "__all__", ())
    return [x for x in names if not inspect.ismodule(getattr(module, x))]


def is_shown(kind: type, name: str) -> bool:
    """Says whether a class's attribute is a member for users, defined by functensor."""
    value = inspect.getattr_static(kind, name)
    base = next((x for x in kind.__mro__ if name in vars(x)), None)
    if base is None:
        return False  # of its metaclass, as an enumeration's
    if name.startswith("_") or isinstance(value, ForeignName) or name in OF_THE_MACHINERY:
        return False
    if not base.__module__.startswith("functensor"):
        return False
    called = isinstance(value, property | classmethod | staticmethod) or inspect.isroutine(value)
    return called and bool(inspect.getdoc(value))


def member_names(owner: str) -> list[str]:
    """Returns the members of a class that a reader of its entry looks for.

    What a public base has stands there; what a base has that is not public stands here.
    """
    kind = object_of(owner)
    names = [name for name in dir(kind) if is_shown(kind, name)]
    if owner in SPREAD:
        flags = {x: getattr(kind, x) for x in dir(kind) if x.startswith("is_")}
        return sorted({*names, *(x for x, value in flags.items() if value is False)})
    public = public_classes()
    theirs = {name for base in kind.__mro__[1:] if base in public for name in dir(base)}
    return [name for name in names if name not in theirs]


@cache
def public_classes() -> set[type]:
    """Returns the classes of all public modules."""
    values = [getattr(m, x) for n, m in namespaces().items() for x in module_names(n)]
    return {value for value in values if isinstance(value, type)}


def object_of(owner: str) -> Any:
    """Returns a public module or class by its name."""
    if owner in namespaces():
        return namespaces()[owner]
    module, _, name = owner.rpartition(".")
    return getattr(namespaces()[module], name)


@cache
def names_of(owner: str) -> list[str]:
    """Returns the public names of a module, or the members of a class."""
    return module_names(owner) if owner in namespaces() else member_names(owner)


def value_of(owner: str, name: str) -> Any:
    """Returns what a module has by a name; of a class, its attribute as it is defined."""
    holder = object_of(owner)
    find = inspect.getattr_static if inspect.isclass(holder) else getattr
    return find(holder, name)


@cache
def identity(owner: str, name: str) -> Any:
    """Returns the same for two names that are names of one object."""
    value = value_of(owner, name)
    if isinstance(value, PLAIN_VALUES):
        return owner, name
    # Members of two classes stand in both; functions have wrappers of their own in every module.
    within = owner if inspect.isclass(object_of(owner)) else ""
    return within, id(inspect.unwrap(value) if callable(value) else value)


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yields the blocks of a page."""
    for number, match in enumerate(BLOCK.finditer(text)):
        yield Block(page, number, match[1], tuple(match[2].split()))


class Plan:
    """The places of all public names.

    Attributes:
        entries: the entries of every block.
        missing: public names that stand nowhere.
        unknown: words that are no names, and patterns that have none, with their blocks.
        twice: names whose object stands at another place as well.
    """

    def __init__(self, pages: dict[str, str]) -> None:
        owners = [*namespaces(), *SPREAD]
        blocks = [block for page in sorted(pages) for block in blocks_of(page, pages[page])]
        self.entries: dict[Block, list[Entry]] = {block: [] for block in blocks}
        self.unknown = [block.owner for block in blocks if block.owner not in owners]
        self.twice: list[str] = []
        aliases: dict[Any, list[str]] = {}
        for owner in owners:
            for name in names_of(owner):
                aliases.setdefault(identity(owner, name), []).append(f"{owner}.{name}")
        placed: set[Any] = set()
        # Names that are spelt out go before patterns, and patterns before blocks without words.
        for degree in range(3):
            for block in blocks:
                known = names_of(block.owner) if block.owner in owners else []
                for word in block.words or ("*",):
                    if degree != (0 if word in known else 1 if block.words else 2):
                        continue
                    names = [word] if degree == 0 else [x for x in known if fnmatchcase(x, word)]
                    if degree:
                        # A name that the object itself has goes before other names of it.
                        names.sort(key=lambda name: is_other_name(block.owner, name))
                    self._place(block, word, names, degree == 0, placed, aliases)
        stands = {key: names for key, names in aliases.items() if key not in placed}
        self.missing = [name for names in stands.values() for name in names]

    def _place(
        self,
        block: Block,
        word: str,
        names: list[str],
        spelt: bool,
        placed: set[Any],
        aliases: dict[Any, list[str]],
    ) -> None:
        """Gives names to a block, but for those that have a place."""
        found = [name for name in names if identity(block.owner, name) not in placed]
        if spelt and not found:
            self.twice.append(f"{block.owner}.{word}")
        elif not found and block.words:
            self.unknown.append(f"{block.owner}: {word}")
        for name in found:
            key = identity(block.owner, name)
            if key in placed:
                continue
            placed.add(key)
            own = f"{block.owner}.{name}"
            others = [other for other in aliases[key] if other != own]
            entry = Entry(block.owner, name, value_of(block.owner, name), others)
            self.entries[block].append(entry)

    def elsewhere(self, block: Block) -> dict[str, str]:
        """Returns a module's names that other pages show, with the place where they stand."""
        own = {e.name for b, found in self.entries.items() if b.owner == block.owner for e in found}
        here = {x for b in self.entries if b.owner == block.owner for x in self.aliases_in(b)}
        by_alias = {
            alias: f"{entry.owner}.{entry.name}"
            for found in self.entries.values()
            for entry in found
            for alias in entry.aliases
        }
        names = [x for x in names_of(block.owner) if x not in own | here]
        return {name: by_alias[f"{block.owner}.{name}"] for name in names}

    def aliases_in(self, block: Block) -> set[str]:
        """Returns the names by which a block's entries are called in the same module as well."""
        return {
            alias.rpartition(".")[2]
            for entry in self.entries[block]
            for alias in entry.aliases
            if alias.rpartition(".")[0] == block.owner
        }


def is_other_name(owner: str, name: str) -> bool:
    """Says whether an object calls itself by another name."""
    return getattr(value_of(owner, name), "__name__", name) != name


@cache
def plan() -> Plan:
    """Returns the plan of the pages in ``docs/reference``."""
    return Plan({path.stem: path.read_text() for path in sorted(PAGES.glob("*.md"))})
