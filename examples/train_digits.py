"""Learns to read handwritten digits, with a perceptron and with a small convolutional network.

    python examples/train_digits.py
    python examples/train_digits.py --device cuda

A network is a function of its parameters, a tree of arrays; so its gradient is such a tree too.
"""

import digits
from tqdm import tqdm

import functensor as ft
import functensor.numpy as np
from functensor import nn, optim


def init_mlp(key):
    keys = ft.random.split(key, 3)
    he = nn.init.he_normal()
    return [
        {"w": he(key, (inputs, outputs), "float32"), "b": np.zeros(outputs, "float32")}
        for key, inputs, outputs in zip(keys, (64, 256, 128), (256, 128, 10), strict=True)
    ]


def mlp(params, images):
    x = images.reshape(len(images), -1)
    for layer in params[:-1]:
        x = nn.relu(nn.linear(x, **layer))
    return nn.linear(x, **params[-1])


def init_cnn(key):
    first, second, third = ft.random.split(key, 3)
    he = nn.init.he_normal()
    return {
        "conv1": {"w": he(first, (16, 1, 3, 3), "float32"), "b": np.zeros(16, "float32")},
        "conv2": {"w": he(second, (32, 16, 3, 3), "float32"), "b": np.zeros(32, "float32")},
        "out": {"w": he(third, (512, 10), "float32"), "b": np.zeros(10, "float32")},
    }


def cnn(params, images):
    x = nn.relu(nn.conv(images, **params["conv1"], padding="SAME"))
    x = nn.relu(nn.conv(x, **params["conv2"], padding="SAME"))
    x = nn.max_pool(x, 2)
    return nn.linear(x.reshape(len(x), -1), **params["out"])


def train(name, network, params, key, images, labels, args):
    """Returns the trained parameters and the loss of every step."""

    def loss(params, images, labels):
        return np.mean(nn.softmax_cross_entropy(network(params, images), labels))

    optimizer = optim.adam(args.learning_rate)
    state = optimizer.init(params)
    loss_and_grad = ft.value_and_grad(loss)
    losses = []
    progress = tqdm(total=digits.count_batches(labels, args), desc=name)
    for batch in digits.batches(key, images, labels, args):
        value, grads = loss_and_grad(params, *batch)
        params, state = optimizer.update(params, state, grads)
        losses.append(float(value))
        progress.update()
        progress.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    progress.close()
    return params, losses


def main():
    args = digits.options(__doc__.splitlines()[0])
    # All arrays are made there, the random weights with the same numbers as anywhere else.
    with ft.default_device(args.device):
        learn(args)


def learn(args):
    images, labels, test_images, test_labels = digits.load()
    losses = {}
    for name, network, init in (("MLP", mlp, init_mlp), ("CNN", cnn, init_cnn)):
        init_key, order_key = ft.random.split(ft.random.key(0))
        params, losses[name] = train(
            name, network, init(init_key), order_key, images, labels, args
        )
        predicted = np.argmax(network(params, test_images), axis=1)
        accuracy = float(np.mean(predicted == test_labels))
        print(f"{name}: {accuracy:.2%} of {len(test_labels)} held-out digits read correctly")
    digits.plot_losses(losses, args.output / "learning_curve.png")
    digits.plot_predictions(
        test_images, test_labels, predicted, args.output / "predictions.png"
    )
    print(f"wrote learning_curve.png and predictions.png into {args.output}")


if __name__ == "__main__":
    main()
