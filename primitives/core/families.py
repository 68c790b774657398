"""Families: what all primitives of a kind have in common, so that one statement declares one.

A family supplies shape and dtype inference, batching, both derivative modes from what is given,
and samples for the registry-driven tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...backends.annotations import Axis
from ...backends.restoring import quiet
from .annotations import ArrayLike, P, Prepare, Prepared, Value
from .annotations import operations as ops
from .array import Array
from .buffers import BUFFER_TYPES, beside
from .derivative_rules import DerivativeRule, shape_of
from .docstrings import document
from .errors import refuse_out
from .primitive import (
    Binary,
    BinaryPrimitive,
    Primitive,
    PrimitiveOfArray,
    Unary,
    UnaryPrimitive,
    of_parameters,
)
from .shape_dtype import ShapeDtype, broadcast_shapes, canonical_axes, canonical_axis
from .test_samples import REAL, Domain, Operand, Sample
from .trace import RAW, slot

__all__ = [
    "Reduction", "along", "binary", "called_as", "elementwise", "linear", "reduction",
    "structural", "unary",
]  # fmt: skip

# -- elementwise: every element of the output depends on the operands' elements at its place


# The dtypes that elementwise primitives without parameters gave, by those of their operands.
_promoted: dict[Any, tuple[np.dtype[Any], type | None]] = {}


def infer_elementwise(primitive: Primitive, *operands: ShapeDtype, **params: Any) -> ShapeDtype:
    """Infers by broadcasting; the dtype comes from the array module's own promotion."""
    shape = broadcast_shapes(primitive.name, *[x.shape for x in operands])
    if params:
        return ShapeDtype(shape, *_promotion(primitive, operands, params))
    key = (primitive, *[x.weak or x.dtype for x in operands])
    found = _promoted.get(key)
    if found is None:
        found = _promoted[key] = _promotion(primitive, operands, params)
    return ShapeDtype(shape, *found)


def _promotion(
    primitive: Primitive, operands: Sequence[ShapeDtype], params: dict[str, Any]
) -> tuple[np.dtype[Any], type | None]:
    """Returns a result's dtype, and which Python number it is if it stays weak."""
    probes = [x.weak(1) if x.weak else np.ones((1,), x.dtype) for x in operands]
    # Some functions are not defined at one.
    with quiet():
        dtype = primitive.impl(*probes, **params).dtype
    # As in evaluation, scalars stay weak in primitives without parameters.
    weak = None
    if isinstance(primitive, Unary | Binary) and all(x.weak for x in operands):
        weak = type(dtype.type(0).item())
        # A dtype that no Python number has decides promotions.
        weak = weak if np.asarray(weak()).dtype == dtype else None
    return dtype, weak


def batch_elementwise(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    """Batches by giving all batched operands the same rank behind the leading batch axis."""
    return primitive.bind(aligned_operands(values, flags), params)


def filled_operands(values: Sequence[Any], flags: Sequence[bool]) -> list[Value]:
    """Returns operands that all have a batch axis: what the examples share is repeated."""
    batched = next(v for v, flag in zip(values, flags, strict=True) if flag)
    size = shape_of(batched)[0]
    return [
        v if flag else ops.broadcast_to(_near(batched, v), (size, *shape_of(v)))
        for v, flag in zip(values, flags, strict=True)
    ]


def _near(x: Value, number: Value) -> Value:
    """Returns a number of the host where an operand is, beside which it gets an axis."""
    return beside(x, number) if type(number) in BUFFER_TYPES and not shape_of(number) else number


def batch_filled(
    primitive: Primitive, values: Sequence[Any], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    """Batches what works on the last axes alone, once all operands have a batch axis."""
    return primitive.bind(filled_operands(values, flags), params)


def aligned_operands(values: Sequence[Any], flags: Sequence[bool]) -> list[Value]:
    """Returns operands whose batch axes stand where they broadcast against each other."""
    if len(values) == 1:
        return list(values)
    rank = max(len(shape_of(v)) - flag for v, flag in zip(values, flags, strict=True))
    out = []
    for v, flag in zip(values, flags, strict=True):
        shape = shape_of(v)
        if flag and len(shape) - 1 < rank:
            v = ops.reshape(v, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))
        out.append(v)
    return out


def _elementwise_samples(
    domains: Sequence[Domain], params: Sequence[dict[str, Any]]
) -> list[Sample]:
    """Scalars, matrices, every operand broadcast in turn, and zero elements."""
    arity = len(domains)
    shapes: list[list[tuple[int, ...]]] = [[()] * arity, [(2, 3)] * arity, [(0, 3)] * arity]
    for i in range(arity if arity > 1 else 0):
        shapes.append([(1, 3) if j == i else (2, 3) for j in range(arity)])
        shapes.append([(3,) if j == i else (2, 1) for j in range(arity)])
    return [Sample(*map(Operand, row, domains), **static) for static in params for row in shapes]


def _elementwise_document(arity: int, declared: dict[str, Any]) -> str | None:
    described = {"x": "an array of any shape, or a number."}
    returns, raises = "An array of x's shape.", ""
    if arity > 1:
        described = {", ".join("xyz"[:arity]): "arrays whose shapes broadcast, or numbers."}
        returns = "An array of the shape to which the arguments broadcast."
        raises = "ShapeError: their shapes do not broadcast."
    described = declared.pop("arguments", described) | declared.pop("options", {})
    return _documented(declared, described, returns, raises)


def _documented(
    declared: dict[str, Any], arguments: dict[str, str], returns: str, raises: str
) -> str | None:
    """Returns the docstring of a declaration, whose words are taken out of it."""
    text, example, source = (declared.pop(key, None) for key in ("doc", "example", "source"))
    return document(text, arguments, returns, raises, example or "", source or "")


def elementwise(
    name: str,
    *vjps: DerivativeRule | None,
    kind: type[Primitive] = Primitive,
    prepare: Prepare[P] = None,
    **declared: Any,
) -> PrimitiveOfArray[P]:
    """Declares an elementwise primitive.

    Args:
        name: its name, and that of the array module's function unless ``compute`` is given.
        vjps: for every operand the derivative as a rule; it serves both modes. No rule at all
            declares the derivative to be zero everywhere (comparisons, ``sign``, ``floor``).
        kind, prepare: the class to instantiate, and the signature where there are parameters.
        declared: ``arity``, where that is not the number of rules; ``jvp``, the rules of forward
            mode, where the function is not holomorphic; ``domains``, where tests draw operands
            from, one for all or one each; ``params``, the static parameters with which it is
            tested; ``dtypes``, for which it is tested, of ``fdD``; and what else ``Primitive``
            takes. ``doc`` may be one sentence, to which the family adds the rest, with an
            ``example``, a ``source``, the ``arguments`` where they are not x, y and z, and the
            ``options`` where there are any (see ``document``).
    """
    declared = _elementwise_declaration(*vjps, **declared)
    return of_parameters(name, kind=kind, prepare=prepare, **declared)


def _elementwise_declaration(
    *vjps: DerivativeRule | None,
    arity: int = 0,
    jvp: Sequence[DerivativeRule] | None = None,
    domains: Sequence[Domain] | Domain = REAL,
    params: Sequence[dict[str, Any]] = ({},),
    dtypes: str = "fd",
    **declared: Any,
) -> dict[str, Any]:
    """Returns what ``Primitive`` takes for what `elementwise` is given."""
    arity = arity or len(vjps)
    domains = [domains] * arity if isinstance(domains, Domain) else list(domains)
    return dict(
        family="elementwise",
        infer=infer_elementwise,
        batch=batch_elementwise,
        vjp=vjps or None,
        jvp=jvp or vjps or None,
        constant=not vjps,
        broadcasts=True,
        samples=partial(_elementwise_samples, domains, params),
        dtypes=dtypes,
        doc=_elementwise_document(arity, declared),
        **declared,
    )


# The classes, which type checkers know by the tensors that come of tensors.
UNARY = cast("Callable[..., UnaryPrimitive]", Unary)
BINARY = cast("Callable[..., BinaryPrimitive]", Binary)


def unary(name: str, vjp: DerivativeRule | None = None, **declared: Any) -> UnaryPrimitive:
    """Declares an elementwise primitive of an operand: ``unary("exp", lambda g, ans: g * ans)``."""
    rules = (vjp,) if vjp else ()
    return UNARY(name, **_elementwise_declaration(*rules, arity=1, **declared))


def binary(name: str, *vjps: DerivativeRule | None, **declared: Any) -> BinaryPrimitive:
    """Declares an elementwise primitive of two operands, a rule for each."""
    return BINARY(name, **_elementwise_declaration(*vjps, arity=2, **declared))


# -- structural: one operand, linear, elements move but are not computed with


def structural(
    name: str,
    vjp: DerivativeRule,
    *,
    shape: Callable[..., tuple[int, ...]],
    shift: Callable[..., dict[str, Any]] = lambda size, **params: params,
    batch: Callable[..., Any] | None = None,
    dtypes: str = "fdD",
    prepare: Prepare[P] = None,
    **declared: Any,
) -> PrimitiveOfArray[P]:
    """Declares a linear primitive of one operand that keeps its dtype.

    Args:
        name: its name.
        vjp: the transposed operation as a rule.
        shape: ``shape(x_shape, **params)``: the output's shape; raises ``ShapeError``.
        shift: ``shift(size, **params)``: the parameters for an operand with a batch axis of that
            size in front; by default the same.
        batch: the batching rule, where other parameters alone do not do it.
        dtypes, prepare: as for ``elementwise``.
        declared: what else ``Primitive`` takes.
    """

    def infer(primitive: Primitive, x: ShapeDtype, **params: Any) -> ShapeDtype:
        return ShapeDtype(shape(x.shape, **params), x.dtype)

    def shifted(
        primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
    ) -> Value:
        return primitive.bind(values, shift(shape_of(values[0])[0], **params))

    declared |= {"infer": infer, "batch": batch or shifted, "dtypes": dtypes}
    return linear(name, vjp, prepare=prepare, **declared)


def linear(
    name: str, *vjps: DerivativeRule, prepare: Prepare[P] = None, **declared: Any
) -> PrimitiveOfArray[P]:
    """Declares a primitive that is linear in each operand: forward mode is the primitive itself."""
    return of_parameters(name, prepare=prepare, vjp=vjps, linear=True, **declared)


# -- reductions: axes disappear


def prepare_reduction(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Prepared:
    """The signature of reductions: ``axis`` None, an integer or a tuple."""
    params = {"axis": canonical_axes(axis, len(shape_of(a))), "keepdims": bool(keepdims)}
    return (a,), with_options(params, out, initial, where)


def with_options(
    params: dict[str, Any], out: None, initial: ArrayLike | None, where: ArrayLike | None
) -> dict[str, Any]:
    """Returns parameters with what the primitive has none for, where it is given."""
    if out is not None or initial is not None or (where is not None and where is not True):
        params["options"] = out, initial, None if where is True else where
    return params


class Reduction(Primitive):
    """A primitive that reduces axes; ``initial`` and ``where`` are made of other primitives.

    Attributes:
        optional: ``optional(x, initial, where, params)``: reduces only elements where a condition
            holds, beginning with a value; either may be None. None where there are no such options.
    """

    def __init__(
        self, name: str, *, optional: Callable[..., Any] | None = None, **declared: Any
    ) -> None:
        super().__init__(name, **declared)
        self.optional = optional

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        operands: Any = args
        params = kwargs
        try:
            if not args:
                operands, params = self.by_place(kwargs)
            elif isinstance(args[0], (list, tuple, range)):
                operands = (ops.asarray(args[0]), *args[1:])
            prepare: Any = self.prepare
            operands, params = prepare(*operands, **params)
            if "options" not in params:
                if slot.trace is not None or type(operands[0]) is not Array:
                    return self.bind(operands, params)
                result = Array()
                result._data = RAW.process(self, (operands[0]._data,), params)
                return result
            out, initial, where = params.pop("options")
            refuse_out(self.name, out, self.namespace)
            if self.optional is None:
                raise TypeError(f"{self.name}: there is neither initial= nor where=")
            reduced: Array = self.optional(operands[0], initial, where, params)
            return reduced
        except Exception as error:
            self.complain(error, args, kwargs)
            raise


def infer_reduction(primitive: Primitive, x: ShapeDtype, **params: Any) -> ShapeDtype:
    """Infers by dropping axes; the dtype comes from the array module."""
    axes = params["axis"]
    if params["keepdims"]:
        shape = [1 if i in axes else length for i, length in enumerate(x.shape)]
    else:
        shape = [length for i, length in enumerate(x.shape) if i not in axes]
    return ShapeDtype(shape, primitive.impl(np.ones((1,) * x.ndim, x.dtype), **params).dtype)


def batch_reduction(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    """Batches by counting every axis one further."""
    return primitive.bind(values, {**params, "axis": tuple(a + 1 for a in params["axis"])})


SELECTION = {
    "out": "None; arrays are immutable.",
    "initial": "with what to begin, where the reduction has a beginning; None for nothing.",
    "where": "a condition that broadcasts to a: which elements to take; None for all.",
}


def reduction(
    name: str,
    vjp: DerivativeRule | None = None,
    *,
    domain: Domain = REAL,
    empty: bool = True,
    prepare: Prepare[P] = None,
    infer: Callable[..., Any] = infer_reduction,
    **declared: Any,
) -> PrimitiveOfArray[P]:
    """Declares a reduction over ``axis`` (None, an integer, a tuple) with ``keepdims``.

    Args:
        name: its name.
        vjp: the rule; None declares that there is no derivative (``any``, ``argmax``).
        domain: where the operand is drawn from in tests.
        empty: whether it is defined over no elements.
        prepare: the signature; None for that of `prepare_reduction`.
        infer: infers the result's shape and dtype.
        declared: what else ``Primitive`` takes; documented as ``elementwise`` is.
    """
    shapes: list[tuple[tuple[int, ...], Any, bool]] = [
        ((), None, False),
        ((4,), 0, False),
        ((2, 3), None, True),
        ((2, 3, 4), (0, 2), False),
        ((2, 3, 4), -2, True),
        ((2, 0, 3), 0, False),
    ]
    if empty:
        shapes.append(((2, 0), 1, False))
    signature: Any = prepare or prepare_reduction
    samples = [
        # Only the operand's shape matters for the parameters.
        Sample(Operand(shape, domain), **signature(shape, axis, keepdims=keepdims)[1])
        for shape, axis, keepdims in shapes
    ]
    doc = _documented(
        declared,
        {"a": "an array.", "axis": "the axis or axes to reduce; all of them by default."}
        | declared.pop("options", {})
        | {"keepdims": "whether the reduced axes stay, with length 1."}
        | (SELECTION if "optional" in declared else {}),
        "An array without the reduced axes.",
        "numpy.exceptions.AxisError: a has no such axis.",
    )
    return of_parameters(
        name,
        kind=Reduction,
        family="reduction",
        doc=doc,
        prepare=signature,
        infer=infer,
        batch=batch_reduction,
        vjp=(vjp,) if vjp else None,
        constant=vjp is None,
        samples=samples,
        **declared,
    )


# -- along axes: the shape stays, and what happens along the axes is the same everywhere


def infer_along(primitive: Primitive, *operands: ShapeDtype, **params: Any) -> ShapeDtype:
    """Infers by broadcasting; the dtype comes from the array module."""
    shape = broadcast_shapes(primitive.name, *(x.shape for x in operands))
    probes = [np.ones((1,) * x.ndim, x.dtype) for x in operands]
    return ShapeDtype(shape, primitive.impl(*probes, **params).dtype)


def along_one_axis(x: ArrayLike, axis: int | None) -> tuple[ArrayLike, int]:
    """Returns an operand and an axis of it; without an axis all elements lie along one."""
    if axis is None:
        return ops.reshape(x, -1), 0
    return x, canonical_axis(axis, len(shape_of(x)))


def batch_along(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    """Batches by counting the axis, or every axis, one further."""
    axis = params["axis"]
    moved = tuple(a + 1 for a in axis) if type(axis) is tuple else axis + 1
    return primitive.bind(aligned_operands(values, flags), {**params, "axis": moved})


def along(
    name: str,
    *vjps: DerivativeRule,
    options: dict[str, str] | None = None,
    returns: str = "An array of x's shape.",
    prepare: Prepare[P] = None,
    **declared: Any,
) -> PrimitiveOfArray[P]:
    """Declares a primitive whose operands have one shape, its result's, and that has an ``axis``.

    Args:
        name: its name.
        vjps: a rule for each operand.
        options: the documentation of each static parameter, by name.
        prepare: the signature; it returns the operands and the static parameters.
        returns: the result's shape and dtype.
        declared: what else ``Primitive`` takes; documented as ``elementwise`` is.
    """
    described = {} if options and "a" in options else {"x": "an array."}
    raises = "numpy.exceptions.AxisError: there is no such axis."
    doc = _documented(declared, described | (options or {}), returns, raises)
    return of_parameters(
        name,
        prepare=prepare,
        family="along",
        infer=infer_along,
        batch=batch_along,
        vjp=vjps,
        broadcasts=True,
        doc=doc,
        **declared,
    )


def called_as(form: Callable[P, Any], primitive: Primitive) -> PrimitiveOfArray[P]:
    """Tells type checkers that a primitive is called with what another function takes."""
    return cast("PrimitiveOfArray[P]", primitive)
