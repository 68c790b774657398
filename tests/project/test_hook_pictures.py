"""The pictures of docs/hooks.md and docs/drawing.md are what their script draws."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long

DOCS = Path(__file__).resolve().parents[2] / "docs"


def output(*arguments, folder=None):
    """Returns what the script prints."""
    script = [sys.executable, str(DOCS / "hook_pictures.py"), *arguments]
    return subprocess.run(script, capture_output=True, text=True, check=True, cwd=folder).stdout


@only_long
@pytest.mark.long
def test_the_script_draws_all_pictures_of_the_pages(tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    out = output(str(tmp_path))
    assert out.startswith("<TimerHook: 24 operations, ")
    pages = {path.name: "hooks.md" for path in DOCS.glob("hook_*.png")}
    if "profile.png is left out" not in out:
        pages["profile.png"] = "drawing.md"
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == sorted(pages)
    for name in drawn:
        assert f"]({name})" in (DOCS / pages[name]).read_text()
        with image.open(tmp_path / name) as new, image.open(DOCS / name) as old:
            assert new.size == old.size
            # More than a few colours: something is drawn on the white ground.
            assert len(new.convert("RGB").getcolors()) > 8


def test_the_script_says_how_it_is_called(tmp_path):
    pytest.importorskip("matplotlib")
    assert "usage: hook_pictures.py [-h] [folder]" in output("--help", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
