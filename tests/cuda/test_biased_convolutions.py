"""Convolutions in plans on a GPU, to which own kernels add a bias."""

import re

import numpy as np
import pytest
from support.gpu_programs import fused, plan_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")


@pytest.fixture(autouse=True, params=[False, True], ids=["alone", "cudnn"])
def has_cudnn(request, monkeypatch):
    """Makes every plan as where there is no cuDNN, and as where there is."""
    from functensor.backends.cuda import cudnn

    if request.node.get_closest_marker("gpu") is None or not request.param:
        monkeypatch.setattr(cudnn, "available", lambda: request.param)
    elif not cudnn.available():
        pytest.skip(f"cuDNN: {cudnn.describe()}")
    return request.param


def arguments(dtype="f4", images=300):
    rng = np.random.default_rng(0)
    shapes = (images, 3, 9, 8), (6, 3, 3, 3), (6,)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def layer(x, w, bias):
    return nn.relu(nn.conv(x, w, bias))


def queue_of(function, *args):
    """Returns the lines of what a plan queues."""
    source = plan_of(fused(function, *args)).source
    return re.sub("  #.*", "", source[source.index("def queue") :])


def test_bias_and_relu_are_part_of_a_convolution():
    text = queue_of(lambda *args: nn.max_pool(layer(*args), 2), *arguments())
    assert re.search(r"= biased_conv\(\w+, \w+, \w+, geometry=static_0, relu=True\)", text)
    text = queue_of(lambda *args: nn.max_pool(nn.conv(*args), 2), *arguments())
    assert "relu=False" in text
    assert "region_0" not in text


def test_a_step_has_the_activation_for_its_way_back():
    def loss(x, w, bias, second):
        return fnp.mean(nn.conv(layer(x, w, bias), second) ** 2)

    second = np.ones((6, 6, 3, 3), "f4")
    text = queue_of(ft.value_and_grad(loss, (0, 1, 2)), *arguments(), second)
    (made,) = re.findall(r"(\w+) = biased_conv\(", text)
    assert re.search(rf"region_\d\([^)]*\b{made}\b", text)
    assert text.count(" = conv(") == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, bias: (y := nn.conv(x, w), nn.relu(y + bias.reshape(6, 1, 1))),
        lambda x, w, bias: nn.gelu(nn.conv(x, w, bias)),
        lambda x, w, bias: nn.relu(nn.conv(x, w, fnp.cumsum(bias))),
        lambda x, w, bias: nn.relu(nn.conv(x, w) - bias.reshape(6, 1, 1)),
    ],
    ids=["shown", "gelu", "computed later", "difference"],
)
def test_what_regions_do(function):
    text = queue_of(function, *arguments())
    assert "biased_conv" not in text
    assert "conv(" in text


def test_doubles_and_large_kernels_are_left_to_others():
    assert "biased_conv" not in queue_of(layer, *arguments("f8"))
    x, _, bias = arguments()
    w = np.ones((6, 3, 7, 7), "f4")
    assert "biased_conv" not in queue_of(layer, x, w, bias)


def test_few_windows_are_left_to_cudnn(has_cudnn):
    assert ("biased_conv(" in queue_of(layer, *arguments(images=4))) != has_cudnn


@pytest.mark.gpu
@pytest.mark.parametrize("relu", [False, True])
def test_a_step_is_that_of_eager_mode(relu):
    def loss(x, w, bias):
        y = nn.conv(x, w, bias)
        return fnp.mean(fnp.sin(nn.max_pool(nn.relu(y) if relu else y, 2)))

    step = ft.value_and_grad(loss, (0, 1, 2))
    args = [ft.to_device(x, "cuda") for x in arguments()]
    wanted = step(*args)
    jitted = ft.jit(step)
    jitted.compile(*args)
    for _ in range(4):
        found = jitted(*args)
    assert "biased_conv(" in jitted.lower(*args).source
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        x, y = (np.asarray(ft.to_device(v, "cpu")) for v in (x, y))
        np.testing.assert_allclose(x, y, 2e-5, 1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("relu", [False, True])
def test_others_add_the_bias_where_own_kernels_do_not(relu):
    import cupy

    from functensor.backends.cuda.kernels.convolution import biased_conv
    from functensor.primitives.contract.conv import Geometry

    x, _, bias = map(cupy.asarray, arguments())
    w = cupy.asarray(np.random.default_rng(1).normal(size=(6, 3, 7, 7)).astype("f4"))
    geometry = Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    found = biased_conv(x, w, bias, geometry=geometry, relu=relu)
    wanted = np.asarray(ft.to_device(nn.conv(*map(cupy.asnumpy, (x, w, bias))), "cpu"))
    wanted = np.maximum(wanted, 0) if relu else wanted
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, 1e-4, 1e-4)
