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

__all__ = ["ELSEWHERE", "uncovered"]

HERE = Path(__file__).parent
WORDS = " ".join([*EXPRESSIONS, *NAME_EXPRESSIONS, *FURTHER, *LAWS, *FOURIER, *SPECIAL])
PROGRAMS = " ".join(path.read_text() for path in sorted(HERE.glob("*_programs.txt")))
FULL = set(re.findall(r"torch(?:\.\w+)+", f"{WORDS} {PROGRAMS}"))
# What stands behind the point of anything but a module.
METHODS = set(re.findall(r"\.([A-Za-z]\w*)", re.sub(r"torch(?:\.\w+)+", "T", WORDS)))
OF_MODULES = set(re.findall(r"\.([A-Za-z]\w*)", " ".join(x for x in FURTHER if "torch.nn." in x)))
OF_LAYERS = set(re.findall(r"\w+", " ".join(LAYERS)))
OF_LAYERS |= set(re.findall(r"\w+", (HERE / "random_layers.py").read_text()))
OF_OPTIMIZERS = set(re.findall(r"\w+", " ".join(OPTIMIZERS)))
# Modules that a program imports by name.
OF_PROGRAMS = set(re.findall(r"import_module\(torch.__name__ ?\+ ?\"[\w.]*\.(\w+)\"", PROGRAMS))
OTHERS = {
    "torch.Tensor": METHODS, "torch.nn.Module": OF_MODULES, "torch.nn": OF_LAYERS,
    "torch.nn.functional": OF_LAYERS, "torch.nn.init": OF_LAYERS,
    "torch.nn.utils": OF_LAYERS | OF_PROGRAMS,
    "torch.nn.utils.rnn": OF_LAYERS, "torch.optim": OF_OPTIMIZERS | OF_PROGRAMS,
    "torch.optim.lr_scheduler": OF_OPTIMIZERS,
}  # fmt: skip

# Names that no expression has, by the reason and the namespace, with the files of tests that have
# them.
ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "PyTorch's own compiles, which takes a compiler of C++": {
        "torch": ("compile test_compiling.py", "cond test_sequences_and_lazy.py",
                  "while_loop test_sequences_and_lazy.py"),
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
        "torch.nn.utils": ("rnn test_sequences_and_lazy.py",),
    },
    "it is about many steps, or about what fails": {
        "torch.autograd": ("detect_anomaly test_autograd.py",),
    },
}  # fmt: skip


def uncovered(path: str, names: list[str]) -> list[str]:
    """Returns the names of a namespace that stand in no recorded expression."""
    others = OTHERS.get(path, set())
    return [name for name in names if f"{path}.{name}" not in FULL and name not in others]
