"""What the pictures of gallery.md show: a function for each example, which runs it and draws.

`gallery_pictures.py` calls them, and `gallery_drawings_torch.py` has those of scripts for PyTorch.
Each gets the example as a module and an empty figure. Most look at the names that a function of the
example has when it returns.
"""

import ast
import inspect
import re
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace

import numpy
from matplotlib.patches import Ellipse

import functensor as ft
import functensor.numpy as np

__all__ = [
    *("BLUE", "DRAWINGS", "GREEN", "GREY", "ORANGE"),
    *("drawing", "names_in", "show_curve", "show_images"),
]

DRAWINGS = {}
BLUE, ORANGE, GREEN, RED, GREY = "tab:blue", "tab:orange", "tab:green", "tab:red", "tab:grey"


def drawing(name):
    """Enters a function into the table, by the name of the example that it draws."""

    def enter(function):
        DRAWINGS[name] = function
        return function

    return enter


def names_in(function, *args, **kwargs):
    """Runs a function quietly, and returns the names that it has when it returns."""
    lines, first = inspect.getsourcelines(function)
    tree = ast.increment_lineno(ast.parse("".join(lines)), first - 1)
    definition = tree.body[0]
    # The same function, but for a last statement: a debugger's hook would slow down all calls.
    last = ast.parse("_names.update(locals())").body
    definition.body = [ast.Try(body=definition.body, handlers=[], orelse=[], finalbody=last)]
    code = compile(ast.fix_missing_locations(tree), inspect.getsourcefile(function), "exec")
    found = {"_names": {}}
    exec(code, scope := {**function.__globals__, **found})
    with redirect_stdout(StringIO()):
        scope[function.__name__](*args, **kwargs)
    return SimpleNamespace(**found["_names"])


def printed(function):
    """Runs a function, and returns what it prints."""
    text = StringIO()
    with redirect_stdout(text):
        function()
    return text.getvalue()


def with_options(function, *words):
    """Runs an example that reads the command line and writes pictures of its own."""
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [sys.argv[0], *words, "--output", folder]
        return names_in(function)


def show_images(figure, images, rows, columns, titles=None, colours=None, **options):
    """Draws images side by side."""
    grid = figure.subplots(rows, columns, squeeze=False).flat
    options = {"cmap": "gray_r", "interpolation": "nearest", **options}
    for number, (axes, image) in enumerate(zip(grid, images, strict=False)):
        axes.imshow(numpy.asarray(image), **options)
        axes.set_axis_off()
        if titles is not None:
            axes.set_title(titles[number], color=colours[number] if colours else "black", pad=2)


def show_curve(figure, values, xlabel, ylabel, log=True):
    """Draws a curve of losses, and its running mean."""
    axes = figure.subplots()
    values = numpy.asarray(values)
    axes.plot(values, color=BLUE, alpha=0.35, linewidth=0.8)
    width = max(1, len(values) // 15)
    mean = numpy.convolve(values, numpy.ones(width) / width, "valid")
    axes.plot(numpy.arange(len(mean)) + width - 1, mean, color=BLUE)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if log:
        axes.set_yscale("log")
    return axes


def learnt(example, epochs):
    """Runs the function ``learn`` of an example of digits, and returns its names."""
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [sys.argv[0], "--epochs", str(epochs), "--output", folder]
        return names_in(example.learn, example.digits.options(""))


@drawing("train_digits")
def draw_train_digits(example, figure):
    end = learnt(example, 4)
    read, labels = numpy.asarray(end.predicted), numpy.asarray(end.test_labels)
    # Mistakes first, then the others.
    order = numpy.argsort(read == labels, kind="stable")[:24]
    colours = ["black" if read[i] == labels[i] else "red" for i in order]
    images = [end.test_images[int(i), 0] for i in order]
    show_images(figure, images, 3, 8, [str(read[i]) for i in order], colours)


@drawing("tensor_digits")
def draw_tensor_digits(example, figure):
    end = learnt(example, 4)
    show_curve(figure, end.losses, "steps of backward() and step()", "cross entropy")


@drawing("linear_regression")
def draw_linear_regression(example, figure):
    end = names_in(example.main)
    axes = figure.subplots()
    fitted = end.x @ end.params["weights"] + end.params["offset"]
    axes.plot(numpy.asarray(end.y), numpy.asarray(fitted), ".", color=BLUE, markersize=2)
    axes.axline((3, 3), slope=1, color=ORANGE)
    axes.set(xlabel="measured", ylabel="fitted")


@drawing("newton")
def draw_newton(example, figure):
    norms = [float(g) for g in re.findall(r"gradient (\S+)", printed(example.main))]
    axes = figure.subplots()
    axes.semilogy(norms, "o-", color=BLUE, markersize=3, label="Newton")
    x, slope = np.array([1.5, 1.8, 3.2, 9.8]), ft.jit(ft.grad(example.rosenbrock))
    descent = []
    for _ in norms:
        g = slope(x)
        descent.append(float(np.linalg.norm(g)))
        x = x - 2e-5 * g
    axes.semilogy(descent, "o-", color=GREY, markersize=3, label="gradient descent")
    axes.set(xlabel="step", ylabel="norm of the gradient")
    axes.legend()


@drawing("per_example_gradients")
def draw_per_example_gradients(example, figure):
    end = names_in(example.main)
    axes = figure.subplots()
    points, norms = numpy.asarray(end.points), numpy.asarray(end.norms)
    colours = numpy.where(numpy.asarray(end.labels) > 0, BLUE, ORANGE)
    axes.scatter(*points.T, s=3 + 60 * norms / norms.max(), c=colours, linewidths=0)
    wrong = points[numpy.asarray(end.wrong)]
    axes.plot(*wrong.T, "o", markersize=14, markerfacecolor="none", markeredgecolor=RED)
    axes.set_title("area: norm of the gradient; red: wrong labels")


@drawing("rnn")
def draw_rnn(example, figure):
    end = names_in(example.main)
    axes = figure.subplots()
    sums = numpy.asarray(end.sums)
    said = numpy.asarray(example.predict(end.params, end.sequences))
    axes.plot(sums, said, ".", color=BLUE)
    axes.axline((1, 1), slope=1, color=ORANGE)
    axes.set(xlabel="sum of the marked numbers", ylabel="what the network says")


@drawing("cuda_kernel")
def draw_cuda_kernel(example, figure):
    end = names_in(example.main)
    axes = figure.subplots()
    xs, ys = ft.to_device((end.xs, end.ys), "cpu")
    said = ft.to_device(ft.vmap(example.predict, in_axes=(None, 0))(end.params, end.xs), "cpu")
    axes.plot(numpy.asarray(xs), numpy.asarray(ys), color=GREY, linewidth=4, alpha=0.4)
    axes.plot(numpy.asarray(xs), numpy.asarray(said), color=BLUE)
    axes.set_title("a sum of snakes, x + sin(ax)² / a")


@drawing("backend")
def draw_backend(example, figure):
    x = ft.to_device(numpy.linspace(-3, 3, 200), "torch")
    axes = figure.subplots()
    for order, colour in enumerate((BLUE, ORANGE, GREEN)):
        f = np.tanh
        for _ in range(order):
            f = ft.grad(f)
        values = ft.vmap(f)(x)
        there, here = numpy.asarray(ft.to_device(values, "cpu")), numpy.linspace(-3, 3, 200)
        axes.plot(here, there, color=colour, label=f"derivative {order} of tanh")
    axes.set_title(f"computed on the device {values.device!r}")
    axes.legend()


@drawing("find_a_nan")
def draw_find_a_nan(example, figure):
    end = names_in(example.main)
    gradient = ft.grad(example.loss)
    params = example.init(end.params_key)
    found = gradient(params, end.points, end.inside, example.distances)
    mended = gradient(params, end.points, end.inside, example.mended_distances)
    axes = figure.subplots()
    places = numpy.arange(example.LAYERS)
    sizes = [float(np.linalg.norm(layer["w"])) for layer in mended["layers"]]
    bad = [not numpy.isfinite(float(np.sum(layer["w"]))) for layer in found["layers"]]
    axes.bar(places, sizes, color=[RED if is_bad else BLUE for is_bad in bad])
    axes.set(xlabel="layer", ylabel="norm of the gradient", xticks=places[::2])
    axes.set_title("red: layers whose gradient was NaN", color=RED)


@drawing("gradient_clipping_hook")
def draw_gradient_clipping_hook(example, figure):
    axes = figure.subplots()
    params = example.init(example.random.key(0))
    clipped = ft.hooks.clip_gradients(example.loss, "matmul", max_norm=1.0)
    axes.semilogy(example.train(example.loss, params, 300), color=RED, label="without a hook")
    axes.semilogy(example.train(clipped, params, 300), color=BLUE, label="clipped by a hook")
    axes.set(xlabel="step", ylabel="loss", ylim=(1e-5, 1e4))
    axes.legend()


@drawing("activation_offloading")
def draw_activation_offloading(example, figure):
    rows = re.findall(r"^(.*?): (\d+) MiB", printed(example.main), re.MULTILINE)
    axes = figure.subplots()
    names = [name.removeprefix("activations ") for name, _ in rows]
    bars = axes.barh(names, [int(size) for _, size in rows], color=[GREY, BLUE, BLUE, BLUE])
    axes.bar_label(bars, padding=2)
    axes.invert_yaxis()
    axes.set_xlabel("MiB at the peak of a gradient")


@drawing("feature_visualisation")
def draw_feature_visualisation(example, figure):
    end = with_options(example.main, "--epochs", "8")
    images = [*end.found[:8, 0], *end.test_images[end.best[:8], 0]]
    show_images(figure, images, 2, 8)
    figure.suptitle("what excites eight filters most, and digits that do", fontsize=7)


@drawing("sparse_activations")
def draw_sparse_activations(example, figure):
    end = with_options(example.main, "--epochs", "5")
    axes = figure.subplots()
    for (name, params), colour in zip(end.trained.items(), (GREY, BLUE), strict=True):
        _, values = ft.hooks.capture(example.mlp, "relu")(params, end.test_images)
        joined = numpy.concatenate([numpy.asarray(h) for h in values.values()], axis=1)
        share = (joined > 0).mean(axis=1)
        axes.hist(100 * share, 24, color=colour, alpha=0.7, label=name)
    axes.set(xlabel="per cent of the units that are active", ylabel="held-out digits")
    axes.legend()


@drawing("programs/gaussian_process")
def draw_gaussian_process(example, figure):
    end = names_in(example.run, 100)
    axes = figure.subplots()
    at = numpy.linspace(-4, 4, 200)
    mean, deviation = map(numpy.asarray, example.predict(end.fitted.x, end.x, end.y, at))
    axes.fill_between(at, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.2)
    axes.plot(at, mean, color=BLUE)
    axes.plot(end.x, end.y, ".", color=ORANGE, markersize=3)
    axes.set_title("mean and two deviations, with fitted scales")


@drawing("programs/gaussian_mixture")
def draw_gaussian_mixture(example, figure):
    end = names_in(example.run, 200)
    axes = figure.subplots()
    axes.plot(*end.points.T, ".", color=GREY, markersize=2)
    _, means, roots = map(numpy.asarray, example.unpack(end.fitted.x))
    for mean, root in zip(means, roots, strict=True):
        draw_ellipse(axes, mean, numpy.linalg.inv(root.T @ root))
    axes.set_aspect("equal")


def draw_ellipse(axes, mean, covariance, colour=ORANGE):
    """Draws the line of two deviations of a Gaussian."""
    squares, vectors = numpy.linalg.eigh(covariance)
    width, height = 4 * numpy.sqrt(squares)
    angle = numpy.degrees(numpy.arctan2(vectors[1, 0], vectors[0, 0]))
    axes.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, color=colour))


@drawing("programs/logistic_regression")
def draw_logistic_regression(example, figure):
    end = names_in(example.run, 8)
    axes = figure.subplots()
    chances = 1 / (1 + numpy.exp(-end.inputs @ end.weights))
    for label, colour in ((0, ORANGE), (1, BLUE)):
        mine = chances[end.labels == label]
        axes.hist(mine, 20, (0, 1), color=colour, alpha=0.6, label=f"label {label}")
    axes.set(xlabel="fitted probability of label 1", ylabel="examples")
    axes.legend()


@drawing("programs/character_lstm")
def draw_character_lstm(example, figure):
    end = names_in(example.run, 150)
    chances = numpy.exp(numpy.asarray(example.log_probabilities(end.params, end.inputs)))[:, 0]
    axes = figure.subplots()
    axes.imshow(chances.T, cmap="Blues", aspect="auto")
    letters = [example.LETTERS[i] for i in end.targets[:, 0].argmax(axis=1)]
    axes.set_xticks(range(len(letters)), letters)
    axes.set_yticks(range(len(example.LETTERS)), example.LETTERS, fontsize=4)
    axes.set_title("probability of each next letter")


@drawing("distributed/train_digits")
def draw_distributed_digits(example, figure):
    _, losses, _ = example.fit(300)
    show_curve(figure, losses, "step", "mean loss of all processes")


@drawing("distributed/character_gpt")
def draw_distributed_gpt(example, figure):
    params, losses = example.fit(200)
    text = example.TEXT[: example.WINDOW]
    letters = np.array([[example.LETTERS.index(letter) for letter in text]])
    chances = numpy.asarray(example.nn.softmax(example.network(params, letters)[0]))
    left, right = figure.subplots(1, 2)
    left.plot(losses, color=BLUE)
    left.set(xlabel="step", ylabel="loss")
    right.imshow(chances.T, cmap="Blues", aspect="auto")
    right.set(xlabel="place", ylabel="next letter")


@drawing("programs/variational_inference")
def draw_variational_inference(example, figure):
    end = names_in(example.run, 400)
    axes = figure.subplots()
    x, y = numpy.meshgrid(numpy.linspace(-3, 5, 120), numpy.linspace(-2, 1.8, 100))
    points = numpy.stack([x.ravel(), y.ravel()], axis=1)
    density = numpy.exp(numpy.asarray(example.log_density(points))).reshape(x.shape)
    axes.contourf(x, y, density, 12, cmap="Blues")
    draw_ellipse(axes, end.params[:2], numpy.diag(numpy.exp(2 * numpy.asarray(end.params[2:]))))
    axes.set(xlabel="x", ylabel="log deviation")


@drawing("programs/fluid_simulation")
def draw_fluid_simulation(example, figure):
    end = names_in(example.run, 25)
    images = [end.smoke, example.simulate(end.found.x, end.smoke), end.target]
    show_images(figure, images, 1, 3, ["smoke", "six steps later", "wanted"], vmin=0, vmax=1)


@drawing("programs/bayesian_network_hmc")
def draw_bayesian_network_hmc(example, figure):
    end = names_in(example.run, 300)
    axes = figure.subplots()
    for prediction in end.predictions[::3]:
        axes.plot(end.inputs, numpy.asarray(prediction), color=BLUE, alpha=0.08, linewidth=1)
    axes.plot(end.inputs, end.targets, ".", color=ORANGE, markersize=4)
    axes.set_title("50 networks of the posterior")


@drawing("programs/kalman_filter")
def draw_kalman_filter(example, figure):
    end = names_in(example.run, 20)
    seen = numpy.array(end.observations)
    motions, blurs = numpy.linspace(-2.5, 2.0, 16), numpy.linspace(-6.0, -3.0, 16)
    grid = numpy.stack(numpy.meshgrid(motions, blurs), axis=-1).reshape(-1, 2)
    values = ft.vmap(lambda logs: example.negative_log_likelihood(logs, seen))(grid)
    axes = figure.subplots()
    axes.contour(motions, blurs, numpy.asarray(values).reshape(16, 16), 20, cmap="Blues_r")
    axes.plot(*end.fitted.x, "*", color=ORANGE, markersize=9, label="found")
    axes.plot(numpy.log(0.5), 2 * numpy.log(0.1), "o", color=GREEN, markersize=4, label="true")
    axes.set(xlabel="log of the motion's noise", ylabel="log of the blur")
    axes.legend()


@drawing("programs/drum")
def draw_drum(example, figure):
    end = names_in(example.run, 60)
    left, right = figure.subplots(1, 2)
    left.imshow(numpy.exp(end.found.x).reshape(example.SIZE, -1), cmap="Blues")
    left.set_title("weight of the skin")
    left.set_axis_off()
    before = numpy.asarray(example.frequencies(end.start, end.tension))
    heard = (before[1:] / before[0], end.heard[1:] / end.heard[0])
    for place, overtones in enumerate(heard):
        right.plot([place] * 3, overtones, "_", color=BLUE, markersize=18, markeredgewidth=2)
    for harmony in example.HARMONIES:
        right.axhline(harmony, color=ORANGE, linewidth=0.8, linestyle="--")
    right.set_xticks([0, 1], ["before", "after"])
    right.set(xlim=(-0.5, 1.5))
    right.set_title("overtones, and harmonies")


@drawing("programs/wave_inverse_design")
def draw_wave_inverse_design(example, figure):
    end = names_in(example.run, 30)
    images = []
    for design in (end.start, end.found.x):
        electric = example.field(design, *end.arguments[:2])
        images.append(numpy.abs(numpy.asarray(electric)).reshape(example.SIZE, -1))
    titles = ["the field before", "with the lens that was found"]
    show_images(figure, images, 1, 2, titles, cmap="magma", vmin=0, vmax=images[1].max())


@drawing("programs/ode_fit")
def draw_ode_fit(example, figure):
    end = names_in(example.run, 40)
    axes = figure.subplots()
    times = numpy.linspace(0, 10, 200)
    curves = numpy.asarray(example.solution(end.fitted.x, times))
    for number, (name, colour) in enumerate((("prey", BLUE), ("predators", ORANGE))):
        axes.plot(times, curves[:, number], color=colour, label=name)
        axes.plot(end.times, end.counts[:, number], ".", color=colour, markersize=4)
    axes.set_xlabel("time")
    axes.legend()


@drawing("programs/springs")
def draw_springs(example, figure):
    end = names_in(example.run, 6)
    axes = figure.subplots()
    masses = numpy.arange(len(end.places))
    axes.plot(masses, numpy.diff(numpy.asarray(end.places), prepend=0.0), color=BLUE)
    axes.set(xlabel="spring", ylabel="stretched by")
    axes.set_title(f"10,000 springs at rest; {len(end.pattern)} places in the Hessian")
