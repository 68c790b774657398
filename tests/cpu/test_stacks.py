"""Kernels of stacks as lists of NumPy's loops: NumPy's bits however operands lie, in any thread."""

import threading

import numpy as np
import pytest
from support.drawn_operands import laid_out
from support.known_stacks import known

from functensor.backends.blas_threads import controlled
from functensor.backends.cpu import (
    activations,
    attention,
    normalization,
    noted_calls,
    small_attention,
    stacks,
)
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.native import machine
from functensor.backends.restoring import quiet

needs_code = pytest.mark.skipif(
    not machine.compiles_here() or controlled() is None,
    reason=machine.why_not() or "BLAS is none that can be kept to a thread",
)


@pytest.fixture(autouse=True)
def small_and_soon(monkeypatch):
    """Makes lists of small work too, after the first call."""
    monkeypatch.setattr(stacks, "known_stacks", {})
    monkeypatch.setattr(normalization, "whole_runs", {})
    monkeypatch.setattr(stacks, "FEWEST_LISTED_ELEMENTS", 1)
    monkeypatch.setattr(small_attention, "FEWEST_SCORES", 1)
    monkeypatch.setattr(stacks, "CALLS_BEFORE", 1)
    monkeypatch.setattr(normalization, "FEWEST_CALM_ELEMENTS", 1)
    monkeypatch.setattr(normalization, "BLOCK_OF_ROWS", 100)
    monkeypatch.setattr(pool.threads, "number", 2)


def numbers(*shape, dtype="f", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def heads(seed, batch, tokens, number, width, dtype):
    """Returns queries, keys and values as parts of one array, as a linear layer makes them."""
    whole = numbers(batch, tokens, 3, number, width, dtype=dtype, seed=seed)
    return [whole[:, :, i].transpose(0, 2, 1, 3) for i in range(3)]


def attended(q, k, v, causal):
    out = attention.attention(q, k, v, causal=causal, scale=0.3)
    g = numbers(*out.shape, dtype=q.dtype, seed=5)
    return out, attention.attention_grad(g, out, q, k, v, causal=causal, scale=0.3)


def matrices(count, length, width, outputs, dtype):
    shapes = (2, count, width), (2, length, width), (2, length, outputs)
    return [numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]


ATTENTION = {
    "heads of a layer": lambda dtype: (*heads(0, 2, 70, 3, 8, dtype), True),
    "one block": lambda dtype: (*heads(1, 1, 32, 2, 4, dtype), True),
    "one query": lambda dtype: (*heads(2, 3, 1, 2, 4, dtype), True),
    "a width of 1": lambda dtype: (*heads(3, 2, 33, 2, 1, dtype), True),
    "all see all": lambda dtype: (*matrices(40, 50, 5, 6, dtype), False),
    "one of all": lambda dtype: (*matrices(1, 3, 1, 1, dtype), False),
    "a matrix": lambda dtype: (*[x[0] for x in matrices(40, 40, 4, 4, dtype)], True),
}


@needs_code
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_has_the_bits_of_numpy(monkeypatch, name, dtype):
    operands = ATTENTION[name](dtype)
    with monkeypatch.context() as patch:
        patch.setattr(stacks, "is_listed", lambda *given: False)
        wanted = attended(*operands)
    for _ in range(6):
        for got, right in zip(attended(*operands), wanted, strict=True):
            assert (got.dtype, got.shape, got.tobytes()) == (dtype, right.shape, right.tobytes())
        found = known()
    assert len(found) == 2
    if min(min(x.shape[-2:]) for x in operands[:3]) > 1:
        assert all(each.calls is not None for each in found)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_by_whole_blocks_is_the_same(monkeypatch, name, dtype):
    operands = ATTENTION[name](dtype)
    found = attended(*operands)
    monkeypatch.setattr(attention, "small_attention", lambda *given: None)
    monkeypatch.setattr(attention, "small_attention_grad", lambda *given: None)
    for got, right in zip(found, attended(*operands), strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=3e-6 if dtype == "f" else 1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e4, -1e4])
@pytest.mark.parametrize("place", range(3))
def test_scores_that_need_a_shift(monkeypatch, place, value):
    operands = [x.copy() for x in heads(0, 1, 40, 2, 4, "f")]
    operands[place][0, 1, 7] = value
    with quiet():
        found = []
        for _ in range(4):
            found.append(attended(*operands, True))
            known()
        monkeypatch.setattr(attention, "small_attention", lambda *given: None)
        monkeypatch.setattr(attention, "small_attention_grad", lambda *given: None)
        wanted = attended(*operands, True)
    for got in found:
        for x, first, right in zip(got, found[0], wanted, strict=True):
            np.testing.assert_array_equal(x, first)
            np.testing.assert_allclose(x, right, rtol=1e-5, atol=1e-5)


def normalized(x, g, weight, bias, center):
    params = {"eps": 0.1, "center": center}
    return [
        normalization.normalize(x, **params),
        normalization.normalize_grad(g, x, **params),
        normalization.affine_normalize(x, weight, **params),
        normalization.affine_normalize(x, weight, bias, **params),
        normalization.affine_normalize_grad(g, x, weight, bias=False, **params),
        normalization.affine_normalize_grad(g, x, weight, bias=True, **params),
    ]


SHAPES = {
    "blocks and a rest": ((37, 9), (9,)),
    "groups": ((2, 5, 8, 7), (2, 7)),
    "long rows": ((3, 300), (300,)),
    "rows of 1": ((130, 1), (1,)),
    "a row": ((6,), (6,)),
    "half precision": ((37, 9), (9,)),
}


@needs_code
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", SHAPES)
def test_normalization_has_the_bits_of_numpy(monkeypatch, name, dtype, center):
    shape, own = SHAPES[name]
    dtype = "e" if name == "half precision" else dtype
    operands = [numbers(*s, dtype=dtype, seed=i) for i, s in enumerate([shape, shape, own, own])]
    with monkeypatch.context() as patch:
        patch.setattr(stacks, "is_listed", lambda *given: False)
        wanted = normalized(*operands, center)
    for _ in range(6):
        for got, right in zip(normalized(*operands, center), wanted, strict=True):
            assert (got.dtype, got.tobytes()) == (dtype, right.tobytes())
        found = known()
    if name in ("blocks and a rest", "groups"):
        assert all(each.calls is not None for each in found)


@needs_code
def test_whole_blocks_of_rows_are_found_at_once(monkeypatch):
    shape = (4, 128, 128)
    x, g = numbers(*shape, dtype="f"), numbers(*shape, dtype="f", seed=1)
    weight = numbers(128, dtype="f", seed=2)
    for _ in range(6):
        wanted = normalized(x, g, weight, weight, True)
        known()
    cut = []
    blocks = normalization._blocks_of_rows

    def noted(*lengths):
        cut.append(lengths)
        return blocks(*lengths)

    monkeypatch.setattr(normalization, "_blocks_of_rows", noted)
    for got, right in zip(normalized(x, g, weight, weight, True), wanted, strict=True):
        assert got.tobytes() == right.tobytes()
    assert not cut
    # Memory that is not aligned, and other layouts, go the long way.
    odd = np.frombuffer(b"0" + x.tobytes(), np.uint8)[1:].view("f").reshape(shape)
    apart = np.concatenate([x, x], axis=-1)[..., :128]
    for other in (odd, apart):
        for got, right in zip(normalized(other, g, weight, weight, True), wanted, strict=True):
            assert got.tobytes() == right.tobytes()
    assert cut


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_normalization_of_nothing(shape, dtype):
    x, weight = np.zeros(shape, dtype), np.zeros(shape[1:], dtype)
    with quiet():
        for got in normalized(x, x, weight, weight, True):
            assert (got.dtype, got.shape[-1]) == (dtype, shape[1])
            assert not got.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_normalization_of_edges(value):
    x = numbers(40, 8)
    x[7, 3] = value
    operands = x, numbers(40, 8, seed=1), numbers(8, seed=2), numbers(8, seed=3)
    with quiet():
        first = normalized(*operands, True)
        for _ in range(4):
            known()
            for got, right in zip(normalized(*operands, True), first, strict=True):
                np.testing.assert_array_equal(got, right)


@needs_code
def test_what_the_processor_tells_is_a_warning():
    x = numbers(40, 8)
    x[7, 3] = 1e30
    for _ in range(4):
        with pytest.warns(RuntimeWarning, match="overflow"):
            normalization.normalize(x, eps=0.1, center=False)
        known()


@needs_code
@pytest.mark.parametrize("layout", ["fortran", "strided", "backward", "read-only", "unaligned"])
def test_operands_that_lie_otherwise(layout):
    q, k, v = matrices(40, 40, 4, 4, "f")
    wanted = attended(q, k, v, True)
    for _ in range(3):
        known()
        turned = (
            x[::-1].copy()[::-1] if layout == "backward" else laid_out(x, layout) for x in (q, k, v)
        )
        for got, right in zip(attended(*turned, True), wanted, strict=True):
            np.testing.assert_array_equal(got, right)


@needs_code
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("length", [4097, 20_000])
def test_the_gradient_of_gelu_has_the_bits_of_numpy(monkeypatch, length, dtype):
    monkeypatch.setattr(activations, "BLOCK_ELEMENTS", 1000)
    x, y = numbers(length, dtype=dtype), 5 * numbers(length, dtype=dtype, seed=1)
    y[:6] = [0, -0.0, np.inf, -np.inf, 1e30, -1e30]
    wanted = x * activations.gelu_unit_grad(y, approximate=True)
    for _ in range(5):
        got = activations.gelu_grad(x, y, approximate=True)
        assert (got.dtype, got.tobytes()) == (dtype, wanted.tobytes())
        found = known()
    assert found[0].calls is not None


def layouts_of(*arrays):
    return [(x.shape[1:], x.strides[1:]) for x in arrays]


def copies(x, out):
    np.copyto(out, x)


def reduces(x, out):
    np.subtract(x, np.maximum.reduce(x), out=out)


def makes_memory(x, out):
    np.multiply(x + x, 2.0, out=out)


def casts(x, out):
    np.add(x, np.float64(1), out=out, casting="unsafe")


def takes_another_dtype(x, out):
    np.add(x, np.ones(3), out=out)


def takes_nothing(x, out):
    np.negative(x[:, :0], out=out[:, :0])


def goes_backward(x, out):
    np.matmul(x[:, ::-2, ::2], x[:, ::2, ::-2], out=out[:, :2, :2])


@needs_code
@pytest.mark.parametrize(
    "kernel",
    [copies, reduces, makes_memory, casts, takes_another_dtype, takes_nothing, goes_backward],
)
def test_kernels_that_do_something_else_are_not_noted(kernel):
    x = numbers(2, 3, 3)
    with pytest.raises(noted_calls.NotNoted):
        noted_calls.noted_calls(kernel, layouts_of(x, x), x.dtype, [], {})


def looks_at_its_operand(x, out):
    (np.negative if type(x) is np.ndarray else np.exp)(x, out=out)


@needs_code
def test_a_trial_tells_other_bits():
    x = numbers(4, 30)
    with pytest.raises(noted_calls.NotNoted, match="other bits"):
        stacks.tried_calls(looks_at_its_operand, layouts_of(x, x), [False], x.dtype, [], {})
    for _ in range(3):
        out = np.empty_like(x)
        stacks.over_stack(looks_at_its_operand, [x], [out], [], {})
        np.testing.assert_array_equal(out, -x)


def test_many_axes_and_numbers():
    def kernel(x, y, out, spare):
        np.multiply(x.transpose(0, 3, 1, 2), 2, out=spare)
        np.add(spare, y[:, np.newaxis, np.newaxis], out=out)

    x, y = numbers(5, 2, 3, 4), numbers(1, 3, seed=1)
    for _ in range(3):
        out = np.zeros((5, 6, 2, 4), "f")
        stacks.over_stack(kernel, [x, y], [out[:, 1:5, :, 1:4]], [(4, 2, 3)], {})
        right = np.zeros((5, 6, 2, 4), "f")
        right[:, 1:5, :, 1:4] = x.transpose(0, 3, 1, 2) * 2 + y
        np.testing.assert_array_equal(out, right)
        found = known()
    assert not machine.compiles_here() or found[0].calls is not None


def test_without_machine_code_numpy_computes_all(monkeypatch):
    monkeypatch.setenv("FUNCTENSOR_NATIVE", "0")
    x = numbers(50, 20)
    for _ in range(2):
        normalization.normalize(x, eps=0.1, center=True)
        assert all(each.calls is None for each in known())


def test_kinds_are_bounded(monkeypatch):
    monkeypatch.setattr(stacks, "MOST_KNOWN_STACKS", 3)
    for length in range(3, 9):
        normalization.normalize(numbers(4, length), eps=0.1, center=True)
        assert len(stacks.known_stacks) <= 4
        known()


@needs_code
def test_several_threads():
    operands = [heads(i, 2, 40, 2, 8, "f") for i in range(4)]
    wanted = [attended(*x, True)[1].tobytes() for x in operands]
    known()
    failed, met = [], threading.Barrier(4)

    def work(number):
        met.wait(30)
        found = [attended(*operands[number], True)[1].tobytes() for _ in range(30)]
        failed.extend([number] * (found != [wanted[number]] * 30))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_attention_that_is_computed_otherwise():
    q, k, v = matrices(4, 5, 3, 2, "f")
    for given in (
        (q, k, v, True),
        (q.astype("e"), k.astype("e"), v.astype("e"), False),
        (q, k[:, :0], v[:, :0], False),
    ):
        assert small_attention.small_attention(*given, 1.0) is None


@pytest.mark.parametrize("outputs", [8, 5])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_heads_side_by_side_stay_so(dtype, outputs):
    q, k, _ = heads(0, 2, 70, 3, 8, dtype)
    v = heads(1, 2, 70, 3, outputs, dtype)[2]
    for _ in range(4):
        out = attention.attention(q, k, v, causal=True, scale=0.3)
        in_order = [np.ascontiguousarray(x) for x in (q, k, v)]
        plain = attention.attention(*in_order, causal=True, scale=0.3)
        assert plain.flags.c_contiguous
        np.testing.assert_array_equal(out, plain)
        # Tokens with their heads in a row are no copy.
        rows = out.transpose(0, 2, 1, 3).reshape(2, 70, 3 * outputs)
        assert np.shares_memory(rows, out)
        known()


def test_columns_of_queries_are_no_columns_of_the_result():
    q, k, v = (x.swapaxes(-1, -2).copy().swapaxes(-1, -2) for x in matrices(40, 40, 4, 4, "f"))
    out = attention.attention(q, k, v, causal=True, scale=0.3)
    assert out.strides[-1] == out.itemsize


@needs_code
@pytest.mark.parametrize("many", [10, 11])
def test_kernels_of_more_arrays_than_a_list_takes_stay_with_numpy(many):
    def added(*arrays):
        *given, out = arrays
        np.add(given[0], given[1], out=out)
        for x in given[2:]:
            np.add(out, x, out=out)

    given = [numbers(3, 40, dtype="f", seed=i) for i in range(many)]
    wanted = given[0] + given[1]
    for x in given[2:]:
        wanted = wanted + x
    for _ in range(4):
        out = np.empty((3, 40), "f")
        stacks.over_stack(added, given, [out], [], {})
        assert out.tobytes() == wanted.tobytes()
        (found,) = known()
    # With the result and the spare memory there are twelve, or one too many.
    assert (found.calls is not None) == (many == 10)
