"""``checkpoint``: reverse mode keeps a function's inputs only, and runs it again going back.

A call is one operation for every transformation, on flat lists of arrays. Each transformation makes
of it a call at the level below, whose function does the transformation's work inside. So the levels
below save memory too, and at the bottom the function simply runs. A policy says which values of the
first run are kept for the second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from .. import tree
from ..checkpoint_policies import everything_saveable, nothing_saveable
from ..functions.arguments import in_arrays
from ..functions.wrapping import transformed
from ..hooks.interceptor import HookTrace
from ..primitives.core.annotations import Values
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import owned
from ..primitives.core.errors import function_name
from ..primitives.core.trace import slot
from ..programs.linear_staging import LinearTrace
from ..programs.staging import StagingTrace
from ..traces.batch import BatchTrace
from ..traces.captured_values import handing_out, taking
from ..traces.forward import ForwardTrace
from ..traces.reverse import ReverseTrace
from . import transforms
from .call import HANDLERS, CheckpointCall
from .capture import CaptureTrace, FirstRunTrace
from .closure_snapshot import Frozen
from .reverse import first_run_call, reverse_call

if TYPE_CHECKING:
    from ..functions.type_variables import F, P, R

__all__ = ["checkpoint", "remat"]

HANDLERS |= {
    BatchTrace: transforms.batched_call,
    CaptureTrace: transforms.captured_call,
    FirstRunTrace: first_run_call,
    ForwardTrace: transforms.forward_call,
    HookTrace: transforms.hooked_call,
    LinearTrace: transforms.plain_call,
    ReverseTrace: reverse_call,
    StagingTrace: transforms.staged_call,
}


@overload
def checkpoint(
    fun: F, *, policy: Callable[..., Any] | None = ..., prevent_cse: bool = ...,
    static_argnums: int | Sequence[int] = ...,
) -> F: ...  # fmt: skip


@overload
def checkpoint(
    fun: Callable[P, R], *, policy: Callable[..., Any] | None = ..., prevent_cse: bool = ...,
    static_argnums: int | Sequence[int] = ...,
) -> Callable[P, R]: ...  # fmt: skip


@overload
def checkpoint(
    fun: None = None, *, policy: Callable[..., Any] | None = ..., prevent_cse: bool = ...,
    static_argnums: int | Sequence[int] = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # fmt: skip


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    policy: Callable[..., Any] | None = None,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """Returns a function that does the same, but is run again in the backward pass.

    Reverse mode then keeps its inputs, and of what it computes inside only what the policy says:
    less memory for the time of a second forward pass. The function must do the same each time. The
    values that it closes over are remembered; globals and random state that change are not. Random
    keys give the same numbers again, and so do generators, and streams of keys that it closes over
    or is given.
    Outside of all transformations the function merely runs; the nodes that it records for a
    `Tensor` are made again in the backward pass, whatever the policy.

    Args:
        fun: takes and returns trees of arrays; other leaves, and Python's integers, are passed as
            they are. It may close over traced values. Without it, a decorator is returned.
        policy: says which operations' outputs are saved in the first run. They are not computed
            again, and neither are values that only they need; see ``ft.checkpoint_policies``. By
            default nothing is saved.
        prevent_cse: whether passes over a program with both runs are kept from merging the second
            with the first, which would keep everything alive.
        static_argnums: positions of arguments that are passed as they are, arrays included.

    Returns:
        A function of the same arguments, for every transformation.

    Raises:
        ReplayError: in the backward pass, the function did something else than before.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.checkpoint
    ... def layer(w, x):
    ...     return np.tanh(w @ x)
    >>> ft.grad(lambda w: np.sum(layer(w, np.ones(2))))(np.zeros((2, 2)))
    Array([[1., 1.],
           [1., 1.]], dtype=float64, device='cpu')
    """
    options: dict[str, Any] = {
        "policy": policy, "prevent_cse": prevent_cse, "static_argnums": static_argnums
    }  # fmt: skip
    given: Any = policy
    if given is not None and not callable(given):
        of = "" if fun is None else f" of {function_name(fun)}"
        raise TypeError(
            f"checkpoint{of}: the policy is a function, as those of ft.checkpoint_policies are, "
            f"not {type(given).__name__}"
        )
    if fun is None:
        return partial(checkpoint, **options)
    kept = None if policy is nothing_saveable else policy
    chosen = [static_argnums] if isinstance(static_argnums, int) else list(static_argnums)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if kept is everything_saveable or taking.gradients:
            return in_arrays(fun(*args, **kwargs))
        if slot.trace is None and "functensor.tensors.tape" not in sys.modules:
            return in_arrays(fun(*args, **kwargs))
        if slot.trace is None:
            from .tensors import checkpointed_tensors  # where there are tensors

            return in_arrays(checkpointed_tensors(fun, args, kwargs))
        if not all(-len(args) <= i < len(args) for i in chosen):
            raise TypeError(
                f"checkpoint of {function_name(fun)}: static_argnums={static_argnums}, but it was "
                f"called with {len(args)} positional arguments"
            )
        static = {i % len(args): args[i] for i in chosen}
        dynamic = [None if i in static else a for i, a in enumerate(args)]
        leaves, treedef = tree.flatten((dynamic, kwargs))
        traced = [is_array_like(x) and type(x) not in (int, bool) for x in leaves]
        places = [i for i, flag in enumerate(traced) if flag]
        before = Frozen(fun, [*leaves, *static.values()])
        runs: list[Any] = []

        def evaluate(values: Values) -> Values:
            if runs:
                called, filled = before.again()
            else:
                called, filled = before.first(fun), [*leaves, *static.values()]
            for i, value in zip(places, values, strict=True):
                filled[i] = value
            given, named = treedef.unflatten(filled[: len(leaves)])
            for i, argument in zip(static, filled[len(leaves) :], strict=True):
                given[i] = argument
            out, out_tree = tree.flatten(called(*given, **named))
            arrays = [is_array_like(leaf) for leaf in out]
            runs.append((out_tree, [None if a else leaf for leaf, a in zip(out, arrays)], arrays))
            # The owner of a plain array that the function closes over may write to it.
            return [owned(leaf) for leaf, a in zip(out, arrays) if a]

        evaluated, note = handing_out(evaluate)
        call = CheckpointCall(fun, evaluated, kept, prevent_cse)
        # The operands of the second run are those of the first.
        outs = iter(note(call.bind([owned(leaves[i]) for i in places])))
        out_tree, others, arrays = runs[0]
        return out_tree.unflatten(
            [next(outs) if a else leaf for leaf, a in zip(others, arrays, strict=True)]
        )

    return transformed(checkpointed, fun, checkpoint, fun, **options)


remat = checkpoint
