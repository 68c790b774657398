"""Cases for libraries whose gradients are functions of a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.case import (
    TRAIN_STEPS,
    Mode,
    Outcome,
    Problem,
    Unsupported,
    as_dict,
    describe,
    tree_map,
)
from benchmarks.program_cases import Program, missing, program_name

Function = Callable[..., Any]


def identity(value: Any) -> Any:
    """The value itself."""
    return value


@dataclass(frozen=True)
class Library:
    """A peer: what the cases need of a library.

    A loss takes the parameters and then the batch. `per_example(f)` maps `f(params, *example)` over
    the leading axis of the batch. `adam_update(params, state, grads)` returns new parameters and
    state. `compile` wraps whatever is timed, and `wait` blocks until a result is computed.
    `donating` compiles a function that may overwrite its first two arguments; `stages(f, args)` has
    the seconds of each part of a first call; `address` is that of an array's elements. `imports`
    has lines of the programs in `examples/programs`, and what stands there for this peer;
    `hessian_product(f, x, vector, *batch)` is the Hessian of `f` at `x` times a vector.
    """

    package: str
    losses: Mapping[str, Function]
    asarray: Function
    grad: Callable[[Function], Function]
    value_and_grad: Callable[[Function], Function]
    hessian: Callable[[Function], Function]
    per_example: Callable[[Function], Function] | None
    adam_init: Function
    adam_update: Function
    compile: Callable[[Function], Function] = identity
    wait: Callable[[Any], Any] = identity
    donating: Callable[[Function], Function] | None = None
    stages: Callable[[Function, tuple[Any, ...]], dict[str, float]] | None = None
    address: Callable[[Any], int] | None = None
    imports: Mapping[str, str] = field(default_factory=dict)
    hessian_product: Function | None = None

    def version(self) -> str:
        """The installed version."""
        return version(self.package)

    def set_threads(self, threads: int) -> None:
        """Environment variables have done it."""

    def build(self, problem: Problem, mode: Mode) -> Evaluation | Training | Program:
        """The case of a problem."""
        name = program_name(problem.workload)
        if name is not None:
            package = missing(name)
            if package is not None or mode != "grad":
                raise Unsupported(package or mode)
            return Program(self, name)
        if problem.family not in self.losses:
            raise Unsupported(problem.workload)
        if problem.kind == "train" and mode == "grad":
            return Training(self, problem)
        return Evaluation(self, problem, mode)


class Evaluation:
    """A function of fixed arguments: a loss, gradient, hessian, or gradients per example."""

    def __init__(self, library: Library, problem: Problem, mode: Mode) -> None:
        self._library = library
        self._mode = mode
        self._arguments = (
            tree_map(library.asarray, problem.params),
            *map(library.asarray, problem.batch),
        )
        loss = library.losses[problem.family]
        self._loss = self._timed = self._gradient = loss
        if problem.kind == "per-example":
            if library.per_example is None:
                raise Unsupported("no vmap")
            self._loss = library.per_example(loss)
            self._gradient = library.per_example(library.grad(loss))
        elif problem.kind == "hessian":
            self._gradient = library.hessian(loss)
        else:
            self._gradient = library.value_and_grad(loss)
        self._has_value = problem.kind in ("gradient", "train")
        self._written = self._gradient if mode == "grad" else self._loss
        self._timed = library.compile(self._written)

    def call(self) -> tuple[Function, tuple[Any, ...]]:
        """Returns the function that is timed, not compiled, and its arguments."""
        return self._written, self._arguments

    def reset(self) -> None:
        """Nothing to go back to."""

    def step(self) -> Any:
        """Evaluate once."""
        return self._library.wait(self._timed(*self._arguments))

    def outcome(self) -> Outcome:
        """The mean loss and, unless only forward, what was differentiated."""
        result = self.step()
        if self._mode == "forward":
            return Outcome(loss=float(np.mean(np.asarray(result))))
        if self._has_value:
            value, gradients = result
            return describe(float(value), gradients)
        return describe(float(np.mean(np.asarray(self._loss(*self._arguments)))), result)


class Training:
    """Value, gradients and an Adam update, starting from the same parameters after each reset."""

    def __init__(self, library: Library, problem: Problem) -> None:
        self._library = library
        self._initial = tree_map(library.asarray, problem.params)
        self._batch = tuple(map(library.asarray, problem.batch))
        self._value_and_grad = library.value_and_grad(library.losses[problem.family])
        self._timed = library.compile(self._update)
        self.reset()

    def call(self) -> tuple[Function, tuple[Any, ...]]:
        """Returns the function that is timed, not compiled, and its arguments."""
        return self._update, (self._params, self._state, *self._batch)

    def forget(self) -> None:
        """Let go of the initial parameters: memory then holds what training itself needs."""
        self._initial = None

    def addresses(self) -> dict[str, int]:
        """The address of each parameter, if the library tells."""
        if self._library.address is None:
            return {}
        return {name: self._library.address(leaf) for name, leaf in as_dict(self._params).items()}

    def _update(self, params: Any, state: Any, *batch: Any) -> tuple[Any, Any, Any]:
        value, gradients = self._value_and_grad(params, *batch)
        params, state = self._library.adam_update(params, state, gradients)
        return params, state, value

    def reset(self) -> None:
        """Go back to the initial parameters and a fresh optimizer state."""
        self._params = self._initial
        self._state = self._library.adam_init(self._initial)

    def step(self) -> Any:
        """One optimizer step."""
        self._params, self._state, value = self._library.wait(
            self._timed(self._params, self._state, *self._batch)
        )
        return value

    def outcome(self) -> Outcome:
        """Loss and gradients at the start, and the loss after `TRAIN_STEPS` steps."""
        value, gradients = self._library.compile(self._value_and_grad)(self._initial, *self._batch)
        self.reset()
        for _ in range(TRAIN_STEPS):
            self.step()
        trained = self.step()
        self.reset()
        return describe(float(value), gradients, float(trained))
