import json
from pathlib import Path

import pytest
import torch

from fwnet.experiments import EXPERIMENTS, Lab, Result, Row, Runner
from fwnet.experiments.experiment import row_of
from fwnet.experiments.page import results_page
from fwnet.experiments.synthetic import CodeTraining, SolverCodes
from fwnet.experiments.words import compare_by_depth, is_below

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
