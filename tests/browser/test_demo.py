"""`fwnet demo`, and its page in Chromium."""

import os
import subprocess
import sys

import pytest

from tests.browser.pages import opened

SECTIONS = 8


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = subprocess.run(
        [sys.executable, "-m", "fwnet", "demo", "--output", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        # One thread: beside other tests, several would wait for each other most of the time.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return folder / "index.html", result.stdout


def test_one_small_page_that_loads_nothing_else(demo):
    path, printed = demo
    page = path.read_text(encoding="utf-8")
    assert [one.name for one in path.parent.iterdir()] == ["index.html"]
    assert path.stat().st_size < 1e6
    assert page.count("<h2>") == printed.count("•") == SECTIONS
    assert page.count('src="data:image/webp;base64,') == page.count(" src=") == 4
    assert "certified codes" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(demo, scheme):
    path, _ = demo
    with opened(path.as_uri(), color_scheme=scheme) as page:
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        ink = page.evaluate("getComputedStyle(document.querySelector('svg')).color")
        drawn = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
        assert drawn == ink
        slider = page.get_by_label("before and after").first
        shown = page.locator(".over").first
        before = shown.evaluate("image => getComputedStyle(image).clipPath")
        slider.fill("20")
        after = shown.evaluate("image => getComputedStyle(image).clipPath")
        assert ("50%" in before, "80%" in after) == (True, True)
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0  # nothing sticks out
