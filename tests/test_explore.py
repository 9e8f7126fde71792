import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fwnet.cli import app
from fwnet.explore import explore, recommendation, write_page

ROWS = 80


@pytest.fixture(scope="module", autouse=True)
def small_map():
    """Few balls and few rounds: what is tested is the page, not the search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fwnet.coding.ball_search.GRID", (0.8, 0.65, 0.5))
        patch.setattr("fwnet.explore.EXPONENTS", (1.0, 2.0))
        patch.setattr("fwnet.explore.RADIUS_FACTORS", (0.25, 0.5, 1.0))
        patch.setattr("fwnet.explore.ROUNDS", 2)
        yield


def signals(n=12, m=4, seed=0):
    """Signals of codes on a sphere, p = 2 and radius 3, and their dictionary, (n, m)."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n, m))
    codes = rng.standard_normal((ROWS, m)) ** 3
    codes *= 3.0 / np.linalg.norm(codes, axis=1, keepdims=True)
    x = codes @ dictionary.T
    return x + 0.05 * rng.standard_normal(x.shape), dictionary


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore")
    x, dictionary = signals()
    np.save(folder / "x.npy", x)
    np.save(folder / "D.npy", dictionary)
    return explore(folder / "x.npy", folder / "D.npy", rows=60, device="cpu")


def test_the_map_and_the_ball(found):
    assert [cell.p for cell in found.cells] == [1.0] * 3 + [2.0] * 3
    relative = [cell.relative / found.cells[2].relative for cell in found.cells]
    assert relative == pytest.approx([0.25, 0.5, 1.0] * 2)
    dense = [cell for cell in found.cells if cell.p == 2]
    assert dense[0].error > dense[2].error  # too small a ball
    assert found.cells[0].nonzeros < dense[0].nonzeros
    assert all(cell.certified == 1 for cell in found.cells)
    assert dense[0].binds == 1
    assert found.learned.p == pytest.approx(2.0, abs=0.1)
    assert found.learned.radius == pytest.approx(3.0, rel=0.1)
    assert (found.num_rows, found.num_used, found.was_given) == (ROWS, 60, True)


def test_the_recommendation_says_what_was_learned(found):
    text = " ".join(recommendation(found))
    assert f"Take p = {found.learned.p:.2f} and radius = {found.learned.radius:.3g}" in text
    for doubt in found.learned.doubts:
        assert doubt in text


def test_the_page_stands_alone(found, tmp_path):
    write_page(found, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    for line in recommendation(found):
        assert line.split(",")[0].split("'")[0] in text


@pytest.mark.parametrize(("given", "expected"), [(None, True), (False, False)])
def test_rows_without_a_common_scale_are_normalized(given, expected, tmp_path):
    x, dictionary = signals()
    np.save(tmp_path / "x.npy", x * np.logspace(-3, 3, len(x))[:, None])
    np.save(tmp_path / "D.npy", dictionary)
    found = explore(tmp_path / "x.npy", tmp_path / "D.npy", normalize=given, device="cpu")
    text = " ".join(recommendation(found))
    assert found.normalized == expected
    assert ("Every signal was divided by its norm" in text) == expected
    assert ("no radius suits all" in text) != expected


def test_noise_is_not_recommended(tmp_path):
    x = np.random.default_rng(0).standard_normal((ROWS, 8))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "D.npy", np.random.default_rng(1).standard_normal((8, 4)))
    found = explore(tmp_path / "x.npy", tmp_path / "D.npy", device="cpu")
    assert "look like noise" in recommendation(found)[0]


def test_data_that_do_not_tell_p_say_so(tmp_path):
    """Codes of all lengths: many balls hold them."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((12, 4))
    np.save(tmp_path / "x.npy", rng.standard_normal((ROWS, 4)) @ dictionary.T)
    np.save(tmp_path / "D.npy", dictionary)
    found = explore(tmp_path / "x.npy", tmp_path / "D.npy", normalize=False, device="cpu")
    assert any("may be anything" in doubt for doubt in found.learned.doubts)
    assert "They do not tell more closely" in " ".join(recommendation(found))


def test_the_command_learns_and_saves_a_dictionary(tmp_path, monkeypatch):
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    x, _ = signals(n=6, m=3)
    parquet.write_table(table.table({f"c{i}": column for i, column in enumerate(x.T)}), "x.parquet")
    options = ["--rows", "60", "--components", "5", "--save-dictionary", "D.npy"]
    result = CliRunner().invoke(app, ["explore", "x.parquet", "-o", "page.html", *options])
    assert result.exit_code == 0, result.output
    assert "Open page.html in a browser." in result.output
    atoms = np.load("D.npy")
    assert atoms.shape == (6, 5)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1.0)
    assert "x.parquet: 60 of 80 rows" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "arguments", "message"),
    [
        (np.ones((4, 3)), [], "at least 8 rows and 2 columns, got 4 × 3"),
        (np.full((20, 3), np.nan), [], "must hold finite numbers"),
        (np.zeros((20, 3)), [], "numbers other than 0"),
        (np.ones((20, 3)), ["-o", "page.txt"], "ends in .html, got page.txt"),
        (np.ones((20, 3)), ["-o", "no/page.html"], "no is not a folder"),
        (np.ones((20, 3)), ["--rows", "3"], "rows must be an integer >= 8, got 3"),
        (np.ones((20, 3)), ["--components", "0"], "n_components must be an integer >= 1, got 0"),
        (np.ones((20, 3)), ["-d", "x.npy"], "must have shape"),
        (np.ones((20, 3)), ["--save-dictionary", "x.npy"], "its own path, got x.npy twice"),
    ],
)
def test_bad_input_is_told_in_one_line(values, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", values)
    result = CliRunner().invoke(app, ["explore", "x.npy", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not Path("explore.html").exists()
