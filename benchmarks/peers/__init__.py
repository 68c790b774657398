"""One module per peer: its losses, written as its own users would, and how it differentiates them.

The parent process imports none of them: a worker does, one peer each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PeerEntry:
    """A column of the table.

    `module` and `attribute` say where its `benchmarks.case.Peer` is, and `package` what it needs.
    `environment` has variables of its process. Without `by_default` it is measured if it is named.
    """

    module: str
    attribute: str
    package: str
    environment: Mapping[str, str] = field(default_factory=dict)
    by_default: bool = True


PEERS: dict[str, PeerEntry] = {
    "functensor": PeerEntry("benchmarks.peers.functensor_peer", "EAGER", "functensor"),
    "functensor-jit": PeerEntry("benchmarks.peers.functensor_peer", "JIT", "functensor"),
    "functensor-jit-numpy": PeerEntry(
        "benchmarks.peers.functensor_peer",
        "JIT_NUMPY",
        "functensor",
        {"FUNCTENSOR_NATIVE": "0"},
        by_default=False,
    ),
    "functensor-tensor": PeerEntry("benchmarks.peers.tensor_peer", "EAGER", "functensor"),
    "functensor-tensor-benchmark": PeerEntry(
        "benchmarks.peers.tensor_peer", "BENCHMARK", "functensor", by_default=False
    ),
    "functensor-tensor-jit": PeerEntry("benchmarks.peers.tensor_peer", "JIT", "functensor"),
    "functensor-tensor-step": PeerEntry(
        "benchmarks.peers.tensor_peer", "STEP", "functensor", by_default=False
    ),
    "torch": PeerEntry("benchmarks.peers.torch_peer", "EAGER", "torch"),
    "torch-compile": PeerEntry("benchmarks.peers.torch_peer", "COMPILED", "torch"),
    "jax-eager": PeerEntry("benchmarks.peers.jax_peer", "EAGER", "jax"),
    "jax-jit": PeerEntry("benchmarks.peers.jax_peer", "JIT", "jax"),
    "autograd": PeerEntry("benchmarks.peers.autograd_peer", "PEER", "autograd"),
}

GROUPS: dict[str, tuple[str, ...]] = {"jax": ("jax-eager", "jax-jit")}
