"""One module per peer: its losses, written as its own users would, and how it differentiates them.

The parent process imports none of them: a worker does, one peer each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerEntry:
    """A column of the table: where its `benchmarks.case.Peer` is, and which package it needs."""

    module: str
    attribute: str
    package: str


PEERS: dict[str, PeerEntry] = {
    "functensor": PeerEntry("benchmarks.peers.functensor_peer", "EAGER", "functensor"),
    "functensor-jit": PeerEntry("benchmarks.peers.functensor_peer", "JIT", "functensor"),
    "functensor-tensor": PeerEntry("benchmarks.peers.tensor_peer", "EAGER", "functensor"),
    "functensor-tensor-jit": PeerEntry("benchmarks.peers.tensor_peer", "JIT", "functensor"),
    "torch": PeerEntry("benchmarks.peers.torch_peer", "EAGER", "torch"),
    "torch-compile": PeerEntry("benchmarks.peers.torch_peer", "COMPILED", "torch"),
    "jax-eager": PeerEntry("benchmarks.peers.jax_peer", "EAGER", "jax"),
    "jax-jit": PeerEntry("benchmarks.peers.jax_peer", "JIT", "jax"),
    "autograd": PeerEntry("benchmarks.peers.autograd_peer", "PEER", "autograd"),
}

GROUPS: dict[str, tuple[str, ...]] = {"jax": ("jax-eager", "jax-jit")}
