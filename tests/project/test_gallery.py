"""Every example has a card in docs/gallery.md, with a picture and its source."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long

ROOT = Path(__file__).resolve().parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
# Files that examples import.
HELPERS = {
    *("digits", "torch/cart_pole", "torch/common"),
    *("distributed/character_gpt_alone", "distributed/train_digits_alone"),
}
NAMES = sorted(
    path.relative_to(EXAMPLES).with_suffix("").as_posix()
    for path in EXAMPLES.rglob("*.py")
    if "__pycache__" not in path.parts
)
CARD = re.compile(
    r":::\{grid-item-card\} (?P<title>.+)\n:link: (?P<link>\S+)\n:link-type: ref\n"
    r":img-top: gallery/(?P<picture>\S+)\.png\n:img-alt: The picture of (?P<file>\S+)\.py\n\n"
    r"(?P<sentence>.+)\n:::\n"
)
SOURCE = re.compile(
    r"\((?P<label>source-\S+)\)=\n\n## (?P<title>.+)\n\n(?P<sentence>.+)\n\n"
    r"```\{literalinclude\} \.\./\.\./examples/(?P<name>\S+)\.py\n"
)


def cards():
    """Returns the cards of the gallery, by the names of their pictures."""
    text = (DOCS / "gallery.md").read_text()
    found = [match.groupdict() for match in CARD.finditer(text)]
    assert len(found) == text.count("{grid-item-card}")
    return {card["picture"]: card for card in found}


def sources():
    """Returns what stands above the sources, by the names of the examples."""
    text = "".join(path.read_text() for path in (DOCS / "gallery").glob("*.md"))
    return {match["name"]: match.groupdict() for match in SOURCE.finditer(text)}


def picture_of(name):
    """Returns the name of an example's picture."""
    return name.replace("/", "_")


def test_every_example_has_a_card_and_every_card_an_example():
    assert {picture_of(name) for name in NAMES if name not in HELPERS} == set(cards())


def test_helpers_are_there_and_shown():
    assert set(NAMES) >= HELPERS
    text = "".join(path.read_text() for path in (DOCS / "gallery").glob("*.md"))
    for name in NAMES:
        assert f"{{literalinclude}} ../../examples/{name}.py\n" in text


@pytest.mark.parametrize("name", [name for name in NAMES if name not in HELPERS])
def test_a_card_leads_to_its_source(name):
    card, source = cards()[picture_of(name)], sources()[name]
    assert card["link"] == source["label"]
    assert (card["title"], card["sentence"]) == (source["title"], source["sentence"])
    assert card["file"] == Path(name).name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in HELPERS])
def test_a_card_has_a_small_picture(name):
    image = pytest.importorskip("PIL.Image")
    path = DOCS / "gallery" / f"{picture_of(name)}.png"
    assert path.stat().st_size <= 25_000
    with image.open(path) as picture:
        assert picture.size == (320, 200)
        # More than a few colours: something is drawn on the white ground.
        assert len(picture.convert("RGB").getcolors()) > 4


def test_no_picture_is_left_over():
    assert {path.stem for path in (DOCS / "gallery").glob("*.png")} == set(cards())


def draw(folder, *names):
    """Returns what the script prints that draws the pictures."""
    script = [sys.executable, str(DOCS / "gallery_pictures.py"), "--folder", str(folder), *names]
    return subprocess.run(script, capture_output=True, text=True, check=True, cwd=folder).stdout


def test_the_script_draws_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    assert draw(tmp_path, "newton").startswith("newton.png: ")
    with image.open(tmp_path / "newton.png") as new, image.open(DOCS / "gallery/newton.png") as old:
        assert new.size == old.size


@only_long
@pytest.mark.long
def test_the_script_draws_pictures_of_all_kinds(tmp_path):
    pytest.importorskip("matplotlib")
    # Every example runs in a test of its own; drawing them all takes minutes.
    names = ["backend", "find_a_nan", "programs/gaussian_mixture", "torch/graph_convolution"]
    out = draw(tmp_path, *names)
    left_out = {"backend"} if "backend.png is left out" in out else set()
    assert {path.stem for path in tmp_path.iterdir()} == set(map(picture_of, names)) - left_out
