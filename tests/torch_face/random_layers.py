"""Random configurations of PyTorch's layers and losses: calls as text, and inputs for them.

Each entry takes a source of random numbers, and returns the text that makes a module and what it is
called with. `F` makes an array of floats, `P` one of probabilities, `I` one of integers.

Nothing is normalised over two numbers alone: the results are 1 and -1 whatever these are, and the
gradient, which is zero but for rounding, has no digits.
"""

import numpy


class Draw:
    """Random numbers of one configuration."""

    def __init__(self, seed):
        self.source = numpy.random.default_rng(seed)

    def n(self, low, high):
        return int(self.source.integers(low, high + 1))

    def one(self, *choices):
        return choices[self.n(0, len(choices) - 1)]

    def flag(self):
        return bool(self.n(0, 1))

    def F(self, *shape):
        return self.source.normal(size=shape).astype("float32")

    def P(self, *shape):
        return self.source.uniform(0.05, 0.95, shape).astype("float32")

    def I(self, high, *shape):  # noqa: E743
        return self.source.integers(0, high, shape)

    def signs(self, *shape):
        return (2 * self.I(2, *shape) - 1).astype("float32")

    def batch(self):
        """Returns an axis of examples, or none."""
        return (self.n(1, 3),) if self.n(0, 3) else ()


def words(**options):
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def convolution(d, n, transposed=False):
    groups = d.one(1, 1, 2, 3)
    into, out = groups * d.n(1, 2), groups * d.n(1, 2)
    kernel, stride, dilation = d.n(1, 3), d.n(1, 3), d.n(1, 2)
    padding = d.n(0, dilation * (kernel - 1))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
               "bias": d.flag()}  # fmt: skip
    if transposed:
        options["output_padding"] = d.n(0, max(stride, dilation) - 1)
    else:
        options["padding_mode"] = d.one("zeros", "zeros", "reflect", "replicate", "circular")
        if d.n(0, 4) == 0:
            options.update(padding="same", stride=1)
    size = [dilation * (kernel - 1) + d.n(2, 5) for _ in range(n)]
    name = f"Conv{'Transpose' if transposed else ''}{n}d"
    return f"nn.{name}({into}, {out}, {kernel}, {words(**options)})", [d.F(*d.batch(), into, *size)]


def normalisation(d, name, n):
    channels = d.n(1, 4)
    options = {"eps": d.one(1e-5, 1e-3), "momentum": d.one(0.1, 0.4), "affine": d.flag(),
               "track_running_stats": d.flag(), "bias": d.flag()}  # fmt: skip
    if n == 1 and name == "BatchNorm" and d.flag():
        x = d.F(d.n(3, 5), channels)
    else:
        x = d.F(d.n(2, 4), channels, *[d.n(3 if n == 1 else 2, 5) for _ in range(n)])
    mode = d.one("", "", ".eval()")
    return f"nn.{name}{n}d({channels}, {words(**options)}){mode}", [x * 2 + 1]


def layer_norm(d, name):
    shape = tuple(d.n(3, 5) for _ in range(d.n(1, 2)))
    options = {"eps": d.one(1e-5, 1e-3), "elementwise_affine": d.flag()}
    if name == "LayerNorm":
        options["bias"] = d.flag()
    lead = [d.n(1, 3) for _ in range(d.n(0, 2))]
    return f"nn.{name}({shape}, {words(**options)})", [d.F(*lead, *shape)]


def group_norm(d):
    groups = d.n(1, 3)
    channels = groups * d.n(1, 3)
    places = [d.n(2, 4) for _ in range(d.n(0, 2))]
    if channels // groups * numpy.prod(places) == 2:
        places.append(3)
    x = d.F(d.n(1, 3), channels, *places)
    return f"nn.GroupNorm({groups}, {channels}, affine={d.flag()}, bias={d.flag()})", [x]


def embedding(d):
    number, width = d.n(3, 6), d.n(1, 4)
    options = {"padding_idx": d.one(None, 0, -1)}
    if d.n(0, 3) == 0:
        options.update(max_norm=0.7, norm_type=d.one(2.0, 1.0))
    if d.n(0, 3) == 0:
        options["scale_grad_by_freq"] = True
    shape = [d.n(1, 4) for _ in range(d.n(0, 2))]
    return f"nn.Embedding({number}, {width}, {words(**options)})", [d.I(number, *shape)]


def embedding_bag(d):
    number, width = d.n(3, 6), d.n(1, 4)
    mode = d.one("sum", "mean", "max")
    text = f"nn.EmbeddingBag({number}, {width}, mode={mode!r}, padding_idx={d.one(None, 1)})"
    if d.flag():
        return text, [d.I(number, d.n(1, 3), d.n(1, 4))]
    return text, [d.I(number, 6), numpy.array([0, 2, 5])]


def pool(d, kind, n):
    kernel = d.n(1, 3)
    options = {"stride": d.n(1, 3), "padding": d.n(0, kernel // 2), "ceil_mode": d.flag()}
    if kind == "Max":
        options["dilation"] = d.n(1, 2)
        options["return_indices"] = d.flag()
    else:
        options["count_include_pad"] = d.flag()
        if n > 1 and d.flag():
            options["divisor_override"] = d.n(1, 5)
    size = [d.n(5, 8) for _ in range(n)]
    return f"nn.{kind}Pool{n}d({kernel}, {words(**options)})", [d.F(*d.batch(), d.n(1, 3), *size)]


def adaptive(d, kind, n):
    size = tuple(d.n(1, 4) for _ in range(n))
    out = size[0] if n == 1 or d.flag() else size
    x = d.F(*d.batch(), d.n(1, 3), *[d.n(1, 7) for _ in range(n)])
    return f"nn.Adaptive{kind}Pool{n}d({out})", [x]


def lp_pool(d, n):
    x = d.F(d.n(1, 2), 2, *[d.n(4, 7) for _ in range(n)])
    power, kernel = d.one(2, 3), d.n(1, 3)
    if power == 3:
        # The root of a negative sum is NaN in both, that of one near zero has no digits.
        x = abs(x) + numpy.float32(0.1)
    return f"nn.LPPool{n}d({power}, {kernel}, {d.n(1, 3)}, ceil_mode={d.flag()})", [x]


def recurrent(d, name):
    into, width = d.n(1, 4), d.n(1, 4)
    options = {"num_layers": d.n(1, 2), "bias": d.flag(), "batch_first": d.flag(),
               "bidirectional": d.flag()}  # fmt: skip
    if name == "RNN":
        options["nonlinearity"] = d.one("tanh", "relu")
    batch = d.batch()
    steps = d.n(1, 5)
    x = d.F(*batch, steps, into) if options["batch_first"] and batch else d.F(steps, *batch, into)
    inputs = [x]
    if d.flag():
        layers = options["num_layers"] * (2 if options["bidirectional"] else 1)
        states = [d.F(layers, *batch, width) for _ in range(2 if name == "LSTM" else 1)]
        inputs.append(tuple(states) if name == "LSTM" else states[0])
    return f"nn.{name}({into}, {width}, {words(**options)})", inputs


def cell(d, name):
    into, width, batch = d.n(1, 4), d.n(1, 4), d.batch()
    options = {"bias": d.flag()}
    if name == "RNN":
        options["nonlinearity"] = d.one("tanh", "relu")
    inputs = [d.F(*batch, into)]
    if d.flag():
        states = [d.F(*batch, width) for _ in range(2 if name == "LSTM" else 1)]
        inputs.append(tuple(states) if name == "LSTM" else states[0])
    return f"nn.{name}Cell({into}, {width}, {words(**options)})", inputs


def attention(d):
    heads = d.n(1, 3)
    width = heads * d.n(1, 3)
    options = {"bias": d.flag(), "batch_first": d.flag(), "add_bias_kv": d.flag(),
               "add_zero_attn": d.flag()}  # fmt: skip
    kwidth, vwidth = (d.n(1, 4), d.n(1, 4)) if d.n(0, 2) == 0 else (width, width)
    options.update(kdim=kwidth, vdim=vwidth)
    batch, length, source = d.n(1, 3), d.n(1, 4), d.n(1, 4)

    def sequence(steps, channels):
        return (
            d.F(batch, steps, channels) if options["batch_first"] else d.F(steps, batch, channels)
        )

    inputs = [sequence(length, width), sequence(source, kwidth), sequence(source, vwidth)]
    call = {"need_weights": d.flag(), "average_attn_weights": d.flag()}
    return f"nn.MultiheadAttention({width}, {heads}, {words(**options)})", inputs, call


def transformer(d, part):
    heads = d.n(1, 2)
    width = heads * d.n(3, 4)
    options = {"dim_feedforward": d.n(2, 5), "dropout": 0.0, "activation": d.one("relu", "gelu"),
               "batch_first": d.flag(), "norm_first": d.flag(), "bias": d.flag()}  # fmt: skip
    batch = d.n(1, 3)
    lengths = [d.n(1, 4) for _ in range(1 if part == "Encoder" else 2)]
    inputs = [
        d.F(batch, n, width) if options["batch_first"] else d.F(n, batch, width) for n in lengths
    ]
    return f"nn.Transformer{part}Layer({width}, {heads}, {words(**options)})", inputs


def upsample(d):
    n = d.n(1, 3)
    modes = {1: ("nearest", "linear"), 2: ("nearest", "bilinear", "bicubic"),
             3: ("nearest", "trilinear")}[n]  # fmt: skip
    options = {"mode": d.one(*modes)}
    if options["mode"] != "nearest":
        options["align_corners"] = d.one(True, False)
    if d.flag():
        options["size"] = tuple(d.n(1, 7) for _ in range(n))
    else:
        options["scale_factor"] = d.one(2, 3, 1.5)
    return f"nn.Upsample({words(**options)})", [d.F(2, 2, *[d.n(2, 5) for _ in range(n)])]


def shuffle(d, name):
    factor = d.n(1, 3)
    if name == "ChannelShuffle":
        return f"nn.ChannelShuffle({factor})", [d.F(2, factor * d.n(1, 3), d.n(1, 3), d.n(1, 3))]
    if name == "PixelShuffle":
        x = d.F(*d.batch(), factor**2 * d.n(1, 2), d.n(1, 3), d.n(1, 3))
    else:
        x = d.F(*d.batch(), d.n(1, 2), factor * d.n(1, 3), factor * d.n(1, 3))
    return f"nn.{name}({factor})", [x]


def windows(d, name):
    kernel, dilation, padding, stride = d.n(1, 3), d.n(1, 2), d.n(0, 1), d.n(1, 2)
    size = dilation * (kernel - 1) + d.n(2, 4)
    options = words(dilation=dilation, padding=padding, stride=stride)
    if name == "Unfold":
        return f"nn.Unfold({kernel}, {options})", [d.F(d.n(1, 2), d.n(1, 2), size, size)]
    count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    x = d.F(d.n(1, 2), d.n(1, 2) * kernel**2, count**2)
    return f"nn.Fold(({size}, {size}), {kernel}, {options})", [x]


def padded(d, kind, n):
    size = [d.n(3, 5) for _ in range(n)]
    pads = tuple(d.n(0, 2) for _ in range(2 * n))
    given = f"{pads}, {d.one(0.5, -2.0)}" if kind == "Constant" else f"{pads}"
    return f"nn.{kind}Pad{n}d({given})", [d.F(*d.batch(), 2, *size)]


def shaped(d, text):
    return text, [2 * d.F(*[d.n(1, 4) for _ in range(d.n(1, 4))])]


PLAIN = (
    "Hardsigmoid Hardswish LogSigmoid Mish ReLU ReLU6 SELU Sigmoid SiLU Softsign Tanh Tanhshrink "
    "PReLU Identity"
)
ACTIVATIONS = {name: lambda d, name=name: f"nn.{name}()" for name in PLAIN.split()}
ACTIVATIONS |= {
    "ELU": lambda d: f"nn.ELU({d.one(1.0, 0.3)})",
    "CELU": lambda d: f"nn.CELU({d.one(1.0, 0.3)})",
    "GELU": lambda d: f"nn.GELU({d.one('none', 'tanh')!r})",
    "Hardshrink": lambda d: f"nn.Hardshrink({d.one(0.5, 0.1)})",
    "Hardtanh": lambda d: f"nn.Hardtanh({d.one(-1.0, -0.5)}, {d.one(1.0, 1.5)})",
    "LeakyReLU": lambda d: f"nn.LeakyReLU({d.one(0.01, 0.3)})",
    "RReLU": lambda d: "nn.RReLU().eval()",
    "Softplus": lambda d: f"nn.Softplus({d.one(1, 2)}, {d.one(20, 1)})",
    "Softshrink": lambda d: f"nn.Softshrink({d.one(0.5, 0.1)})",
    "Threshold": lambda d: f"nn.Threshold({d.one(0.2, -0.4)}, -3.0)",
    "Softmin": lambda d: f"nn.Softmin({d.one(0, -1)})",
    "Softmax": lambda d: f"nn.Softmax({d.one(0, -1)})",
    "LogSoftmax": lambda d: f"nn.LogSoftmax({d.one(0, -1)})",
    "Flatten": lambda d: "nn.Flatten(0, -1)",
    "Dropout": lambda d: "nn.Dropout(0.3).eval()",
}


def loss(d, name):
    how = d.one("mean", "sum", "none")
    batch, classes = d.n(1, 4), d.n(2, 5)
    shape = [d.n(1, 4) for _ in range(d.n(1, 3))]
    if name in ("L1Loss", "MSELoss", "SoftMarginLoss"):
        target = d.signs(*shape) if name == "SoftMarginLoss" else d.F(*shape)
        return f"nn.{name}(reduction={how!r})", [d.F(*shape), target]
    if name in ("HuberLoss", "SmoothL1Loss"):
        word = "delta" if name == "HuberLoss" else "beta"
        return f"nn.{name}(reduction={how!r}, {word}={d.one(1.0, 0.4)})", [d.F(*shape), d.F(*shape)]
    if name in ("CrossEntropyLoss", "NLLLoss"):
        options = {"reduction": how, "ignore_index": d.one(-100, 0)}
        weight = d.one("", f", weight=torch.tensor({[0.5, 2.0, 1.0, 0.2, 3.0][:classes]})")
        places = [d.n(1, 3) for _ in range(d.n(0, 2))]
        x = d.F(batch, classes, *places)
        target = 1 + d.I(classes - 1, batch, *places)
        if name == "NLLLoss":
            x = x - numpy.log(numpy.exp(x).sum(1, keepdims=True))
        else:
            options["label_smoothing"] = d.one(0.0, 0.2)
            if d.n(0, 3) == 0:
                del options["ignore_index"]
                target = d.P(*x.shape)
                target /= target.sum(1, keepdims=True)
        return f"nn.{name}({words(**options)}{weight})", [x, target]
    if name == "PoissonNLLLoss":
        options = {"log_input": d.flag(), "full": d.flag(), "reduction": how}
        return f"nn.{name}({words(**options)})", [
            d.P(*shape) + 0.1,
            d.I(6, *shape).astype("float32"),
        ]
    if name == "GaussianNLLLoss":
        return f"nn.{name}(full={d.flag()}, reduction={how!r})", [
            d.F(*shape),
            d.F(*shape),
            d.P(*shape),
        ]
    if name == "KLDivLoss":
        log_target = d.flag()
        target = d.P(*shape)
        text = f"nn.{name}(log_target={log_target}, reduction={d.one(how, 'batchmean')!r})"
        return text, [numpy.log(d.P(*shape)), numpy.log(target) if log_target else target]
    if name == "BCELoss":
        return f"nn.{name}(reduction={how!r})", [d.P(*shape), d.P(*shape)]
    if name == "BCEWithLogitsLoss":
        extra = d.one("", f", pos_weight=torch.tensor([2.0] * {shape[-1]})")
        return f"nn.{name}(reduction={how!r}{extra})", [d.F(*shape), d.P(*shape)]
    if name == "MarginRankingLoss":
        return f"nn.{name}({d.one(0.0, 0.5)}, reduction={how!r})", [d.F(4), d.F(4), d.signs(4)]
    if name == "HingeEmbeddingLoss":
        return f"nn.{name}({d.one(1.0, 0.5)}, reduction={how!r})", [d.F(*shape), d.signs(*shape)]
    if name == "MultiLabelMarginLoss":
        target = numpy.stack([d.source.permutation(classes) for _ in range(batch)])
        target[:, d.n(1, classes - 1)] = -1
        return f"nn.{name}(reduction={how!r})", [d.F(batch, classes), target]
    if name == "MultiLabelSoftMarginLoss":
        target = d.I(2, batch, classes).astype("float32")
        return f"nn.{name}(reduction={how!r})", [d.F(batch, classes), target]
    if name == "CosineEmbeddingLoss":
        inputs = [d.F(batch, classes), d.F(batch, classes), d.signs(batch)]
        return f"nn.{name}({d.one(0.0, 0.3)}, reduction={how!r})", inputs
    if name == "MultiMarginLoss":
        options = {"p": d.one(1, 2), "margin": d.one(1.0, 0.5), "reduction": how}
        return f"nn.{name}({words(**options)})", [d.F(batch, classes), d.I(classes, batch)]
    if name == "TripletMarginLoss":
        options = {
            "margin": d.one(1.0, 0.3),
            "p": d.one(2.0, 1.0),
            "swap": d.flag(),
            "reduction": how,
        }
        return f"nn.{name}({words(**options)})", [d.F(batch, classes) for _ in range(3)]
    if name == "CosineSimilarity":
        return "nn.CosineSimilarity(dim=1)", [d.F(batch, classes, 2), d.F(batch, classes, 2)]
    options = {"p": d.one(2.0, 1.0, 3.0), "keepdim": d.flag()}
    return f"nn.PairwiseDistance({words(**options)})", [d.F(batch, classes), d.F(batch, classes)]


LOSSES = [
    "L1Loss",
    "MSELoss",
    "SoftMarginLoss",
    "HuberLoss",
    "SmoothL1Loss",
    "CrossEntropyLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "GaussianNLLLoss",
    "KLDivLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "MarginRankingLoss",
    "HingeEmbeddingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "CosineEmbeddingLoss",
    "MultiMarginLoss",
    "TripletMarginLoss",
    "CosineSimilarity",
    "PairwiseDistance",
]


def linear(d):
    into, out = d.n(1, 6), d.n(1, 6)
    lead = [d.n(1, 4) for _ in range(d.n(0, 3))]
    return f"nn.Linear({into}, {out}, bias={d.flag()})", [d.F(*lead, into)]


def bilinear(d):
    one, two = d.n(1, 4), d.n(1, 4)
    lead = [d.n(1, 3) for _ in range(d.n(1, 2))]
    return f"nn.Bilinear({one}, {two}, {d.n(1, 4)}, bias={d.flag()})", [
        d.F(*lead, one),
        d.F(*lead, two),
    ]


def local_norm(d):
    x = d.F(2, d.n(2, 6), d.n(1, 4), d.n(1, 4))
    return f"nn.LocalResponseNorm({d.n(1, 4)}, {d.one(1e-4, 0.5)}, {d.one(0.75, 0.5)})", [x]


def glu(d):
    return "nn.GLU(1)", [d.F(d.n(1, 3), 2 * d.n(1, 3), d.n(1, 3))]


LAYERS = {
    "Linear": linear, "Bilinear": bilinear, "GroupNorm": group_norm, "GLU": glu,
    "LocalResponseNorm": local_norm, "Embedding": embedding, "EmbeddingBag": embedding_bag,
    "MultiheadAttention": attention, "Upsample": upsample,
}  # fmt: skip
for dims in (1, 2, 3):
    LAYERS[f"Conv{dims}d"] = lambda d, n=dims: convolution(d, n)
    LAYERS[f"ConvTranspose{dims}d"] = lambda d, n=dims: convolution(d, n, transposed=True)
    for kind in ("Max", "Avg"):
        LAYERS[f"{kind}Pool{dims}d"] = lambda d, kind=kind, n=dims: pool(d, kind, n)
        LAYERS[f"Adaptive{kind}Pool{dims}d"] = lambda d, kind=kind, n=dims: adaptive(d, kind, n)
    for kind in ("BatchNorm", "InstanceNorm"):
        LAYERS[f"{kind}{dims}d"] = lambda d, kind=kind, n=dims: normalisation(d, kind, n)
    for kind in ("Constant", "Reflection", "Replication", "Zero", "Circular"):
        LAYERS[f"{kind}Pad{dims}d"] = lambda d, kind=kind, n=dims: padded(d, kind, n)
    if dims < 3:
        LAYERS[f"LPPool{dims}d"] = lambda d, n=dims: lp_pool(d, n)
for kind in ("RNN", "LSTM", "GRU"):
    LAYERS[kind] = lambda d, kind=kind: recurrent(d, kind)
    LAYERS[f"{kind}Cell"] = lambda d, kind=kind: cell(d, kind)
for kind in ("LayerNorm", "RMSNorm"):
    LAYERS[kind] = lambda d, kind=kind: layer_norm(d, kind)
for kind in ("Encoder", "Decoder"):
    LAYERS[f"Transformer{kind}Layer"] = lambda d, kind=kind: transformer(d, kind)
for kind in ("PixelShuffle", "PixelUnshuffle", "ChannelShuffle"):
    LAYERS[kind] = lambda d, kind=kind: shuffle(d, kind)
for kind in ("Fold", "Unfold"):
    LAYERS[kind] = lambda d, kind=kind: windows(d, kind)
for kind, text in ACTIVATIONS.items():
    LAYERS[kind] = lambda d, text=text: shaped(d, text(d))
for kind in LOSSES:
    LAYERS[kind] = lambda d, kind=kind: loss(d, kind)
