"""Modules without parameters: each calls a function of ``nn.functional`` with its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from ...primitives.core.array import Array
from . import functional as F
from .functional.losses import older_reduction
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BCELoss", "BCEWithLogitsLoss",
    "CTCLoss", "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
    "Fold", "GaussianNLLLoss", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LPPool1d", "LPPool2d", "LPPool3d",
    "LeakyReLU", "LocalResponseNorm", "LogSigmoid", "LogSoftmax", "MSELoss",
    "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "Mish", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "NLLLoss", "PairwiseDistance", "PixelShuffle", "PixelUnshuffle",
    "PoissonNLLLoss", "RReLU", "ReLU", "ReLU6", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "SiLU",
    "Sigmoid", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmax2d", "Softmin", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

REQUIRED = inspect.Parameter.empty

NO_OPTIONS: dict[str, Any] = {}
# Options that are shown even where they are the defaults, by classes without their dimensions.
SHOWN = {
    "AlphaDropout": "p inplace", "AvgPool": "stride padding", "CELU": "alpha",
    "Dropout": "p inplace", "ELU": "alpha", "FeatureAlphaDropout": "p inplace",
    "Fold": "dilation padding stride", "GELU": "approximate", "GLU": "dim",
    "Hardtanh": "min_val max_val", "LeakyReLU": "negative_slope",
    "LocalResponseNorm": "alpha beta k", "MaxPool": "stride padding dilation ceil_mode",
    "LogSoftmax": "dim", "MaxUnpool": "stride padding", "Softmax": "dim", "Softmin": "dim",
    "Softplus": "beta threshold", "Unfold": "dilation padding stride", "Upsample": "mode",
}  # fmt: skip


class Applied(Module):
    """The base of modules that call a function with their options.

    Attributes:
        function: the function.
        options: the defaults of the options, by their names in the order of arguments.
    """

    function: Callable[..., Any]
    options: ClassVar = NO_OPTIONS
    # Options that the function does not take.
    unused: frozenset[str] = frozenset()

    def _begin(self, given: dict[str, Any]) -> None:
        """Keeps the options; tensors are buffers."""
        super().__init__()
        for name, value in given.items():
            if hasattr(value, "detach"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any, **more: Any) -> Any:
        """Returns what the function gives."""
        options = {name: getattr(self, name) for name in self.options if name not in self.unused}
        return type(self).function(*inputs, **options, **more)

    def extra_repr(self) -> str:
        """Returns the options that are no defaults, and those that are always shown."""
        kind = type(self).__name__
        always = SHOWN.get(kind[:-2] if kind[-2:] in ("1d", "2d", "3d") else kind, "").split()
        shown = []
        for name, default in self.options.items():
            value = getattr(self, name)
            if hasattr(value, "detach"):
                continue
            if name == "stride" and value is None and hasattr(self, "kernel_size"):
                value = self.kernel_size
            if name in always or default is REQUIRED or getattr(self, name) != default:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


class Trained(Applied):
    """The base of those that do something only while they are trained."""

    def forward(self, *inputs: Any, **more: Any) -> Any:
        """Returns what the function gives."""
        return super().forward(*inputs, training=self.training, **more)


def layer(
    name: str,
    function: Callable[..., Any],
    doc: str,
    *,
    base: type[Applied] = Applied,
    **options: Any,
) -> Any:
    """Returns the class of a module that calls a function."""
    body = {
        "__doc__": doc, "__module__": __name__, "function": staticmethod(function),
        "options": options, "__init__": constructor(name, options),
    }  # fmt: skip
    return type(name, (base,), body)


def constructor(name: str, options: dict[str, Any]) -> Any:
    """Returns the ``__init__`` of a class, whose arguments are its options."""
    words = [n if v is REQUIRED else f"{n}={v!r}" for n, v in options.items()]
    given = ", ".join([f"{n!r}: {n}" for n in options])
    lines = f"def __init__({', '.join(['self', *words])}):\n    self._begin({{{given}}})"
    made: dict[str, Any] = {"__name__": __name__}
    exec(lines, made)
    made["__init__"].__qualname__ = f"{name}.__init__"
    return made["__init__"]


def activation(name: str, function: Callable[..., Any], **options: Any) -> Any:
    """Returns the class of an activation, which works element by element."""
    says = f"Applies `functional.{function.__name__}`; the options are the function's."
    return layer(name, function, says, **options)


# -- activations

ReLU = activation("ReLU", F.relu, inplace=False)
ReLU6 = activation("ReLU6", F.relu6, inplace=False)
LeakyReLU = activation("LeakyReLU", F.leaky_relu, negative_slope=0.01, inplace=False)
ELU = activation("ELU", F.elu, alpha=1.0, inplace=False)
CELU = activation("CELU", F.celu, alpha=1.0, inplace=False)
SELU = activation("SELU", F.selu, inplace=False)
GELU = activation("GELU", F.gelu, approximate="none")
SiLU = activation("SiLU", F.silu, inplace=False)
Mish = activation("Mish", F.mish, inplace=False)
GLU = activation("GLU", F.glu, dim=-1)
Sigmoid = activation("Sigmoid", F.sigmoid)
LogSigmoid = activation("LogSigmoid", F.logsigmoid)
Tanh = activation("Tanh", F.tanh)
Hardtanh = activation("Hardtanh", F.hardtanh, min_val=-1.0, max_val=1.0, inplace=False)
Hardsigmoid = activation("Hardsigmoid", F.hardsigmoid, inplace=False)
Hardswish = activation("Hardswish", F.hardswish, inplace=False)
Hardshrink = activation("Hardshrink", F.hardshrink, lambd=0.5)
Softshrink = activation("Softshrink", F.softshrink, lambd=0.5)
Tanhshrink = activation("Tanhshrink", F.tanhshrink)
Softplus = activation("Softplus", F.softplus, beta=1.0, threshold=20.0)
Softsign = activation("Softsign", F.softsign)
Threshold = activation("Threshold", F.threshold, threshold=REQUIRED, value=REQUIRED, inplace=False)
Softmax = activation("Softmax", F.softmax, dim=None)
LogSoftmax = activation("LogSoftmax", F.log_softmax, dim=None)
Softmin = activation("Softmin", F.softmin, dim=None)
Softmax2d = layer("Softmax2d", lambda x: F.softmax(x, -3), "Applies a softmax over channels.")
RReLU = layer(
    "RReLU", F.rrelu, "Applies `functional.rrelu`.", base=Trained,
    lower=1 / 8, upper=1 / 3, inplace=False,
)  # fmt: skip


# -- dropout


def dropping(name: str, function: Callable[..., Any]) -> Any:
    """Returns the class of a dropout."""
    says = f"Applies `functional.{function.__name__}` while it is trained."
    return layer(name, function, says, base=Trained, p=0.5, inplace=False)


Dropout = dropping("Dropout", F.dropout)
Dropout1d = dropping("Dropout1d", F.dropout1d)
Dropout2d = dropping("Dropout2d", F.dropout2d)
Dropout3d = dropping("Dropout3d", F.dropout3d)
AlphaDropout = dropping("AlphaDropout", F.alpha_dropout)
FeatureAlphaDropout = dropping("FeatureAlphaDropout", F.feature_alpha_dropout)


# -- pools


def max_pool(n: int) -> Any:
    """Returns the class of a maximum pool."""
    return layer(
        f"MaxPool{n}d", getattr(F, f"max_pool{n}d"), f"Applies `functional.max_pool{n}d`.",
        kernel_size=REQUIRED, stride=None, padding=0, dilation=1, return_indices=False,
        ceil_mode=False,
    )  # fmt: skip


def avg_pool(n: int) -> Any:
    """Returns the class of an average pool."""
    more: dict[str, Any] = {} if n == 1 else {"divisor_override": None}
    return layer(
        f"AvgPool{n}d", getattr(F, f"avg_pool{n}d"), f"Applies `functional.avg_pool{n}d`.",
        kernel_size=REQUIRED, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        **more,
    )  # fmt: skip


def sized_pool(kind: str, n: int) -> Any:
    """Returns the class of a pool to a given size."""
    name = f"adaptive_{kind.lower()}_pool{n}d"
    more: dict[str, Any] = {"return_indices": False} if kind == "Max" else {}
    return layer(
        f"Adaptive{kind}Pool{n}d", getattr(F, name), f"Applies `functional.{name}`.",
        output_size=REQUIRED, **more,
    )  # fmt: skip


def unpool(n: int) -> Any:
    """Returns the class of what puts maxima back."""
    return layer(
        f"MaxUnpool{n}d", getattr(F, f"max_unpool{n}d"), f"Applies `functional.max_unpool{n}d`.",
        kernel_size=REQUIRED, stride=None, padding=0,
    )  # fmt: skip


MaxPool1d, MaxPool2d, MaxPool3d = map(max_pool, (1, 2, 3))
AvgPool1d, AvgPool2d, AvgPool3d = map(avg_pool, (1, 2, 3))
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = map(unpool, (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (sized_pool("Avg", n) for n in (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (sized_pool("Max", n) for n in (1, 2, 3))
LPPool1d = layer(
    "LPPool1d", F.lp_pool1d, "Applies `functional.lp_pool1d`.",
    norm_type=REQUIRED, kernel_size=REQUIRED, stride=None, ceil_mode=False,
)  # fmt: skip
LPPool2d = layer(
    "LPPool2d", F.lp_pool2d, "Applies `functional.lp_pool2d`.",
    norm_type=REQUIRED, kernel_size=REQUIRED, stride=None, ceil_mode=False,
)  # fmt: skip
LPPool3d = layer(
    "LPPool3d", F.lp_pool3d, "Applies `functional.lp_pool3d`.",
    norm_type=REQUIRED, kernel_size=REQUIRED, stride=None, ceil_mode=False,
)  # fmt: skip


# -- places


def padded(kind: str, n: int, mode: str, **more: Any) -> Any:
    """Returns the class of a module that pads n axes."""

    def function(input: Array, padding: Any, value: float = 0.0) -> Any:
        around = (padding,) * (2 * n) if isinstance(padding, int) else padding
        return F.pad(input, around, mode, value)

    return layer(f"{kind}Pad{n}d", function, f"Pads {n} axes.", padding=REQUIRED, **more)


ZeroPad1d, ZeroPad2d, ZeroPad3d = (padded("Zero", n, "constant") for n in (1, 2, 3))
ConstantPad1d, ConstantPad2d, ConstantPad3d = (
    padded("Constant", n, "constant", value=REQUIRED) for n in (1, 2, 3)
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (
    padded("Reflection", n, "reflect") for n in (1, 2, 3)
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    padded("Replication", n, "replicate") for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (padded("Circular", n, "circular") for n in (1, 2, 3))
Upsample = layer(
    "Upsample", F.interpolate, "Returns images of another size; see `functional.interpolate`.",
    size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
)  # fmt: skip
UpsamplingNearest2d = layer(
    "UpsamplingNearest2d", F.interpolate, "Returns images of another size, by nearest neighbours.",
    size=None, scale_factor=None,
)  # fmt: skip
UpsamplingBilinear2d = layer(
    "UpsamplingBilinear2d",
    lambda x, **options: F.interpolate(x, mode="bilinear", align_corners=True, **options),
    "Returns images of another size, bilinearly, with corners that stay.",
    size=None, scale_factor=None,
)  # fmt: skip
PixelShuffle = layer(
    "PixelShuffle", F.pixel_shuffle, "Applies `functional.pixel_shuffle`.", upscale_factor=REQUIRED
)
PixelUnshuffle = layer(
    "PixelUnshuffle", F.pixel_unshuffle, "Applies `functional.pixel_unshuffle`.",
    downscale_factor=REQUIRED,
)  # fmt: skip
ChannelShuffle = layer(
    "ChannelShuffle", F.channel_shuffle, "Applies `functional.channel_shuffle`.", groups=REQUIRED
)
LocalResponseNorm = layer(
    "LocalResponseNorm", F.local_response_norm, "Applies `functional.local_response_norm`.",
    size=REQUIRED, alpha=1e-4, beta=0.75, k=1.0,
)  # fmt: skip
Unfold = layer(
    "Unfold", F.unfold, "Applies `functional.unfold`.",
    kernel_size=REQUIRED, dilation=1, padding=0, stride=1,
)  # fmt: skip
Fold = layer(
    "Fold", F.fold, "Applies `functional.fold`.",
    output_size=REQUIRED, kernel_size=REQUIRED, dilation=1, padding=0, stride=1,
)  # fmt: skip
CosineSimilarity = layer(
    "CosineSimilarity", F.cosine_similarity, "Applies `functional.cosine_similarity`.",
    dim=1, eps=1e-8,
)  # fmt: skip
PairwiseDistance = layer(
    "PairwiseDistance", F.pairwise_distance, "Applies `functional.pairwise_distance`.",
    p=2.0, eps=1e-6, keepdim=False,
)  # fmt: skip


# -- losses


class Loss(Applied):
    """The base of losses; ``size_average`` and ``reduce`` are PyTorch's older words.

    Where they are given they decide on ``reduction``.
    """

    unused = frozenset({"size_average", "reduce"})
    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        # Of a user's own loss.
        super().__init__()
        self.reduction = older_reduction(size_average, reduce, reduction)

    def _begin(self, given: dict[str, Any]) -> None:
        """Keeps the options, and what the older words mean."""
        super()._begin(given)
        words = given.get("size_average"), given.get("reduce")
        self.reduction = older_reduction(*words, self.reduction)


def loss(name: str, function: Callable[..., Any], **options: Any) -> Any:
    """Returns the class of a loss, whose ``reduction`` is the last option but for those given."""
    says = f"Computes `functional.{function.__name__}`; the options are the function's."
    return layer(name, function, says, base=Loss, **options)


OLD: dict[str, Any] = {"size_average": None, "reduce": None}
MEAN = {**OLD, "reduction": "mean"}
WEIGHTED = {"weight": None, **MEAN}

L1Loss = loss("L1Loss", F.l1_loss, **MEAN)
MSELoss = loss("MSELoss", F.mse_loss, **MEAN)
SmoothL1Loss = loss("SmoothL1Loss", F.smooth_l1_loss, **MEAN, beta=1.0)
HuberLoss = loss("HuberLoss", F.huber_loss, reduction="mean", delta=1.0)
NLLLoss = loss(
    "NLLLoss", F.nll_loss, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean",
)  # fmt: skip
CrossEntropyLoss = loss(
    "CrossEntropyLoss", F.cross_entropy, weight=None, size_average=None, ignore_index=-100,
    reduce=None, reduction="mean", label_smoothing=0.0,
)  # fmt: skip
CTCLoss = loss("CTCLoss", F.ctc_loss, blank=0, reduction="mean", zero_infinity=False)
BCELoss = loss("BCELoss", F.binary_cross_entropy, **WEIGHTED)
BCEWithLogitsLoss = loss(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, **WEIGHTED, pos_weight=None
)
KLDivLoss = loss("KLDivLoss", F.kl_div, **MEAN, log_target=False)
PoissonNLLLoss = loss(
    "PoissonNLLLoss", F.poisson_nll_loss, log_input=True, full=False, size_average=None, eps=1e-8,
    reduce=None, reduction="mean",
)  # fmt: skip
GaussianNLLLoss = loss(
    "GaussianNLLLoss", F.gaussian_nll_loss, full=False, eps=1e-6, reduction="mean"
)
HingeEmbeddingLoss = loss("HingeEmbeddingLoss", F.hinge_embedding_loss, margin=1.0, **MEAN)
MarginRankingLoss = loss("MarginRankingLoss", F.margin_ranking_loss, margin=0.0, **MEAN)
CosineEmbeddingLoss = loss("CosineEmbeddingLoss", F.cosine_embedding_loss, margin=0.0, **MEAN)
SoftMarginLoss = loss("SoftMarginLoss", F.soft_margin_loss, **MEAN)
MultiLabelSoftMarginLoss = loss(
    "MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, **WEIGHTED
)
MultiLabelMarginLoss = loss("MultiLabelMarginLoss", F.multilabel_margin_loss, **MEAN)
MultiMarginLoss = loss("MultiMarginLoss", F.multi_margin_loss, p=1, margin=1.0, **WEIGHTED)
TripletMarginLoss = loss(
    "TripletMarginLoss", F.triplet_margin_loss, margin=1.0, p=2.0, eps=1e-6, swap=False, **MEAN
)
TripletMarginWithDistanceLoss = loss(
    "TripletMarginWithDistanceLoss", F.triplet_margin_with_distance_loss, distance_function=None,
    margin=1.0, swap=False, reduction="mean",
)  # fmt: skip
