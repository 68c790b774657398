"""The source of a diagram in DOT, the language of graphviz."""

from __future__ import annotations

from pathlib import PurePath

from .diagram import Box, BoxKind, Diagram, Node, NodeKind

__all__ = ["dot_source"]

# The layout makes room for the labels of so many edges; those of more are put where there is some.
MOST_PLACED_LABELS = 120
# Shape and fill; a folded node has the fill of its box.
NODE_STYLES: dict[NodeKind, tuple[str, str]] = {
    "input": ("oval", "#d7e8f7"),
    "constant": ("note", "#eeeeee"),
    "operation": ("box", "#ffffff"),
    "output": ("oval", "#dcefd8"),
    "folded": ("box3d", "#f2f2f2"),
}
# Outline and fill.
BOX_STYLES: dict[BoxKind, tuple[str, str]] = {
    "program": ("#ffffff", "#ffffff"),
    "scope": ("#8a8f98", "#f6f7f9"),
    "call": ("#3f8f5f", "#f0f8f2"),
    "control": ("#3a6fb0", "#eef4fb"),
    "body": ("#9db8d8", "#f8fbfe"),
    "fused": ("#c98a1b", "#fdecc8"),
}
# Without `newrank` boxes within boxes may be an error. Without limits of its steps the layout of
# hundreds of nodes takes minutes.
HEAD = """\
    graph [fontname="Helvetica", fontsize=11, labeljust=l, ranksep=0.35, nodesep=0.25, newrank=true,
           nslimit=2, nslimit1=2]
    node [fontname="Helvetica", fontsize=11, height=0.3, margin="0.12,0.05"]
    edge [fontname="Helvetica", fontsize=9, fontcolor="#555555", color="#666666", arrowsize=0.6]"""


def dot_source(diagram: Diagram) -> str:
    """Returns the DOT source of a diagram."""
    lines = [f"digraph {quoted(diagram.box.title)} {{", HEAD, *item_lines(diagram.box, 1)]
    attribute = "label" if len(diagram.edges) <= MOST_PLACED_LABELS else "xlabel"
    for edge in diagram.edges:
        # The spaces keep the label off the line.
        label = quoted(f" {edge.value.type} ")
        lines.append(f"    n{edge.source} -> n{edge.target} [{attribute}={label}]")
    return "\n".join([*lines, "}", ""])


def item_lines(box: Box, level: int) -> list[str]:
    """Returns the lines of what is in a box."""
    lines: list[str] = []
    for item in box.items:
        lines += box_lines(item, level) if isinstance(item, Box) else node_lines(item, level)
    return lines


def box_lines(box: Box, level: int) -> list[str]:
    """Returns the lines of a box and of what is in it."""
    outline, fill = BOX_STYLES[box.kind]
    title = quoted(box.title)
    indent = "    " * level
    look = f'style="rounded,filled", color="{outline}", fillcolor="{fill}"'
    return [
        f"{indent}subgraph cluster_{box.number} {{",
        f"{indent}    graph [class={box.kind}, label={title}, {look}]",
        *item_lines(box, level + 1),
        f"{indent}}}",
    ]


def node_lines(node: Node, level: int) -> list[str]:
    """Returns the line of a node."""
    shape, fill = NODE_STYLES[node.kind]
    if node.colour is not None:
        fill = BOX_STYLES[node.colour][1]
    label = quoted("\n".join(filter(None, [node.title, node.detail])))
    # The file's name alone: a picture that is shown to others tells nothing of a machine.
    tip = quoted(PurePath(node.line).name if node.line else node.text)
    style = '"rounded,filled"' if shape == "box" else "filled"
    look = f'shape={shape}, style={style}, fillcolor="{fill}"'
    indent = "    " * level
    return [f"{indent}n{node.number} [class={node.kind}, label={label}, {look}, tooltip={tip}]"]


def quoted(text: str) -> str:
    r"""Returns a string of DOT that shows a text as it is.

    >>> print(quoted('a "b" & c'))
    "a \"b\" &amp; c"
    """
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(old, new)
    return f'"{text}"'
