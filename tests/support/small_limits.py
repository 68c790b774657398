"""Plans' limits of size lowered, so that small arrays take the ways of large ones."""

import importlib
from functools import partial

from functensor.passes.fusion import fusion

# By module what is set: regions of a few elements in several blocks, shared among threads; copies
# of rows; sums in short runs; products in parts; memory that is kept or made anew.
LIMITS = {
    "passes.fusion": {"FEWEST_SMALLEST_REGIONS_TO_SHARE": 1},
    "passes.fused_region": {"TALL": 1, "UNCACHED": 1},
    "passes.schedule_parallel": {"FEWEST_SHARED_MULTIPLICATIONS": 1},
    "backends.cpu.plan.regions.block_source": {
        "SMALLEST_BLOCK_ELEMENTS": 1,
        "LARGEST_BLOCK_ELEMENTS": 8,
    },
    "backends.cpu.plan.regions.broadcast_rows": {
        "SMALLEST_ROWWISE_ELEMENTS": 1,
        "SMALLEST_OUTER_ELEMENTS": 1,
        "SHORTEST_DIRECT_ROW": 3,
        "UNBUFFERED_RUN": 8,
        "BUFFERED_RUN": 8,
    },
    "backends.cpu.plan.regions.cost": {"SMALLEST_SHARED_EFFORT": 1},
    "backends.cpu.plan.regions.region_run": {"SMALLEST_SHARED_EFFORT": 1},
    "backends.cpu.plan.regions.row_sums": {"LONGEST_BLAS_RUN": 2, "PIECE_ELEMENTS": 4},
    "backends.cpu.plan.equations": {"SMALLEST_SHARED_WORK": 1, "FEWEST_ELEMENTS_BY_BLAS": 1},
    "backends.cpu.plan.writer": {"LARGEST_KEPT_BYTES": 64, "SMALLEST_DROPPED_BYTES": 8},
    "backends.cpu.plan.liveness": {"LARGEST_COPIED_BROADCAST_BYTES": 16},
}
# Those that are as they are in every second program.
OTHERS = {
    "passes.fusion": {"MOST_PARTIAL_ELEMENTS": 2},
    "backends.cpu.plan.regions.block_source": {
        "SMALLEST_BLOCK_ELEMENTS": 100,
        "LARGEST_BLOCK_ELEMENTS": 200,
    },
    "backends.cpu.plan.regions.broadcast_rows": {
        "SMALLEST_ROWWISE_ELEMENTS": 65536,
        "SMALLEST_OUTER_ELEMENTS": 32768,
    },
    "backends.cpu.plan.regions.cost": {"SMALLEST_SHARED_EFFORT": 1 << 21},
    "backends.cpu.plan.regions.region_run": {"SMALLEST_SHARED_EFFORT": 1 << 21},
    "backends.cpu.plan.regions.row_sums": {"LONGEST_BLAS_RUN": 1024, "PIECE_ELEMENTS": 16384},
    "backends.cpu.plan.equations": {
        "SMALLEST_SHARED_WORK": 1 << 23,
        "FEWEST_ELEMENTS_BY_BLAS": 512,
    },
    "backends.cpu.plan.writer": {"LARGEST_KEPT_BYTES": 32768},
}


def lower_limits(patch, others=False, smallest=1):
    """Sets limits for as long as a patch lasts.

    Args:
        patch: pytest's monkeypatch, or a context of one.
        others: whether blocks are larger, threads do not share them and memory is kept.
        smallest: of how many elements a region's grid is at least.
    """
    for limits in (LIMITS, OTHERS if others else {}):
        for name, values in limits.items():
            module = importlib.import_module(f"functensor.{name}")
            for limit, value in values.items():
                assert hasattr(module, limit)
                patch.setattr(module, limit, value)
    compiled = importlib.import_module("functensor.jitting.compile")
    patch.setattr(compiled, "fusion", partial(fusion, smallest=smallest))
