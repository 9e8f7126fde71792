"""`fwnet app` in Chromium: upload, move the slider, download. It runs in a process of its own."""

import importlib.util
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import imagecodecs
import numpy as np
import pytest
from typer.testing import CliRunner

from fwnet.cli import app
from tests.browser.pages import opened

START = """
import fwnet.app
from fwnet.cli import main
fwnet.app.LARGEST_FILE = "1mb"
fwnet.app.exponents.NUM_SIGNALS, fwnet.app.exponents.NUM_EPOCHS = 1000, 3
main()
"""
needs_gradio = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="needs gradio: pip install '.[app]'"
)


@contextmanager
def started(folder):
    """Start the app with a folder for its temporary files; yield the process; stop it."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, "app", "--no-browser"],
        env={**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "Stopped. Temporary files are removed.\n")
    assert list(folder.glob("fwnet-app-*")) == []


@pytest.fixture
def noisy(tmp_path):
    rows, columns = np.mgrid[:200, :240]
    clean = 0.5 + 0.3 * np.sin(rows / 9)[..., None] * np.cos(columns / 7)[..., None] * [1, 0.7, 0.4]
    values = clean + np.random.default_rng(0).normal(0, 0.1, clean.shape)
    path = tmp_path / "noisy.png"
    path.write_bytes(imagecodecs.png_encode((65535 * values.clip(0, 1)).astype(np.uint16)))
    return path


@needs_gradio
@pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
def test_clean_a_photo_explore_and_learn(noisy, tmp_path):
    asked, folder = [], tmp_path / "temporary"
    folder.mkdir()
    with started(folder) as process:
        address = process.stdout.readline().split()[1]
        assert address.startswith("http://127.0.0.1:")
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
            page.get_by_label("range slider for p, as 1 − 1/p").press("End")
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
        assert len(list(folder.glob("fwnet-app-*/*"))) > 2  # uploads and results, until it ends
    result = imagecodecs.png_decode((tmp_path / "clean.png").read_bytes())
    assert (result.dtype, result.shape) == (np.uint16, (200, 240, 3))
    assert {one for one in asked if not one.startswith((address, "data:", "blob:"))} == set()


@needs_gradio
def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "fwnet", "app", "--no-browser", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 2
    assert result.stderr == f"Error: port must be a free one at 127.0.0.1, got {port}\n"


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    result = CliRunner().invoke(app, ["app", "--no-browser"])
    assert result.exit_code == 2
    assert "the app needs gradio: pip install '.[app]'" in result.stderr
