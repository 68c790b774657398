"""Programs of a GPU where there is none, and the plans that are made of them."""

from typing import NamedTuple

import functensor as ft
from functensor.jitting.gpu_tiers import call_on_buffers, gpu_program
from functensor.programs.program import Program, Variable

DEVICE = "cuda:0"


class Processes(NamedTuple):
    """Stands for an axis of processes, of which a plan is made alone."""

    size: int


class Kernels:
    """Stands for the backend of GPUs, as far as passes ask it."""

    def native_test(self, program, of_loop=False):
        """Returns what says whether kernels compute an equation."""
        from functensor.backends.cuda.plan.fused_equations import is_fused

        return is_fused


def moved(program):
    """Returns a program whose arrays are on a GPU; numbers that are made of none stay."""
    new = {x: Variable(x.type, DEVICE if x.type.shape else "cpu") for x in program.inputs}

    def of(x):
        return new[x] if type(x) is Variable else x

    equations = []
    for equation in program.equations:
        operands = list(map(of, equation.operands))
        there = any(type(x) is Variable and x.device == DEVICE for x in operands)
        for out in equation.outputs:
            placed = out.type.weak is None and (there or out.type.shape)
            new[out] = Variable(out.type, DEVICE if placed else "cpu")
        outputs = [new[out] for out in equation.outputs]
        equations.append(equation.by(equation.primitive, operands, equation.params, outputs))
    inputs, outputs = [new[x] for x in program.inputs], list(map(of, program.outputs))
    return Program(program.name, inputs, equations, outputs, program.in_tree, program.out_tree)


def fused(function, *args):
    """Returns the program of a function, its regions fused as for a GPU."""
    return gpu_program(moved(ft.make_program(function)(*args)), Kernels())


def plan_of(program, donated=(), apart=True, precision="highest"):
    """Returns the plan of a fused program, its kernels not compiled."""
    from functensor.backends.cuda.plan import in_launches
    from functensor.backends.cuda.plan.plan import GpuPlan

    return GpuPlan(in_launches(program), call_on_buffers, donated, apart, precision)


def run_of(entry):
    """Returns what runs a staged program of a jitted function, on whichever of several GPUs."""
    return getattr(entry.compiled.run, "_plan", entry.compiled.run)
