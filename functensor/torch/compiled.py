"""``torch.compile``: modules, functions and steps of optimizers that run as plans."""

from __future__ import annotations

from typing import Any

from ..backends.errors.public_functions import check_function
from ..optim.compiled_rules import with_compiled_rules
from ..optim.stateful import StatefulOptimizer
from .compilation.functions import CompiledFunction
from .compilation.modules import ModulePlan
from .nn.module import Module
from .optim.optimizer import Optimizer

__all__ = ["CompiledModule", "compile"]


# All other attributes that are assigned are those of the module that is compiled.
NAMES_OF_PLANS = frozenset({"_orig_mod", "forward", "training"})


class CompiledModule(Module):
    """A module that runs another as a plan; parameters, buffers and training are the other's.

    Attributes:
        _orig_mod: the module.
    """

    def __init__(self, module: Module, whole: bool = False) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_whole"] = whole
        self._compile()

    def __getstate__(self) -> dict[str, Any]:
        # A copy has a plan of its own, of the copied module.
        return {name: value for name, value in vars(self).items() if name != "_plan"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    @property
    def training(self) -> bool:
        """Says whether the module is trained."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if (module := self._modules.get("_orig_mod")) is not None:
            module.training = mode

    def __setattr__(self, name: str, value: Any) -> None:
        if name in NAMES_OF_PLANS or "_orig_mod" not in vars(self).get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def _compile(self) -> None:
        module: Any = self._orig_mod
        self.__dict__["_plan"] = ModulePlan(module, module, vars(self).get("_whole", False))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the module returns."""
        return self._plan(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Returns a function of tensors, or a module, that runs as a plan; see `functensor.jit`.

    Parameters of a module get their gradients; of a function its arguments do, and tensors that
    require grad are to be among them. Other attributes of a module and its hooks are constants of a
    plan, and so are globals that functions read, what they close over, and what is in objects that
    they are given. Where one of them has changed, in place too, another plan is made: of numbers,
    texts, functions, tensors, arrays of NumPy, and of lists, dictionaries and objects with these,
    up to 100,000 values and 16 MB of arrays. Of the user's classes and modules those attributes
    count that the functions name; what libraries keep does not count.

    The model runs as it is, with a warning, where it reads more than that, iterators or generators
    of random numbers, where it prints, logs or asks for the time, and where its calls change more
    than a module's tensors: other attributes, or lists, objects and globals beside it. So it does
    from then on where each of 16 changes served fewer than four calls.

    Args:
        model: a function, or a module; without it a decorator is returned. The step of an
            optimizer computes by a plan from its first update on, and otherwise once updates have
            taken a while.
        fullgraph: whether it is an error that the function cannot be staged as a whole, because
            it asks for values for instance. Otherwise its first call warns, and it runs as it is
            from then on.
        dynamic, backend, mode, options: of no effect: there is one way, which makes a plan for each
            set of shapes.
        disable: whether to return ``model`` as it is.

    Returns:
        A function, or a module whose ``_orig_mod`` is the one that was given.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.Linear(2, 3)
    >>> compiled = torch.compile(layer)
    >>> x = torch.ones(4, 2)
    >>> torch.allclose(compiled(x), layer(x))
    True
    """
    if model is None:
        return lambda given: compile(given, fullgraph=fullgraph, disable=disable)
    if disable:
        return model
    if isinstance(model, Module):
        return CompiledModule(model, fullgraph)
    check_function("compile", model, "model")
    if isinstance(getattr(model, "__self__", None), (Optimizer, StatefulOptimizer)):
        # A step writes to parameters; what it computes is a plan.
        return with_compiled_rules(model)
    return CompiledFunction(model, fullgraph)
