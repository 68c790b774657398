"""The jobs in TensorFlow: tapes, tfdbg's dumps, the check of numerics, the profiler."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def"

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.debug.lib.debug_events_reader import DebugDataReader
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from benchmarks.hooks_beside import jobs
from benchmarks.hooks_beside.jobs import Compile, Jobs, Run

JOBS: Jobs = {}
entered = jobs.entering(JOBS)
W = [tf.Variable(w) for w in jobs.WEIGHTS]
X = tf.constant(jobs.X)
POSITIVE = tf.ones((jobs.ROWS, jobs.WIDTH))


def block(x: Any) -> Any:
    """The second hidden layer."""
    return tf.tanh(tf.tanh(x @ W[0]) @ W[1])


def last(h: Any) -> Any:
    """The loss of a second hidden layer."""
    return tf.reduce_sum((h @ W[2]) ** 2)


def log_loss(x: Any) -> Any:
    """A sum of logarithms, and of more operations after it."""
    return tf.reduce_sum(tf.tanh(tf.math.log(x)) * 2)


def gradient(x: Any, at: Any = lambda h: h) -> Any:
    """The gradients by the weights; the model calls a function at its second hidden layer."""
    with tf.GradientTape() as tape:
        total = last(at(block(x)))
    return tape.gradient(total, W)


def plain(kind: str, compile: Compile) -> Run:
    """Returns the work without tools."""
    if kind in ("forward", "gradient"):
        fun = compile(gradient if kind == "gradient" else lambda x: last(block(x)))
        return lambda: fun(X)
    fun = compile(log_loss)
    return lambda: fun(POSITIVE)


@entered("look at every operation", "forward")
def every_operation(compile: Compile) -> Run:
    fun = compile(lambda x: last(block(x)))
    def run():
        with tempfile.TemporaryDirectory() as folder:
            dumping = tf.debugging.experimental
            dumping.enable_dump_debug_info(folder, "FULL_TENSOR", circular_buffer_size=-1)
            fun(X)
            dumping.disable_dump_debug_info()
            reader = DebugDataReader(folder)
            reader.update()
            traced = [trace.op_name for trace in reader.graph_execution_traces()]
            return [*(execution.op_type for execution in reader.executions()), *traced]
    return lambda: [name.lower() for name in run()]


@entered("look at a layer's activations", "forward")
def activations(compile: Compile) -> Run:
    fun = compile(lambda x: (last(h := block(x)), h))
    return lambda: fun(X)[1]


@entered("gradient of a value on the way", "gradient")
def gradient_of_value(compile: Compile) -> Run:
    def by_hidden(x):
        with tf.GradientTape() as tape:
            total = last(h := block(x))
        return tape.gradient(total, [h, *W])
    fun = compile(by_hidden)
    return lambda: fun(X)[0]


@entered("replace a value", "forward")
def replace(compile: Compile) -> Run:
    fun = compile(lambda x: last(tf.minimum(block(x), jobs.CEILING)))
    return lambda: fun(X)


@entered("clip gradients inside", "gradient")
def clip(compile: Compile) -> Run:
    @tf.custom_gradient
    def clipped(h):
        return h, lambda g: tf.clip_by_value(g, -jobs.LIMIT, jobs.LIMIT)
    fun = compile(lambda x: gradient(x, clipped))
    return lambda: fun(X)[1]


@entered("first NaN, forward", "log")
def nan_forward(compile: Compile) -> Run:
    fun = compile(log_loss)
    def run(x=POSITIVE):
        tf.debugging.enable_check_numerics()
        try:
            return fun(x)
        finally:
            tf.debugging.disable_check_numerics()
    return run


@entered("time per operation", "gradient")
def time_per_operation(compile: Compile) -> Run:
    fun = compile(gradient)
    def run():
        times, space = Counter(), XSpace()
        with tempfile.TemporaryDirectory() as folder:
            with tf.profiler.experimental.Profile(folder):
                fun(X)
            (path,) = Path(folder).rglob("*.xplane.pb")
            space.ParseFromString(path.read_bytes())
        for plane in space.planes:
            for line in plane.lines:
                for event in line.events:
                    name = plane.event_metadata[event.metadata_id].name
                    times[name] += event.duration_ps
        return times
    return lambda: {name.lower(): time for name, time in run().items()}
