"""Backward passes from losses whose plans have computed the gradients: they walk over nothing."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.primitives.core.errors import BackwardError
from functensor.tensors import graphs, leaf_means, tape


@pytest.fixture
def walks(monkeypatch):
    """One entry for each walk over nodes."""
    seen = []
    walk = leaf_means.averaged_backward

    def noted(roots, **options):
        seen.append(None)
        return walk(roots, **options)

    def chosen(*args, **options):
        seen.append(None)
        return choose(*args, **options)

    choose = graphs.chosen_gradients
    monkeypatch.setattr(tape, "averaged_backward", noted)
    monkeypatch.setattr(graphs, "chosen_gradients", chosen)
    return seen


def loss_of(w, b, x):
    return torch.tanh(x @ w + b).square().mean()


def operands():
    rng = numpy.random.default_rng(0)
    w, b = (torch.tensor(rng.normal(size=s).astype("f"), requires_grad=True) for s in ((3, 2), 2))
    return w, b, torch.tensor(rng.normal(size=(5, 3)).astype("f"))


def gradients(loss, w, b, *rest, **options):
    w.grad = b.grad = None
    loss(w, b, *rest).backward(**options)
    return [numpy.asarray(x.grad.detach()) for x in (w, b)]


@pytest.fixture
def warm(walks):
    """A compiled loss whose plan computes gradients, its arguments, and their gradients."""
    compiled, given = torch.compile(loss_of), operands()
    expected = gradients(loss_of, *given)
    for _ in range(3):
        gradients(compiled, *given)
    walks.clear()
    return compiled, given, expected


def check(found, expected):
    for x, y in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7)


def test_gradients_that_are_there_are_added_without_a_walk(warm, walks):
    compiled, given, expected = warm
    check(gradients(compiled, *given), expected)
    assert not walks


def test_they_are_added_to_what_is_there(warm, walks):
    compiled, given, expected = warm
    gradients(compiled, *given)
    kept = given[0].grad
    compiled(*given).backward()
    check([kept], [2 * expected[0]])
    loss = compiled(*given)
    for _ in range(2):
        loss.backward(retain_graph=True)
    check([kept], [4 * expected[0]])
    assert not walks


def test_a_second_pass_is_the_same_error(warm):
    compiled, given, _ = warm
    loss = compiled(*given)
    loss.backward()
    with pytest.raises(BackwardError, match=r"freed by the .*ahead.py:\d+") as error:
        loss.backward()
    assert "retain_graph=True" in str(error.value)


def test_hooks_see_the_gradients(warm, walks):
    compiled, given, expected = warm
    with given[0].register_hook(lambda g: 3 * g):
        check(gradients(compiled, *given), [3 * expected[0], expected[1]])
    assert len(walks) == 1
    ends = []
    with given[1].register_post_accumulate_grad_hook(lambda b: ends.append(b.grad.sum())):
        check(gradients(compiled, *given), expected)
    assert len(ends) == 1
    check(gradients(compiled, *given), expected)
    assert len(walks) == 1


@pytest.mark.parametrize("options", [{"gradient": torch.tensor(2.0)}, {"create_graph": True}])
def test_other_passes_are_walked(options, warm):
    compiled, given, expected = warm
    factor = 2 if "gradient" in options else 1
    check(gradients(compiled, *given, **options), [factor * x for x in expected])
    assert given[0].grad.requires_grad == ("create_graph" in options)


def test_gradients_that_are_returned_are_not_walked_for(warm, walks):
    compiled, (w, b, x), expected = warm
    w.grad = None
    for wanted in ([b, w], [w], [b]):
        loss = compiled(w, b, x)
        found = torch.autograd.grad(loss, wanted)
        check(found, [expected[0] if x is w else expected[1] for x in wanted])
        with pytest.raises(BackwardError, match="a second time"):
            torch.autograd.grad(loss, wanted)
    assert w.grad is None
    walks.clear()
    loss = compiled(w, b, x)
    check(torch.autograd.grad(loss, [w, b], retain_graph=True), expected)
    loss.backward()
    check([w.grad], expected[:1])
    assert not walks


def test_gradients_of_others_are_asked_of_a_walk(warm, walks):
    compiled, (w, b, x), expected = warm
    with pytest.raises(BackwardError, match="input 0"):
        torch.autograd.grad(compiled(w, b, x), [torch.tensor([1.0], requires_grad=True)])
    (found,) = torch.autograd.grad(compiled(w, b, x), w, torch.tensor(2.0))
    check([found], [2 * expected[0]])
    assert len(walks) == 2


def test_a_leaf_that_is_there_twice(walks):
    compiled = torch.compile(lambda v, w: (v * v * w).sum())
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(4):
        x.grad = None
        compiled(x, x).backward()
        assert x.grad.tolist() == [3.0, 12.0]
    assert len(walks) == 4


def test_operands_that_are_no_leaves(walks):
    compiled = torch.compile(lambda v: (v * v).sum())
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(4):
        x.grad = None
        compiled(3 * x).backward()
        assert x.grad.tolist() == [18.0, 36.0]
    assert len(walks) == 4


def test_gradients_that_are_missing_are_told_as_ever(warm):
    compiled, given, _ = warm
    other = torch.tensor([1.0], requires_grad=True)
    gradients(compiled, *given)
    with pytest.warns(ft.errors.MissingGradientWarning, match="no backward"):
        assert not isinstance(other.grad, torch.Tensor)
