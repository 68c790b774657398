"""Makes the activations of a network sparse, by a hook in the backward pass of its training.

    python examples/sparse_activations.py

A penalty on activations need not stand in the loss: a hook adds its gradient to the cotangents that
flow through relu. Network, loss and training are those of train_digits.py, unchanged.
"""

import digits
import train_digits

import functensor as ft
import functensor.numpy as np
from functensor import nn, random

WEIGHT = 0.002
mlp = ft.jit(train_digits.mlp)


class Sparse(ft.hooks.Hook):
    """Adds the gradient of WEIGHT times the sum of an example's activations, on average."""

    def __init__(self):
        self.active = []

    def forward(self, op, inputs, output):
        self.active.append(ft.value(output) > 0)

    def backward(self, op, grad_inputs, grad_output):
        # The backward pass comes through the layers in reverse.
        active = self.active.pop()
        return [grad_inputs[0] + WEIGHT / len(active) * active.astype("float32")]


def error(params, images, labels):
    return np.mean(nn.softmax_cross_entropy(mlp(params, images), labels))


def error_and_penalty(params, images, labels):
    """Returns the same loss with the penalty written into it."""
    scores, activations = ft.hooks.capture(mlp, "relu")(params, images)
    penalty = sum(np.mean(np.sum(h, axis=1)) for h in activations.values())
    return np.mean(nn.softmax_cross_entropy(scores, labels)) + WEIGHT * penalty


def largest_difference(found, wanted):
    """Returns how far gradients are from others, relative to the largest of each array."""
    pairs = zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True)
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)


def main():
    args = digits.options(__doc__.splitlines()[0])
    images, labels, test_images, test_labels = digits.load()
    init_key, order_key = random.split(random.key(0))
    first = train_digits.init_mlp(init_key)
    wanted = ft.grad(error_and_penalty)(first, images, labels)
    plain = ft.grad(error)(first, images, labels)
    with ft.hooks.use(Sparse(), "relu"):
        hooked = ft.grad(error)(first, images, labels)
    print(f"gradients without the penalty are off by {largest_difference(plain, wanted):.1e}")
    print(f"those with the hook are off by {largest_difference(hooked, wanted):.1e}")

    def train():
        return train_digits.train("MLP", mlp, first, order_key, images, labels, args)[0]

    trained = {"without the hook": train()}
    with ft.hooks.use(Sparse(), "relu"):
        trained["with the hook"] = train()
    for name, params in trained.items():
        scores, activations = ft.hooks.capture(mlp, "relu")(params, test_images)
        active = np.concatenate([h.reshape(-1) for h in activations.values()]) > 0
        accuracy = float(np.mean(np.argmax(scores, axis=1) == test_labels))
        print(
            f"{name}: {float(np.mean(active)):.1%} of the units are active, "
            f"{accuracy:.2%} of {len(test_labels)} held-out digits read correctly"
        )


if __name__ == "__main__":
    main()
