"""Several processes, on one machine or on many, that compute together.

A function that speaks of named axes runs under `vmap` on a laptop, and unchanged by `spmd` on the
processes of a mesh. Messages go by MPI and, among GPUs, by NCCL.

>>> import functensor as ft, functensor.numpy as np
>>> from functensor.distributed import P
>>> mesh = ft.distributed.mesh({"data": -1})
>>> total = ft.distributed.spmd(lambda x: ft.psum(np.sum(x), "data"), mesh, P("data"), P())
>>> print(total(np.arange(4.0)))
6.0
"""

from __future__ import annotations

from ..faces.publish import publish
from .broadcasting import broadcast
from .checkpoints import Checkpoints
from .data_parallel import data_parallel
from .failures import set_timeout
from .loaders import shard
from .mesh import Mesh, mesh
from .partition import PartitionSpec
from .partition import PartitionSpec as P
from .sharded import ShardedOptimizer, sharded
from .shards import Shard, gather
from .spmd import spmd
from .world import World, info, initialize, print_once, rank, size

__all__ = [
    "Checkpoints", "Mesh", "P", "PartitionSpec", "Shard", "ShardedOptimizer", "World", "broadcast",
    "data_parallel", "gather", "info", "initialize", "mesh", "print_once", "rank", "set_timeout",
    "shard", "sharded", "size", "spmd",
]  # fmt: skip

publish(globals())
