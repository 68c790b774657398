"""Calls of PyTorch's names that ``expressions.py`` leaves out: all dtypes, empty tensors, errors.

The operands are those of ``expressions.py``.
"""

from itertools import product
from pathlib import Path

from torch_face.expressions import BINARY, EXPRESSIONS, REDUCTIONS, UNARY

__all__ = ["BOTH_FAIL", "NAME_EXPRESSIONS", "NAMES_DIFFER"]

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
        for a, b in (("p", "p[:1]"), ("p[:,:1]", "f"), ("c", "m"), ("p[:0]", "f"), ("d", "2"),
                     ("p", "0.5"), ("i", "2"), ("p[0,0]", "q"), ("j", "j"), ("p", "d[:1]")):  # fmt: skip
            if not (name == "hypot" and a in "ij") and not (b[0] in "0123456789" and name in NO_NUMBERS):
                yield f"torch.{name}({a},{b})"
    for name, x in product(REDUCTIONS, ("c", "d", "c[:,:1]", "m.t()", "c.half()")):
        for dim, keep in ((-2, True), (-1, False), (0, True)):
            more = "" if name == "count_nonzero" else f",keepdim={keep}"
            if x != "c.half()" or name in ("sum", "mean", "amax", "any"):
                yield f"torch.{name}({x},{dim}{more})"
    for name in ("sum", "prod", "all", "any", "count_nonzero"):
        yield from (f"torch.{name}(m[:0])", f"torch.{name}(m[:0],0)", f"torch.{name}(m[:,:0],1)")
        yield from (f"torch.{name}(z)", f"torch.{name}(b)", f"torch.{name}(j)")
    yield from Path(__file__).with_suffix(".txt").read_text().split()


NOT_OF_BOOLEANS = {"abs", "absolute", "ceil", "fix", "floor", "neg", "negative", "positive", "relu",
                   "round", "trunc"}  # fmt: skip
NO_NUMBERS = {"maximum", "minimum", "fmax", "fmin", "atan2", "arctan2", "hypot", "logical_and",
              "logical_or", "logical_xor"}  # fmt: skip
NAME_EXPRESSIONS = sorted(set(every()) - set(EXPRESSIONS))

OVERWRITTEN = "PyTorch's gradient goes to the elements that are overwritten"
# Expressions whose results or gradients differ from PyTorch's, and why.
NAMES_DIFFER = {
    "m.as_strided_scatter(f[:3],(3,),(4,),1)": OVERWRITTEN,
    "torch.as_strided_scatter(m,p[:2,:2],(2,2),(1,2))": OVERWRITTEN,
    "m.narrow_copy(0,-1,1)": "PyTorch has no gradient of narrow_copy",
}

# Calls that are errors in PyTorch and here.
BOTH_FAIL = """
torch.sum(m,2) torch.sum(m,-3) m.max(5) torch.argmax(m,2) torch.cumsum(m,3) m.softmax(4) torch.sort(m,2)
m.reshape(5,5) m.view(7) torch.cat([m,n]) torch.cat([m,c]) torch.stack([f,m]) m@m torch.mm(m,m)
torch.mm(f,m) torch.bmm(m,m) torch.mv(m,m) torch.dot(f,m) f+torch.ones(3) m*torch.ones(5)
torch.index_select(m,0,torch.tensor([7])) m[5] m[:,9] m[0,0,0] torch.gather(m,0,torch.tensor([[9]]))
torch.narrow(m,0,2,5) torch.select(m,0,4) m.transpose(0,3) m.permute(0) m.permute(0,0) m.unsqueeze(4)
torch.split(m,[1,1],0) torch.chunk(m,0) m.unflatten(0,(2,2)) torch.topk(f,9) torch.kthvalue(f,9)
torch.linalg.inv(m) torch.linalg.det(m) torch.linalg.cholesky(m) torch.inverse(m) torch.trace(c)
torch.nn.functional.conv2d(m,n) torch.nn.functional.linear(m,m[:,:2])
torch.nn.functional.max_pool2d(f,2) torch.nn.functional.layer_norm(m,(3,)) m.expand(2,2) m.repeat()
torch.select_scatter(m,f,1,0) torch.slice_scatter(m,f,0) torch.diagonal_scatter(m,f) f.sum_to_size(3)
torch.tril(f) torch.triu(z) torch.diag(c) torch.diagonal(f) m.t_().unsqueeze(5) c.t() torch.movedim(m,0,4)
torch.roll(m,1,4) torch.flip(m,(3,)) torch.rot90(f) torch.meshgrid() torch.vander(m) torch.pdist(f)
torch.gradient(f[:1]) torch.unbind(m,3) torch.quantile(f,2.0) torch.nn.functional.grid_sample(m,m)
torch.nn.functional.glu(c[:,:,:3]) torch.nn.functional.cross_entropy(m,torch.tensor([9,1,2]))
torch.nn.functional.embedding(k,m) torch.nn.functional.pixel_shuffle(m,2) torch.nn.functional.ctc_loss(m,k,[9],[9])
torch.nn.utils.rnn.pack_padded_sequence(m,[1,2,3,4]) torch.nn.functional.gelu(f,'no') torch.einsum('ij,jk',m,m)
torch.baddbmm(m,m,m) torch.addmm(m,m,m) torch.cross(f,f) torch.cdist(f,m) torch.tensordot(m,m,1)
torch.chain_matmul(m,m) torch.masked_select(m,torch.ones(7,dtype=torch.bool)) m.scatter(0,k,m)
torch.linalg.solve(m,m) torch.linalg.eigh(m) torch.linalg.svd(f) torch.repeat_interleave(m,-1)
""".split()
