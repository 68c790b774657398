"""Sets of examples, their orders, and loaders that go through them in batches.

>>> import numpy
>>> from functensor import data
>>> pairs = data.TensorDataset(numpy.ones((100, 3)), numpy.arange(100))
>>> for x, y in data.DataLoader(pairs, 40, shuffle=True, key=0):
...     print(x.shape, y.dtype)
(40, 3) int64
(40, 3) int64
(20, 3) int64
"""

from __future__ import annotations

from ..faces.publish import publish
from .collating import default_collate
from .dataset import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset
from .loader import DataLoader
from .samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .splitting import random_split

__all__ = [
    "BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler",
    "Sampler", "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "default_collate", "random_split",
]  # fmt: skip

publish(globals())
