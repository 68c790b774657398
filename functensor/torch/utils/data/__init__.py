"""PyTorch's sets, samplers and loaders, over those of `functensor.data`; batches are tensors.

>>> import functensor.torch as torch
>>> from functensor.torch.utils.data import DataLoader, TensorDataset
>>> pairs = TensorDataset(torch.ones(5, 2), torch.arange(5))
>>> [list(labels.shape) for _, labels in DataLoader(pairs, batch_size=2, shuffle=True)]
[[2], [2], [1]]
"""

from __future__ import annotations

from ....data.dataset import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset
from ....data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from ....data.splitting import random_split
from ....faces.publish import publish
from ...deep_names import inner_modules
from .batches import default_collate, default_convert
from .loader import DataLoader, get_worker_info
from .stacked_sets import ChainDataset, StackDataset

# A module within this one that is imported when it is first used.
NAMESPACES = {"distributed"}

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

publish(
    globals(), late={"distributed": "DistributedSampler"}, made=inner_modules("utils.data")
)
