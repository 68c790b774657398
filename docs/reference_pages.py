"""Writes the reference while the site is built: an extension of Sphinx.

``reference_names.py`` says which name stands on which page. Here each name becomes an object of
Sphinx's Python domain, so that the index and the search find it and pages link to it. Its text is
its docstring, made into reStructuredText by napoleon. Blocks of Markdown pages are replaced when a
page is read, and no file is written.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring

sys.path.insert(0, str(Path(__file__).parent))
from reference_names import BLOCK, SPREAD, Block, Entry, member_names, namespaces, plan
from reference_support import support_of

from functensor.primitives.core import test_samples

__all__ = ["setup"]

INDENT = "   "
# The prefixes of names in docstrings, as examples import modules.
PREFIXES = {
    "np": "functensor.numpy", "ft": "functensor", "nn": "functensor.nn",
    "hooks": "functensor.hooks", "special": "functensor.scipy.special",
    "random": "functensor.random", "torch": "functensor.torch", "linalg": "functensor.numpy.linalg",
}  # fmt: skip

# Defaults that have a name alone.
CONSTANTS = {id(value): name for name, value in vars(test_samples).items() if name.isupper()}


class Shown:
    """A default value whose own text would say where it lies, not what it is.

    Args:
        text: what a reader sees.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def default_shown(value: Any) -> Any:
    """Returns a default value, or what a reader sees in its place.

    >>> import numpy
    >>> [default_shown(x) for x in (0.5, float, numpy.float64, len)]
    [0.5, float, np.float64, len]
    """
    if value is inspect.Parameter.empty or "<" not in repr(value):
        return value
    if isinstance(value, type) or inspect.isroutine(value):
        if value.__name__ == "<lambda>":
            return Shown("...")
        return Shown(f"{'np.' if is_numpys(value) else ''}{value.__name__}")
    if type(value) is object or is_numpys(value):
        # It stands for an argument that was not given.
        return Shown("<not given>")
    return Shown(CONSTANTS.get(id(value), "..."))


def signature_text(value: Any, bound: bool = False) -> str:
    """Returns the parameters of what is called, without annotations; empty if none are known.

    Args:
        value: a function, a class or a primitive.
        bound: whether the first parameter is an object's own, which callers do not give.
    """
    try:
        known = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        x.replace(
            annotation=x.empty,
            default=default_shown(x.default),
        )
        for x in known.parameters.values()
    ]
    return str(known.replace(parameters=parameters[bound:], return_annotation=known.empty))


def is_numpys(value: Any) -> bool:
    """Says whether an object is NumPy's own, whose documentation is NumPy's too."""
    known = value if isinstance(value, type) or inspect.isfunction(value) else type(value)
    return known.__module__.partition(".")[0] == "numpy"


def text_of(value: Any) -> str:
    """Returns an object's docstring, if it is not that of its class."""
    doc = inspect.getdoc(value) or ""
    if isinstance(value, type | property | classmethod | staticmethod) or inspect.isroutine(value):
        return doc
    return doc if type(value).__module__.startswith("functensor") else ""


class Writer:
    """Writes entries as lines of reStructuredText.

    Attributes:
        config: Sphinx's configuration, which napoleon asks.
    """

    def __init__(self, config: Any) -> None:
        self.config = config

    def block(self, block: Block) -> Iterator[str]:
        """Yields the lines of all entries of a block."""
        entries = plan().entries[block]
        module = block.owner if block.owner in namespaces() else block.owner.rpartition(".")[0]
        first = next(x for x in plan().entries if x.owner == block.owner)
        declares = block == first and module == block.owner
        yield f".. py:{'module' if declares else 'currentmodule'}:: {module}"
        yield ""
        if not block.words:
            yield from self.converted(inspect.getdoc(namespaces()[module]) or "", "module", module)
            yield ""
        for entry in entries:
            yield from self.entry(entry, block)
        others = {} if block.words else plan().elsewhere(block)
        if others:
            shown = ", ".join(f":py:obj:`{name} <{place}>`" for name, place in others.items())
            yield f"Names that stand on other pages: {shown}."
            yield ""

    def entry(self, entry: Entry, block: Block) -> Iterator[str]:
        """Yields the lines of a name."""
        value, full = entry.value, f"{entry.owner}.{entry.name}"
        if block.owner in SPREAD:
            name = f"{block.owner.rpartition('.')[2]}.{entry.name}"
            others = [alias.rpartition(".")[2] for alias in entry.aliases]
            yield from self.member(name, value, others, block)
            return
        kind = "data"
        if isinstance(value, type):
            kind = "exception" if issubclass(value, BaseException) else "class"
        elif callable(value):
            kind = "function"
        signature = "" if kind == "data" or is_numpys(value) else signature_text(value)
        own = [x for x in entry.aliases if x.rpartition(".")[0] == entry.owner]
        yield f".. py:{kind}:: {entry.name}{signature}"
        yield from (f"{' ' * len(f'.. py:{kind}::')} {x.rpartition('.')[2]}" for x in own)
        yield ""
        yield from indented(self.body(entry, full, kind, own))
        if kind in ("class", "exception") and full not in SPREAD and not is_numpys(value):
            for name in member_names(full) if block.owner in namespaces() else ():
                attribute = inspect.getattr_static(value, name)
                yield from indented(self.member(name, attribute, [], block))
        yield ""

    def body(self, entry: Entry, full: str, kind: str, own: list[str]) -> Iterator[str]:
        """Yields what is said of a name: its docstring, and what supports it."""
        value = entry.value
        if is_numpys(value):
            yield f"NumPy's own ``numpy.{getattr(value, '__name__', entry.name)}``."
            yield ""
        elif text_of(value):
            yield from self.converted(text_of(value), kind, full, value)
            yield ""
        elif kind == "data":
            short = len(repr(value)) < 60
            yield f"The value ``{value!r}``." if short else f"The same as ``numpy.{entry.name}``."
            yield ""
        others = [x for x in entry.aliases if x not in own]
        if others:
            yield f":Also: {', '.join(f'``{x}``' for x in others)}"
        if callable(value) and kind != "exception" and not is_numpys(value):
            yield f":Supports: {support_of(entry.owner, entry.name, value)}"
        yield ""

    def member(self, name: str, value: Any, others: list[str], block: Block) -> Iterator[str]:
        """Yields the lines of a member of a class."""
        kind, signature, options = "method", "", []
        if isinstance(value, property):
            kind = "property"
        elif isinstance(value, bool):
            kind = "attribute"
        elif isinstance(value, classmethod | staticmethod):
            options = [f":{type(value).__name__}:"]
            signature = signature_text(value.__func__, bound=isinstance(value, classmethod))
        else:
            signature = signature_text(value, bound=True)
        yield f".. py:{kind}:: {name}{signature}"
        prefix = name.rpartition(".")[0]
        yield from (f"{' ' * len(f'.. py:{kind}::')} {prefix}.{other}" for other in others)
        yield from (f"{INDENT}{option}" for option in options)
        yield ""
        if isinstance(value, bool):
            yield f"{INDENT}Always ``{value}``."
        else:
            doc = inspect.getdoc(value) or ""
            yield from indented(self.converted(doc, kind, f"{block.owner}.{name}", value))
        yield ""

    def converted(self, doc: str, what: str, name: str, value: Any = None) -> list[str]:
        """Returns the lines of a docstring in Google's style as reStructuredText."""
        # What stands before the colon in a text of data would be taken for a type.
        what = "object" if what in ("attribute", "data", "property") else what
        lines = GoogleDocstring(doc, self.config, None, what, name, value).lines()
        # napoleon gives what an exception is raised for as one line with line breaks in it.
        return [line.replace("\n", " ") for line in lines]


def indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Yields lines within the directive above them."""
    yield from (f"{INDENT}{line}" if line else "" for line in lines)


def replace_blocks(app: Sphinx, page: str, source: list[str]) -> None:
    """Puts entries in the place of a page's blocks."""
    folder, _, stem = page.rpartition("/")
    if folder != "reference":
        return
    blocks = iter([block for block in plan().entries if block.page == stem])
    writer = Writer(app.config)

    def written(match: re.Match[str]) -> str:
        lines = "\n".join(writer.block(next(blocks)))
        return f"````````{{eval-rst}}\n{lines}\n````````"

    source[0] = BLOCK.sub(written, source[0])


def full_names(short: str) -> list[str]:
    """Returns the names that a name in a docstring or on a page may stand for.

    >>> full_names("np.sin")
    ['functensor.np.sin', 'functensor.numpy.sin']
    """
    first, _, rest = short.partition(".")
    module = PREFIXES.get(first)
    return [f"functensor.{short}", *([f"{module}.{rest}"] if module and rest else [])]


def resolve_short_names(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """Links names that docstrings write as programs do: ``np.sin``, ``hooks.Hook``."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    for name in full_names(node["reftarget"]):
        if name in domain.objects or name in domain.modules:
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", name, node, content
            )
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the above to Sphinx."""
    app.connect("source-read", replace_blocks)
    app.connect("missing-reference", resolve_short_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
