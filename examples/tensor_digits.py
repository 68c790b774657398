"""Learns to read handwritten digits with tensors: backward() and step(), as in PyTorch.

python examples/tensor_digits.py
python examples/tensor_digits.py --device cuda
"""

import digits
from tqdm import tqdm

import functensor as ft
from functensor import nn, optim


class Network:
    """A small convolutional network; its weights are tensors that require grad."""

    def __init__(self, key):
        first, second, third = ft.random.split(key, 3)
        he = nn.init.he_normal()
        self.conv1 = ft.Tensor(he(first, (16, 1, 3, 3), "float32"), requires_grad=True)
        self.bias1 = ft.Tensor([0.0] * 16, requires_grad=True)
        self.conv2 = ft.Tensor(he(second, (32, 16, 3, 3), "float32"), requires_grad=True)
        self.bias2 = ft.Tensor([0.0] * 32, requires_grad=True)
        self.out = ft.Tensor(he(third, (512, 10), "float32"), requires_grad=True)
        self.bias3 = ft.Tensor([0.0] * 10, requires_grad=True)

    def parameters(self):
        return list(vars(self).values())

    def __call__(self, images):
        x = nn.relu(nn.conv(images, self.conv1, self.bias1, padding="SAME"))
        x = nn.relu(nn.conv(x, self.conv2, self.bias2, padding="SAME"))
        return nn.max_pool(x, 2).flatten(1) @ self.out + self.bias3


def main():
    args = digits.options(__doc__.splitlines()[0])
    # All tensors are made there, the random weights with the same numbers as anywhere else.
    with ft.default_device(args.device):
        learn(args)


def learn(args):
    images, labels, test_images, test_labels = digits.load()
    init_key, order_key = ft.random.split(ft.random.key(0))
    network = Network(init_key)
    optimizer = optim.Adam(network.parameters(), lr=args.learning_rate)

    losses = []
    progress = tqdm(total=digits.count_batches(labels, args), desc="CNN")
    for batch, batch_labels in digits.batches(order_key, images, labels, args):
        optimizer.zero_grad()
        loss = nn.softmax_cross_entropy(network(batch), batch_labels).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress.update()
        progress.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    progress.close()

    with ft.no_grad():
        predicted = network(test_images).argmax(dim=1)
    accuracy = (predicted == test_labels).double().mean().item()
    print(f"CNN: {accuracy:.2%} of {len(test_labels)} held-out digits read correctly")
    digits.plot_losses({"CNN": losses}, args.output / "tensor_learning_curve.png")
    digits.plot_predictions(
        test_images, test_labels, predicted, args.output / "tensor_predictions.png"
    )
    print(f"wrote tensor_learning_curve.png and tensor_predictions.png into {args.output}")


if __name__ == "__main__":
    main()
