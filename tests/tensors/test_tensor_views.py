"""Views of tensors see what is written to any of them, as NumPy's and PyTorch's do."""

import copy
import pickle
import random
import sys
import types

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


def calls_of(run):
    """Returns how many functions were called, counted."""
    number = 0

    def count(frame, event, argument):
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return number


MANY = {
    "rows": lambda views, x: [view.add_(1) for view in views],
    "base": lambda views, x: [x.add_(1) for _ in views],
    "not recorded": lambda views, x: ft.no_grad(MANY["rows"])(views, x),
    "read between": lambda views, x: [view.add_(views[0]) for view in views],
}


@pytest.mark.parametrize("name", MANY)
def test_writes_cost_the_same_however_many_views_are_held(name):
    def work(n, requires_grad):
        w = ft.Tensor(numpy.ones((n, 2)), requires_grad=requires_grad)
        x = w * 1
        views = list(x) + [x[i:] for i in range(n)] + [x.T[:, i] for i in range(n)]

        def run():
            MANY[name](views[:n], x)
            views[-1].sum()

        return calls_of(run)

    for requires_grad in (False, True):
        few, many = work(20, requires_grad), work(80, requires_grad)
        assert many < 5 * few


def test_reads_of_tensors_are_reads_of_their_slots():
    kinds = [kind for kind in ft.Tensor.__mro__ if "_data" in vars(kind)]
    assert [type(vars(kind)["_data"]) for kind in kinds] == [types.MemberDescriptorType]
    assert not hasattr(ft.Tensor, "__getattr__")
    assert ft.Tensor.__getattribute__ is object.__getattribute__


def test_views_that_are_behind_are_tensors_in_all_they_do():
    def behind():
        x = ft.Tensor(X)
        rows = list(x)
        x += 1
        return rows[0]

    wanted = X[0] + 1
    assert isinstance(behind(), ft.Tensor)
    assert type(behind()).__name__ == "Tensor"
    assert "1." in repr(behind())
    assert behind().shape == (4,)
    assert type(copy.copy(behind())) is type(copy.deepcopy(behind())) is ft.Tensor
    assert type(pickle.loads(pickle.dumps(behind()))) is ft.Tensor
    assert behind().is_leaf
    assert not hasattr(behind(), "nothing")
    for f in (ft.jit(lambda a: a * 1), lambda a: ft.grad(lambda b: np.sum(b * b / 2))(a), np.abs):
        numpy.testing.assert_array_equal(f(behind()).numpy(), wanted)


def test_views_of_views_catch_up_in_their_order():
    x = ft.Tensor(X)
    views = [x]
    for _ in range(3000):
        views.append(views[-1][...])
    x += 1
    views[1500].mul_(2)
    assert views[-1].tolist() == x.tolist() == ((X + 1) * 2).tolist()


def test_modes_of_writes_decide_what_is_recorded_of_views():
    w = ft.Tensor([1.0, 2.0], requires_grad=True)
    x = w * 1
    row = x[:1]
    x *= 3
    with ft.no_grad():
        x += 100
        assert row.tolist() == [103.0]
    with ft.no_grad():
        x += 1
    x *= 2
    row.retain_grad()
    (row * row).sum().backward()
    assert w.grad.tolist() == [2 * 208.0 * 6, 0.0]
    assert row.grad.tolist() == [416.0]


ITSELF = {
    "contiguous": lambda x: x.contiguous(),
    "double": lambda x: x.double(),
    "real": lambda x: x.real,
    "to": lambda x: x.to("float64"),
}


@pytest.mark.parametrize("name", ITSELF)
def test_what_changes_nothing_returns_the_tensor_itself(name):
    x = ft.Tensor(X)
    assert ITSELF[name](x) is x
    for kind in ("float", "half", "long", "int", "bool"):
        cast = getattr(x, kind)()
        assert cast is not x
        assert getattr(cast, kind)() is cast


def test_contiguous_copies_what_does_not_lie_in_order():
    leaf = ft.Tensor(X, requires_grad=True)
    x = leaf * 1
    copy = x.T.contiguous()
    copy.mul_(2)
    assert x.tolist() == X.tolist()
    flat = copy.reshape(-1)
    flat += 1
    assert copy.tolist() == (X.T * 2 + 1).tolist()
    copy[0].sum().backward()
    assert leaf.grad.tolist() == [[2.0, 0.0, 0.0, 0.0]] * 3


def test_what_was_written_does_not_decide_what_is_a_view():
    for value in (X[:1], X.T.copy().T):
        x = ft.Tensor(numpy.zeros((3, 4)))
        x.copy_(ft.Tensor(value))
        x.reshape(-1).add_(1)
        assert x.tolist() == (numpy.broadcast_to(value, (3, 4)) + 1).tolist()
    x = ft.Tensor(X.T.copy()).T.clone()
    x.copy_(ft.Tensor(X) * 2)
    x.reshape(-1).add_(1)
    assert x.tolist() == (X * 2).tolist()


@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_parts_of_complex_numbers_are_views(shape):
    given = numpy.full(shape, complex(1.0, numpy.inf))
    x = ft.Tensor(given)
    real, imag = x.real, x.imag
    real += 1
    assert (real == 2).all()
    assert (x.numpy() == complex(2.0, numpy.inf)).all()
    imag.fill_(3)
    x.T.real.mul_(2)
    assert (x.numpy() == 4 + 3j).all()
    assert (real == 4).all()


def test_gradients_go_through_parts_that_were_written():
    def loss(w):
        x = w * 2
        x.real.mul_(w.imag)
        x[0].imag.add_(w.real[1])
        return (abs(x) ** 2).sum()

    at = numpy.array([1 + 2j, 3 - 1j])
    w = ft.Tensor(at, requires_grad=True)
    loss(w).backward()
    for direction in (numpy.array([1.0, 0]), numpy.array([0, 1.0]), numpy.array([1j, 2j])):
        high, low = (loss(ft.Tensor(at + h * direction)).item() for h in (1e-6, -1e-6))
        slope = (w.grad.numpy().conj() * direction).sum().real
        numpy.testing.assert_allclose(slope, (high - low) / 2e-6, rtol=1e-6)


# Lines that mean the same for PyTorch's tensors and ours; {x} is of any shape.
TORCH_VIEWS = [
    "{x}[0]", "{x}[..., None]", "{x}[1:]", "{x}.T", "{x}.reshape(-1)", "{x}.flatten()",
    "{x}.ravel()", "{x}.unsqueeze(0)", "{x}.squeeze()", "{x}.contiguous()", "{x}.double()",
    "{x}.real", "{x}.detach()", "{x}.clone()", "{x}.contiguous().view([-1])",
    "{x}.diagonal()", "{x}.float()", "{x}.sum()", "list({x})[-1]", "{x}[None].swapaxes(-1, 0)",
    "{x}[None].transpose(0, -1)",
    "{x}.to({x}.dtype)", "{x}.permute(list(range({x}.dim()))[::-1])",
]  # fmt: skip
TORCH_WRITES = [
    "{v} += 0.5", "{v}.mul_(2.0)", "{v}[0] = 0.25", "{v}[..., -1] -= 1.5", "{v}.zero_()",
    "{v}.copy_({v}.flatten()[0] * 1)", "{v}.clamp_(-1.0, 1.0)", "{v}[1:].neg_()", "{v}.fill_(1.5)",
]  # fmt: skip


def outcome(lines, x):
    """Runs lines, and returns what they name as lists; a line that is refused does nothing."""
    values, done = {"x": x}, []
    for line in lines:
        try:
            exec(line, {}, values)
            done.append(True)
        except (RuntimeError, IndexError, NameError, TypeError, ValueError):
            done.append(False)
    return {name: value.detach().tolist() for name, value in values.items()}, done


@pytest.mark.filterwarnings("ignore:The use of `x.T` on", "ignore:Tensor.T is deprecated on 0-D")
@pytest.mark.parametrize("seed", range(120))
def test_programs_that_write_to_views_do_as_with_pytorch(seed):
    torch = pytest.importorskip("torch")
    choose = random.Random(seed)
    lines, names = [], ["x"]
    for i in range(choose.randint(4, 12)):
        if choose.random() < 0.6:
            lines.append(f"v{i} = " + choose.choice(TORCH_VIEWS).format(x=choose.choice(names)))
            names.append(f"v{i}")
        else:
            lines.append(choose.choice(TORCH_WRITES).format(v=choose.choice(names)))
    start = numpy.arange(24.0).reshape(2, 3, 4)[:, :, : choose.choice([1, 4])] / 8 - 1
    start = start[choose.choice([0, slice(None)])]
    wanted = outcome(lines, torch.tensor(start))
    assert outcome(lines, ft.Tensor(start)) == wanted, "\n".join(lines)


def test_flattening_nothing_returns_the_tensor_itself():
    x = ft.tensor(np.arange(6.0), requires_grad=True)
    assert x.flatten() is x
    y = (2 * x).reshape(2, 3)
    assert y.flatten(1, 1) is y
    assert y.flatten(-1) is y
    assert y.flatten() is not y
    lone = ft.tensor(3.0)
    assert lone.flatten().shape == (1,)
