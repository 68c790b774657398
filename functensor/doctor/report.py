"""The report: sections of aligned lines, the faults with their commands, and a block to paste."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence

from .finding import PRESENT, WRONG, Finding

__all__ = ["faults", "pasted_block", "section_lines", "verdict"]

WIDTHS = 5, 18


def faults(findings: Sequence[Finding]) -> list[Finding]:
    """Returns the findings that have to be mended, each cause once."""
    causes: dict[str, Finding] = {}
    for finding in findings:
        if finding.state == WRONG:
            causes.setdefault(finding.what, finding)
    return list(causes.values())


def section_lines(finding: Finding, before: Finding | None) -> Iterator[str]:
    """Yields the lines of a finding, below its heading where the one before has another."""
    if before is None or before.section != finding.section:
        yield from ["", finding.section]
    state, name = WIDTHS
    line = f"  {finding.state:{state}}  {finding.name:{name}}  {finding.what}"
    hint = f"   [{finding.command}]" if finding.command and finding.state != WRONG else ""
    yield line + hint


def verdict(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields what has to be mended, each with its command."""
    wrong = faults(findings)
    if not wrong:
        yield from ["", "All is right."]
        return
    yield from ["", f"{len(wrong)} to mend:" if len(wrong) > 1 else "One to mend:"]
    for number, finding in enumerate(wrong, 1):
        yield f"  {number}. {finding.name}: {finding.what}"
        if finding.command:
            yield f"     {finding.command}"


def without_home(text: str) -> str:
    """Returns a text in which the user's home folder is ``~``, to be shown to others."""
    # A user without an entry has none.
    home = os.path.expanduser("~")
    return text if home in ("~", "/") else re.sub(rf"{re.escape(home)}(?![\w-])", "~", text)


def toml_text(text: str) -> str:
    """Returns a string of TOML.

    >>> toml_text('a "b"')
    '"a \\\\"b\\\\""'
    """
    printable = without_home(text).encode("utf-8", "replace").decode("utf-8")
    return json.dumps(printable, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(text: str) -> str:
    """Returns a key of TOML, without quotes where it needs none."""
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else toml_text(text)


def pasted_block(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields the lines of a block of TOML for a report, as Markdown shows it.

    A table stands for a section, and a line for a part: its state unless it is there, and what
    was found. Faults stand once more, with their commands, at the end.
    """
    yield "```toml"
    sections = list(dict.fromkeys(finding.section for finding in findings))
    for section in sections:
        yield f"[{key(section)}]"
        own = [finding for finding in findings if finding.section == section]
        for name in dict.fromkeys(finding.name for finding in own):
            texts = [
                f.what if f.state == PRESENT else f"{f.state}: {f.what}"
                for f in own
                if f.name == name
            ]
            yield f"{key(name)} = {toml_text('; '.join(texts))}"
    for finding in faults(findings):
        yield "[[mend]]"
        yield f"part = {toml_text(finding.name)}"
        yield f"what = {toml_text(finding.what)}"
        yield f"command = {toml_text(finding.command)}"
    yield "```"
