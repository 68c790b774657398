"""The cost of hooks that do nothing: `python -m benchmarks.hook_costs`.

A cell is a time over the time of the same work without hooks, which takes turns with it in one
process; the first figure of a line is that time itself. `unmatched` is a hook that chooses an
operation that never comes, `forward`, `backward` and `both` a hook with those methods on every
operation. `residuals` keeps copies of what the backward pass needs in its place; compiled functions
run as they were written under it. In the second table a hook, or a capture, chooses one tag of a
compiled function; `one run` is a hook that leaves it to the plan it is called from to compute the
result. The third has the check of NaN and infinity, on all operations and on those of
one name. The command fails where a hook was not called as often as it should be, or has changed a
result. The cost without any hook is what `python -m benchmarks` measures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from benchmarks.case import tree_map
from benchmarks.data import problem
from benchmarks.peers.functensor_peer import LOSSES
from benchmarks.report import aligned, decimal, milliseconds, status
from benchmarks.run import positive

Work = Callable[[], Any]

LIMIT = 3.0
# Of the check of NaN and infinity, where a compiled function is checked.
CHECK_LIMIT = 1.3
TURN_SECONDS = 0.05
TAG = "hidden"


class Counting(ft.hooks.Hook):
    """Counts its calls."""

    calls = 0


class Forward(Counting):
    """Looks at every result."""

    def forward(self, op: ft.hooks.Operation, inputs: Sequence[Any], output: Any) -> None:
        self.calls += 1


class Backward(Counting):
    """Looks at every cotangent."""

    def backward(
        self, op: ft.hooks.Operation, grad_inputs: Sequence[Any], grad_output: Any
    ) -> None:
        self.calls += 1


class Both(Forward, Backward):
    """Looks at both."""


class Residuals(ft.hooks.ResidualHook):
    """Keeps a copy of every residual."""

    calls = 0

    def pack(self, op: ft.hooks.Operation, value: Any) -> Any:
        return fnp.copy(value)

    def unpack(self, op: ft.hooks.Operation, packed: Any) -> Any:
        self.calls += 1
        return packed


def under(work: Work, hook: Any, match: str | None = None) -> Work:
    """Returns the same work under a hook."""

    def hooked() -> Any:
        with ft.hooks.use(hook, match):
            return work()

    return hooked


def hooked_works(work: Work, gradient: bool) -> dict[str, Work]:
    """Returns work without hooks and under each hook on all operations."""
    works = {"none": work, "unmatched": under(work, Both(), "fft")}
    works["forward"] = under(work, Forward())
    if gradient:
        works |= {"backward": under(work, Backward()), "both": under(work, Both())}
        works["residuals"] = under(work, Residuals())
    return works


def works_of(workload: str, gradient: bool, compiled: bool) -> dict[str, Work]:
    """Returns the works of a workload's loss, or of its value and gradient."""
    data = problem(workload)
    arguments = [tree_map(fnp.asarray, data.params), *map(fnp.asarray, data.batch)]
    loss = LOSSES.by_workload()[data.family]
    written = ft.value_and_grad(loss) if gradient else loss
    function = ft.jit(written) if compiled else written
    return hooked_works(lambda: function(*arguments), gradient)


def tagged_loss(params: Mapping[str, Any], x: Any, labels: Any) -> Any:
    """The loss of mlp-medium, with a name for its first hidden layer."""
    hidden = ft.nn.relu(x @ params["dense1_w"] + params["dense1_b"])
    hidden = ft.tag(hidden, TAG)
    hidden = ft.nn.relu(hidden @ params["dense2_w"] + params["dense2_b"])
    logits = hidden @ params["dense3_w"] + params["dense3_b"]
    return fnp.mean(ft.nn.softmax_cross_entropy(logits, labels))


def tagged_works(gradient: bool) -> dict[str, Work]:
    """Returns compiled work with one tag, without hooks and with those that choose the tag."""
    data = problem("mlp-medium")
    arguments = [tree_map(fnp.asarray, data.params), *map(fnp.asarray, data.batch)]
    captured = ft.hooks.capture(tagged_loss, TAG)
    if gradient:
        function = ft.jit(ft.value_and_grad(tagged_loss))
        capturing = ft.jit(ft.value_and_grad(captured, has_aux=True))
    else:
        function, capturing = ft.jit(tagged_loss), ft.jit(captured)

    def run() -> Any:
        return function(*arguments)

    one_run = Forward()
    one_run.exact = False
    works = {"none": run, "forward": under(run, Forward(), TAG)}
    works["one run"] = under(run, one_run, TAG)
    if gradient:
        works |= {"backward": under(run, Backward(), TAG), "both": under(run, Both(), TAG)}
    return works | {"capture": lambda: capturing(*arguments)}


def checked_works(compiled: bool) -> dict[str, Work]:
    """Returns the value and gradient of mlp-medium's loss, without and with a check of NaN."""
    data = problem("mlp-medium")
    arguments = [tree_map(fnp.asarray, data.params), *map(fnp.asarray, data.batch)]
    written = ft.value_and_grad(LOSSES.by_workload()[data.family])
    function = ft.jit(written) if compiled else written

    def run() -> Any:
        return function(*arguments)

    def checked(**choices: Any) -> Work:
        def work() -> Any:
            with ft.hooks.check_finite(**choices):
                return run()

        return work

    def switched() -> Any:
        with ft.config.using(check_finite=True):
            return run()

    works = {"none": run, "check_finite": checked(), "config": switched}
    return works | {"nan": checked(inf=False), "where": checked(where="matmul")}


def timed(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Returns the least seconds of each work; they take turns."""
    clock = time.perf_counter
    best, repeats = {}, {}
    for name, work in works.items():
        # The first call under a hook runs operation by operation, the second one compiles.
        work(), work()
        start = clock()
        work()
        best[name] = clock() - start
        repeats[name] = max(1, round(TURN_SECONDS / best[name]))
    for _ in range(rounds):
        for name, work in works.items():
            for _ in range(repeats[name]):
                start = clock()
                work()
                best[name] = min(best[name], clock() - start)
    return best


def leaves(result: Any) -> list[Any]:
    """Returns a result's arrays."""
    return [np.asarray(leaf) for leaf in ft.tree.leaves(result)]


def differs(works: Mapping[str, Work], compiled: bool, checked: bool) -> list[str]:
    """Returns the hooks under which a result is not the same to the last bit."""
    # The check keeps a plan over NumPy.
    with ft.config.using(deterministic=checked):
        first = leaves(works["none"]())
        return [
            name
            for name, work in works.items()
            # Under a residual hook a compiled function runs as written, and rounds otherwise.
            if name not in ("none", "capture", "one run", *(["residuals"] if compiled else []))
            and not all(map(np.array_equal, first, leaves(work())))
        ]


def calls_of(gradient: bool) -> tuple[int, int]:
    """Returns how often hooks are called, forward and backward, in scalar-ops."""
    hook, back = Forward(), Backward()
    data = problem("scalar-ops")
    loss = LOSSES.by_workload()["scalar-ops"]
    work = ft.value_and_grad(loss) if gradient else loss
    for one in (hook, back):
        with ft.hooks.use(one):
            work(fnp.asarray(data.params))
    return hook.calls, back.calls


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Times without hooks, and ratios to them."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row if name != "none"))
    lines = [["work", "ms without", *columns]]
    for title, row in rows.items():
        ratios = [row[name] / row["none"] if name in row else None for name in columns]
        lines.append([title, milliseconds(row["none"]), *map(decimal, ratios)])
    return aligned(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a hook changes a result or is not called."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.hook_costs", description=__doc__)
    options.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parsed = options.parse_args(arguments)
    problems = []
    residuals = Residuals()
    hooked = under(works_of("mlp-small", gradient=True, compiled=False)["none"], residuals)
    hooked()
    if not residuals.calls:
        problems.append("a residual hook is not called in mlp-small")
    if calls_of(gradient=False) != (201, 0) or calls_of(gradient=True) != (201, 201):
        problems.append("scalar-ops has 201 operations, but hooks were called another number")
    every = {
        f"{workload}{', jit' if compiled else ''}{', gradient' if gradient else ''}": works_of(
            workload, gradient, compiled
        )
        for workload, kinds in (("scalar-ops", [False]), ("mlp-small", [False, True]))
        for compiled in kinds
        for gradient in (False, True)
    }
    tagged = {
        "mlp-medium, jit": tagged_works(False),
        "mlp-medium, jit, gradient": tagged_works(True),
    }
    checks = {
        "mlp-medium, gradient": checked_works(compiled=False),
        "mlp-medium, jit, gradient": checked_works(compiled=True),
    }
    groups = ("every operation", every), ("one tag", tagged), ("NaN and infinity", checks)
    for heading, group in groups:
        print(f"hooks on {heading}: times of the time without")
        rows = {title: timed(works, parsed.rounds) for title, works in group.items()}
        print(table(rows), end="\n\n")
        problems += [
            f"{title}: {name} changes a result"
            for title, works in group.items()
            for name in differs(works, "jit" in title, checked=group is checks)
        ]
        if heading == "every operation":
            for title in ("scalar-ops", "scalar-ops, gradient"):
                for name in ("forward", "backward", "both"):
                    if name in rows[title]:
                        cost = rows[title][name] / rows[title]["none"]
                        within = "yes" if cost <= LIMIT else "NO"
                        print(f"{title}: {name} within {LIMIT} times: {within}")
            print()
        if heading == "NaN and infinity":
            title, row = "mlp-medium, jit, gradient", rows["mlp-medium, jit, gradient"]
            within = "yes" if row["check_finite"] <= CHECK_LIMIT * row["none"] else "NO"
            print(f"{title}: check_finite within {CHECK_LIMIT} times: {within}")
    return status(problems)


if __name__ == "__main__":
    sys.exit(main())
