"""Primitives: operations with all their rules, which hand themselves to the running trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from types import FrameType, FunctionType, GenericAlias
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ...backends.annotations import Buffer
from ...backends.errors.public_functions import complain
from ...backends.frames import calling_module, frame_at, module_of
from ...backends.messages import MISSING
from .annotations import ArrayLike
from .array import Array, Tracer
from .buffers import (
    BUFFER_TYPES,
    SEQUENCES,
    TracedListError,
    holds_array,
    to_buffer,
    unshared,
)
from .derivative_rules import (
    DeclaredRules,
    Keepers,
    checked_rules,
    compile_rule,
    compile_rules,
    keeper,
    letters_of_rules,
)
from .dispatch import dispatching
from .errors import DeviceError, TracerConversionError, missing_rule
from .plain_arrays import plain_arrays
from .primitive_like import PrimitiveLike
from .registry import OLD_NAMES, operand, registry
from .shape_dtype import number_dtype
from .trace import RAW, Trace, explained, slot
from .ufunc_facts import BinaryMethods, Ufunc
from .ufunc_options import (
    binary_arguments,
    call_with_options,
    joined_after_error,
    unary_arguments,
    with_lists_joined,
)

if TYPE_CHECKING:
    from inspect import Signature
    from typing import Concatenate, Self

    from .annotations import FunctionOfArray, FunctionOfArrays, P, Prepare

__all__ = [
    "Application", "Binary", "Primitive", "Unary", "evaluate", "of_operands", "of_parameters",
]  # fmt: skip

# The kinds of dtypes that are numbers.
NUMBER_KINDS = "fiubc"
ndarray = np.ndarray
NO_OPERAND = slice(0, 0)
# The primitives of one operand that return it, or a part of its memory.
RETURN_OPERAND = frozenset({"conj", "imag", "real", "stop_gradient"})


# A primitive with its operands and its parameters.
Application: TypeAlias = tuple["Primitive", list[Any], dict[str, Any]]


def any_operands(*operands: ArrayLike) -> None:
    """Stands for the signature of a primitive that declares none."""


def evaluate(primitive: Primitive, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
    """Computes a primitive at the public face: buffers are unwrapped and the result wrapped."""
    buffers: list[Any] = []
    given: list[Buffer] = []
    for a in args:
        if type(a) is Array:
            buffers.append(a._data)
        elif type(a) in BUFFER_TYPES:
            if type(a) is ndarray:
                if a.dtype.kind not in NUMBER_KINDS:
                    number_dtype(a.dtype)
                given.append(a)
            buffers.append(a)
        elif isinstance(a, Tracer):
            trace: Trace = a.owner
            if not trace.standing:
                value = trace.leave(a)
                if value is a:
                    return a
                buffers.append(value)
                continue
            try:
                return trace.process(primitive, args, params)
            except (TracerConversionError, DeviceError) as error:
                return trace.process(primitive, joined_after_error(args, error), params)
        elif isinstance(a, SEQUENCES) and holds_array(a, Tracer):
            return evaluate(primitive, with_lists_joined(args), params)
        else:
            buffers.append(to_buffer(a))
            given.append(buffers[-1])
    out = Array()
    try:
        out._data = RAW.process(primitive, buffers, params)
    except DeviceError as error:
        return evaluate(primitive, joined_after_error(args, error), params)
    if given and type(out._data) is ndarray:
        out._data = unshared(out._data, plain_arrays(given))
    return out


def _with_name(function: Callable[..., Any] | None, name: str) -> Callable[..., Any] | None:
    """Returns a function that errors about its arguments call by another name."""
    if type(function) is not FunctionType:
        return function
    out = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    out.__qualname__ = name
    out.__kwdefaults__, out.__annotations__ = function.__kwdefaults__, function.__annotations__
    return out


def _unruled(name: str, mode: str) -> Callable[..., Any]:
    """Returns what stands in for a rule that was not declared: it raises ``MissingRuleError``."""

    def rule(*args: Any, **params: Any) -> Any:
        raise missing_rule(name, mode, 0)

    return rule


def running_module() -> str:
    """Returns the name of the module that runs or, in a thread, calls: it declares a primitive."""
    frame: FrameType | None = frame_at(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return calling_module() if frame is None else module_of(frame) or "__main__"


def unpickled(module: str, name: str) -> Primitive:
    """Returns a primitive by its name; its module may not have been imported in this process."""
    name = OLD_NAMES.get(name, name)
    if name not in registry:
        import_module(module)
    primitive: Primitive = registry[name]
    return primitive


class Primitive(PrimitiveLike):
    """One operation with all its rules, called like NumPy's function of the same name.

    Arrays are positional, static parameters go by keyword. Families (``families.py``) build
    primitives; each declaration enters the registry, and with it every test.

    Attributes:
        name: the name, unique in the registry.
        compute: the array module's function by name, or ``compute(xp, *buffers, **params)``.
        impl: computes the operation on raw buffers of any backend that is loaded.
        ahead: the same, for reverse mode: returns the output, and what rules get in its place,
            on which a backend may have hung what it did for the derivative at the same time;
            None where no backend does.
        prepare: the public signature; turns a call's arguments into ``(operands, params)``.
        infer: ``infer(primitive, *operands, **params)`` of ``ShapeDtype``: the result's, without
            computing; raises ``ShapeError`` where shapes do not fit.
        batch: ``batch(primitive, values, flags, params)``; batch axes lead.
        vjps, pullback: rules of reverse mode, one for each operand, or one for all together.
        jvps, pushforward: the same for forward mode.
        keep: ``keep(ans, operands)``: what is saved for the rules, where their letters do not tell.
        constant: True where the derivative is zero or does not exist: outputs carry none.
        broadcasts: True where a cotangent is summed down to a broadcast operand's shape.
        linear: True where it is linear in each operand, so that it is its own jvp.
        family: the name of the family that built it, for tests that draw their own shapes.
        reference: NumPy's or SciPy's function to compare with, or its dotted name.
        samples: what the registry-driven tests call it with, or a function that makes it.
        dtypes: the dtypes, of ``fdD``, for which it is tested and its derivatives hold.
        movable: the operands, indices or keys, that may be on the host beside others on a GPU.
        creates: True where the result is made on the default device, whatever its operands.
        hosted: True where movable operands are not moved: kernels look at them on the host first.
        module: the name of the module that declares it.
        arity: how many operands it has if it has no parameters; 0 where it may have.
        whole: the primitive whose last step it is, which has no first operand; None elsewhere.
    """

    compute: str | Callable[..., Any]
    impl: Callable[..., Any]
    infer: Callable[..., Any]
    arity = 0
    whole: Primitive | None = None
    # Signatures at run time name a primitive with its parameters.
    __class_getitem__: Any = classmethod(GenericAlias)
    # The name by which users call it, with its module, once that has been imported.
    public = ""
    # The work of a collective over a named axis; `Collective` says more.
    along: Callable[..., tuple[Any, bool]] | None = None
    # The last of its steps, with parameters; `PrimitiveInSteps` says more.
    last: Any = None
    # The signature by which a call is checked, where `prepare` does not say it.
    form: Callable[..., Any] = staticmethod(any_operands)

    def __init__(
        self,
        name: str,
        *,
        compute: str | Callable[..., Any] | None = None,
        prepare: Callable[..., Any] | None = None,
        infer: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        vjp: DeclaredRules = None,
        jvp: DeclaredRules = None,
        pullback: Callable[..., Any] | None = None,
        pushforward: Callable[..., Any] | None = None,
        keep: Callable[[Any, Any], tuple[Any, ...]] | None = None,
        constant: bool = False,
        broadcasts: bool = False,
        linear: bool = False,
        family: str = "",
        reference: str | Callable[..., Any] | None = None,
        samples: Sequence[Any] | Callable[[], Sequence[Any]] = (),
        dtypes: str = "fd",
        movable: slice = NO_OPERAND,
        creates: bool = False,
        hosted: bool = False,
        doc: str | None = None,
    ) -> None:
        self.name = self.__name__ = name
        self.compute = compute or name
        self.movable = movable
        self.creates = creates
        self.hosted = hosted or creates
        self.ahead: Callable[..., tuple[Any, Any]] | None = None
        self.impl = dispatching(self)
        self.prepare = _with_name(prepare, name)
        self.infer = infer or _unruled(name, "infer")
        self.batch = batch or _unruled(name, "batch")
        self.vjp = checked_rules(vjp)
        self.jvp = checked_rules(jvp)
        self.pullback = pullback and compile_rule(pullback, 0)
        self.pushforward = pushforward and compile_rule(pushforward, 0)
        self.constant = constant
        self.broadcasts = broadcasts
        self.linear = linear
        self.family = family
        self.reference = reference
        self._samples = samples
        self.dtypes = dtypes
        self.__doc__ = doc
        if keep is None and pullback is not None:
            keep = keeper(letters_of_rules(pullback, (0,)))
        self.keepers = Keepers(self, keep)
        self.module = running_module()
        registry.add_primitive(self)

    @cached_property
    def vjps(self) -> Any:
        """The rules of reverse mode as calls, compiled once they are asked for."""
        return compile_rules(self.vjp)

    @cached_property
    def jvps(self) -> Any:
        """The rules of forward mode as calls, compiled once they are asked for."""
        return compile_rules(self.jvp)

    @cached_property
    def samples(self) -> Sequence[Any]:
        """The operands with which the registry-driven tests call it."""
        return self._samples() if callable(self._samples) else self._samples

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        operands: Any = args
        params = kwargs
        try:
            if self.prepare is not None:
                if not args:
                    operands, params = self.by_place(kwargs)
                elif isinstance(args[0], SEQUENCES):
                    operands = (*with_lists_joined(args)[:1], *args[1:])
                operands, params = self.prepare(*operands, **params)
            trace = slot.trace
            if trace is None:
                return evaluate(self, operands, params)
            try:
                return trace.process(self, operands, params)
            except (TracedListError, DeviceError) as error:
                return trace.process(self, joined_after_error(operands, error), params)
        except Exception as error:
            self.complain(error, args, kwargs)
            raise

    def complain(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Says in an exception that leaves the primitive what was wrong, and where."""
        complain(error, self.prepare or self.form, self.public or self.name, args, kwargs)

    @property
    def namespace(self) -> str:
        """The place where users find it, as messages write that."""
        return self.public.rpartition(".")[0].replace("functensor.numpy", "np") or "np"

    def by_place(self, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns a call's arguments with the operand, if it was named, in the first place."""
        code = getattr(self.prepare, "__code__", None)
        name = code.co_varnames[0] if code is not None else ""
        rest = dict(kwargs)
        first = (operand(rest.pop(name)),) if name in rest else ()
        return first, rest

    def bind(self, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Applies the primitive to operands and parameters that are prepared already."""
        trace = slot.trace
        if trace is None:
            return evaluate(self, args, params)
        return self.under(trace, args, params)

    def under(self, trace: Trace, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Hands the primitive to a trace in the form that its class has."""
        return trace.process(self, args, params)

    def evaluated(self, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Computes the primitive at the public face, where traces stand open at the most."""
        return evaluate(self, args, params)

    def differentiated(self, args: Sequence[Any], params: dict[str, Any]) -> Application:
        """Returns the primitive of which there are derivatives: this one, or its last step."""
        return self, list(args), params

    def leaves(self, primitive: Any) -> bool:
        """Says whether a node is this primitive's, by the primitive that stands on it."""
        return primitive is self

    @property
    def __signature__(self) -> Signature:
        """The public signature, for ``help`` and ``inspect``."""
        import inspect  # costs milliseconds

        # `prepare` returns operands and parameters, which are no result.
        known = inspect.signature(self.prepare or self.form).replace(return_annotation="Array")
        if self.prepare is not None or not self.arity:
            return known
        from .ufunc_signature import UfuncSignature  # of `inspect`

        return UfuncSignature([*known.parameters.values()], return_annotation="Array")

    def __get__(self, instance: object | None, owner: type | None = None) -> Self:
        """Stays itself in a class; what has this method is a routine to ``help`` and Sphinx."""
        return self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (self.module, self.name)


class Unary(Ufunc, Primitive):
    """A primitive of one operand without parameters: the short way through the hot path.

    Attributes:
        passes: whether its result may be the operand itself, or share memory with it.
    """

    arity = 1

    @cached_property
    def passes(self) -> bool:
        """True for listed primitives of the library, and for all that are not of it."""
        library = __name__.partition(".core.")[0] + "."
        return self.name in RETURN_OPERAND or not self.module.startswith(library)

    def __call__(self, x: ArrayLike = MISSING, /, *rest: Any, **options: Any) -> Array:
        try:
            if rest or options:
                return call_with_options(self, *unary_arguments(x, *rest, **options))
            trace = slot.trace
            if trace is not None:
                try:
                    return trace.process1(self, x)
                except TracedListError:
                    return trace.process1(self, *with_lists_joined((x,)))
            a: ArrayLike
            if type(x) is Array:
                a = x._data
            elif type(x) is ndarray:
                if self.passes or x.dtype.kind not in NUMBER_KINDS:
                    return evaluate(self, (x,), {})
                a = x
            elif type(x) in BUFFER_TYPES:
                a = x
            else:
                return evaluate(self, (x,), {})
            out = Array()
            out._data = self.impl(a)
            return out
        except Exception as error:
            self.complain(error, (x, *rest), options)
            raise

    form = staticmethod(unary_arguments)

    def under(self, trace: Trace, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Hands the primitive to a trace in the form that its class has."""
        return trace.process1(self, args[0])


class Binary(BinaryMethods, Primitive):
    """A primitive of two operands without parameters: the short way through the hot path.

    It has those methods of NumPy's ufuncs that have a meaning for it.
    """

    arity = 2

    def under(self, trace: Trace, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Hands the primitive to a trace in the form that its class has."""
        return trace.process2(self, args[0], args[1])

    def __call__(
        self, x: ArrayLike = MISSING, y: ArrayLike = MISSING, /, *rest: Any, **options: Any
    ) -> Array:
        try:
            if rest or options:
                return call_with_options(self, *binary_arguments(x, y, *rest, **options))
            return self.applied(x, y)
        except Exception as error:
            self.complain(error, (x, y, *rest), options)
            raise

    def applied(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Does as a call without options; what calls this method saves that of an instance."""
        trace = slot.trace
        if trace is not None:
            try:
                return trace.process2(self, x, y)
            except (TracedListError, DeviceError) as error:
                return trace.process2(self, *joined_after_error((x, y), error))
        a: ArrayLike
        b: ArrayLike
        if type(x) is Array:
            a = x._data
        elif type(x) in BUFFER_TYPES and (type(x) is not ndarray or x.dtype.kind in NUMBER_KINDS):
            a = x
        else:
            return evaluate(self, (x, y), {})
        if type(y) is Array:
            b = y._data
        elif type(y) in BUFFER_TYPES and (type(y) is not ndarray or y.dtype.kind in NUMBER_KINDS):
            b = y
        else:
            return evaluate(self, (x, y), {})
        out = Array()
        try:
            out._data = self.impl(a, b)
        except ValueError as error:
            raise explained(self, (a, b), {}, error) from error
        return out

    form = staticmethod(binary_arguments)


if TYPE_CHECKING:

    class PrimitiveOfArray(FunctionOfArray[P], Primitive):
        """A primitive that is called with what its `prepare` takes."""

    class PrimitiveOfArrays(FunctionOfArrays[P], Primitive):
        """The same of a primitive that may have two operands."""

    # A primitive whose signature no type checker knows.
    AnyPrimitive: TypeAlias = PrimitiveOfArray[Concatenate[Any, ...]]

    class UnaryPrimitive(PrimitiveOfArray[Concatenate[ArrayLike, ...]], Ufunc):
        """A ``Unary``."""

    class BinaryPrimitive(
        PrimitiveOfArrays[Concatenate[ArrayLike, ArrayLike, ...]], BinaryMethods
    ):
        """A ``Binary``."""
else:
    # At run time, signatures are read with these.
    PrimitiveOfArray = Primitive
    UnaryPrimitive, BinaryPrimitive = Unary, Binary


def of_parameters(
    name: str, *, kind: type[Primitive] = Primitive, prepare: Prepare[P], **declared: Any
) -> PrimitiveOfArray[P]:
    """Declares a primitive of no family, which type checkers know by the signature of `prepare`."""
    return cast("PrimitiveOfArray[P]", kind(name, prepare=prepare, **declared))


def of_operands(
    name: str, *, kind: type[Primitive] = Primitive, **declared: Any
) -> PrimitiveOfArrays[Concatenate[Any, Any, ...]]:
    """Declares a primitive of no family that has two operands or more."""
    return cast("PrimitiveOfArrays[Concatenate[Any, Any, ...]]", kind(name, **declared))
