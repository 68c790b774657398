"""Whole programs with hooks, as strangers write them, against numbers that are found without."""

import threading

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn, random
from functensor.hooks import FnHook, Hook, capture, capture_grads, edit, remove, use, wrap

KEY = random.key(7)
WIDTHS = (4, 8, 8, 3)
JIT = pytest.mark.parametrize("jit", [lambda f: f, ft.jit], ids=["eager", "jit"])


def init(key=KEY):
    keys = random.split(key, len(WIDTHS) - 1)
    return [
        {"w": random.normal(k, (n, m)) / n**0.5, "b": np.zeros(m)}
        for k, n, m in zip(keys, WIDTHS[:-1], WIDTHS[1:], strict=True)
    ]


def network(params, x):
    for i, layer in enumerate(params):
        with ft.scope(f"layer{i}"):
            x = nn.relu(nn.linear(x, **layer))
    return x


def by_hand(params, x):
    """Returns the activations of all layers of the network, by NumPy alone."""
    found = [numpy.asarray(x)]
    for layer in params:
        w, b = numpy.asarray(layer["w"]), numpy.asarray(layer["b"])
        found.append(numpy.maximum(found[-1] @ w + b, 0))
    return found[1:]


def loss(params, x, y):
    return np.mean((network(params, x) - y) ** 2)


def examples(count=16):
    first, second = random.split(random.key(1))
    return random.normal(first, (count, WIDTHS[0])), random.uniform(second, (count, WIDTHS[-1]))


@JIT
def test_a_log_of_the_mean_and_deviation_of_every_layer(jit):
    log = []

    class Log(Hook):
        def forward(self, op, inputs, output):
            log.append((op.scope, float(np.mean(output)), float(np.std(output))))

    params, (x, _) = init(), examples()
    forward = jit(network)
    with use(Log(), "relu"):
        for step in range(3):
            forward(params, x + step)
    forward(params, x)
    wanted = [
        (f"layer{i}", h.mean(), h.std())
        for step in range(3)
        for i, h in enumerate(by_hand(params, x + step))
    ]
    assert [name for name, *_ in log] == [name for name, *_ in wanted]
    numpy.testing.assert_allclose([row[1:] for row in log], [row[1:] for row in wanted], rtol=1e-12)


@JIT
def test_training_stops_when_a_layer_saturates(jit):
    class SaturatedError(Exception):
        pass

    shares = []

    def look(op, inputs, output):
        h = ft.value(output)
        shares.append(float(np.mean(np.abs(h) > 0.9)))
        if shares[-1] > 0.5:
            raise SaturatedError(f"{shares[-1]:.0%} of {op.tag}")

    x = np.linspace(0.5, 1, 10)

    @jit
    def update(w):
        return w - 0.2 * ft.grad(lambda w: -np.sum(ft.tag(np.tanh(w * x), "hidden")))(w)

    def train():
        w = np.zeros(10)
        with use(FnHook(look), "hidden"):
            for step in range(100):
                try:
                    w = update(w)
                except SaturatedError as error:
                    return w, step, str(error)
        return w, 100, "it never did"

    w, steps, message = train()
    assert message == "60% of hidden"
    # The same descent by NumPy, up to the step that was refused.
    plain, known = numpy.zeros(10), numpy.linspace(0.5, 1, 10)
    for _ in range(steps):
        plain = plain + 0.2 * known / numpy.cosh(plain * known) ** 2
    numpy.testing.assert_allclose(w, plain, rtol=1e-10)
    wanted = (numpy.abs(numpy.tanh(plain * known)) > 0.9).mean()
    assert steps + 1 == len(shares) > 2
    assert shares[-1] == pytest.approx(wanted)
    assert max(shares[:-1]) <= 0.5 < shares[-1]
    # Nothing of the interrupted step is left over.
    numpy.testing.assert_allclose(update(w), w + 0.2 * known / numpy.cosh(plain * known) ** 2)


@JIT
def test_noise_on_gradients_is_new_in_each_step_and_known_by_its_key(jit):
    class Noise(Hook):
        def __init__(self, key):
            self.key = key

        def backward(self, op, grad_inputs, grad_output):
            self.key, key = random.split(self.key)
            (g,) = grad_inputs
            return [g + 0.01 * random.normal(key, g.shape)]

    def f(x):
        return np.sum(ft.tag(x**2, "noisy"))

    x = np.arange(5.0)
    gradient = jit(ft.grad(lambda x: f(x)))
    with use(Noise(KEY), "noisy"):
        found = [gradient(x) for _ in range(3)]
    key = KEY
    for g in found:
        key, own = random.split(key)
        numpy.testing.assert_allclose(g, (1 + 0.01 * random.normal(own, (5,))) * 2 * x, rtol=1e-12)
    numpy.testing.assert_array_equal(gradient(x), 2 * x)


def test_relu_gives_way_to_gelu_in_a_finished_function():
    hook = FnHook(lambda op, inputs, output: nn.gelu(inputs[0]))
    hook.traceable = True
    smooth = wrap(network, hook, "relu")

    def written(params, x):
        for layer in params:
            x = nn.gelu(nn.linear(x, **layer))
        return x

    def total(f):
        return lambda params, x: np.sum(f(params, x) ** 2)

    params, (x, _) = init(), examples()
    for way in (
        lambda f: f,
        ft.jit,
        lambda f: ft.grad(total(f)),
        lambda f: ft.jit(ft.grad(total(f))),
        lambda f: ft.vmap(f, (None, 0)),
        lambda f: lambda params, x: ft.jvp(lambda x: f(params, x), (x,), (x,)),
    ):
        found, wanted = ft.tree.leaves(way(smooth)(params, x)), way(written)(params, x)
        for a, b in zip(found, ft.tree.leaves(wanted), strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch", [None, 5])
@JIT
def test_a_count_of_the_operations_of_attention(jit, batch):
    length, width = 12, 6
    counted = {}

    def count(op, inputs, output):
        (n, k), m = inputs[0].shape, output.shape[-1]
        counted[op.scope] = counted.get(op.scope, 0) + 2 * n * k * m * (op.batch_size or 1)

    def attention(x, w):
        with ft.scope("projections"):
            q, k, v = x @ w[0], x @ w[1], x @ w[2]
        with ft.scope("scores"):
            scores = nn.softmax(q @ k.T / width**0.5)
        with ft.scope("mixing"):
            return scores @ v

    w = random.normal(KEY, (3, width, width))
    x = np.ones((length, width) if batch is None else (batch, length, width))
    attend = attention if batch is None else ft.vmap(attention, (0, None))
    attend = jit(attend)
    with use(FnHook(count), "matmul"):
        attend(x, w)
        counted.clear()
        attend(x, w)
    many = batch or 1
    assert counted == {
        "projections": many * 3 * 2 * length * width**2,
        "scores": many * 2 * length**2 * width,
        "mixing": many * 2 * length**2 * width,
    }


@JIT
def test_norms_of_the_gradients_of_every_layer(jit):
    params, (x, y) = init(), examples()

    @jit
    def norms(params, x, y):
        value, grads = capture_grads(loss, "relu")(params, x, y)
        return value, {name: np.sqrt(np.sum(g**2)) for name, g in grads.items()}

    value, found = norms(params, x, y)
    assert float(value) == pytest.approx(float(loss(params, x, y)))

    def shifted(shifts):
        h = x
        for layer, shift in zip(params, shifts, strict=True):
            h = nn.relu(nn.linear(h, **layer)) + shift
        return np.mean((h - y) ** 2)

    wanted = ft.grad(shifted)([np.zeros((len(x), m)) for m in WIDTHS[1:]])
    assert {name: float(n) for name, n in found.items()} == pytest.approx(
        {f"layer{i}/relu": float(np.sqrt(np.sum(g**2))) for i, g in enumerate(wanted)}
    )


@JIT
def test_a_list_gets_the_values_of_every_step_of_a_scan_and_of_a_checkpoint(jit):
    def step(state, x):
        state = ft.tag(np.cos(state + x), "state")
        return state, None

    def rolled(x):
        return ft.scan(step, np.zeros(()), x)[0]

    x = numpy.linspace(-1, 1, 5)
    wanted = [0.0]
    for part in x:
        wanted.append(float(numpy.cos(wanted[-1] + part)))
    seen = []

    def run(f, *args):
        f = jit(f)
        with use(FnHook(lambda op, inputs, out: seen.append(np.asarray(ft.value(out)))), "state"):
            f(*args)
            seen.clear()
            # The first call has shown that the hook only looks: this one runs a plan.
            f(*args)
        return numpy.array(seen)

    numpy.testing.assert_allclose(run(rolled, x), wanted[1:], rtol=1e-12)
    numpy.testing.assert_allclose(run(ft.grad(rolled), x), wanted[1:], rtol=1e-12)
    # A checkpoint runs it twice, and shows it once.
    numpy.testing.assert_allclose(run(ft.grad(ft.checkpoint(rolled)), x), wanted[1:], rtol=1e-12)


@JIT
def test_captured_states_have_the_axes_of_vmap_and_scan_in_their_order(jit):
    def step(state, x):
        state = ft.tag(np.cos(state + x), "state")
        return state, None

    def rolled(x):
        return ft.scan(step, np.zeros(()), x)[0]

    def together(xs):
        return ft.scan(ft.vmap(step), np.zeros(3), xs.T)[0]

    xs = numpy.linspace(-1, 1, 15).reshape(3, 5)
    wanted = []
    for x in xs.T:
        wanted.append(numpy.cos((wanted[-1] if wanted else 0) + x))
    for f, states in (
        (ft.vmap(rolled), numpy.transpose(wanted)),
        (together, numpy.array(wanted)),
    ):
        last, values = jit(capture(f, "state"))(xs)
        numpy.testing.assert_allclose(values["state"], states, rtol=1e-12)
        numpy.testing.assert_allclose(last, wanted[-1], rtol=1e-12)


@JIT
def test_a_list_under_vmap_gets_shapes_of_one_example_and_how_many_there_are(jit):
    seen = []

    def look(op, inputs, output):
        seen.append((op.scope, output.shape, op.batch_size))

    params, (x, _) = init(), examples(5)
    forward = jit(ft.vmap(network, (None, 0)))
    with use(FnHook(look), "relu"):
        for _ in range(2):
            out = forward(params, x)
    assert seen == 2 * [(f"layer{i}", (m,), 5) for i, m in enumerate(WIDTHS[1:])]
    numpy.testing.assert_allclose(out, by_hand(params, x)[-1], rtol=1e-12)


def test_tensors_and_backward():
    seen = {}

    class Gradients(Hook):
        def backward(self, op, grad_inputs, grad_output):
            seen[op.name] = numpy.asarray(grad_output)
            return [2 * g for g in grad_inputs] if op.name == "tanh" else None

    a, b = numpy.array([0.5, -1.0, 2.0]), numpy.array([1.0, 2.0, 3.0])
    x = ft.Tensor(a, requires_grad=True)
    w = ft.Tensor(b, requires_grad=True)
    whole = []
    identity = x.register_hook(lambda g: whole.append(numpy.asarray(g)))
    with use(Gradients(), ["tanh", "sum"]):
        (np.tanh(x * w) * w).sum().backward()
    slope = 2 * b / numpy.cosh(a * b) ** 2
    # The rule has 1 - tanh**2, which cancels.
    numpy.testing.assert_allclose(x.grad, slope * b, rtol=1e-12, atol=1e-14)
    numpy.testing.assert_allclose(w.grad, slope * a + numpy.tanh(a * b), rtol=1e-12)
    numpy.testing.assert_allclose(seen["tanh"], b)
    assert seen["sum"] == 1.0
    numpy.testing.assert_allclose(whole, [slope * b])
    assert identity.active


@JIT
def test_a_hook_removes_itself_when_it_has_seen_enough(jit):
    seen = []

    def look(op, inputs, output):
        seen.append(float(ft.value(output)))
        if len(seen) == 2:
            remove(handle.id)

    f = jit(lambda x: np.sin(x) + 1)
    handle = use(FnHook(look), "sin")
    with handle:
        outs = [float(f(float(i))) for i in range(5)]
    assert not handle.active
    numpy.testing.assert_allclose(seen, numpy.sin([0, 1]))
    numpy.testing.assert_allclose(outs, numpy.sin(numpy.arange(5)) + 1)


@JIT
def test_two_hooks_change_values_in_the_order_of_their_registration(jit):
    def double(v):
        return 2 * v

    def more(v):
        return v + 1

    x = 0.7
    for first, second in ((double, more), (more, double)):
        forward = [FnHook(lambda op, inputs, out, f=f: f(out)) for f in (first, second)]
        sine, slope = jit(lambda x: np.sin(x)), jit(ft.grad(np.sin))
        with use(forward[0], "sin"), use(forward[1], "sin"):
            for _ in range(3):
                assert float(sine(x)) == pytest.approx(second(first(numpy.sin(x))))
        backward = [FnHook(backward=lambda op, gi, g, f=f: [f(gi[0])]) for f in (first, second)]
        with use(backward[0], "sin"), use(backward[1], "sin"):
            for _ in range(3):
                assert float(slope(x)) == pytest.approx(second(first(numpy.cos(x))))


def test_threads_share_a_hook_that_asks_for_it():
    counts, lock = {}, threading.Lock()

    def count(op, inputs, output):
        name = threading.current_thread().name
        with lock:
            counts[name] = counts.get(name, 0) + 1

    params, (x, _) = init(), examples()
    forward = ft.jit(network)
    results = {}

    def work(shared):
        name = threading.current_thread().name
        if shared:
            with handle.shared():
                results[name] = forward(params, x)
        results[name] = forward(params, x)

    with use(FnHook(count), "relu") as handle:
        threads = [threading.Thread(target=work, args=(i % 2 == 0,), name=str(i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == {"0": 3, "2": 3}
    for found in results.values():
        numpy.testing.assert_allclose(found, by_hand(params, x)[-1], rtol=1e-12)
    assert len(results) == 4


@JIT
def test_an_activation_of_one_run_is_put_into_another(jit):
    params, (x, _) = init(), examples()
    clean, values = jit(capture(network, "relu", scope="layer1"))(params, x)
    assert list(values) == ["layer1/relu"]

    def patched(x, hidden):
        return edit(network, "relu", lambda h: hidden, scope="layer1")(params, x)

    other = x[::-1] * 3
    assert not numpy.allclose(network(params, other), clean)
    numpy.testing.assert_allclose(jit(patched)(other, values["layer1/relu"]), clean, rtol=1e-12)
    # What stands in place of the layer cuts its gradient off.
    gradient = jit(ft.grad(lambda x: np.sum(patched(x, values["layer1/relu"]))))(other)
    numpy.testing.assert_array_equal(gradient, numpy.zeros(x.shape))
