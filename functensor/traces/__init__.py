"""The traces of reverse mode, forward mode and batching."""
