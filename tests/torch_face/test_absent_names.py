"""Names of PyTorch's that are not here: each says so, and what to write in its place."""

import importlib
import re

import pytest

import functensor as ft
import functensor.torch as torch

ABSENT = [
    ("torch.sparse_coo_tensor", r"no sparse tensors: compute with dense ones, .*index_add"),
    ("torch.sparse", "no sparse tensors"),
    ("torch.optim.SparseAdam", "no sparse tensors"),
    ("torch.ones(2).to_sparse", "no sparse tensors"),
    ("torch.Tensor.coalesce", "no sparse tensors"),
    ("torch.jit", r"no TorchScript: torch\.compile\(f\)"),
    ("torch.fx", r"not exported: functensor\.make_program"),
    ("torch.nested", r"no nested tensors: pad with torch\.nn\.utils\.rnn\.pad_sequence"),
    ("torch.quantization", "no quantised tensors"),
    ("torch.multiprocessing", "workers of a DataLoader are threads"),
    ("torch.distributed", r"functensor\.distributed has"),
    ("torch.utils.tensorboard", r"functensor\.training\.save_curves"),
    ("torch.ones(2).data_ptr", "no storage that a program may name"),
    ("torch.ones(2, requires_grad=True).sum().share_memory_", "not shared by processes"),
]


@pytest.mark.parametrize(("expression", "text"), ABSENT)
def test_a_name_says_what_to_write_in_its_place(expression, text):
    with pytest.raises(AttributeError, match=f"has no (attribute )?'\\w+': .*{text}"):
        eval(expression, {"torch": torch})


@pytest.mark.parametrize("name", ["sparse", "jit", "utils.tensorboard", "multiprocessing"])
def test_a_module_says_so_where_it_is_imported(name):
    text = re.escape(f"No module named 'functensor.torch.{name}': ")
    with pytest.raises(ModuleNotFoundError, match=f"{text}\\w+") as caught:
        importlib.import_module(f"functensor.torch.{name}")
    assert caught.value.name == f"functensor.torch.{name}"


def test_nothing_finds_the_names():
    x = torch.ones(2)
    assert not hasattr(x, "to_sparse")
    assert "data_ptr" not in dir(x)
    assert "to_dense" in dir(x)
    assert not ft.jit(lambda x: x * hasattr(x, "storage"))(x).any()


def test_a_sparse_product_by_what_the_message_shows():
    rows, columns = torch.tensor([0, 2, 2]), torch.tensor([1, 0, 1])
    values = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = torch.zeros(3, x.shape[1]).index_add(0, rows, values[:, None] * x[columns])
    assert found.tolist() == [[6, 8], [0, 0], [15, 22]]
    found.sum().backward()
    assert values.grad.tolist() == [7, 3, 7]
