"""Kernels of regions without a GPU: g++ runs them, and NVRTC compiles them."""

import re
from functools import cache

import numpy as np
import pytest
from support import many_threads, nvrtc, one_thread
from support.gpu_functions import RNG, ROW, X, Y, gaussian, layer_loss, normal
from support.gpu_programs import fused

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.programs.program import Variable

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")

needs_compiler = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")


def moments(p, g, m, v):
    """A step of Adam's kind."""
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.01 * m / (fnp.sqrt(v) + 1e-8), m, v


def powers(x):
    """Functions of two numbers."""
    return fnp.abs(x) ** 2.7 + fnp.arctan2(x, 2.0) + fnp.hypot(x, 1.0)


def integers(x):
    """Operations on whole numbers."""
    return x * 7 - (x // 3) + (x % 5), fnp.sum(x * x, 1), fnp.where(x > 2, x, -x), ~x & 12


def turns(x):
    """Many sines of what was made of the last, which are called."""
    y = x
    for _ in range(30):
        y = fnp.sin(y) * x
    return fnp.sum(y)


def reciprocals(x):
    """Quotients of one, some of which are infinite, tiny or no numbers."""
    with np.errstate(all="ignore"):
        return 1 / x, 1 / (1 + fnp.exp(-x)) * x


def floats(*shape):
    """Returns float32 numbers of all sizes, and NaN and infinity."""
    words = RNG.integers(0, 1 << 32, shape, dtype=np.uint32)
    words.flat[:5] = np.array([0, -0.0, np.inf, np.nan, 3e38], "f4").view(np.uint32)
    return words.view(np.float32)


def distances(x):
    """Many functions of two numbers."""
    y = x * 2
    for _ in range(30):
        y = fnp.hypot(y, x) * 0.9
    return y


def shifted_columns(x, scale, shift):
    """Numbers by column and by row, and folds of columns."""
    y = fnp.sin(x * scale) + shift
    return y, fnp.sum(y, 0), fnp.max(y * 2, 0)


# Those whose threads have several packs, or several elements, where there are many points.
WITH_MANY_POINTS = (
    *("map", "bias", "column", "odd sizes", "double", "half", "small integers", "moments"),
    *("value and gradient", "infinities", "gelu", "outer", "reciprocals"),
    *("reciprocals of an odd number", "reciprocals of half"),
)

# The function, its arguments, and how many launches compute it.
CASES = {
    "map": (lambda x, y: fnp.tanh(x) * y + 2.0, (X, Y), 1),
    "bias": (lambda x, b: fnp.maximum(x + b, 0), (X, ROW), 1),
    "column": (lambda x, c: fnp.exp(x) - c * 2, (X, X[:, :1]), 1),
    "odd sizes": (lambda x: fnp.exp(x) * 2, (normal(5, 7),), 1),
    "mean": (lambda x, y: fnp.mean((x - y) ** 2), (X, Y), 1),
    "mean of many": (lambda x: fnp.mean((x - 1) ** 2), (normal(30_000),), 2),
    "columns of many": (lambda x: fnp.sum(fnp.exp(x), 0), (normal(3000, 5),), 2),
    "sum and map": (lambda x, y: (fnp.sum(x * y), fnp.exp(x) * y), (X, Y), 1),
    "columns": (lambda x, y: (fnp.sum(x * y, 0), fnp.mean(fnp.sin(x), 0)), (X, Y), 1),
    "many sums of columns": (
        lambda x: [fnp.sum(x * i + fnp.sin(x), 0) for i in range(40)],
        (RNG.normal(size=(37, 24)),),
        3,
    ),
    "wide columns": (shifted_columns, (normal(90, 136), normal(136), normal(90, 1)), 2),
    "wide columns of halves": (
        shifted_columns,
        (normal(20, 260).astype("e"), normal(260).astype("e"), normal(20, 1).astype("e")),
        2,
    ),
    "wide columns of doubles": (shifted_columns, (RNG.normal(size=(21, 66)), 2.0, 3.0), 1),
    "wide columns of two axes": (
        lambda x: (fnp.sum(x * x, (0, 1)), x * x),
        (normal(3, 7, 132),),
        1,
    ),
    "wide columns in the middle": (lambda x: fnp.max(x * 2, 1), (normal(3, 7, 128),), 1),
    "five sums of wide columns": (
        lambda x: [fnp.sum(x * i + fnp.sin(x), 0) for i in range(5)],
        (normal(9, 128),),
        1,
    ),
    "columns that are no packs": (lambda x: (x * 2, fnp.sum(x * 2, 0)), (normal(9, 130),), 1),
    "rows": (lambda x, y: (fnp.sum(x * y, 1), fnp.max(fnp.sin(x), 1)), (X, Y), 1),
    "softmax": (lambda x: nn.softmax(x * 2, -1), (X,), 1),
    "log softmax": (lambda x: nn.log_softmax(x * 2, -1), (X,), 1),
    "long rows": (lambda x: nn.softmax(x * 2, -1), (normal(3, 5000),), 1),
    "longest rows": (lambda x: nn.softmax(x * 2, -1), (normal(2, 20_001),), 1),
    "layer norm": (ft.grad(layer_loss), ((X, ROW, normal(24)),), 2),
    "value and gradient": (ft.value_and_grad(gaussian), (normal(1000),), 1),
    "double": (ft.value_and_grad(gaussian), (RNG.normal(size=(33, 7)),), 1),
    "middle axis": (lambda x: (fnp.sum(fnp.exp(x), 1), fnp.sum(x, (0, 2))), (normal(5, 6, 7),), 2),
    "channels": (lambda x: (x - fnp.mean(x, (0, 2), keepdims=True)) * 2, (normal(5, 6, 8),), 2),
    "half": (lambda x: fnp.exp(x) * 2 + 1, (X.astype("f2"),), 1),
    "softmax of half": (lambda x: nn.softmax(x * 2, -1) + 1, (X.astype("f2"),), 1),
    "sums of half": (
        lambda x: (fnp.sum(x * 2, 1), fnp.mean(x * 2, 0), fnp.mean(x * 2, 1)),
        (X.astype("f2"),),
        3,
    ),
    "integers": (integers, (RNG.integers(-50, 50, (9, 11)),), 1),
    "lowest integers": (
        lambda x: (x * 2 - 1, fnp.maximum(x, np.int32(-(2**31))), x // 7, x % 7, abs(x)),
        (np.array([-(2**31), 2**31 - 1, 0, 5], "i4"),),
        1,
    ),
    "small integers": (
        lambda x: (x * 7 - x, fnp.max(x * 2, 1)),
        (np.arange(60, dtype="i1").reshape(6, 10),),
        1,
    ),
    "small sums that wrap around": (
        lambda x: (fnp.sum(x, 1, dtype="i1").astype("i4"), x > fnp.prod(x, 1, "i1", keepdims=True)),
        (np.arange(60, dtype="i1").reshape(6, 10),),
        1,
    ),
    "unsigned": (lambda x: (x * 3 - 1, x // 7, x % 7), (np.arange(20, dtype="u8"),), 1),
    "booleans": (lambda x: (fnp.isnan(x) | (x > 0.5)) & ~(x > 1), (X,), 1),
    "number": (lambda x, s: x * s + 1, (X, 3.5), 1),
    "NumPy's number": (lambda x, s: x * s + 1, (X, np.float32(3.5)), 1),
    "outer": (lambda a, b: fnp.sin(a[:, None] * b[None, :] + 1), (normal(13), normal(8)), 1),
    "moments": (moments, (X, Y, X, Y * Y), 1),
    "softmax's gradient": (ft.grad(lambda x: fnp.sum(nn.softmax(x, -1) ** 2)), (X,), 1),
    "gelu": (ft.grad(lambda x: fnp.sum(nn.gelu(x))), (X,), 1),
    "powers": (powers, (X,), 1),
    "many sines": (ft.value_and_grad(turns), (normal(10),), 1),
    "many sines of doubles": (ft.value_and_grad(turns), (RNG.normal(size=(10,)),), 1),
    "many distances": (distances, (X,), 1),
    "sine and cosine": (lambda x: (fnp.sin(x) * fnp.cos(x), fnp.sum(fnp.cos(x))), (X,), 1),
    "infinities": (
        lambda x: (nn.softmax(x * 1.0, -1), fnp.maximum(x, -x), fnp.sum(x * 2, 0)),
        (np.array([[np.inf, 1.0, -np.inf], [np.nan, 2.0, 3.0], [-0.0, 0.0, 5e-39]], "f4"),),
        2,
    ),
    "reciprocals": (reciprocals, (floats(37, 24),), 1),
    "reciprocals of an odd number": (reciprocals, (floats(2047),), 1),
    "reciprocals of half": (reciprocals, (normal(16, 24).astype("f2"),), 1),
    "infinite constants": (lambda x: fnp.where(x > 0, np.inf, -np.inf) * 2 + x, (X,), 1),
}


class Regions:
    """The regions of a function's program, as kernels.

    Args:
        name: the name of the case.
        wide: whether memory begins where wide loads may.
        lanes: 1 for kernels of blocks with one thread.
    """

    def __init__(self, name, wide, lanes):
        from functensor.backends.cuda.plan.region_run import is_on_host, region_source

        function, args, self.launches = CASES[name]
        self.program = fused(function, *args)
        self.sources = {}
        for number, equation in enumerate(self.program.equations):
            if equation.primitive.fused:
                on_host = list(map(is_on_host, equation.operands))
                self.sources[number] = region_source(
                    f"case_{[*CASES].index(name)}_{number}",
                    equation.primitive,
                    equation.operands,
                    on_host,
                    None,
                    wide,
                    lanes,
                )
        self.kernels = [kernel for source in self.sources.values() for kernel in source.kernels]

    def run(self, made, args):
        """Returns the outputs, the kernels of regions being run by one thread."""
        values = dict(zip(self.program.inputs, map(np.asarray, args), strict=True))
        for number, equation in enumerate(self.program.equations):
            operands = [value_of(x, values) for x in equation.operands]
            if number in self.sources:
                outs = self.launched(made, self.sources[number], equation, operands)
            else:
                outs = map(np.asarray, equation.apply(list(map(fnp.asarray, operands))))
            values.update(zip(equation.outputs, outs, strict=True))
        return [value_of(x, values) for x in self.program.outputs]

    def launched(self, made, source, equation, operands):
        """Returns the outputs of a region."""
        pairs = zip(operands, equation.primitive.program.inputs, strict=True)
        inputs = [np.array(x, v.type.dtype, order="C") for x, v in pairs]
        numbers = [x.type.shape for x in equation.primitive.program.inputs]
        memory = {
            "in": [x if shape else x[()] for x, shape in zip(inputs, numbers, strict=True)],
            "out": [poisoned(x.type.shape, x.type.dtype) for x in equation.outputs],
            "scratch": [poisoned(x.shape, x.dtype) for x in source.scratch],
        }
        for kernel in source.kernels:
            given = [memory[place.kind][place.number] for place in kernel.arguments]
            made.launch(kernel, [x[()] if not x.shape else x for x in given])
        return memory["out"]


@cache
def all_regions(wide, lanes, few=True):
    """Returns the regions of all cases, and the text of their kernels.

    Where there are many points, and not ``few``, threads have several of them.
    """
    from functensor.backends.cuda.launch import included
    from functensor.backends.cuda.plan import map_kernels
    from functensor.backends.cuda.plan.region_run import INCLUDES

    with pytest.MonkeyPatch.context() as patch:
        if not few:
            patch.setattr(map_kernels, "FEWEST_OF_PACKS", 1)
            patch.setattr(map_kernels, "FEWEST_OF_ELEMENTS", 1)
        regions = {x: Regions(x, wide, lanes) for x in (CASES if few else WITH_MANY_POINTS)}
    texts = [kernel.text for one in regions.values() for kernel in one.kernels]
    return regions, included(INCLUDES + "\n".join(texts))


@cache
def compiled(wide, few=True):
    """Returns the kernels of all cases, for one thread."""
    return one_thread.Compiled(all_regions(wide, 1, few)[1])


@cache
def compiled_together(few=True):
    """Returns the kernels of all cases, for blocks of many threads."""
    regions, text = all_regions(True, 32, few)
    kernels = [kernel for one in regions.values() for kernel in one.kernels]
    return many_threads.Compiled(text, kernels)


def value_of(x, values):
    """Returns the value of an operand."""
    return values[x] if type(x) is Variable else np.asarray(getattr(x, "_data", x))


def poisoned(shape, dtype):
    """Returns memory that nothing was written into."""
    return np.full(shape or (1,), 77).astype(dtype)


def compare(found, wanted):
    """Compares outputs with those of eager mode."""
    for x, y in zip(found, ft.tree.leaves(wanted), strict=True):
        y = np.asarray(y)
        assert x.dtype == y.dtype
        close = {2: 2e-2, 4: 3e-5, 8: 1e-12}.get(y.dtype.itemsize) if y.dtype.kind == "f" else 0
        values = y.astype(float)
        np.testing.assert_allclose(x.astype(float).reshape(y.shape), values, close, close or 0)


@needs_compiler
@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", CASES)
def test_regions_compute_what_eager_mode_does(name, wide):
    function, args, _ = CASES[name]
    regions = all_regions(wide, 1)[0][name]
    compare(regions.run(compiled(wide), ft.tree.leaves(args)), function(*args))


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_blocks_of_threads_compute_what_eager_mode_does(name):
    function, args, _ = CASES[name]
    regions = all_regions(True, 32)[0][name]
    compare(regions.run(compiled_together(), ft.tree.leaves(args)), function(*args))


@needs_compiler
@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", WITH_MANY_POINTS)
def test_threads_with_several_points_compute_what_eager_mode_does(name, wide):
    function, args, _ = CASES[name]
    regions = all_regions(wide, 1, few=False)[0][name]
    compare(regions.run(compiled(wide, few=False), ft.tree.leaves(args)), function(*args))


@needs_compiler
@pytest.mark.parametrize("name", WITH_MANY_POINTS)
def test_blocks_of_threads_with_several_points_compute_the_same(name):
    function, args, _ = CASES[name]
    regions = all_regions(True, 32, few=False)[0][name]
    compare(regions.run(compiled_together(few=False), ft.tree.leaves(args)), function(*args))


@nvrtc.on_every_architecture
@pytest.mark.parametrize("few", [True, False], ids=["few points", "many"])
@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
def test_kernels_of_regions_compile(architecture, wide, few):
    from functensor.backends.cuda.plan.region_run import REGION_OPTIONS

    made = nvrtc.compiled(all_regions(wide, 32, few)[1], architecture, REGION_OPTIONS)
    assert made.cubin.startswith(b"\x7fELF"), made.log
    assert made.warnings == []


def test_launches():
    regions, _ = all_regions(True, 32)
    found = {name: len(one.kernels) for name, one in regions.items()}
    assert found == {name: one.launches for name, one in regions.items()}


def test_functions_that_stand_often_are_called():
    _, text = all_regions(True, 32)
    called = re.findall(r"__noinline__ \S+ case_(\d+)_\d+_\d+_(\w+)\(", text)
    names = [*CASES]
    assert {(names[int(case)], function) for case, function in called} == {
        ("many sines", "turnedf"),
        ("many sines of doubles", "turned"),
        ("many distances", "hypotf"),
    }
