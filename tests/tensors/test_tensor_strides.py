"""Windows and distances in memory: views that overlap, and what is written to them."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import functensor as ft
import functensor.torch as torch

# Views of an array of two axes, for NumPy's arrays and for tensors alike.
FIRST_VIEWS = {
    "itself": lambda x: x,
    "transposed": lambda x: x.T,
    "part": lambda x: x[1:, ::2],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 1],
}


def array():
    return numpy.arange(24.0).reshape(4, 6)


def windows(x, axis, size, step):
    """Returns a writable view of windows over an axis of an array."""
    axis %= x.ndim
    count = (x.shape[axis] - size) // step + 1
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], size)
    strides = list(x.strides)
    strides[axis] *= step
    return as_strided(x, shape, (*strides, x.strides[axis]))


def repeats(view):
    """Says whether elements lie in a view several times."""
    places = windows_of_places(view)
    return len(set(places)) < len(places)


def windows_of_places(view):
    """Returns the addresses of a view's elements."""
    grids = numpy.indices(view.shape).reshape(view.ndim, -1)
    return (numpy.array(view.strides) @ grids).tolist() if view.ndim else [0]


def check_written(base, tensor, view, taken):
    """Checks that a write to a view is seen by the base and by itself, or refused."""
    numpy.testing.assert_array_equal(taken.numpy(), view)
    if repeats(view):
        with pytest.raises(ft.errors.BackwardError, match="several times"):
            taken.mul_(2.0)
        return
    taken.mul_(2.0)
    view *= 2.0
    taken[...] += 0.5
    view[...] += 0.5
    numpy.testing.assert_array_equal(taken.numpy(), view)
    numpy.testing.assert_array_equal(tensor.numpy(), base)
    tensor[1] = -1.0
    base[1] = -1.0
    numpy.testing.assert_array_equal(taken.numpy(), view)


@given(st.data())
def test_windows_are_views(data):
    first = FIRST_VIEWS[data.draw(st.sampled_from(sorted(FIRST_VIEWS)))]
    base = array()
    tensor = ft.Tensor(base)
    inner = first(base)
    axis = data.draw(st.integers(-inner.ndim, inner.ndim - 1))
    size = data.draw(st.integers(1, inner.shape[axis]))
    step = data.draw(st.integers(1, 3))
    taken = first(tensor).unfold(axis, size, step)
    check_written(base, tensor, windows(inner, axis, size, step), taken)


@given(st.data())
def test_distances_are_in_the_memory_behind_all_views(data):
    first = FIRST_VIEWS[data.draw(st.sampled_from(sorted(FIRST_VIEWS)))]
    base = array()
    tensor = ft.Tensor(base)
    inner = first(base)
    size = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    stride = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 3)))
    reach = sum((n - 1) * s for n, s in zip(size, stride))
    own = (inner.ctypes.data - base.ctypes.data) // 8
    start = data.draw(st.none() | st.integers(0, 23 - reach))
    place = own if start is None else start
    if place + reach > 23:
        with pytest.raises(RuntimeError, match="of a memory of 24"):
            first(tensor).as_strided(size, stride, start)
        return
    view = as_strided(base.reshape(-1)[place:], size, [8 * s for s in stride])
    check_written(base, tensor, view, first(tensor).as_strided(size, stride, start))


@pytest.mark.parametrize("way", ["unfold", "as_strided"])
def test_gradients_through_windows_that_are_written_to(way):
    x = ft.tensor(numpy.arange(6.0), requires_grad=True)
    y = x * 1.0
    view = y.unfold(0, 2, 2) if way == "unfold" else y.as_strided((3, 2), (2, 1))
    view[1] = 5.0
    view.mul_(3.0)
    (y * y).sum().backward()
    numpy.testing.assert_array_equal(x.grad, [0.0, 18.0, 0.0, 0.0, 72.0, 90.0])


def test_overlapping_windows_add_their_gradients():
    x = ft.tensor(numpy.arange(5.0), requires_grad=True)
    x.unfold(0, 3, 1).sum().backward()
    numpy.testing.assert_array_equal(x.grad, [1.0, 2.0, 3.0, 2.0, 1.0])


def test_a_reshaped_view_of_windows_that_overlap_is_a_copy():
    x = ft.tensor(numpy.arange(4.0))
    copy = x.unfold(0, 2, 1).reshape(-1)
    copy[0] = 9.0
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("transform", [ft.jit, lambda f: ft.vmap(f, 1, -1)])
def test_windows_within_transformations(transform):
    def written(x):
        y = x.clone()
        y.unfold(0, 2, 2)[0] = 7.0
        y.as_strided((2,), (3,))[1] = 8.0
        return y.unfold(0, 3, 1).sum(1)

    x = ft.tensor(numpy.arange(12.0).reshape(6, 2))
    if transform is ft.jit:
        x = x[:, 0].clone()
    want = [written(column).tolist() for column in x.reshape(6, -1).T]
    found = transform(written)(x).reshape(4, -1).T
    assert found.tolist() == want


def test_windows_that_do_not_fit_are_refused():
    x = ft.tensor(numpy.arange(4.0))
    with pytest.raises(RuntimeError, match="windows of 5 at steps of 1 over an axis of 4"):
        x.unfold(0, 5, 1)
    with pytest.raises(RuntimeError, match="elements 3 to 4 of a memory of 4"):
        x.as_strided((2,), (1,), 3)
    with pytest.raises(RuntimeError, match="without a first place"):
        x[4:].as_strided((2,), (1,))
    with pytest.raises(NotImplementedError, match="parts of complex numbers"):
        ft.tensor(numpy.ones(2, complex)).real.as_strided((1,), (1,))


@pytest.mark.gpu
def test_windows_on_a_gpu():
    x = ft.tensor(numpy.arange(6.0), device="cuda")
    x.unfold(0, 2, 3).mul_(2.0)
    x.as_strided((2,), (3,), 2)[1] = -1.0
    assert x.tolist() == [0.0, 2.0, 2.0, 6.0, 8.0, -1.0]


def test_writes_through_pairs_of_complex_numbers():
    leaf = ft.tensor(numpy.array([1 + 2j, 3 - 1j]), requires_grad=True)
    z = leaf * 1.0
    torch.view_as_real(z)[0, 1] = 5.0
    torch.view_as_real(z)[1].mul_(2.0)
    assert z.tolist() == [1 + 5j, 6 - 2j]
    (z * z.conj()).real.sum().backward()
    numpy.testing.assert_allclose(leaf.grad, [2.0, 24.0 - 8.0j])


def test_writes_through_complex_numbers_of_pairs():
    pairs = ft.tensor(numpy.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    x = pairs * 1.0
    torch.view_as_complex(x).mul_(1j)
    assert x.tolist() == [[-2.0, 1.0], [-4.0, 3.0]]
    (x * x).sum().backward()
    numpy.testing.assert_allclose(pairs.grad, [[2.0, 4.0], [6.0, 8.0]])


def test_views_of_pairs_are_of_complex_numbers_and_of_pairs():
    with pytest.raises(RuntimeError, match="is not complex"):
        torch.view_as_real(ft.tensor([1.0]))
    with pytest.raises(RuntimeError, match="no pairs of floats"):
        torch.view_as_complex(ft.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("shared", [False, True])
def test_a_reshape_of_repeated_elements_is_a_view_where_no_element_moves(shared):
    """As in PyTorch: rows that are repeated stay one row in memory, until they become one axis."""
    memory = numpy.zeros(2, "f")
    x = torch.from_numpy(memory) if shared else torch.zeros(2)
    repeated = x.expand(1, 3, 2)
    views = repeated.reshape(3, 2), x[:1].expand(2, 1).flatten(), x.expand(2, 2).reshape(2, 1, 2)
    copies = repeated.reshape(6), x[:, None].expand(2, 3).flatten()
    x.add_(1)
    for view in views:
        assert (view.numpy() == 1).all()
    for other in copies:
        assert (other.numpy() == 0).all()


def test_a_reshape_of_no_elements_of_what_repeats_some():
    repeated = torch.ones(3, 1).expand(3, 4)
    assert repeated[:0].reshape(-1).shape == (0,)
    assert repeated[:, :0].reshape(0, 5).shape == (0, 5)
    assert repeated[3:].flatten().shape == (0,)


@pytest.mark.parametrize("wrapped", [lambda f: f, ft.jit, torch.compile])
@pytest.mark.parametrize("shape", [(3, 2), (1, 3, 2)])
def test_a_reshape_that_moves_elements_is_a_copy_behind_an_expand_that_repeats_none(wrapped, shape):
    def f(x):
        y = x * 1
        row = y.t().expand(shape).reshape(6)
        row.add_(100)
        return y, row

    x = torch.arange(6.0).reshape(2, 3)
    y, row = wrapped(f)(x)
    assert y.tolist() == x.tolist()
    assert row.tolist() == [100, 103, 101, 104, 102, 105]


@pytest.mark.parametrize("shared", [False, True])
def test_what_repeats_elements_lies_in_no_order_so_that_contiguous_copies_it(shared):
    x = torch.from_numpy(numpy.zeros(2)) if shared else torch.zeros(2, dtype=torch.float64)
    repeated = x.expand(3, 2)
    assert repeated.stride() == (0, 1)
    assert repeated[0].is_contiguous()
    assert not repeated.is_contiguous()
    assert repeated[:0].reshape(0, 2, 1).shape == (0, 2, 1)
    copies = repeated.contiguous(), repeated.reshape(1, 3, 2).contiguous()
    x.add_(1)
    assert (repeated == 1).all()
    assert all((copy == 0).all() for copy in copies)


def test_contiguous_copies_what_repeats_elements_within_a_transformation():
    def f(x):
        y = x * 1
        copy = y.expand(3, 2).contiguous()
        y.add_(1)
        return copy.sum()

    x = torch.zeros(2)
    assert f(x) == ft.jit(f)(x) == torch.compile(f)(x) == 0


@pytest.mark.parametrize("length", [3, 5000])
def test_repeated_views_lie_as_those_of_numpy(length, monkeypatch):
    numbered = []

    def noted(*args, **options):
        out = arange(*args, **options)
        numbered.append(out.size)
        return out

    arange = numpy.arange
    monkeypatch.setattr(numpy, "arange", noted)
    root = numpy.zeros((2, 6, length))
    x, tensor = root[1, 1::2, None], ft.Tensor(root)[1, 1::2, None]
    wide, taken = numpy.broadcast_to(x, (3, 4, length)), tensor.expand(3, 4, length)
    shapes = [(3, 2, 2, length), (12, length), (3, 4, length, 1), (-1,), (3, 4 * length)]
    for shape in shapes:
        other, own = wide.reshape(shape), taken.reshape(shape)
        assert own.stride() == tuple(step // 8 for step in other.strides), shape
        assert own.is_contiguous() == other.flags.c_contiguous
    assert taken.mT[1:].stride() == tuple(s // 8 for s in wide.transpose(0, 2, 1)[1:].strides)
    assert max(numbered, default=0) <= 2048


@pytest.mark.parametrize(
    "function",
    [lambda x: x.flip(0, 1), torch.fliplr, torch.flipud, lambda x: torch.rot90(x, 2)],
    ids=["flip", "fliplr", "flipud", "rot90"],
)
def test_flipped_elements_lie_in_order_and_show_what_is_written(function):
    x = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    y = function(x)
    assert (y.is_contiguous(), y.stride()) == (True, (3, 1))
    row = y.contiguous().view(-1)
    with torch.no_grad():
        y.add_(1)
    row[0] = 7.0
    assert y.reshape(-1).tolist() == row.tolist()
    assert y[0, 0] == 7.0
