"""Environments for programs that look at what is installed: links, and planted files."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Environment:
    """An environment with functensor, what it needs, and what is planted.

    Attributes:
        site: the folder of its packages.
        programs: a folder that is first on its path of programs.
    """

    def __init__(self, folder):
        self.folder = folder / "env"
        venv.EnvBuilder(with_pip=False, symlinks=True).create(self.folder)
        self.python = self.folder / "bin" / "python"
        (self.site,) = self.folder.glob("lib/python*/site-packages")
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.add_functensor()
        for name in ("numpy", "opt-einsum"):
            self.link(name)

    def add_functensor(self):
        """Lays the three folders out as a wheel does, with the metadata that is installed."""
        package = self.site / "functensor"
        package.mkdir()
        folders = [(entry, package) for entry in (ROOT / "functensor").iterdir()]
        folders += [(ROOT / name, package) for name in ("backends", "primitives")]
        for entry, place in folders:
            if entry.name != "__pycache__":
                (place / entry.name).symlink_to(entry)
        # A program that is a link has the folder that it leads to on its path.
        shutil.copy(ROOT / "functensor_command.py", self.site)
        own = importlib.metadata.distribution("functensor")
        metadata = own.read_text("METADATA") or own.read_text("PKG-INFO")
        self.plant("functensor", own.version, metadata)

    def link(self, name):
        """Brings an installed distribution by links to its folders."""
        found = importlib.metadata.distribution(name)
        for first in {path.parts[0] for path in found.files or ()} - {".."}:
            if first != "__pycache__":
                (self.site / first).symlink_to(found.locate_file(first))

    def plant(self, name, version, metadata=None, module=None, source=""):
        """Plants a distribution, and a module if it is to have one, in place of what is there."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text if metadata is None else metadata)
        if module is not None:
            place = self.site / module
            if place.is_symlink():
                place.unlink()
            place.mkdir()
            (place / "__init__.py").write_text(source)

    def forget(self, name):
        """Takes the metadata of a linked distribution away."""
        for folder in self.site.glob(f"{name.replace('-', '_')}-*.dist-info"):
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)

    def plant_program(self, name, text):
        """Plants a program that prints a text."""
        path = self.programs / name
        path.write_text(f"#!{sys.executable}\nprint({text!r})\n")
        path.chmod(0o755)

    def run(self, *arguments, module=False, cwd=None, **variables):
        """Runs the command ``functensor``, or ``python -m functensor``."""
        start = ["-m", "functensor"] if module else [str(self.site / "functensor_command.py")]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "CUDA"))}
        path = f"{self.programs}{os.pathsep}{environment.get('PATH', '')}"
        return subprocess.run(
            [str(self.python), *start, *arguments],
            capture_output=True,
            text=True,
            cwd=cwd or self.folder,
            env={**environment, "PATH": path, **variables},
        )
