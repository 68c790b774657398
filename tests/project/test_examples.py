"""Every example runs, from anywhere, and prints and draws what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long, with_slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"

# By example: how many steps, and what it prints, as a regular expression.
ACCURACY = r"\d+\.\d\d% of 360 held-out digits read correctly\n"
PRINTED = {
    "train_digits": (
        3,
        rf"MLP: {ACCURACY}CNN: {ACCURACY}wrote learning_curve.png and predictions.png into .*\n",
    ),
    "tensor_digits": (
        3,
        rf"CNN: {ACCURACY}wrote tensor_learning_curve.png and tensor_predictions.png into .*\n",
    ),
    "linear_regression": (
        200,
        (
            r"after 200 steps the loss is 0\.010\d\d\n"
            r"weights \[ 2\.  -1\.   0\.5\] offset 3\.0\n"
        ),
    ),
    "newton": (20, r"(step \d+: value .*, gradient .*\n)+minimum at \[1\. 1\. 1\. 1\.\]\n"),
    "per_example_gradients": (
        100,
        r"wrongly labelled examples: \[  7 123 250\]\nlargest gradients:         \[  7 123 250\]\n",
    ),
    "gradient_clipping_hook": (
        300,
        (
            r"without a hook          the losses are 1\.04, 6\.8e\+16, \.\.\., 0\.2\d\d\d\n"
            r"clipped in each product the losses are 1\.04, 5\.1e\+02, \.\.\., 0\.00[01]\d\n"
            r"clipped at each tensor  the losses are 1\.04, 8\.5e-01, \.\.\., 0\.0[45]\d\d\n"
        ),
    ),
    "find_a_nan": (
        100,
        (
            r"wrong: the losses are 1\.237 nan nan\n"
            r"the gradient of sqrt in scope 'layer13' by operand 0, which was computed at "
            r".*find_a_nan\.py:\d+, made infinity of the cotangent float64\[64, 64\] from .*\n"
            r"  at .*find_a_nan\.py:\d+\n"
            r"  under jit\(update .*\) of value_and_grad\(loss .*\)\n"
            r"  fix: keep operands in the domain: np\.maximum\(x, 1e-12\), or .*\n"
            r"  see python -m functensor\.errors 18\n"
            r"mended: the loss is 1\.237 at first, 0\.0\d\d after 100 steps\n"
        ),
    ),
    "activation_offloading": (
        1,
        (
            r"without a hook: 5[0-2] MiB at the peak\n"
            r"activations in files: [5-7] MiB, 1[1-4]%; gradients are the same to the last bit\n"
            r"activations in float16: (29|3[01]) MiB, 5[6-9]%; gradients are off by [1-9]e-05\n"
            r"activations in int8: 1[789] MiB, 3[3-6]%; gradients are off by [1-3]e-03\n"
        ),
    ),
    "feature_visualisation": (
        100,
        (
            rf"CNN: {ACCURACY}10 of 10 images excite their filters more than every held-out digit "
            r"does, 1\.\d times as much as the best one\n"
            r"wrote features\.png into .*\n"
        ),
    ),
    "sparse_activations": (
        200,
        (
            r"gradients without the penalty are off by [1-9]\.\de-0[12]\n"
            r"those with the hook are off by (0\.0e\+00|\d\.\de-0[78])\n"
            rf"without the hook: [56]\d\.\d% of the units are active, {ACCURACY}"
            rf"with the hook: [234]\d\.\d% of the units are active, {ACCURACY}"
        ),
    ),
    "rnn": (
        150,
        (
            r"at first the mean squared error is 0\.68\n"
            r"after 150 steps it is 0\.0[3-7]\d\d, of sums whose variance is 0\.18\n"
        ),
    ),
    "backend": (1, r"\[-0\.909.* 0\.909\d+\]\nthe Hessian is on torch\n"),
    "cuda_kernel": (
        300,
        (
            r"on (cpu|cuda:0): the mean squared error was 0\.690\n"
            r"after 300 steps it is 0\.000[12]\d\d\n"
        ),
    ),
}
# Packages that an example needs and the tests do not.
NEEDED = {"backend": "torch"}
PICTURES = {
    "train_digits": ["learning_curve.png", "predictions.png"],
    "tensor_digits": ["tensor_learning_curve.png", "tensor_predictions.png"],
    "feature_visualisation": ["features.png"],
}
HELPERS = {"digits"}


def run(name, folder, steps=None, options=()):
    """Returns what an example prints, run in a folder; its pictures go there too."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *options]
    if name in PICTURES:
        command += ["--output", str(folder / "pictures")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(folder)}
    environment.pop("FUNCTENSOR_EXAMPLE_STEPS", None)
    if steps is not None:
        environment["FUNCTENSOR_EXAMPLE_STEPS"] = str(steps)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# These train networks of some size.
SLOW = {"feature_visualisation", "gradient_clipping_hook", "sparse_activations", "tensor_digits"}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys() | HELPERS


@pytest.mark.parametrize("name", with_slow(PRINTED, SLOW))
def test_example(name, tmp_path):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    steps, pattern = PRINTED[name]
    printed = run(name, tmp_path, steps)
    assert re.fullmatch(pattern, printed), printed
    for picture in PICTURES.get(name, []):
        content = (tmp_path / "pictures" / picture).read_bytes()
        assert content.startswith(PNG)
        assert len(content) > 5000


@only_long
@pytest.mark.long
@pytest.mark.parametrize("name", PICTURES)
def test_accuracy(name, tmp_path):
    accuracies = re.findall(r"(\d+\.\d\d)% of 360", run(name, tmp_path))
    assert accuracies
    assert min(map(float, accuracies)) > 97


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["train_digits", "tensor_digits"])
def test_digits_are_learnt_as_well_on_a_gpu(name, tmp_path):
    found = {}
    for device in ("cpu", "cuda"):
        printed = run(name, tmp_path, 200, ["--device", device])
        found[device] = [float(word) for word in re.findall(r"(\S+)% of 360", printed)]
    assert len(found["cpu"]) == len(found["cuda"]) > 0
    # Sums are rounded in another order, and 200 steps carry that on: a few digits may differ.
    assert found["cuda"] == pytest.approx(found["cpu"], abs=1.0)
    assert min(found["cuda"]) > 90
