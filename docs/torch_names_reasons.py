"""Why names of PyTorch are not here, by patterns, and how those that are here differ."""

from __future__ import annotations

import re

__all__ = ["AREA", "DIFFERENT", "reason_of"]

# The namespaces that programs are made of.
AREA = [
    "torch", "torch.Tensor", "torch.nn", "torch.nn.Module", "torch.nn.functional", "torch.nn.init",
    "torch.nn.utils", "torch.nn.utils.rnn", "torch.optim", "torch.optim.lr_scheduler",
]  # fmt: skip

QUANTISED = "no quantised tensors"
SPARSE = "no sparse layouts of tensors: `index_add` multiplies by rows, columns and values"
LEGACY = "left out of PyTorch's own documentation, or deprecated there"
LIBRARIES = "a kernel of one library, which no program calls by name"
DEVICES = "another kind of device; tensors are on the CPU or on CUDA"
STORAGE = "buffers never change, and have no storage object that tensors share"
ACCELERATED = "the state of `torch.autocast`, which a `with` block sets"
SYMBOLIC = "sizes are integers, never symbols"
SWITCHES = "a switch of PyTorch's own engine, without a meaning here"
COPIES = "a variant for PyTorch's function transforms; the function without `_copy` is here"
UNUSED = "neither tutorials nor examples of PyTorch use it; not written"
DRAWS = "draws are made by `functensor.random` or the functions that are here"

# The first pattern that a full name matches says why it is not here.
REASONS = [
    ((r"torch\.(Tensor\.)?(q_|int_repr|dequantize|qscheme|is_quantized|quantize|fake_quant|fbgemm"
     r"|quantized_|choose_qparams|fused_moving|empty_quantized|qint|quint|per_(tensor|channel)_)"),
     QUANTISED),
    ((r"torch\.(Tensor\.)?(to_sparse|sparse|is_sparse|coalesce|is_coalesced|s?smm|sspadd|dsmm|hsmm"
     r"|hspmm|saddmm|(c?crow|c?col|ccol|crow|row)_indices|indices|values|dense_dim|to_mkldnn"
     r"|to_dense|resize_as_sparse|is_mkldnn)"), SPARSE),
    (r"torch\.optim\.SparseAdam", SPARSE),
    (r".*\b(to_padded_tensor|is_nested|jagged)$", "no nested tensors: pad, and keep the lengths"),
    (r"torch\.(mkldnn|miopen|cudnn|native_|batch_norm_|_?thnn|convolution$|lstm|gru|rnn_)",
     LIBRARIES),
    ((r"torch\.nn\.functional\.(native_|scaled_mm|scaled_grouped|grouped_mm|multi_head_att"
     r"|linear_cross|Scaling|Swizzle|conv_tbc|assert_int|.*_notes|Tensor)"), LIBRARIES),
    (r"torch\.nn\.LinearCross", LIBRARIES),
    (r"torch\.(Tensor\.|nn\.Module\.)?(is_)?(xla|xpu|ipu|mtia|maia|mps|vulkan|meta)", DEVICES),
    (r"torch\.is_vulkan", DEVICES),
    ((r".*\b(untyped_storage|storage|storage_type|is_storage|set_|share_memory_?|is_shared|data_ptr"
     r"|const_data_ptr|is_set_to|resize_?|resize_as_?|record_stream|from_file|storage_offset"
     r"|as_strided_|is_pinned)$"), STORAGE),
    (r"torch\.amp\.custom_", LEGACY),
    (r".*autocast", ACCELERATED),
    (r"torch\.utils\.checkpoint\.", UNUSED),
    (r"torch\.autograd\.forward_ad\.", UNUSED),
    ((r"torch\.(fork|wait|import_ir|parse_|unify_type|merge_type|typename|classproperty|Tag"
     r"|get_file_path|init_num_threads|is_.*_available|compiled_with|has_|Fatal|sym_constrain"
     r"|thread_safe|prepare_multi|get_device_module|set_default_tensor|bit|U|profiler_allow"
     r"|legacy_con|is_distributed|hash_tensor|TypedS|Script)"), LEGACY),
    (r"torch\.(Sym|sym_)", SYMBOLIC),
    (r"torch\.(bits|bit|u?int[1-7]$|float4|float8|complex32|chalf)", "no dtype of NumPy's"),
    (r"torch\.Tensor\.chalf", "no dtype of NumPy's"),
    (r"torch\..*_copy$", COPIES),
    ((r"torch\.(are_determ|use_determ|set_determ|get_determ|is_determ|set_flush|set_num|get_num"
     r"|set_warn|is_warn|set_anomaly|is_anomaly|set_float32|get_float32|is_inference"
     r"|set_printoptions|set_rng|get_rng|clear_auto|default_device|set_default|get_default)"),
     SWITCHES),
    (r"torch\.autograd\.(set_multi|enforce|grad_mode|NestedIO|variable|Variable)", LEGACY),
    ((r"torch\.Tensor\.(volatile|reinforce|eig|solve|symeig|lstsq|module_load|map_|map2_|apply_"
     r"|as_subclass|output_nr|grad_dtype|name|dim_order|is_distributed|hash_tensor)$"), LEGACY),
    (r"torch\.(eig|solve|symeig|lstsq|matrix_rank|Event|Stream|OutOf|range)$", LEGACY),
    (r"torch\.Tensor\.(index|layout)$", LEGACY),
    (r"torch\.nn\.init\.", LEGACY + ": the name ends in an underscore"),
    ((r"torch\.nn\.(Container|NLLLoss2d|CrossMapLRN2d|factory_kwargs|RNNBase|RNNCellBase"
     r"|Uninitialized\w+)$"), LEGACY),
    (r".*SyncBatchNorm", "each process has the statistics of its own part of a batch"),
    ((r"torch\.utils\.data\.(\w*DataPipe|DataChunk|functional_|guaranteed|non_det|runtime"
     r"|argument)"), LEGACY),
    (r"torch\.nn\.Module\.(T_dest|call_super|dump_patches)", LEGACY),
    (r"torch\.nn\.utils\.(convert_|fuse_|clip_grad_norm$|stateless|skip_init)", LEGACY),
    ((r"torch\.(load|save|vmap|Tensor\.(stride|type)|distributions\.Cat"
     r"|utils\.data\.)"), "not written yet"),
    (r"torch\.(func|special|linalg|fft)\.(debug_unwrap|rearrange|functionalize|common_notes|Tensor)",
     LEGACY),
]  # fmt: skip
COMPILED = [(re.compile(pattern), why) for pattern, why in REASONS]

MEMORY = "a word without an effect: images lie channel by channel"
EXAMINED = "what cannot be computed is an error; `info` is 0"
ONE_DTYPE = "a function that makes tensors, no class"
KEPT = "an error where views share the memory: `x = x.squeeze()` and so on"
INFERENCE = "False of every tensor: `inference_mode` is `no_grad`"
AT_ONCE = "False of every tensor: conjugates are computed at once"
FLAT = "the derivative is 0: the result requires no grad"
UNMADE = "no parameters before the first call, and the class stays"

# How names that are here differ from PyTorch's.
DIFFERENT: dict[str, str] = {
    "torch.set_printoptions": "sets NumPy's own options too",
    "torch.from_numpy": "copies to the default device where that is a GPU, and read-only arrays",
    "torch.device": "a string, and printed as one",
    "torch.Generator": "its `device` is a string",
    "torch.get_rng_state": "16 bytes, of this library's own generator",
    "torch.set_rng_state": "takes 16 bytes, of this library's own generator",
    "torch.default_generator": "its `device` is a string",
    "torch.linalg.LinAlgError": "NumPy's, which is a `ValueError`",
    "torch.is_inference": INFERENCE,
    "torch.Tensor.is_inference": INFERENCE,
    "torch.is_conj": AT_ONCE,
    "torch.Tensor.is_conj": AT_ONCE,
    "torch.is_neg": AT_ONCE,
    "torch.Tensor.is_neg": AT_ONCE,
    "torch.Tensor.pin_memory": "the tensor itself: no memory is locked",
    "torch.Tensor.name": "a method, which returns what messages call the tensor",
    "torch.Tensor.resize": "NumPy's",
    "torch.spmm": "of dense matrices alone",
    "torch.nn.DataParallel": "the module runs on its own device, undivided",
    "torch.compile": "what cannot be staged as a whole warns, and runs as it is",
    "torch.nn.Module.compile": "what cannot be staged as a whole warns, and runs as it is",
    "torch.nn.Module.register_backward_hook": "the same as `register_full_backward_hook`",
    "torch.nn.Module.to_empty": "values stay",
    "torch.nn.Module.share_memory": "the module itself: there is one process",
    "torch.empty": "the values are zeros",
    "torch.empty_like": "the values are zeros",
    "torch.Tensor.new_empty": "the values are zeros",
    "torch.dtype": "dtypes are NumPy's",
    "torch.finfo": "NumPy's",
    "torch.iinfo": "NumPy's",
    "torch.inference_mode": "as `no_grad`: tensors made within it may be used outside",
    "torch.Tensor.grad_fn": "the name of the primitive",
    "torch.Tensor.repeat": "with `axis` NumPy's",
    "torch.svd": "the signs of singular vectors may differ",
    "torch.linalg.svd": "the signs of singular vectors may differ",
    "torch.linalg.eig": "the order and lengths of eigenvectors may differ",
    "torch.nn.functional.ctc_loss": "the gradient is the loss's; PyTorch's adds probabilities",
    "torch.contiguous_format": MEMORY,
    "torch.preserve_format": MEMORY,
    "torch.channels_last": MEMORY,
    "torch.channels_last_3d": MEMORY,
    "torch.from_dlpack": "a copy",
    "torch.frombuffer": "a copy",
    "torch.linalg.cholesky_ex": EXAMINED,
    "torch.linalg.inv_ex": EXAMINED,
    "torch.linalg.solve_ex": EXAMINED,
    "torch.linalg.lu_factor_ex": EXAMINED,
    "torch.autocast": "recurrent modules and `addmm` compute in float32",
    "torch.amp.autocast": "recurrent modules and `addmm` compute in float32",
    "torch.utils.checkpoint.checkpoint": "`use_reentrant` has no effect, `context_fn` is refused",
    "torch.utils.checkpoint.checkpoint_sequential": "`use_reentrant` has no effect",
    "torch.autograd.forward_ad.make_dual": "its values are not read as numbers within the block",
    "torch.autograd.set_detect_anomaly": "names the user's line of the operation that failed",
}
DIFFERENT |= {
    f"torch.{owner}{name}": FLAT
    for owner in ("", "Tensor.")
    for name in ("ceil", "fix", "floor", "floor_divide", "heaviside", "round", "sgn", "sign",
                 "trunc")
}  # fmt: skip
NUMBERS = (
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "manual_seed", "seed", "initial_seed",
)  # fmt: skip
SEEDS = "the same laws, other numbers for a seed"
DIFFERENT |= {f"torch.{name}": SEEDS for name in NUMBERS}
DIFFERENT |= {
    f"torch.Tensor.{name}": SEEDS
    for name in ("bernoulli_", "exponential_", "normal_", "random_", "uniform_", "bernoulli",
                 "cauchy_", "geometric_", "log_normal_")
}  # fmt: skip
DIFFERENT |= {
    f"torch.{name}Tensor": ONE_DTYPE
    for name in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long",
                 "Short")
}  # fmt: skip
DIFFERENT |= {
    f"torch.Tensor.{name}": KEPT
    for name in ("squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_")
}
DIFFERENT |= {
    f"torch.nn.Lazy{name}": UNMADE
    for name in ("Linear", *[f"{kind}{n}d" for n in (1, 2, 3)
                             for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm")])
}  # fmt: skip


def reason_of(path: str, name: str, uses: int) -> str | None:
    """Returns why a name is not here, or None where nothing says so."""
    full = f"{path}.{name}"
    for pattern, why in COMPILED:
        if pattern.match(full):
            return why
    return UNUSED if not uses else None
