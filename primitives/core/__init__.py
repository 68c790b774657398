"""The core: arrays, tracers, traces, primitives and what declares them."""
