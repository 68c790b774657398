"""Folding: boxes that lie deep within others become single nodes, so that a picture stays small."""

from __future__ import annotations

from .diagram import Box, Diagram, Edge, Name, Node

__all__ = ["deepest", "drawn_nodes", "folded"]


def deepest(box: Box) -> int:
    """Returns how many boxes lie in each other within a box."""
    return max((1 + deepest(inner) for inner in box.boxes()), default=0)


def drawn_nodes(box: Box, depth: int) -> int:
    """Returns how many nodes a box has when boxes deeper than ``depth`` are folded."""
    if depth < 0:
        return 1
    inner = box.boxes()
    return len(box.items) - len(inner) + sum(drawn_nodes(each, depth - 1) for each in inner)


def folded(diagram: Diagram, depth: int) -> Diagram:
    """Returns a diagram in which boxes deeper than ``depth`` are nodes.

    Args:
        diagram: as it is made.
        depth: how many boxes may lie in each other within the outermost one.
    """
    if deepest(diagram.box) <= depth:
        return diagram
    # The number of the box that hides a node, by the node's.
    hidden: dict[int, int] = {}
    whole: dict[int, Box] = {}

    def opened(box: Box, level: int) -> Box:
        out = Box(box.number, box.kind, box.title)
        for item in box.items:
            if isinstance(item, Node):
                out.items.append(item)
            elif level < depth:
                out.items.append(opened(item, level + 1))
            else:
                hidden.update((node.number, item.number) for node in item.nodes())
                whole[item.number] = item
                # Its place; the node is made when the edges are known.
                out.items.append(item)
        return out

    box = opened(diagram.box, 0)
    moved = [
        Edge(hidden.get(source, source), hidden.get(target, target), value)
        for source, target, value in diagram.edges
    ]
    edges = list(dict.fromkeys(edge for edge in moved if edge.source != edge.target))
    made: dict[int, list[Name]] = {number: [] for number in whole}
    taken: dict[int, list[Name]] = {number: [] for number in whole}
    for edge in edges:
        for ends, number in ((made, edge.source), (taken, edge.target)):
            if number in ends and edge.value not in ends[number]:
                ends[number].append(edge.value)

    def closed(box: Box) -> None:
        for place, item in enumerate(box.items):
            if isinstance(item, Box) and item.number in whole:
                operands = ", ".join(value.letters for value in taken[item.number])
                given = f"({operands})" if operands else ""
                number = item.operations()
                detail = f"{number} operation" + "s" * (number != 1)
                box.items[place] = Node(
                    item.number,
                    "folded",
                    item.title,
                    made[item.number],
                    f"{item.title}{given}: {detail}",
                    detail=detail,
                    colour=item.kind,
                )
            elif isinstance(item, Box):
                closed(item)

    closed(box)
    return Diagram(box, edges)
