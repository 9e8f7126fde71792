import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from fwnet.errors import FwnetError
from fwnet.experiments import EXPERIMENTS, Lab, Result, Runner
from fwnet.experiments.page import results_page
from fwnet.experiments.synthetic import CodeTraining, SolverCodes

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
    assert result.command == f"fwnet reproduce {name} --quick"
    stored = experiment.verdicts(Result.load(data))
    assert [one.word for one in stored] == [one.word for one in experiment.verdicts(result)]
    assert all(math.isfinite(row.mean) for row in result.rows)
    assert all(set(one) == {"hardware", "date", "state"} for one in result.origins)
    assert result.origins


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_published_results_are_complete(name):
    """All claims are measured; errors of codes and digits are those of 3 seeds or more."""
    path = PROJECT / "results" / f"{name}.json"
    result = Result.load(path)
    assert result.command == f"fwnet reproduce {name}"
    assert (result.title, result.paper_says) == (
        EXPERIMENTS[name].title,
        EXPERIMENTS[name].paper_says,
    )
    assert path.with_suffix(".png").exists()
    assert all(verdict.measured for verdict in EXPERIMENTS[name].verdicts(result))
    for row in result.rows:
        if row.quantity.startswith("test "):
            assert len(row.values) >= 3
            assert row.mean == pytest.approx(sum(row.values) / len(row.values), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "held", "did_not_hold", "indistinguishable"),
    [
        ("synthetic-error", 8, 6, 0),
        ("synthetic-l1", 5, 4, 0),
        ("digits-initial-p", 2, 2, 0),
        ("denoise-table", 7, 3, 2),
        ("upscale-table", 9, 0, 1),
        ("upscale-exponent", 3, 1, 1),
    ],
)
def test_verdicts_of_published_results(name, held, did_not_hold, indistinguishable):
    result = Result.load(PROJECT / "results" / f"{name}.json")
    words = Counter(verdict.word for verdict in EXPERIMENTS[name].verdicts(result))
    counts = (held, did_not_hold, indistinguishable)
    assert tuple(words[word] for word in ("Held", "Did not hold", "Indistinguishable")) == counts


def test_the_page_is_made_of_the_results():
    page = (PROJECT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == results_page(PROJECT / "results")


def test_tables_have_methods_as_rows_and_a_setting_as_columns(tmp_path):
    result = Result("synthetic-l1", "", "", "some command")
    result.add("A", {"T": 2}, "test error", [1.0, 3.0], paper=2.5)
    result.add("A", {"T": 4}, "test error", [0.5])
    result.add("B", {"T": 4}, "test error", [7.0])
    result.details["A"] = {"num_parameters": 1234}
    result.choices = [{"method": "A", "learning_rate": 0.1, "validation_loss": 3.0}]
    result.save(tmp_path / "synthetic-l1.json")
    page = results_page(tmp_path)
    assert "| test error | T = 2 | T = 4 | parameters |" in page
    assert "| A | 2 ± 1.414 (2.5) | 0.500 | 1,234 |" in page
    assert "| B |  | 7 |  |" in page
    assert "A: learning rate 0.1." in page
    assert "Not measured: " in page


def test_the_page_says_when_and_where_with_which_code(tmp_path):
    place = {"hardware": "a GPU", "state": "0.9, commit 1234"}
    records = [{**place, "date": f"2026-01-0{day}", "seconds": 1.0} for day in (3, 1, 2, 3)]
    new, old = Result("synthetic-l1", "", "", ""), Result("synthetic-data", "", "", "")
    new.add("A", {}, "test error", [1.0], records)
    old.add("A", {}, "test error", [1.0], [{"hardware": "a CPU"}])
    for result in (new, old):
        result.save(tmp_path / f"{result.id}.json")
    assert [one["date"] for one in new.origins] == ["2026-01-03", "2026-01-01", "2026-01-02"]
    page = results_page(tmp_path)
    assert "| `synthetic-l1` | 2026-01-01 to 2026-01-03 | 0.9, commit 1234 | a GPU |" in page
    assert "| `synthetic-data` | not kept |  | a CPU |" in page


def test_results_are_read_and_other_files_refused(tmp_path):
    result = Result("x", "", "", "")
    result.save(tmp_path / "x.json")
    assert Result.load(tmp_path / "x.json") == result
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(FwnetError, match="is not a result of fwnet reproduce"):
        Result.load(tmp_path / "x.json")


def test_rows_are_selected_by_method_quantity_and_setting():
    result = Result("x", "", "", "")
    for method in "ab":
        for depth in (2, 4):
            result.add(method, {"T": depth, "p": 1}, "error", [1.0])
            result.add(method, {"T": depth, "p": 1}, "p", [1.0])
    assert result.find("b", T=4) is result.rows[6]
    assert result.find("b", "p", T=4, p=1) is result.rows[7]
    assert len(result.select(quantity="p")) == 4
    assert result.values_of("T", method="a") == [2, 4]
    with pytest.raises(KeyError, match="no row for a with"):
        result.find("a", T=8)


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


def test_rows_name_the_hardware_of_all_records():
    result = Result("some", "Some", "A claim", "fwnet reproduce some")
    result.add("tested", {}, "error", [1.0, 2.0], [{"hardware": "b"}, {"hardware": "a"}])
    assert (result.rows[0].hardware, result.rows[0].seconds) == ("a and b", None)


def test_the_spread_is_that_of_a_sample():
    result = Result("some", "Some", "A claim", "fwnet reproduce some")
    result.add("three seeds", {}, "error", [1.0, 2.0, 3.0])
    result.add("one seed", {}, "error", [1.0])
    assert [row.spread for row in result.rows] == [pytest.approx(1.0), None]
