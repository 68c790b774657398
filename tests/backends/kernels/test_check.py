"""The rules of a kernel's values, dtypes and indexes: kernels that break them, and the messages."""

import numpy as np
import pytest
from support.small_kernels import (
    B1,
    COL,
    COLUMN,
    F4,
    F8,
    I4,
    KEPT,
    OF_PART,
    ONE,
    OUT,
    PART,
    ROW,
    STORED,
    THERE,
    TWICE,
    A,
    K,
    X,
    Y,
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
    LoopAxis,
    PlaceOf,
    PlaceWithin,
    Store,
    UpdateOf,
)

BUFFERS = {
    "two buffers of one name": broken(
        kernel(STORED, buffers=[A, A, OUT]),
        "buffer a: two buffers have this name",
    ),
    "an unknown role": broken(
        kernel(STORED, buffers=[A, OUT, Buffer("b", F4, (), "scratch")]),
        "buffer b: the role of an argument is 'scratch'",
    ),
    "an input behind results": broken(
        kernel(STORED, buffers=[OUT, A]),
        "buffer a: an input comes after a result",
    ),
    "a part without blocks": broken(
        kernel(STORED, buffers=[A, OUT, Buffer("p", F4, (4,), "part")]),
        "buffer p: a part has no axis for the number of the block",
    ),
    "another role of own memory": broken(
        kernel(STORED, scratch=[Buffer("b", F4, (4,), "in")]),
        "buffer b: the role of own memory is 'in'",
    ),
    "a stranger": broken(
        rows(Load(value(), Buffer("b", F4, (3, 4), "in"), THERE)),
        "buffer b, `v1 = b[i*4 + j]`: it is no buffer of the kernel",
    ),
}

LOOPS = {
    "a loop over the number": broken(
        kernel(For(BLOCK_NUMBER, [])),
        f"`for number in {1 << 62}:`: no loop goes over the number of the block",
    ),
    "an axis in itself": broken(
        kernel(For(COL, [For(COL, [])])),
        "`for j in 4:`: a loop around it goes over j too",
    ),
    "two axes of blocks": broken(
        kernel(STORED, For(K, [])),
        "`for k in block of 3:`: blocks are cut along i too",
    ),
    "a negative length": broken(
        kernel(For(LoopAxis("j", -1), [])),
        "`for j in -1:`: an axis has a negative length",
    ),
    "three lanes": broken(
        rows(lanes=3),
        "`for j in 4, lanes 3:`: 3 lanes are no power of two",
    ),
    "no lanes": broken(rows(lanes=0), "`for j in 4, lanes 0:`: 0 lanes are no power of two"),
    "lanes within lanes": broken(
        kernel(For(ROW, [For(COL, [], (), 2)], (), 2)),
        "`for j in 4, lanes 2:`: a loop with lanes has loops with lanes or blocks in it",
    ),
    "blocks within lanes": broken(
        kernel(For(COL, [For(ROW, [])], (), 2)),
        "`for i in block of 3:`: a loop with lanes has loops with lanes or blocks in it",
    ),
    "a store in a loop within lanes": broken(
        kernel(For(ROW, [For(COL, [Store(OUT, THERE, ONE)])], (), 2)),
        "buffer out, `out[i*4 + j] = float32(1.0)`: a loop within a loop with lanes writes",
    ),
    "a factor of a largest number": broken(
        kernel(For(COL, [], [Fold(value(), "maximum", ONE, ONE)])),
        "`for j in 4, folding v1 = maximum(float32(1.0) * float32(1.0)):`: only sums of floats "
        "have factors",
    ),
    "a factor of another dtype": broken(
        kernel(For(COL, [], [Fold(value(), "add", ONE, np.float64(1))])),
        "`for j in 4, folding v1 = add(float32(1.0) * float64(1.0)):`: a fold of float64 gives "
        "float32",
    ),
    "an unknown fold": broken(
        kernel(For(COL, [], [Fold(value(), "subtract", ONE)])),
        "`for j in 4, folding v1 = subtract(float32(1.0)):`: 'subtract' is no fold",
    ),
    "a fold into another dtype": broken(
        kernel(For(COL, [], [Fold(value(F8), "add", ONE)])),
        "`for j in 4, folding v1 = add(float32(1.0)):`: a fold of float32 gives float64",
    ),
    "an unknown update": broken(
        rows(UpdateOf(KEPT, COLUMN, "divide", ONE)),
        "`kept[j] = divide(kept[j], float32(1.0))`: 'divide' is no fold",
    ),
    "a place of no loop": broken(
        rows(PlaceOf(value(I4), K)),
        "`v1 = k`: no loop around it goes over k",
    ),
    "a place of 64 bits": broken(
        rows(PlaceOf(value(np.dtype(np.int64)), COL)),
        "`v1 = j`: the number of a place is not int32: int64",
    ),
}

VALUES = {
    "a value that comes later": broken(
        rows(Let(Y, "negative", [X]), TWICE),
        "`v1 = negative(v2)`: v2 is not known here",
    ),
    "a value of another loop": broken(
        kernel(For(ROW, [For(COL, [TWICE]), For(COL, [Store(OUT, THERE, X)])])),
        "`out[i*4 + j] = v1`: v1 is not known here",
    ),
    "a value that is computed twice": broken(
        rows(TWICE, TWICE),
        "`v1 = a[i*4 + j]`: v1 is computed twice",
    ),
    "a fold within its loop": broken(
        kernel(For(ROW, [For(COL, [TWICE, Store(OUT, THERE, Y)], [Fold(Y, "add", X)])])),
        "`out[i*4 + j] = v2`: v2 is not known here",
    ),
    "a fold of a later value": broken(
        kernel(For(ROW, [For(COL, [], [Fold(Y, "add", X)]), For(COL, [TWICE])])),
        "`for j in 4, folding v1 = add(v2):`: v2 is not known here",
    ),
    "a fold of a fold of the same loop": broken(
        kernel(For(COL, [], [Fold(X, "add", ONE), Fold(Y, "add", X)])),
        "`for j in 4, folding v1 = add(float32(1.0)), v2 = add(v1):`: v1 is not known here",
    ),
    "a number of Python": broken(
        rows(Store(KEPT, COLUMN, 1.0)),
        "`kept[j] = 1.0`: 1.0 is no value and no constant of NumPy",
    ),
}

DTYPES = {
    "an unknown operation": broken(
        let("plus", F4, ONE, ONE),
        "`v1 = plus(float32(1.0), float32(1.0))`: there is no operation 'plus'",
    ),
    "too few operands": broken(
        let("add", F4, ONE),
        "`v1 = add(float32(1.0))`: add takes 2 operands, not 1",
    ),
    "too many operands of a function": broken(
        let("exp", F4, ONE, ONE),
        "`v1 = exp(float32(1.0), float32(1.0))`: exp takes 1 operands, not 2",
    ),
    "two dtypes": broken(
        let("add", F4, ONE, np.float64(1)),
        "`v1 = add(float32(1.0), float64(1.0))`: "
        "add takes operands of one dtype, not float32, float64",
    ),
    "another result": broken(
        let("less", F4, ONE, ONE),
        "`v1 = less(float32(1.0), float32(1.0))`: less of float32, float32 gives bool, not float32",
    ),
    "select without a mask": broken(
        let("select", F4, ONE, ONE, ONE),
        "`v1 = select(float32(1.0), float32(1.0), float32(1.0))`: "
        "select takes a mask first, not float32",
    ),
    "select of two dtypes": broken(
        let("select", F4, np.True_, ONE, np.int32(1)),
        "`v1 = select(bool(True), float32(1.0), int32(1))`: "
        "select takes operands of one dtype, not bool, float32, int32",
    ),
    "bits of another size": broken(
        let("bits", F8, ONE),
        "`v1 = bits[float64](float32(1.0))`: float64 has another size than float32",
    ),
    "a cast of two": broken(
        let("cast", F8, ONE, ONE),
        "`v1 = cast[float64](float32(1.0), float32(1.0))`: cast takes 1 operand, not 2",
    ),
    "a square root of whole numbers": broken(
        let("sqrt", I4, np.int32(4)),
        "`v1 = sqrt(int32(4))`: sqrt does not take int32",
    ),
    "a quotient of whole numbers": broken(
        let("divide", I4, np.int32(4), np.int32(2)),
        "`v1 = divide(int32(4), int32(2))`: divide does not take int32, int32",
    ),
    "bits and of floats": broken(
        let("bitwise_and", F4, ONE, ONE),
        "`v1 = bitwise_and(float32(1.0), float32(1.0))`: "
        "bitwise_and does not take float32, float32",
    ),
    "a negative mask": broken(
        let("negative", B1, np.True_),
        "`v1 = negative(bool(True))`: negative does not take bool",
    ),
    "a function of whole numbers": broken(
        let("sin", I4, np.int32(4)),
        "`v1 = sin(int32(4))`: sin does not take int32",
    ),
    "fma of whole numbers": broken(
        let("fma", I4, np.int32(4), np.int32(4), np.int32(4)),
        "`v1 = fma(int32(4), int32(4), int32(4))`: fma does not take int32, int32, int32",
    ),
    "a library's function without a mask": broken(
        let("library_sin", F4, ONE, ONE, ONE),
        "`v1 = library_sin(float32(1.0), float32(1.0), float32(1.0))`: "
        "library_sin takes a mask and operands of float32, not float32, float32, float32",
    ),
    "a library's function of whole numbers": broken(
        let("library_sin", I4, np.True_, np.int32(4), np.int32(4)),
        "`v1 = library_sin(bool(True), int32(4), int32(4))`: library_sin takes floats, not int32",
    ),
    "a load of another dtype": broken(
        rows(Load(value(F8), A, THERE)),
        "buffer a, `v1 = a[i*4 + j]`: float64 is not float32",
    ),
    "a store of another dtype": broken(
        everywhere(Store(OUT, THERE, np.float64(1))),
        "buffer out, `out[i*4 + j] = float64(1.0)`: float64 is not float32",
    ),
}

INDEXES = {
    "behind the end": broken(
        rows(Load(value(), A, Index([(ROW, 4), (COL, 1)], 1))),
        "buffer a, `v1 = a[i*4 + j + 1]`: it takes elements 1 to 12 of 12",
    ),
    "before the beginning": broken(
        rows(Load(value(), A, Index([(ROW, 4), (COL, -1)]))),
        "buffer a, `v1 = a[i*4 - j]`: it takes elements -3 to 8 of 12",
    ),
    "an axis of no loop": broken(
        kernel(For(ROW, [Load(value(), A, THERE)])),
        "buffer a, `v1 = a[i*4 + j]`: no loop around it goes over j",
    ),
    "the number in an input": broken(
        rows(Load(value(), A, OF_PART)),
        "buffer a, `v1 = a[number*4 + j]`: only a part has the number of the block",
    ),
    "a part without the number": broken(
        kernel(filled(PART, COLUMN), buffers=[PART]),
        "buffer part, `part[j] = float32(1.0)`: "
        "the number of the block goes over 0 elements, not 4",
    ),
    "a part with another stride": broken(
        kernel(filled(PART, Index([(BLOCK_NUMBER, 1), (COL, 1)])), buffers=[PART]),
        "buffer part, `part[number + j] = float32(1.0)`: "
        "the number of the block goes over 1 elements, not 4",
    ),
    "the part of another block": broken(
        kernel(filled(PART, Index([(BLOCK_NUMBER, 4), (COL, 1)], 1)), buffers=[PART]),
        "buffer part, `part[number*4 + j + 1] = float32(1.0)`: it takes elements 1 to 4 of 4",
    ),
}

I8 = np.dtype(np.int64)
PLACE, NUMBER = value(I8), value(I4)
NAMED = PlaceOf(NUMBER, COL), PlaceWithin(PLACE, NUMBER, 4)
REMAINDERS = {
    "a whole quotient of floats": broken(
        rows(TWICE, Let(value(), "floor_divide", [X, ONE])),
        "`v2 = floor_divide(v1, float32(1.0))`: floor_divide does not take float32, float32",
    ),
    "a remainder of floats": broken(
        rows(TWICE, Let(value(), "remainder", [X, ONE])),
        "`v2 = remainder(v1, float32(1.0))`: remainder does not take float32, float32",
    ),
}
PICKS = {
    "a place that nothing has named": broken(
        rows(Load(X, A, Index([], 0, [(PLACE, 1)]))),
        "`v1 = a[v2]`: v2 is not known here",
    ),
    "a number that is no place": broken(
        rows(PlaceOf(NUMBER, COL), Load(X, A, Index([], 0, [(NUMBER, 1)]))),
        "buffer a, `v2 = a[v1]`: v1 is within no axis",
    ),
    "places beyond the buffer": broken(
        rows(*NAMED, Load(X, A, Index([(ROW, 4)], 1, [(PLACE, 1)]))),
        "buffer a, `v3 = a[v2 + i*4 + 1]`: it takes elements 1 to 12 of 12",
    ),
    "places before the buffer": broken(
        rows(*NAMED, Load(X, A, Index([(ROW, 4)], 2, [(PLACE, -1)]))),
        "buffer a, `v3 = a[-v2 + i*4 + 2]`: it takes elements -1 to 10 of 12",
    ),
    "a place of 32 bits": broken(
        rows(PlaceOf(NUMBER, COL), PlaceWithin(value(I4), NUMBER, 4)),
        "`v2 = v1 within 4`: the place is not int64: int32",
    ),
    "a float that names a place": broken(
        rows(TWICE, PlaceWithin(PLACE, X, 4)),
        "`v2 = v1 within 4`: float32 names no place",
    ),
    "an axis without places": broken(
        rows(PlaceOf(NUMBER, COL), PlaceWithin(PLACE, NUMBER, 0)),
        "`v2 = v1 within 0`: an axis without places",
    ),
    "a store where a number says": broken(
        rows(*NAMED, Store(KEPT, Index([], 0, [(PLACE, 1)]), ONE)),
        "buffer kept, `kept[v2] = float32(1.0)`: only inputs are read at places that are picked",
    ),
    "a load of own memory where a number says": broken(
        kernel(
            filled(KEPT, COLUMN),
            For(ROW, [For(COL, [*NAMED, Load(X, KEPT, Index([], 0, [(PLACE, 1)]))])]),
            STORED,
        ),
        "buffer kept, `v3 = kept[v2]`: only inputs are read at places that are picked",
    ),
}

ALL = {**BUFFERS, **LOOPS, **VALUES, **DTYPES, **INDEXES, **PICKS, **REMAINDERS}


@pytest.mark.parametrize(("wrong", "message"), ALL.values(), ids=ALL)
def test_a_rule_is_broken(wrong, message):
    with pytest.raises(KernelError) as caught:
        check_kernel(wrong)
    assert str(caught.value) == message
