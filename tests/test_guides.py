"""The Python blocks of guides run as written, in order, in one namespace."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_other_tools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "other_tools.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, "docs/other_tools.md", "exec"), names)
    assert names["clean"].shape == names["image"].shape
    assert names["clean"].dtype == names["image"].dtype
    assert names["large"].shape == (128, 128)


def test_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "sets.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, "docs/sets.md", "exec"), names)
    assert names["design"].converged.all()


def test_figures_of_plug_and_play_are_those_of_the_record():
    import json

    record = json.loads((DOCS.parent / "results" / "plug-and-play.json").read_text())
    text = (DOCS / "other_tools.md").read_text(encoding="utf-8")
    for row in record["rows"]:
        assert re.search(rf"\| \**{row['psnr']:.2f}\** \|", text), row
