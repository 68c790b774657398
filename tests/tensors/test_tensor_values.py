"""Tensors: changes in place, other transformations, conversion, PyTorch's names, messages."""

import copy
import pickle

import numpy
import pytest
from support.tensor_cases import VALUES, leaf, message_of

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.errors import (
    BackwardError,
    GradientInputError,
    ImmutableArrayError,
    MissingGradientError,
    MissingGradientWarning,
    NonScalarOutputError,
    RuleResultError,
    ShapeError,
    TracerConversionError,
)

# Changes in place


def test_change_in_place_keeps_what_was_computed():
    x = leaf()
    y = x.clone()
    before = y.exp()
    same = y
    y[0] = 0.0
    y += x
    y.mul_(2).add_(x, alpha=3)
    y[:, 1:] = x[:, 1:] ** 2
    assert same is y
    assert y._version == 5
    (before.sum() + (y * y).sum()).backward()

    def functional(x):
        y = x.at[0].set(0.0)
        y = ((y + x) * 2 + 3 * x).at[:, 1:].set(x[:, 1:] ** 2)
        return np.sum(np.exp(x)) + np.sum(y * y)

    numpy.testing.assert_allclose(x.grad, ft.grad(functional)(VALUES), rtol=1e-12)


OPERATORS = {
    "+=": (lambda x, y: x.__iadd__(y), numpy.add),
    "-=": (lambda x, y: x.__isub__(y), numpy.subtract),
    "*=": (lambda x, y: x.__imul__(y), numpy.multiply),
    "/=": (lambda x, y: x.__itruediv__(y), numpy.divide),
    "//=": (lambda x, y: x.__ifloordiv__(y), numpy.floor_divide),
    "%=": (lambda x, y: x.__imod__(y), numpy.remainder),
    "**=": (lambda x, y: x.__ipow__(y), numpy.power),
    "sub_": (lambda x, y: x.sub_(y, alpha=2), lambda x, y: x - 2 * y),
    "div_": (lambda x, y: x.div_(y), numpy.divide),
    "copy_": (lambda x, y: x.copy_(y), lambda x, y: 0 * x + y),
    "neg_": (lambda x, y: x.neg_(), lambda x, y: -x),
    "exp_": (lambda x, y: x.exp_(), lambda x, y: numpy.exp(x)),
    "clamp_": (lambda x, y: x.clamp_(1.5, 2.5), lambda x, y: numpy.clip(x, 1.5, 2.5)),
    "masked_fill_": (
        lambda x, y: x.masked_fill_(x > 2, -1),
        lambda x, y: numpy.where(x > 2, -1, x),
    ),
    "fill_": (lambda x, y: x.fill_(7), lambda x, y: numpy.full_like(x, 7)),
    "zero_": (lambda x, y: x.zero_(), lambda x, y: 0 * x),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_in_place(name):
    change, reference = OPERATORS[name]
    x, y = numpy.array([1.0, 2.0, 3.0], "float32"), numpy.array([2.0, 0.5, 1.5])
    made = ft.Tensor(x)
    assert change(made, y) is made
    assert made.dtype == "float32"
    numpy.testing.assert_allclose(made, reference(x, y), rtol=1e-6)
    recorded = leaf(x)
    copied = recorded.clone()
    change(copied, y)
    assert copied.requires_grad
    copied.sum().backward()
    if name in ("//=", "zero_", "fill_", "copy_"):
        # What was written over has no part in the result: its gradient is zero, as in PyTorch.
        assert recorded.grad.tolist() == [0.0, 0.0, 0.0]


def test_value_that_requires_grad_makes_the_target_do_so():
    x = leaf([1.0, 2.0])
    buffer = ft.Tensor(numpy.zeros(3, "float32"))
    buffer[1:] = x * 3
    buffer[0] = x[1]
    (buffer * buffer).sum().backward()
    numpy.testing.assert_allclose(x.grad, [18.0, 40.0])


def test_change_in_place_of_a_leaf():
    x = leaf([1.0, 2.0])

    def change():
        x[0] = 3.0

    assert message_of(BackwardError, change) == [
        (
            f"x[...] = value: tensor {x.id} (float32[2]), at version 0, is a leaf that requires "
            "grad: a change in place would cut it off from its gradient"
        ),
        "  at LINE",
        "  fix: with no_grad(): for an update, or change a copy: y = x.clone()",
        "  see python -m functensor.errors 12",
    ]
    loss = (x * x).sum()
    with ft.no_grad():
        x -= 1
    assert (x.tolist(), x.requires_grad, x.is_leaf, x._version) == ([0, 1], True, True, 1)
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x.data = x.data + 1
    assert x.tolist() == [1, 2]
    x.data[0] = 7
    assert (x.tolist(), x.requires_grad, x.is_leaf) == ([7, 2], True, True)


def test_change_in_place_and_retained_gradient():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.retain_grad()
    y *= 3
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]
    assert x.grad.tolist() == [3, 3]


def test_change_in_place_that_does_not_fit():
    x = ft.Tensor([1, 2])
    with pytest.raises(TypeError, match=r"x \+= y: the result is float32, which tensor \d+"):
        x += 0.5
    with pytest.raises(ShapeError, match=r"x \+= y: the result has shape \(3, 2\)"):
        x += numpy.ones((3, 2), int)
    assert (x.tolist(), x._version) == ([1, 2], 0)


# Other transformations


def test_transformations_take_tensors_and_give_tensors():
    x = leaf()

    def loss(x):
        return (x * x - 2 * x / (3 + x**2)).sum()

    for made, wanted in (
        (ft.grad(loss)(x), ft.grad(loss)(VALUES)),
        (ft.vmap(np.sin)(x), np.sin(VALUES)),
        (ft.vmap(np.multiply, in_axes=(0, None))(x, x[0]), VALUES * VALUES[0]),
        (ft.jvp(np.sin, (x,), (x.detach(),))[1], np.cos(VALUES) * VALUES),
        (ft.vjp(np.sin, x)[1](x.detach())[0], np.cos(VALUES) * VALUES),
        (ft.hessian(loss)(x), ft.hessian(loss)(VALUES)),
    ):
        assert type(made) is ft.Tensor
        assert made.requires_grad
        numpy.testing.assert_allclose(made.detach(), wanted)
    constant = x.detach()
    inside = ft.grad(lambda y: np.sum(y * constant))(VALUES)
    numpy.testing.assert_allclose(inside, VALUES)
    with ft.no_grad():
        numpy.testing.assert_allclose(ft.grad(lambda y: np.sum(y * x))(VALUES), VALUES)


def test_a_tensor_that_requires_grad_inside_a_transformation():
    x = leaf()
    lines = message_of(
        TracerConversionError, lambda: ft.grad(lambda y: np.sum(y * x))(np.ones((2, 3)))
    )
    assert lines[0] == (
        f"tensor {x.id} (float64[2,3]) requires grad and was used inside a transformation: "
        "its gradient would get lost"
    )
    assert lines[1] == "  at LINE"
    assert lines[2].startswith("  under grad(<lambda>")
    assert lines[3:] == [
        "  fix: pass it as an argument of the transformed function, or x.detach()",
        "  see python -m functensor.errors 1",
    ]
    with pytest.raises(TracerConversionError, match=r"was used where a plain array is wanted"):
        ft.Tensor([x[0], x[1]])


def test_traced_values_do_not_get_into_tensors():
    x = ft.Tensor([1.0, 2.0])

    def store(y):
        x[0] = y
        return y

    with pytest.raises(TracerConversionError):
        ft.grad(store)(1.0)
    with pytest.raises(TracerConversionError):
        ft.grad(lambda y: ft.Tensor(y).sum())(1.0)
    assert x.tolist() == [1, 2]


# Conversion


def test_conversion():
    x = leaf()
    assert message_of(TracerConversionError, x.numpy) == [
        f"numpy() asked for a plain NumPy array, but tensor {x.id} (float64[2,3]) requires grad",
        "  at LINE",
        "  fix: x.detach().numpy()",
        "  see python -m functensor.errors 1",
    ]
    with pytest.raises(TracerConversionError):
        numpy.lib.stride_tricks.sliding_window_view(x, (2, 2))
    with pytest.raises(ImmutableArrayError, match=r"buf\[i\] = x"):
        numpy.zeros(6)[:3] = x[0]
    assert numpy.median(x.detach()) == numpy.median(VALUES)
    assert (x.sum().item(), float(x[0, 0]), int(x[0, 2])) == (VALUES.sum(), 0.5, 2)
    assert x.tolist() == VALUES.tolist()
    assert bool(x[0, 0] > 0)


DUPLICATES = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]


@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_copies(duplicate):
    x = leaf()
    other = duplicate(x)
    assert (other.requires_grad, other.tolist(), other.dtype) == (True, x.tolist(), x.dtype)
    with ft.no_grad():
        other += 1
    shared = duplicate is copy.copy
    assert x.tolist() == (other if shared else VALUES).tolist()
    assert duplicate(x.detach()).requires_grad is False
    with pytest.raises(BackwardError, match="the copy would have no graph"):
        duplicate(x * x)


class Named(ft.Tensor):
    """Has attributes, and a constructor of its own."""

    def __init__(self, *args, name, **options):
        super().__init__(*args, **options)
        self.name_of_it = name
        self.list = [name]


class Slotted(ft.Tensor):
    __slots__ = ("kind",)


PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
OTHERS = [copy.copy, copy.deepcopy]
OTHERS += [lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in PROTOCOLS]


@pytest.mark.parametrize("duplicate", OTHERS)
def test_copies_of_subclasses(duplicate):
    x, y = Named(VALUES, name="w", requires_grad=True), Slotted(VALUES)
    y.kind = "s"
    other = duplicate(x)
    assert type(other) is Named
    assert (other.requires_grad, other.tolist(), other.dtype) == (True, x.tolist(), x.dtype)
    assert (other.name_of_it, other.list) == ("w", ["w"])
    assert (other.list is x.list) == (duplicate is copy.copy)
    (other * other).sum().backward()
    assert other.grad.tolist() == (2 * VALUES).tolist()
    other = duplicate(y)
    assert (type(other), other.kind, other.requires_grad) == (Slotted, "s", False)
    alias = x.detach()
    same = alias
    same += 1.0
    assert alias.tolist() == (VALUES + 1.0).tolist()


# Messages


def test_backward_without_a_graph():
    x = ft.Tensor([1.0, 2.0])
    loss = x.sum()
    assert message_of(BackwardError, loss.backward) == [
        (
            f"backward() of tensor {loss.id} (float32[]): nothing that it was computed from "
            "requires grad, so there is no graph to go back over"
        ),
        "  at LINE",
        (
            "  fix: x = Tensor(data, requires_grad=True) before the loss is computed, "
            "outside of no_grad()"
        ),
        "  see python -m functensor.errors 12",
    ]
    y = leaf() * 2
    assert message_of(NonScalarOutputError, y.backward) == [
        f"backward() of tensor {y.id} (float64[2,3]), which is not one real number",
        "  at LINE",
        "  fix: loss.sum().backward(), or pass backward() a gradient of that shape",
        "  see python -m functensor.errors 7",
    ]


def test_requires_grad_where_it_cannot_be_set():
    x = ft.Tensor([1, 2])
    assert message_of(GradientInputError, x.requires_grad_)[0] == (
        f"requires_grad of tensor {x.id} (int64[2]): int64 has no gradient"
    )
    y = leaf() * 2

    def unset():
        y.requires_grad = False

    assert message_of(BackwardError, unset)[0] == (
        f"requires_grad = False on tensor {y.id} (float64[2,3]), which is no leaf: it was "
        "computed by 'multiply'"
    )


@pytest.mark.parametrize(
    ("make", "reason", "fix"),
    [
        (lambda: leaf() * 2, "it is not a leaf, it was computed by 'multiply'", "x.retain_grad()"),
        (lambda: ft.Tensor(1.0), "its requires_grad is False", "Tensor(data, requires_grad=True)"),
    ],
)
def test_gradient_that_is_none(make, reason, fix):
    x = make()
    with pytest.warns(MissingGradientWarning) as caught:
        assert x.grad is None
    lines = str(caught[0].message).split("\n")
    assert caught[0].filename == __file__
    assert lines[0] == f".grad of {x.name()} was read, but it is None: {reason}"
    assert lines[2].startswith(f"  fix: {fix}")
    assert lines[3] == "  see python -m functensor.errors 13"
    with pytest.raises(MissingGradientError, match="was set"):
        x.grad = x
    x.grad = None


def test_grad_may_be_set():
    x = leaf([1.0, 2.0])
    x.grad = numpy.array([3.0, 4.0])
    assert (x.grad.dtype, x.grad.tolist()) == (numpy.dtype("float32"), [3, 4])
    mine = ft.Tensor([5.0, 6.0])
    x.grad = mine
    assert x.grad is mine
    with pytest.raises(RuleResultError):
        x.grad = [1.0]


# Names


X = VALUES.astype("float32")
Y = numpy.array([[[1.0, 2.0, 0.5]], [[3.0, -1.0, 4.0]]])
NAMES = [
    (lambda x: x.sum(dim=0), X.sum(0)),
    (lambda x: x.sum(1, True), X.sum(1, keepdims=True)),
    (lambda x: x.sum(axis=1, keepdims=True), X.sum(1, keepdims=True)),
    (lambda x: x.sum(dim=(0, 1)), X.sum()),
    (lambda x: x.mean(dim=-1, keepdim=True), X.mean(-1, keepdims=True)),
    (lambda x: x.prod(dim=0), X.prod(0)),
    (lambda x: x.var(), X.var(ddof=1)),
    (lambda x: x.var(dim=0), X.var(0, ddof=1)),
    (lambda x: x.var(dim=0, correction=0), X.var(0)),
    (lambda x: x.var(axis=0), X.var(0)),
    (lambda x: x.std(1), X.std(1, ddof=1)),
    (lambda x: x.std(axis=1, ddof=1), X.std(1, ddof=1)),
    (lambda x: x.max(), X.max()),
    (lambda x: x.max(axis=0), X.max(0)),
    (lambda x: x.max(0).values, X.max(0)),
    (lambda x: x.max(dim=1, keepdim=True)[1], X.argmax(1)[:, None]),
    (lambda x: x.min(1).indices, X.argmin(1)),
    (lambda x: x.argmax(dim=1), X.argmax(1)),
    (lambda x: x.argmin(), X.argmin()),
    (lambda x: (x > 1).any(dim=1), (X > 1).any(1)),
    (lambda x: (x > -1).all(0), (X > -1).all(0)),
    (lambda x: x.logsumexp(1), numpy.log(numpy.exp(X).sum(1))),
    (lambda x: x.cumsum(dim=1), X.cumsum(1)),
    (lambda x: x.softmax(dim=1).sum(dim=1), numpy.ones(2)),
    (lambda x: x.log_softmax(1).exp().sum(1), numpy.ones(2)),
    (lambda x: x.view(3, -1), X.reshape(3, 2)),
    (lambda x: x.view((6,)), X.reshape(6)),
    (lambda x: x.reshape(3, 2), X.reshape(3, 2)),
    (lambda x: x.unsqueeze(0).expand(4, -1, 3), numpy.broadcast_to(X, (4, 2, 3))),
    (lambda x: x[0].expand(2, 3), numpy.broadcast_to(X[0], (2, 3))),
    (lambda x: x.unsqueeze(1).permute(2, 0, 1), X[:, None].transpose(2, 0, 1)),
    (lambda x: x.unsqueeze(1).transpose(0, 2), X[:, None].swapaxes(0, 2)),
    (lambda x: x.transpose(0, 1), X.T),
    (lambda x: x.unsqueeze(-1).transpose(2, 0, 1), X[..., None].transpose(2, 0, 1)),
    (lambda x: x.t() + x.T.mT.t(), 2 * X.T),
    (lambda x: x.unsqueeze(1).squeeze(1).squeeze(0), X),
    (lambda x: x.unsqueeze(1).squeeze(), X),
    (lambda x: x.unsqueeze(1).squeeze(axis=1), X),
    (lambda x: x.unsqueeze(0).flatten(1), X.reshape(1, 6)),
    (lambda x: x.flatten(), X.reshape(6)),
    (lambda x: x.unsqueeze(0).flatten(0, 1), X),
    (lambda x: x[0, 0].flatten(), X[0, :1]),
    (lambda x: x.contiguous().clamp(min=0), X.clip(0)),
    (lambda x: x.add(1, alpha=3).sub(x).mul(2).div(4).pow(2), numpy.full((2, 3), 2.25)),
    (lambda x: x.mm(x.t()), X @ X.T),
    (lambda x: x.masked_fill(x < 0, 9.0), numpy.where(X < 0, 9, X)),
    (lambda x: x.gather(1, numpy.array([[2], [0]])), X[[0, 1], [2, 0]][:, None]),
    (lambda x: x.index_select(1, ft.Tensor([2, 0])), X[:, [2, 0]]),
    (lambda x: x.sigmoid() + x.neg().sigmoid(), numpy.ones((2, 3))),
    (lambda x: x.relu().maximum(1).minimum(1.5), X.clip(1, 1.5)),
    (lambda x: x.eq(x) & x.ge(x) & ~x.ne(x) & ~x.lt(x), numpy.ones((2, 3), bool)),
]


@pytest.mark.parametrize("case", range(len(NAMES)))
def test_names(case):
    call, expected = NAMES[case]
    made = call(leaf(X))
    assert type(made) is ft.Tensor
    assert made.shape == numpy.shape(expected)
    numpy.testing.assert_allclose(made.detach(), expected, rtol=1e-5)
    if made.dtype.kind == "f":
        assert made.dtype == "float32"
        assert made.requires_grad


def test_sizes_and_casts():
    x = leaf(X)
    assert (x.size, x.size(), x.size(1), x.numel(), x.dim(), x.ndim) == (6, (2, 3), 3, 6, 2, 2)
    casts = [x.double(), x.float(), x.half(), x.long(), x.int(), x.bool(), x.to("float64")]
    names = ["float64", "float32", "float16", "int64", "int32", "bool", "float64"]
    assert [c.dtype.name for c in casts] == names
    x.double().sum().backward()
    assert x.grad.dtype == "float32"
    with pytest.raises(TypeError, match="dim=0 and axis=1: give one of them"):
        x.sum(dim=0, axis=1)
    with pytest.raises(ValueError, match=r"t\(\) of a tensor of 3 axes"):
        x.unsqueeze(0).t()
