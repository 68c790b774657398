"""Finds the backend that computes a primitive: the one whose buffers it is given.

While NumPy's is the only backend, a primitive's ``impl`` is NumPy's function itself. When another
is loaded, every primitive's becomes one that looks at its operands first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

import numpy as np

from ...backends import Backend, when_registered
from ...backends import get as get_backend
from ...backends.annotations import ArrayModule, Buffer, DType
from ...backends.devices import placement
from ...backends.dtypes import MET, computed_in_single, when_met
from ...backends.protocol import BY_BUFFER
from .annotations import Value
from .buffers import ARRAY_TYPES, BUFFER_TYPES, WEAK_TYPES
from .errors import failure
from .registry import registry

__all__ = ["ADDERS", "dispatching"]

# A function that computes a primitive on buffers.
Implementation: TypeAlias = Callable[..., Buffer]


if TYPE_CHECKING:

    class Dispatched(Protocol):
        """A primitive, as far as the choice of its implementation knows it."""

        name: str
        compute: str | Callable[..., Any]
        impl: Implementation
        ahead: Callable[..., tuple[Any, Any]] | None
        creates: bool
        arity: int


# Functions that add to a buffer in its place, by its class, where that is quicker than ``+=``.
ADDERS: dict[type, Callable[[Any, Any], Any]] = {}


def dispatching(primitive: Dispatched) -> Implementation:
    """Returns the function that computes a primitive on the buffers of every backend there is."""
    for backend in BY_BUFFER.values():
        look_ahead(primitive, backend)
    return composed_implementation(primitive)


def composed_implementation(primitive: Dispatched) -> Implementation:
    """Returns the function that leaves to each backend what is to be done with its buffers."""
    impl = implementation(primitive, get_backend("numpy"))
    for backend in BY_BUFFER.values():
        impl = choosing(primitive, backend, impl)
    return impl


def implementation(primitive: Dispatched, backend: Backend) -> Implementation:
    """Returns the function that computes a primitive on one backend's buffers.

    The backend may have a better kernel than what the primitive declares: the array module's
    function by name, or ``compute(xp, *buffers, **params)``.
    """
    if primitive.name in backend.kernels:
        function = backend.kernels[primitive.name]
    elif isinstance(primitive.compute, str):
        function = getattr(backend.xp, primitive.compute, None) or partial(
            missing_function, primitive.name, backend.name
        )
    else:
        function = partial(computed_by_declaration, primitive.compute, backend.xp)
    function = backend.outside_of_plans(primitive.name, function)
    if backend.lacks:
        function = partial(refusing, function, primitive.name, backend)
    if primitive.name in backend.accumulating:
        function = computed_in_single(function, np.float16)
    if MET and primitive.name not in backend.mixes_bfloat16:
        takes = primitive.name in backend.takes_bfloat16
        return computed_in_single(function, MET[0], takes)
    return function


def computed_by_declaration(
    compute: Callable[..., Buffer], xp: ArrayModule, *buffers: Buffer, **params: Any
) -> Buffer:
    """Calls a declaration's own function, whose Python scalars become the array module's."""
    out = compute(xp, *buffers, **params)
    return xp.asarray(out)[()] if type(out) in WEAK_TYPES else out


def refusing(
    function: Callable[..., Any], name: str, backend: Backend, /, *buffers: Any, **params: Any
) -> Any:
    """Calls a function; where the array module lacks what it needs, the error says of what."""
    try:
        return function(*buffers, **params)
    except backend.lacks as error:
        reason = error.__cause__ or error
        there = f'ft.to_device({name}(ft.to_device(x, "cpu")), "{backend.kind}")'
        raise failure(
            NotImplementedError,
            f"{name} is not computed by the {backend.name} backend: {reason}",
            fix=f"{there}, which differentiates",
            number=14,
        ) from error


def missing_function(name: str, backend: str, *buffers: Buffer, **params: Any) -> NoReturn:
    """Stands for a function that an array module does not have."""
    raise NotImplementedError(f"the {backend} backend has no {name!r}")


def choosing(primitive: Dispatched, backend: Backend, otherwise: Implementation) -> Implementation:
    """Returns an implementation that leaves to a backend what is to be done with its buffers."""
    function = implementation(primitive, backend)
    own: Implementation = backend.adopt(primitive, function)
    buffer_type, host = backend.buffer_type, np.ndarray
    quick = function if len(backend.devices()) == 1 else own
    # A primitive without parameters goes the short way.
    arity = primitive.arity
    if arity and not primitive.creates:
        choosing_by = choosing_by_operand if arity == 1 else choosing_by_operands
        return choosing_by(buffer_type, quick, own, otherwise)

    def impl(*buffers: Buffer, **params: Any) -> Buffer:
        for buffer in buffers:
            if type(buffer) is buffer_type:
                for other in buffers:
                    if type(other) is host:
                        return own(*buffers, **params)
                return quick(*buffers, **params)
        return otherwise(*buffers, **params)

    def placed(*buffers: Buffer, **params: Any) -> Buffer:
        if placement.device != "cpu":
            return own(*buffers, **params)
        return impl(*buffers, **params)

    return placed if primitive.creates else impl


def choosing_by_operand(
    buffer_type: type, quick: Implementation, own: Implementation, otherwise: Implementation
) -> Implementation:
    """Returns what `choosing` does, for one operand; ``quick`` is for buffers on one device."""

    def impl(x: Buffer) -> Buffer:
        return quick(x) if type(x) is buffer_type else otherwise(x)

    return impl


def choosing_by_operands(
    buffer_type: type, quick: Implementation, own: Implementation, otherwise: Implementation
) -> Implementation:
    """Returns the same for two operands; ``own`` is for one that may be an array of the host."""
    host = np.ndarray

    def impl(x: Buffer, y: Buffer) -> Buffer:
        if type(x) is buffer_type:
            return quick(x, y) if type(y) is not host else own(x, y)
        if type(y) is buffer_type:
            return quick(x, y) if type(x) is not host else own(x, y)
        return otherwise(x, y)

    return impl


def look_ahead(primitive: Dispatched, backend: Backend) -> None:
    """Gives a primitive a backend's way to compute it for reverse mode, if there is one."""
    if primitive.name not in backend.ahead:
        return
    function = backend.ahead[primitive.name]
    own = backend.adopt(primitive, function)
    buffer_type, host, otherwise = backend.buffer_type, np.ndarray, primitive.ahead
    quick = function if len(backend.devices()) == 1 else own

    def ahead(*buffers: Buffer, **params: Any) -> tuple[Any, Any]:
        for buffer in buffers:
            if type(buffer) is buffer_type:
                meets = host in map(type, buffers)
                return (own if meets else quick)(*buffers, **params)
        if otherwise is not None:
            return otherwise(*buffers, **params)
        ans = primitive.impl(*buffers, **params)
        return ans, ans

    primitive.ahead = ahead


def adopt(backend: Backend) -> None:
    """Makes a backend's buffers operands of every primitive."""
    ARRAY_TYPES.add(backend.buffer_type)
    BUFFER_TYPES.add(backend.buffer_type)
    if backend.add_into is not None:
        ADDERS[backend.buffer_type] = backend.add_into
    for primitive in registry:
        primitive.impl = choosing(primitive, backend, primitive.impl)
        look_ahead(primitive, backend)
        for operand, quicker in enumerate(backend.grads.get(primitive.name, ())):
            if quicker is not None:
                rules = list(primitive.vjps)
                rules[operand] = on_buffers(backend.buffer_type, quicker, rules[operand])
                primitive.vjps = tuple(rules)


def on_buffers(
    buffer_type: type, quicker: Callable[[Any, Any, Any], Any], otherwise: Implementation
) -> Implementation:
    """Returns a compiled rule of reverse mode that is quicker where it works on buffers."""

    def rule(g: Value, saved: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if type(g) is buffer_type:
            c = quicker(g, saved, params)
            if c is not None:
                return c
        return otherwise(g, saved, params)

    return rule


def meet(dtype: DType) -> None:
    """Makes arrays of bfloat16 operands of every primitive."""
    BUFFER_TYPES.add(dtype.type)
    for primitive in registry:
        primitive.impl = composed_implementation(primitive)


when_registered(adopt)
when_met(meet)
