"""Inputs and outputs in the same memory: where the checker of kernels lets them share it."""

import pytest
from support.small_kernels import COL, F4, ONE, OUT, ROW, STORED, THERE, A, B, L, broken, value

from functensor.backends.kernels.check import KernelError, check_kernel, check_shared
from functensor.backends.kernels.kernel import Buffer, For, Index, Load, LoopAxis, LoopKernel, Store


def shared(*body, buffers=(A, OUT)):
    return LoopKernel("k", buffers, (), body)


def copied(index=THERE, lanes=1):
    x = value()
    return For(COL, [Load(x, A, index), Store(OUT, THERE, x)], (), lanes)


SQUARE_I, SQUARE_J = LoopAxis("i", 4, block=True), LoopAxis("j", 4)
SQUARE, TARGET = Buffer("a", F4, (4, 4), "in"), Buffer("out", F4, (4, 4), "out")
TURNED = Load(W := value(), SQUARE, Index([(SQUARE_J, 4), (SQUARE_I, 1)]))
UPWARDS = Load(value(), A, Index([(ROW, -4), (COL, 1)], 8))
STRAIGHT = Store(TARGET, Index([(SQUARE_I, 4), (SQUARE_J, 1)]), W)

SHARED = {
    "elementwise": shared(For(ROW, [copied()])),
    "lanes": shared(For(ROW, [copied(lanes=4)])),
    "rows that are read before": shared(
        For(ROW, [For(COL, [Load(value(), A, THERE)]), For(COL, [Store(OUT, THERE, ONE)])])
    ),
    "elements that are read again": shared(
        For(
            ROW,
            [For(COL, [Load(value(), A, THERE), Load(value(), A, THERE), Store(OUT, THERE, ONE)])],
        )
    ),
    "all of it before, in one block": shared(
        For(L, [For(COL, [Load(value(), A, Index([(COL, 1)]))])]),
        For(L, [For(COL, [Store(OUT, Index([(L, 4), (COL, 1)]), ONE)])]),
    ),
    "rows of the block before": shared(For(ROW, [For(COL, [Load(value(), A, THERE)])]), STORED),
}
OVER = "by `out[i*4 + j] = "
NOT_SHARED = {
    "later": broken(
        shared(For(ROW, [For(COL, [Store(OUT, THERE, ONE), Load(value(), A, THERE)])])),
        "buffer a, `v1 = a[i*4 + j]`: elements are read after they may be overwritten "
        f"{OVER}float32(1.0)`",
    ),
    "in a loop behind": broken(
        shared(For(ROW, [copied(), For(COL, [Load(value(), A, THERE)])])),
        f"buffer a, `v2 = a[i*4 + j]`: elements are read after they may be overwritten {OVER}v1`",
    ),
    "turned": broken(
        shared(For(SQUARE_I, [For(SQUARE_J, [TURNED, STRAIGHT])]), buffers=[SQUARE, TARGET]),
        "buffer a, `v1 = a[j*4 + i]`: elements may be overwritten before they are "
        f"read elsewhere {OVER}v1`",
    ),
    "backwards": broken(
        shared(For(ROW, [For(COL, [UPWARDS, Store(OUT, THERE, ONE)])])),
        "buffer a, `v1 = a[-i*4 + j + 8]`: elements may be overwritten before they are "
        f"read elsewhere {OVER}float32(1.0)`",
    ),
    "one row for all": broken(
        shared(For(ROW, [copied(Index([(COL, 1)]))])),
        "buffer a, `v1 = a[j]`: elements may be overwritten before they are read "
        f"elsewhere {OVER}v1`",
    ),
    "before all blocks": broken(
        shared(For(L, [For(COL, [Load(value(), A, Index([(L, 4), (COL, 1)]))])]), STORED),
        "buffer a, `v1 = a[l*4 + j]`: all blocks read what one of them overwrites "
        f"{OVER}float32(1.0)`",
    ),
}


@pytest.mark.parametrize("right", SHARED.values(), ids=SHARED)
def test_memory_may_be_shared(right):
    check_kernel(right)
    check_shared(right, [(A, OUT)])


@pytest.mark.parametrize(("wrong", "message"), NOT_SHARED.values(), ids=NOT_SHARED)
def test_memory_may_not_be_shared(wrong, message):
    check_kernel(wrong)
    with pytest.raises(KernelError) as caught:
        check_shared(wrong, [wrong.buffers])
    assert str(caught.value) == message


def test_pairs_are_an_input_and_an_output_each():
    long = Buffer("long", F4, (13,), "in")
    some = shared(STORED, buffers=[A, long, OUT])
    for pairs, message in [
        ([(OUT, A)], "buffer out: out: float32[3, 4] is no buffer of its role 'in'"),
        ([(A, B)], "buffer b: b: float32[4] is no buffer of its role 'out'"),
        ([(A, OUT), (long, OUT)], "buffer out: it shares memory with more than one buffer"),
        ([(long, OUT)], "buffer long: it cannot have the memory of out: float32[3, 4]"),
    ]:
        with pytest.raises(KernelError) as caught:
            check_shared(some, pairs)
        assert str(caught.value) == f"kernel k, {message}"
