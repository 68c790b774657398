"""The public functions, each as calls that NumPy or SciPy understands too; see ``harness.py``."""

from importlib import import_module
from pkgutil import iter_modules

from .harness import numbered

TABLES = {"harness", "plain"}


def all_cases():
    """Returns the cases of all families, numbered within each function's."""
    families = [name for _, name, _ in iter_modules(__path__) if name not in TABLES]
    return numbered(
        [case for name in families for case in import_module(f"{__name__}.{name}").CASES]
    )
