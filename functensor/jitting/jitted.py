"""``jit``: a function is staged once for every kind of arguments, and then runs as a plan."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial, update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from ..backends.config import config
from ..backends.errors.public_functions import check_function, complain, wrap_methods
from ..functions.type_variables import P, R
from ..functions.wrapping import pickled
from ..primitives.core.annotations import Values
from ..primitives.core.array import Array, Tracer
from ..primitives.core.errors import function_name
from ..primitives.core.python_numbers import as_number
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import (
    as_written,
    base_trace,
    below_hooks,
    note_replaced,
    slot,
    under,
)
from ..primitives.gradient_buckets import let_go_of_thread
from ..programs.closed_over import hoisted
from ..programs.costs import Cost
from ..programs.named_scope import scoped
from ..programs.program import Program
from ..programs.side_effects import Look, check_leaks, check_same
from ..programs.staging import StagingTrace, staged_inputs, staged_run
from ..transforms.taken_gradients import taken_gradients
from ..transforms.tensor_entrance import entrance
from ..tree import containers as tree
from .calls_under_hooks import CallsUnderHooks
from .compile import Lowered
from .guard import UNLIKE
from .leaf_kind import leaf_kind
from .living import jitted_functions
from .program_call import ProgramCall
from .retraces import History
from .signature import Signature, context_of, named_axes
from .staged_entry import StagedEntry, strong_result
from .switch import disable_jit, switch

if TYPE_CHECKING:
    from ..primitives.core.annotations import AnyFunction

__all__ = ["Jitted", "disable_jit", "jit"]

# A function keeps plans for so many kinds of arguments.
MOST_KEPT_PLANS = 256


class Jitted(CallsUnderHooks, Generic[P, R]):
    """A function that is staged and planned; see `jit`.

    Calls, methods and pickles as the function itself does.
    """

    __wrapped__: Callable[P, R]

    def __init__(self, fun: Callable[P, R], options: dict[str, Any]) -> None:
        # This comes first, since it copies the attributes of a function that is jitted itself.
        update_wrapper(self, fun)
        self._fun = fun
        self._options = options
        self._signature = Signature(fun, **options)
        self._entries: OrderedDict[Any, StagedEntry] = OrderedDict()
        self._history = History(fun)
        self._last: StagedEntry | None = None
        self._hooks: dict[Any, None] = {}
        self._lock = threading.RLock()
        jitted_functions.add(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            entry = self._last
            if (
                entry is not None
                and entry.guard is not None
                and slot.trace is None
                and not switch.off
                and entry.context == context_of()
            ):
                result: R = entry.guard(args, kwargs)
                if result is not UNLIKE:
                    return result
            result = self._called(args, kwargs)
            return result
        except BaseException as error:
            let_go_of_thread()
            if isinstance(error, Exception):
                complain(error, self._fun, f"jit({function_name(self._fun)})", args, kwargs)
            raise

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = slot.trace
        if switch.off:
            return self._as_written(args, kwargs)
        if trace is not None and trace.interceptor:
            return self._hooked(args, kwargs)
        entry, leaves = self._entry(args, kwargs)
        if any(type(leaf) is ShapeDtype for leaf in leaves):
            raise TypeError(
                f"jit of {function_name(self._fun)} was called with a ShapeDtype, which has no "
                "values: f.lower takes one"
            )
        return self._ran(entry, leaves)

    def _ran(self, entry: StagedEntry, leaves: Values) -> Any:
        """Runs a staged program at the level of the slot."""
        if slot.trace is None and not any(isinstance(leaf, Tracer) for leaf in leaves):
            outs = entry.compiled(leaves)
            return entry.outputs(leaves, outs)
        if entry.program.replaced:
            note_replaced()
        outs = ProgramCall(entry.program).bind([*leaves, *entry.captured])
        return entry.program.out_tree.unflatten(outs)

    def _as_written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the function operation by operation."""
        args, kwargs = self._signature.mapped(as_number, args, kwargs)
        out = as_written(self._fun)(*args, **kwargs)
        with below_hooks():
            return out if type(out) is Array else tree.map(strong_result, out)

    def _entry(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], hooks: tuple[Any, ...] = ()
    ) -> tuple[StagedEntry, Values]:
        """Returns the entry for a call's kind of arguments, and the leaves of these.

        ``hooks`` has the keys of the hooks that the program calls, with the scope they are told of,
        and whether its results are needed.
        """
        signature = self._signature
        dynamic, static = signature.split(args, kwargs)
        leaves, treedef = tree.flatten(dynamic)
        context = context_of()
        kinds = tuple([leaf_kind(leaf) for leaf in leaves])
        # Augmented assignment, for one, means something else for tensors.
        classes = entrance.classes
        tensors = slot.face is not None or any(isinstance(leaf, classes) for leaf in leaves)
        face = "tensors" if tensors else "arrays"
        key = treedef, kinds, static, context, named_axes(), face, hooks
        entry = known = self._entries.get(key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(key)
                if entry is None:
                    entry = self._staged(dynamic, static, key)
        elif entry is not self._last:
            self._used(key)
        if slot.trace is None and not entry.captured:
            types = {*map(type, leaves)}
            if ShapeDtype not in types:
                again, self._last = entry is self._last, entry
                tracers = {kind for kind in types if issubclass(kind, Tracer)}
                traced = not all(map(entrance.stands, tracers))
                # The first call may be the only one, and makes no guard.
                if known is not None and not traced and entry.wants_guard(again):
                    entry.guarded(args, kwargs, signature.static_places(len(args)))
        return entry, leaves

    def entry_of(self, *args: Any, **kwargs: Any) -> StagedEntry | None:
        """Returns the entry of a call, which others may serve too; None where none is kept."""
        entry, _ = self._entry(args, kwargs)
        return None if entry.captured else entry

    def _used(self, key: Hashable) -> None:
        """Notes that a plan is used, so that others are dropped before it."""
        with suppress(KeyError):  # another thread dropped it
            self._entries.move_to_end(key)

    def _staged(self, dynamic: Any, static: Any, key: Any) -> StagedEntry:
        """Stages the function for a new kind of arguments."""
        number = self._history.record(key, dynamic)
        try:
            admitted = key[5] == "tensors"
            stage = partial(entrance.admitting, self._program) if admitted else self._program
            program, captured, gradient = stage(dynamic, static, key[6] and key[6][0])
            donated = self._signature.donated(dynamic)
            if key[6] and not key[6][1]:
                # The results are those of another run, as without hooks.
                program, donated = program.with_equations(program.equations, ()), ()
            entry = StagedEntry(program, captured, donated, key[3])
            entry.gradient = gradient
        except BaseException as error:
            self._history.forget(number, key, f"it raised {type(error).__name__}")
            raise
        if entry.compiled.run is None:
            self._history.remark(number, "on several devices, it is run operation by operation")
        if not captured:
            self._entries[key] = entry
            while len(self._entries) > MOST_KEPT_PLANS:
                old, dropped = self._entries.popitem(last=False)
                self._history.drop(old, f"to make room for others: {MOST_KEPT_PLANS} are kept")
                if dropped is self._last:
                    self._last = None
        else:
            words = "it closes over traced values, so that it serves for this call only"
            self._history.forget(number, key, words, captured=True)
        return entry

    def _program(
        self, dynamic: Any, static: Any, hooks: tuple[Any, ...] = ()
    ) -> tuple[Program, Values, Any]:
        """Returns the program, traced values that it closes over, and an output of `grad`'s."""
        fun = self._signature.filled(self._fun, static)
        trace = StagingTrace(base_trace(), "jit", fun)
        trace.runs_again = bool(hooks)
        inputs, in_tree = staged_inputs(trace, dynamic)
        if taken_gradients.watched:
            for at, of, gradient in taken_gradients.among(tree.leaves(dynamic)):
                trace.given[inputs[of].variable] = inputs[at].variable, gradient
        look = Look(fun)
        with look.taken():
            with scoped(hooks[-1] if hooks else ""):
                out = staged_run(trace, in_tree.unflatten(inputs), bool(hooks))
            look.report(trace.equations)
        outputs, out_tree = tree.flatten(out)
        self._signature.check_outputs(out)
        with under(trace):
            outputs = list(map(strong_result, outputs))
        program, captured = hoisted(trace.program(inputs, outputs, in_tree, out_tree))
        if config.check_tracer_leaks:
            del out, outputs, inputs
            check_leaks(fun, trace)
            with config.using(check_tracer_leaks=False):
                check_same(fun, program, self._program(dynamic, static, hooks)[0])
        return program, captured, trace.gradient_among(program.inputs, program.outputs)

    # -- programs, reasons and costs, to look at

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Returns the programs and code of a call with these arguments, without running them.

        Args:
            args, kwargs: arguments of the function: arrays, or ``ShapeDtype`` in their place.

        Returns:
            An object with the staged ``program``, the ``optimized`` one, the ``source`` of its plan
            and its ``cost()``.

        >>> import functensor as ft, functensor.numpy as np
        >>> ft.jit(lambda x: np.sin(x) * 2).lower(np.ones(3)).program
        <lambda>(a: float64[3]):
            b: float64[3] = sin(a)
            c: float64[3] = multiply(b, 2)
            return c
        """
        entry, _ = self._entry(args, kwargs)
        return Lowered(entry.program, entry.compiled)

    def compile(self, *args: Any, **kwargs: Any) -> Self:
        """Compiles the function for arguments like these, and waits for it; nothing is computed.

        Without it the first calls run over NumPy, and machine code takes over when it is ready, if
        it is quicker. Machine code reads arrays where they lie, if they lie in memory in the order
        of those that are given here.

        Args:
            args, kwargs: arguments of the function: arrays, or ``ShapeDtype`` in their place, for
                arrays in C order.

        Returns:
            The function itself.

        >>> import functensor as ft, functensor.numpy as np
        >>> f = ft.jit(lambda x: np.sum(x * x))
        >>> print(f.compile(ft.ShapeDtype((3,), "float64"))(np.ones(3)))
        3.0
        """
        entry, leaves = self._entry(args, kwargs)
        entry.compiled.compile(() if entry.captured else leaves)
        return self

    def explain(self) -> str:
        """Returns how often the function was staged, why each time, and how the last kind runs.

        >>> import functensor as ft, functensor.numpy as np
        >>> double = ft.jit(lambda x: 2 * x)
        >>> _ = double(np.ones(3)), double(np.ones(4))
        >>> print(double.explain().split(": ")[-1])
        argument 0 was float64[3], and is float64[4]
        """
        how = [] if self._last is None else self._last.compiled.how_it_runs()
        return "\n".join([str(self._history), *how])

    def cost(self) -> Cost:
        """Returns the operations, bytes and peak memory of the program that the last call ran.

        The program is the one after all passes, for the kind of arguments of the last call that was
        under no transformation; where there was none, for the kind that was used last.
        ``f.lower(*args).cost()`` is the cost for given arguments.

        Raises:
            RuntimeError: the function was not called yet.
        """
        entry = next(reversed(self._entries.values()), None) if self._last is None else self._last
        if entry is None:
            raise RuntimeError(
                f"jit of {function_name(self._fun)} was not called yet: call it, or use "
                "f.lower(*args).cost()"
            )
        return Lowered(entry.program, entry.compiled).cost()

    def assert_no_retrace(self) -> AbstractContextManager[None]:
        """Makes it an error that the function is staged, within a ``with`` block.

        Raises:
            RetraceError: it was; the message names the argument that is not as before.

        >>> import functensor as ft, functensor.numpy as np
        >>> double = ft.jit(lambda x: 2 * x)
        >>> _ = double(np.ones(3))
        >>> with double.assert_no_retrace():
        ...     double(np.zeros(3))
        Array([0., 0., 0.], dtype=float64, device='cpu')
        """
        return self._history.refusing()

    def clear_cache(self) -> None:
        """Forgets all staged programs."""
        with self._lock:
            while self._entries:
                key, _ = self._entries.popitem()
                self._history.drop(key, "by clear_cache()")
            self._last = None

    @property
    def cache_size(self) -> int:
        """The number of kinds of arguments that have a plan."""
        return len(self._entries)

    # -- a function like others

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return pickled(self, (jit, (self._fun,), self._options))

    def __copy__(self) -> Jitted[P, R]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Jitted[P, R]:
        return self

    def __repr__(self) -> str:
        return f"<jit of {function_name(self._fun)}>"


METHODS = "lower", "compile", "explain", "cost", "assert_no_retrace", "clear_cache"
wrap_methods(Jitted, "jit(f)", METHODS)

Numbers = int | Iterable[int] | None
Names = str | Iterable[str] | None


@overload
def jit(
    fun: AnyFunction, *, static_argnums: Numbers = ..., static_argnames: Names = ...,
    donate_argnums: Numbers = ..., donate_argnames: Names = ...,
) -> Jitted[..., Any]: ...  # fmt: skip


@overload
def jit(
    fun: Callable[P, R], *, static_argnums: Numbers = ..., static_argnames: Names = ...,
    donate_argnums: Numbers = ..., donate_argnames: Names = ...,
) -> Jitted[P, R]: ...  # fmt: skip


@overload
def jit(
    fun: None = None, *, static_argnums: Numbers = ..., static_argnames: Names = ...,
    donate_argnums: Numbers = ..., donate_argnames: Names = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...  # fmt: skip


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
) -> Any:
    """Returns a function that is staged once for every kind of arguments, and runs as a plan.

    The first call with arguments of a new structure, new shapes or dtypes runs ``fun`` on their
    types alone. Its operations become a program, which is optimized and made into straight-line
    code. So ``fun`` must be pure: it prints and appends once, and values that it reads beside its
    arguments are constants from then on. Python's numbers among the arguments are traced and stay
    weak: another value is no reason to stage again. Under ``grad``, ``vmap`` and their kin a jitted
    function stays one. Its plan calls the hooks that see its operations. On a GPU its elementwise
    work becomes kernels, and its launches one CUDA graph.

    Args:
        fun: takes and returns trees of arrays; without it, ``jit`` returns a decorator.
        static_argnums, static_argnames: positions and names of arguments that are constants of the
            program, and are hashable: another value is staged again. Objects among them must not
            be changed in place: a changed one may count as what it was at an earlier call.
        donate_argnums, donate_argnames: arguments that the caller will not use again: results of
            their shapes and dtypes are written into their memory.

    Returns:
        A function of the same arguments, with the methods ``lower``, ``compile``, ``explain``,
        ``cost``, ``assert_no_retrace`` and ``clear_cache``.

    Raises:
        ConcretizationError: ``fun`` asks for the value of a traced array.
        StaticArgumentError: a static argument cannot be hashed.
        DonatedArrayError: an array is used after it was donated.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.jit
    ... def loss(w, x):
    ...     return np.sum(np.tanh(x @ w) ** 2)
    >>> ft.grad(loss)(np.zeros(2), np.ones((3, 2)))
    Array([0., 0.], dtype=float64, device='cpu')
    """
    options: dict[str, Any] = {
        "static_argnums": static_argnums, "static_argnames": static_argnames,
        "donate_argnums": donate_argnums, "donate_argnames": donate_argnames,
    }  # fmt: skip
    if fun is None:
        return partial(jit, **options)
    check_function("jit", fun)
    return Jitted(fun, options)
