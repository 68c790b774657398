"""Programs for the tests of passes, and the comparison of their results."""

import numpy

import functensor as ft
from functensor.programs.program import Variable

EDGES = numpy.array([0.0, -0.0, 1.5, -2.0, numpy.inf, -numpy.inf, numpy.nan, 5e-324, 1e308])
F = ft.ShapeDtype((3,), "float32")
D = ft.ShapeDtype((3,), "float64")
M = ft.ShapeDtype((2, 3), "float64")
N = ft.ShapeDtype((3,), "int64")
C = ft.ShapeDtype((3,), "complex128")


def body(program):
    """Returns a program's equations and outputs as text, without indentation."""
    return [line.strip() for line in str(program).splitlines()[1:]]


def operations(program):
    """Returns what a program computes, equation by equation, by name."""
    return [equation.primitive.name for equation in program.equations]


def staged(fun, *args):
    """Returns the program of a function of these arguments."""
    return ft.make_program(fun)(*args)


def bits(x):
    """Returns what tells results apart: dtype, shape, and all bits but those of NaN."""
    x = numpy.asarray(x)
    if x.dtype.kind == "c":
        return x.dtype, bits(x.real), bits(x.imag)
    if x.dtype.kind == "f":
        x = numpy.where(numpy.isnan(x), numpy.array(numpy.nan, x.dtype), x)
    return x.dtype, x.shape, x.tobytes()


def run(program, values):
    """Returns what a program computes; scalars that are said to be weak stay so in between."""
    env = dict(zip(program.inputs, values, strict=True))
    for equation in program.equations:
        operands = [env.get(x, x) if type(x) is Variable else x for x in equation.operands]
        for variable, out in zip(equation.outputs, equation.apply(operands), strict=True):
            env[variable] = variable.type.weak(out) if variable.type.weak else out
    return [env[x] if type(x) is Variable else x for x in program.outputs]


def outcomes(program, values):
    """Returns the bits of what a program computes."""
    return [bits(out) for out in run(program, values)]


def close(got, wanted, times, size=0.0):
    """Checks that results agree in dtype and shape, and in value up to rounding.

    Args:
        got, wanted: the results.
        times: how many roundings of their dtype they may be apart.
        size: what those are measured by where that is larger than the elements themselves.
    """
    got, wanted = numpy.asarray(got), numpy.asarray(wanted)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind not in "fc":
        numpy.testing.assert_array_equal(got, wanted)
        return
    rounding = times * float(numpy.finfo(wanted.dtype).eps)
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_allclose(got, wanted, rtol=rounding, atol=rounding * size)


def largest(x):
    """Returns the size of the largest finite element: what errors of sums are measured by."""
    x = numpy.asarray(x)
    return float(numpy.max(numpy.abs(x), where=numpy.isfinite(x), initial=0.0))


def same(program, other, values):
    """Checks that two programs of the same arguments give the same bits."""
    assert outcomes(other, values) == outcomes(program, values)
