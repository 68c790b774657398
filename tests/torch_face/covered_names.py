"""Which of PyTorch's names stand in recorded expressions, layers and optimizers."""
import re
from pathlib import Path

from torch_face.expressions import EXPRESSIONS
from torch_face.further_expressions import FURTHER
from torch_face.laws import LAWS
from torch_face.layers import LAYERS
from torch_face.name_expressions import NAME_EXPRESSIONS
from torch_face.namespaces import FOURIER, SPECIAL
from torch_face.optimizers import OPTIMIZERS
from torch_face.programs import RECORDED

__all__ = ["ELSEWHERE", "uncovered"]

HERE = Path(__file__).parent
WORDS = " ".join([*EXPRESSIONS, *NAME_EXPRESSIONS, *FURTHER, *LAWS, *FOURIER, *SPECIAL])
FULL = set(re.findall(r"torch(?:\.\w+)+", WORDS))
# What stands behind the point of anything but a module.
METHODS = set(re.findall(r"\.([A-Za-z]\w*)", re.sub(r"torch(?:\.\w+)+", "T", WORDS)))
OF_MODULES = set(re.findall(r"\.([A-Za-z]\w*)", " ".join(x for x in FURTHER if "torch.nn." in x)))
OF_LAYERS = set(re.findall(r"\w+", " ".join(LAYERS)))
OF_LAYERS |= set(re.findall(r"\w+", (HERE / "random_layers.py").read_text()))
STATES = {
    "get_extra_state", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_state_dict_post_hook", "register_state_dict_pre_hook", "set_extra_state",
    "set_submodule", "type",
}  # fmt: skip
TO_SETS = {
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "ReshapeTransform", "biject_to", "transform_to",
}  # fmt: skip
NORMS = {"remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"}
OF_OPTIMIZERS = set(re.findall(r"\w+", " ".join(OPTIMIZERS)))
# Whole programs, each file with what PyTorch gave.
IN_PROGRAMS = set(re.findall(r"\w+", " ".join(
    (HERE / f"{name}_programs.txt").read_text() for name in RECORDED
)))  # fmt: skip
OTHERS = {
    "torch": IN_PROGRAMS & {
        "GradScaler", "autocast", "istft", "range", "set_default_tensor_type", "stft",
    },
    "torch.amp": IN_PROGRAMS,
    # Transforms that the programs of `biject_to` and `transform_to` give.
    "torch.distributions": TO_SETS | (IN_PROGRAMS & {
        "ContinuousBernoulli", "FisherSnedecor", "Kumaraswamy", "LKJCholesky",
    }),
    "torch.autograd.forward_ad": IN_PROGRAMS, "torch.linalg": IN_PROGRAMS & {"householder_product"},
    "torch.nn.utils.parametrizations": IN_PROGRAMS, "torch.nn.utils.parametrize": IN_PROGRAMS,
    "torch.nn.utils.prune": IN_PROGRAMS, "torch.optim.swa_utils": IN_PROGRAMS,
    "torch.Tensor": METHODS | (IN_PROGRAMS & {
        "hardshrink", "istft", "multinomial", "prelu", "stft",
    }),
    "torch.nn.Module": OF_MODULES | (IN_PROGRAMS & STATES),
    "torch.nn": OF_LAYERS,
    "torch.nn.functional": OF_LAYERS, "torch.nn.init": OF_LAYERS | IN_PROGRAMS,
    "torch.autograd": IN_PROGRAMS & {"Variable", "grad_mode", "variable"},
    "torch.utils.data": IN_PROGRAMS & {"ChainDataset", "DistributedSampler", "StackDataset"},
    "torch.nn.utils": OF_LAYERS | (IN_PROGRAMS & {*NORMS, "clip_grad_norm"}),
    "torch.nn.utils.rnn": OF_LAYERS, "torch.optim": OF_OPTIMIZERS,
    "torch.optim.lr_scheduler": OF_OPTIMIZERS,
}  # fmt: skip

# Names that no expression has, by the reason and the namespace, with the files of tests that have
# them.
ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "PyTorch's own compiles, which takes a compiler of C++": {
        "torch": ("cond test_sequences_and_lazy.py",
                  "while_loop test_sequences_and_lazy.py"),
    },
    "its result is a file": {
        "torch": ("save test_serialization.py", "load test_serialization.py"),
    },
    "it takes a GPU": {
        "torch.Tensor": ("cuda ../tensors/test_tensor_on_gpu.py",),
        "torch.nn.Module": ("cuda ../tensors/test_tensor_on_gpu.py",),
    },
    "a class whose children are called": {
        "torch.fft": ("Tensor test_modules.py",),
        "torch.distributions": ("register_kl test_distributions.py",),
    },
    "a module, whose names have rows of their own": {
        "torch.nn.utils": ("parametrizations parametrized_programs.txt",
                           "parametrize parametrized_programs.txt",
                           "rnn test_sequences_and_lazy.py",
                           "stateless parametrized_programs.txt"),
        "torch.optim": ("lr_scheduler test_optimizers.py", "swa_utils averaging_programs.txt"),
    },
    "it is about many steps, or about what fails": {
        "torch.optim": ("LBFGS test_lbfgs.py",),
        "torch.autograd": ("detect_anomaly test_autograd.py",),
    },
}  # fmt: skip


def uncovered(path: str, names: list[str]) -> list[str]:
    """Returns the names of a namespace that stand in no recorded expression."""
    others = OTHERS.get(path, set())
    return [name for name in names if f"{path}.{name}" not in FULL and name not in others]
