"""Attention with several heads, and the layers of transformers (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from ...backends.annotations import DTypeLike
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...tensors import Tensor
from ...tensors.default_dtypes import TENSOR_DTYPES
from ..creation import empty
from . import functional as F
from . import init
from .applied import Dropout
from .containers import ModuleList
from .layers import Linear
from .module import Module
from .normalization import LayerNorm
from .parameter import Parameter

__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip


class MultiheadAttention(Module):
    """Attention of several heads, each over its part of the features.

    Args:
        embed_dim: the length of queries and results, a multiple of ``num_heads``.
        num_heads: how many heads there are.
        dropout: the probability of a weight to be dropped.
        bias: whether there are biases.
        add_bias_kv: whether there is one more key and value, which are trained.
        add_zero_attn: whether there is one more key and value of zeros.
        kdim, vdim: the lengths of keys and values; by default as queries.
        batch_first: whether inputs are (batch, places, features), not (places, batch, features).
        device, dtype: of the parameters.

    >>> import functensor.torch as torch
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.ones(3, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: {embed_dim} features in {num_heads} heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        alike = self.kdim == self.vdim == embed_dim

        def weight(there: bool, *shape: int) -> Parameter | None:
            return Parameter(empty(shape, device=device, dtype=dtype)) if there else None

        self.register_parameter("in_proj_weight", weight(alike, 3 * embed_dim, embed_dim))
        self.register_parameter("q_proj_weight", weight(not alike, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", weight(not alike, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", weight(not alike, embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", weight(bias, 3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.register_parameter("bias_k", weight(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", weight(add_bias_kv, 1, 1, embed_dim))
        for x in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if x is not None:
                init.xavier_uniform_(x)
        for x in (self.bias_k, self.bias_v):
            if x is not None:
                init.xavier_normal_(x)
        if bias:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:
        """Returns the results, and the weights of keys where they are asked for.

        Args:
            query, key, value: of shape (places, batch, features), or without batch.
            key_padding_mask: booleans (batch, keys), true for keys that are not seen; or numbers.
            need_weights: whether weights are returned; else None.
            attn_mask: booleans (queries, keys), true for keys that are not seen; or numbers.
            average_attn_weights: whether weights are the mean over heads.
            is_causal: with ``attn_mask``, of no effect.
        """
        single = query.ndim == 2
        x = [v.unsqueeze(0) if single else v if self.batch_first else v.transpose(0, 1)
             for v in (query, key, value)]  # fmt: skip
        q, k, v = [self._heads(each, i) for i, each in enumerate(x)]
        mask = self._mask(q, attn_mask, key_padding_mask, single)
        more = (self.bias_k is not None) + self.add_zero_attn
        if more:
            k, v = self._longer(k, self.bias_k), self._longer(v, self.bias_v)
            if mask is not None:
                mask = ops.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, more)])
        weights = None
        if need_weights:
            scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) * (q.shape[-1] ** -0.5)
            weights = ops.softmax(scores if mask is None else scores + mask, axis=-1)
            out = ops.matmul(F.dropout(weights, self.dropout, self.training), v)
        else:
            p = self.dropout if self.training else 0.0
            out = F.scaled_dot_product_attention(q, k, v, mask, p)
        batch, _, places, _ = out.shape
        out = ops.reshape(ops.swapaxes(out, 1, 2), (batch, places, self.embed_dim))
        out = self.out_proj(out)
        if weights is not None and average_attn_weights:
            weights = ops.mean(weights, 1)
        if single:
            return out[0], None if weights is None else weights[0]
        return out if self.batch_first else out.transpose(0, 1), weights

    def _heads(self, x: Any, i: int) -> Any:
        """Returns queries, keys or values of shape (batch, heads, places, width)."""
        rows = slice(i * self.embed_dim, (i + 1) * self.embed_dim)
        if self.in_proj_weight is not None:
            weight = self.in_proj_weight[rows]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[i]
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        y = F.linear(x, weight, bias)
        y = ops.reshape(y, (*y.shape[:2], self.num_heads, self.embed_dim // self.num_heads))
        return ops.swapaxes(y, 1, 2)

    def _longer(self, x: Any, bias: Any) -> Any:
        """Returns keys or values with those that every example has beside its own."""
        batch, heads, _, width = x.shape
        parts = [x]
        if bias is not None:
            shape = (batch, heads, 1, width)
            parts.append(ops.broadcast_to(ops.reshape(bias, (1, heads, 1, width)), shape))
        if self.add_zero_attn:
            parts.append(beside(x, np.zeros((batch, heads, 1, width), x.dtype)))
        return ops.concatenate(parts, 2)

    def _mask(self, q: Any, attn_mask: Any, padding: Any, single: bool) -> Any:
        """Returns numbers that are added to scores, or None."""
        total = None
        if attn_mask is not None:
            total = as_added_numbers(attn_mask, q.dtype)
            if total.ndim == 3:
                shape = (-1, self.num_heads, *total.shape[1:])
                total = ops.reshape(total, shape)
        if padding is not None:
            rows = as_added_numbers(padding.unsqueeze(0) if single else padding, q.dtype)[
                :, None, None, :
            ]
            total = rows if total is None else total + rows
        return total


def as_added_numbers(mask: Any, dtype: Any) -> Any:
    """Returns a mask as numbers: minus infinity where it is true."""
    if mask.dtype.kind != "b":
        return mask
    low, zero = (np.asarray(x, dtype) for x in (-np.inf, 0.0))
    return ops.where(mask, beside(mask, low), beside(mask, zero))


ACTIVATIONS: dict[str, Callable[..., Any]] = {"relu": F.relu, "gelu": F.gelu}


class TransformerLayer(Module):
    """The base of both kinds of layers: attention, and two linear maps with an activation between.

    Args:
        d_model, nhead: the number of features, and of heads.
        dim_feedforward: the number of features between the linear maps.
        dropout: the probability of a feature to be dropped.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: what normalisation adds to the variance.
        batch_first: whether inputs are (batch, places, features).
        norm_first: whether normalisation comes before attention and maps, not after.
        bias: whether there are biases.
        device, dtype: of the parameters.
    """

    attentions: tuple[str, ...] = ()

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[..., Any] = "relu", layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **made
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first = norm_first
        for i in range(1, len(self.attentions) + 2):
            self.add_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for i in range(1, len(self.attentions) + 2):
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def _maps(self, x: Any) -> Any:
        """Returns the two linear maps' result."""
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _residual(self, x: Any, i: int, block: Callable[[Any], Any]) -> Any:
        """Returns x and what a block makes of it, normalised before or after."""
        norm, drop = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        if self.norm_first:
            return x + drop(block(norm(x)))
        return norm(x + drop(block(x)))


class TransformerEncoderLayer(TransformerLayer):
    """Attention of a sequence to itself, then two linear maps; see `TransformerLayer`.

    >>> import functensor.torch as torch
    >>> torch.nn.TransformerEncoderLayer(8, 2, 16)(torch.ones(5, 3, 8)).shape
    (5, 3, 8)
    """

    attentions = ("self_attn",)

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Returns the layer's result; masks are those of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            return self.self_attn(
                x, x, x, src_key_padding_mask, attn_mask=src_mask, need_weights=False
            )[0]

        x = self._residual(src, 1, attend)
        return self._residual(x, 2, self._maps)


class TransformerDecoderLayer(TransformerLayer):
    """Attention of a sequence to itself and to another, then two linear maps."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Returns the layer's result; masks are those of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, attn_mask=tgt_mask, need_weights=False
            )[0]

        def look(x: Any) -> Any:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, attn_mask=memory_mask,
                need_weights=False,
            )[0]  # fmt: skip

        x = self._residual(tgt, 1, attend)
        x = self._residual(x, 2, look)
        return self._residual(x, 3, self._maps)


class Layers(Module):
    """The base of rows of layers.

    Args:
        layer: one of them, which is copied.
        num_layers: how many there are.
        norm: a module behind the last, or None.
    """

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _run(self, x: Any, *args: Any) -> Any:
        """Returns the result of the last layer."""
        for layer in self.layers:
            x = layer(x, *args)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(Layers):
    """Several `TransformerEncoderLayer`; see `Layers` for the arguments."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:  # fmt: skip
        """Returns the result of all layers."""
        return self._run(src, mask, src_key_padding_mask)


class TransformerDecoder(Layers):
    """Several `TransformerDecoderLayer`; see `Layers` for the arguments."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Returns the result of all layers."""
        return self._run(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        )


class Transformer(Module):
    """An encoder, and a decoder that looks at its result.

    Args:
        d_model, nhead: the number of features, and of heads.
        num_encoder_layers, num_decoder_layers: how many layers there are.
        dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: those
            of the layers.
        device, dtype: of the parameters.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[..., Any] = "relu", custom_encoder: Module | None = None,
        custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers, norm()
        )
        for x in self.parameters():
            if x.ndim > 1:
                init.xavier_uniform_(x)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None,
        memory_mask: Any = None, src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Returns the decoder's result."""
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: str | None = None, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Returns a matrix with minus infinity above the diagonal, and zeros."""
        values = np.triu(np.full((sz, sz), -np.inf), 1)
        return Tensor(values, False, dtype or TENSOR_DTYPES["f"], device)
