"""Plans on GPUs: programs whose elementwise work and folds are kernels that are made for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cupy

from ...config import config
from ..row_layout import has_units
from .graph import GraphedPlan
from .graph_choice import can_be_graph, can_be_small_graph
from .joint_parts import with_joint_launches
from .late_means import means_beside
from .leaf_groups import grouped_leaves
from .plan import GpuPlan

if TYPE_CHECKING:
    from ...cpu.plan.annotations import ProgramLike

__all__ = ["gpu_plan", "in_launches"]


def gpu_plan(
    program: ProgramLike,
    bound: Callable[[Any], Callable[..., Sequence[Any]]],
    donated: Sequence[int] = (),
) -> Any:
    """Returns the plan of a program, compiled for the current GPU.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        donated: the numbers of the inputs whose memory results may take.
    """
    program = in_launches(program, has_units(cupy.cuda.runtime.getDevice()))
    is_large = can_be_graph(program)
    is_graph = is_large or can_be_small_graph(program, donated)
    plan = GpuPlan(program, bound, donated, is_graph, config.matmul_precision)
    plan.load()
    return GraphedPlan(plan, not is_large) if is_graph else plan


def in_launches(program: ProgramLike, joint: bool = True) -> ProgramLike:
    """Returns a program whose equations are launches, in their order.

    Args:
        program: the program, its regions fused.
        joint: whether small operations that need nothing of each other are one launch.
    """
    program = grouped_leaves(program)
    return means_beside(with_joint_launches(program) if joint else program)
