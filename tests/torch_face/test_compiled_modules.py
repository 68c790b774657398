"""`torch.compile` of modules: what is in them is found again, however it lies there."""

from queue import SimpleQueue

import pytest

import functensor.torch as torch
from functensor.torch import nn


@pytest.mark.parametrize("change", ["clear", "reverse"])
def test_lists_of_tensors_that_no_plan_has_read(change):
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = [torch.ones(1), torch.zeros(1)]

        def forward(self, x):
            return sum(self.kept, x) if len(x) > 2 else x

    net = Reading()
    compiled = torch.compile(net, fullgraph=True)
    for _ in range(2):
        compiled(torch.ones(2))
    getattr(net.kept, change)()
    net.kept.append(torch.full((1,), 5.0))
    for size in (2, 3, 3):
        assert torch.equal(compiled(torch.ones(size)), net(torch.ones(size)))


def test_all_of_a_large_module_counts():
    net = nn.Sequential(*[nn.Linear(1, 1) for _ in range(200)])
    compiled = torch.compile(lambda x: net(x), fullgraph=True)
    last = net[-1]
    with torch.no_grad():
        for change in (lambda: None, lambda: last.bias.add_(1), lambda: last.eval()):
            change()
            for _ in range(2):
                assert torch.equal(compiled(torch.ones(1, 1)), net(torch.ones(1, 1)))
        last.register_forward_hook(lambda module, args, out: out + 1)
        assert torch.equal(compiled(torch.ones(1, 1)), net(torch.ones(1, 1)))


class Caching(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4))
        self.part = self.cache[:2]

    def forward(self, x):
        self.cache.add_(x)
        return self.part * 1


def test_tensors_in_one_memory_end_plans_that_write_to_one():
    net = Caching()
    compiled = torch.compile(net)
    with pytest.warns(UserWarning, match="writes to cache, whose memory part shares"):
        found = [compiled(torch.ones(1)).tolist() for _ in range(5)]
    assert found == [[i, i] for i in range(1, 6)]


def test_a_set_of_any_order_is_as_it_was():
    runs = SimpleQueue()

    class Choosing(nn.Module):
        def __init__(self):
            super().__init__()
            # A copy of it has another order.
            self.chosen = {*range(120)}
            for number in range(120):
                if number not in (5, 53, 97):
                    self.chosen.discard(number)

        def forward(self, x):
            runs.put(1)
            return x * len(self.chosen)

    compiled = torch.compile(Choosing(), fullgraph=True)
    for _ in range(5):
        assert compiled(torch.ones(1)).item() == 3
    assert runs.qsize() == 1
