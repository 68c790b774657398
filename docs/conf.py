"""Sphinx's configuration: Markdown pages, Google style docstrings, a warning is an error in CI."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

# Extensions of this site's own lie beside this file.
sys.path.insert(0, str(Path(__file__).parent))

project = "functensor"
author = "the functensor developers"
project_copyright = "the functensor developers, Apache License 2.0"
version = release = installed_version("functensor")

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "notebooks",
]
exclude_patterns = ["_build", "jupyter_execute"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Tutorials are pages whose cells run while the site is built; a cell that raises is an error.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
# Prompts and outputs are not copied with the code of a session.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
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
