"""Large primitives outside of plans, computed by the machine code that plans have for them.

A primitive of operands of some shapes and dtypes is a kind. Once calls of a kind have taken a while
over NumPy, a plan of that one primitive is made in the background, for which nobody waits. The
quicker way stays. Results of both differ by rounding alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import config
from ..plan_makers import PLAN_MAKERS

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["PLANNED", "by_plans"]

# The primitives whose kernels go over their operands many times.
PLANNED = frozenset(
    {
        "affine_normalize", "affine_normalize_grad", "attention", "attention_grad",
        "cross_entropy", "cross_entropy_grad", "gelu", "gelu_grad", "gelu_unit_grad",
        "log_softmax", "logistic", "logistic_density", "logistic_loss", "normalize",
        "normalize_grad", "sigmoid_biased", "sigmoid_grad", "silu", "silu_grad", "softmax",
        "softmax_grad", "softplus", "softplus_biased", "softplus_grad", "tanh_biased",
        "tanh_grad", "var",
    }
)  # fmt: skip
# Those whose kernels return memory in C order, however their operands lie.
IN_C_ORDER = frozenset(
    {
        "affine_normalize", "affine_normalize_grad", "attention", "attention_grad",
        "cross_entropy", "cross_entropy_grad", "gelu", "gelu_grad", "gelu_unit_grad", "logistic",
        "normalize", "normalize_grad", "silu", "softplus",
    }
)  # fmt: skip
# Smaller operands take less time than it takes to find their plan and to wake a thread.
FEWEST_ELEMENTS = 1 << 15
# Calls of a kind take so long over NumPy, in seconds, before machine code is compiled, and are so
# many. Compiling takes a tenth of a second of another thread, and a tenth of that from the disk.
SECONDS_BEFORE_COMPILING, CALLS_BEFORE_COMPILING = 0.03, 4
# The calls of each way whose shortest times are compared.
COMPARED_CALLS = 8
# So many kinds are known at once.
MOST_KINDS = 256
FLOATS, WHOLE_NUMBERS = "fd", "iub"
# What NumPy does where numbers overflow that plans may leave out.
LEFT_OUT_BY_PLANS = frozenset({"ignore", "warn"})


class _Inside(threading.local):
    """Whether a thread computes a primitive of a kind now, whose plan may call NumPy for it."""

    a_kind = False


inside = _Inside()


class Kind:
    """Computes a primitive of operands of some shapes and dtypes, by the quicker of two ways.

    Once the plan is there, both ways take turns for some calls, whose shortest times are compared.

    Attributes:
        plan: what computes it as machine code, once that is there.
        settled: whether it is decided which way stays.
        job: the work that makes the plan; None before.
    """

    __slots__ = ("__weakref__", "_calls", "_spent", "_times", "_told", "job", "plan", "settled")

    def __init__(self, name: str, operands: Sequence[Buffer], params: Mapping[str, Any]) -> None:
        self._told = name, [(x.shape, x.dtype) for x in operands], dict(params)
        self._calls, self._spent = 0, 0.0
        # The times of calls over NumPy, and of those of the plan, which take turns.
        self._times: tuple[list[float], list[float]] = [], []
        self.plan: Callable[[Sequence[Buffer]], Any] | None = None
        self.settled = False
        self.job: Any = None

    def __repr__(self) -> str:
        return f"<{self._told[0]} {'as machine code' if self.plan else 'over NumPy'}>"

    def __call__(
        self, kernel: Callable[..., Any], operands: Sequence[Buffer], params: Mapping[str, Any]
    ) -> Any:
        """Returns the result, and looks whether there is a better way to the next one."""
        plan, out = self.plan, None
        if not self.settled and plan is not None:
            numpy, other = self._times
            if len(numpy) < len(other):
                plan = None
        begun = perf_counter()
        try:
            inside.a_kind = True
            if plan is not None:
                out = self._by(plan, operands)
            if out is None:
                out = kernel(*operands, **params)
        finally:
            inside.a_kind = False
        if not self.settled:
            self._note(perf_counter() - begun, plan)
        return out

    def _by(self, plan: Callable[[Sequence[Buffer]], Any], operands: Sequence[Buffer]) -> Any:
        """Returns the plan's result; None where it raises: the kernel raises its own error."""
        try:
            return plan([np.ascontiguousarray(x) for x in operands])
        except Exception:
            return None

    def _note(self, took: float, plan: Any) -> None:
        """Notes the time of a call, and decides once there are enough of both ways."""
        numpy, other = self._times
        if self.plan is not None:
            (numpy if plan is None else other).append(took)
            if min(len(numpy), len(other)) >= COMPARED_CALLS:
                self._settle(self.plan if min(other) <= min(numpy) else None)
            return
        self._calls += 1
        self._spent += took
        waits = self.job is not None and not self.job.dropped
        enough = self._spent >= SECONDS_BEFORE_COMPILING and self._calls >= CALLS_BEFORE_COMPILING
        if enough and not waits:
            self._begin()

    def _begin(self) -> None:
        """Has the plan made in the background, unless there is no machine code here."""
        from ..native.background import later_for  # only where machine code is made
        from ..native.machine import why_not

        if why_not() or not PLAN_MAKERS:
            self._settle(None)
        else:
            self.job = later_for(self, Kind.make)

    def make(self) -> None:
        """Makes the plan, for the next call to take."""
        from ..native.machine import in_step  # only where machine code is made

        plan = None
        try:
            # In the child of a fork in the middle of an import nobody could import the module.
            plan = in_step(PLAN_MAKERS[0])(*self._told)
        finally:
            if plan is None:
                self._settle(None)
            else:
                self.plan = plan

    def _settle(self, plan: Any) -> None:
        self.plan, self.settled = plan, True


kinds: dict[Any, Kind] = {}


def key_of(name: str, operands: Sequence[Buffer], params: Mapping[str, Any]) -> Any:
    """Returns what tells kinds apart; None for operands that machine code does not take."""
    first = operands[0].dtype
    # Equal numbers may have different types, and zeros different signs.
    key: list[Any] = [name, repr(params) if params else ""]
    for x in operands:
        if type(x) is not np.ndarray:
            return None
        dtype, flags = x.dtype, x.flags
        if dtype is not first and dtype != first and dtype.kind not in WHOLE_NUMBERS:
            return None
        if not (flags.aligned and dtype.isnative):
            return None
        if not flags.c_contiguous and name not in IN_C_ORDER:
            return None
        key += x.shape, dtype.char
    return tuple(key)


def by_plans(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that does the same as a kernel, for large operands by a plan.

    Args:
        name: the name of the primitive.
        kernel: computes it on buffers.
    """

    @wraps(kernel)
    def run(*operands: Any, **params: Any) -> Any:
        x = operands[0]
        if (
            type(x) is not np.ndarray
            or x.size < FEWEST_ELEMENTS
            or x.dtype.char not in FLOATS
            or inside.a_kind
            or config.deterministic
            # NumPy raises within ``np.errstate(all="raise")``, plans do not.
            or not LEFT_OUT_BY_PLANS.issuperset(np.geterr().values())
        ):
            return kernel(*operands, **params)
        key = key_of(name, operands, params)
        if key is None:
            return kernel(*operands, **params)
        kind = kinds.get(key)
        if kind is None:
            if len(kinds) >= MOST_KINDS:
                kinds.clear()
            kind = kinds[key] = Kind(name, operands, params)
        return kind(kernel, operands, params)

    # Plans call the kernel itself.
    run.wide = kernel  # type: ignore[attr-defined]
    return run
