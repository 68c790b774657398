"""Draws house.svg: the floors and the folders on them, each above all that it imports.

Run ``python docs/house_map.py`` after moving a file; a test compares the picture with the imports.
"""

import ast
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "house.svg"
# From the ground up.
FLOORS = ("backends", "primitives", "functensor")
COLOURS = {"backends": "#dde7f3", "primitives": "#e3f0dd", "functensor": "#f8ead2"}
WIDTH, HEIGHT, GAP, MARGIN = 148, 44, 12, 120
ACROSS = 6


def module_of(path: Path) -> str:
    """Returns the dotted name of a file by its place, without the name of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(path: Path, known: set[str]) -> set[str]:
    """Returns the modules that a file imports anywhere, by their places."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        # The three folders lie within one package, whose own modules stand beside them.
        above = ["functensor", *package] if package[0] != "functensor" else package
        above = above[: len(above) - node.level + 1]
        names = [*above, *(node.module or "").split(".")] if node.module else above
        for alias in node.names:
            for parts in ([*names, alias.name], names):
                plain = parts[1:] if parts[1:2] in (["backends"], ["primitives"]) else parts
                if ".".join(plain) in known:
                    found.add(".".join(plain))
                    break
    return found


def folder_of(module: str, packages: set[str]) -> str:
    """Returns the folder of a floor that a module is in, or the module if it is in none."""
    return ".".join(module.split(".")[:2]) if module not in packages else module


def folders() -> dict[str, set[str]]:
    """Returns the folders of all floors, each with those that it imports."""
    files = {module_of(p): p for floor in FLOORS for p in sorted((ROOT / floor).rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        if module in FLOORS:
            continue
        own = folder_of(module, set())
        targets = {folder_of(m, set()) for m in imported(path, set(files)) if m not in FLOORS}
        graph.setdefault(own, set()).update(targets - {own})
    return graph


def levels() -> dict[str, dict[str, int]]:
    """Returns the height of every folder on its floor: one more than all that it imports there."""
    graph = folders()
    heights: dict[str, dict[str, int]] = {floor: {} for floor in FLOORS}
    for name in TopologicalSorter(graph).static_order():
        floor = name.partition(".")[0]
        below = [heights[floor][other] for other in graph[name] if other in heights[floor]]
        heights[floor][name] = 1 + max(below, default=-1)
    return heights


def rows() -> list[tuple[str, list[str]]]:
    """Returns the rows of the picture from the top, each with its floor and at most six folders."""
    found = []
    for floor in reversed(FLOORS):
        heights = levels()[floor]
        for height in range(max(heights.values()), -1, -1):
            names = sorted(name for name, other in heights.items() if other == height)
            found += [
                (floor, names[start : start + ACROSS]) for start in range(0, len(names), ACROSS)
            ]
    return found


def label(name: str) -> str:
    """Returns what a box says: a folder with a slash, or a file."""
    last = name.partition(".")[2]
    return last + ("/" if (ROOT / name.replace(".", "/")).is_dir() else ".py")


def picture() -> str:
    """Returns the picture as SVG."""
    lines = rows()
    width = MARGIN + ACROSS * (WIDTH + GAP) + GAP
    height = len(lines) * (HEIGHT + GAP) + GAP
    svg = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    out = [f'<svg {svg} font-family="sans-serif" font-size="13">']
    for number, (floor, names) in enumerate(lines):
        top = GAP + number * (HEIGHT + GAP)
        if number == 0 or lines[number - 1][0] != floor:
            out.append(f'<text x="{GAP}" y="{top + 27}" font-weight="bold">{floor}/</text>')
        for place, name in enumerate(names):
            left = MARGIN + place * (WIDTH + GAP)
            out.append(
                f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
                f'fill="{COLOURS[floor]}" stroke="#8a8a8a"/>'
            )
            out.append(
                f'<text x="{left + WIDTH // 2}" y="{top + 27}" text-anchor="middle">'
                f"{escape(label(name))}</text>"
            )
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
