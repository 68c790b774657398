"""Loaders: every example once, the same order with any threads, and positions to go on from."""

import gc
import json
import threading
import traceback

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.long_forms import sized

import functensor as ft
from functensor.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

THREADS = st.sampled_from([0, 1, 3])
SIZES = st.integers(0, 17)
KINDS = st.sampled_from(["gathered", "examples", "read", "subset"])


class Squares(Dataset):
    """Numbers with their squares, example by example."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == 13:
            raise LookupError("thirteen")
        return {"x": float(index), "y": numpy.array([index, index**2])}


class Counted(IterableDataset):
    """Numbers one after the other."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter(range(self.length))


def of_kind(kind, length):
    """Returns a set of numbers from 0, of a kind."""
    if kind == "read":
        return Counted(length)
    if kind == "examples":
        return range(length)
    if kind == "subset":
        return Subset(TensorDataset(numpy.arange(length + 3)), range(length))
    return TensorDataset(numpy.arange(length))


def shown(batch):
    """Returns the numbers in a batch of one of these sets."""
    return (batch[0] if isinstance(batch, tuple) else batch).tolist()


def loader_threads():
    """Returns the running threads of loaders."""
    return [t for t in threading.enumerate() if t.name.startswith("functensor-data")]


@given(KINDS, SIZES, st.integers(1, 6), st.booleans(), THREADS, st.booleans())
def test_every_example_comes_once(kind, length, size, drop_last, threads, shuffle):
    shuffle = shuffle and kind != "read" and length > 0
    given_key = {"shuffle": True, "key": length} if shuffle else {}
    dataset = of_kind(kind, length) if length or kind != "gathered" else range(0)
    loader = DataLoader(dataset, size, drop_last=drop_last, threads=threads, **given_key)
    for _ in range(2):
        batches = [shown(batch) for batch in loader]
        assert len(batches) == len(loader)
        seen = [number for batch in batches for number in batch]
        kept = length - length % size if drop_last else length
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        if shuffle:
            assert len(set(seen)) == len(seen) == kept
            assert set(seen) <= set(range(length))
        else:
            assert seen == list(range(kept))


@given(KINDS, st.integers(1, 17), st.integers(1, 5), THREADS, THREADS, st.data())
def test_a_loader_goes_on_anywhere(kind, length, size, before, after, data):
    given_key = {} if kind == "read" else {"shuffle": True, "key": 3}

    def made(threads):
        return DataLoader(of_kind(kind, length), size, threads=threads, **given_key)

    whole = made(0)
    expected = [[shown(batch) for batch in whole] for _ in range(3)]
    epoch = data.draw(st.integers(0, 1))
    stop = data.draw(st.integers(0, len(expected[epoch])))
    first = made(before)
    for _ in range(epoch):
        assert list(first)
    iterator = iter(first)
    got = [shown(next(iterator)) for _ in range(stop)]
    state = json.loads(json.dumps(first.state_dict()))
    assert (state["epoch"], state["batches"]) == (epoch, stop)
    second = made(after)
    second.load_state_dict(state)
    rest = [[shown(batch) for batch in second] for _ in range(3 - epoch)]
    assert [got + rest[0], *rest[1:]] == expected[epoch:]
    iterator.close()


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 9))
def test_random_samplers_give_what_they_promise(length, number, seed):
    sampler = RandomSampler(range(length), num_samples=number, generator=seed)
    first, second = list(sampler), list(sampler)
    assert len(first) == len(second) == number
    for start in range(0, number - length + 1, length):
        assert sorted(first[start : start + length]) == list(range(length))
    assert list(RandomSampler(range(length), num_samples=number, generator=seed)) == first
    again = list(RandomSampler(range(length), True, number, generator=seed))
    assert len(again) == number
    assert set(again) <= set(range(length))
    subset = [i * 7 for i in range(length)]
    assert sorted(SubsetRandomSampler(subset, generator=seed)) == subset
    weights = [float(i % 3) for i in range(length + 1)]
    drawn = list(WeightedRandomSampler(weights, number, generator=seed))
    assert len(drawn) == number
    assert all(weights[i] > 0 for i in drawn) or length < 1
    positive = sum(weight > 0 for weight in weights)
    drawn = list(WeightedRandomSampler(weights, positive, False, generator=seed))
    assert sorted(drawn) == [i for i, weight in enumerate(weights) if weight]


def test_weights_are_probabilities():
    drawn = list(WeightedRandomSampler([1.0, 3.0], 4000, generator=1))
    # Four standard deviations of a binomial number.
    assert abs(sum(drawn) - 3000) < 4 * (4000 * 0.25 * 0.75) ** 0.5


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_parts_are_disjoint_and_together_all(lengths):
    total = sum(lengths)
    parts = random_split(range(total), lengths, generator=total)
    assert [len(part) for part in parts] == lengths
    assert sorted(x for part in parts for x in part) == list(range(total))


def test_epochs_have_orders_of_their_own_that_the_key_alone_decides():
    orders = []
    for _ in range(2):
        loader = DataLoader(range(50), 50, shuffle=True, key=ft.random.key(7))
        orders.append([shown(batch) for _ in range(3) for batch in loader])
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders[0]}) == 3


def test_an_epoch_that_was_left_is_over():
    loader = DataLoader(range(6), 2, shuffle=True, key=0, threads=2)
    whole = DataLoader(range(6), 2, shuffle=True, key=0)
    expected = [[shown(batch) for batch in whole] for _ in range(2)]
    assert shown(next(iter(loader))) == expected[0][0]
    assert [shown(batch) for batch in loader] == expected[1]


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_an_exception_has_its_traceback_and_its_example(threads):
    loader = DataLoader(Squares(20), 4, threads=threads)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    with pytest.raises(LookupError, match="thirteen") as info:
        next(iterator)
    frames = traceback.extract_tb(info.value.__traceback__)
    assert frames[-1].name == "__getitem__"
    assert frames[-1].filename == __file__
    assert info.value.__notes__ == [
        "in example 13 of the dataset",
        "in batch 3 of the DataLoader, examples 12, 13, 14, 15",
    ]
    with pytest.raises(StopIteration):
        next(iterator)
    assert loader.state_dict()["batches"] == 3


def test_an_exception_of_a_set_that_is_read_names_the_batch():
    class Broken(IterableDataset):
        def __iter__(self):
            yield from range(5)
            raise OSError("the line is cut")

    iterator = iter(DataLoader(Broken(), 2, threads=2))
    assert [shown(next(iterator)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(OSError, match="the line is cut") as info:
        next(iterator)
    assert info.value.__notes__ == ["in batch 2 of the DataLoader, which reads its dataset"]


@pytest.mark.parametrize("kind", ["examples", "read"])
def test_threads_end_with_their_iterator(kind):
    before = {*loader_threads()}
    loaders = [DataLoader(of_kind(kind, 100), 2, threads=2) for _ in range(3)]
    iterators = [iter(loader) for loader in loaders]
    # Several at once do not disturb each other.
    for turn in range(3):
        for iterator in iterators:
            assert shown(next(iterator)) == [2 * turn, 2 * turn + 1]
    running = {*loader_threads()} - before
    assert len(running) == 6
    del iterators, iterator
    gc.collect()
    for thread in running:
        thread.join(10)
    assert not any(thread.is_alive() for thread in running)
    # At the end of an epoch they have ended already.
    assert len(list(loaders[0])) == 50
    assert {*loader_threads()} <= before


def test_threads_are_no_more_ahead_than_they_may():
    asked = []

    class Noted(Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            asked.append(index)
            return index

    iterator = iter(DataLoader(Noted(), 1, threads=2, prefetch=3))
    for done in range(1, 5):
        next(iterator)
        # The one that was taken, and those ahead of it.
        assert len(asked) <= done - 1 + 6
    iterator.close()


def test_threads_work_at_once():
    # Neither example is there before both are asked for.
    barrier = threading.Barrier(2, timeout=10)

    class Together(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            barrier.wait()
            return index

    assert [shown(batch) for batch in DataLoader(Together(), 1, threads=2)] == [[0], [1]]


def test_a_batch_that_does_not_come_in_time():
    never = threading.Event()

    class Stuck(Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            never.wait(10)
            return index

    with pytest.raises(RuntimeError, match=r"no batch came within the timeout of 0\.01 seconds"):
        next(iter(DataLoader(Stuck(), threads=1, timeout=0.01)))
    never.set()


def test_an_interrupt_ends_the_threads():
    def order():
        yield from range(8)
        raise KeyboardInterrupt

    class Interrupted(Sampler):
        def __iter__(self):
            return order()

    before = {*loader_threads()}
    loader = DataLoader(range(20), 1, sampler=Interrupted(), threads=2, prefetch=2)
    iterator, got = iter(loader), []
    with pytest.raises(KeyboardInterrupt):
        got.extend(shown(batch) for batch in iterator)
    state = loader.state_dict()
    for thread in loader_threads():
        thread.join(10)
    assert {*loader_threads()} <= before
    assert state["batches"] == 5
    fresh = DataLoader(range(20), 1, threads=2)
    fresh.load_state_dict(state)
    assert shown(next(iter(fresh))) == [5]


def test_a_set_of_arrays_is_gathered():
    calls = []

    class Watched(numpy.ndarray):
        def __getitem__(self, key):
            calls.append(key)
            return numpy.asarray(self)[key]

    leaf = numpy.arange(12.0).reshape(6, 2).view(Watched)
    loader = DataLoader(Subset(TensorDataset(leaf), [5, 4, 3, 2]), 2, as_numpy=True)
    assert [batch[0].tolist() for batch in loader] == [[[10, 11], [8, 9]], [[6, 7], [4, 5]]]
    assert [key.tolist() for key in calls] == [[5, 4], [3, 2]]


def test_a_class_with_examples_of_its_own_is_not_gathered():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 2

    assert [shown(b) for b in DataLoader(Doubled(numpy.arange(3)), 2)] == [[0, 2], [4]]


@pytest.mark.parametrize("threads", [0, 2])
def test_batches_are_arrays_of_their_own_memory(threads):
    rows = numpy.arange(6.0).reshape(3, 2)
    for loader in (
        DataLoader(TensorDataset(rows), 2, threads=threads),
        DataLoader(TensorDataset(rows), None, threads=threads),
        DataLoader(TensorDataset(rows), 1, collate_fn=lambda examples: examples[0]),
    ):
        (first,) = next(iter(loader))
        assert type(first) is ft.Array
        assert not numpy.shares_memory(numpy.asarray(first), rows)
    (as_it_is,) = next(iter(DataLoader(TensorDataset(rows), None, as_numpy=True)))
    assert numpy.shares_memory(as_it_is, rows)


def test_structures_of_examples_are_those_of_batches():
    batch = next(iter(DataLoader(Squares(4), 3)))
    assert batch["x"].tolist() == [0, 1, 2]
    assert batch["y"].tolist() == [[0, 0], [1, 1], [2, 4]]
    both = default_collate([(1, [2.0, "a"]), (3, [4.0, "b"])])
    assert [both[0].tolist(), both[1][0].tolist(), both[1][1]] == [[1, 3], [2, 4], ["a", "b"]]


def test_examples_that_are_no_batch():
    for examples, words in (
        ([numpy.ones(2), numpy.ones(3)], r"example 0 has float64\[2\], example 1 float64\[3\]"),
        ([{"a": 1}, {"b": 1}], r"example 0 has keys \['a'\], example 1 keys \['b'\]"),
        ([(1, 2), (1,)], "example 0 has tuple of 2, example 1 tuple of 1"),
        ([{"a": [numpy.ones(1)]}, {"a": [1.0]}], r" at \['a'\]\[0\]: "),
    ):
        with pytest.raises(ValueError, match=words):
            default_collate(examples)
    for examples in ([None, None], [1, "a"], [1, None]):
        with pytest.raises(TypeError, match="which is no array, number or text"):
            default_collate(examples)


def test_sets_one_behind_the_other():
    both = ConcatDataset([range(3), Subset(range(10), [9, 8])])
    assert [both[i] for i in range(-5, 5)] == [0, 1, 2, 9, 8] * 2
    for index in (5, -6):
        with pytest.raises(IndexError, match="of a ConcatDataset of 5 examples"):
            both[index]
    with pytest.raises(TypeError, match=r"datasets\[1\] is an IterableDataset"):
        ConcatDataset([[1], Counted(2)])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"batch_size": 0}, "batch_size is a positive integer, not 0"),
        ({"shuffle": True}, "shuffle=True without a key"),
        ({"key": 0}, "a key without shuffle"),
        ({"shuffle": True, "key": 0, "sampler": [0]}, "shuffle=True beside a sampler"),
        ({"batch_sampler": [[0]], "drop_last": True}, "batch_sampler beside"),
        ({"batch_size": None, "drop_last": True}, "drop_last without batches"),
        ({"threads": -1}, "threads is an integer of at least 0, not -1"),
        ({"threads": "2"}, "threads is an integer of at least 0, not '2'"),
        ({"prefetch": 0}, "prefetch is an integer of at least 1, not 0"),
        ({"timeout": 0}, "timeout=0"),
        ({"device": "cpu", "as_numpy": True}, "as_numpy=True beside a device"),
    ],
)
def test_arguments_that_contradict_each_other(wrong, words):
    with pytest.raises(ValueError, match=words) as info:
        DataLoader(range(3), **wrong)
    assert "\n  fix: " in str(info.value)


def test_what_is_no_set():
    for wrong in (5, iter(range(3)), {1, 2}):
        with pytest.raises(TypeError, match="without __getitem__ or __len__") as info:
            DataLoader(wrong)
        assert "IterableDataset" in str(info.value)


def test_states_of_others_are_refused():
    loader = DataLoader(range(3))
    for wrong in ({}, {"epoch": 1}, [1]):
        with pytest.raises(ValueError, match="load_state_dict: "):
            loader.load_state_dict(wrong)
    shuffled = DataLoader(range(3), shuffle=True, key=0).state_dict()
    with pytest.raises(ValueError, match="that shuffles by a key or a generator"):
        loader.load_state_dict(shuffled)


def test_own_samplers_and_batch_samplers():
    order = BatchSampler([2, 0, 1], 2, False)
    assert [shown(b) for b in DataLoader(range(3), batch_sampler=order, threads=1)] == [[2, 0], [1]]
    lists = [[0], [2, 1]]
    loader = DataLoader(range(3), batch_sampler=lists)
    iterator = iter(loader)
    assert shown(next(iterator)) == [0]
    fresh = DataLoader(range(3), batch_sampler=lists, threads=sized(1, 2))
    fresh.load_state_dict(loader.state_dict())
    assert [shown(batch) for batch in fresh] == [[2, 1]]


@pytest.mark.gpu
@pytest.mark.parametrize("threads", [0, 2])
def test_batches_on_a_gpu(threads):
    rows = numpy.arange(1_000_000.0).reshape(1000, 1000)
    loader = DataLoader(TensorDataset(rows), 100, threads=threads, device="cuda")
    for i, (batch,) in enumerate(loader):
        assert batch.device.startswith("cuda")
        assert numpy.array_equal(ft.to_device(batch, "cpu"), rows[100 * i : 100 * (i + 1)])


@pytest.mark.gpu
def test_batches_are_copied_on_the_stream_of_their_user():
    import cupy

    rows = numpy.arange(1_000_000.0).reshape(1000, 1000)
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(5):
            loader = DataLoader(TensorDataset(rows), 100, threads=2, device="cuda")
            total = sum(float(batch.sum()) for (batch,) in loader)
            assert total == rows.sum()


def test_an_empty_set_in_a_random_order_is_named():
    for options in ({"key": 0}, {"key": 0, "threads": 2}):
        with pytest.raises(ValueError, match="the dataset has no examples to draw"):
            ft.data.DataLoader([], 2, shuffle=True, **options)
    with pytest.raises(ValueError, match="the dataset has no examples to draw"):
        ft.data.RandomSampler([], replacement=True, num_samples=3)
