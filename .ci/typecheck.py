"""Runs mypy --strict over the three folders under the names by which they are imported.

mypy finds a module by its place in the file tree, and ``primitives/core/trace.py`` stands at
another place than ``functensor.primitives.core.trace``. So the mapping of pyproject.toml is laid
out as a tree of links, inside of mypy's cache folder, and mypy runs there. Arguments are handed on
to mypy.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".mypy_cache"


def lay_out(mapping: dict[str, str], tree: Path) -> None:
    """Fills ``tree`` with links, one for each package's name and for each entry of the facade."""
    shutil.rmtree(tree, ignore_errors=True)
    for package, folder in sorted(mapping.items()):
        place = tree.joinpath(*package.split("."))
        place.mkdir(parents=True)
        for entry in (ROOT / folder).iterdir():
            if entry.name != "__pycache__":
                (place / entry.name).symlink_to(entry)


def command() -> list[str | Path]:
    """Returns the command that checks the package in the tree of links."""
    strict = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml"]
    return [*strict, "--cache-dir", CACHE, "--package", "functensor"]


def main() -> int:
    """Checks every module, and prints what mypy says with the repository's paths."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    mapping = config["tool"]["setuptools"]["package-dir"]
    tree = CACHE / "mapped"
    lay_out(mapping, tree)
    checked = [*command(), *sys.argv[1:]]
    done = subprocess.run(checked, cwd=tree, stdout=subprocess.PIPE, text=True, check=False)
    folders = {package.replace(".", os.sep) + os.sep: folder for package, folder in mapping.items()}
    for line in done.stdout.splitlines():
        inner = max((name for name in folders if line.startswith(name)), key=len, default="")
        print(f"{folders[inner]}{os.sep}{line[len(inner) :]}" if inner else line)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
