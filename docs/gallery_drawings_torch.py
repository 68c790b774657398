"""What the pictures of gallery.md show of the scripts for PyTorch, as in `gallery_drawings.py`."""

import numpy
from gallery_drawings import BLUE, GREEN, GREY, ORANGE, drawing, names_in, show_curve, show_images

import functensor.torch as torch


def grids_of_digits(figure, pictures, rows=2, columns=4):
    """Draws pictures of one channel."""
    images = numpy.asarray(pictures.detach())[: rows * columns, 0]
    show_images(figure, images, rows, columns, cmap="gray")


@drawing("torch/mnist")
def draw_mnist(example, figure):
    model, _ = example.learn(150)
    pictures, labels = example.draw_digits(numpy.random.default_rng(1), 10)
    model.eval()
    with torch.no_grad():
        read = model(pictures).argmax(dim=1).tolist()
    colours = ["black" if a == b else "red" for a, b in zip(read, labels.tolist(), strict=True)]
    images = numpy.asarray(pictures)[:, 0]
    show_images(figure, images, 2, 5, [str(digit) for digit in read], colours)


@drawing("torch/vae")
def draw_vae(example, figure):
    end = names_in(example.train, 300)
    codes = example.noise(numpy.random.default_rng(3), 8, example.CODE)
    with torch.no_grad():
        grids_of_digits(figure, end.model.decoder(codes).view(8, 1, 28, 28))


@drawing("torch/dcgan")
def draw_dcgan(example, figure):
    end = names_in(example.train, 400)
    codes = example.noise(numpy.random.default_rng(3), 8, example.CODE, 1, 1)
    with torch.no_grad():
        grids_of_digits(figure, end.generator(codes))


@drawing("torch/wgan_gp")
def draw_wgan_gp(example, figure):
    end = names_in(example.train, 60)
    show_curve(figure, [-c for c, _ in end.losses], "step", "minus the critic's loss", log=False)


@drawing("torch/siamese")
def draw_siamese(example, figure):
    end = names_in(example.train, 200)
    end.model.eval()
    rng = numpy.random.default_rng(1)
    left, right, _ = example.pairs(rng, end.pictures, end.labels.numpy())
    with torch.no_grad():
        chances = end.model(left, right).tolist()
    both = numpy.concatenate([numpy.asarray(left), numpy.asarray(right)], axis=3)[:6, 0]
    titles = [f"same: {chance:.0%}" for chance in chances]
    show_images(figure, both, 2, 3, titles)


def show_episodes(figure, lengths):
    """Draws how long the pole stood in each episode."""
    axes = show_curve(figure, lengths, "episode", "steps that the pole stood", log=False)
    axes.axhline(200, color=ORANGE, linestyle="--", linewidth=0.8)


@drawing("torch/reinforce")
def draw_reinforce(example, figure):
    show_episodes(figure, [length for _, length in example.train(150)])


@drawing("torch/actor_critic")
def draw_actor_critic(example, figure):
    show_episodes(figure, [length for _, _, length in example.train(100)])


@drawing("torch/char_rnn")
def draw_char_rnn(example, figure):
    model, losses = example.fit(200, 0)
    axes = show_curve(figure, losses, "step", "loss of a letter")
    text = example.write(model, "the ", 50)
    axes.set_title(f"it writes: {text[:26]}\n{text[26:]}", family="monospace", fontsize=6)


@drawing("torch/word_lm")
def draw_word_lm(example, figure):
    losses = example.train(300)
    show_curve(figure, numpy.exp(losses), "step", "perplexity")


@drawing("torch/time_sequence")
def draw_time_sequence(example, figure):
    model, waves, _ = example.fit(200, 0)
    axes = figure.subplots()
    with torch.no_grad():
        ahead = numpy.asarray(model(waves[:3], future=25))
    for wave, going_on, colour in zip(waves.tolist(), ahead, (BLUE, ORANGE, GREEN), strict=False):
        axes.plot(wave, color=colour)
        times = numpy.arange(len(wave), len(going_on) + 1)
        axes.plot(times, going_on[len(wave) - 1 :], ":", color=colour)
    axes.set(xlabel="time")
    axes.set_title("dotted: how the network goes on")


@drawing("torch/min_gpt")
def draw_min_gpt(example, figure):
    model, _ = example.fit(300, 0)
    digits = [3, 1, 0, 2, 1]
    x = torch.tensor([digits])
    chances = []
    with torch.no_grad():
        for _ in range(example.LENGTH):
            scores, _ = model(x)
            chances.append(numpy.asarray(torch.softmax(scores[0, -1], dim=0)))
            x = torch.cat((x, scores[:, -1:].argmax(dim=-1)), dim=1)
    axes = figure.subplots()
    axes.imshow(numpy.array(chances).T, cmap="Blues", aspect="auto", vmin=0, vmax=1)
    axes.set_xticks(range(example.LENGTH), x[0, example.LENGTH :].tolist())
    axes.set_yticks(range(example.DIGITS))
    axes.set(xlabel="what it writes", ylabel="next digit")
    axes.set_title(f"sorts {digits}")


@drawing("torch/ddpm")
def draw_ddpm(example, figure):
    model, _ = example.fit(600, 0)
    images = [example.sample(model, numpy.random.default_rng(seed)) for seed in range(8)]
    show_images(figure, images, 2, 4, cmap="gray", vmin=-1, vmax=1)


@drawing("torch/neural_ode")
def draw_neural_ode(example, figure):
    end = names_in(example.train, 200)
    axes = figure.subplots()
    fields = {
        "true": (lambda state: (state[0] ** 3 @ end.matrix,), GREY, 4),
        "learnt": (lambda state: (end.velocity(state[0]),), BLUE, 1.2),
    }
    for name, (field, colour, width) in fields.items():
        way = [torch.tensor([[1.5, 0.0], [-0.5, 0.9]])]
        with torch.no_grad():
            for _ in range(60):
                way.append(example.rk4(field, (way[-1],), example.STEP)[0])
        points = numpy.asarray(torch.stack(way))
        for point in range(2):
            label = name if point == 0 else None
            axes.plot(*points[:, point].T, color=colour, linewidth=width, alpha=0.8, label=label)
    axes.set_aspect("equal")
    axes.legend()


@drawing("torch/super_resolution")
def draw_super_resolution(example, figure):
    end = names_in(example.train, 300)
    large = example.waves(numpy.random.default_rng(9), 2)
    small = example.F.avg_pool2d(large, example.FACTOR)
    with torch.no_grad():
        enlarged = end.model(small)
    images = [numpy.asarray(x)[i, 0] for i in range(2) for x in (small, enlarged, large)]
    titles = ["small", "enlarged", "true", "", "", ""]
    show_images(figure, images, 2, 3, titles, cmap="gray", vmin=-1, vmax=1)


@drawing("torch/graph_convolution")
def draw_graph_convolution(example, figure):
    end = names_in(example.fit, 200, 0)
    with torch.no_grad():
        chances = numpy.exp(numpy.asarray(end.model(end.features, end.spread)))[:, 1]
    spread = numpy.asarray(end.spread)
    # Two of the slow modes of the graph are places at which friends are near each other.
    places = numpy.linalg.eigh(spread)[1][:, [-2, -3]]
    axes = figure.subplots()
    for a, b in numpy.argwhere(numpy.triu(spread, 1) > 0):
        axes.plot(*places[[a, b]].T, color=GREY, linewidth=0.4, alpha=0.6)
    axes.scatter(*places.T, s=18, c=chances, cmap="coolwarm", vmin=0, vmax=1, zorder=2)
    axes.plot(*places[:2].T, "o", markersize=9, markerfacecolor="none", markeredgecolor="black")
    axes.set_axis_off()
    axes.set_title("two people are known (circles)")
