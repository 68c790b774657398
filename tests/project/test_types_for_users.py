"""Types as checkers, and so editors, tell them to users: mypy, and pyright if it is installed.

They see functensor as a wheel and a strict editable install lay it out: one package.
"""

import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
import typing
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from support.long_forms import only_long

import functensor as ft

ROOT = Path(__file__).resolve().parents[2]
# A comment is what the line reveals, or says that it is an error.
SCRIPT = """\
from functools import partial
from typing import Any

import numpy

import functensor as ft
import functensor.numpy as np
from functensor import Array, nn

Params = dict[str, Array]


def model(params: Params, x: Array) -> Array:
    return np.convolve(x, params["w"])


def added(total: Array, row: Array) -> tuple[Array, None]:
    return total + row, None


def times(i: Array, x: Array) -> Array:
    return x * i


def loss_and_size(params: Params, x: Array) -> tuple[Array, int]:
    return model(params, x), 3


def tensor_loss(w: ft.Tensor) -> ft.Tensor:
    return np.sum(w * w)


@ft.jit
def step(x: Array, rate: float) -> Array:
    return np.fft.ifft(np.fft.fft(x, n=4))


class Layer:
    @partial(ft.vmap, in_axes=(None, 0))
    def rows(self, x: Array) -> Array:
        return x

    @ft.grad
    def by_itself(self, x: Array) -> Array:
        return x


params = {"w": np.zeros(3)}
x = np.ones(3)
reveal_type(x)  # Array
reveal_type(np.linspace(0, 1, 5))  # Array
reveal_type(np.linspace(0, 1, 5, retstep=True))  # tuple[Array, Array]
reveal_type(np.asarray([1, 2, 3], dtype="float32"))  # Array
reveal_type(np.unique(x, return_counts=True))  # tuple[Array, ...]
reveal_type(np.linalg.svd(x).S)  # Array
reveal_type(np.linalg.svd(x, compute_uv=False))  # Array
reveal_type(np.linalg.eigh(x).eigenvalues)  # Array
reveal_type(np.meshgrid(x, x))  # tuple[Array, ...]
reveal_type(np.shape(x))  # tuple[int, ...]
reveal_type(np.iscomplexobj(x))  # bool
reveal_type(ft.grad(model)(params, x))  # dict[str, Array]
reveal_type(ft.grad(model, argnums=1))  # (params: dict[str, Array], x: Array) -> Any
reveal_type(ft.grad(model, argnames="x"))  # (params: dict[str, Array], x: Array) -> Any
reveal_type(ft.grad(loss_and_size, has_aux=True)(params, x))  # tuple[dict[str, Array], int]
reveal_type(ft.grad(ft.jit(model))(params, x))  # dict[str, Array]
reveal_type(ft.value_and_grad(model)(params, x))  # tuple[Array, dict[str, Array]]
reveal_type(ft.vmap(ft.grad(model), (None, 0))(params, x))  # dict[str, Array]
reveal_type(ft.elementwise_grad(np.sinc)(x))  # Array
ft.grad(lambda p: model(p, x))(params)
ft.value_and_grad(lambda p, scale: scale * model(p, x))(params, 2.0)
reveal_type(ft.vmap(model, in_axes=(None, 0))(params, x))  # Array
reveal_type(ft.vmap(lambda row: np.diff(row))(x))  # Array
reveal_type(ft.vmap(model).__name__ + ft.grad(model).__name__)  # str
reveal_type(Layer().rows(x))  # Array
Layer().rows(x, x)  # error
Layer.rows(Layer(), x)
Layer().by_itself(x)
reveal_type(ft.hessian(model))  # (params: dict[str, Array], x: Array) -> Any
reveal_type(ft.checkpoint(model))  # (params: dict[str, Array], x: Array) -> Array
reveal_type(ft.jit(model))  # Jitted[(params: dict[str, Array], x: Array), Array]
reveal_type(ft.jit(model)(params, x))  # Array
reveal_type(step)  # Jitted[(x: Array, rate: float), Array]
reveal_type(ft.vjp(model, params, x))  # tuple[Array, (Any) -> tuple[Any, ...]]
reveal_type(ft.vjp(loss_and_size, params, x, has_aux=True)[2])  # int
reveal_type(ft.jvp(model, (params, x), (params, x)))  # tuple[Array, Array]
reveal_type(ft.linearize(model, params, x)[0])  # Array


# Numbers and arrays of NumPy's go in, and arrays come out.
def cube(x: float) -> float:
    return x**3


def norm(x: numpy.ndarray[Any, numpy.dtype[numpy.float64]], scale: float = 1.0) -> Array:
    return np.sum(x * x) * scale


def cube_and_name(x: float) -> tuple[float, str]:
    return x**3, "cube"


reveal_type(ft.grad(cube)(3.0))  # Array
slope = ft.grad(cube)
reveal_type(ft.grad(slope)(3.0))  # Array
ft.grad(ft.grad(cube))(3.0)
reveal_type(ft.grad(norm)(numpy.ones(3), scale=2.0))  # Array
reveal_type(ft.grad(cube_and_name, has_aux=True)(3.0))  # tuple[Array, str]
reveal_type(ft.grad(np.sin)(3.0))  # Array
ft.grad(lambda t: ft.grad(lambda s: s**3)(t))(3.0)
reveal_type(ft.elementwise_grad(cube)(3.0))  # Array
reveal_type(ft.value_and_grad(cube)(3.0))  # tuple[Array, Array]
reveal_type(ft.value_and_grad(cube_and_name, has_aux=True)(3.0)[0][1])  # str
reveal_type(ft.vjp(cube, 3.0)[0])  # Array
reveal_type(ft.jvp(cube, (3.0,), (1.0,)))  # tuple[Array, Array]
reveal_type(ft.linearize(cube, 3.0)[1](1.0))  # Array
reveal_type(ft.vmap(cube)(x))  # Any
reveal_type(ft.vmap(ft.grad(cube))(x))  # Array
reveal_type(ft.jit(ft.grad(cube))(3.0))  # Array
reveal_type(ft.grad(tensor_loss)(ft.tensor([1.0])))  # Tensor
reveal_type(ft.value_and_grad(tensor_loss)(ft.tensor([1.0])))  # tuple[Tensor, Tensor]
ft.vmap(lambda row: ft.grad(lambda s: np.sum(s * s))(row))(x)
ft.grad(norm)(numpy.ones(3), 1.0, 2.0)  # error
step(x, rate="fast")  # error
ft.grad(model)(params)  # error
reveal_type(np.where(x > 0))  # tuple[Array, ...]
reveal_type(np.where(x > 0, x, 0.0))  # Array
reveal_type(x.std(ddof=1))  # Array
reveal_type(np.take(x, [0, 1], mode=None))  # Array
reveal_type(np.sum(a=x, axis=0))  # Array
reveal_type(np.mean([1.0, 2.0]))  # Array
reveal_type(ft.vmap(np.sin)(x))  # Array
reveal_type(ft.vmap(np.matmul)(x, x))  # Array
reveal_type(ft.grad(np.sum)(x))  # Array
reveal_type(ft.grad(np.sin)(1.0) + 1)  # Array
reveal_type(ft.value_and_grad(np.dot)(x, x))  # tuple[Array, Array]
reveal_type(ft.vmap(ft.grad(np.tanh))(x))  # Array
reveal_type(ft.scan(lambda total, row: (total + np.sum(row), None), x, x)[0])  # Any
reveal_type(ft.scan(added, 0.0, x)[0])  # Array
reveal_type(ft.fori_loop(0, 3, times, x))  # Array
reveal_type(ft.while_loop(lambda x: x < 1, np.square, x))  # Array
reveal_type(ft.cond(np.any(x > 0), np.sqrt, np.zeros_like, x))  # Array
np.sum(x, axis="rows")  # error
np.reshape(x, shap=(3, 1))  # error
reveal_type(np.clip(a=x, a_min=0, a_max=1))  # Array
np.clip(x, lowest=0)  # error
np.nosuch  # error
ft.nosuch  # error
ft.scipy.nosuch  # error

t = ft.Tensor([1.0, 2.0], requires_grad=True)
reveal_type(t * 2 + x)  # Tensor
reveal_type(np.exp(t))  # Tensor
reveal_type(np.add(1.0, t))  # Tensor
reveal_type(np.add(x, t))  # Tensor
reveal_type(np.maximum(t, 0))  # Tensor
reveal_type(np.matmul(x, t))  # Tensor
reveal_type(np.dot(t, b=t))  # Tensor
reveal_type(np.einsum("i,i->", t, t))  # Tensor
reveal_type(np.mean(t, axis=0, keepdims=True))  # Tensor
reveal_type(np.var(t))  # Tensor
reveal_type(np.std(t, ddof=1))  # Tensor
reveal_type(np.reshape(t, (2, 1)))  # Tensor
reveal_type(np.transpose(t))  # Tensor
reveal_type(np.expand_dims(t, 0))  # Tensor
reveal_type(np.concatenate([t, t]))  # Tensor
reveal_type(np.stack((t, t), axis=1))  # Tensor
reveal_type(np.where(t > 0, t, 0.0))  # Tensor
reveal_type(np.where(x > 0, 0.0, t))  # Tensor
reveal_type(np.clip(t, 0, 1))  # Tensor
reveal_type(np.cumsum(t))  # Tensor
reveal_type(np.linalg.norm(t))  # Tensor
reveal_type(np.fft.rfft(t))  # Tensor
reveal_type(np.zeros_like(t))  # Array
reveal_type(np.shape(t))  # tuple[int, ...]
reveal_type(nn.relu(t))  # Tensor
reveal_type(nn.softmax(t))  # Tensor
reveal_type(nn.linear(x, t, t))  # Tensor
reveal_type(nn.conv(x, t, t, padding="SAME"))  # Tensor
reveal_type(nn.max_pool(nn.relu(t), 2))  # Tensor
reveal_type(nn.softmax_cross_entropy(t, x).mean())  # Tensor
reveal_type(ft.grad(np.sum)(t))  # Tensor
reveal_type(ft.vmap(np.sin)(t))  # Tensor
reveal_type(ft.checkpoint(np.sum)(t))  # Tensor
ft.checkpoint(np.sum)(t, axis="rows")  # error
ft.jit(nn.relu)(t).backward()
ft.jit(np.sum)(t, axis=0).backward()
ft.jit(np.sum).lower(t)
ft.hessian(np.sum)(t)
ft.jacobian(np.sin)(t)
nn.mse(t, x).backward()
np.sum(t).backward()
np.sum(t, axis="rows")  # error
np.diff(x, n="once")  # error
np.zeros("three")  # error
"""


def expected() -> dict[int, str]:
    """Returns what the script's comments say, by line."""
    lines = enumerate(SCRIPT.splitlines(), 1)
    return {i: line.partition("  # ")[2] for i, line in lines if "  # " in line}


def run(command: list[str], place: Path, environment: dict[str, str]) -> str:
    """Returns what a type checker says of the script."""
    (place / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        command, cwd=place, env={**os.environ, **environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "script.py" in done.stdout, done.stdout + done.stderr
    return done.stdout


@cache
def typecheck() -> ModuleType:
    """Returns the script that checks the package itself."""
    spec = importlib.util.spec_from_file_location("typecheck", ROOT / ".ci" / "typecheck.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_installed(tree: Path) -> Path:
    """Lays the three folders out as one package."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    typecheck().lay_out(config["tool"]["setuptools"]["package-dir"], tree)
    return tree


@only_long
@pytest.mark.long
def test_mypy_tells_users_what_goes_in_and_comes_out():
    pytest.importorskip("mypy")
    tree = as_installed(typecheck().CACHE / "mapped")
    # The script stands beside the package, so that one check of both is remembered for the next.
    command = [*typecheck().command(), "--module", "script"]
    told = run(command, tree, {})
    found = {}
    for number, kind, text in re.findall(r"^script\.py:(\d+): (\w+): (.*)$", told, re.MULTILINE):
        revealed = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text.partition('"')[2].rpartition('"')[0])
        # As pyright writes it.
        revealed = revealed.replace("def (", "(")
        revealed = re.sub(r"^Jitted\[\[(.*)\], ", r"Jitted[(\1), ", revealed)
        # Notes on an error follow it.
        found.setdefault(int(number), "error" if kind == "error" else revealed)
    assert found == expected()


def test_pyright_tells_users_what_goes_in_and_comes_out(tmp_path):
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: pip install pyright")
    tree = as_installed(tmp_path / "installed")
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{tree}"]}}')
    told = run([pyright, "--pythonpath", sys.executable, "script.py"], tmp_path, {})
    lines = re.findall(r"script\.py:(\d+):\d+ - (\w+): (?:.* is \"(.*)\")?", told)
    assert {int(i): "error" if kind == "error" else text for i, kind, text in lines} == expected()


def test_the_package_says_that_it_is_typed():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in config["tool"]["setuptools"]["package-data"]["functensor"]
    assert (ROOT / "functensor" / "py.typed").exists()


def test_annotations_can_be_evaluated_at_run_time():
    for kind in (ft.Array, ft.Tensor):
        assert "mutable" in typing.get_type_hints(kind)
    for module in (ft, ft.extend):
        for name in set(module.__all__) - {"Primitive"}:
            function = getattr(module, name)
            if inspect.isfunction(function):
                inspect.signature(function, eval_str=True)
