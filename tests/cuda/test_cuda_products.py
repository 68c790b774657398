"""Contractions as calls of cuBLAS, carried out by NumPy, with no GPU, and counted."""

import numpy as np
import pytest

from functensor.backends.cuda.cublas.matmul_calls import (
    MOST_BATCH_MATRICES,
    ProductAxis,
    product_calls,
)


def elements(x):
    return tuple(s // x.itemsize for s in x.strides)


def stack(flat, start, rows, columns, leading, count, stride):
    """Returns the column-major matrices that cuBLAS sees."""
    step = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[start:], (count, rows, columns), (stride * step, step, leading * step)
    )


def memory(x):
    """Returns all that an array's memory holds from its first element on."""
    last = sum((n - 1) * s for n, s in zip(x.shape, elements(x), strict=True))
    return np.lib.stride_tricks.as_strided(x, (last + 1,), (x.itemsize,))


def carried_out(product, x, y):
    """Computes a product as its calls say."""
    x = x if product.x_order is None else x.transpose(product.x_order).copy()
    y = y if product.y_order is None else y.transpose(product.y_order).copy()
    out = np.full(product.shape, np.nan)
    calls = product.calls
    m, n, k = calls.sizes
    turned, leading = calls.transposed, calls.leading
    # Conditions of cuBLAS for its arguments.
    assert leading[0] >= max(1, k if turned[0] else m)
    assert leading[1] >= max(1, n if turned[1] else k)
    assert leading[2] >= max(1, m)
    for count, x_at, y_at, at in calls.each:
        assert count <= MOST_BATCH_MATRICES
        operands = [(memory(x), x_at), (memory(y), y_at)]
        (a, a_at), (b, b_at) = operands if calls.x_first else operands[::-1]
        rows, columns = (k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)
        first = stack(a, a_at, *rows, leading[0], count, calls.strides[0])
        second = stack(b, b_at, *columns, leading[1], count, calls.strides[1])
        first = first.swapaxes(1, 2) if turned[0] else first
        second = second.swapaxes(1, 2) if turned[1] else second
        made = stack(out.reshape(-1), at, m, n, leading[2], count, calls.strides[2])
        made[...] = first @ second
    return out if product.axes is None else out.transpose(product.axes)


def check(subscripts, x, y):
    """Checks a product of two arrays, and returns the numbers of calls and of copies."""
    terms, out = subscripts.split("->")
    x_term, y_term = terms.split(",")
    lengths = dict(zip(x_term + y_term, x.shape + y.shape, strict=True))

    def place(letter, term):
        return term.index(letter) if letter in term else None

    axes = [
        ProductAxis(n, place(a, x_term), place(a, y_term), place(a, out))
        for a, n in lengths.items()
    ]
    product = product_calls(axes, elements(x), elements(y), x.itemsize)
    np.testing.assert_allclose(
        carried_out(product, x, y), np.einsum(subscripts, x, y), rtol=1e-12, atol=1e-12
    )
    return len(product.calls.each), (product.x_order is not None) + (product.y_order is not None)


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize(
    ("subscripts", "x", "y"),
    [
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,kj->ik", (2, 3), (4, 3)),
        ("ji,jk->ik", (3, 2), (3, 4)),
        ("ji,kj->ik", (3, 2), (4, 3)),
        ("ij,jk->ki", (2, 3), (3, 4)),
        ("i,i->", (5,), (5,)),
        ("ij,j->i", (2, 3), (3,)),
        ("j,ij->i", (3,), (2, 3)),
        ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
        ("bij,jk->bik", (5, 2, 3), (3, 4)),
        ("bji,bjk->bik", (5, 3, 2), (5, 3, 4)),
        ("ij,bjk->bik", (2, 3), (5, 3, 4)),
        ("bi,bi->b", (5, 3), (5, 3)),
        ("abij,abjk->abik", (2, 5, 2, 3), (2, 5, 3, 4)),
        ("abi,cbi->ac", (2, 3, 4), (5, 3, 4)),
        ("bij,bjk->ikb", (5, 2, 3), (5, 3, 4)),
    ],
)
def test_one_call_and_no_copy(subscripts, x, y):
    assert check(subscripts, numbers(*x), numbers(*y)) == (1, 0)


def test_slices_and_transposed_stacks_are_not_copied():
    x = numbers(8, 20, 6)[::2, 3:17:2, 1:5]
    assert check("bij,jk->bik", x, numbers(4, 9)[:, 2:7]) == (1, 0)
    x = numbers(8, 20, 6).transpose(1, 0, 2)
    assert check("bij,bjk->bik", x, numbers(20, 6, 3)) == (1, 0)


def test_repeated_operands_have_stride_zero():
    shared = np.broadcast_to(numbers(4, 6), (5, 4, 6))
    assert check("bij,bjk->bik", shared, numbers(5, 6, 3)) == (1, 0)


def test_heads_of_attention_are_few_calls_or_copies():
    q, k = numbers(2, 50, 12, 16), numbers(2, 70, 12, 16)
    assert check("bthd,bshd->bhts", q, k) == (2, 0)
    assert check("bhts,bshd->bthd", numbers(2, 12, 50, 70), k) == (2, 0)
    many = numbers(64, 5, 3, 4)
    calls, copies = check("bthd,bshd->bhts", many, many)
    assert calls <= 3
    assert copies <= 2


def test_what_fits_no_matrix_is_copied():
    rows = np.broadcast_to(numbers(4, 1), (4, 6))
    assert check("ij,jk->ik", rows, numbers(6, 3)) == (1, 1)
    assert check("ij,jk->ik", numbers(4, 12)[:, ::2], numbers(6, 3)) == (1, 1)
    backwards = numbers(5, 6)[:, ::-1]
    assert check("ij,kj->ik", backwards, backwards) == (1, 2)
    windows = np.lib.stride_tricks.sliding_window_view(numbers(9), 4)
    assert check("ij,jk->ik", windows, numbers(4, 3)) == (1, 1)


def test_large_batches_are_split():
    x = numbers(MOST_BATCH_MATRICES + 3, 1, 2)
    assert check("bij,bjk->bik", x, numbers(MOST_BATCH_MATRICES + 3, 2, 1)) == (2, 0)


def test_random_products():
    rng = np.random.default_rng(0)
    for _ in range(300):
        letters = "abcdefg"[: rng.integers(1, 7)]
        lengths = {a: int(rng.integers(1, 5)) for a in letters}
        where = {a: rng.choice(["xy", "xo", "yo", "xyo"]) for a in letters}

        def term(operand, where=where):
            chosen = [a for a in where if operand in where[a]]
            return "".join(rng.permutation(chosen)) if chosen else ""

        x_term, y_term, out = term("x"), term("y"), term("o")

        def array(term, lengths=lengths):
            order = rng.permutation(len(term))
            base = rng.standard_normal([lengths[term[i]] + 1 for i in order])
            x = base[tuple(slice(int(rng.integers(0, 2)), None) for _ in order)]
            x = x.transpose(np.argsort(order))
            return x[tuple(slice(0, lengths[a]) for a in term)]

        check(f"{x_term},{y_term}->{out}", array(x_term), array(y_term))
