"""The states of modules: their parameters and buffers by names, as they are saved and loaded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...backends.errors.public_functions import check_function
from ...tensors import no_grad
from ..utils.hooks import RemovableHandle, put_hook

__all__ = ["IncompatibleKeys", "ModuleStates", "no_state_hooks"]

# The end of the name of what a module keeps beside its tensors.
EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """The names that a loaded state lacked, and those that it had too many."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def no_state_hooks() -> dict[str, dict[int, Any]]:
    """Returns the tables of the hooks before and after a state is saved, and is loaded."""
    return {when: OrderedDict() for when in ("saving", "saved", "loading", "loaded")}


def _is_younger(key: str, own: Mapping[str, Any], versions: Mapping[str, Any]) -> bool:
    """Says whether a buffer came into modules after the version that a state is of, if it says."""
    module, name, _ = own.get(key, (None, "", None))
    since = getattr(module, "_younger_buffers", {}).get(name)
    if since is None:
        return False
    version = versions.get(key.rpartition(".")[0], {}).get("version")
    return version is None or version < since


class ModuleStates:
    """The part of `Module` that saves and loads its states."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_hooks: dict[str, dict[int, Any]]
    # Names of buffers that states of other versions than these may lack.
    _younger_buffers: Mapping[str, int] = MappingProxyType({})

    def get_extra_state(self) -> Any:
        """Returns what is saved beside the tensors; a subclass may have its own.

        Then it has `set_extra_state` too. The name is ``"_extra_state"``.
        """
        raise RuntimeError(f"{type(self).__name__} has no method get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` returned; a subclass may have its own."""
        raise RuntimeError(f"{type(self).__name__} has no method set_extra_state")

    def _has_extra_state(self) -> bool:
        return not type(self).get_extra_state.__module__.startswith("functensor.")

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Returns parameters and buffers by their names; they share memory with the module's.

        Args:
            destination: a dictionary that they are added to; by default a new one.
            prefix: what all names begin with.
            keep_vars: whether parameters are the module's own, and not detached.
        """
        found: dict[str, Any] = OrderedDict() if destination is None else destination
        for hook in list(self._state_hooks["saving"].values()):
            hook(self, prefix, keep_vars)
        for name, x in self._saved_tensors():
            found[prefix + name] = x if keep_vars else x.detach()
        if self._has_extra_state():
            found[prefix + EXTRA] = self.get_extra_state()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in list(self._state_hooks["saved"].values()):
            hook(self, found, prefix, {})
        return found

    def _saved_tensors(self) -> Iterator[tuple[str, Any]]:
        """Yields the tensors of this module alone that are saved, with their names."""
        for name, x in {**self._parameters, **self._buffers}.items():
            if x is not None and name not in self._non_persistent_buffers_set:
                yield name, x

    def _parts(self, prefix: str = "") -> Iterator[tuple[str, ModuleStates]]:
        """Yields all modules within this one, and before what their names begin with."""
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module._parts(f"{prefix}{name}.")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Takes the values of a state that `state_dict` returned.

        Args:
            state_dict: tensors or arrays by names.
            strict: whether a name that is missing, or one too many, is an error.
            assign: whether the tensors take the place of the module's; else values are copied.

        Returns:
            The names that were missing, and those too many.

        Raises:
            RuntimeError: names differ, or a shape; nothing is changed then.
        """
        given: dict[str, Any] = OrderedDict(state_dict)
        parts = list(self._parts())
        said: list[str] = []
        for prefix, module in parts:
            for hook in list(module._state_hooks["loading"].values()):
                hook(module, given, prefix, {}, strict, [], [], said)
        own = {
            prefix + name: (module, name, x)
            for prefix, module in parts
            for name, x in module._saved_tensors()
        }
        extras = {
            prefix + EXTRA: module for prefix, module in parts if module._has_extra_state()
        }
        versions = getattr(state_dict, "_metadata", {})
        missing = [
            name
            for name in (*own, *extras)
            if name not in given and not _is_younger(name, own, versions)
        ]
        unexpected = [name for name in given if name not in own and name not in extras]
        wrong = said + [
            f"{name} has the shape {tuple(np.shape(given[name]))}, not {x.shape}"
            for name, (_, _, x) in own.items()
            if name in given and tuple(np.shape(given[name])) != x.shape
        ]
        if strict:
            wrong += [f"{name} is missing" for name in missing]
            wrong += [f"{name} is not of this module" for name in unexpected]
        if wrong:
            raise RuntimeError(
                f"load_state_dict of {type(self).__name__}: " + "\n  ".join(["", *wrong])
            )
        with no_grad():
            for name, (module, last, x) in own.items():
                if name not in given:
                    continue
                if assign:
                    setattr(module, last, type(x)(given[name]))
                else:
                    x.copy_(given[name])
        for name, module in extras.items():
            if name in given:
                module.set_extra_state(given[name])
        keys = IncompatibleKeys(missing, unexpected)
        for _, module in reversed(parts):
            for hook in list(module._state_hooks["loaded"].values()):
                hook(module, keys)
        return keys

    # -- hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before each `state_dict`."""
        check_function("register_state_dict_pre_hook", hook, "hook")
        return put_hook(self._state_hooks["saving"], hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, {})`` after each; it may change the state."""
        check_function("register_state_dict_post_hook", hook, "hook")
        return put_hook(self._state_hooks["saved"], hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls a function before each `load_state_dict`, which may change a copy of the state.

        Args:
            hook: takes the module, the state, what the module's names begin with, {}, ``strict``,
                and lists: of missing names, of those too many, which have no effect, and of texts,
                which are errors.
        """
        check_function("register_load_state_dict_pre_hook", hook, "hook")
        return put_hook(self._state_hooks["loading"], hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Calls a function as above, by PyTorch's older name, without the module."""
        called = hook if with_module else lambda module, *args: hook(*args)
        return put_hook(self._state_hooks["loading"], called)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, keys)`` after each `load_state_dict`, with what that returns."""
        check_function("register_load_state_dict_post_hook", hook, "hook")
        return put_hook(self._state_hooks["loaded"], hook)
