import html
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fwnet.cli import app
from fwnet.coding.array_files import open_rows
from fwnet.explore import explore, recommendation, write_page
from fwnet.explore.exploration import _sample

ROWS = 80


@pytest.fixture(scope="module", autouse=True)
def small_map():
    """Few balls and few rounds: what is tested is the page, not the search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fwnet.coding.ball_search.GRID", (0.8, 0.65, 0.5))
        patch.setattr("fwnet.explore.exploration.EXPONENTS", (1.0, 3.0))
        patch.setattr("fwnet.explore.exploration.RADIUS_FACTORS", (0.25, 0.5, 1.0))
        patch.setattr("fwnet.explore.exploration.ROUNDS", 2)
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
    assert [cell.p for cell in found.cells] == [1.0] * 3 + [found.learned.p] * 3 + [3.0] * 3
    relative = [cell.relative / found.cells[2].relative for cell in found.cells]
    assert relative == pytest.approx([0.25, 0.5, 1.0] * 3)
    dense = found.cells[3:6]
    assert dense[0].error > dense[2].error  # too small a ball
    assert found.cells[0].nonzeros < dense[0].nonzeros
    assert all(cell.certified == 1 for cell in found.cells)
    assert dense[0].binds == 1
    assert found.learned.p == pytest.approx(2.0, abs=0.1)
    assert found.learned.radius == pytest.approx(3.0, rel=0.1)
    assert (found.num_rows, found.num_used, found.num_left_out) == (ROWS, 60, 0)


def test_the_learned_ball_is_a_cell_of_the_map_and_has_its_row(found, tmp_path):
    """Its row is shown even if other cells of the same p have lower errors in the map."""
    cell = found.recommended
    assert (cell.p, cell.radius) == pytest.approx((found.learned.p, found.learned.radius))
    others = [replace(other, error=0.01 * cell.error) for other in found.cells if other != cell]
    write_page(replace(found, cells=[*others[:5], cell, *others[5:]]), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    bold = re.findall(r"<tr style=font-weight:bold><td>([\d.]+)<td>([\d.]+)", text)
    assert bold == [(f"{cell.p:.3g}", f"{cell.radius:.3g}")]


def test_the_recommendation_says_what_was_learned(found):
    text = " ".join(recommendation(found))
    assert f"Take p = {found.learned.p:.4g} and radius = {found.learned.radius:.3g}" in text
    for doubt in found.learned.doubts:
        assert f"Doubt: {doubt}." in text
    assert "For this dictionary the data allow p from" in text
    assert f"If {found.given} was learned from these rows" in text
    assert "all columns" not in text
    parquet = replace(found, names=["id", "a", "b", "c"])
    assert "made of all columns (id, a, b, …)" in " ".join(recommendation(parquet))
    assert "all columns" not in " ".join(recommendation(replace(parquet, columns=["a", "b"])))


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
    assert ("every signal was divided by its norm" in text) == expected
    assert ("no radius suits all" in text) != expected
    assert ("do not report them as properties" in text) == bool(found.learned.doubts)


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_the_next_steps_of_the_page_work_as_printed(suffix, tmp_path, monkeypatch):
    """Rows of many scales, one with NaN: the codes rebuild the others in their own unit."""
    monkeypatch.chdir(tmp_path)
    x, dictionary = signals()
    x *= np.logspace(-3, 3, len(x))[:, None]
    x[5, 3] = np.nan
    if suffix == ".npy":
        np.save("x.npy", x)
    else:
        parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        columns = (
            {"id": range(ROWS)} | {f"c{i}": x[:, i] for i in range(12)} | {"text": ["t"] * ROWS}
        )
        parquet.write_table(table.table(columns), "x.parquet")
    np.save("my D.npy", dictionary)
    columns = ["c*"] if suffix == ".parquet" else []
    found = explore(Path(f"x{suffix}"), Path("my D.npy"), columns=columns, device="cpu")
    write_page(found, Path("page.html"))
    blocks = re.findall(r"<code>(.*?)</code>", Path("page.html").read_text("utf-8"), re.DOTALL)
    prepare, command, restore = map(html.unescape, blocks)
    names = {}
    exec(prepare, names)
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    exec(restore, names)
    others = np.delete(x, 5, axis=0)
    error = np.linalg.norm(names["codes"] @ dictionary.T - others, axis=1)
    share = error / np.linalg.norm(others, axis=1)
    norms = np.linalg.norm(np.load("prepared.npy"), axis=1)
    np.testing.assert_allclose(norms, 1.0)
    assert np.median(share) < 0.1


def test_rows_that_are_not_finite_are_left_out_and_counted(tmp_path):
    x, dictionary = signals()
    x[::10, 0] = np.inf
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "D.npy", dictionary)
    found = explore(tmp_path / "x.npy", tmp_path / "D.npy", rows=70, device="cpu")
    assert (found.num_used, found.num_left_out) == (70, 8)
    assert "NaN or infinity: 8 of 80" in " ".join(recommendation(found))


@pytest.mark.parametrize("size", [1, 40 * 3, 1000])
def test_the_sample_does_not_depend_on_how_the_file_is_read(size, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.arange(1.0, 301.0).reshape(100, 3))
    file = open_rows(tmp_path / "x.npy")
    expected, _ = _sample(file, 30, 0)
    monkeypatch.setattr("fwnet.explore.exploration.READ_ENTRIES", size)
    np.testing.assert_array_equal(_sample(file, 30, 0)[0], expected)
    assert len({*expected[:, 0]}) == 30


def test_noise_is_not_recommended(tmp_path):
    x = np.random.default_rng(0).standard_normal((ROWS, 8))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "D.npy", np.random.default_rng(1).standard_normal((8, 4)))
    found = explore(tmp_path / "x.npy", tmp_path / "D.npy", device="cpu")
    text = " ".join(recommendation(found))
    assert "look like noise" in text
    assert "the data allow p" not in text
    assert "more rows" not in text
    assert "more rows (--rows)" in " ".join(recommendation(replace(found, given=None)))
    write_page(found, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "fwnet encode" not in text
    assert f"fwnet explore {tmp_path / 'x.npy'} --rows 80 --components 2 -o again.html" in text


def test_data_that_do_not_tell_p_say_so(tmp_path):
    """Codes of all lengths: many balls hold them."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((12, 4))
    np.save(tmp_path / "x.npy", rng.standard_normal((ROWS, 4)) @ dictionary.T)
    np.save(tmp_path / "D.npy", dictionary)
    found = explore(tmp_path / "x.npy", tmp_path / "D.npy", normalize=False, device="cpu")
    assert any("may be anything" in doubt for doubt in found.learned.doubts)
    assert "may be anything from" in " ".join(recommendation(found))


def test_the_command_learns_and_saves_a_dictionary(tmp_path, monkeypatch):
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    x, _ = signals(n=6, m=3)
    columns = {"id": range(ROWS)} | {f"c{i}": column for i, column in enumerate(x.T)}
    parquet.write_table(table.table(columns | {"text": ["t"] * ROWS}), "x.parquet")
    options = ["-o", "new/page.html", "--rows", "60", "--components", "5"]
    result = CliRunner().invoke(app, ["explore", "x.parquet", *options])
    assert result.exit_code == 2
    assert "got string in 'text'; choose with --columns\n" in result.output
    assert not Path("new").exists()
    result = CliRunner().invoke(app, ["explore", "x.parquet", *options, "--columns", "c0, c[1-5]"])
    assert result.exit_code == 0, result.output
    assert "Open new/page.html in a browser." in result.output
    assert "Dictionary written to new/page-dictionary.npy (6 × 5)." in result.output
    page = html.unescape(Path("new/page.html").read_text(encoding="utf-8"))
    command = next(one for one in re.findall(r"<code>(.*?)</code>", page) if "encode" in one)
    assert "--columns 'c0,c[1-5]' --dictionary new/page-dictionary.npy" in command
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    atoms = np.load("new/page-dictionary.npy")
    assert atoms.shape == (6, 5)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1.0)
    assert "x.parquet: 60 of 80 rows" in page


@pytest.mark.parametrize(
    ("values", "arguments", "message"),
    [
        (np.ones((4, 3)), [], "at least 8 finite rows and 2 columns, got 4 × 3"),
        (np.full((20, 3), np.nan), [], "must hold finite numbers"),
        (np.zeros((20, 3)), [], "numbers other than 0"),
        (np.ones((20, 3)), ["-o", "page.txt"], "ends in .html, got page.txt"),
        (np.ones((20, 3)), ["-o", "x.npy/page.html"], "cannot read or write x.npy: "),
        (np.ones((20, 3)), ["--columns", "a"], "columns have names in .parquet files alone"),
        (np.ones((20, 3)), ["--rows", "3"], "--rows must be an integer >= 8, got 3"),
        (np.ones((20, 3)), ["--components", "0"], "--components must be an integer >= 1, got 0"),
        (np.ones((20, 3)), ["-d", "x.npy"], "must have shape"),
        (np.ones((20, 3)), ["-d", "x.npy", "--components", "30"], "none with x.npy, got 30"),
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


@pytest.mark.parametrize("name", ["page.html", "page-dictionary.npy"])
def test_no_file_is_overwritten_without_force(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", signals(n=6, m=3)[0])
    Path(name).write_bytes(b"mine")
    command = ["explore", "x.npy", "-o", "page.html", "--rows", "40"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert f"{name} exists; overwrite it with --force" in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir() if path.name != "x.npy"] == [name]
    assert Path(name).read_bytes() == b"mine"
    assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0
    assert Path(name).read_bytes() != b"mine"
