"""Sphinx's configuration: Markdown pages, Google style docstrings, a warning is an error in CI."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

# Extensions of the site's own lie beside this file.
sys.path.insert(0, str(Path(__file__).parent))

project = "functensor"
author = "the functensor developers"
project_copyright = "the functensor developers, Apache License 2.0"
version = release = installed_version("functensor")

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx.ext.napoleon",
    "cell_numbers",
    "notebooks",
    "reference_pages",
]
# In docstrings, `sin` is the name of an object.
default_role = "py:obj"
# The contents of a page list names without the module, which is the same for all.
toc_object_entries_show_parents = "hide"
exclude_patterns = ["_build", "jupyter_execute"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Tutorials are pages whose cells run while the site is built; a cell that raises is an error.
nb_execution_mode = "force"
# A backend that was chosen for scripts would keep pictures out of the pages.
os.environ.pop("MPLBACKEND", None)
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
# Prompts and outputs are not copied with the code of a session.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_theme = "furo"
# One page of all names would be too large: a page for each letter.
html_split_index = True
templates_path = ["templates"]
html_static_path = ["static"]
html_title = f"functensor {release}"

napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Docstrings of distributions have this section.
napoleon_custom_sections = [("Parameters of every function", "params_style")]


def remove_large_index(app: Any, exception: Exception | None) -> None:
    """Removes the page of all names that Sphinx writes beside those of the letters."""
    if app.builder.name == "html":
        (Path(app.outdir) / "genindex-all.html").unlink(missing_ok=True)


def setup(app: Any) -> None:
    """Connects the above to Sphinx."""
    app.connect("build-finished", remove_large_index)
