"""PyTorch's ``torch.utils.checkpoint``: parts of a model that run again on the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...backends.errors.public_functions import check_function
from ...checkpointing.checkpointed import checkpoint as checkpointed
from ...faces.publish import publish
from ...primitives.core.errors import failure
from ..nn.containers import Sequential

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[..., Any] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls a function, or a module, of which only the arguments are kept for the way back.

    It runs again there, and must do the same; what is drawn of the default generator is the same.
    See `functensor.checkpoint`, which also takes a policy of what is kept.

    Args:
        function: a function of tensors, or a module.
        args, kwargs: its arguments.
        context_fn: must be None.
        use_reentrant, determinism_check, debug, early_stop, preserve_rng_state: no effect: all
            tensors that are met get their gradients, and a second run that differs is an error.

    Returns:
        What the function returned.

    Raises:
        NotImplementedError: there is a ``context_fn``.
        ReplayError: on the way back the function did something else than before.

    >>> import functensor.torch as torch
    >>> from functensor.torch.utils.checkpoint import checkpoint
    >>> layer, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> checkpoint(lambda x: layer(x).tanh(), x, use_reentrant=False).sum().backward()
    >>> layer.weight.grad.shape
    (3, 2)
    """
    check_function("checkpoint", function, "function")
    if context_fn is not None:
        check_function("checkpoint", context_fn, "context_fn")
        raise failure(
            NotImplementedError,
            "checkpoint: context_fn is not here",
            fix="functensor.checkpoint(function, policy=functensor.checkpoint_policies....)",
            number=None,
        )
    return checkpointed(function)(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls modules one after another, of which only the inputs of some segments are kept.

    Args:
        functions: a `torch.nn.Sequential`, or a list of functions.
        segments: into how many parts they are cut; all but the last are checkpointed.
        input: what the first one is given.
        use_reentrant, preserve_rng_state: no effect.

    Returns:
        What the last one returned.

    Raises:
        ValueError: there are fewer functions than segments, or no segment.

    >>> import functensor.torch as torch
    >>> from functensor.torch.utils.checkpoint import checkpoint_sequential
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    >>> checkpoint_sequential(model, 2, torch.ones(4, 2)).shape
    (4, 1)
    """
    if kwargs:
        raise TypeError(f"checkpoint_sequential has no argument {next(iter(kwargs))!r}")
    is_module = isinstance(functions, Sequential)
    several: list[Any] = list(functions.children()) if is_module else list(functions)
    if not 1 <= segments <= len(several):
        raise ValueError(
            f"checkpoint_sequential: {len(several)} functions cannot be cut into {segments} parts"
        )
    size = len(several) // segments
    out, start = input, 0
    for _ in range(segments - 1):
        out = checkpoint(one_after_another(several[start : start + size]), out)
        start += size
    return one_after_another(several[start:])(out)


def one_after_another(functions: Iterable[Any]) -> Callable[[Any], Any]:
    """Returns the function that calls several, one after another."""
    several = list(functions)

    def run(x: Any) -> Any:
        for function in several:
            x = function(x)
        return x

    return run


publish(globals())
