"""Optimizers: pure functions of trees, and stateful ones for tensors that are made of them.

>>> import functensor as ft, functensor.numpy as np
>>> opt = ft.optim.adam(0.1)
>>> step = opt.minimize(lambda params: np.sum((params["x"] - 3.0) ** 2))
>>> params = {"x": np.zeros(2)}
>>> state = opt.init(params)
>>> for _ in range(300):
...     params, state = step(params, state)
>>> print(np.round(params["x"], 3), int(state.step))
[3. 3.] 300
"""

from __future__ import annotations

from ..faces.publish import publish
from .adam_kin import (
    AdamaxState,
    AmsgradState,
    NadamState,
    adamax,
    amsgrad,
    nadam,
    radam,
)
from .algorithms import (
    AdagradState,
    AdamState,
    LionState,
    MomentumState,
    SgdState,
    adagrad,
    adam,
    adamw,
    lion,
    momentum,
    sgd,
)
from .clipping import chained, clipped_by_global_norm, clipped_by_norm, clipped_by_value
from .kept_rates import AsgdState, RpropState, asgd, rprop
from .line_search import LbfgsState, lbfgs
from .mean_squares import AdadeltaState, RmspropState, adadelta, rmsprop
from .optimizer import Optimizer
from .orthogonal_steps import MuonState, muon
from .other_losses import maximized, with_weight_decay
from .parts_of_trees import PartitionedState, frozen, masked, partitioned
from .scaled_steps import AdafactorState, adafactor, bounded_adafactor, lamb
from .schedules import (
    constant_rate,
    cosine_decay,
    exponential_decay,
    one_cycle,
    piecewise_rate,
    polynomial_decay,
    step_decay,
    warm_up,
    warm_up_cosine,
)
from .stateful import SGD, Adagrad, Adam, AdamW, Lion, MomentumSGD, StatefulOptimizer
from .wrapped_states import (
    AccumulatedState,
    AveragedState,
    FiniteState,
    LookaheadState,
    accumulated,
    apply_if_finite,
    lookahead,
    with_average,
)

__all__ = [
    "SGD", "AccumulatedState", "AdadeltaState", "AdafactorState", "Adagrad", "AdagradState", "Adam",
    "AdamState", "AdamW", "AdamaxState", "AmsgradState", "AsgdState", "AveragedState",
    "FiniteState", "LbfgsState", "Lion", "LionState", "LookaheadState", "MomentumSGD",
    "MomentumState", "MuonState", "NadamState", "Optimizer", "PartitionedState", "RmspropState",
    "RpropState", "SgdState", "StatefulOptimizer", "accumulated", "adadelta", "adafactor",
    "adagrad", "adam", "adamax", "adamw", "amsgrad", "apply_if_finite", "asgd", "bounded_adafactor",
    "chained", "clipped_by_global_norm", "clipped_by_norm", "clipped_by_value", "constant_rate",
    "cosine_decay", "exponential_decay", "frozen", "lamb", "lbfgs", "lion", "lookahead", "masked",
    "maximized", "momentum", "muon", "nadam", "one_cycle", "partitioned", "piecewise_rate",
    "polynomial_decay", "radam", "rmsprop", "rprop", "sgd", "step_decay", "warm_up",
    "warm_up_cosine", "with_average", "with_weight_decay",
]  # fmt: skip

publish(globals())
