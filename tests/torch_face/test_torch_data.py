"""PyTorch's loaders: its arguments, defaults and results; orders that are drawn are our own."""

import json
from itertools import chain

import numpy
import pytest

import functensor.torch as torch
from functensor.random.generator import Generator
from functensor.torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

PAIRS = TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3))


def plain(batch):
    """Returns a batch with lists in place of tensors."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    return [plain(part) for part in batch] if isinstance(batch, list | tuple) else batch


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_pytorch(workers):
    # Recorded from PyTorch 2.13: DataLoader(TensorDataset(...), 2), and with batch_size=None.
    loader = DataLoader(PAIRS, 2, num_workers=workers)
    first, last = loader
    assert plain([first, last]) == [[[[0, 1], [2, 3]], [0, 1]], [[[4, 5]], [2]]]
    assert type(first) is list
    assert (str(first[0].dtype), str(first[1].dtype)) == ("float32", "int64")
    singles = list(DataLoader(PAIRS, None, num_workers=workers))
    assert plain(singles) == [[[0, 1], 0], [[2, 3], 1], [[4, 5], 2]]
    assert type(singles[0]) is list
    assert plain(list(DataLoader([1, 2, 3], num_workers=workers))) == [[1], [2], [3]]
    assert len(loader) == 2
    assert len(DataLoader(PAIRS, 2, drop_last=True)) == 1


def test_examples_are_collated_as_by_pytorch():
    # Recorded from PyTorch 2.13.
    numbers, halves, names = default_collate([(1, 2.0, "a"), (1, 2.0, "a")])
    assert [str(x.dtype) for x in (numbers, halves)] == ["int64", "float64"]
    assert names == ["a", "a"]
    batch = default_collate([{"a": True, "b": [1, 2]}] * 2)
    assert plain(batch) == {"a": [True, True], "b": [[1, 1], [2, 2]]}
    assert str(default_collate([numpy.float32(1)] * 2).dtype) == "float32"
    with pytest.raises(TypeError, match="a batch of NoneType"):
        default_collate([None])
    assert plain(default_convert((numpy.ones(2), 3, "b"))) == [[1, 1], 3, "b"]


def test_gradients_reach_the_tensors_of_a_set():
    weights = torch.ones(4, 2, requires_grad=True)
    for (rows,) in DataLoader(TensorDataset(weights), 3):
        (rows * rows).sum().backward()
    assert weights.grad.tolist() == [[2, 2]] * 4


def test_parts_have_pytorchs_lengths():
    # Recorded from PyTorch 2.13.
    assert [len(part) for part in random_split(range(10), [0.33, 0.33, 0.34])] == [4, 3, 3]
    assert [len(part) for part in random_split(range(11), [0.3, 0.3, 0.4])] == [4, 3, 4]
    parts = random_split(range(9), [4, 5], generator=Generator().manual_seed(3))
    assert all(isinstance(part, Subset) for part in parts)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"batch_size": 0}, "batch_size is a positive integer, not 0"),
        ({"shuffle": True, "sampler": [0]}, "shuffle=True beside a sampler"),
        ({"batch_size": 2, "batch_sampler": [[0]]}, "batch_sampler beside"),
        ({"batch_size": None, "drop_last": True}, "drop_last without batches"),
        ({"prefetch_factor": 3}, "prefetch_factor or persistent_workers without workers"),
        ({"persistent_workers": True}, "prefetch_factor or persistent_workers without workers"),
        ({"num_workers": -1}, "num_workers is an integer of at least 0, not -1"),
        ({"timeout": -1}, "timeout=-1"),
        ({"multiprocessing_context": "spawn"}, "workers are threads"),
        ({"in_order": False}, "batches always come in order"),
    ],
)
def test_what_pytorch_refuses_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        DataLoader(PAIRS, **wrong)


def test_seeds_decide_orders():
    def orders(**options):
        loader = DataLoader(range(20), 7, shuffle=True, **options)
        return [plain(list(loader)) for _ in range(2)]

    torch.manual_seed(5)
    first = orders()
    torch.manual_seed(5)
    assert orders(num_workers=3) == first
    assert first[0] != first[1]
    made = [orders(generator=Generator().manual_seed(1), num_workers=n) for n in (0, 2)]
    assert made[0] == made[1] != first
    assert sorted(chain.from_iterable(first[0])) == list(range(20))


def test_a_loader_with_a_generator_goes_on():
    def made(seed, workers):
        generator = Generator().manual_seed(seed)
        return DataLoader(range(20), 3, shuffle=True, generator=generator, num_workers=workers)

    whole = made(8, 0)
    expected = [plain(list(whole)) for _ in range(3)]
    first = made(8, 2)
    list(first)
    iterator = iter(first)
    got = [plain(next(iterator)) for _ in range(4)]
    state = json.loads(json.dumps(first.state_dict()))
    # Another seed: the state tells the orders of all epochs to come.
    second = made(0, 1)
    second.load_state_dict(state)
    assert [got + plain(list(second)), plain(list(second))] == expected[1:]


def test_a_loader_of_the_default_generator_goes_on_in_its_epoch():
    torch.manual_seed(2)
    expected = plain(list(DataLoader(range(9), 2, shuffle=True)))
    torch.manual_seed(2)
    first = DataLoader(range(9), 2, shuffle=True)
    got = plain([next(iter(first))])
    second = DataLoader(range(9), 2, shuffle=True)
    second.load_state_dict(first.state_dict())
    assert got + plain(list(second)) == expected


def test_workers_are_told_their_numbers_and_share_what_is_read():
    class Lines(IterableDataset):
        def __iter__(self):
            assert get_worker_info() is None
            return iter(range(10))

    started = []
    loader = DataLoader(
        Lines(), 2, num_workers=3, worker_init_fn=started.append, pin_memory=True,
        persistent_workers=True, prefetch_factor=1,
    )  # fmt: skip
    assert [*chain.from_iterable(plain(list(loader)))] == list(range(10))
    assert sorted(started) == [0, 1, 2]


def test_an_exception_at_the_start_of_a_worker_comes_to_the_caller():
    def fail(number):
        raise ValueError(f"worker {number} has no file")

    with pytest.raises(ValueError, match="worker 0 has no file"):
        list(DataLoader(PAIRS, num_workers=1, worker_init_fn=fail))


def test_samplers_and_attributes():
    class Backwards(Sampler):
        def __iter__(self):
            return iter(range(2, -1, -1))

        def __len__(self):
            return 3

    loader = DataLoader(PAIRS, 2, sampler=Backwards())
    assert [plain(labels) for _, labels in loader] == [[2, 1], [0]]
    assert len(loader) == 2
    loader = DataLoader(PAIRS, 2, shuffle=True, num_workers=1, timeout=5)
    assert (loader.batch_size, loader.num_workers, loader.drop_last) == (2, 1, False)
    assert isinstance(loader.sampler, RandomSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert isinstance(DataLoader(PAIRS).sampler, SequentialSampler)


def test_a_device_may_be_asked_for():
    (batch,) = DataLoader(TensorDataset(torch.ones(2)), 2, device="cpu")
    assert str(batch[0].device) == "cpu"
    # Without a backend for it, or without a GPU of that number.
    with pytest.raises((ImportError, ValueError)):
        DataLoader(PAIRS, device="cuda:99")


@pytest.mark.gpu
def test_tensors_come_to_a_gpu():
    loader = DataLoader(PAIRS, 2, num_workers=2, device="cuda")
    assert [str(x.device)[:4] for batch in loader for x in batch] == ["cuda"] * 4
