"""Views of tensors see what is written to any of them, as NumPy's and PyTorch's do."""

import random

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

X = numpy.arange(12.0).reshape(3, 4)

# Lines that mean the same for NumPy's arrays and for tensors; {x} has two axes.
VIEWS = [
    "{x}[0]", "{x}[-1:]", "{x}[:, 1]", "{x}[::2]", "{x}[..., ::-1]", "{x}[None]", "{x}.T",
    "{x}.swapaxes(0, 1)", "{x}.reshape(-1)", "{x}.diagonal()", "{x}.T[0]", "{x}[1:][:, 1:]",
    "{x}[numpy.int64(1)]", "{x}.transpose((1, 0))",
]  # fmt: skip
WRITES = [
    "{v} += 0.5", "{v} *= 2.0", "{v}[0] = 0.25", "{v}[..., 0] -= 1.5", "{v}[-1] *= 0.5",
    "{v}[...] = {v} * {v}", "{v}[1:] = {v}[:-1] * 0.5", "{v} /= 2.0", "{v}[::2][0] *= 3.0",
]  # fmt: skip


def program(seed):
    """Returns lines that take views and write to them, and the names they make."""
    choose = random.Random(seed)
    lines, names = [], ["x"]
    for i in range(choose.randint(3, 8)):
        if choose.random() < 0.5:
            lines.append(f"v{i} = " + choose.choice(VIEWS).format(x="x"))
            names.append(f"v{i}")
        else:
            lines.append(choose.choice(WRITES).format(v=choose.choice(names)))
        if choose.random() < 0.2:
            lines.append(f"y{i} = {choose.choice(names)} * 1.5")
    return lines


def run(lines, x):
    """Runs lines, and returns what they name."""
    values = {"x": x, "numpy": numpy}
    for line in lines:
        # NumPy's diagonals are read-only.
        line = line.replace("x.diagonal()", "x.reshape(-1)[::5]")
        exec(line, {}, values)
    del values["numpy"]
    return values


def loss(values):
    return sum((value * (i + 1)).sum() for i, value in enumerate(values.values()))


@pytest.mark.parametrize("seed", range(60))
def test_programs_that_write_to_views_do_as_with_numpy_and_have_its_gradient(seed):
    lines = program(seed)
    x = X / 7 - 0.6
    wanted = run(lines, x.copy())
    leaf = ft.Tensor(x, requires_grad=True)
    found = run(lines, leaf.clone())
    for name, value in wanted.items():
        numpy.testing.assert_allclose(found[name].detach().numpy(), value, err_msg=str(lines))
    loss(found).backward()
    direction = numpy.cos(numpy.arange(12.0)).reshape(3, 4)
    high, low = (loss(run(lines, x + step * direction)) for step in (1e-6, -1e-6))
    slope = (leaf.grad.numpy() * direction).sum()
    numpy.testing.assert_allclose(slope, (high - low) / 2e-6, rtol=1e-6, atol=1e-6)


METHODS = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "detach": lambda x: x.detach(),
    "diagonal": lambda x: x.diagonal(),
    "expand": lambda x: x.expand(3, 4),
    "flat": lambda x: x.flat,
    "flatten": lambda x: x.flatten(),
    "iteration": lambda x: list(x)[1],
    "permute": lambda x: x.permute(1, 0),
    "ravel": lambda x: x.ravel(),
    "reshape": lambda x: x.reshape(4, 3),
    "squeeze": lambda x: x[:1].squeeze(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1),
    "unpacking": lambda x: (lambda a, b, c: b)(*x),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "view": lambda x: x.view(2, 6),
}


@pytest.mark.parametrize("name", METHODS)
def test_views_of_methods_write_to_their_base_and_are_changed_by_it(name):
    x = ft.Tensor(X)
    before = numpy.sort(METHODS[name](x).numpy(), None)
    view = METHODS[name](x).mul_(-1)
    changed = x.numpy() != X
    numpy.testing.assert_array_equal(numpy.sort(X[changed]), before[before != 0])
    x.fill_(7.0)
    assert (view == 7).all()


def test_a_write_to_what_nobody_else_holds_is_not_lost():
    x = ft.Tensor(X)
    x[0].mul_(3)
    x.T[1] += 0.5
    x[2][3] = 9
    x.view(-1)[4] = -1
    wanted = X.copy()
    wanted[0] *= 3
    wanted.T[1] += 0.5
    wanted[2][3] = 9
    wanted.reshape(-1)[4] = -1
    numpy.testing.assert_array_equal(x.numpy(), wanted)


def test_what_was_computed_before_a_write_keeps_its_value_and_gradient():
    x = ft.Tensor([1.0, 2.0], requires_grad=True)
    y = x.clone()
    square = y[0] * y[0]
    y[:1].zero_()
    (square + y.sum()).backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_views_of_parameters_are_written_under_no_grad_alone():
    w = ft.Tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf that requires grad"):
        w[0].mul_(2)
    numpy.testing.assert_array_equal(w.detach().numpy(), X)
    with ft.no_grad():
        w[0].mul_(2)
    w.detach()[1] = 0.0
    assert w.is_leaf
    w.sum().backward()
    assert w.grad.tolist() == numpy.ones((3, 4)).tolist()
    wanted = X.copy()
    wanted[0] *= 2
    wanted[1] = 0
    numpy.testing.assert_array_equal(w.detach().numpy(), wanted)


def test_parameters_that_are_views_of_one_vector_are_trained_together():
    flat = ft.Tensor(numpy.ones(6))
    first, second = flat[:4].view(2, 2).requires_grad_(), flat[4:].requires_grad_()
    (first.sum() * 2 + second.sum() * 3).backward()
    ft.optim.SGD([first, second], lr=0.5).step()
    assert flat.tolist() == [0.0] * 4 + [-0.5] * 2


def test_elements_that_lie_in_one_place_are_not_written():
    with pytest.raises(RuntimeError, match="several times"):
        ft.Tensor([1.0, 2.0]).expand(3, 2).add_(1)


def test_a_leaf_put_where_it_was_taken_from_is_recorded():
    x = ft.Tensor(numpy.ones((2, 3)))
    row = x[0].requires_grad_()
    x[0] = row
    (x * 3).sum().backward()
    assert row.grad.tolist() == [3.0] * 3


def test_tensors_are_indexed_within_transformations():
    x = ft.Tensor([[1.0, 2.0]])
    assert ft.grad(lambda a: np.sum(x[0] * a + x.T[0] * a))(2.0) == 5.0
    assert ft.jit(lambda a: x[0] * a)(2.0).tolist() == [2.0, 4.0]


def test_views_that_are_gone_are_forgotten():
    x = ft.Tensor(X)
    for _ in range(1000):
        x[0]
    assert len(x._views) < 100
    for _ in range(3000):
        x = x[...]
    x += 1
    numpy.testing.assert_array_equal(x.numpy(), X + 1)


def test_repeated_elements_in_another_shape_are_a_copy():
    x = ft.Tensor([1.0, 2.0])
    repeated = x.expand(2, 2)
    copy = repeated.flatten()
    x += 1
    assert copy.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert repeated.tolist() == [[2.0, 3.0]] * 2


SHAPES_OF_ONE = {
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "reshape": lambda x: x.reshape(1, 1),
    "view": lambda x: x.view(1),
}


@pytest.mark.parametrize("name", SHAPES_OF_ONE)
def test_single_elements_in_another_shape_are_views(name):
    x = ft.Tensor([1.0, 2.0])
    shaped = SHAPES_OF_ONE[name](x[0])
    shaped += 1
    total = x.sum()
    SHAPES_OF_ONE[name](total).add_(1)
    assert (x.tolist(), total.tolist()) == ([2.0, 2.0], 5.0)


WITHIN = {
    "grad": lambda f: ft.grad(f)(2.0),
    "jit": lambda f: ft.jit(f)(2.0),
    "jvp": lambda f: ft.jvp(f, (2.0,), (1.0,))[1],
    "vmap": lambda f: ft.vmap(f)(numpy.full(2, 2.0)),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("form", WITHIN)
def test_writes_of_traced_values_to_views_are_refused(form, name):
    def lost(a):
        y = ft.Tensor(X)
        view = METHODS[name](y)
        view += a
        return y.sum()

    with pytest.raises(ft.errors.TracerConversionError):
        WITHIN[form](lost)


@pytest.mark.parametrize("form", WITHIN)
def test_writes_of_numbers_to_views_are_seen_within_transformations(form):
    def scaled(a):
        y = ft.Tensor(X)
        view = y[1:].T
        view += 1
        return y.sum() * a

    assert (numpy.asarray(WITHIN[form](scaled)) % 74 == 0).all()


@pytest.mark.parametrize("lengths", [[3, 2], numpy.array([3, 2])], ids=["list", "array"])
def test_lists_that_views_were_made_by_may_change(lengths):
    x = ft.Tensor(numpy.arange(6.0))
    views = [x.view(lengths), x.reshape(lengths), x.view(3, 2).permute([1, 0])]
    lengths[:] = [6, 1]
    x += 1
    assert [view.shape for view in views] == [(3, 2), (3, 2), (2, 3)]
