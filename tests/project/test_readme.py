"""The documents show what happens: the README's example, its commands, docs/errors.md."""

import contextlib
import io
import linecache
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import registry_cases

import functensor as ft
from functensor.primitives.core.registry import registry

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r'^<a id="error-(\d+)"></a>\n(.*?)(?=^<a id=|\Z)', re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    """Returns the contents of a document's fenced blocks of one language."""
    return [body for lang, body in BLOCK.findall(text) if lang == language]


def execute(source: str, name: str) -> str:
    """Runs a block as a script of its own and returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, own_primitives_removed():
        exec(compile(source, name, "exec"), {"__name__": name})
    return out.getvalue()


@contextlib.contextmanager
def own_primitives_removed() -> Iterator[None]:
    """Takes the primitives that a block declares out of the registry again."""
    before = {primitive.name for primitive in registry}
    try:
        yield
    finally:
        for name in {primitive.name for primitive in registry} - before:
            registry.remove(name)


README = (ROOT / "README.md").read_text()
SECTIONS = {
    int(number): text
    for number, text in SECTION.findall((ROOT / "docs" / "errors.md").read_text())
}
ERRORS = {number: blocks(text, "python") for number, text in SECTIONS.items()}


def test_readme_example_prints_what_it_says():
    shown = list(zip(blocks(README, "python"), blocks(README, "text"), strict=True))
    assert len(shown) == 2
    for source, printed in shown:
        assert execute(source, "readme") == printed
        assert len([line for line in source.splitlines() if line.strip()]) <= 10


def test_readme_leads_to_files_that_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_readme_picture_is_what_its_script_draws(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    script = [sys.executable, str(ROOT / "docs" / "readme_picture.py"), str(tmp_path)]
    out = subprocess.run([*script, "--steps", "30"], capture_output=True, text=True, check=True)
    assert out.stdout.endswith("% after 30 steps\n")
    head = [(folder / "digits.png").read_bytes()[16:24] for folder in (tmp_path, ROOT / "docs")]
    # The width and the height.
    assert head[0] == head[1]


@pytest.mark.parametrize("mark", ["example", "test"])
def test_readme_commands_can_be_found_by_ci(mark):
    (command,) = re.findall(rf"^<!-- ci:{mark} -->\n```sh\n(.*?)^```$", README, re.M | re.S)
    assert "python3 -m venv" in command
    for script in re.findall(r"\S+\.py", command):
        assert (ROOT / script).is_file()


def test_every_error_of_this_version_has_its_section():
    assert set(ERRORS) >= {*range(1, 25)}


# Section 14 needs a GPU, and section 17 a machine without one; what they say depends on it.
MACHINES = (14, 17)
NUMBERS = [pytest.param(n, marks=pytest.mark.gpu) if n == 14 else n for n in ERRORS]


@pytest.mark.parametrize("number", NUMBERS)
def test_wrong_code_of_errors_page_fails_and_right_code_runs(number, tmp_path, monkeypatch):
    wrong, right = ERRORS[number]
    # Messages show the user's code.
    (tmp_path / "script.py").write_text(wrong)
    monkeypatch.chdir(tmp_path)
    linecache.clearcache()
    if number == 17 and "cuda:0" in ft.devices():
        pytest.skip("this machine has a GPU")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text says which
        execute(wrong, "script.py")
    said = f"{type(caught.value).__name__}: {caught.value}\n"
    assert re.search(rf"python -m functensor\.errors {number}\b", said), said
    if number not in MACHINES:
        # Tensors are counted by the process, and it may have other threads.
        said = said.replace(" (unless another thread drew them)", "")
        assert blocks(SECTIONS[number], "text") == [re.sub(r"tensor \d+", "tensor 1", said)]
    execute(right, f"right_{number}")


def test_blocks_are_found_by_language():
    text = "a\n```python\nprint(1)\n```\nb\n```text\n1\n```\n"
    assert blocks(text, "python") == ["print(1)\n"]
    assert execute(*blocks(text, "python"), "planted") == "".join(blocks(text, "text"))


def test_contributing_declares_a_primitive_that_passes_its_tests():
    source, _ = blocks((ROOT / "CONTRIBUTING.md").read_text(), "python")
    with own_primitives_removed():
        exec(compile(source, "contributing", "exec"), {"__name__": "contributing"})
        primitive = registry["gudermannian"]
        registry_cases.check_reference(primitive)
        for check in registry_cases.SAMPLE_CHECKS.values():
            registry_cases.run_check(check, primitive)


def test_contributing_shows_the_backend_of_the_example():
    _, source = blocks((ROOT / "CONTRIBUTING.md").read_text(), "python")
    assert source in (ROOT / "examples" / "backend.py").read_text()
