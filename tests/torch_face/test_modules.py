"""Modules as PyTorch's users know them: attributes, states, hooks, functions of parameters."""

from copy import deepcopy

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.torch import nn
from functensor.torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


def test_names_of_parameters_buffers_and_modules():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "rest.1.weight"]
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    assert list(net.state_dict()) == [
        "scale",
        "seen",
        "first.weight",
        "first.bias",
        "rest.1.weight",
    ]
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [name for name, _ in net.named_children()] == ["first", "rest"]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in net.parameters())
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_parameter("first.bias") is net.first.bias


def test_repr_is_pytorchs():
    assert repr(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Dropout(0.2))) == (
        "Sequential(\n"
        "  (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))\n"
        "  (1): ReLU()\n"
        "  (2): Dropout(p=0.2, inplace=False)\n"
        ")"
    )


def test_state_goes_from_one_module_to_another():
    one, other = Net(), Net()
    x = torch.randn(5, 3)
    assert not torch.allclose(one(x), other(x))
    result = other.load_state_dict(one.state_dict())
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    assert torch.equal(one(x), other(x))
    state = {name: value.numpy() for name, value in one.state_dict().items()}
    state["first.weight"] = state["first.weight"] * 2
    other.load_state_dict(state)
    assert torch.equal(other.first.weight, 2 * one.first.weight)
    # States share memory with their module, as in PyTorch.
    one.state_dict()["scale"].zero_()
    assert one.scale.tolist() == [0, 0]


def test_a_wrong_state_changes_nothing():
    net = Net()
    before = {name: x.clone() for name, x in net.state_dict().items()}
    state = {name: x + 1 for name, x in before.items()}
    with pytest.raises(RuntimeError, match=r"scale has the shape \(3,\), not \(2,\)"):
        net.load_state_dict({**state, "scale": torch.ones(3)})
    with pytest.raises(RuntimeError, match="seen is missing"):
        net.load_state_dict({k: v for k, v in state.items() if k != "seen"})
    with pytest.raises(RuntimeError, match="more is not of this module"):
        net.load_state_dict({**state, "more": torch.ones(3)})
    assert all(torch.equal(x, before[name]) for name, x in net.state_dict().items())
    found = net.load_state_dict({"scale": torch.zeros(2), "more": torch.ones(1)}, strict=False)
    assert found.unexpected_keys == ["more"]
    assert net.scale.tolist() == [0, 0]


def test_training_and_evaluation():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    x = torch.randn(64, 3)
    net(x)
    assert net[1].num_batches_tracked.item() == 1
    assert net.eval() is net
    assert not net[2].training
    assert torch.equal(net(x), net(x))
    net.train()
    assert not torch.equal(net(x), net(x))
    assert net[1].num_batches_tracked.item() == 3


def test_a_training_loop_of_a_script():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = ft.optim.Adam(net.parameters(), 0.02)
    x = torch.rand(64, 2)
    y = (x[:, :1] * x[:, 1:]).detach()
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_conversion_keeps_the_parameters():
    net = Net()
    weight = net.first.weight
    assert net.double() is net
    assert net.first.weight is weight
    assert weight.dtype == torch.float64
    assert weight.requires_grad
    assert net(torch.randn(2, 3, dtype=torch.float64)).dtype == torch.float64
    net.half().to(torch.float32)
    assert weight.dtype == torch.float32
    table = nn.BatchNorm1d(2).to(torch.float64)
    assert table.num_batches_tracked.dtype == torch.int64


def test_forward_hooks_see_and_change():
    layer, seen = nn.Linear(3, 2), []
    one = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    two = layer.register_forward_hook(lambda module, args, out: seen.append(args[0].tolist()))
    three = layer.register_forward_hook(lambda module, args, out: out + 1)
    assert torch.allclose(layer(torch.ones(3)), layer.bias + 1)
    assert seen == [[0, 0, 0]]
    for handle in (one, two, three):
        handle.remove()
    assert torch.equal(layer(torch.zeros(3)), layer.bias)


def test_removed_hooks_leave_nothing():
    layer = torch.nn.Linear(2, 2)
    before = {name: len(x) for name, x in vars(layer).items() if hasattr(x, "__len__")}
    for _ in range(3):
        layer.register_forward_hook(lambda *_: None, with_kwargs=True).remove()
        layer.register_forward_pre_hook(lambda *_: None, with_kwargs=True).remove()
    assert before == {name: len(x) for name, x in vars(layer).items() if hasattr(x, "__len__")}


def test_backward_hooks_see_and_change_gradients():
    layer, seen = nn.Linear(3, 2), []
    x = torch.ones(4, 3, requires_grad=True)

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].shape, grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    handle = layer.register_full_backward_hook(hook)
    layer(x).sum().backward()
    assert seen == [((4, 3), [[1, 1]] * 4)]
    expected = 10 * layer.weight.detach().sum(0)
    assert torch.allclose(x.grad, expected.expand(4, 3))
    handle.remove()
    layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 0,))
    layer.weight.grad = None
    layer(x).sum().backward()
    assert layer.weight.grad.abs().sum().item() == 0


def test_wrong_uses_say_what_is_right():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before super\(\).__init__\(\) was called"):
        Early()
    net = Net()
    with pytest.raises(TypeError, match="scale is a parameter: assign a Parameter or None"):
        net.scale = torch.ones(2)
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'secnd'"):
        net.secnd  # noqa: B018
    with pytest.raises(KeyError, match="no point"):
        net.register_buffer("a.b", torch.ones(1))
    with pytest.raises(NotImplementedError, match="Module has no method forward"):
        nn.Module()(1)
    with pytest.raises(ValueError, match="has 4 axes, not 2"):
        nn.BatchNorm2d(3)(torch.ones(2, 3))
    with pytest.raises(ft.errors.ShapeError, match=r"conv2d: an input of shape \(3, 3\)"):
        nn.Conv2d(3, 1, 1)(torch.ones(3, 3))
    with pytest.raises(ValueError, match="p is a probability"):
        F.dropout(torch.ones(2), 1.5)
    with pytest.warns(UserWarning, match=r"shape \(3, 1\) and a target of shape \(3,\)"):
        F.mse_loss(torch.ones(3, 1), torch.ones(3))


def test_containers():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    layers.append(nn.ReLU())
    assert len(layers) == 4
    assert layers[-1] is layers[3]
    assert len(layers[1:]) == 3
    assert len(list(layers.parameters())) == 6
    del layers[0]
    assert list(layers._modules) == ["0", "1", "2"]
    named = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.Identity()})
    named["c"] = nn.Linear(2, 1)
    assert list(named) == ["a", "b", "c"]
    assert "b" in named
    values = nn.ParameterList([torch.ones(2), torch.zeros(3)])
    assert [p.shape for p in values.parameters()] == [(2,), (3,)]
    assert list(nn.ParameterDict({"w": torch.ones(1)}).state_dict()) == ["w"]
    first = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    assert len(first[:2]) == 2
    assert first[0] is first[:2][0]


def test_modules_are_copied_with_their_parameters():
    net = Net()
    other = deepcopy(net)
    other.first.weight.data = other.first.weight.data * 0
    assert net.first.weight.abs().sum().item() > 0
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in other.parameters())
    out = other(torch.ones(3)).sum()
    out.backward()
    assert other.scale.grad is not None
    with pytest.warns(ft.errors.MissingGradientWarning):
        assert net.scale.grad is None


def test_shared_parameters_count_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    params = {name: p.detach() * 0 for name, p in net.named_parameters()}
    out = torch.func.functional_call(net, params, (torch.ones(2),))
    assert out.tolist() == [0, 0]


def test_a_module_is_a_function_of_its_parameters():
    net = Net()
    x = torch.randn(6, 3)
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(params, x):
        return torch.func.functional_call(net, params, (x,)).pow(2).mean()

    net(x).pow(2).mean().backward()
    for found in (ft.grad(loss)(params, x), ft.jit(ft.grad(loss))(params, x)):
        for name, p in net.named_parameters():
            assert torch.allclose(found[name], p.grad, atol=1e-6)
    each = ft.vmap(ft.grad(loss), in_axes=(None, 0))(params, x)
    assert torch.allclose(each["scale"].mean(0), net.scale.grad, atol=1e-6)
    with pytest.raises(RuntimeError, match="it has no 'nothing'"):
        torch.func.functional_call(net, {"nothing": x}, (x,))
    assert all(isinstance(p, nn.Parameter) for p in net.parameters())


def test_an_ensemble_is_one_call():
    models = [nn.Linear(3, 2) for _ in range(4)]
    params, buffers = torch.func.stack_module_state(models)
    x = torch.randn(5, 3)

    def call(params, buffers, x):
        return torch.func.functional_call(models[0], (params, buffers), (x,))

    out = torch.func.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    assert out.shape == (4, 5, 2)
    assert all(torch.allclose(out[i], model(x), atol=1e-6) for i, model in enumerate(models))


def test_initial_values():
    torch.manual_seed(0)
    x = torch.empty(200, 300)
    nn.init.xavier_uniform_(x)
    assert abs(x.std().item() - (2 / 500) ** 0.5) < 2e-3
    nn.init.kaiming_normal_(x, nonlinearity="relu")
    assert abs(x.std().item() - (2 / 300) ** 0.5) < 2e-3
    nn.init.orthogonal_(x)
    assert torch.allclose(x @ x.T, torch.eye(200), atol=1e-4)
    nn.init.trunc_normal_(x, std=2.0, a=-1.0, b=1.0)
    assert x.abs().max().item() <= 1
    nn.init.sparse_(x, 0.25)
    assert ((x == 0).sum(0) == 50).all().item()
    kernel = nn.init.dirac_(torch.empty(3, 3, 3, 3))
    images = torch.randn(1, 3, 5, 5)
    assert torch.allclose(F.conv2d(images, kernel, padding=1), images)
    layer = nn.Linear(3, 4)
    nn.init.constant_(layer.weight, 0.5)
    assert layer.weight.requires_grad
    assert layer.weight.is_leaf
    assert layer.weight.tolist() == [[0.5] * 3] * 4


def test_gradients_are_clipped():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    y = torch.tensor([0.0], requires_grad=True)
    ((x * x / 2).sum() + 12 * y.sum()).backward()
    assert nn.utils.clip_grad_norm_([x, y], 6.5).item() == pytest.approx(13)
    numpy.testing.assert_allclose(x.grad, [1.5, 2.0], rtol=1e-5)
    nn.utils.clip_grad_value_([x], 1.75)
    numpy.testing.assert_allclose(x.grad, [1.5, 1.75], rtol=1e-5)
    vector = nn.utils.parameters_to_vector([x, y])
    assert vector.tolist() == [3, 4, 0]
    nn.utils.vector_to_parameters(torch.tensor([7.0, 8.0, 9.0]), [x, y])
    assert (x.tolist(), y.tolist()) == ([7, 8], [9])


def test_one_module_for_several_devices_runs_on_its_own():
    layer, x = nn.Linear(3, 2), torch.randn(4, 3)
    both = nn.parallel.data_parallel
    for found in (both(layer, x), both(layer, (x,), dim=0), nn.DataParallel(layer)(x)):
        assert torch.equal(found, layer(x))
    named = {"input2": x[:, :1]}
    assert both(nn.Bilinear(1, 1, 1), x[:, :1], module_kwargs=named).shape == (4, 1)


def test_draws_are_the_same_again_from_one_seed():
    torch.manual_seed(5)
    a = [torch.rand(3), torch.randn(2, 2), torch.randperm(5), torch.randint(0, 9, (4,))]
    torch.manual_seed(5)
    b = [torch.rand(3), torch.randn(2, 2), torch.randperm(5), torch.randint(0, 9, (4,))]
    assert all(torch.equal(x, y) for x, y in zip(a, b))
    assert not torch.equal(torch.rand(3), torch.rand(3))
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(torch.rand(3, generator=generator), a[0])
    state = generator.get_state()
    first = torch.rand(2, generator=generator)
    assert torch.equal(torch.rand(2, generator=generator.set_state(state)), first)


def test_draws_within_jit_are_an_error():
    with pytest.raises(RuntimeError, match="within jit, which would be the same in every call"):
        ft.jit(lambda x: F.dropout(x))(torch.ones(3))


def test_a_checkpoint_drops_the_same_elements_again():
    def block(x):
        return F.dropout(torch.sin(x)) * x

    torch.manual_seed(3)
    x = torch.ones(32, requires_grad=True)
    y = block(x)
    y.sum().backward()
    torch.manual_seed(3)
    again = torch.ones(32, requires_grad=True)
    ft.checkpoint(block)(again).sum().backward()
    assert torch.equal(again.grad, x.grad)
    torch.manual_seed(3)
    found = ft.grad(ft.checkpoint(lambda x: ft.checkpoint(block)(x).sum()))(torch.ones(32))
    assert torch.equal(found, x.grad)


def test_masks_of_attention():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    causal = torch.ones(5, 5).triu(1).bool()
    out, weights = attention(x, x, x, attn_mask=causal)
    assert (weights.triu(1) == 0).all().item()
    fast, none = attention(x, x, x, attn_mask=causal, need_weights=False)
    assert none is None
    assert torch.allclose(out, fast, atol=1e-5)
    padding = torch.tensor([[False] * 4 + [True], [False] * 5])
    _, weights = attention(x, x, x, key_padding_mask=padding)
    assert (weights[0, :, 4] == 0).all().item()
    assert (weights[1, :, 4] > 0).all().item()


def test_names_keep_their_places_and_their_kinds():
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(torch.ones(2, 2))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    layer.register_buffer("mean", torch.zeros(2))
    layer.inner = nn.Linear(1, 1)
    for name, wrong, kind, right in [
        ("weight", torch.ones(2, 2), "parameter", "Parameter"),
        ("mean", 3, "buffer", "Tensor"),
        ("inner", torch.nn.functional.relu, "module", "Module"),
    ]:
        text = f"Linear.{name} is a {kind}: assign a {right} or None, not"
        with pytest.raises(TypeError, match=text):
            setattr(layer, name, wrong)
    layer.mean = torch.ones(2)
    assert layer.mean.tolist() == [1, 1]
    assert "mean" in layer.state_dict()
    layer.mean = nn.Parameter(torch.ones(2))
    assert "mean" not in dict(layer.named_buffers())
    layer.mean = None
    assert layer.mean is None
    assert [name for name, _ in layer.named_children()] == ["inner"]


def test_names_of_attributes_are_not_taken_twice():
    layer = nn.Linear(2, 2)
    for register in (
        lambda: layer.register_buffer("weight", torch.ones(1)),
        lambda: layer.add_module("weight", nn.ReLU()),
        lambda: layer.register_parameter("forward", None),
    ):
        with pytest.raises(KeyError, match=r"Linear has an attribute '(weight|forward)' already"):
            register()
    with pytest.raises(TypeError, match="'scale' is a Parameter or None, not a Tensor"):
        layer.register_parameter("scale", torch.ones(1))
    with pytest.raises(TypeError, match="'table' is a Tensor or None, not a list"):
        layer.register_buffer("table", [1.0])
    with pytest.raises(TypeError, match="'part' is a Module or None, not a function"):
        layer.add_module("part", lambda x: x)
    assert list(layer.state_dict()) == ["weight", "bias"]
    layer.register_parameter("bias", None)
    assert list(layer.state_dict()) == ["weight"]


def test_states_without_a_version_may_lack_the_count_of_batches():
    net = nn.Sequential(nn.BatchNorm1d(2))
    net(torch.ones(3, 2))
    state = {name: x + 1 for name, x in net.state_dict().items()}
    del state["0.num_batches_tracked"]
    assert net.load_state_dict(state) == ([], [])
    assert net[0].num_batches_tracked.item() == 1
    versioned = type(net.state_dict())(state)
    versioned._metadata = {"0": {"version": 2}}
    with pytest.raises(RuntimeError, match=r"0\.num_batches_tracked is missing"):
        net.load_state_dict(versioned)
    del state["0.running_mean"]
    with pytest.raises(RuntimeError, match=r"0\.running_mean is missing"):
        net.load_state_dict(state)
