"""Plans on GPUs: programs whose elementwise work and folds are kernels that are made for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
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

# The part of a GPU's free memory that copies of large inputs may take.
MOST_OF_FREE_MEMORY = 0.1


def gpu_plan(
    program: ProgramLike,
    bound: Callable[[Any], Callable[..., Sequence[Any]]],
    donated: Sequence[int] = (),
    moving: bool = False,
) -> Any:
    """Returns the plan of a program, compiled for the current GPU.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        donated: the numbers of the inputs whose memory results may take.
        moving: whether inputs are large and lie elsewhere in each call: a graph copies them, so
            that there is one where memory is ample.
    """
    program = in_launches(program, has_units(cupy.cuda.runtime.getDevice()))
    has_room = not moving or has_room_for_inputs(program)
    is_large = has_room and can_be_graph(program)
    is_graph = is_large or (not moving and can_be_small_graph(program, donated))
    plan = GpuPlan(program, bound, donated, is_graph, config.matmul_precision)
    plan.load()
    return GraphedPlan(plan, not is_large, moving) if is_graph else plan


def has_room_for_inputs(program: ProgramLike) -> bool:
    """Says whether copies of a program's inputs take little of the current GPU's free memory."""
    size = sum(prod(x.type.shape) * x.type.dtype.itemsize for x in program.inputs)
    free, _ = cupy.cuda.runtime.memGetInfo()
    free += cupy.get_default_memory_pool().free_bytes()
    return bool(size <= MOST_OF_FREE_MEMORY * free)


def in_launches(program: ProgramLike, joint: bool = True) -> ProgramLike:
    """Returns a program whose equations are launches, in their order.

    Args:
        program: the program, its regions fused.
        joint: whether small operations that need nothing of each other are one launch.
    """
    program = grouped_leaves(program)
    return means_beside(with_joint_launches(program) if joint else program)
