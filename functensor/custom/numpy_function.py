"""Functions that only know plain NumPy arrays, made into ones that every transformation knows.

They share one primitive, whose parameter ``call`` holds the function. Several outputs are packed
into one array, along one axis, and taken apart again where the user sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper, wraps
from typing import Any

import numpy as np

from ..backends.annotations import ArrayModule, Buffer, DType
from ..backends.devices import device_of, on_device, to_host
from ..backends.restoring import quiet
from ..functions.closure import kept_as_it_is
from ..primitives.core.annotations import ArrayLike, Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import (
    MissingRuleError,
    RuleResultError,
    describe,
    function_line,
    function_name,
    message,
)
from ..primitives.core.families import batch_filled
from ..primitives.core.handing_out import sealed
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import (
    ShapeDtype,
    is_number_dtype,
    shape_dtype,
)
from ..primitives.core.test_samples import Sample
from ..primitives.core.trace import at_face
from ..primitives.elementwise.cast_and_complex import cast
from ..traces.forward import zeros_like
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp as pull_of
from ..transforms.vmap import vmap as map_over
from .outputs import Declared, Outputs

__all__ = ["BATCHING", "NumpyCall", "NumpyFunction", "NumpyRule", "Values", "examples"]

BATCHING = (None, "vectorized", "sequential")

# The fixes that messages show for missing rules.
NO_VJP = "numpy_function(f, numpy_vjp=lambda g, ans, *xs: cotangents), or vjp= of any order"
NO_JVP = "numpy_function(f, numpy_jvp=lambda ts, ans, *xs: tangent), or jvp= of any order"
NO_HIGHER = "vjp= or jvp= made of functensor.numpy, which have derivatives themselves"


class NumpyFunction:
    """A function of plain NumPy arrays that transformations know: ``extend.numpy_function``.

    Attributes:
        fun, result, vjp, jvp, vmap, writable: as there; rules that know only NumPy are `NumpyRule`.
        fix: the advice of messages where a rule is missing, if it is not the usual one.
        kind: the name that messages have for such functions.
    """

    kind = "numpy_function"
    kept_functions: tuple[str, ...] = ("fun", "result", "vjp", "jvp")

    def __init__(
        self,
        fun: Callable[..., Any],
        *,
        name: str = "",
        result: Declared | None = None,
        vjp: Any = None,
        jvp: Any = None,
        vmap: str | None = None,
        writable: bool = False,
        fix: str = "",
    ) -> None:
        update_wrapper(self, fun)
        self.__name__ = name or function_name(fun)
        self.fun = fun
        self.result = result
        self.vjp = vjp
        self.jvp = jvp
        self.vmap = vmap
        self.writable = writable
        self.fix = fix

    def __call__(self, *operands: ArrayLike, **static: Any) -> Any:
        arrays = [ops.asarray(x) for x in operands]
        call = NumpyCall.kept(self, static, arrays)
        packed = host_primitive(*arrays, call=call, batch=0)
        outputs = call.outputs(examples(arrays))
        return outputs.shown(outputs.unpack(packed))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.__name__}>"

    def missing(self, what: str, fix: str) -> MissingRuleError:
        """Returns the error for a rule that the function was not given."""
        what = f"{self.kind} {self.__name__!r}, {function_line(self.fun)}, has no {what}"
        return MissingRuleError(message(what, fix=fix, number=8))

    def wrong(self, what: str, fix: str) -> RuleResultError:
        """Returns the error for a function or a rule that returned the wrong thing."""
        what = f"{self.kind} {self.__name__!r} {what}"
        return RuleResultError(message(what, fix=fix, number=9))


class NumpyRule:
    """A rule that only knows plain NumPy arrays; it runs as a `NumpyFunction` without rules.

    It takes cotangents, or tangents where it is a rule of ``forward`` mode, then outputs, then the
    operands in a row. It returns a tuple of cotangents of operands, or of tangents of outputs, with
    None for integers.
    """

    kept_functions = ("fun",)

    def __init__(self, function: NumpyFunction, fun: Callable[..., Any], forward: bool) -> None:
        self.function = function
        self.fun = fun
        self.forward = forward
        self.name = f"{'numpy_jvp' if forward else 'numpy_vjp'} of {function.__name__}"

    def __call__(self, given: Any, answer: Any, *operands: Any, **static: Any) -> Any:
        single = not isinstance(answer, tuple)
        answers = (answer,) if single else answer
        changes = given if self.forward or not single else (given,)
        likes = answers if self.forward else operands
        places = [i for i, x in enumerate(likes) if is_inexact(x)]
        first, second = len(changes), len(changes) + len(answers)

        @wraps(self.fun)
        def plain(*arrays: Array, **static: Any) -> Any:
            changes, answers, operands = arrays[:first], arrays[first:second], arrays[second:]
            change = changes if self.forward or not single else changes[0]
            found = self.fun(change, answers[0] if single else answers, *operands, **static)
            likes = answers if self.forward else operands
            kept = checked_rule_result(self.function, self.name, found, likes)
            return tuple(fitting(kept[i], likes[i]) for i in places)

        result = [ShapeDtype(likes[i].shape, likes[i].dtype) for i in places]
        options: dict[str, Any] = {"vmap": self.function.vmap, "writable": self.function.writable}
        rule = NumpyFunction(plain, name=self.name, result=result, fix=NO_HIGHER, **options)
        found = dict(zip(places, rule(*changes, *answers, *operands, **static), strict=True))
        return tuple(found.get(i) for i in range(len(likes)))


def fitting(change: Any, like: Any) -> Any:
    """Returns a plain cotangent or tangent, None for zero, in the dtype of its array."""
    if change is None:
        return np.zeros_like(like)
    return np.asarray(change if like.dtype.kind == "c" else np.real(change), like.dtype)


def checked_rule_result(
    function: NumpyFunction, rule: str, found: Sequence[Any], likes: Sequence[Any]
) -> Values:
    """Returns a rule's result as a list with an array, or None, for each of some arrays."""
    made = list(found) if isinstance(found, tuple | list) else [found]
    fix = "one array or None for each, in a tuple; each of the shape of what it belongs to"
    if len(made) != len(likes):
        raise function.wrong(f"has a {rule} that returned {len(made)} for {len(likes)}", fix)
    for got, like in zip(made, likes, strict=True):
        if got is not None and shape_of(got) != shape_of(like):
            what = f"has a {rule} that returned shape {shape_of(got)} for {describe(like)}"
            raise function.wrong(what, fix)
    return made


def examples(values: Sequence[Any], batch: int = 0) -> tuple[ShapeDtype, ...]:
    """Returns the types of operands without so many batch axes in front."""
    known = [shape_dtype(x) for x in values]
    return tuple(ShapeDtype(x.shape[batch:], x.dtype) for x in known)


class NumpyCall:
    """One call of such a function: its static arguments, and its outputs once they are known."""

    def __init__(self, function: NumpyFunction, static: dict[str, Any]) -> None:
        self.function = function
        self.static = static
        self.known: dict[tuple[ShapeDtype, ...], Outputs] = {}

    @classmethod
    def kept(
        cls, function: NumpyFunction, static: dict[str, Any], arrays: Sequence[Any]
    ) -> NumpyCall:
        """Returns a call of what the function is now, since programs and rules run it later."""
        kept = kept_as_it_is((function, *static.values()), arrays, workspace=True)
        return cls(kept[0], dict(zip(static, kept[1:], strict=True)))

    def __repr__(self) -> str:
        static = "".join(f", {key}={value!r}" for key, value in self.static.items())
        return f"{self.function.__name__}{static}"

    # -- values

    def outputs(self, operands: tuple[ShapeDtype, ...]) -> Outputs:
        """Returns the outputs' types for operands of one example."""
        if operands not in self.known and not self.declared(operands):
            self.probe(operands)
        return self.known[operands]

    def probe(self, operands: tuple[ShapeDtype, ...]) -> None:
        """Calls the function with numbers about 1, to learn the types of its outputs."""
        rng = np.random.default_rng(0)
        made = [
            np.asarray(rng.random(x.shape) + 0.5 if is_inexact(x) else np.ones(x.shape), x.dtype)
            for x in operands
        ]
        try:
            with quiet():
                self.evaluate(made, 0)
        except Exception as error:
            raise self.function.missing(
                f"shape and dtype of the result: a call with numbers about 1, to find out, failed "
                f"({type(error).__name__}: {error})",
                "numpy_function(f, result=ft.ShapeDtype(shape, dtype)), or a function of operands'",
            ) from error

    def declared(self, operands: tuple[ShapeDtype, ...]) -> bool:
        """Notes the declared types of outputs; says whether there are any."""
        declared = self.function.result
        if callable(declared):
            declared = declared(*operands, **self.static)
        if declared is not None:
            self.known[operands] = Outputs.of(declared)
        return declared is not None

    def evaluate(self, arrays: Sequence[Any], batch: int) -> Values:
        """Calls the function and returns its outputs, each with the batch axes in front."""
        lengths = arrays[0].shape[:batch] if arrays else ()
        writable = self.function.writable
        given = [np.array(a, order="C") if writable else sealed(a) for a in arrays]
        returned = self.function.fun(*given, **self.static)
        single = not isinstance(returned, tuple)
        fix = "return an array of numbers, or a tuple of them"
        # Copies, since the function may write again into an array that it returned.
        try:
            values = [np.array(v) for v in ([returned] if single else returned)]
        except ValueError as error:
            raise self.function.wrong(f"returned what is no array: {error}", fix) from error
        for v in values:
            if not is_number_dtype(v.dtype):
                raise self.function.wrong(f"returned dtype {v.dtype}", fix)
            if v.shape[:batch] != lengths:
                raise self.function.wrong(
                    f"returned shape {v.shape} for a batch of shape {lengths}",
                    "return the batch axes in front, as operands have them, or vmap='sequential'",
                )
        got = Outputs([ShapeDtype(v.shape[batch:], v.dtype) for v in values], single)
        operands = examples(arrays, batch)
        if operands not in self.known and not self.declared(operands):
            self.known[operands] = got
        if got != self.known[operands]:
            fix = "return the shapes and dtypes of result=, the same ones for every example"
            raise self.function.wrong(f"returned {got}, expected {self.known[operands]}", fix)
        return values

    def compute(self, buffers: Sequence[Any], batch: int) -> Any:
        """Returns the packed outputs for operands with so many batch axes in front."""
        arrays = [np.asarray(b) for b in buffers]
        if batch and self.function.vmap == "sequential":
            lengths = arrays[0].shape[:batch]
            rows = [[np.asarray(a[index]) for a in arrays] for index in np.ndindex(lengths)]
            found = [self.evaluate(row, 0) for row in rows]
            known = self.outputs(examples(arrays, batch)).types
            values = [
                np.asarray([outs[i] for outs in found], t.dtype).reshape(lengths + t.shape)
                for i, t in enumerate(known)
            ]
        else:
            values = self.evaluate(arrays, batch)
        outputs = self.known[examples(arrays, batch)]
        return self.packed(np, values, outputs, arrays[0].shape[:batch] if arrays else ())

    def packed(
        self, xp: ArrayModule, values: Sequence[Any], outputs: Outputs, lengths: tuple[int, ...]
    ) -> Any:
        """Returns outputs packed into one array, behind batch axes of given lengths."""
        if outputs.single:
            return values[0]
        dtype = outputs.packed.dtype
        flat = [
            self.packable(v, dtype).reshape(*lengths, t.size)
            for v, t in zip(values, outputs.types, strict=True)
        ]
        return xp.concatenate(flat or [xp.empty((*lengths, 0), dtype)], axis=-1)

    def packable(self, value: Any, dtype: DType) -> Any:
        """Returns an output in the dtype of all, which must not change it."""
        out = value.astype(dtype, copy=False)
        # On a GPU, to compare them would be to wait for it.
        checked = type(value) is np.ndarray and value.dtype.kind in "iu"
        if checked and not np.array_equal(out.astype(value.dtype), value):
            raise self.function.wrong(
                f"returned integers that {dtype}, in which all outputs are packed, cannot hold",
                "return them from a numpy_function of their own",
            )
        return out

    # -- derivatives

    def pull(self, g: Value, xs: Sequence[Any], ans: Value, batch: int) -> Values:
        """Returns the cotangents of the operands, None for those of integers."""
        function = self.function
        outputs = self.outputs(examples(xs, batch))
        places = [i for i, x in enumerate(xs) if is_inexact(x)]

        def rule(gs: Values, answers: Values, operands: Values) -> Values:
            operands = [ops.asarray(x) for x in operands]
            g = outputs.shown(outputs.unpack(gs[0], cotangents=True))
            answer = outputs.shown(outputs.unpack(answers[0]))
            if function.vjp is not None:
                found = function.vjp(g, answer, *operands, **self.static)
            elif function.jvp is None or isinstance(function.jvp, NumpyRule):
                raise function.missing("vjp", function.fix or NO_VJP)
            else:
                found = self.transposed_jvp(gs[0], answer, operands, outputs, places)
            found = checked_rule_result(function, "vjp", found, operands)
            return [zeros_like(operands[i]) if found[i] is None else found[i] for i in places]

        for _ in range(batch):
            rule = map_over(rule)
        found = dict(zip(places, at_face(rule, [g], [ans], xs), strict=True))
        return [found.get(i) for i in range(len(xs))]

    def push(self, ts: Sequence[Any], xs: Sequence[Any], ans: Value, batch: int) -> Any:
        """Returns the tangent of the packed outputs."""
        function = self.function
        outputs = self.outputs(examples(xs, batch))
        places = [i for i, x in enumerate(xs) if is_inexact(x)]

        def rule(tangents: Values, answers: Values, operands: Values) -> Values:
            operands = [ops.asarray(x) for x in operands]
            likes = outputs.unpack(answers[0])
            answer = outputs.shown(likes)
            if function.jvp is not None:
                found = function.jvp(tuple(tangents), answer, *operands, **self.static)
            elif function.vjp is None or isinstance(function.vjp, NumpyRule):
                raise function.missing("jvp", function.fix or NO_JVP)
            else:
                return [self.transposed_vjp(tangents, answers[0], operands, outputs, places)]
            return [outputs.pack(checked_rule_result(function, "jvp", found, likes))]

        for _ in range(batch):
            rule = map_over(rule)
        return at_face(rule, ts, [ans], xs)[0]

    def transposed_jvp(
        self, g: Value, answer: Any, operands: Values, outputs: Outputs, places: Sequence[int]
    ) -> Values:
        """Returns cotangents by the rule of forward mode, which is linear in the tangents."""

        def forward(*tangents: Value) -> Value:
            filled = [zeros_like(x) for x in operands]
            for i, t in zip(places, tangents, strict=True):
                filled[i] = t
            found = self.function.jvp(tuple(filled), answer, *operands, **self.static)
            return outputs.pack(checked_rule_result(self.function, "jvp", found, outputs.unpack(g)))

        _, pull = pull_of(forward, *(zeros_like(operands[i]) for i in places))
        found = dict(zip(places, pull(g), strict=True))
        return [found.get(i) for i in range(len(operands))]

    def transposed_vjp(
        self, ts: Values, ans: Value, operands: Values, outputs: Outputs, places: Sequence[int]
    ) -> Any:
        """Returns the packed tangent by the rule of reverse mode, linear in the cotangents."""
        answer = outputs.shown(outputs.unpack(ans))

        def backward(g: Value) -> Values:
            g = outputs.shown(outputs.unpack(g, cotangents=True))
            found = self.function.vjp(g, answer, *operands, **self.static)
            found = checked_rule_result(self.function, "vjp", found, operands)
            return [
                zeros_like(operands[i]) if found[i] is None else cast(found[i], operands[i].dtype)
                for i in places
            ]

        _, pull = pull_of(backward, zeros_like(ans))
        return pull([ts[i] for i in places])[0]


def _compute_on_host(xp: ArrayModule, *buffers: Buffer, call: NumpyCall, batch: int) -> Any:
    """Calls the function with NumPy's arrays; arrays on a GPU are copied there and back."""
    out = call.compute([to_host(b) for b in buffers], batch)
    device = next((d for d in map(device_of, buffers) if d != "cpu"), "cpu")
    return on_device(out, device)


def _batch_function(
    primitive: Primitive, values: Sequence[Any], flags: Sequence[bool], params: dict[str, Any]
) -> Any:
    function = params["call"].function
    if function.vmap is None:
        raise function.missing(
            "batching rule",
            "numpy_function(f, vmap='vectorized') if f takes batch axes in front, or "
            "vmap='sequential' to call it for every example",
        )
    return batch_filled(primitive, values, flags, {**params, "batch": params["batch"] + 1})


def infer_packed(primitive: Primitive, *xs: ShapeDtype, call: NumpyCall, batch: int) -> ShapeDtype:
    packed = call.outputs(examples(xs, batch)).packed
    lengths = xs[0].shape[:batch] if batch else ()
    return ShapeDtype(lengths + packed.shape, packed.dtype)


def packed_primitive(
    name: str, compute: Callable[..., Any], batch: Callable[..., Any], samples: Any
) -> Primitive:
    """Returns the primitive of calls of one kind; its samples compute ``sin(x) * y``."""
    return Primitive(
        name,
        compute=compute,
        infer=infer_packed,
        batch=batch,
        pullback=lambda g, xs, ans, *, call, batch: call.pull(g, xs, ans, batch),
        pushforward=lambda ts, xs, ans, *, call, batch: call.push(ts, xs, ans, batch),
        reference=lambda x, y, call, batch: np.sin(x) * y,
        samples=samples,
    )


def _sample(vmap: str, shape: tuple[int, ...]) -> Sample:
    function = NumpyFunction(
        lambda x, y: np.sin(x) * y,
        vjp=lambda g, ans, x, y: (g * ops.cos(x) * y, g * ops.sin(x)),
        vmap=vmap,
    )
    return Sample(shape, shape, call=NumpyCall(function, {}), batch=0)


host_primitive = packed_primitive(
    "numpy_function",
    _compute_on_host,
    _batch_function,
    [_sample("vectorized", (2, 3)), _sample("sequential", (0, 3)), _sample("sequential", (2,))],
)
