"""L-BFGS by PyTorch's name, which computes the loss anew by a closure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ... import optim as pure
from ...optim.line_search import inner, packed
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import wrap
from ...primitives.core.errors import failure
from ...tensors import Tensor, enable_grad, gradient_of
from ...tensors.tape import TAPE
from .optimizer import loaded_part
from .pure_steps import PureOptimizer, unpaired, updated_arrays

__all__ = ["LBFGS"]

# A pair whose inner product is not above this is not remembered.
LEAST_CURVATURE = 1e-10
# The conditions of Wolfe: what part of the promised fall a step brings, and of the slope it leaves.
FALL, SLOPE = 1e-4, 0.9
# A line search ends where no parameter differs by this between the ends of its interval.
LEAST_INTERVAL = 1e-9
# How far a point is kept from the ends of its interval, as a part of its length.
MARGIN = 0.1


class Point(NamedTuple):
    """A point on a line: how far it is, the loss, the gradient, and the slope along the line."""

    t: float
    loss: float
    gradient: Any
    slope: float


class LBFGS(PureOptimizer):
    """L-BFGS (Nocedal, 1980): each step computes the loss several times, by a closure.

    Complex parameters are moved as pairs of real numbers.

    Args:
        params: tensors, in one group.
        lr: how long steps are; with a line search the first one that is tried.
        max_iter: how many moves a step makes at most.
        max_eval: how often a step computes the loss at most; by default 1.25 ``max_iter``.
        tolerance_grad: a step ends where no element of the gradient is greater.
        tolerance_change: a step ends where neither a parameter nor the loss changes by more.
        history_size: how many moves are remembered.
        line_search_fn: ``"strong_wolfe"``, or None for moves of the length lr.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([-1.2, 1.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     first = optimizer.step(closure)
    >>> [round(v, 3) for v in x.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGS: line_search_fn is {line_search_fn!r}; it is 'strong_wolfe' or None"
            )
        most = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": most, "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) > 1:
            raise ValueError("LBFGS: it takes one group of parameters")

    def _pure(self, group: dict[str, Any], rate: Any) -> Any:
        return pure.sgd(rate)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes up to ``max_iter`` moves.

        Args:
            closure: clears the gradients, computes the loss, calls its ``backward``, returns it.

        Returns:
            What the closure returned at first.

        Raises:
            TypeError: there is no closure.
        """
        if closure is None:
            raise failure(
                TypeError,
                "LBFGS.step() was given no closure: it computes the loss several times",
                fix="optimizer.step(closure), where closure clears gradients and returns the loss",
                number=None,
            )
        # By PyTorch's names, so that states can be exchanged.
        kept = self.state[self._tensors()[0]]
        memory = {name: changed_leaves(x, Tensor, array_in) for name, x in kept.items()}
        try:
            return self._moved(closure, memory)
        finally:
            kept |= {name: changed_leaves(x, Array, tensor_around) for name, x in memory.items()}

    def _moved(self, closure: Callable[[], Any], memory: dict[str, Any]) -> Any:
        """Makes the moves of a step, of which the memory is told."""
        group = self.param_groups[0]
        first = self._evaluated(closure)
        now = Point(0.0, float(first), self._gradient(), 0.0)
        memory["func_evals"] = memory.get("func_evals", 0) + 1
        evaluations = 1
        if largest(now.gradient) <= group["tolerance_grad"]:
            return first
        for move in range(1, group["max_iter"] + 1):
            memory["n_iter"] = memory.get("n_iter", 0) + 1
            direction = next_direction(memory, now.gradient, group["history_size"])
            beginning = memory["n_iter"] == 1
            t = float(group["lr"])
            if beginning:
                t *= min(1.0, 1.0 / float(ops.sum(ops.absolute(now.gradient))))
            before = now._replace(slope=float(inner(now.gradient, direction)), t=0.0)
            memory |= {"d": direction, "prev_flat_grad": now.gradient, "prev_loss": now.loss}
            if before.slope > -group["tolerance_change"]:
                memory["t"] = t
                break
            tries = 0
            x, unpacked = self._position()

            def put(t: float, x: Any = x, unpacked: Any = unpacked, d: Any = direction) -> None:
                for p, value in zip(self._tensors(), unpacked(ops.add(x, ops.multiply(d, t)))):
                    p.take_value(unpaired(value, p))

            if group["line_search_fn"] is not None:

                def evaluate(t: float, put: Any = put, d: Any = direction) -> Point:
                    put(t)
                    loss = float(self._evaluated(closure))
                    gradient = self._gradient()
                    return Point(t, loss, gradient, float(inner(gradient, d)))

                rounds = group["max_eval"] - evaluations
                least = LEAST_INTERVAL / largest(direction)
                now, tries = line_minimum(evaluate, t, before, least, rounds)
                t = now.t
                put(t)
            else:
                put(t)
                # The gradient after the last move would not be used.
                if move < group["max_iter"]:
                    now = Point(t, float(self._evaluated(closure)), self._gradient(), 0.0)
                    tries = 1
            memory["t"] = t
            memory["func_evals"] += tries
            evaluations += tries
            if (
                evaluations >= group["max_eval"]
                or largest(now.gradient) <= group["tolerance_grad"]
                or largest(ops.multiply(direction, t)) <= group["tolerance_change"]
                or abs(now.loss - before.loss) < group["tolerance_change"]
            ):
                break
        return first

    def _tensors(self) -> list[Tensor]:
        own: list[Tensor] = self.param_groups[0]["params"]
        return own

    def _position(self) -> tuple[Any, Callable[[Any], Any]]:
        return packed(updated_arrays(self._tensors()))

    def _gradient(self) -> Any:
        """Returns all gradients as one vector, with zeros where there is none."""
        found: list[Any] = []
        for p in self._tensors():
            gradient = gradient_of(p)
            found.append(ops.multiply(wrap(p._data), 0) if gradient is None else gradient)
        return packed(updated_arrays(found))[0]

    def _evaluated(self, closure: Callable[[], Any]) -> Any:
        with enable_grad():
            return closure()

    def _loaded(self, p: Any, number: Any, value: Any) -> Any:
        return loaded_part(value, p, "")


def next_direction(memory: dict[str, Any], gradient: Any, size: int) -> Any:
    """Remembers the last move, and returns the next direction."""
    if memory["n_iter"] == 1:
        memory |= {"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1.0}
        return ops.negative(gradient)
    change = ops.subtract(gradient, memory["prev_flat_grad"])
    move = ops.multiply(memory["d"], memory["t"])
    bend = float(inner(change, move))
    changes, moves, inverses = memory["old_dirs"], memory["old_stps"], memory["ro"]
    if bend > LEAST_CURVATURE:
        for row, x in ((changes, change), (moves, move), (inverses, 1.0 / bend)):
            row.append(x)
            del row[: max(len(row) - size, 0)]
        memory["H_diag"] = bend / float(inner(change, change))
    weights = [0.0] * len(moves)
    d = ops.negative(gradient)
    for i in reversed(range(len(moves))):
        weights[i] = inverses[i] * float(inner(moves[i], d))
        d = ops.subtract(d, ops.multiply(changes[i], weights[i]))
    d = ops.multiply(d, memory["H_diag"])
    for i, weight in enumerate(weights):
        rest = weight - inverses[i] * float(inner(changes[i], d))
        d = ops.add(d, ops.multiply(moves[i], rest))
    return d


def changed_leaves(x: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Returns a value, or a list of values, with those of a class changed."""
    if isinstance(x, list):
        return [changed_leaves(y, kind, change) for y in x]
    return change(x) if isinstance(x, kind) else x


def array_in(x: Tensor) -> Array:
    """Returns the array of a tensor's values."""
    return wrap(x._data)


def tensor_around(x: Array) -> Tensor:
    """Returns the tensor of an array that nobody writes to."""
    return TAPE.wrap(x._data, None)  # type: ignore[no-any-return]


def largest(x: Any) -> float:
    """Returns the largest absolute value in a vector."""
    return float(ops.max(ops.absolute(x)))


def line_minimum(
    evaluate: Callable[[float], Point], t: float, start: Point, least: float, rounds: int
) -> tuple[Point, int]:
    """Returns a point that fulfils the strong conditions of Wolfe, and how often it was evaluated.

    J. Nocedal and S. Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6, with PyTorch's
    choice of points. Where the conditions cannot be met it is the lowest end of the last interval.

    Args:
        evaluate: returns the point at a distance.
        t: the first distance.
        start: the point from where it goes.
        least: the search ends where the interval is shorter.
        rounds: how many points there are at most, beside the first.
    """

    def fell(point: Point) -> bool:
        # A loss that is not a number is no fall.
        return point.loss <= start.loss + FALL * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -SLOPE * start.slope

    before, now, made = start, evaluate(t), 0
    while made < rounds:
        risen = made > 1 and now.loss >= before.loss
        if fell(now) and not risen and is_flat(now):
            return now, made + 1
        if risen or not fell(now) or now.slope >= 0:
            break
        bounds = now.t + 0.01 * (now.t - before.t), 10 * now.t
        before, now = now, evaluate(cubic_minimum(before, now, bounds))
        made += 1
    else:
        before = start
    ends = [before, now]
    low = int(now.loss < before.loss)
    stuck = False
    while made < rounds and abs(ends[1].t - ends[0].t) >= least:
        near, far = sorted(end.t for end in ends)
        t = cubic_minimum(ends[0], ends[1], (near, far))
        margin = MARGIN * (far - near)
        close = min(far - t, t - near) < margin
        # One point may be close to an end, the next one not.
        moves = close and (stuck or not near < t < far)
        stuck = close and not moves
        if moves:
            t = far - margin if far - t < t - near else near + margin
        now = evaluate(t)
        made += 1
        if not fell(now) or not now.loss < ends[low].loss:
            ends[1 - low] = now
            low = int(ends[1].loss < ends[0].loss)
            continue
        flat = is_flat(now)
        if not flat and now.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = now
        if flat:
            break
    return ends[low], made + 1


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """Returns the minimum of the cubic through two points with their slopes, within bounds.

    Where it has none, it is the middle between the bounds; on a line, the bound that it falls to.
    """
    found = float("nan")
    first, last = (a, b) if a.t <= b.t else (b, a)
    if first.t < last.t:
        mean = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
        square = mean * mean - a.slope * b.slope
        if 0 <= square < float("inf"):
            above = last.slope + square**0.5 - mean
            below = last.slope - first.slope + 2 * square**0.5
            # Along a line it falls without an end.
            share = above / below if below else above * float("inf")
            found = last.t - (last.t - first.t) * share
    if found != found:
        return (bounds[0] + bounds[1]) / 2
    return min(max(found, bounds[0]), bounds[1])
