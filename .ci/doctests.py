"""Runs the doctests of every module of the installed functensor, by the name it is imported by.

With ``--few`` all modules are imported, and doctests run of every package's own module, which has
its public face, and of the first module in it.

A primitive is an instance and no function, so doctest alone would pass over its examples: objects
with a docstring of their own are looked for as well.
"""

import doctest
import importlib
import inspect
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterator

from functensor.primitives.core.primitive import Primitive

# What needs CuPy to be imported, and some of it a GPU too; and what is for pytest alone.
NEEDS_MORE = (
    "functensor.backends.cuda.", "functensor.distributed.nccl_group",
    "functensor.testing.pytest_plugin",
)  # fmt: skip


def modules() -> Iterator[types.ModuleType]:
    """Imports and yields every module; an editable install maps the lower floors by a finder.

    What needs CuPy or pytest is left out where there is none, and that is said.
    """
    names = {"functensor", "functensor.backends", "functensor.primitives"}
    for package in sorted(names):
        path = importlib.import_module(package).__path__
        names.update(found.name for found in pkgutil.walk_packages(path, f"{package}."))
    for name in sorted(names):
        try:
            yield importlib.import_module(name)
        except ImportError as error:
            if not name.startswith(NEEDS_MORE):
                raise
            print(f"left out {name}: {str(error).splitlines()[0]}")


def documented_instances(module: types.ModuleType, seen: set[int]) -> Iterator[tuple[str, object]]:
    """Yields the instances in a module that have a docstring which is not their class's."""
    for name, value in sorted(vars(module).items()):
        kind = type(value)
        if kind.__module__.partition(".")[0] != "functensor" or id(value) in seen:
            continue
        doc = getattr(value, "__doc__", None)
        if isinstance(doc, str) and doc != kind.__doc__:
            seen.add(id(value))
            yield name, value


def named(module: types.ModuleType, name: str) -> object:
    """Returns what a module has, by the name of a test of it, or of a part of it."""
    return vars(module).get(name.removeprefix(f"{module.__name__}.").partition(".")[0])


def is_anothers(module: types.ModuleType, name: str) -> bool:
    """Says whether a name of a module is a wrapped function of another one, which has the test."""
    wrapped = getattr(named(module, name), "__wrapped__", None)
    return wrapped is not None and wrapped.__module__ != module.__name__


def first_of_each_package() -> Iterator[types.ModuleType]:
    """Yields the module of every package, and the first of its modules that has an example."""
    met = set()
    for module in modules():
        package = module.__package__
        if hasattr(module, "__path__"):
            yield module
        elif package not in met and ">>> " in inspect.getsource(module):
            met.add(package)
            yield module


def main() -> int:
    """Runs the examples; fails if one fails or if there are none at all."""
    warnings.simplefilter("error")
    chosen = first_of_each_package() if sys.argv[1:] == ["--few"] else modules()
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    seen: set[int] = set()
    for module in chosen:
        tests = [
            test
            for test in finder.find(module, module.__name__)
            if not isinstance(named(module, test.name), Primitive)
        ]
        for name, value in documented_instances(module, seen):
            tests += finder.find(value, f"{module.__name__}.{name}", module, vars(module).copy())
        for test in tests:
            if test.examples and not is_anothers(module, test.name):
                runner.run(test)
    failed, tried = runner.summarize(verbose=False)
    print(f"doctests: {tried - failed} passed, {failed} failed")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
