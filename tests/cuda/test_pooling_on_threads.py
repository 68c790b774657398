"""Kernels of pooling on the CPU's threads, against the CPU's own pooling."""

from types import SimpleNamespace

import numpy as np
import pytest
from support import many_threads, one_thread
from support.leaf_kernels import Buffer, argument, buffer

from functensor.backends.cpu import pooling as on_the_cpu
from functensor.backends.cuda.launch import source
from functensor.primitives.nn.pooling import Windows

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")

RNG = np.random.default_rng(0)
# The spatial shape, and the windows over it.
CASES = {
    "side by side": ((6, 4), Windows((2, 2), (2, 2), ((0, 0), (0, 0)))),
    "a rest": ((7, 4), Windows((2, 2), (2, 2), ((0, 0), (0, 0)))),
    "padded": ((5, 8), Windows((3, 3), (2, 2), ((1, 1), (1, 1)))),
}
PARAMETERS = {
    "max_pool_argmax": "void *a, const void *b, pools p",
    "max_pool_with_argmax": "void *a, void *b, const void *c, pools p",
    "pool_scatter": "void *a, const void *b, const void *c, pools p",
    "pool_spread": "void *a, const void *b, const void *c, pools p",
}
KNOWN = """
static float __int_as_float(int bits) { return __uint_as_float((unsigned int)bits); }
template <typename T> static T min(T x, T y) { return x < y ? x : y; }
template <typename T> static T max(T x, T y) { return x > y ? x : y; }
"""


class Launched:
    """A kernel as a function of the CPU; it notes how often it is launched."""

    def __init__(self, name, libraries):
        self.name, self.libraries, self.count = name, libraries, 0

    def __call__(self, types, grid, block, *arguments):
        """Runs an instance."""
        self.count += 1
        if (self.name, types) not in self.libraries:
            declared = PARAMETERS[self.name]
            names = ", ".join([x.rpartition(" ")[2].lstrip("*") for x in declared.split(", ")])
            text = 'extern "C" __global__ void\n'
            text += f"instance({declared}) {{\n    {self.name}<{types}>({names});\n}}\n"
            kernel = SimpleNamespace(name="instance", text=text)
            made = many_threads.Compiled(KNOWN + source("pooling") + text, [kernel])
            self.libraries[self.name, types] = made.library
        self.libraries[self.name, types].run_instance(*grid, block, *map(argument, arguments))


@pytest.fixture(scope="module")
def libraries():
    return {}


@pytest.fixture
def module(libraries, monkeypatch):
    """The module, its kernels and memory being the CPU's."""
    from functensor.backends.cuda.kernels import pooling

    kernels = {name: Launched(name, libraries) for name in PARAMETERS}
    empty = np.empty
    monkeypatch.setattr(pooling, "ndarray", lambda *given: empty(*given).view(Buffer))
    monkeypatch.setattr(pooling, "POOLING_KERNELS", kernels)
    monkeypatch.setattr(pooling, "MAX_POOL_WITH_ARGMAX", kernels["max_pool_with_argmax"])
    return pooling


@pytest.mark.parametrize("name", CASES)
def test_maxima_and_their_way_back(module, name):
    spatial, windows = CASES[name]
    # Whole numbers: many are equal, and the first one wins. None wins after a NaN.
    x = RNG.integers(0, 4, (2, 3, *spatial)).astype("f4")
    x[0, 0, 1, 1] = np.nan
    best = on_the_cpu.max_pool(x, windows=windows)
    winner = on_the_cpu.max_pool_argmax(x, windows=windows)
    np.testing.assert_array_equal(module.max_pool_argmax(buffer(x), windows=windows), winner)
    found = module.max_pool_with_argmax(buffer(x), windows=windows)
    np.testing.assert_array_equal(found[0], best)
    np.testing.assert_array_equal(found[1], winner)
    g = RNG.integers(1, 5, best.shape).astype("f4")
    g[0, 0, 0, 0] = np.nan
    wanted = on_the_cpu.pool_scatter(g, winner, spatial=spatial, windows=windows)
    spread = module.pool_scatter(buffer(g), buffer(winner), spatial=spatial, windows=windows)
    np.testing.assert_array_equal(spread, wanted)
    used = "pool_spread" if name == "side by side" else "pool_scatter"
    assert module.POOLING_KERNELS[used].count == 1


@pytest.mark.parametrize("dtype", ["i1", "i8"])
def test_places_that_are_none_take_nothing(module, dtype):
    _, windows = CASES["side by side"]
    winner = np.array([[[[-1, 4], [1, 127]]]]).astype(dtype)
    if dtype == "i8":
        winner[0, 0, 0, 0] = 1 << 32
    g = np.arange(1, 5, dtype="f4").reshape(1, 1, 2, 2)
    found = module.pool_scatter(buffer(g), buffer(winner), spatial=(4, 4), windows=windows)
    wanted = np.zeros((1, 1, 4, 4), "f4")
    wanted[0, 0, 2, 1] = 3
    np.testing.assert_array_equal(found, wanted)


def test_channels_that_lie_innermost_are_left_to_packs(module):
    spatial, windows = CASES["side by side"]
    x = np.moveaxis(buffer(RNG.normal(size=(2, *spatial, 4)).astype("f4")), -1, 1)
    winner = module.max_pool_argmax(x, windows=windows)
    wanted = on_the_cpu.max_pool_argmax(np.asarray(x), windows=windows)
    np.testing.assert_array_equal(winner, wanted)
    found = module.pool_scatter(winner.astype("f4"), winner, spatial=spatial, windows=windows)
    wanted = on_the_cpu.pool_scatter(
        wanted.astype("f4"), wanted, spatial=spatial, windows=windows
    )
    np.testing.assert_array_equal(found, wanted)
    assert module.POOLING_KERNELS["pool_scatter"].count == 1
