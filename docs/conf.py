"""Sphinx's configuration: Markdown pages, Google style docstrings, a warning is an error in CI."""

from importlib.metadata import version as installed_version

project = "functensor"
author = "the functensor developers"
project_copyright = "the functensor developers, Apache License 2.0"
version = release = installed_version("functensor")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"functensor {release}"

autodoc_default_options = {"members": True, "member-order": "groupwise"}
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def leave_out_numpys_own(app, what, name, member, skip, options):
    """Leaves out what functensor.numpy passes on from NumPy, whose pages refer to NumPy's own."""
    return True if getattr(member, "__module__", "").split(".")[0] == "numpy" else None


def setup(app):
    """Connects the above to Sphinx."""
    app.connect("autodoc-skip-member", leave_out_numpys_own)
