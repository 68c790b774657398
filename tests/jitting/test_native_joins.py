"""Joins, pads and updates as machine code: each part is written where it lies in the result."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.threads import pool
from functensor.jitting.tiers import native_program
from functensor.passes import joined_forms

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore:invalid value|overflow:RuntimeWarning"),
]

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 128, 200)).astype(np.float32)
X[3, 4], X[5, 6], X[7, 8] = np.nan, np.inf, -0.0


def drawn(*shape, dtype="f4"):
    return (RNG.normal(size=shape) * 9).astype(dtype)


def names_in(call, *args):
    """Returns the names of what a plan of machine code calls beside segments."""
    source = compiled(call, *args)._last.compiled.run.source
    names = "concatenate", "stack", "pad_", "index_set", "index_add", "index_multiply"
    return [name for name in names if f"{name}(" in source]


def compiled(call, *args, **options):
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call, **options).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    return jitted


def check(call, *args, rtol=1e-6):
    """Asserts that machine code and eager mode have the same results."""
    given = [x.copy() for x in args]
    got, wanted = compiled(call, *args)(*args), call(*map(fnp.asarray, args))
    for x, y in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y))
    for x, y in zip(args, given, strict=True):
        np.testing.assert_array_equal(x, y)


CALLS = {
    "rows": lambda x, y: fnp.concatenate([fnp.tanh(x), y + 1, x]),
    "columns": lambda x, y: fnp.concatenate([fnp.tanh(x), y + 1, x[:, :7]], 1),
    "columns then": lambda x, y: fnp.concatenate([x, y], 1) * 2 + 1,
    "stack": lambda x, y: fnp.stack([x * 2, y]),
    "stack in the middle": lambda x, y: fnp.stack([x * 2, fnp.exp(y), y], 1) * 3,
    "stack at the end": lambda x, y: fnp.stack([fnp.cos(x), y], -1),
    "pad": lambda x, y: fnp.pad(x, ((1, 2), (3, 0))) * -2.0,
    "pad of a region": lambda x, y: fnp.pad(x * y, 1),
    "pad by a number": lambda x, y: fnp.exp(fnp.pad(x, 2, constant_values=3.5)),
    "pad by a computed number": lambda x, y: fnp.pad(x, 1, constant_values=y[0, 0] * 2) + 1,
    "pad nothing": lambda x, y: fnp.pad(x + y, 0) * 2,
    "one axis": lambda x, y: fnp.concatenate([x[0] * 2, fnp.tile(y[1], 60)]),
    "transposed": lambda x, y: fnp.concatenate([x.T * 2, y.T], 1),
    "a part twice": lambda x, y: (lambda z: fnp.concatenate([z, y, z], 1))(x * y),
    "a part that is returned": lambda x, y: (lambda z: (z, fnp.concatenate([z, y])))(x * y),
    "a part of a part": lambda x, y: (lambda z: fnp.concatenate([z, z[:5]]))(x * y),
    "joins of joins": lambda x, y: fnp.stack([fnp.concatenate([x, y + 1]) * 3] * 2),
    "nothing beside": lambda x, y: fnp.concatenate([x * 2, y[:0], y]),
    "constants": lambda x, y: fnp.concatenate([x + 1, fnp.ones((3, 200), "f4") * Y[0]]),
    "sums": lambda x, y: fnp.concatenate([x.sum(0, keepdims=True) * 0 + 1, y * 2, x * y]),
    "rotated": lambda x, y: fnp.concatenate([-x[:, 100:], x[:, :100]], 1) * 0.5 + y,
    "an expression of rows": lambda x, y: fnp.concatenate([x - x.max(1, keepdims=True), y], 1),
    "a gradient": ft.grad(lambda x, y: fnp.sum(fnp.tanh(fnp.concatenate([x * y, y], 1))[:, 9:])),
    "joined, then used": lambda x, y: (lambda z: (z * 2, z.sum(1)))(fnp.concatenate([x, y], 1)),
    "set inside": lambda x, y: x.at[1:-1, 1:-1].set(x[1:-1, 2:] * 2 + x[1:-1, :-2]),
    "set a part that is returned": lambda x, y: (lambda z: (z, x.at[1:].set(z)))(y[1:] * 2),
    "set a row": lambda x, y: x.at[3].set(y[4] * 2) + y,
    "set a column": lambda x, y: x.at[..., -2].set(y[:, 0]) * y,
    "set a number": lambda x, y: (x * y).at[5:9, 3:].set(2.5),
    "set a computed number": lambda x, y: (x * y).at[5:9, -3:].set(y[0, 0] + 1),
    "set one row in many": lambda x, y: (x * y).at[:100].set(y[0] + 1),
    "set all": lambda x, y: x.at[...].set(y + 1),
    "set one behind the other": lambda x, y: (x * y).at[0].set(1).at[-1].set(y[2]).at[:, 0].set(3),
    "set an element": lambda x, y: (x * y).at[7, 8].set(y[0, 0]),
    "set rows by steps": lambda x, y: (x * y).at[::2].set(y[::2] + 1),
    "set nothing": lambda x, y: (x * y).at[4:4].set(1) + 1,
    "set of another array": lambda x, y: fnp.asarray(Y).at[2:-2].set(x[2:-2] * y[:1]),
    "added inside": lambda x, y: x.at[1:, 1:].add(y[:-1, 1:] * 0.5),
    "multiplied": lambda x, y: x.at[:, 1:].multiply(y[:, :-1] + 1),
    "added number": lambda x, y: x.at[3:].add(2) * y,
    "added row": lambda x, y: x.at[3:, 1:].add(y[0, 1:]),
    "subtracted a little": lambda x, y: x.at[3:5].subtract(y[0]) * y,
    "a gradient of an update": ft.grad(
        lambda x, y: fnp.sum(x.at[2:, 1:].add(x[:-2, 1:] * y[2:, 1:]) ** 2)
    ),
    "a number per row": lambda x, y: fnp.concatenate([x, y], 1) * y[:, :1],
}


@pytest.mark.parametrize("name", CALLS)
def test_joins(name, monkeypatch):
    monkeypatch.setattr(pool.threads, "number", 2)
    x = Y if "gradient" in name else X
    check(CALLS[name], x, Y, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f8", "c8", "i1", "i4", "u8", "?"])
def test_dtypes(dtype):
    x, y = drawn(90, 220, dtype=dtype), drawn(90, 220, dtype=dtype)

    def call(x, y):
        joined = fnp.concatenate([x, y | x if dtype == "?" else y + x], 1)
        return joined, fnp.stack([x, y]), fnp.stack([x, ~y if dtype == "?" else -y], 1)

    check(call, x, y, rtol=1e-3 if dtype == "f2" else 1e-6)
    check(lambda x, y: fnp.concatenate([x, y], 1).astype("c8") * 2, x, y, rtol=1e-6)


def test_parts_are_computed_where_they_lie():
    joins = "rows", "columns", "columns then", "stack", "pad", "pad of a region"
    for call in (*joins, "set inside", "set a column", "added inside", "multiplied", "added row"):
        assert names_in(CALLS[call], X, Y) == []
    jitted = compiled(CALLS["columns then"], X, Y)
    (segment,) = [s for s in native_segments(jitted) if s.code.calls]
    # Two kernels, which write into the result, and no memory beside it.
    assert (len(segment.code.calls), segment.memory) == (2, 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_joins_alone_are_machine_code_where_threads_share_them(threads, monkeypatch):
    monkeypatch.setattr(pool.threads, "number", threads)
    joined = ft.jit(lambda x, y: fnp.concatenate([x, y], 1)).compile(X, Y)
    assert ("as machine code" in joined.explain()) == (threads > 1)
    np.testing.assert_array_equal(joined(X, Y), np.concatenate([X, Y], 1))
    padded = compiled(lambda x: fnp.pad(x, 2), X)
    np.testing.assert_array_equal(padded(X), np.pad(X, 2))


def native_segments(jitted):
    scope = jitted._last.compiled.run._scope
    return [v.__self__ for name, v in scope.items() if name.endswith("_again")]


def test_functions_stand_before_joins():
    def program(call):
        return [
            e.primitive.name for e in native_program(ft.jit(call).lower(X, Y).program).equations
        ]

    assert program(CALLS["columns then"]) == ["fused", "fused", "concatenate"]
    assert program(CALLS["pad"]) == ["fused", "pad"]
    # An array in the join's shape, a use elsewhere, and many parts leave it where it is.
    assert program(lambda x, y: fnp.concatenate([x, y]) * fnp.concatenate([y, y]))[-1] == "fused"
    assert program(CALLS["joined, then used"])[0] == "concatenate"
    assert program(lambda x, y: fnp.concatenate([x, y] * 3) * 2) == ["concatenate", "fused"]
    assert program(lambda x, y: fnp.concatenate([x[:2], y[:2]]) * 2)[-1] == "fused"


def test_a_donated_argument_is_not_overwritten_too_early():
    x, y = drawn(256, 200), drawn(128, 200)

    def call(x, y):
        return fnp.concatenate([y * 2, x[:128] + 1])

    wanted = np.concatenate([y * 2, x[:128] + 1])
    jitted = compiled(call, fnp.asarray(x), y, donate_argnums=0)
    np.testing.assert_allclose(jitted(fnp.asarray(x.copy()), y), wanted, rtol=1e-6)


def test_random_joins():
    rng = np.random.default_rng(5)
    for _ in range(6):
        axis, lengths = int(rng.integers(0, 3)), rng.integers(0, 40, 4)
        shapes = [[int(n) if i == axis else 24 for i in range(3)] for n in lengths]
        arrays = [drawn(*shape) for shape in shapes]

        def call(*arrays, axis=axis):
            parts = [x if i % 2 else fnp.sin(x) * 2 for i, x in enumerate(arrays)]
            return fnp.tanh(fnp.pad(fnp.concatenate(parts, axis), 1))

        check(call, *arrays, rtol=1e-5)
    assert joined_forms.SMALLEST_JOINED <= 24**3 * 2
