"""Public names: the functions behind them, and advice for names that there are not.

Every public module ends with ``publish(globals())``: its functions, and the methods of its classes,
are wrapped so that their exceptions are made for users, its primitives are told their names, its
late names are imported when they are first used, and a name that it lacks is answered with the one
that was meant. The modules in which functions are defined, and the registry, keep them as they are:
nothing of functensor goes through a wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

from ..backends.errors.public_functions import entry, is_entry, wrap_methods
from ..backends.errors.tracebacks import tidy
from ..primitives.core.primitive import Primitive
from ..primitives.core.registry import Registry

__all__ = ["expose_class", "no_such_name", "publish", "publish_name"]

CALLED = ("__init__", "__call__")


def is_defined_here(value: Any) -> bool:
    """Says whether a class or a function is defined in functensor, and is not NumPy's own."""
    module: str = value.__module__
    return module.startswith("functensor.")


def publish_name(namespace: dict[str, Any], name: str) -> Any:
    """Returns the public form of a name in a module's globals, which has it from then on."""
    value = namespace[name]
    module = namespace["__name__"]
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, Primitive):
        # The first module that has it is where it is shown to be, by its own name if it can be.
        first = value.public.rpartition(".")[0]
        if not first or (first == module and name == value.name):
            value.public = f"{module}.{name}"
            value.__module__ = module
    elif type(value) is FunctionType and is_defined_here(value):
        plain = value.__wrapped__ if is_entry(value) else value  # type: ignore[attr-defined]
        forms = namespace.setdefault("_forms", {})
        if plain not in forms:
            names, write = namespace.get("_outputs", ((), None))
            made = entry(plain, f"{module}.{name}", write=write if name in names else None)
            made.__module__, made.__qualname__ = module, name
            forms[plain] = made
        # A second name is another one for the same function.
        namespace[name] = value = forms[plain]
    elif is_defined_here(kind) and not issubclass(
        kind, BaseException | tuple | Primitive | Registry
    ):
        expose_class(kind, public=f"{module}.{kind.__name__}", others=namespace["__all__"])
    return value


def expose_class(kind: type, public: str, others: Collection[str]) -> None:
    """Wraps the methods of a class, with those that it has from bases which are not public.

    The class is called by its public name; ``others`` are the names of public classes.
    """
    for base in filter(is_defined_here, kind.__mro__[1:]):
        for key, value in list(vars(base).items()):
            inherited = key in CALLED or base.__name__ not in others
            if inherited and is_method(key, value) and class_attribute(kind, key) is value:
                setattr(kind, key, value.__wrapped__ if is_entry(value) else value)
    own = [key for key, value in vars(kind).items() if is_method(key, value)]
    wrap_methods(kind, kind.__name__, own, public)


def class_attribute(kind: type, name: str) -> Any:
    """Returns what a class's attribute is found to be, as it was defined."""
    return next(vars(base)[name] for base in kind.__mro__ if name in vars(base))


def is_method(name: str, value: Any) -> bool:
    """Says whether a class's attribute is a method that users call."""
    called = not name.startswith("_") or name in CALLED
    return called and isinstance(value, FunctionType | classmethod | staticmethod)


def publish(
    namespace: dict[str, Any],
    plain: Collection[str] = (),
    late: Mapping[str, str] | None = None,
    made: Mapping[str, Callable[[], Any]] | None = None,
    reason: Callable[[str], str] = lambda name: "",
    outputs: tuple[Collection[str], Callable[..., Any]] | None = None,
) -> None:
    """Exposes all public names of a module.

    Args:
        namespace: what the module's ``globals()`` returns. Its ``NAMESPACES``, if it has them, are
            modules within it that are imported when they are first used.
        plain: names that stay as they are, since functensor itself uses them all the time.
        late: names that are imported when they are first used, by the module that has them.
        made: names whose values are made each time.
        reason: returns why a name is left out on purpose, or nothing.
        outputs: the names of functions that take ``out``, and what writes their results there; see
            `public_functions.writing`.
    """
    if outputs is not None:
        namespace["_outputs"] = outputs
    package = namespace["__name__"]
    places = {name: place for place, names in (late or {}).items() for name in names.split()}
    known = [name for name in namespace["__all__"] if name in namespace and name not in plain]
    # A function's own name goes before other names for it.
    for name in sorted(known, key=lambda name: is_alias(namespace[name], name)):
        publish_name(namespace, name)

    def __getattr__(name: str) -> Any:
        if name in namespace.get("NAMESPACES", ()):
            return import_module(f".{name}", package)
        if name in places:
            namespace[name] = getattr(import_module(f".{places[name]}", package), name)
            return publish_name(namespace, name)
        if made and name in made:
            return made[name]()
        try:
            raise no_such_name(namespace, name, reason(name))
        except AttributeError as error:
            tidy(error)
            raise

    def __dir__() -> list[str]:
        dunder = (name for name in namespace if name.startswith("__"))
        return sorted({*namespace["__all__"], *namespace.get("NAMESPACES", ()), *dunder})

    namespace.pop("publish", None)
    namespace["__getattr__"] = __getattr__
    namespace["__dir__"] = __dir__


def is_alias(value: Any, name: str) -> bool:
    """Says whether a name is another one than that of a function itself."""
    return type(value) is FunctionType and value.__name__ != name


def no_such_name(namespace: dict[str, Any], name: str, reason: str = "") -> AttributeError:
    """Returns the error for a name that is not in a module's globals.

    It says why, or what to use in its place, where that is known.
    """
    module = namespace["__name__"]
    if not reason and not name.startswith("_"):
        from .missing_names import foreign_advice  # which only messages need

        reason = foreign_advice(module, name, namespace["__all__"])
    text = f"{module} has no {name!r}"
    if not reason:
        return AttributeError(text)
    # With an object given, Python does not look for a name that is alike and tell it again.
    return AttributeError(f"{text}: {reason}", name=name, obj=None)
