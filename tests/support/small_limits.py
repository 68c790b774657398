"""Plans' limits of size lowered, so that small arrays take the ways of large ones."""

import importlib
from functools import partial

from functensor.passes.fusion import fusion

# By module what is set: regions of a few elements in several blocks, shared among threads; copies
# of rows; sums in short runs; products in parts; memory that is kept or made anew.
LIMITS = {
    "passes.fusion": {"SHARED": 1},
    "passes.fused_region": {"TALL": 1, "UNCACHED": 1},
    "passes.schedule_parallel": {"PRODUCT": 1},
    "backends.cpu.plan.regions.block_source": {"SMALLEST": 1, "LARGEST": 8},
    "backends.cpu.plan.regions.broadcast_rows": {"LEAST": 1, "DIRECT": 3, "RUN": 8, "FILLED": 8},
    "backends.cpu.plan.regions.outer_rows": {"LEAST": 1},
    "backends.cpu.plan.regions.cost": {"SHARED": 1},
    "backends.cpu.plan.regions.region_run": {"SHARED": 1},
    "backends.cpu.plan.regions.row_sums": {"RUN": 2, "PIECE": 4},
    "backends.cpu.plan.equations": {"SHARED": 1, "SMALL_SUM": 1},
    "backends.cpu.plan.writer": {"KEPT_BYTES": 64, "DROPPED_BYTES": 8},
    "backends.cpu.plan.liveness": {"SPREAD_BYTES": 16},
}
# Those that are as they are in every second program.
OTHERS = {
    "passes.fusion": {"PARTIAL": 2},
    "backends.cpu.plan.regions.block_source": {"SMALLEST": 100, "LARGEST": 200},
    "backends.cpu.plan.regions.broadcast_rows": {"LEAST": 65536},
    "backends.cpu.plan.regions.outer_rows": {"LEAST": 32768},
    "backends.cpu.plan.regions.cost": {"SHARED": 1 << 20},
    "backends.cpu.plan.regions.region_run": {"SHARED": 1 << 20},
    "backends.cpu.plan.regions.row_sums": {"RUN": 1024, "PIECE": 16384},
    "backends.cpu.plan.equations": {"SHARED": 1 << 23, "SMALL_SUM": 512},
    "backends.cpu.plan.writer": {"KEPT_BYTES": 32768},
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
