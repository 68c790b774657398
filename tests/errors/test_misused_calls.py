"""Every public callable, called with a misspelt, a missing and a surplus argument.

A message is graded by one rule: it is a TypeError that names the function by its public name, says
which argument, suggests the right one, names the user's line, and the traceback ends there.
"""

import difflib
import inspect
import re
import traceback
from importlib import import_module

import pytest

import functensor as ft
import functensor.numpy as np


def public_modules(module=ft):
    """Yields the library's public modules: those that modules name among their public names."""
    yield module.__name__
    for name in sorted({*module.__all__, *getattr(module, "NAMESPACES", ())}):
        inner = getattr(module, name)
        if inspect.ismodule(inner):
            yield from public_modules(inner)


NAMESPACES = list(public_modules())
P = inspect.Parameter
BY_PLACE = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
BY_NAME = (P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)
OPEN = (P.VAR_POSITIONAL, P.VAR_KEYWORD)


def constructible(kind):
    """Says whether a class of a namespace is one that users call."""
    own = kind.__module__.partition(".")[0] == "functensor"
    # Programs are made by make_program, and primitives are declared.
    others = BaseException | tuple | ft.Program | ft.tree.TreeDef | ft.extend.Primitive
    return own and not issubclass(kind, others) and "__init__" in vars(kind)


def of_namespaces():
    """Yields what users call in namespaces: its public names, itself, and its signature."""
    for module in NAMESPACES:
        namespace = import_module(module)
        for name in namespace.__all__:
            value = getattr(namespace, name)
            if inspect.ismodule(value) or not callable(value):
                continue
            if isinstance(value, type) and not constructible(value):
                continue
            if type(value).__module__ == "typing" or "Alias" in type(value).__name__:
                continue
            if inspect.isfunction(value) and not value.__module__.startswith("functensor"):
                continue  # NumPy's own, such as printoptions
            if name == "identity_transform":
                continue  # an object, whose messages have the name of its class
            yield f"{module}.{name}", value


def of_objects():
    """Yields the methods of arrays, tensors, updates, optimizers and distributions."""
    x, t = np.ones((2, 2)), ft.Tensor([1.0, 2.0], requires_grad=True)
    objects = {
        "Array": x,
        "Tensor": t,
        "x.at[i]": x.at[0],
        "SGD": ft.optim.SGD([t], 0.1),
        "Optimizer": ft.optim.adam(0.1),
        "KeyStream": ft.random.KeyStream(0),
        "functensor.scipy.stats.norm": ft.scipy.stats.norm,
        "functensor.scipy.stats.poisson": ft.scipy.stats.poisson,
    }
    for prefix, value in objects.items():
        for name in dir(value):
            if name.startswith("_") or isinstance(inspect.getattr_static(value, name), property):
                continue
            if not hasattr(value, name):
                continue
            method = getattr(value, name)
            if inspect.isroutine(method) and inspect.unwrap(method).__module__.startswith("func"):
                yield f"{prefix}.{name}", method


CALLABLES = [*of_namespaces(), *of_objects()]


def misspelt(form):
    """Returns a keyword that is almost one of a signature, and which; None if there is no way."""
    kinds = [p.kind for p in form.parameters.values()]
    if P.VAR_KEYWORD in kinds:
        return None
    names = [p.name for p in form.parameters.values() if p.kind in BY_NAME]
    for name in reversed(names):
        wrong = name + name[-1] if len(name) > 1 else ""
        near = difflib.get_close_matches(wrong, names, 1)
        if wrong and wrong not in form.parameters and near == [name]:
            return wrong, name
    return None


def calls(form):
    """Yields the wrong calls: their kind, arguments, keywords, and what messages must contain."""
    parameters = list(form.parameters.values())
    required = [p for p in parameters if p.default is P.empty and p.kind not in OPEN]
    places = [p for p in parameters if p.kind in BY_PLACE]
    kinds = [p.kind for p in parameters]
    given = [1.0] * len([p for p in required if p.kind in BY_PLACE])
    named = {p.name: 1.0 for p in required if p.kind is P.KEYWORD_ONLY}
    wrong = misspelt(form)
    if wrong is not None:
        free = {k: v for k, v in named.items() if k != wrong[1]}
        # An argument that the misspelt one is meant for is not given by position too.
        names = [p.name for p in places[: len(given)]]
        if wrong[1] in names:
            given_here = given[: names.index(wrong[1])]
        else:
            given_here = given
        yield "misspelt", given_here, {**free, wrong[0]: 1.0}, [repr(wrong[0]), repr(wrong[1])]
    if required:
        lacking = [p.name for p in required]
        yield "missing", [], {}, [repr(lacking[0])]
    if P.VAR_POSITIONAL not in kinds:
        yield "surplus", [1.0] * len(places) + [2.5], dict(named), ["2.5", str(len(places))]


def graded(error, name, wanted):
    """Returns what is wrong with an error, by the rule."""
    text = str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    short = name.rpartition(".")[2]
    said = re.match(r"[\w.\[\]]+(?=\()", text)
    faults = [f"does not contain {part}" for part in wanted if part not in text]
    if not isinstance(error, TypeError):
        faults.append(f"is a {type(error).__name__}")
    if said is None or PLAIN.get(said[0]) is not PLAIN[name]:
        faults.append(f"does not name {short}")
    if f"\n  at {__file__}:" not in text:
        faults.append("does not name the user's line")
    if "\n  fix: " not in text:
        faults.append("has no fix")
    if "<locals>" in text or "__call__" in text or "__init__" in text:
        faults.append("names what is private")
    if last.filename != __file__:
        faults.append(f"its traceback ends in {last.filename}:{last.lineno}")
    return faults


def plain(function):
    """Returns what users call without what is wrapped around it, or around a method."""
    return inspect.unwrap(getattr(function, "__func__", function))


# The objects of all public names, of base classes' methods too.
PLAIN = {name: plain(function) for name, function in CALLABLES}
SUBJECTS = dict.fromkeys(type(f.__self__) for _, f in CALLABLES if inspect.ismethod(f))
PLAIN |= {
    f"{kind.__name__}.{name}": plain(value)
    for kind in dict.fromkeys(kind for subject in SUBJECTS for kind in subject.__mro__)
    for name, value in vars(kind).items()
    if inspect.isfunction(value)
}
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_messages_of_wrong_calls(part):
    bad, count = [], 0
    for name, function in CALLABLES[part::PARTS]:
        form = inspect.signature(function)
        for kind, args, kwargs, wanted in calls(form):
            count += 1
            try:
                function(*args, **kwargs)
            except Exception as error:
                faults = graded(error, name, wanted)
                bad += [f"{name}, {kind}: {fault}: {error}" for fault in faults]
            else:
                bad.append(f"{name}, {kind}: nothing is raised")
    assert count > 100
    assert not bad, f"{len(bad)} of {count}:\n" + "\n".join(bad)


@pytest.mark.parametrize("module", NAMESPACES)
def test_dir_lists_public_names_alone(module):
    namespace = import_module(module)
    listed = set(dir(namespace))
    public = {*namespace.__all__, *getattr(namespace, "NAMESPACES", ())}
    others = {name for name in listed - public if not (name[:2] == name[-2:] == "__")}
    assert not others
    assert public <= listed
    assert all(hasattr(namespace, name) for name in listed)


def test_dir_of_an_array_lists_what_it_has():
    seen = [np.ones((2, 2)), ft.Tensor([[1.0]])]

    def kept(x):
        seen.append(x)
        for value in seen:
            held = {n: inspect.getattr_static(value, n) for n in dir(value) if n[0] != "_"}
            methods = [n for n, x in held.items() if not isinstance(x, property)]
            assert not [n for n in methods if not hasattr(value, n)]
            assert {"shape", "sum", "at", "__add__"} <= set(dir(value))
        return np.sum(x)

    ft.grad(kept)(np.ones((2, 2)))
    seen.pop()
    ft.vmap(kept)(np.ones((2, 2, 2)))
    assert "backward" in dir(seen[1])
    assert "backward" not in dir(seen[0])
