"""Puts docs/errors.md beside functensor/errors.py in what is built; all else is in pyproject.toml.

Messages end with ``see python -m functensor.errors 7``, which prints a section of that file, also
where only a wheel is installed.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TEXT = "docs/errors.md"


class BuildPy(build_py):
    """Copies the text into the package."""

    def run(self) -> None:
        """Builds the package; an editable one finds the text where it is."""
        super().run()
        if not self.editable_mode:
            self.copy_file(TEXT, self.target())

    def target(self) -> str:
        """Returns where the text goes."""
        return str(Path(self.build_lib) / "functensor" / "errors.md")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Returns all files that are built."""
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, self.target()]

    def get_source_files(self) -> list[str]:
        """Returns all files that are built from, which a source distribution holds."""
        files: list[str] = super().get_source_files()
        return [*files, TEXT]


setup(cmdclass={"build_py": BuildPy})
