"""The pictures of docs/hooks.md are what their script draws."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_script_draws_all_pictures_of_the_page(tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    script = [sys.executable, str(DOCS / "hook_pictures.py"), str(tmp_path)]
    out = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert out.startswith("<TimerHook: 24 operations, ")
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == sorted(path.name for path in DOCS.glob("hook_*.png"))
    for name in drawn:
        assert f"]({name})" in (DOCS / "hooks.md").read_text()
        with image.open(tmp_path / name) as new, image.open(DOCS / name) as old:
            assert new.size == old.size
            # More than a few colours: something is drawn on the white ground.
            assert len(new.convert("RGB").getcolors()) > 8
