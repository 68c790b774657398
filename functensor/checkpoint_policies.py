"""Policies of ``checkpoint``: what the first run saves for the backward pass.

A policy is asked once for every operation that a checkpointed function does on its arguments:
``policy(primitive, *types, **params)``, with the primitive, of which it may look at the ``name``,
the operands' ``ShapeDtype`` and the static parameters. True saves the output, False computes it
again; `Offload` saves it elsewhere or in another form. Large systems and determinants are computed
by steps, of which ``solve_by_factors`` and the like are the last: unless a policy saves that, it is
asked for ``solve``, ``det`` or ``slogdet`` itself. A value that was given a name by
``ft.checkpoint_name`` is asked for again, as the output of ``checkpoint_name`` with the parameter
``name``. Values that the backward pass does not need are dropped. Functions with rules of their
own, and checkpointed functions inside, are not asked for: they run again as a whole.

Names and meanings are those of ``jax.checkpoint_policies``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .faces.publish import publish
from .primitives.device import to_device
from .traces.reverse import is_inexact

if TYPE_CHECKING:
    from .primitives.core.annotations import Value
    from .primitives.core.primitive_like import PrimitiveLike
    from .primitives.core.shape_dtype import ShapeDtype

__all__ = [
    "RECOMPUTE", "Offload", "checkpoint_dots", "checkpoint_dots_with_no_batch_dims",
    "dots_saveable", "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable",
    "offload_dot_with_no_batch_dims", "save_and_offload_only_these_names",
    "save_any_names_but_these", "save_anything_except_these_names", "save_from_both_policies",
    "save_only_these_names", "save_only_these_primitives",
]  # fmt: skip

Policy = Callable[..., Any]

NAMED = "checkpoint_name"
# The primitives that are products of matrices, or made of them.
DOTS = frozenset({"attention", "conv", "einsum", "matmul"})
# JAX's names for the memory of the host.
HOSTS = frozenset({"pinned_host", "unpinned_host"})


class _Recompute:
    """A policy's answer for a name whose value is not to be saved under any other."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "RECOMPUTE"

    def __reduce__(self) -> str:
        return "RECOMPUTE"


RECOMPUTE = _Recompute()


class Offload:
    """A policy's answer for an output that is to be saved elsewhere, or in another form.

    Derivatives of any order take what is restored for the output itself, so that ``offload`` may
    round, quantise or compress. Integers and booleans are saved as they are, unless they are only
    moved.

    Args:
        offload: takes the output and returns a tree of arrays, which is saved; by default the
            output on another device.
        restore: takes that tree and returns an array of the output's shape and dtype, when the
            backward pass needs it.
        device: where outputs are put by default.
        home: where they are put when they are restored, by default where they were.

    >>> import functensor as ft, functensor.numpy as np
    >>> half = Offload(lambda x: x.astype("float16"), lambda kept: kept.astype("float64"))
    >>> f = ft.checkpoint(lambda x: np.sin(np.exp(x)), policy=lambda op, *types, **params: half)
    >>> np.round(ft.grad(f)(1.0), 2)
    Array(-2.48, dtype=float64, device='cpu')
    """

    def __init__(
        self,
        offload: Callable[[Any], Any] | None = None,
        restore: Callable[[Any], Any] | None = None,
        *,
        device: str = "cpu",
        home: str | None = None,
    ) -> None:
        if (offload is None) != (restore is None):
            raise TypeError("Offload takes offload and restore together, or neither")
        self.offload = offload
        self.restore = restore
        self.device = device
        self.home = home

    def takes(self, x: Value) -> bool:
        """Says whether an output is offloaded, and not saved as it is."""
        return self.offload is None or is_inexact(x)

    def put(self, x: Value) -> Any:
        """Returns what is saved of an output."""
        return to_device(x, self.device) if self.offload is None else self.offload(x)

    def get(self, stored: Any, device: str) -> Any:
        """Returns an output that was on a device from what was saved of it."""
        if self.restore is None:
            return to_device(stored, self.home or device)
        return self.restore(stored)


def everything_saveable(primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any) -> bool:
    """Saves all that the backward pass needs, as without ``checkpoint``."""
    return True


def nothing_saveable(primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any) -> bool:
    """Saves nothing but the function's inputs, as without a policy."""
    return False


def dots_saveable(primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any) -> bool:
    """Saves the outputs of products of matrices, of convolutions and of attention."""
    return primitive.name in DOTS


checkpoint_dots = dots_saveable


def dots_with_no_batch_dims_saveable(
    primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> bool:
    """Saves the outputs of products of matrices none of whose axes goes through all operands.

    That is what a layer does with its weights, and not what attention does within an example.
    """
    if primitive.name == "matmul":
        return min(len(x.shape) for x in types) <= 2
    if primitive.name == "einsum" and len(types) > 1:
        inputs, _, output = params["subscripts"].partition("->")
        return not set(output).intersection(*inputs.split(","))
    return False


checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def offload_dot_with_no_batch_dims(
    offload_src: str = "device",
    offload_dst: str = "cpu",
    *,
    offload: Callable[[Any], Any] | None = None,
    restore: Callable[[Any], Any] | None = None,
) -> Policy:
    """Returns a policy that offloads what `dots_with_no_batch_dims_saveable` saves.

    Args:
        offload_src, offload_dst, offload, restore: as `save_and_offload_only_these_names` has them.
    """
    return partial(_offloaded_dots, _offload(offload_src, offload_dst, offload, restore))


def save_only_these_primitives(*names: str) -> Policy:
    """Returns a policy that saves the outputs of the operations of these names.

    Args:
        names: of primitives: ``matmul``, ``tanh``, as ``ft.make_program`` prints them.

    >>> import functensor as ft, functensor.numpy as np
    >>> save_only_these_primitives("matmul", "tanh")(np.tanh)
    True
    """
    return partial(_of_primitives, frozenset(names))


def save_only_these_names(*names: str) -> Policy:
    """Returns a policy that saves the values of these names, which ``checkpoint_name`` gave them.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.checkpoint(policy=save_only_these_names("y"))
    ... def f(x):
    ...     return np.sin(ft.checkpoint_name(np.exp(x), "y"))
    >>> ft.grad(f)(0.0)
    Array(0.54030231, dtype=float64, device='cpu')
    """
    return partial(_only_names, frozenset(names))


def save_any_names_but_these(*names: str) -> Policy:
    """Returns a policy that saves all values with names but those of these names."""
    return partial(_other_names, frozenset(names))


def save_anything_except_these_names(*names: str) -> Policy:
    """Returns a policy that saves all values, with and without names, but those of these names."""
    return partial(_anything_but, frozenset(names))


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Returns a policy that saves what either of two saves; the first decides how."""
    return partial(_either, first, second)


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str = "device",
    offload_dst: str = "cpu",
    offload: Callable[[Any], Any] | None = None,
    restore: Callable[[Any], Any] | None = None,
) -> Policy:
    """Returns a policy that saves values of some names and offloads those of others.

    Args:
        names_which_can_be_saved: of values that stay where they are.
        names_which_can_be_offloaded: of values that are moved, or changed.
        offload_src: where they are restored to; ``"device"`` is where they were.
        offload_dst: the device to which they are moved; JAX's ``"pinned_host"`` is the CPU too.
        offload, restore: what is done instead of moving them; see `Offload`.

    Raises:
        ValueError: a name is in both lists.
    """
    kept, moved = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if kept & moved:
        listed = ", ".join(map(repr, sorted(kept & moved)))
        raise ValueError(
            f"save_and_offload_only_these_names: {listed} can be either saved or offloaded"
        )
    how = _offload(offload_src, offload_dst, offload, restore)
    return partial(_saved_or_offloaded, kept, moved, how)


def _offload(
    src: str, dst: str, offload: Callable[..., Any] | None, restore: Callable[..., Any] | None
) -> Offload:
    home = None if src == "device" else src
    return Offload(offload, restore, device="cpu" if dst in HOSTS else dst, home=home)


# Functions of the module and not of another function, so that policies can be pickled.


def _offloaded_dots(
    how: Offload, primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> Offload | bool:
    return how if dots_with_no_batch_dims_saveable(primitive, *types, **params) else False


def _of_primitives(
    names: frozenset[str], primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> bool:
    return primitive.name in names


def _only_names(
    names: frozenset[str], primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> bool:
    return primitive.name == NAMED and params["name"] in names


def _other_names(
    names: frozenset[str], primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> bool:
    return primitive.name == NAMED and params["name"] not in names


def _anything_but(
    names: frozenset[str], primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> Any:
    return RECOMPUTE if _only_names(names, primitive, *types, **params) else True


def _either(
    first: Policy, second: Policy, primitive: PrimitiveLike, /, *types: ShapeDtype, **params: Any
) -> Any:
    one = first(primitive, *types, **params)
    if one:
        return one
    other = second(primitive, *types, **params)
    return one if one is RECOMPUTE and not other else other


def _saved_or_offloaded(
    saved: frozenset[str],
    moved: frozenset[str],
    how: Offload,
    primitive: PrimitiveLike,
    /,
    *types: ShapeDtype,
    **params: Any,
) -> Offload | bool:
    if primitive.name != NAMED:
        return False
    return how if params["name"] in moved else params["name"] in saved


publish(globals())
