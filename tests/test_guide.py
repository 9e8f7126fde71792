"""The Python blocks of every page of the guide run as written, in order."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


TESTED_ELSEWHERE = {"export"}  # tests/test_export.py
PAGES = {
    page.stem: page
    for page in sorted(DOCS.glob("*.md"))
    if blocks(page) and page.stem not in TESTED_ELSEWHERE
}


@pytest.mark.filterwarnings("ignore::fwnet.coding.UnidentifiedWarning")
@pytest.mark.parametrize("name", PAGES)
def test_the_python_blocks_run_in_order(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks(PAGES[name]), start=1):
        try:
            exec(compile(block, f"docs/{name}.md, Python block {number}", "exec"), names)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("fwnet"):
                raise
            pytest.skip(f"{error.name} is not installed")


def test_the_guide_is_among_them():
    guide = {"start", "codes", "choosing", "networks", "dictionaries", "imaging", "training"}
    assert guide <= set(PAGES)


def test_every_page_is_in_the_table_of_contents():
    contents = (DOCS / "contents.txt").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        listed = re.search(rf"^{page.stem}$|<{page.stem}>$", contents, re.M)
        assert listed or page.stem == "index", page.name


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_link_leads_to_a_file(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_figures_of_plug_and_play_are_those_of_the_record():
    record = json.loads((DOCS.parent / "results" / "plug-and-play.json").read_text())
    text = (DOCS / "other_tools.md").read_text(encoding="utf-8")
    for row in record["rows"]:
        assert re.search(rf"\| \**{row['psnr']:.2f}\** \|", text), row
