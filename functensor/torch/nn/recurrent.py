"""Recurrent modules: RNN, LSTM and GRU, and their cells."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...backends.annotations import DTypeLike
from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops
from ...primitives.nn.recurrent import gru, lstm
from ...tensors.functions.naming import on_host
from ..creation import empty
from . import functional as F
from . import init
from .module import Module
from .packed import PackedSequence, run_packed
from .parameter import Parameter

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


def lstm_steps(from_inputs: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Returns the results of all steps (time, batch, width), and the last state (h, c)."""
    rows = from_inputs if bias is None else from_inputs + bias
    states = lstm(rows, *state, weight)
    width = state[0].shape[-1]
    out = states[..., :width]
    last = states[-1] if len(states) else None
    return out, state if last is None else (last[..., :width], last[..., width:])


def projected_steps(projection: Any) -> Any:
    """Returns the function of all steps of an LSTM whose results are projected by a matrix."""

    def steps(from_inputs: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
        h, c = state
        out = []
        for t in range(from_inputs.shape[0]):
            i, f, g, o = (from_inputs[t] + F.linear(h, weight, bias)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = F.linear(o.sigmoid() * c.tanh(), projection)
            out.append(h)
        none = from_inputs.new_zeros(0, *h.shape)
        return (ops.stack(out) if out else none), (h, c)

    return steps


def gru_steps(from_inputs: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Returns the results of all steps (time, batch, width), and the last state (h,)."""
    inner = weight.new_zeros(weight.shape[0]) if bias is None else bias
    out = gru(from_inputs, *state, weight, inner)
    return out, (out[-1],) if len(out) else state


def plain_steps(activation: Any) -> Any:
    """Returns the function of all steps of a plain network."""

    def steps(from_inputs: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
        (h,) = state
        out = []
        for t in range(from_inputs.shape[0]):
            h = activation(from_inputs[t] + F.linear(h, weight, bias))
            out.append(h)
        return (ops.stack(out) if out else from_inputs), (h,)

    return steps


STEPS_OF_KIND = {
    "LSTM": lstm_steps, "GRU": gru_steps, "tanh": plain_steps(ops.tanh),
    "relu": plain_steps(ops.relu),
}  # fmt: skip


def one_step(steps: Any) -> Any:
    """Returns the function of one step, (batch, rows) of all gates, from that of several."""
    return lambda row, state, weight, bias: steps(row.unsqueeze(0), state, weight, bias)[1]


GATES = {"LSTM": 4, "GRU": 3, "tanh": 1, "relu": 1}


class Recurrent(Module):
    """The base of networks over sequences.

    Args:
        input_size, hidden_size: the lengths of an input's and a state's last axis.
        num_layers: how many there are, each over the results of that below.
        bias: whether there are biases.
        batch_first: whether sequences are (batch, time, features), not (time, batch, features).
        dropout: the probability of a layer's results to be dropped, but for those of the last.
        bidirectional: whether there is a second network that goes backwards.
        device, dtype: of the parameters.
    """

    mode = ""
    # The length of projected results; 0 where they are as long as the state.
    proj_size = 0

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional = bidirectional
        rows, length = GATES[self.mode] * hidden_size, self.proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else length * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                shapes: dict[str, Any] = {
                    "weight_ih": (rows, width),
                    "weight_hh": (rows, length),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if self.proj_size:
                    shapes["weight_hr"] = (length, hidden_size)
                for name, shape in shapes.items():
                    value = Parameter(empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_{suffix}", value)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        """Returns what names of a layer's parameters end with, for each direction."""
        return [f"l{layer}", f"l{layer}_reverse"][: 1 + self.bidirectional]

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        bound = 1 / sqrt(self.hidden_size) if self.hidden_size else 0
        for x in self.parameters():
            init.uniform_(x, -bound, bound)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of every direction of every layer."""
        return [
            [x for name, x in self._parameters.items() if name.partition("_l")[2] == suffix[1:]]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    def flatten_parameters(self) -> None:
        """Does nothing: parameters stay as they are."""

    def _zeros(self, x: Any, count: int) -> Any:
        """Returns the states at the beginning for so many sequences, of which x is a part."""
        directions = self.num_layers * (1 + self.bidirectional)
        state = x.new_zeros(directions, count, self.proj_size or self.hidden_size)
        if self.mode != "LSTM":
            return (state,)
        inner = x.new_zeros(directions, count, self.hidden_size) if self.proj_size else state
        return state, inner

    def _run(self, input: Any, states: Any) -> Any:
        """Returns the results, and the last states, a tuple of tensors."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{type(self).__name__}: an input has 2 or 3 axes, the last of length "
                f"{self.input_size}; got the shape {input.shape}"
            )
        single = input.ndim == 2
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        if states is None:
            states = self._zeros(x, x.shape[1])
        elif single:
            states = tuple([s.unsqueeze(1) for s in states])
        last: list[Any] = []
        for layer in range(self.num_layers):
            found = []
            for suffix in self._suffixes(layer):
                begin = tuple([s[len(last)] for s in states])
                out, end = self._direction(x, begin, suffix)
                found.append(out)
                last.append(end)
            x = found[0] if len(found) == 1 else ops.concatenate(found, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        ends = tuple([ops.stack(list(each)) for each in zip(*last)])
        if single:
            return x.squeeze(1), tuple([e.squeeze(1) for e in ends])
        return x.transpose(0, 1) if self.batch_first else x, ends

    def _run_packed(self, packed: PackedSequence, states: Any) -> Any:
        """Returns packed results, and the last states, of packed sequences."""
        if states is None:
            states = self._zeros(packed.data, on_host(packed.batch_sizes)[0].item())
        layers = [
            [
                (one_step(self._steps(name)), *self._weights(name), name.endswith("reverse"))
                for name in names
            ]
            for names in map(self._suffixes, range(self.num_layers))
        ]
        return run_packed(
            packed, states, layers, lambda x: F.dropout(x, self.dropout, self.training)
        )

    def _steps(self, suffix: str) -> Any:
        """Returns the function of all steps of one direction of a layer."""
        if self.proj_size:
            return projected_steps(getattr(self, f"weight_hr_{suffix}"))
        return STEPS_OF_KIND[self.mode]

    def _weights(self, suffix: str) -> tuple[list[Any], list[Any]]:
        """Returns the weights and the biases of one direction of a layer."""
        weights = [getattr(self, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh")]
        biases = [
            getattr(self, f"{name}_{suffix}") if self.bias else None
            for name in ("bias_ih", "bias_hh")
        ]
        return weights, biases

    def _direction(self, x: Any, state: Any, suffix: str) -> Any:
        """Returns the results of one direction of a layer, and its last state."""
        weights, biases = self._weights(suffix)
        # All inputs meet their weights in one product.
        from_inputs = F.linear(x, weights[0], biases[0])
        steps = self._steps(suffix)
        if not suffix.endswith("reverse"):
            return steps(from_inputs, state, weights[1], biases[1])
        out, last = steps(ops.flip(from_inputs, 0), state, weights[1], biases[1])
        return ops.flip(out, 0), last

    def extra_repr(self) -> str:
        """Returns the options that are no defaults."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size:
            shown.append(f"proj_size={self.proj_size}")
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, default in {**defaults, "bidirectional": False}.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown)


def checked_nonlinearity(layer: str, name: str) -> str:
    """Returns the name of a function that simple recurrent layers have.

    Raises:
        ValueError: they have none of that name.
    """
    if name not in ("tanh", "relu"):
        raise ValueError(f"{layer}: nonlinearity is 'tanh' or 'relu', not {name!r}")
    return name


class RNN(Recurrent):
    """Elman's network: ``h = tanh(W x + b + V h + c)``; see `Recurrent` for the arguments.

    Args:
        nonlinearity: ``"tanh"`` or ``"relu"``, behind ``num_layers``.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        object.__setattr__(self, "mode", checked_nonlinearity("RNN", nonlinearity))
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    def forward(self, input: Array, hx: Any = None) -> Any:
        """Returns the results of the last layer, and the last states of all."""
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h


class GRU(Recurrent):
    """Gated recurrent units (Cho et al., 2014); see `Recurrent` for the arguments."""

    mode = "GRU"

    def forward(self, input: Array, hx: Any = None) -> Any:
        """Returns the results of the last layer, and the last states of all."""
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); see `Recurrent`.

    Args:
        proj_size: the length that results h are projected to by a matrix (Sak et al., 2014), below
            ``hidden_size``; 0 for none. It stands behind ``bidirectional``.

    Raises:
        ValueError: ``proj_size`` is not from 0 to below ``hidden_size``.

    >>> import functensor.torch as torch
    >>> out, (h, c) = torch.nn.LSTM(3, 5, batch_first=True)(torch.ones(2, 7, 3))
    >>> out.shape, h.shape
    ((2, 7, 5), (1, 2, 5))
    """

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        if proj_size and not 0 < proj_size < hidden_size:
            raise ValueError(f"LSTM: proj_size is {proj_size}, not from 0 to {hidden_size - 1}")
        object.__setattr__(self, "proj_size", proj_size)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Array, hx: Any = None) -> Any:
        """Returns the results of the last layer, and the last states (h, c) of all."""
        return self._run(input, hx)


class SingleStep(Module):
    """The base of single steps.

    Args:
        input_size, hidden_size: the lengths of an input's and a state's last axis.
        bias: whether there are biases.
        device, dtype: of the parameters.
    """

    mode = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = GATES[self.mode] * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in {**shapes, "bias_ih": (rows,), "bias_hh": (rows,)}.items():
            there = bias or not name.startswith("bias")
            value = Parameter(empty(shape, device=device, dtype=dtype)) if there else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        bound = 1 / sqrt(self.hidden_size) if self.hidden_size else 0
        for x in self.parameters():
            init.uniform_(x, -bound, bound)

    def _step(self, input: Any, state: Any) -> Any:
        """Returns the next state, a tuple."""
        if state is None:
            begin = input.new_zeros(*input.shape[:-1], self.hidden_size)
            state = (begin, begin) if self.mode == "LSTM" else (begin,)
        single = input.ndim == 1
        x, *begin = [v.unsqueeze(0) if single else v for v in (input, *state)]
        from_input = F.linear(x, self.weight_ih, self.bias_ih).unsqueeze(0)
        steps = STEPS_OF_KIND[self.mode]
        _, last = steps(from_input, tuple(begin), self.weight_hh, self.bias_hh)
        return tuple([v.squeeze(0) for v in last]) if single else last

    def extra_repr(self) -> str:
        """Returns the options."""
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(SingleStep):
    """One step of an `RNN`; ``nonlinearity`` is ``"tanh"`` or ``"relu"``."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        object.__setattr__(self, "mode", checked_nonlinearity("RNNCell", nonlinearity))
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Array, hx: Any = None) -> Any:
        """Returns the next state."""
        return self._step(input, None if hx is None else (hx,))[0]


class GRUCell(SingleStep):
    """One step of a `GRU`."""

    mode = "GRU"

    def forward(self, input: Array, hx: Any = None) -> Any:
        """Returns the next state."""
        return self._step(input, None if hx is None else (hx,))[0]


class LSTMCell(SingleStep):
    """One step of an `LSTM`."""

    mode = "LSTM"

    def forward(self, input: Array, hx: Any = None) -> Any:
        """Returns the next state (h, c)."""
        return self._step(input, hx)
