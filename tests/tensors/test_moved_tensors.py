"""Tensors that come to lie in the memory of others, or leave it: what PyTorch does with both."""

from __future__ import annotations

import copy
import gc

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.errors import BackwardError
from functensor.tensors.rebinding import is_shared


def test_a_parameter_shares_memory_with_what_it_is_made_of():
    x = torch.tensor([1.0, 2.0])
    p = torch.nn.Parameter(x)
    x.add_(1)
    assert p.tolist() == [2.0, 3.0]
    with torch.no_grad():
        p.mul_(3)
    assert (x.tolist(), x.requires_grad, p.is_leaf) == ([6.0, 9.0], False, True)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS])
def test_optimizers_write_to_what_a_parameter_is_made_of(optimizer):
    base = torch.ones(3, 2)
    row = base[1]
    p = torch.nn.Parameter(row)
    step = optimizer([p], lr=0.5)

    def closure():
        step.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    step.step(closure)
    assert p.tolist() != [1.0, 1.0]
    assert row.tolist() == base[1].tolist() == p.tolist()
    assert base[0].tolist() == [1.0, 1.0]


def test_a_parameter_of_a_tensor_of_its_own_is_a_view_of_nothing():
    p = torch.nn.Parameter(torch.ones(3))
    gc.collect()
    assert not is_shared(p)
    assert not hasattr(p, "_source")


def test_a_parameter_stays_no_view():
    p, x = torch.nn.Parameter(torch.ones(2)), torch.zeros(2)
    x.data = p
    q = torch.nn.Parameter(p)
    assert not hasattr(p, "_source")
    torch.optim.SGD([p], lr=0.5).zero_grad()
    (p * 2).sum().backward()
    torch.optim.SGD([p], lr=0.5).step()
    assert p.tolist() == x.tolist() == q.tolist() == [0.0, 0.0]


def test_parameters_and_buffers_share_with_numpy():
    array = numpy.ones(2, numpy.float32)
    p, b = torch.nn.Parameter(torch.from_numpy(array)), torch.nn.Buffer(torch.from_numpy(array))
    array[0] = 5.0
    assert p.tolist() == b.tolist() == [5.0, 1.0]
    with torch.no_grad():
        p.mul_(2)
    assert array.tolist() == b.tolist() == [10.0, 2.0]


def test_data_is_the_memory_of_another_tensor():
    x, y = torch.zeros(2), torch.ones(2)
    view = x[0]
    x.data = y
    y.add_(1)
    assert x.tolist() == [2.0, 2.0]
    x[0] = 7.0
    assert y.tolist() == [7.0, 2.0]
    # Those that it shared memory with do not follow.
    assert view.item() == 0.0


def test_views_that_are_behind_stay_in_the_memory_that_is_left():
    x = torch.zeros(3)
    first, second = x[:2], x[1:]
    x.add_(1)
    # Neither view has been read since.
    x.data = torch.full((3,), 9.0)
    first.mul_(5)
    assert (first.tolist(), second.tolist(), x.tolist()) == ([5, 5], [5, 1], [9, 9, 9])


def test_a_view_leaves_its_base():
    base = torch.ones(2, 2)
    row = base[0]
    row.data = torch.zeros(2)
    row.add_(3)
    base.mul_(2)
    assert (base.tolist(), row.tolist()) == ([[2.0, 2.0], [2.0, 2.0]], [3.0, 3.0])


def test_data_takes_another_shape_and_dtype():
    x = torch.zeros(2)
    x.data = torch.ones(3, dtype=torch.int64)
    assert (x.shape, x.dtype) == ((3,), torch.int64)
    w = torch.zeros(2, requires_grad=True)
    w.data = torch.ones(3, dtype=torch.float64)
    (w * 2).sum().backward()
    assert (w.grad.tolist(), w.grad.dtype, w.is_leaf) == ([2.0, 2.0, 2.0], torch.float64, True)
    with pytest.raises(RuntimeError, match="int64 has no gradient"):
        w.data = torch.ones(3, dtype=torch.int64)


def test_graphs_from_before_another_shape_do_not_go_to_the_leaf():
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    w.data = torch.ones(1)
    with pytest.raises(BackwardError, match=r"another shape or dtype since x\.data = value"):
        loss.backward()
    v = torch.ones(2, requires_grad=True)
    (v * v).sum().backward()
    v.data = torch.ones(1)
    with pytest.raises(BackwardError, match=r"adds a gradient of shape \(1,\) to one of shape"):
        (v * v).sum().backward()


def test_graphs_from_before_the_same_shape_go_on():
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    w.data = torch.full((2,), 5.0)
    loss.backward()
    assert (w.grad.tolist(), w.tolist()) == ([2.0, 2.0], [5.0, 5.0])


def test_data_of_what_shares_memory_already():
    x = torch.arange(6.0).reshape(2, 3)
    view, same = x[0], x.data
    x.data = same
    x.data -= 1
    assert (view.tolist(), same.tolist()) == ([-1.0, 0.0, 1.0], x.tolist())
    x.data = x.data.t()
    x[0, 0] = 8.0
    assert (x.shape, view.tolist(), same.shape) == ((3, 2), [8.0, 0.0, 1.0], (2, 3))


def test_data_that_is_set_again_and_again_makes_no_chain():
    a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    for _ in range(5):
        b.weight.data = a.weight.data
        a.weight.data = b.weight.data
    links, tensor = 0, b.weight
    while hasattr(tensor, "_source"):
        tensor, links = tensor._source[0], links + 1
    assert links <= 1
    with torch.no_grad():
        a.weight.fill_(3)
    assert b.weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_a_copy_shares_memory():
    p = torch.nn.Parameter(torch.ones(2))
    q = copy.copy(p)
    with torch.no_grad():
        q.zero_()
    assert (p.tolist(), type(q), q.requires_grad) == ([0.0, 0.0], torch.nn.Parameter, True)
    x = torch.zeros(2)
    for other in (copy.copy(x), torch.Tensor(x), torch.FloatTensor(x), torch.from_dlpack(x)):
        other.add_(1)
    assert x.tolist() == [4.0, 4.0]


def test_tables_share_memory():
    table = torch.zeros(3, 2)
    layer = torch.nn.Embedding.from_pretrained(table)
    table.add_(1)
    assert layer(torch.tensor([1])).tolist() == [[1.0, 1.0]]
    assert not layer.weight.requires_grad
    assert torch.nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


@pytest.mark.parametrize("owner", [torch.optim.SGD, torch.nn.Module])
def test_gradients_are_zeroed_where_they_are(owner):
    module = torch.nn.Linear(2, 1)
    module(torch.ones(1, 2)).sum().backward()
    gradient = module.weight.grad
    first = gradient[0, :1]
    of = module if owner is torch.nn.Module else owner(module.parameters(), lr=0.1)
    of.zero_grad(set_to_none=False)
    assert (gradient.tolist(), first.tolist()) == ([[0.0, 0.0]], [0.0])
    assert module.weight.grad is gradient


def test_backward_adds_to_gradients_that_lie_in_one_vector():
    flat = torch.zeros(4)
    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    p.grad, q.grad = flat[:2], flat[2:]
    (p * 2 + q * 3).sum().backward()
    assert flat.tolist() == [2.0, 2.0, 3.0, 3.0]
    part = q.grad[:1]
    (q * 3).sum().backward()
    assert (flat.tolist(), part.tolist()) == ([2.0, 2.0, 6.0, 6.0], [6.0])


def test_a_module_that_is_cast_leaves_what_its_parameters_are_made_of():
    x = torch.ones(2)
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(x)
    state = module.state_dict()
    module.double()
    with torch.no_grad():
        module.weight.fill_(3)
    assert (module.weight.dtype, module.weight.tolist()) == (torch.float64, [3.0, 3.0])
    assert (x.tolist(), state["weight"].tolist(), state["weight"].dtype) == (
        [1.0, 1.0], [1.0, 1.0], torch.float32,
    )  # fmt: skip


# -- conjugates


def test_conjugates_are_views():
    x = torch.tensor([[1 + 2j, 3.0]])
    for conjugates in (x.conj(), torch.conj(x), x.mH.mT, x.H.T, torch.adjoint(x).T):
        conjugates[0, 0] += 1j
        assert conjugates.is_conj()
    assert x.tolist() == [[1 - 3j, 3.0]]
    apart = x.conj().resolve_conj()
    apart.zero_()
    assert (x[0, 0].item(), apart.is_conj()) == (1 - 3j, False)


def test_gradients_flow_through_conjugates():
    x = torch.tensor([1 + 2j], requires_grad=True)
    y = x * 1
    y.conj().mul_(2j)
    y.abs().sum().backward()
    assert numpy.allclose(x.grad.tolist(), [2 * (1 + 2j) / 5**0.5])


def test_conjugates_share_memory_with_numpy():
    array = numpy.array([1 + 2j, 3.0])
    x = torch.from_numpy(array)
    y = x.conj()
    last = y[1:]
    array[1] = 4j
    assert (y.tolist(), last.tolist()) == ([1 - 2j, -4j], [-4j])
    last.mul_(2)
    assert array.tolist() == [1 + 2j, 8j]
    with pytest.raises(RuntimeError, match="conjugates of those in memory"):
        y.numpy()
    del array, x
    y.mul_(2)
    assert (y.tolist(), last.tolist()) == ([2 - 4j, -16j], [-16j])


# -- other shapes in the same memory


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: x.t_(), (3, 2)), (lambda x: x.transpose_(0, 1), (3, 2)),
        (lambda x: x.swapaxes_(0, 1), (3, 2)), (lambda x: x.swapdims_(-1, 0), (3, 2)),
        (lambda x: x.unsqueeze_(1), (2, 1, 3)), (lambda x: x.unsqueeze_(0).squeeze_(), (2, 3)),
        (lambda x: x.resize_(3), (3,)), (lambda x: x.resize_as_(torch.ones(1, 2)), (1, 2)),
    ],
)  # fmt: skip
def test_shapes_change_in_shared_memory(call, shape):
    base = torch.arange(12.0).reshape(2, 2, 3)
    x = base[0]
    before = x[0]
    assert call(x) is x
    after = x[0]
    assert (x.shape, base.shape, before.shape) == (shape, (2, 2, 3), (3,))
    x.add_(10)
    first = 10.0
    assert (x.flatten()[0], after.flatten()[0], before[0], base[0, 0, 0]) == (first,) * 4
    base.zero_()
    assert not x.any()
    assert not after.any()


def test_gradients_flow_through_other_shapes_in_shared_memory():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    row = y[0]
    y.t_()
    y[1].mul_(3)
    (y.sum() + row.sum()).backward()
    assert x.grad.tolist() == [[4.0, 12.0, 4.0], [2.0, 6.0, 2.0]]


def test_what_refuses_another_shape_is_as_it_was():
    x = torch.ones(2, 3, 4)
    view = x[0]
    with pytest.raises(Exception, match="t_"):
        x.t_()
    view.zero_()
    assert (x.shape, x.sum().item()) == ((2, 3, 4), 12.0)


def test_errors_have_the_name_of_the_method():
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(BackwardError, match=r"x\.swapaxes_\(\): .* leaf(?s:.)*x\.swapaxes\(dim0"):
        x.swapaxes_(0, 1)


def test_memory_of_another():
    x, y = torch.zeros(3), torch.ones(2)
    assert x.set_(y) is x
    y.add_(1)
    assert x.tolist() == [2.0, 2.0]
    assert x.set_().shape == (0,)
    assert y.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="keeps its dtype"):
        x.set_(torch.tensor([1]))
    with pytest.raises(TypeError, match="takes a tensor"):
        x.set_([1.0])


def test_sizes_change():
    x = torch.arange(4.0)
    assert x.resize_(2, 1).tolist() == [[0.0], [1.0]]
    assert x.resize_((3, 2)).tolist()[:1] == [[0.0, 1.0]]
    view = x[0]
    with pytest.raises(BackwardError, match="shares memory"):
        x.resize_(20)
    assert (view.tolist(), x.shape) == ([0.0, 1.0], (3, 2))
    with pytest.raises(BackwardError, match="requires grad"):
        torch.ones(2, requires_grad=True).resize_(1)


# -- bits


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("int32", (2, 4)), ("int16", (2, 8)), ("float64", (2, 2)), ("uint8", (2, 16))],
)
def test_bits_of_other_dtypes_share_memory(dtype, shape):
    x = torch.ones(2, 4)
    wanted = numpy.ones((2, 4), numpy.float32)
    y = x.view(getattr(torch, dtype))
    assert (y.shape, y.dtype) == (shape, dtype)
    y[1] = 3
    wanted.view(dtype)[1] = 3
    assert x.tolist() == wanted.tolist()
    x.fill_(2)
    assert y.tolist() == numpy.full((2, 4), 2, numpy.float32).view(dtype).tolist()
    row = x[0].view(getattr(torch, dtype))
    row.zero_()
    assert x.tolist() == [[0.0] * 4, [2.0] * 4]


def test_bits_share_memory_with_numpy():
    array = numpy.ones(2, numpy.float32)
    bits = torch.from_numpy(array).view(torch.int32)
    array[0] = 0.0
    bits[1] = 0
    assert (bits.tolist(), array.tolist()) == ([0, 0], [0.0, 0.0])


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (torch.ones(2, 3), "no multiple of 2"), (torch.ones(()), "without axes"),
        (torch.ones(2, 4).t(), "distances of 4"),
    ],
)  # fmt: skip
def test_bits_that_do_not_fit(x, text):
    with pytest.raises(RuntimeError, match=text):
        x.view(torch.float64)


def test_bits_have_no_gradient():
    x = torch.ones(2, requires_grad=True)
    assert not x.view(torch.float32).requires_grad
    with torch.no_grad():
        x.view(torch.int32).zero_()
    assert x.tolist() == [0.0, 0.0]


# -- within transformations


def turns(x):
    y = x * 2
    row = y[0]
    y.t_()
    row.mul_(3)
    return (y * torch.ones(3, 2)).sum()


def lengthens(x):
    y = x * 2
    y.unsqueeze_(0)
    y[0, 0] = 5
    y.squeeze_()
    return (y * y).sum()


def copies(x):
    y = x * 2
    copy.copy(y).mul_(2)
    return (y * y).sum()


def writes_to_out(x):
    out = torch.empty(0)
    torch.matmul(x, x.t(), out=out)
    return out.sum()


@pytest.mark.parametrize(
    ("function", "gradient"),
    [
        (turns, [[6.0] * 3, [2.0] * 3]), (lengthens, [[0.0] * 3, [24.0, 32.0, 40.0]]),
        (copies, [[0.0, 32.0, 64.0], [96.0, 128.0, 160.0]]),
        (writes_to_out, [[6.0, 10.0, 14.0], [6.0, 10.0, 14.0]]),
    ],
)  # fmt: skip
def test_moves_within_transformations(function, gradient):
    x = torch.arange(6.0).reshape(2, 3)
    wanted = function(x.clone()).item()
    assert ft.jit(function)(x).item() == wanted
    assert ft.vmap(function)(x[None]).tolist() == [wanted]
    assert ft.grad(function)(x).tolist() == gradient


def test_data_is_a_constant_within_transformations():
    def f(x):
        y = torch.zeros(3)
        y.data = x * 2
        y.add_(1)
        z = x * 1
        z.data[0] = 5.0
        return (y * x).sum() + 0 * z.sum()

    x = torch.tensor([1.0, 2.0, 3.0])
    assert ft.jit(f)(x).item() == 34.0
    assert ft.grad(f)(x).tolist() == [3.0, 5.0, 7.0]


@pytest.mark.parametrize("move", [
    lambda x: x.t_(), lambda x: x.resize_(2), lambda x: x.resize_(20), lambda x: x.set_(x * 2),
])  # fmt: skip
def test_arguments_do_not_move(move):
    with pytest.raises(BackwardError, match="argument of a transformed function"):
        ft.jit(move)(torch.ones(2, 3))


def test_the_data_of_an_argument_is_not_set():
    def f(x):
        x.data = x * 2
        return x

    with pytest.raises(ft.errors.ImmutableArrayError, match="caller's tensor would not see"):
        ft.jit(f)(torch.ones(3))


def test_views_that_are_gone_are_forgotten():
    x = torch.zeros(4)
    kept = x[:2]
    for _ in range(300):
        x[1:].add_(1)
    assert len(x._views) + len(x._views.behind) < 64
    x.t_()
    x.add_(1)
    assert kept.tolist() == [1.0, 301.0]
