"""What the README and the cards of networks quote is what was measured, digit by digit."""

from collections import Counter
from pathlib import Path

import pytest

from fwnet.experiments import Result
from fwnet.experiments.image_figures import PSNR, psnr_row
from fwnet.experiments.super_resolution_networks import DEEP
from fwnet.experiments.upscale_shipped import DEEP_EPOCHS, HELD_BACK, VDSR
from fwnet.restoration import Upscaling
from fwnet.zoo import list_models

PROJECT = Path(__file__).parents[2]
LEVELS, SCALES, SETS = (15, 25, 50), (2, 3, 4), ("Set5", "Set14")


def measured(name):
    return Result.load(PROJECT / "results" / f"{name}.json")


def section(title):
    """The part of the README below a heading."""
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (text,) = [part for part in readme.split("\n## ") if part.startswith(f"{title}\n")]
    return text


def table(title):
    """The cells of a section's tables, without emphasis, by names that begin one line alone."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines]
    counts = Counter(name for name, *_ in rows)
    return {name: cells for name, *cells in rows if counts[name] == 1}


def two_digits(*rows, spread=False):
    """PSNR as it is quoted."""
    words = []
    for row in rows:
        beside = f" ± {row.spread:.2f}" if spread and row.spread is not None else ""
        words.append(f"{row.ours:.2f}{beside}")
    return " / ".join(words)


@pytest.mark.parametrize(
    ("experiment", "method", "line"),
    [
        ("synthetic-l1", "F-W Net", "real p = 1: F-W Net"),
        ("synthetic-l1", "LISTA", "LISTA"),
        ("synthetic-error", "F-W Net", "real p = 1.3: F-W Net"),
        ("synthetic-error", "Original F-W", "Original F-W, T steps"),
        ("synthetic-error", "MLP, linear last layer", "MLP, linear last layer"),
        ("synthetic-error", "CVX", "CVXPY, told p and D"),
    ],
)
def test_codes(experiment, method, line):
    result = measured(experiment)
    *cells, _ = table("What the paper's simulations say, measured again")[line]
    for depth, cell in zip((2, 4, 6), cells, strict=True):
        digits = len(cell.partition(".")[2])
        assert float(cell) == round(result.find(method, T=depth).ours, digits)


def test_digits():
    result = measured("digits-error")
    quoted = table("Handwritten digits, measured again")
    names = [name for name in result.curves if name in {row.method for row in result.rows}]
    assert len(names) == 9
    for name in names:
        weights, plain, neighbors, paper = quoted[name]
        assert weights == f"{result.curves[name]['num_weights']:,}"
        for cell, how in ((plain, "images alone"), (neighbors, "with neighbors")):
            row = result.find(name, training=how)
            assert cell == f"{row.ours:.2f}"
            assert float(paper) == row.paper


def test_denoising():
    result = measured("denoise-table")
    quoted = table("Image denoising, measured again")
    names = {row.method for row in result.rows if "8 layers" not in row.method}
    assert len(names) == 11
    for name in names:
        multiplications, *cells, paper = quoted[name]
        if name in result.curves:
            assert multiplications == f"{result.curves[name]['multiply_adds']:,}"
        rows = [psnr_row(result, name, σ=sigma) for sigma in LEVELS]
        assert cells == [two_digits(row) for row in rows]
        assert paper == " / ".join(f"{row.paper:.2f}" for row in rows if row.paper is not None)


def test_networks_of_the_package_that_denoise():
    result = measured("denoise-shipped")
    cards = {card.name: card for card in list_models("denoise")}
    rows = [row for row in result.rows if row.quantity == PSNR]
    assert {row.method for row in rows} == set(cards)
    for name, card in cards.items():
        figures = {
            f"BSD68 σ={row.setting['σ']} PSNR": two_digits(row)
            for row in rows
            if row.method == name
        }
        assert {key: f"{value:.2f}" for key, value in card.figures.items()} == figures
    quoted = table("Image denoising, measured again")
    for line, name in {
        "4 layers": "conv_fwnet_t4.denoise_gray_s{}",
        "16 layers": "conv_fwnet_t16.denoise_gray_s{}",
        "16 layers, all σ, by default for gray images": "conv_fwnet_t16.denoise_gray",
        "16 layers, all σ, color, by default for color images": "conv_fwnet_t16.denoise_color",
    }.items():
        found = [psnr_row(result, name.format(sigma), σ=sigma) for sigma in LEVELS]
        assert quoted[line] == [two_digits(row) for row in found]


def test_super_resolution():
    result = measured("upscale-table")
    quoted = table("Super-resolution, measured again")
    names = dict.fromkeys(row.method for row in result.rows)
    assert len(names) == 10
    for name in names:
        multiplications, *cells, paper = quoted[name]
        count = result.curves.get(name, {}).get("multiply_adds")
        assert multiplications == ("" if count is None else f"{count:,}")
        rows = [psnr_row(result, name, images=images) for images in SETS]
        assert cells == [two_digits(row, spread=True) for row in rows]
        assert paper == " / ".join(f"{row.paper:.2f}" for row in rows if row.paper is not None)


@pytest.mark.parametrize(
    ("part", "before"),
    [(", no skip", "our network has "), (", ReLU", "with ReLU "), (", γ = 1", "it has ")],
)
def test_super_resolution_without_parts_of_the_network(part, before):
    result = measured("upscale-ablation")
    name = f"Conv F-W Net (4 layers){part}"
    figures = two_digits(*(psnr_row(result, name, images=images) for images in SETS))
    words = " ".join(section("Super-resolution, measured again").split())
    assert f"{before}{figures}" in words


def test_p_of_super_resolution():
    result = measured("upscale-exponent")
    (learned,) = [row.ours for row in result.rows if row.quantity == "learned p"]
    words = " ".join(section("Super-resolution, measured again").split())
    assert f"Learned p is {learned:.2f}, and better than fixed ones but 1.3 and 1.5" in words
    names = " and ".join(f"Conv F-W Net, fixed p = {p}" for p in (1.3, 1.5))
    assert f"Learned p is not told to be better than {names}." in result.findings


def test_networks_of_the_package_that_enlarge():
    result = measured("upscale-shipped")
    cards = {card.name: card for card in list_models("upscale")}
    rows = [row for row in result.rows if row.quantity == PSNR]
    assert {row.method for row in rows} == set(cards)
    for name, card in cards.items():
        figures = {
            f"{row.setting['images']} ×{row.setting['scale']} PSNR": two_digits(row)
            for row in rows
            if row.method == name
        }
        assert len(figures) == len(SETS)
        assert {key: f"{value:.2f}" for key, value in card.figures.items()} == figures
    quoted = table("Super-resolution, measured again")

    def cell(name):
        found = [psnr_row(result, name, images=images) for images in SETS]
        return two_digits(*(row for row in found if row is not None))

    for line, depth in {
        "19 layers, by default": 19,
        "4 layers, trained on the 91 images": 4,
    }.items():
        assert quoted[line] == [cell(f"conv_fwnet_t{depth}.upscale_x{scale}") for scale in SCALES]
    published = quoted["VDSR, 20 layers, as published"]
    assert published == [" / ".join(f"{value:.2f}" for value in VDSR[scale]) for scale in SCALES]


def test_networks_of_the_package_were_trained_as_was_best_on_held_back_images():
    rows = [row for row in measured("upscale-shipped").rows if row.quantity == HELD_BACK]
    names = {row.method for row in rows}
    assert len(names) == 3
    for name in names:
        best = max((row for row in rows if row.method == name), key=lambda row: row.ours)
        epochs = DEEP_EPOCHS if name == DEEP.name else Upscaling.recipe.num_epochs
        assert best.setting == {"epochs": epochs, "smaller copies": "yes"}
