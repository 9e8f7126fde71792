"""Figures that the README, the documentation and the cards quote are those that were measured."""

import re
from pathlib import Path

import pytest

from fwnet.experiments import EXPERIMENTS, Result
from fwnet.experiments.image_study import PSNR
from fwnet.experiments.upscale_shipped import VDSR
from fwnet.zoo import list_models

PROJECT = Path(__file__).parents[2]
RESULTS = {name: Result.load(PROJECT / "results" / f"{name}.json") for name in EXPERIMENTS}
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]


def measured_figures():
    """Return all numbers about every method: figures, spreads, those of the paper, counts."""
    figures = {}
    for result in RESULTS.values():
        for row in result.rows:
            numbers = [row.mean, row.spread, row.paper, row.num_parameters]
            known = result.details.get(row.method)
            numbers += known.values() if isinstance(known, dict) else []
            numbers += [row.setting.get("test error")]
            found = figures.setdefault(row.method, set())
            found |= {number for number in numbers if isinstance(number, int | float)}
    figures["VDSR, 20 layers, as published"] = {value for pair in VDSR.values() for value in pair}
    return figures


def quoted_lines():
    """Yield page, name, and cells of every line of a table that is about a known method."""
    figures = measured_figures()
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("| "):
                name, *cells = (cell.strip(" *") for cell in line.split("|")[1:-1])
                if name in figures:
                    yield page.name, name, cells, figures[name]


def test_every_figure_in_a_table_was_measured():
    lines = list(quoted_lines())
    assert len(lines) > 100
    for page, name, cells, figures in lines:
        for text in re.findall(r"(?<![\d.,=^e])\d[\d,]*\.\d{2,}(?![\d%e])", " ".join(cells)):
            digits = len(text.partition(".")[2])
            shown = {f"{figure:,.{digits}f}" for figure in figures}
            shown |= {f"{figure:.3g}" for figure in figures} | {f"{figure:g}" for figure in figures}
            assert text in shown, f"{page}: {name} has no figure {text}"


def test_a_wrong_figure_would_be_found():
    figures = measured_figures()["Conv F-W Net (4 layers)"]
    shown = {f"{figure:.2f}" for figure in figures}
    assert {"28.73", "32.98", "32.85"} <= shown
    assert not {"28.74", "32.99"} & shown


@pytest.mark.parametrize("task", ["denoise", "upscale"])
def test_cards_have_the_measured_figures(task):
    results = RESULTS[f"{task}-shipped"], RESULTS["upscale-jpeg"]
    cards = {card.name: card for card in list_models(task)}
    for name, card in cards.items():
        figures = {}
        for row in results["jpeg" in name].select(name, PSNR):
            setting = row.setting
            place = f"BSD68 σ={setting.get('σ')}"
            if task == "upscale":
                images = setting.get("images") or f"JPEG {setting['quality']}"
                place = f"{images} ×{setting['scale']}"
            figures[f"{place} PSNR"] = f"{row.mean:.2f}"
        assert {key: f"{value:.2f}" for key, value in card.figures.items()} == figures != {}
