import json
from pathlib import Path

import pytest
import torch

from fwnet.experiments import EXPERIMENTS, Lab, Result, Row, Runner
from fwnet.experiments.experiment import row_of
from fwnet.experiments.page import results_page
from fwnet.experiments.synthetic import CodeTraining, SolverCodes
from fwnet.experiments.words import compare_by_depth, is_below
from fwnet.zoo import list_models

CPU = torch.device("cpu")
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runner():
    with Runner(CPU) as shared:
        yield shared


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_quick_version(name, runner, tmp_path):
    experiment = EXPERIMENTS[name]
    result = experiment.run(Lab(runner, quick=True))
    data, picture = experiment.write(result, tmp_path, "-quick")
    assert picture.stat().st_size > 10_000
    assert result.findings
    assert result.command == f"fwnet reproduce {name} --quick"
    loaded = Result.load(data)
    assert [row.method for row in loaded.rows] == [row.method for row in result.rows]
    assert json.loads(data.read_text())["claim"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_published_was_measured(name):
    """results/ has every experiment; errors of codes and digits are those of 3 seeds or more."""
    path = PROJECT / "results" / f"{name}.json"
    result = Result.load(path)
    assert result.command == f"fwnet reproduce {name}"
    assert path.with_suffix(".png").exists()
    assert result.findings
    for row in result.rows:
        if row.quantity.startswith("test "):
            assert len(row.values) >= 3
            assert row.ours == pytest.approx(sum(row.values) / len(row.values), rel=1e-4)


def test_the_page_of_results_is_made_of_the_results():
    page = PROJECT / "docs" / "results.md"
    assert page.read_text(encoding="utf-8") == results_page(PROJECT / "results")


def small(**changes):
    arguments = {
        "data": {"p": 1.3, "seed": 0, "num_train": 200, "num_test": 50},
        "model": "FWNet",
        "num_layers": 2,
        "options": {"radius": 5.0},
        "settings": {"num_epochs": 2, "batch_size": 50},
    }
    return CodeTraining(**{**arguments, **changes})


def test_a_network_that_chooses_settings_is_not_tested():
    chosen, tested = small(num_validation=50).execute(CPU), small().execute(CPU)
    assert set(chosen) == {"error", "seconds"}
    assert len(tested["curves"]["p"]) == 2
    assert tested["num_parameters"] == 50 * 100 + 100 * 100 + 2 + 1
    assert tested["error"] != chosen["error"]


def test_records_do_not_depend_on_when_they_are_made():
    assert small().execute(CPU)["error"] == small().execute(CPU)["error"]


def test_training_that_diverges_is_a_record():
    wild = small(
        settings={"num_epochs": 20, "learning_rate": 1e30, "optimizer": "sgd", "batch_size": 50}
    )
    assert wild.execute(CPU)["error"] is None


def test_solvers_agree_where_the_solution_is_unique():
    data = {"p": 1.0, "seed": 1, "num_test": 20}
    exact, cvx = (SolverCodes(data, method).execute(CPU) for method in ("auto", "cvxpy"))
    assert exact["error"] == pytest.approx(cvx["error"], rel=0.1)  # its own tolerance
    one, many = (
        SolverCodes(data, "frank-wolfe", max_steps=steps).execute(CPU) for steps in (1, 1000)
    )
    assert one["error"] > 5 > many["error"]


def test_verdicts_need_differences_that_seeds_agree_on():
    assert is_below([1.0, 1.1, 0.9], [2.0, 2.1, 1.9]) is True
    assert is_below([2.0, 2.1, 1.9], [1.0, 1.1, 0.9]) is False
    assert is_below([1.0, 2.0, 3.0], [2.0, 1.0, 3.1]) is None
    assert is_below([1.0], [2.0]) is True


def test_verdicts_by_depth():
    result = Result("x", "", "", "")
    for depth, (a, b) in {2: (1, 2), 4: (1, 1), 6: (3, 1)}.items():
        result.rows.append(row_of("A", {"T": depth}, "test error", [a, a + 0.1]))
        result.rows.append(row_of("B", {"T": depth}, "test error", [b, b + 0.1]))
    result.rows[2] = Row("A", {"T": 4}, "test error", 1.0, values=[1.1, 1.0])
    text = compare_by_depth(result, "A", "B", [2, 4, 6])
    assert text == ("A compared with B: better at T = 2, not told apart at T = 4, worse at T = 6.")
    assert compare_by_depth(result, "A", "B", [2]) == "A is better than B at every T."
    with pytest.raises(KeyError, match="no row for C"):
        result.find("C", T=2)


@pytest.mark.parametrize(
    ("experiment", "method", "line", "depths"),
    [
        ("synthetic-l1", "F-W Net", "| real p = 1: F-W Net |", (2, 4, 6)),
        ("synthetic-l1", "LISTA", "| LISTA |", (2, 4, 6)),
        ("synthetic-error", "F-W Net", "| real p = 1.3: F-W Net |", (2, 4, 6)),
        ("synthetic-error", "Original F-W", "| Original F-W, T steps |", (2, 4, 6)),
        ("synthetic-error", "MLP, linear last layer", "| MLP, linear last layer |", (2, 4, 6)),
        ("synthetic-error", "CVX", "| CVXPY, told p and D |", (2, 4, 6)),
    ],
)
def test_the_readme_quotes_what_was_measured(experiment, method, line, depths):
    result = Result.load(PROJECT / "results" / f"{experiment}.json")
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (quoted,) = [text for text in readme.splitlines() if text.startswith(line)]
    cells = [cell.strip(" *") for cell in quoted.removeprefix(line).split("|")]
    for depth, cell in zip(depths, cells, strict=False):
        digits = len(cell.partition(".")[2])
        assert float(cell) == round(result.find(method, T=depth).ours, digits)


def test_the_readme_quotes_the_digits_as_measured():
    result = Result.load(PROJECT / "results" / "digits-error.json")
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    names = [name for name in result.curves if name in {row.method for row in result.rows}]
    assert len(names) == 9
    for name in names:
        (line,) = [text for text in readme.splitlines() if text.startswith(f"| {name} |")]
        weights, plain, neighbors, paper = (cell.strip(" *") for cell in line.split("|")[2:6])
        assert weights == f"{result.curves[name]['num_weights']:,}"
        for cell, how in ((plain, "images alone"), (neighbors, "with neighbors")):
            row = result.find(name, training=how)
            assert cell == f"{row.ours:.2f}"
            assert float(paper) == row.paper


def test_the_readme_quotes_denoising_as_measured():
    result = Result.load(PROJECT / "results" / "denoise-table.json")
    lines = (PROJECT / "README.md").read_text(encoding="utf-8").splitlines()
    names = {row.method for row in result.rows if "8 layers" not in row.method}
    for name in names:
        (line,) = [text for text in lines if text.startswith(f"| {name} |")]
        multiplications, *cells, paper = (cell.strip() for cell in line.split("|")[2:7])
        if name in result.curves:
            assert multiplications == f"{result.curves[name]['multiply_adds']:,}"
        rows = {
            row.setting["σ"]: row
            for row in result.rows
            if row.method == name and row.quantity == "PSNR in dB"
        }
        assert cells == [f"{rows[s].ours:.2f}" if s in rows else "" for s in (15, 25, 50)]
        printed = [f"{rows[s].paper:.2f}" for s in rows if rows[s].paper is not None]
        assert set(printed) <= set(paper.split(" / "))


def test_the_readme_and_the_cards_quote_the_networks_of_the_package_as_measured():
    result = Result.load(PROJECT / "results" / "denoise-shipped.json")
    lines = (PROJECT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [row for row in result.rows if row.quantity == "PSNR in dB"]
    assert {row.method for row in rows} == {card.name for card in list_models("denoise")}
    for card in list_models("denoise"):
        measured = {row.setting["σ"]: f"{row.ours:.2f}" for row in rows if row.method == card.name}
        assert {f"{value:.2f}" for value in card.figures.values()} == set(measured.values())
    for sigma in (15, 25, 50):
        for name, line in (
            (f"conv_fwnet_t4.denoise_gray_s{sigma}", "| 4 layers |"),
            (f"conv_fwnet_t16.denoise_gray_s{sigma}", "| 16 layers |"),
            ("conv_fwnet_t16.denoise_gray", "| 16 layers, all σ"),
            ("conv_fwnet_t16.denoise_color", "| 16 layers, all σ, color"),
        ):
            quoted = [text for text in lines if text.startswith(line)][-1 if "color" in line else 0]
            cells = [cell.strip(" *") for cell in quoted.split("|")[2:5]]
            assert cells[(15, 25, 50).index(sigma)] == f"{result.find(name, σ=sigma).ours:.2f}"
