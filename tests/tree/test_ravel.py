"""``tree.ravel``: a tree as a vector, and back."""

from collections import namedtuple

import numpy as np
import pytest
from support.trees import close

import functensor as ft
import functensor.numpy as fnp

Point = namedtuple("Point", "x y")
TREE = {
    "w": np.arange(6.0).reshape(2, 3),
    "b": [np.float64(0.5), 2.0],
    "p": Point(np.ones((2, 0)), np.array([7.0])),
}


def test_round_trip():
    vector, unravel = ft.tree.ravel(TREE)
    close(vector, np.array([0.5, 2, 7, 0, 1, 2, 3, 4, 5]))
    close(unravel(vector), TREE)
    close(unravel(np.asarray(vector) * 2)["w"], 2 * TREE["w"])


@pytest.mark.parametrize("tree", [np.ones((2, 2)), 3.0, np.float32(2), [np.ones(3, bool)]], ids=str)
def test_a_single_leaf(tree):
    vector, unravel = ft.tree.ravel(tree)
    assert vector.shape == (np.size(ft.tree.leaves(tree)[0]),)
    close(unravel(vector), tree)


@pytest.mark.parametrize("tree", [{}, [], None, ((), {"a": None})])
def test_no_leaves(tree):
    vector, unravel = ft.tree.ravel(tree)
    close(vector, np.zeros(0))
    assert unravel(vector) == tree


def test_dtypes_are_promoted_and_cast_back():
    tree = [np.float32([1.5, 2]), np.arange(3), np.float64(0.25), np.array([True, False])]
    vector, unravel = ft.tree.ravel(tree)
    close(vector, np.array([1.5, 2, 0, 1, 2, 0.25, 1, 0]))
    close(unravel(vector), tree)
    single = {"a": np.float32([1, 2]), "b": np.float32(3)}
    vector, unravel = ft.tree.ravel(single)
    assert vector.dtype == np.float32
    close(unravel(np.array([1.0, 2.0, 3.0])), single)
    mixed = [np.array([1 + 2j]), np.float64(3.0)]
    vector, unravel = ft.tree.ravel(mixed)
    close(vector, np.array([1 + 2j, 3]))
    close(unravel(vector), mixed)


def test_it_is_differentiated_in_every_mode():
    _, unravel = ft.tree.ravel(TREE)
    x = np.linspace(0.1, 0.9, 9)

    def loss(vector):
        t = unravel(vector)
        return fnp.sum(t["w"] ** 3) + t["b"][0] * t["p"].y[0] * t["b"][1]

    wanted = np.concatenate([[x[1] * x[2], x[0] * x[2], x[0] * x[1]], 3 * x[3:] ** 2])
    close(ft.grad(loss)(x), wanted)
    close(ft.jacfwd(loss)(x), wanted)
    close(ft.vmap(ft.grad(loss))(np.stack([x, x])), np.stack([wanted, wanted]))
    got = ft.grad(lambda t: fnp.sum(ft.tree.ravel(t)[0] ** 2))(TREE)
    close(got, ft.tree.map(lambda leaf: 2.0 * np.asarray(leaf), TREE))
    gradient, _ = ft.tree.ravel(ft.grad(lambda t: loss(ft.tree.ravel(t)[0]))(unravel(x)))
    close(gradient, wanted)
    close(ft.vmap(lambda v: unravel(v)["w"])(np.stack([x, x])), np.stack([x[3:].reshape(2, 3)] * 2))
    assert ft.eval_shape(lambda t: ft.tree.ravel(t)[0], TREE).shape == (9,)


def test_gradients_of_mixed_precision_have_the_leaves_dtypes():
    tree = {"a": np.float32([1.0, 2.0]), "b": np.array([3.0])}
    got = ft.grad(lambda t: fnp.sum(ft.tree.ravel(t)[0] ** 2))(tree)
    close(got, {"a": np.float32([2, 4]), "b": np.array([6.0])})


def test_what_is_refused():
    _, unravel = ft.tree.ravel(TREE)
    words = r"unravel takes a vector of shape \(9,\), as tree.ravel returned, not of shape \(8,\)"
    with pytest.raises(ValueError, match=words):
        unravel(np.zeros(8))
    with pytest.raises(ValueError, match=r"not of shape \(9, 1\)"):
        unravel(np.zeros((9, 1)))
    with pytest.raises(TypeError, match="given a complex128 vector for a tree of float64"):
        unravel(np.zeros(9, complex))
    with pytest.raises(TypeError, match=r"the leaf at \['a'\]\[1\] is of type str, not an array"):
        ft.tree.ravel({"a": [1.0, "text"]})
    with pytest.raises(TypeError, match="the leaf at the root is of type str"):
        ft.tree.ravel("text")
