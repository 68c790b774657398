"""Calls of PyTorch's names that ``expressions.py`` leaves out: all dtypes, empty tensors, errors.

The operands are those of ``expressions.py``.
"""

from itertools import product
from pathlib import Path

from torch_face.expressions import BINARY, EXPRESSIONS, REDUCTIONS, UNARY

__all__ = ["BOTH_FAIL", "NAMES_DIFFER", "NAME_EXPRESSIONS"]

IN_PLACE = (
    "abs", "absolute", "arctan", "asinh", "atan", "ceil", "cos", "cosh", "deg2rad", "erf", "erfc",
    "exp", "exp2", "expm1", "fix", "floor", "frac", "log1p", "nan_to_num", "neg", "negative",
    "rad2deg", "reciprocal", "relu", "round", "sgn", "sigmoid", "sign", "sin", "sinc", "sinh",
    "square", "tan", "tanh", "trunc",
)  # fmt: skip
FLOATS_ONLY = {"frac", "logit"}
# Functions that change a tensor, as functions of torch.
AS_FUNCTIONS = {
    "abs", "ceil", "cos", "cosh", "exp", "floor", "neg", "relu", "round", "sigmoid", "sin", "tanh",
}  # fmt: skip


def every():
    """Yields all expressions, one by one."""
    for name in UNARY:
        if name not in FLOATS_ONLY:
            for x in ("j", "b", "i[:0]"):
                if x != "b" or name not in NOT_OF_BOOLEANS:
                    yield f"torch.{name}({x})"
        for x in ("c", "p[:0]", "p[1,2]", "d.t()"):
            if x not in ("c", "d.t()") or name not in ("acosh", "arccosh"):
                yield f"torch.{name}({x})"
        yield f"(p+1).{name}()"
    for name in IN_PLACE:
        yield f"(p*1).{name}_()"
        yield f"m.clone().{name}_()"
        if name in AS_FUNCTIONS:
            yield f"torch.{name}_(m*1)"
    for name in BINARY:
        for a, b in PAIRS:
            number = b[0] in "0123456789"
            if not (name == "hypot" and a in "ij") and not (number and name in NO_NUMBERS):
                yield f"torch.{name}({a},{b})"
    for name, x in product(REDUCTIONS, ("c", "d", "c[:,:1]", "m.t()", "c.half()")):
        for dim, keep in ((-2, True), (-1, False), (0, True)):
            more = "" if name == "count_nonzero" else f",keepdim={keep}"
            if x != "c.half()" or name in ("sum", "mean", "amax", "any"):
                yield f"torch.{name}({x},{dim}{more})"
    for name in ("sum", "prod", "all", "any", "count_nonzero"):
        yield from (f"torch.{name}(m[:0])", f"torch.{name}(m[:0],0)", f"torch.{name}(m[:,:0],1)")
        yield from (f"torch.{name}(z)", f"torch.{name}(b)", f"torch.{name}(j)")
    for text in Path(__file__).with_suffix(".txt").read_text().split():
        # Spaces divide expressions there.
        yield text.replace("lambda_x:", "lambda x:")


NOT_OF_BOOLEANS = {"abs", "absolute", "ceil", "fix", "floor", "neg", "negative", "positive", "relu",
                   "round", "trunc"}  # fmt: skip
PAIRS = [
    ("p", "p[:1]"), ("p[:,:1]", "f"), ("c", "m"), ("p[:0]", "f"), ("d", "2"), ("p", "0.5"),
    ("i", "2"), ("p[0,0]", "q"), ("j", "j"), ("p", "d[:1]"),
]  # fmt: skip
NO_NUMBERS = {"maximum", "minimum", "fmax", "fmin", "atan2", "arctan2", "hypot", "logical_and",
              "logical_or", "logical_xor"}  # fmt: skip
NAME_EXPRESSIONS = sorted(set(every()) - set(EXPRESSIONS))

OVERWRITTEN = "PyTorch's gradient goes to the elements that are overwritten"
# Expressions whose results or gradients differ from PyTorch's, and why.
NAMES_DIFFER = {
    "m.as_strided_scatter(f[:3],(3,),(4,),1)": OVERWRITTEN,
    "torch.as_strided_scatter(m,p[:2,:2],(2,2),(1,2))": OVERWRITTEN,
    "(m*1).scatter_(1,k%4,p)": "of elements for one place PyTorch's gradient goes to all",
    "m.narrow_copy(0,-1,1)": "PyTorch has no gradient of narrow_copy",
}

# Calls that are errors in PyTorch and here.
BOTH_FAIL = Path(__file__).with_name("name_errors.txt").read_text().split()
