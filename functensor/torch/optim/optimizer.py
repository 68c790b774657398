"""The base of optimizers, PyTorch's and a user's own: groups of parameters, and their states."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from difflib import get_close_matches
from types import MethodType
from typing import Any
from weakref import WeakSet

from ...backends.errors.public_functions import check_function
from ...primitives.core.errors import GradientInputError, failure
from ...primitives.core.shape_dtype import INEXACT
from ...tensors import Tensor
from ...tensors.missing_gradients import clear_gradient
from ..utils.hooks import RemovableHandle, put_hook

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
    "required",
]  # fmt: skip

# Options are taken for misspelt that are so much like a known one.
ALIKE = 0.85
# What copies and pickles of an optimizer do not have: its hooks, and the step that calls them.
LEFT_OUT = frozenset({"_step_pre_hooks", "_step_post_hooks", "_state_hooks", "step"})


# All optimizers, and the hooks of the steps of all.
ALIVE: WeakSet[Optimizer] = WeakSet()
HOOKS_OF_ALL: dict[str, dict[int, Any]] = {"before": OrderedDict(), "after": OrderedDict()}


class Required:
    """Stands as the default of an option that has to be given, in optimizers of older programs."""

    def __repr__(self) -> str:
        return "<required option>"


required = Required()


class Optimizer:
    """Updates parameters by their gradients: the base of all optimizers.

    A subclass passes options of groups on to this constructor, and has a method ``step``. What it
    keeps for a parameter is in ``state``, which is saved and loaded with the optimizer.

    Args:
        params: tensors; or dictionaries with ``"params"`` and options of their own; or pairs of
            names and tensors.
        defaults: the options of groups that have none of their own.

    Attributes:
        param_groups: dictionaries with ``"params"`` and the options; these may be changed.
        defaults: the options of groups that have none of their own.
        state: a dictionary by parameters of dictionaries by names; those of an unknown parameter
            are empty. What is written there is what the next step goes on from.

    Raises:
        TypeError: the parameters are a tensor, or something else than tensors.
        ValueError: there are none, or one is there twice.
        GradientInputError: one was computed from others, or is of integers.

    >>> import functensor.torch as torch
    >>> class SignDescent(torch.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...     @torch.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.sub_(p.grad.sign(), alpha=group["lr"])
    ...                 self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
    >>> x = torch.tensor([4.0], requires_grad=True)
    >>> optimizer = SignDescent([x])
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x, optimizer.state_dict()["state"]
    (Tensor([3.9], dtype=float32, requires_grad=True), {0: {'steps': 1}})
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params is a list of tensors, not a tensor; give [x]"
            )
        given = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__} was given no parameters")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        self._step_pre_hooks: dict[int, Any] = OrderedDict()
        self._step_post_hooks: dict[int, Any] = OrderedDict()
        # Those of `state_dict` and of `load_state_dict`, before and after.
        self._state_hooks: dict[str, dict[int, Any]] = {
            when: OrderedDict() for when in ("saving", "saved", "loading", "loaded")
        }
        ALIVE.add(self)
        if any(HOOKS_OF_ALL.values()):
            self._call_hooks()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters.

        Args:
            param_group: ``"params"``, options that are not the defaults, and what else is to be
                kept with the group.

        Raises:
            ValueError: a parameter is in another group already, or an option is like one that there
                is, but not the same.
        """
        who = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{who}: a group is a dict, not of type {type(param_group).__name__}")
        own = param_group["params"]
        several = [own] if isinstance(own, Tensor) else list(own)
        named = [x for x in several if isinstance(x, tuple)]
        if named and len(named) < len(several):
            raise ValueError(f"{who}: all parameters of a group have names, or none has")
        own = [x[1] for x in named] if named else several
        for i, p in enumerate(own):
            check_parameter(who, i, p)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in known for p in own):
            raise ValueError(f"{who}: a parameter is in two groups")
        if len({id(p) for p in own}) < len(own):
            raise ValueError(f"{who} was given a parameter twice")
        for name in param_group:
            if name not in self.defaults and get_close_matches(name, self.defaults, 1, ALIKE):
                raise ValueError(
                    f"{who} has no option {name!r}; it has {', '.join(self.defaults)}"
                )
        group = {**param_group, "params": own}
        if named:
            group["param_names"] = [x[0] for x in named]
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        for name, value in group.items():
            if value is required:
                raise ValueError(f"{who}: a group has no {name!r}, which has no default")
        self.check_group(group)
        self.param_groups.append(group)

    def check_group(self, group: dict[str, Any]) -> None:
        """Checks the options of a new group; a subclass may have its own."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters; a subclass has its own.

        Args:
            closure: computes the loss anew, with gradients, and returns it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients to None, or to zeros where ``set_to_none`` is False."""
        for group in self.param_groups:
            for p in group["params"]:
                clear_gradient(p, set_to_none)

    # -- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls a function before each step; it may return other arguments of the step.

        Args:
            hook: ``hook(optimizer, args, kwargs)`` returns None or new ``(args, kwargs)``;
                ``args`` begins with the optimizer.

        Returns:
            A handle with ``remove()``.
        """
        check_function("register_step_pre_hook", hook, "hook")
        return self._hooked(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls a function after each step.

        Args:
            hook: ``hook(optimizer, args, kwargs)``; ``args`` begins with the optimizer.

        Returns:
            A handle with ``remove()``.

        >>> import functensor.torch as torch
        >>> x, seen = torch.tensor([4.0], requires_grad=True), []
        >>> optimizer = torch.optim.SGD([x], lr=0.25)
        >>> handle = optimizer.register_step_post_hook(lambda o, *_: seen.append(x.item()))
        >>> x.grad = torch.ones(1)
        >>> optimizer.step()
        >>> seen
        [3.75]
        """
        check_function("register_step_post_hook", hook, "hook")
        return self._hooked(self._step_post_hooks, hook)

    def _hooked(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
        self._call_hooks()
        return put_hook(hooks, hook)

    def _call_hooks(self) -> None:
        # From the first hook on; a step that a subclass takes from its base calls them once.
        self.__dict__["step"] = MethodType(step_with_hooks, self)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls a function with the optimizer before each `state_dict`."""
        check_function("register_state_dict_pre_hook", hook, "hook")
        return put_hook(self._state_hooks["saving"], hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls a function with the optimizer and its state after each `state_dict`.

        It may return another state.
        """
        check_function("register_state_dict_post_hook", hook, "hook")
        return put_hook(self._state_hooks["saved"], hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls a function with the optimizer and the state before each `load_state_dict`.

        It may return another state.
        """
        check_function("register_load_state_dict_pre_hook", hook, "hook")
        return put_hook(self._state_hooks["loading"], hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls a function with the optimizer after each `load_state_dict`."""
        check_function("register_load_state_dict_post_hook", hook, "hook")
        return put_hook(self._state_hooks["loaded"], hook, prepend)

    # -- states

    def state_dict(self) -> dict[str, Any]:
        """Returns the options, and the state of every parameter that has one by its number.

        As in PyTorch the tensors are those of the optimizer, which later steps change; a deep copy
        stays as it is.
        """
        for hook in list(self._state_hooks["saving"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
            options = {name: value for name, value in group.items() if name != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        saved = {
            numbers.get(id(key), key) if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        found: dict[str, Any] = {"state": saved, "param_groups": groups}
        for hook in list(self._state_hooks["saved"].values()):
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a copy of what `state_dict`, or PyTorch's, returned.

        Tensors of floats get the dtype and the device of their parameters.

        Raises:
            ValueError: it belongs to other parameters or another optimizer; nothing is changed.
        """
        state_dict = dict(state_dict)
        for hook in list(self._state_hooks["loading"].values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ValueError(f"load_state_dict: groups of {sizes} parameters, not of {own}")
        by_number = {
            number: p
            for group, other in zip(self.param_groups, groups)
            for p, number in zip(group["params"], other["params"])
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, value in state_dict["state"].items():
            p = by_number.get(number)
            state[number if p is None else p] = self._loaded(p, number, value)
        self.state = state
        for group, other in zip(self.param_groups, groups):
            group.update(deepcopy({k: v for k, v in other.items() if k != "params"}))
        for hook in list(self._state_hooks["loaded"].values()):
            hook(self)

    def _loaded(self, p: Tensor | None, number: Any, value: Any) -> Any:
        """Returns a copy of what was saved for a parameter, as it is kept here."""
        return loaded_part(value, p, "")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in LEFT_OUT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_hooks()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k != "params"]
        return "\n".join([*lines, ")"])


def step_with_hooks(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
    """Makes a step of an optimizer, and calls its hooks before and after."""
    given: tuple[Any, ...] = (self, *args)
    for hook in [*HOOKS_OF_ALL["before"].values(), *self._step_pre_hooks.values()]:
        changed = hook(self, given, kwargs)
        if changed is not None:
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(
                    f"{type(self).__name__}.step: a hook before it returns None or (args, kwargs), "
                    f"not {changed!r}"
                )
            given, kwargs = changed
    out = type(self).step(*given, **kwargs)
    for hook in [*self._step_post_hooks.values(), *HOOKS_OF_ALL["after"].values()]:
        hook(self, given, kwargs)
    return out


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function before each step of every optimizer, and before hooks of its own.

    Args:
        hook: as that of `Optimizer.register_step_pre_hook`.

    Returns:
        A handle with ``remove()``.

    >>> import functensor.torch as torch
    >>> from functensor.torch.optim.optimizer import register_optimizer_step_pre_hook
    >>> x, seen = torch.tensor([4.0], requires_grad=True), []
    >>> optimizer = torch.optim.SGD([x], lr=0.25)
    >>> x.grad = torch.ones(1)
    >>> with register_optimizer_step_pre_hook(lambda o, *_: seen.append(type(o).__name__)):
    ...     optimizer.step()
    >>> seen
    ['SGD']
    """
    check_function("register_optimizer_step_pre_hook", hook, "hook")
    return hooked_in_all("before", hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function after each step of every optimizer, and after hooks of its own.

    Args:
        hook: as that of `Optimizer.register_step_post_hook`.

    Returns:
        A handle with ``remove()``.
    """
    check_function("register_optimizer_step_post_hook", hook, "hook")
    return hooked_in_all("after", hook)


def hooked_in_all(when: str, hook: Callable[..., Any]) -> RemovableHandle:
    """Registers a hook of the steps of all optimizers, those to come too."""
    for optimizer in list(ALIVE):
        optimizer._call_hooks()
    return put_hook(HOOKS_OF_ALL[when], hook)


def check_parameter(who: str, number: int, p: Any) -> None:
    """Checks that an optimizer can update a parameter."""
    if not isinstance(p, Tensor) or not p.is_leaf or p.dtype.kind not in INEXACT:
        what = p.name() if isinstance(p, Tensor) else f"of type {type(p).__name__}"
        raise failure(
            GradientInputError,
            f"parameter {number} of {who} is {what}: it must be a tensor "
            "of floats that was not computed from others",
            fix="Tensor(data, requires_grad=True)",
        )


def loaded_part(value: Any, p: Tensor | None, name: str) -> Any:
    """Returns a copy of a part of a loaded state, in the dtype and on the device of a parameter."""
    if isinstance(value, Tensor):
        if p is None or name == "step":
            return value.detach().clone()
        floats = value.dtype.kind in INEXACT and p.dtype.kind in INEXACT
        dtype = p.dtype if floats else value.dtype
        return value.detach().to(device=p.device, dtype=dtype).clone()
    if isinstance(value, dict):
        return {key: loaded_part(x, p, key) for key, x in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)([loaded_part(x, p, name) for x in value])
    return deepcopy(value)
