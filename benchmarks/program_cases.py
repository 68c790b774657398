"""The inner work of the programs in `examples/programs`, at their size, in every peer.

The source is that of the program with the peer's imports, as `tests/programs` runs it with HIPS
autograd. What a peer lacks is written here by other functions of that peer.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Outcome, Unsupported, describe

Function = Callable[..., Any]
Names = Mapping[str, Any]
Work = tuple[Function, tuple[Any, ...]]
"""A function, and the arguments with which it is timed."""

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "programs"
PREFIX = "program:"
MASSES = 10_000
# In a matrix with three diagonals, columns whose numbers differ by 3 or more share no row.
COLOURS = 3


def program_name(workload: str) -> str | None:
    """The program of a workload such as `program:drum`; None of another one."""
    name = workload.removeprefix(PREFIX)
    return name if name != workload and name in PROGRAMS else None


def loaded(name: str, imports: Mapping[str, str]) -> Names:
    """Runs a program's source with other imports; returns its names.

    Args:
        name: the program.
        imports: regular expressions of whole lines, and what stands there in their place.
    """
    path = FOLDER / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    for ours, theirs in imports.items():
        source = re.sub(rf"^{ours}$", theirs, source, flags=re.MULTILINE)
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source, str(path), "exec"), names)
    return names


def gradient(function: str, seed: int | None = None) -> Callable[[Names, Any], Work]:
    """The value and gradient of a program's function at its own data."""

    def work(program: Names, library: Any) -> Work:
        data = program["data"]
        given = data() if seed is None else data(np.random.default_rng(seed))
        return library.value_and_grad(program[function]), tuple(given)

    return work


def leapfrog(program: Names, library: Any) -> Work:
    """A proposal of Hamiltonian Monte Carlo: 15 gradients and steps."""
    random = np.random.default_rng(6)
    weights, inputs, targets = program["data"](random)
    momentum, slope = random.normal(size=weights.shape), random.normal(size=weights.shape)
    return program["leapfrog"], (weights, momentum, slope, 0.01, inputs, targets)


def newton(program: Names, library: Any) -> Work:
    """The slope and curvature that a step of Newton's method needs."""
    slope, curvature = library.grad(program["loss"]), library.hessian(program["loss"])

    def both(*arguments: Any) -> Any:
        return slope(*arguments), curvature(*arguments)

    return both, program["data"](np.random.default_rng(2))


def bound(program: Names, library: Any) -> Work:
    """A stochastic gradient of the evidence lower bound."""
    noise = np.random.default_rng(4).normal(size=(200, 2))
    function = library.value_and_grad(program["negative_bound"])
    return function, (np.array([-1.0, 0.5, 0.0, 0.0]), noise)


def sparse_newton(program: Names, library: Any) -> Work:
    """The slope and the elements of a sparse Hessian, which is a matrix with three diagonals.

    For a library without sparse derivatives it is the products of the Hessian and three vectors.
    The ones of a vector are three places apart, so that the products have all elements.
    """
    energy = program["energy"]
    slope = library.grad(energy)
    places, load = program["data"](MASSES)
    if "sparse" in program:
        sparse = program["sparse"]
        pattern = sparse.hessian_pattern(energy)(places, load)
        curvature = sparse.hessian(energy, pattern=pattern)
        return lambda x, load: (slope(x, load), curvature(x, load).values), (places, load)
    if library.hessian_product is None:
        raise Unsupported("no sparse derivatives, and no diff with prepend")
    vectors = [(np.arange(MASSES) % COLOURS == colour).astype(float) for colour in range(COLOURS)]

    def both(x: Any, load: Any) -> Any:
        products = [library.hessian_product(energy, x, vector, load) for vector in vectors]
        return slope(x, load), program["np"].stack(products)

    return both, (places, load)


PROGRAMS: dict[str, Callable[[Names, Any], Work]] = {
    "gaussian_process": gradient("negative_log_likelihood", 0),
    "gaussian_mixture": gradient("negative_log_likelihood", 1),
    "logistic_regression": newton,
    "character_lstm": gradient("loss", 3),
    "variational_inference": bound,
    "fluid_simulation": gradient("distance"),
    "bayesian_network_hmc": leapfrog,
    "kalman_filter": gradient("negative_log_likelihood", 7),
    "drum": gradient("discord", 8),
    "wave_inverse_design": gradient("negative_brightness"),
    "ode_fit": gradient("misfit", 5),
    "springs": sparse_newton,
}


def missing(name: str) -> str | None:
    """The package without which a program cannot be read; None where it can."""
    needs_scipy = "from scipy" in (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return "scipy" if needs_scipy and importlib.util.find_spec("scipy") is None else None


class Program:
    """A program's inner work in a peer whose transformations are functions of functions."""

    def __init__(self, library: Any, name: str) -> None:
        self._library = library
        self._written, arguments = PROGRAMS[name](loaded(name, library.imports), library)
        self._arguments = tuple(map(self._array, arguments))
        self._timed = library.compile(self._written)

    def _array(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._array(leaf) for key, leaf in value.items()}
        return self._library.asarray(value) if isinstance(value, np.ndarray) else value

    def call(self) -> Work:
        """Returns the function that is timed, not compiled, and its arguments."""
        return self._written, self._arguments

    def reset(self) -> None:
        """Nothing to go back to."""

    def step(self) -> Any:
        """Does the work once."""
        return self._library.wait(self._timed(*self._arguments))

    def outcome(self) -> Outcome:
        """The norms of all results; that of the first one stands as the loss."""
        named = dict(leaves(self.step()))
        found = describe(0.0, named)
        return replace(found, loss=next(iter(found.norms.values())))


def leaves(result: Any, name: str = "") -> list[tuple[str, Any]]:
    """The arrays of nested tuples, lists and dicts, with names that say where they are."""
    if isinstance(result, dict):
        items = sorted(result.items())
    elif isinstance(result, list | tuple):
        items = list(enumerate(result))
    else:
        return [(name or "result", result)]
    return [leaf for key, value in items for leaf in leaves(value, f"{name}[{key}]")]
