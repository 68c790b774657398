"""Loops that run their steps one by one, each by a plan of machine code.

A loop is machine code as a whole where that has all of its body. Where one operation is missing,
all others of a step are machine code in a plan of the body, if that has fewer calls than a step of
the loop over NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..jitting.tiers import native_plan
from ..primitives.core.annotations import Values
from ..programs.program import Variable, used
from .call import outputs_in_order, own_outputs
from .program_edits import rewired

__all__ = ["MachineSteps", "machine_steps"]

# The call of a step's plan, and what stands around it, take as long as so many calls of a plan.
CALLS_OF_A_STEP = 5


class MachineSteps:
    """Runs a loop by a plan of its body.

    Attributes:
        primitive: the loop.
        by_machine_code: true, for plans that ask all their calls.

    Args:
        primitive: the loop: a call with a ``body``, of whose inputs the first are ``carries``.
        donated: the numbers of the carries whose memory the plan takes.
        plan: the plan of the body.
    """

    by_machine_code = True

    def __init__(self, primitive: Any, donated: Sequence[int], plan: Any) -> None:
        self.primitive = primitive
        self._plan = plan
        self._donated = donated
        body = primitive.body
        self._step = outputs_in_order(body, own_outputs(body), plan)
        self.__name__ = primitive.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns what is pickled with a plan that calls it: the plan of the body has its own."""
        return steps_again, (self.primitive, self._donated)

    def __call__(self, buffers: Sequence[Any]) -> Values:
        """Computes the results of buffers, as buffers."""
        values = list(buffers)
        for i in self._donated:
            # The first carries are others' arrays.
            values[i] = np.array(values[i])
        found: Values = self.primitive.step_by_step(values, self._step)
        return found

    def __repr__(self) -> str:
        return f"{self.primitive.name}, step by step"

    def sources(self) -> dict[str, str]:
        """Returns the text of the plan."""
        return {"each step": self._plan.source}


def machine_steps(call: Any) -> MachineSteps | None:
    """Returns what runs a loop's steps by a plan of machine code; None where that is no gain.

    It is made once.

    Args:
        call: the loop, as that of `MachineSteps`.
    """
    return call.once("machine steps", partial(_steps_made, call))  # type: ignore[no-any-return]


def _steps_made(call: Any) -> MachineSteps | None:
    body, carries = call.body, call.carries
    # The plan of all steps over NumPy; there is none on a GPU.
    loop = call.plan()
    # Elements of carries are updated in place by that plan.
    if loop is None or loop.owned or call.effect or call.collective:
        return None
    # What comes back as it was is read behind the plan. What another input or a constant comes back
    # as is others' memory in the next step, and what comes back twice is that of two carries.
    returned = set(used(body.outputs))
    counts = Counter(used(body.outputs[:carries]))
    fresh = {x for x in own_outputs(body) if counts[x] == 1}
    pairs = enumerate(zip(body.inputs[:carries], body.outputs[:carries], strict=True))
    donated = [
        i
        for i, (x, out) in pairs
        if x.type.shape and x not in returned and type(out) is Variable and out in fresh
    ]
    plan = plan_of_steps(call, donated)
    if plan is None or plan.calls_of_a_run + CALLS_OF_A_STEP > loop.calls_of_a_run:
        return None
    return MachineSteps(call, donated, plan)


def plan_of_steps(call: Any, donated: Sequence[int]) -> Any:
    """Returns the plan of machine code that computes what each step of a loop makes; or None."""
    body = call.body
    return native_plan(rewired(body, body.inputs, own_outputs(body)), donated)


def steps_again(call: Any, donated: Sequence[int]) -> MachineSteps:
    """Returns the steps of a loop that another process has found to pay.

    Raises:
        ValueError: they have no plan in this one.
    """
    plan = plan_of_steps(call, donated)
    if plan is None:
        raise ValueError("the steps have no machine code")
    return MachineSteps(call, donated, plan)
