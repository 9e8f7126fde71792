"""`fwnet app` in Chromium: upload, move the slider, download."""

import os
import sys
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from typer.testing import CliRunner

from fwnet.cli import app
from tests.browser.pages import opened


@pytest.fixture
def address(monkeypatch):
    pytest.importorskip("gradio", reason="needs gradio: pip install '.[app]'")
    pytest.importorskip("playwright", reason="needs playwright (extra dev)")
    import fwnet.app

    monkeypatch.setattr(fwnet.app, "LARGEST_FILE", "1mb")
    monkeypatch.setattr(fwnet.app.exponents, "NUM_SIGNALS", 1000)
    monkeypatch.setattr(fwnet.app.exponents, "NUM_EPOCHS", 3)
    # `running` sets these for gradio; let them be as before afterwards.
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "")
    with fwnet.app.running() as at:
        folder = Path(os.environ["GRADIO_TEMP_DIR"])
        assert at.startswith("http://127.0.0.1:")
        yield at
        assert folder.exists()
    assert not folder.exists()  # uploads and results are gone


@pytest.fixture
def noisy(tmp_path):
    rows, columns = np.mgrid[:200, :240]
    clean = 0.5 + 0.3 * np.sin(rows / 9)[..., None] * np.cos(columns / 7)[..., None] * [1, 0.7, 0.4]
    values = clean + np.random.default_rng(0).normal(0, 0.1, clean.shape)
    path = tmp_path / "noisy.png"
    path.write_bytes(imagecodecs.png_encode((65535 * values.clip(0, 1)).astype(np.uint16)))
    return path


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_clean_a_photo_explore_and_learn(address, noisy, tmp_path):
    asked = []
    with opened(address, listen=asked) as page:
        upload = page.locator("#photo input[type=file]")
        (tmp_path / "bad.png").write_text("not an image")
        upload.set_input_files(tmp_path / "bad.png")
        page.get_by_text("⚠ bad.png is not an image that can be read").wait_for()
        page.locator("#photo").get_by_label("Clear").click()
        page.get_by_text("Choose a photo").wait_for()
        upload.set_input_files(noisy)
        page.get_by_text("noisy.png: 240 × 200, noise level 2").wait_for()
        sources = "[...document.querySelectorAll('#views img')].map(one => one.src).join()"
        normal = page.evaluate(sources)
        page.get_by_label("range slider for Strength").press("ArrowLeft")
        page.wait_for_function(f"normal => {sources} != normal", arg=normal)

        page.get_by_role("button", name="Restore the whole photo").click()
        button = page.get_by_text("Download noisy-clean.png")
        button.wait_for()
        with page.expect_download() as download:
            button.click()
        download.value.save_as(tmp_path / "clean.png")

        page.get_by_role("tab", name="Explore p").click()
        page.get_by_text("p = 1.3333").wait_for()
        page.get_by_label("range slider for 1 − 1/p").press("End")
        page.get_by_text("p = ∞, radius").wait_for()
        assert page.locator("svg[role=img]").first.is_visible()
        page.get_by_role("tab", name="Learn p").click()
        page.get_by_role("button", name="Learn", exact=True).click()
        page.get_by_text("Epoch 3 of 3").wait_for()

        page.get_by_role("tab", name="Photo").click()
        page.locator("#photo").get_by_label("Clear").click()
        (tmp_path / "large.png").write_bytes(bytes(1_100_000))
        upload.set_input_files(tmp_path / "large.png")
        page.get_by_text("exceed the maximum allowed size").wait_for()
    result = imagecodecs.png_decode((tmp_path / "clean.png").read_bytes())
    assert (result.dtype, result.shape) == (np.uint16, (200, 240, 3))
    assert {one for one in asked if not one.startswith((address, "data:", "blob:"))} == set()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    result = CliRunner().invoke(app, ["app", "--no-browser"])
    assert result.exit_code == 2
    assert "the app needs gradio: pip install '.[app]'" in result.stderr
