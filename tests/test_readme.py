"""Every Python block of the README runs as written, in order, in one namespace."""

import json
import re
from pathlib import Path

import fwnet

README = Path(__file__).parents[1] / "README.md"
VERDICTS = "Held", "Did not hold", "Indistinguishable"


def test_the_python_blocks_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 5
    names = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"README.md, Python block {number}", "exec"), names)
    assert names["clean"].shape == (128, 128)
    assert names["large"].shape == (384, 384)
    assert set(names["solution"].status) == {"certified"}
    assert names["codes"].shape == (1000, 100)
    assert names["model"].components_.shape == (64, 50)
    assert names["net"].p < 1.8  # it started from 2; the codes were made with 1.3
    assert fwnet.load_model("mine.safetensors").p == names["net"].p


def test_it_is_short_and_every_link_leads_somewhere():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert "://" in target or (README.parent / target).exists(), target


def bench(name, group, row):
    """Return milliseconds and ratio of one line of a benchmark."""
    rows = json.loads((README.parent / "results" / f"bench-{name}.json").read_text())["rows"]
    (found,) = [one for one in rows if (one["group"], one["name"]) == (group, row)]
    return found["milliseconds"], found["ratio"]


def test_its_figures_are_those_of_the_results():
    text = README.read_text(encoding="utf-8")
    page = (README.parent / "docs" / "results.md").read_text(encoding="utf-8")
    counts = [len(re.findall(rf"^\* {verdict}: ", page, re.M)) for verdict in VERDICTS]
    held, failed, level = counts
    assert f"{sum(counts)} of the paper's and of our own" in text
    assert f"{held} held, {failed} did not hold, {level} cannot be decided" in text
    group = "p = 1.3, n = 50, m = 100, radius 2.5"
    milliseconds, ratio = bench("codes-amd-epyc-x2", group, "solve, float64, tol 2e-11")
    assert f"{1000 * milliseconds:.0f} µs" in text
    assert f"{1 / ratio:.0f} times as fast as CVXPY" in text
    assert "| learned p, shared W, T = 4 | 1.321 ± 0.00429 |" in page
    assert "1.32 ± 0.004" in text
    assert "| conv_fwnet_t20.denoise_color | 34.016 | 31.369 |" in page
    assert "31.37 dB" in text
    assert "| conv_fwnet_t10.denoise_color_fast | 33.669 | 31.011 |" in page
    assert "31.01 dB" in text
