"""Tensors in the memory of NumPy's arrays: what is written to one is seen by both."""

import copy
import gc
import pickle
import sys
import threading

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functensor as ft
import functensor.torch as torch

# Views of an array and of a tensor that show the same elements.
VIEWS = {
    "row": (lambda a: a[0], lambda x: x[0]),
    "last": (lambda a: a[..., -1], lambda x: x[..., -1]),
    "slice": (lambda a: a[1:], lambda x: x[1:]),
    "steps": (lambda a: a[::2], lambda x: x[::2]),
    "new axis": (lambda a: a[None], lambda x: x[None]),
    "T": (lambda a: a.T, lambda x: x.permute(*range(x.ndim - 1, -1, -1))),
    "flat": (lambda a: a.view().reshape(-1), lambda x: x.reshape(-1)),
    "detach": (lambda a: a[...], lambda x: x.detach()),
    "diagonal": (lambda a: a.diagonal(), lambda x: x.diagonal()),
    "flat behind a slice": (
        lambda a: a[..., 1:].reshape(-1),
        lambda x: x[..., 1:].reshape(-1),
    ),
    "select": (lambda a: a.take([0], 0), lambda x: x.narrow(0, 0, 1)),
    "expand": (
        lambda a: numpy.broadcast_to(a, (2, *a.shape)),
        lambda x: x.expand(2, *x.shape),
    ),
    "one": (lambda a: a[(0,) * a.ndim], lambda x: x[(0,) * x.ndim]),
}


def writable(view, array):
    """Says whether NumPy's view shares memory with the array and may be written to."""
    return view.size and numpy.may_share_memory(view, array)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_programs_of_views_and_writes(data):
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int64", "complex128", "uint8"]))
    array = numpy.arange(numpy.prod(shape)).reshape(shape).astype(dtype)
    if data.draw(st.booleans()):
        tensor = torch.from_numpy(array)
    else:
        tensor = torch.tensor(array)
        array = tensor.numpy()
    # An oracle of plain arrays, beside the array and the tensor that share.
    true = array.copy()
    held = [(true, array, tensor)]
    for _ in range(data.draw(st.integers(1, 8))):
        oracle, shown, x = data.draw(st.sampled_from(held))
        step = data.draw(st.sampled_from([*VIEWS, "write to the array", "write", "numpy", "add"]))
        if step in VIEWS:
            of_array, of_tensor = VIEWS[step]
            if oracle.ndim < (2 if step == "diagonal" else 1):
                continue
            seen = oracle[0:1] if step == "select" else numpy.asarray(of_array(oracle))
            if step == "one":
                seen = oracle[(*((0,) * oracle.ndim), ...)]
            if not writable(seen, true):
                continue
            y = of_tensor(x)
            # The array's own views may be read-only, as those of diagonals are.
            held.append((seen, shown if seen is oracle else None, y))
            continue
        value = data.draw(st.integers(0, 100))
        if step == "write to the array" and shown is not None and oracle.flags.writeable:
            shown[...] = oracle[...] = value
        elif step == "write" and oracle.flags.writeable:
            oracle[...] = value
            x.fill_(value)
        elif step == "add" and oracle.flags.writeable and dtype != "uint8":
            oracle += 1
            x.add_(1)
        elif step == "numpy":
            again = x.numpy()
            assert again.flags.writeable
            numpy.testing.assert_array_equal(again, oracle)
            held.append((oracle, again, x))
        for oracle, shown, x in held:
            numpy.testing.assert_array_equal(numpy.asarray(x), oracle)
            assert x.shape == oracle.shape
            assert x.dtype == oracle.dtype
            if shown is not None:
                numpy.testing.assert_array_equal(shown, oracle)


def test_what_others_write_is_seen_and_what_was_computed_stays():
    array = numpy.array([1.0, 2.0])
    x = torch.from_numpy(array)
    before = x * x
    numpy.add(array, 1, out=array)
    assert x.tolist() == [2.0, 3.0]
    assert before.tolist() == [1.0, 4.0]
    x.mul_(10)
    assert array.tolist() == [20.0, 30.0]


def test_gradients_are_by_the_values_of_the_forward_pass():
    array = numpy.array([1.0, 2.0])
    x = torch.from_numpy(array).requires_grad_()
    loss = (x * x).sum()
    array[:] = 100.0
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.tolist() == [100.0, 100.0]


def test_optimizers_write_to_the_array():
    layer = torch.nn.Linear(2, 1)
    weight = layer.weight.detach().numpy()
    before = weight.copy()
    layer(torch.ones(3, 2)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.5).step()
    numpy.testing.assert_array_equal(weight, before - 0.5 * 3)
    weight[...] = 7
    assert layer.weight.tolist() == [[7.0, 7.0]]
    assert type(layer.state_dict()["weight"].sum().item()) is float


def test_sharing_ends_with_the_array():
    x = torch.tensor([1.0, 2.0])
    shown = x.numpy()
    part = shown[1:]
    del shown
    part[0] = 5.0
    assert x.tolist() == [1.0, 5.0]
    del part
    gc.collect()
    assert x.tolist() == [1.0, 5.0]
    assert type(x) is ft.Tensor

    alone = torch.from_numpy(numpy.arange(6.0).reshape(2, 3))
    assert alone.sum() == 15
    assert type(alone) is ft.Tensor


def test_views_stay_views_when_sharing_ends():
    x = torch.zeros(2, 3)
    row = x[1]
    shown = row.numpy()
    shown[0] = 4.0
    column = x[:, 0]
    assert column.tolist() == [0.0, 4.0]
    del shown
    x[1, 0] = 8.0
    assert (row.tolist(), column.tolist()) == ([8.0, 0.0, 0.0], [0.0, 8.0])
    column.add_(1)
    assert row.tolist() == [9.0, 0.0, 0.0]
    assert type(x) is type(row) is ft.Tensor


def test_parameters_keep_their_class():
    p = torch.nn.Parameter(torch.ones(2))
    shown = p.detach().numpy()
    shown[0] = 3.0
    assert isinstance(p, torch.nn.Parameter)
    assert type(p).__name__ == "Parameter"
    assert p.tolist() == [3.0, 1.0]
    del shown
    assert p.tolist() == [3.0, 1.0]
    assert type(p) is torch.nn.Parameter


def test_a_class_of_the_user_keeps_its_attributes():
    class Named(ft.Tensor):
        pass

    x = Named([1.0, 2.0])
    x.label = "weights"
    shown = x.numpy()
    shown[1] = 5.0
    assert (x.label, x.tolist(), isinstance(x, Named)) == ("weights", [1.0, 5.0], True)


def test_copies_share_nothing():
    array = numpy.array([1.0, 2.0])
    x = torch.from_numpy(array)
    others = [
        x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), torch.tensor(x),
        torch.tensor(array), torch.asarray(array, copy=True), x + 0, x.to(torch.float32),
    ]  # fmt: skip
    array[:] = 9.0
    assert x.tolist() == [9.0, 9.0]
    for other in others:
        assert other.tolist() == [1.0, 2.0]
        other.fill_(3.0)
    assert array.tolist() == [9.0, 9.0]


def test_arrays_that_do_not_fit_are_copied():
    array = numpy.array([1.0, 2.0])
    array.flags.writeable = False
    x = torch.from_numpy(array)
    x.add_(1)
    assert (x.tolist(), array.tolist()) == ([2.0, 3.0], [1.0, 2.0])
    cast = torch.as_tensor(numpy.array([1.0, 2.0]), dtype=torch.float32)
    assert cast.dtype == torch.float32
    with pytest.raises(TypeError, match="an array of NumPy is wanted, not list"):
        torch.from_numpy([1.0])
    with pytest.raises(TypeError):
        torch.from_numpy(numpy.array(["a"]))


def test_nan_is_no_change():
    array = numpy.array([numpy.nan, 1.0])
    x = torch.from_numpy(array)
    first = x._data
    assert x._data is first
    array[0] = -array[0]
    assert x._data is not first


def test_axes_are_arranged_in_place():
    array = numpy.zeros((2, 3))
    x = torch.from_numpy(array)
    x.t_()
    array[0, 1] = 5.0
    assert x.tolist() == [[0.0, 0.0], [5.0, 0.0], [0.0, 0.0]]
    x[2, 1] = 7.0
    assert array[1, 2] == 7.0


def test_reshape_copies_what_does_not_lie_in_order():
    array = numpy.arange(6.0).reshape(2, 3)
    x = torch.from_numpy(array)
    copied = x[:, 1:].reshape(-1)
    array[0, 1] = 50.0
    assert copied.tolist() == [1.0, 2.0, 4.0, 5.0]
    assert x[:, 1:].reshape(-1).tolist() == [50.0, 2.0, 4.0, 5.0]
    assert (x[:, 1:].stride(), x[:, 1:].is_contiguous()) == ((3, 1), False)
    assert x.T.contiguous().view(-1).tolist() == [0.0, 3.0, 50.0, 4.0, 2.0, 5.0]
    with pytest.raises(RuntimeError, match="do not lie in that order"):
        x.T.view(-1)


def test_bytes():
    block = bytearray(8)
    x = torch.frombuffer(block, dtype=torch.float32)
    block[3] = 64
    assert x.tolist() == [2.0, 0.0]
    x[1] = 1.0
    assert bytes(block[4:]) == b"\x00\x00\x80?"
    assert torch.frombuffer(bytes(block), dtype=torch.float32).tolist() == [2.0, 1.0]


def test_pairs_of_complex_numbers():
    x = torch.tensor([1 + 2j, 3j])
    pairs = torch.view_as_real(x).numpy()
    pairs[0, 0] = 9.0
    assert x.tolist() == [9 + 2j, 3j]
    reals = torch.zeros(2, 2)
    numbers = torch.view_as_complex(reals).numpy()
    numbers[1] = 5j
    assert reals.tolist() == [[0.0, 0.0], [0.0, 5.0]]


def test_only_the_part_that_is_asked_for_is_read():
    array = numpy.zeros((1000, 10))
    x = torch.from_numpy(array)
    whole = x._data
    array[5] = 3.0
    assert x[5].tolist() == [3.0] * 10
    assert x[[5, 6]].sum() == 30
    # The tensor's own copy is not renewed by reads of parts.
    assert type(x).__mro__[1].__name__ == "InMemory"
    assert whole.sum() == 0
    assert x.sum() == 30


def test_a_batch_of_a_shared_set_is_what_the_array_holds_then():
    array = numpy.zeros((6, 2), numpy.float32)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.from_numpy(array)), batch_size=3
    )
    array[4] = 1.0
    assert [batch.sum().item() for (batch,) in loader] == [0.0, 2.0]


def test_transformations_take_the_present_values():
    array = numpy.array([1.0, 2.0])
    x = torch.from_numpy(array)
    f = ft.jit(lambda y: (y * y).sum())
    assert f(x) == 5
    array[0] = 3.0
    assert f(x) == 13
    assert ft.grad(f)(x).tolist() == [6.0, 4.0]
    assert ft.vmap(lambda y: 2 * y)(x).tolist() == [6.0, 4.0]


def test_force_copies_what_has_a_graph():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ft.errors.TracerConversionError, match="requires grad"):
        (x * 2).numpy()
    assert (x * 2).numpy(force=True).tolist() == [2.0, 4.0]


def test_threads_share_and_stop_sharing():
    x = torch.zeros(50, 20)
    errors = []

    def work(i):
        try:
            for k in range(20):
                row = x[i]
                shown = row.numpy()
                shown[k % 20] += 1
                del shown
                row.add_(1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_memory_behind_several_arrays_is_shared():
    x = torch.ones(3)
    torch.from_numpy(x.numpy()[1:]).mul_(4)
    assert x.tolist() == [1.0, 4.0, 4.0]
    block = bytearray(16)
    y = torch.from_numpy(numpy.frombuffer(block).reshape(1, 2))
    y.fill_(1)
    assert numpy.frombuffer(block).tolist() == [1.0, 1.0]


def test_as_tensor_of_another_dtype_is_a_copy():
    array = numpy.arange(3)
    for make in (torch.as_tensor, torch.asarray):
        x = make(array, dtype=torch.float64)
        assert x.dtype == torch.float64
        array[0] = 9
        assert x.tolist() == [0.0, 1.0, 2.0]
        array[0] = 0


def test_a_module_that_is_cast_lies_elsewhere():
    layer = torch.nn.Linear(2, 1)
    weight = layer.weight.detach().numpy()
    layer.double()
    assert layer.weight.dtype == layer.bias.dtype == torch.float64
    weight[...] = 5
    assert layer.weight.tolist() != [[5.0, 5.0]]
    assert type(layer.weight) is torch.nn.Parameter


def test_a_state_is_assigned_to_a_module_whose_memory_is_shared():
    layer, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    weight = layer.weight.detach().numpy()
    layer.load_state_dict(other.state_dict(), assign=True)
    assert layer.weight.tolist() == other.weight.tolist()
    assert weight.shape == (1, 2)


def test_one_number_is_expanded():
    x = torch.tensor(3.0)
    shown = x.numpy()
    many = x.expand(2)
    shown[()] = 5.0
    assert many.tolist() == [5.0, 5.0]
    first = torch.from_numpy(numpy.zeros(3))[0]
    assert first.expand(2).tolist() == [0.0, 0.0]


def test_a_write_to_a_view_writes_no_other_element():
    array = numpy.zeros(20)
    x = torch.from_numpy(array)
    part = x[10:]
    stop = []

    def work():
        while not stop:
            array[:10] += 1

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(300):
        part.add_(1)
    stop.append(True)
    thread.join()
    assert array[10:].tolist() == [300.0] * 10
    assert len(set(array[:10].tolist())) == 1
    with pytest.raises(ft.errors.BackwardError, match="several times"):
        x.expand(2, 20).add_(1)


def test_threads_write_to_parts_of_one_tensor():
    array = numpy.zeros(20)
    x = torch.from_numpy(array)
    errors = []

    def work(start):
        try:
            for _ in range(200):
                x[start : start + 5].add_(1)
                x.sum()
        except Exception as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(5 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors
    assert array.tolist() == [200.0] * 20
