"""Says in one line which transformations and devices a public name supports.

What it says of NumPy's and SciPy's functions is read from ``support.md``, which
``support_table.py`` writes and the tests hold to be true. Of other primitives it asks the registry,
by that table's functions. Of the rest, a whole namespace has one answer here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import support_table

__all__ = ["rows", "support_of"]

SECTION = re.compile(r"^## (functensor\S*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\S+)` \|(.*)\|$", re.MULTILINE)
DEVICES = "CPU, CUDA"
# The section "What differs" of gpu.md lists them; errors show the way to the CPU and back.
OTHER_DEVICES = {
    name: words
    for words, names in {
        "CPU": "fractional_matrix_power logm solve_continuous_lyapunov solve_lyapunov "
        "solve_sylvester sqrtm wofz",
        "CPU, CUDA for real numbers": "erf erfc erfcx erfi ndtr",
        "CPU, CUDA for orders that are integers": "jn jv yn yv",
    }.items()
    for name in names.split()
}
MODES = "derivatives in both modes"
EVERY = f"{MODES}, vmap, jit"
ANYWHERE = "calls within every transformation"
OVER_ALL = "every other transformation, around it and within it"
EAGER = "no transformation; it is called outside of them"
TAPE = "backward, and functensor's transformations"
CONSTANT = "no derivative, since it is zero or undefined"
# The answer for a namespace is that of the longest name here with which its own begins.
NAMESPACES = {
    "functensor": OVER_ALL,
    "functensor.Array": EVERY,
    "functensor.Tensor": TAPE,
    "functensor.backends": EAGER,
    "functensor.checkpoint_policies": "checkpoint under every transformation",
    "functensor.control": EVERY,
    "functensor.data": EAGER,
    "functensor.datasets": EAGER,
    "functensor.distributed": EAGER,
    "functensor.extend": f"{EVERY}, of the primitives that it makes",
    "functensor.hooks": "every transformation, whose operations it sees",
    "functensor.nn": EVERY,
    "functensor.nn.init": "vmap over keys, jit",
    "functensor.numpy": ANYWHERE,
    "functensor.optim": ANYWHERE,
    "functensor.random": "vmap over keys, jit",
    "functensor.scipy": EVERY,
    "functensor.sparse": "functions that jit can stage",
    "functensor.testing": EAGER,
    "functensor.torch": "backward, functensor.torch.func and torch.compile",
    "functensor.torch.accelerator": EAGER,
    "functensor.torch.cuda": EAGER,
    "functensor.torch.backends": EAGER,
    "functensor.torch.compiler": ANYWHERE,
    "functensor.torch.nn.attention": ANYWHERE,
    "functensor.torch.profiler": EAGER,
    "functensor.torch.random": EAGER,
    "functensor.torch.testing": EAGER,
    "functensor.torch.torch_version": EAGER,
    "functensor.torch.utils.benchmark": EAGER,
    "functensor.torch.utils.data": EAGER,
    "functensor.training": EAGER,
    "functensor.tree": f"{ANYWHERE}, on traced values too",
}
# Names whose answer is not that of their namespace.
ALONE = {
    f"functensor.{name}": words
    for words, names in {
        EAGER: "save load read_metadata Checkpoints draw features devices print_saved_residuals "
        "saved_residuals random.check_reuse random.warn_on_reuse",
        TAPE: "tensor Tensor CpuTensor CudaTensor no_grad enable_grad is_grad_enabled optim.SGD "
        "optim.Adagrad optim.Adam optim.AdamW optim.Lion optim.MomentumSGD "
        "optim.StatefulOptimizer",
        ANYWHERE: "Program ShapeDtype checkpoint_name config default_device disable_jit "
        "named_scope optimization_barrier scope set_default_device stop_gradient tag value",
        EVERY: "Array associative_scan cond fori_loop scan switch to_device while_loop",
        f"vmap with axis_name= or spmd, within which it is called; {EVERY}": "all_gather "
        "all_to_all axis_index axis_size pmax pmean pmin ppermute psum psum_scatter",
        f"vmap, jit; {CONSTANT}": "nn.one_hot",
        f"{MODES} by its parameters, vmap, jit": "random.uniform random.truncated_normal "
        "random.multivariate_normal random.beta random.chisquare random.dirichlet random.f "
        "random.gamma random.loggamma random.lognormal random.pareto random.rayleigh random.t "
        "random.triangular random.weibull_min",
        "vmap over keys and parameters, jit; no derivative by parameters": "random.bernoulli "
        "random.binomial random.categorical random.geometric random.multinomial random.poisson "
        "random.randint",
        f"{MODES} by the numbers to choose from, vmap, jit": "random.choice random.permutation",
        f"{MODES} by rates, parameters and gradients, vmap, jit": "optim.sgd optim.momentum "
        "optim.adam optim.adamw optim.adamax optim.amsgrad optim.nadam optim.radam optim.adagrad "
        "optim.adadelta optim.adafactor optim.bounded_adafactor optim.rmsprop optim.rprop "
        "optim.lamb optim.lion",
        f"{MODES} by rates, parameters and gradients, rounded as steps are; vmap, jit": ""
        "optim.asgd optim.muon",
        f"{MODES}, vmap, jit; within jit forward mode alone": "optim.lbfgs",
        "what the optimizers support that it is given": "optim.accumulated optim.apply_if_finite "
        "optim.chained optim.clipped_by_global_norm optim.clipped_by_norm optim.clipped_by_value "
        "optim.frozen optim.lookahead optim.masked optim.maximized optim.partitioned "
        "optim.with_average optim.with_weight_decay",
        f"{MODES} by rates, vmap and jit over steps": "optim.constant_rate optim.cosine_decay "
        "optim.exponential_decay optim.one_cycle optim.piecewise_rate optim.polynomial_decay "
        "optim.step_decay optim.warm_up optim.warm_up_cosine",
        "every transformation, as a tree of arrays": "optim.AccumulatedState optim.AdadeltaState "
        "optim.AdafactorState optim.AdagradState optim.AdamState optim.AdamaxState "
        "optim.AmsgradState optim.AveragedState optim.FiniteState optim.LbfgsState "
        "optim.LionState optim.LookaheadState optim.MomentumState optim.NadamState "
        "optim.PartitionedState optim.RmspropState optim.SgdState",
    }.items()
    for name in names.split()
}


@cache
def rows() -> dict[str, list[str]]:
    """Returns the columns value, vjp, jvp, vmap and staged of ``support.md``, by full names."""
    found = {}
    for section in SECTION.finditer(support_table.TABLE.read_text()):
        for row in ROW.finditer(section[2]):
            found[f"{section[1]}.{row[1]}"] = [cell.strip() for cell in row[2].split("|")]
    return found


def columns(owner: str, name: str, value: Any) -> list[str] | None:
    """Returns the same of a name, from the registry where the table lacks it, or None."""
    known = rows().get(f"{owner}.{name}")
    if known is None and support_table.primitive_of(value) is not None:
        line = support_table.row(owner.removeprefix("functensor."), name, value, {})
        known = [cell.strip() for cell in line.strip().strip("|").split("|")[1:]]
    return known


def in_words(cells: list[str]) -> str:
    """Returns the columns of a line of the table in words."""
    value, vjp, _, vmap, staged = cells
    if value == "plain":
        return f"{ANYWHERE}; it makes or describes arrays"
    first = MODES if vjp == support_table.YES else CONSTANT
    if staged == support_table.NO:
        return f"{first}; not vmap and jit, since it looks at values"
    # Both columns say the same: the shape of a result decides them.
    way = {support_table.YES: "", "real": " of real numbers"}.get(vmap, " where size= is given")
    return f"{first}, vmap, jit{way}" if vjp == support_table.YES else f"vmap, jit{way}; {first}"


def support_of(owner: str, name: str, value: Any) -> str:
    """Returns the line.

    Args:
        owner: the module or class that has the name.
        name: the name.
        value: the object.
    """
    devices = OTHER_DEVICES.get(name, DEVICES)
    cells = columns(owner, name, value)
    if cells is not None:
        return f"{in_words(cells)}. {devices}."
    words = ALONE.get(f"{owner}.{name}")
    if words is None:
        longest = max((x for x in NAMESPACES if f"{owner}.".startswith(f"{x}.")), key=len)
        words = NAMESPACES[longest]
    return f"{words}. {devices}."
