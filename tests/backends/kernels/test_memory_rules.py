"""The rules of a kernel's memory: kernels that break them, and the messages."""

import numpy as np
import pytest
from support.small_kernels import (
    COL,
    COLUMN,
    F4,
    KEPT,
    OF_PART,
    OF_ROWS,
    ONE,
    OUT,
    PART,
    ROW,
    STORED,
    THERE,
    TWICE,
    A,
    B,
    L,
    M,
    X,
    Y,
    Z,
    broken,
    everywhere,
    filled,
    kernel,
    let,
    rows,
    value,
)

from functensor.backends.kernels.check import KernelError, check_kernel
from functensor.backends.kernels.kernel import (
    BLOCK_NUMBER,
    Buffer,
    Fold,
    For,
    Index,
    Let,
    Load,
    Store,
    UpdateOf,
)

WRITES = {
    "an input that is stored": broken(
        rows(Store(A, THERE, ONE)),
        "buffer a, `a[i*4 + j] = float32(1.0)`: an input is written",
    ),
    "an input that is updated": broken(
        rows(UpdateOf(A, THERE, "add", ONE)),
        "buffer a, `a[i*4 + j] = add(a[i*4 + j], float32(1.0))`: an input is written",
    ),
    "an output that is loaded": broken(
        kernel(STORED, For(ROW, [For(COL, [Load(value(), OUT, THERE)])])),
        "buffer out, `v1 = out[i*4 + j]`: an output is read",
    ),
    "an output that is updated": broken(
        everywhere(Store(OUT, THERE, ONE), UpdateOf(OUT, THERE, "add", ONE)),
        "buffer out, `out[i*4 + j] = add(out[i*4 + j], float32(1.0))`: an output is read",
    ),
    "an output in every block": broken(
        kernel(STORED, For(COL, [Store(B, COLUMN, ONE)]), buffers=[A, OUT, B]),
        "buffer b, `b[j] = float32(1.0)`: every block writes the same elements of an output",
    ),
    "an element that two places write": broken(
        everywhere(Store(OUT, Index([(ROW, 1), (COL, 2)]), ONE)),
        "buffer out, `out[i + j*2] = float32(1.0)`: "
        "an element of an output is written more than once",
    ),
    "an axis over which the same is written": broken(
        everywhere(Store(OUT, Index([(COL, 1)]), ONE)),
        "buffer out, `out[j] = float32(1.0)`: an element of an output is written more than once",
    ),
    "two stores of the same elements": broken(
        everywhere(Store(OUT, THERE, ONE), Store(OUT, THERE, np.float32(2))),
        "buffer out, `out[i*4 + j] = float32(2.0)`: "
        "`out[i*4 + j] = float32(1.0)` may write the same elements",
    ),
    "an element that is missing": broken(
        kernel(For(ROW, [Store(OUT, Index([(ROW, 4)]), ONE)])),
        "buffer out: 3 of 12 elements are written",
    ),
    "an output without a store": broken(
        kernel(For(ROW, [])),
        "buffer out: 0 of 12 elements are written",
    ),
    "a part that is not whole": broken(
        kernel(Store(PART, Index([(BLOCK_NUMBER, 4)]), ONE), buffers=[PART]),
        "buffer part: 1 of 4 elements of its part are written",
    ),
    "a part that only rows write": broken(
        kernel(For(ROW, [filled(PART, OF_PART)]), buffers=[PART]),
        "buffer part: 0 of 4 elements of its part are written",
    ),
    "a part of stores that overlap": broken(
        kernel(
            Store(PART, Index([(BLOCK_NUMBER, 4)]), ONE),
            Store(PART, Index([(BLOCK_NUMBER, 4)]), np.float32(2)),
            buffers=[PART],
        ),
        "buffer part, `part[number*4] = float32(2.0)`: "
        "stores overlap, and none fills the whole buffer",
    ),
}
ADDED = For(COL, [UpdateOf(B, COLUMN, "add", ONE)], (), 4)
NOT_WRITTEN = "it may read elements that nothing before it has written"
LOADED = Load(value(), KEPT, COLUMN)
READS = {
    "scratch that is never written": broken(
        rows(LOADED),
        f"buffer kept, `v1 = kept[j]`: {NOT_WRITTEN}",
    ),
    "scratch that is written later": broken(
        rows(LOADED, Store(KEPT, COLUMN, ONE)),
        f"buffer kept, `v1 = kept[j]`: {NOT_WRITTEN}",
    ),
    "scratch of which a part is written": broken(
        kernel(Store(KEPT, Index(), ONE), filled(KEPT, Index([], 3)), For(COL, [LOADED]), STORED),
        f"buffer kept, `v1 = kept[j]`: {NOT_WRITTEN}",
    ),
    "an element ahead": broken(
        rows(Store(KEPT, COLUMN, ONE), Load(value(), KEPT, Index([(COL, -1)], 3))),
        f"buffer kept, `v1 = kept[-j + 3]`: {NOT_WRITTEN}",
    ),
    "an update of nothing": broken(
        rows(UpdateOf(KEPT, COLUMN, "add", ONE)),
        f"buffer kept, `kept[j] = add(kept[j], float32(1.0))`: {NOT_WRITTEN}",
    ),
    "an update of a part": broken(
        kernel(For(COL, [UpdateOf(PART, OF_PART, "add", ONE)]), buffers=[PART]),
        f"buffer part, `part[number*4 + j] = add(part[number*4 + j], float32(1.0))`: {NOT_WRITTEN}",
    ),
    "an update of an output": broken(
        kernel(For(L, [ADDED]), buffers=[B], scratch=[]),
        f"buffer b, `b[j] = add(b[j], float32(1.0))`: {NOT_WRITTEN}",
    ),
    "an output of which a part is gathered": broken(
        kernel(
            Store(B, Index(), ONE),
            UpdateOf(B, Index(), "add", ONE),
            For(M, [Store(B, Index([(M, 1)], 1), ONE)]),
            buffers=[B],
            scratch=[],
        ),
        "buffer b: 3 of 4 elements are written",
    ),
    "rows of other blocks": broken(
        kernel(
            For(ROW, [Store(OF_ROWS, Index([(ROW, 1)]), ONE)]),
            For(L, [Load(value(), OF_ROWS, Index([(L, 1)]))]),
            STORED,
            scratch=[OF_ROWS],
        ),
        f"buffer rows, `v1 = rows[l]`: {NOT_WRITTEN}",
    ),
}

LATE = "an output needs what is complete only after all blocks"
SINGLE_FORMAT = Buffer("single", F4, (1,), "scratch")
TOTAL = For(ROW, [For(COL, [TWICE], [Fold(Y, "add", X)])], [Fold(Z, "add", Y)])
BLOCKS = {
    "a fold over the block": broken(
        kernel(TOTAL, For(ROW, [For(COL, [Store(OUT, THERE, Z)])])),
        f"buffer out, `out[i*4 + j] = v3`: {LATE}",
    ),
    "what is made of a fold over the block": broken(
        kernel(
            TOTAL,
            Let(W := value(), "negative", [Z]),
            Store(SINGLE_FORMAT, Index(), W),
            For(
                ROW, [Load(V := value(), SINGLE_FORMAT, Index()), For(COL, [Store(OUT, THERE, V)])]
            ),
            scratch=[SINGLE_FORMAT],
        ),
        f"buffer out, `out[i*4 + j] = v5`: {LATE}",
    ),
    "a sum in memory over the block": broken(
        kernel(
            filled(KEPT, COLUMN),
            For(ROW, [For(COL, [UpdateOf(KEPT, COLUMN, "add", ONE)])]),
            For(ROW, [For(COL, [Load(W := value(), KEPT, COLUMN), Store(OUT, THERE, W)])]),
        ),
        f"buffer out, `out[i*4 + j] = v1`: {LATE}",
    ),
    "a running sum over the block": broken(
        kernel(
            filled(KEPT, COLUMN),
            For(
                ROW,
                [
                    For(
                        COL,
                        [
                            UpdateOf(KEPT, COLUMN, "add", ONE),
                            Load(W := value(), KEPT, COLUMN),
                            Store(OUT, THERE, W),
                        ],
                    )
                ],
            ),
        ),
        f"buffer out, `out[i*4 + j] = v1`: {LATE}",
    ),
}

LANES = {
    "one element of all lanes": broken(
        kernel(For(ROW, [For(COL, [Store(KEPT, Index(), ONE), Store(OUT, THERE, ONE)], (), 4)])),
        "buffer kept, `kept[0] = float32(1.0)`: all lanes along j write one element",
    ),
    "an update of one element": broken(
        kernel(
            Store(KEPT, Index(), ONE),
            For(COL, [UpdateOf(KEPT, Index(), "add", ONE)], (), 4),
            STORED,
        ),
        "buffer kept, `kept[0] = add(kept[0], float32(1.0))`: all lanes along j write one element",
    ),
    "what other lanes read": broken(
        kernel(
            filled(KEPT, COLUMN),
            For(
                COL,
                [Load(W := value(), KEPT, Index([(COL, -1)], 3)), Store(KEPT, COLUMN, W)],
                (),
                4,
            ),
            STORED,
        ),
        "buffer kept, `kept[j] = v1`: "
        "lanes along j may write what other lanes take in `v1 = kept[-j + 3]`",
    ),
    "what other lanes read in a loop": broken(
        kernel(
            filled(KEPT, COLUMN),
            For(
                COL,
                [
                    For(
                        M,
                        [Load(W := value(), KEPT, Index([(M, 1)]))],
                        [Fold(V := value(), "add", W)],
                    ),
                    Store(KEPT, COLUMN, V),
                ],
                (),
                4,
            ),
            STORED,
        ),
        "buffer kept, `kept[j] = v2`: "
        "lanes along j may write what other lanes take in `v1 = kept[m]`",
    ),
}

ALL = {**WRITES, **READS, **BLOCKS, **LANES}


@pytest.mark.parametrize(("wrong", "message"), ALL.values(), ids=ALL)
def test_a_rule_is_broken(wrong, message):
    with pytest.raises(KernelError) as caught:
        check_kernel(wrong)
    assert str(caught.value) == message


def half(begin):
    """Stores to every second column."""
    return Store(OUT, Index([(ROW, 4), (M, 2)], begin), ONE)


KEEPING = {
    "nothing else": rows(),
    "lanes": rows(lanes=4),
    "two halves": kernel(For(ROW, [For(M, [half(0), half(1)], (), 2)])),
    "backwards": everywhere(Store(OUT, Index([(ROW, -4), (COL, -1)], 11), ONE)),
    "another order of loops": kernel(For(COL, [For(ROW, [Store(OUT, THERE, ONE)])])),
    "scratch of rows": kernel(
        For(ROW, [Store(OF_ROWS, Index([(ROW, 1)]), ONE)]),
        For(
            ROW,
            [Load(W := value(), OF_ROWS, Index([(ROW, 1)])), For(COL, [Store(OUT, THERE, W)])],
        ),
        scratch=[OF_ROWS],
    ),
    "a sum in memory of each row": kernel(
        For(
            ROW,
            [
                filled(KEPT, COLUMN, 4),
                For(L, [For(COL, [UpdateOf(KEPT, COLUMN, "add", ONE)], (), 4)]),
                For(COL, [Load(V := value(), KEPT, COLUMN), Store(OUT, THERE, V)], (), 4),
            ],
        )
    ),
    "a mean in an output": kernel(
        filled(B, COLUMN),
        For(L, [ADDED]),
        For(COL, [Load(W, B, COLUMN), Let(V, "divide", [W, ONE]), Store(B, COLUMN, V)], (), 4),
        buffers=[B],
    ),
    "a part of a fold": kernel(TOTAL, filled(PART, OF_PART), STORED, buffers=[A, OUT, PART]),
    "a part of two stores": kernel(
        For(M, [Store(PART, Index([(BLOCK_NUMBER, 4), (M, 2)]), ONE)]),
        For(M, [Store(PART, Index([(BLOCK_NUMBER, 4), (M, 2)], 1), ONE)]),
        buffers=[PART],
    ),
    "library": let("library_pow", F4, np.True_, ONE, ONE, ONE),
    "half precision": let("fma", np.dtype(np.float16), *[np.float16(1)] * 3),
}


@pytest.mark.parametrize("right", KEEPING.values(), ids=KEEPING)
def test_all_rules_are_kept(right):
    check_kernel(right)
