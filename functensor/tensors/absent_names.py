"""Names of PyTorch's that are not here, and what programs write in their place.

`functensor.torch`, its modules and tensors answer these names with the text.
"""

from __future__ import annotations

from ..primitives.core.missing_attributes import ForeignName

__all__ = ["ABSENT_METHODS", "AbsentMethods", "absent_reason"]

NAMES_OF_SPARSE = (
    "there are no sparse tensors: compute with dense ones, or multiply a matrix of rows, columns "
    "and values by torch.zeros(n, x.shape[1]).index_add(0, rows, values[:, None] * x[columns])"
)
SCRIPTS = "there is no TorchScript: torch.compile(f) stages functions and modules as they are"
EXPORTS = (
    "programs are not exported: functensor.make_program(f)(x) shows the operations of a function"
)
NESTED = (
    "there are no nested tensors: pad with torch.nn.utils.rnn.pad_sequence, and keep the lengths"
)
QUANTISED = "there are no quantised tensors: x.half() and x.bfloat16() take half the memory"
MEMORY = (
    "there is no storage that a program may name: views and x.numpy() share a tensor's memory"
)
DEVICES = 'tensors are on "cpu" or "cuda"'
SHARED = "tensors are not shared by processes; workers of a DataLoader are threads"
MASKED = "there are no masked tensors: torch.where(mask, x, 0)"
OWN_RULES = "torch.autograd.Function, functensor.custom_op and functensor.custom_vjp have own rules"
# The names of modules, of functions and of modules within others, by what is said of them.
WORDS_FOR_ABSENT = {
    NAMES_OF_SPARSE: (
        "SparseAdam dsmm hsmm hspmm saddmm smm sparse sparse_bsc sparse_bsc_tensor sparse_bsr "
        "sparse_bsr_tensor sparse_compressed_tensor sparse_coo sparse_coo_tensor sparse_csc "
        "sparse_csc_tensor sparse_csr sparse_csr_tensor sspaddmm"
    ),
    SCRIPTS: "jit",
    EXPORTS: "export fx onnx",
    NESTED: "jagged nested",
    QUANTISED: "ao qint32 qint8 quantization quantize_per_channel quantize_per_tensor quint8",
    MASKED: "masked",
    DEVICES: "mps mtia xpu",
    SHARED: "multiprocessing",
    OWN_RULES: "cpp_extension library overrides",
    "functensor.distributed has collective operations, on arrays and trees": "distributed",
    "functensor.tree maps functions over trees": "_pytree",
    "functensor.training.save_curves draws learning curves": "tensorboard",
    "nothing is downloaded: build the module, and load its weights by load_state_dict": "hub",
    "concurrent.futures has threads that compute": "futures",
}  # fmt: skip
# Those of tensors.
ABSENT_METHODS = {
    name: said
    for said, names in {
        NAMES_OF_SPARSE: (
            "ccol_indices coalesce col_indices crow_indices dense_dim indices "
            "row_indices sparse_dim sparse_mask to_sparse to_sparse_bsc to_sparse_bsr "
            "to_sparse_coo to_sparse_csc to_sparse_csr"
        ),
        NESTED: "to_padded_tensor",
        QUANTISED: "dequantize int_repr q_scale q_zero_point qscheme",
        MEMORY: "data_ptr storage storage_offset untyped_storage",
        SHARED: "share_memory_",
    }.items()
    for name in names.split()
}  # fmt: skip
REASON_OF = {name: said for said, names in WORDS_FOR_ABSENT.items() for name in names.split()}


def absent_reason(name: str) -> str:
    """Returns what is said of a name of PyTorch's that is not here, or nothing."""
    return REASON_OF.get(name, "")


class AbsentMethods:
    """The base of tensors that has these names; ``hasattr`` and ``dir`` do not find them."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n not in ABSENT_METHODS]


for _name, _said in ABSENT_METHODS.items():
    setattr(AbsentMethods, _name, ForeignName(_name, _said))
