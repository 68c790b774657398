"""The console command ``functensor``, which also starts where functensor cannot be imported.

It stands beside the package, whose ``__init__`` imports NumPy. The command's own modules need only
the standard library, and find here a package whose ``__init__`` has not run.
"""

import sys
from importlib.util import find_spec, module_from_spec

NOT_THERE = "functensor is not installed for {}: pip install functensor"
OTHER = "{} is imported in place of functensor: rename it, or take its folder out of PYTHONPATH"


def main() -> int:
    """Runs the command; returns its exit status."""
    spec = find_spec("functensor")
    if spec is None:
        print(NOT_THERE.format(sys.executable))
        return 1
    sys.modules["functensor"] = module_from_spec(spec)
    try:
        from functensor.doctor.command import main as run
    except ModuleNotFoundError:
        print(OTHER.format(spec.origin or next(iter(spec.submodule_search_locations or ["?"]))))
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
