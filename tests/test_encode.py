"""`fwnet encode` as people meet it: its lines, its exit codes, and what a SIGKILL leaves."""

import functools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from fwnet import solve
from fwnet.cli import app

OPTIONS = ["--p", "1.3", "--radius", "2", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with data.npy, 40 × 6, and D.npy, 6 × 9."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")  # a narrow terminal must not break the line
    rng = np.random.default_rng(0)
    np.save("data.npy", rng.standard_normal((40, 6)))
    np.save("D.npy", rng.standard_normal((6, 9)))
    return tmp_path


def encode(*arguments, options=OPTIONS):
    return CliRunner().invoke(app, ["encode", *arguments, *options])


def test_codes_and_a_summary(folder):
    result = encode("data.npy", "-d", "D.npy", "-o", "codes.npy", "--certificates", "why.npy")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[:2] == ["40 rows", "40 certified"]
    assert lines[2].startswith("largest gap ")
    assert "(allowed: --tol times ½‖x‖² of the row), largest norm gap" in lines[2]
    mean = np.load("why.npy")["relative_error"].mean()
    assert lines[3] == f"relative error ‖x − Dz‖ / ‖x‖: {mean:.3g} (mean of the rows)"
    assert lines[4].endswith("rows per second")
    assert lines[5] == "written to codes.npy and why.npy"
    assert np.load("codes.npy").shape == (40, 9)
    assert np.load("why.npy").shape == (40,)


def test_rows_that_are_not_certified_are_reported(folder, monkeypatch):
    monkeypatch.setattr("fwnet.coding.row_coders.solve", functools.partial(solve, max_steps=0))
    result = encode(*WITH_D)
    assert result.exit_code == 0
    assert result.stderr == "Warning: 40 of 40 rows are not certified.\n"
    assert np.load("codes.npy").shape == (40, 9)


def test_p_may_be_infinite(folder):
    options = ["--p", "inf", "--radius", "0.1"]
    assert encode("data.npy", "-o", "codes.npy", options=options).exit_code == 0
    assert abs(np.load("codes.npy")).max() <= 0.1 * (1 + 1e-12)


def test_help_teaches_with_an_example(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = CliRunner().invoke(app, ["encode", "--help"]).stdout
    assert "fwnet encode data.npy --dictionary D.npy --p 1.3 --radius 5 -o codes.npy" in text
    for word in ("--resume", "--force", "--tol", "--device", "codes.npy.parts", "'.[parquet]'"):
        assert word in text


def save(name, values, **options):
    np.save(name, values, **options)


def save_with(position, value):
    values = np.load("data.npy")
    values[position] = value
    np.save("data.npy", values)


def write(name, content):
    with open(name, "wb") as file:  # noqa: PTH123
        file.write(content)


def write_header(shape, end="}", name="data.npy"):
    """An npy file with 24 numbers, whatever its header says."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, {end}\n".encode()
    write(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(192))


def truncate():
    with open("data.npy", "r+b") as file:  # noqa: PTH123
        file.truncate(1000)


DATA = ["data.npy", "-o", "codes.npy"]
WITH_D = [*DATA, "-d", "D.npy"]
BAD_INPUT = {
    "data is missing": (None, ["nosuch.npy", "-o", "codes.npy"], "nosuch.npy does not exist"),
    "data is a folder": (
        lambda: os.mkdir("folder.npy"),  # noqa: PTH102
        ["folder.npy", "-o", "codes.npy"],
        "folder.npy is a folder: its codes go into a folder, got -o codes.npy",
    ),
    "data has three axes": (
        lambda: save("data.npy", np.ones((2, 3, 4))),
        DATA,
        "data.npy must have 2 axes, rows and columns, got (2, 3, 4)",
    ),
    "data has no rows": (
        lambda: save("data.npy", np.ones((0, 6))),
        DATA,
        "data.npy must have at least 1 row and 1 column, got 0 × 6",
    ),
    "data has no columns": (
        lambda: save("data.npy", np.ones((6, 0))),
        DATA,
        "data.npy must have at least 1 row and 1 column, got 6 × 0",
    ),
    "data is complex": (
        lambda: save("data.npy", np.ones((4, 6), complex)),
        DATA,
        "data.npy must hold real numbers, got complex128",
    ),
    "data is pickled": (
        lambda: save("data.npy", np.array([[1, None]], object), allow_pickle=True),
        DATA,
        "data.npy must hold numbers, got Python objects, which are never unpickled",
    ),
    "data is an empty file": (lambda: write("data.npy", b""), DATA, "data.npy is empty"),
    "data is no npy file": (
        lambda: write("data.npy", b"PK\x03\x04 something else"),
        DATA,
        "data.npy is not a whole npy file: ",
    ),
    "data is cut off": (truncate, DATA, "data.npy is not a whole npy file: "),
    "data has more entries than there are numbers": (
        lambda: write_header("(1099511627776, 1099511627776)"),
        DATA,
        "data.npy is not a whole npy file: ",
    ),
    "data has fewer than no rows": (
        lambda: write_header("(-4, 6)"),
        DATA,
        "data.npy is not a whole npy file: ",
    ),
    "data has a header without an end": (
        lambda: write_header("(4, 6)", end=""),
        DATA,
        "data.npy is not a whole npy file: ",
    ),
    "data has another suffix": (
        None,
        ["data.csv", "-o", "codes.npy"],
        "expected a file that ends in .npy or .parquet, got data.csv; convert it with "
        "np.save('data.npy', np.loadtxt('data.csv', delimiter=',', skiprows=0)) "
        "(skiprows=1 if it has a header)",
    ),
    "a value is NaN": (
        lambda: save_with((17, 2), np.nan),
        [*WITH_D, "--shard-rows", "7"],
        "data.npy must be finite, got NaN, infinite or missing values in 1 of 40 rows, the first "
        "of them row 17 (counted from 0); remove or fill these rows, or write into a folder "
        "(-o codes/), where their codes are NaN",
    ),
    "rows are infinite": (
        lambda: save_with((slice(5, 9), 0), -np.inf),
        [*WITH_D, "--shard-rows", "7"],
        "values in 4 of 40 rows, the first of them row 5 (counted from 0)",
    ),
    "dictionary is missing": (None, [*DATA, "-d", "nosuch.npy"], "nosuch.npy does not exist"),
    "dictionary is transposed": (
        lambda: save("D.npy", np.ones((9, 6))),
        WITH_D,
        "D.npy must have shape (n, m) = (6, m), where n is the number of columns of data.npy, got "
        "(9, 6); "
        "this is scikit-learn's (n_components, n_features): save its transpose",
    ),
    "dictionary does not fit": (
        lambda: save("D.npy", np.ones((5, 7))),
        WITH_D,
        "D.npy must have shape (n, m) = (6, m), where n is the number of columns of data.npy, got "
        "(5, 7)\n",
    ),
    "dictionary is too large for float32": (
        lambda: (
            save("D.npy", np.full((6, 9), 1e300)),
            save("data.npy", np.ones((4, 6), np.float32)),
        ),
        WITH_D,
        "D.npy must be finite in float32, got NaN or infinity",
    ),
    "dictionary is parquet": (
        None,
        [*DATA, "-d", "D.parquet"],
        "expected a file that ends in .npy, got D.parquet",
    ),
    "output has another suffix": (
        None,
        ["data.npy", "-o", "codes.txt"],
        "expected a file that ends in .npy or .parquet, got codes.txt",
    ),
    "output is the input": (
        None,
        ["data.npy", "-o", "./data.npy", "--force"],
        "every file must have its own path, got data.npy twice",
    ),
    "output is the certificates": (
        None,
        [*DATA, "--certificates", "codes.npy"],
        "every file must have its own path, got codes.npy twice",
    ),
    "certificates have another suffix": (
        None,
        [*DATA, "--certificates", "why.npz"],
        "expected a file that ends in .npy, got why.npz",
    ),
    "output is in a file": (
        None,
        ["data.npy", "-o", "D.npy/codes.npy"],
        "cannot read or write D.npy: File exists",
    ),
    "output is a folder": (
        lambda: os.mkdir("folder.npy"),  # noqa: PTH102
        ["data.npy", "-o", "folder.npy", "--force"],
        "cannot write folder.npy: it exists and is not a file",
    ),
    "work folder is a file": (
        lambda: write("codes.npy.parts", b"precious"),
        [*DATA, "--force"],
        "cannot read or write codes.npy.parts: File exists",
    ),
    "output exists": (
        lambda: write("codes.npy", b"precious"),
        DATA,
        "codes.npy exists; overwrite it with --force",
    ),
    "p is too small": (None, [*DATA, "--p", "0.9"], "Error: --p must be in [1, inf], got 0.9"),
    "radius is zero": (None, [*DATA, "--radius", "0"], "radius must be > 0 and finite, got 0.0"),
    "tol is zero": (None, [*DATA, "--tol", "0"], "--tol must be in (0, 1), got 0.0"),
    "tol is below the rounding": (
        None,
        [*DATA, "--tol", "1e-30"],
        "--tol must be at least 2.2e-16, got 1e-30",
    ),
    "a shard has no rows": (
        None,
        [*DATA, "--shard-rows", "0"],
        "Error: --shard-rows must be an integer >= 1, got 0",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gives_one_line_and_leaves_nothing(folder, case):
    prepare, arguments, line = BAD_INPUT[case]
    if prepare:
        prepare()
    before = contents(folder)
    result = CliRunner().invoke(app, ["encode", *OPTIONS, *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1
    assert contents(folder) == before


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PARQUET = ["data.parquet", "-o", "codes.npy"]


def test_bad_parquet_gives_one_line_and_leaves_nothing(folder):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")

    def refused(line):
        before = contents(folder)
        result = encode(*PARQUET)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ")
        assert line in result.stderr
        assert result.stderr.count("\n") == 1
        assert contents(folder) == before

    frame = pandas.DataFrame({"a": [1.0, None, 3.0], "b": [1, 2, 3]})
    frame.to_parquet("data.parquet")
    refused("missing values in 1 of 3 rows, the first of them row 1 (counted from 0)")
    frame.assign(name="x").to_parquet("data.parquet")
    refused("every column of data.parquet must hold numbers, got ")
    frame.assign(name=[[1.0], [2.0], [3.0]]).to_parquet("data.parquet")
    refused("every column of data.parquet must hold numbers, got list<")
    frame[:0].to_parquet("data.parquet")
    refused("data.parquet must have at least 1 row and 1 column, got 0 × 2")
    frame.fillna(0.0).to_parquet("data.parquet")
    with open("data.parquet", "r+b") as file:  # noqa: PTH123
        file.seek(4)
        file.write(40 * b"\xff")  # over the first page; what the end says of it is whole
    refused("data.parquet cannot be read: ")
    write("data.parquet", b"something else")
    refused("data.parquet is not a whole parquet file: ")
    write("data.parquet", b"")
    refused("data.parquet is not a whole parquet file: ")


@pytest.mark.parametrize("arguments", [PARQUET, ["data.npy", "-o", "codes.parquet"]])
def test_without_pyarrow_one_line_says_how_to_get_it(folder, monkeypatch, arguments):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = encode(*arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith("which is not installed: pip install '.[parquet]' in the clone\n")
    assert result.stderr.count("\n") == 1


def test_an_option_that_is_missing_or_no_number_prints_usage(folder):
    result = encode(*DATA, options=["--p", "one", "--radius", "2"])
    assert result.exit_code == 2
    assert "--help)" in result.stderr
    result = encode(*DATA, options=["--p", "1.3"])
    assert result.exit_code == 2
    assert result.stderr == "Error: expected p and radius, or a model, got no radius\n"
    assert encode(*DATA, options=[*OPTIONS, "--device", "tpu"]).exit_code == 2
    result = encode(*DATA, options=["--set", "simplx", "--radius", "2"])
    assert (
        "set must be one of lp, nonnegative, simplex, got 'simplx'; did you mean" in result.stderr
    )


def test_ctrl_c_says_how_to_continue(folder, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("fwnet.coding.row_coders.solve", interrupted)
    result = encode(*WITH_D)
    assert result.exit_code == 130
    assert result.stderr == "Stopped. Continue with the same command and --resume.\n"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert encode(*WITH_D, "--resume").exit_code == 0


def test_a_killed_run_continues_to_the_same_bytes(folder):
    np.save("data.npy", np.random.default_rng(1).standard_normal((300, 6)))
    arguments = [*WITH_D, *OPTIONS, "--shard-rows", "10"]
    work, output = folder / "codes.npy.parts", folder / "codes.npy"
    process = subprocess.Popen(
        [sys.executable, "-m", "fwnet", "encode", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while not ((work / "manifest.json").exists() and rows_done(work) >= 20):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert not output.exists()
    result = encode(*arguments)
    assert result.exit_code == 2
    assert "continue it with --resume" in result.stderr
    result = encode(*arguments, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "of them from before" in result.stdout
    assert not work.exists()
    resumed = output.read_bytes()
    assert encode(*arguments, "--force").exit_code == 0
    assert output.read_bytes() == resumed


def rows_done(work):
    return json.loads((work / "manifest.json").read_text())["rows_done"]


def test_other_sets(folder):
    options = ["--set", "simplex", "--radius", "2", "--device", "cpu"]
    result = encode("data.npy", "-d", "D.npy", "-o", "codes.npy", options=options)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1] == "40 certified"
    assert "norm gap" not in lines[2]
    codes = np.load("codes.npy")
    assert (codes >= 0).all()
    np.testing.assert_allclose(codes.sum(-1), 2)
    options = ["--set", "nonnegative", "--p", "1", "--radius", "1", "--device", "cpu"]
    result = encode("data.npy", "-d", "D.npy", "-o", "other.npy", options=options)
    assert result.exit_code == 0
    assert (np.load("other.npy") >= 0).all()
    assert (np.load("other.npy").sum(-1) <= 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "ball"], "--set must be one of lp, nonnegative, simplex, got 'ball'"),
        (
            ["--set", "simplx"],
            "--set must be one of lp, nonnegative, simplex, got 'simplx'; did you mean simplex?",
        ),
        (
            ["--set", "simplex"],
            "simplex expects radius, the sum of a code, and no p, got no radius",
        ),
        (
            ["--set", "simplex", "--p", "2", "--radius", "1"],
            "simplex expects radius, the sum of a code, and no p, got p 2.0",
        ),
    ],
)
def test_other_sets_refuse_what_does_not_fit(folder, options, message):
    result = encode("data.npy", "-o", "codes.npy", options=options)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {message}\n"


class TestFolder:
    def test_a_summary(self, folder):
        (folder / "data").mkdir()
        rows = np.load("data.npy")
        rows[33, 2] = np.nan
        np.save("data/a.npy", rows[:20])
        np.save("data/b.npy", rows[20:])
        result = encode("data", "-o", "codes/")
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        assert lines[:3] == [
            "40 rows in 2 files",
            "39 certified",
            "1 not finite, with NaN as code",
        ]
        assert lines[3] == "no --dictionary: rows are projected on the ball"
        assert lines[-1] == "written to codes"
        bad, uncertified = result.stderr.splitlines()
        assert "b.npy must be finite, got NaN, infinite or missing values in 1 of its rows" in bad
        assert uncertified == "Warning: 1 of 40 rows are not certified."
        again = encode("data", "-o", "codes/", "--resume")
        assert again.stdout.splitlines()[0] == "40 rows in 2 files, 40 of them from before"
        strict = encode("data", "-o", "strict/", "--strict")
        assert strict.exit_code == 2
        assert "the first of them row 13 (counted from 0)" in strict.stderr

    def test_columns(self, folder):
        pq = pytest.importorskip("pyarrow.parquet")
        import pyarrow as pa

        x = np.load("data.npy")
        table = pa.table({"id": range(40), "a": x[:, 0], "b": x[:, 1], "text": ["t"] * 40})
        pq.write_table(table, "t.parquet")
        for output in ("codes.parquet", "codes/"):
            chosen = ["--columns", "a, b", "--keep", "id,text"]
            assert encode("t.parquet", "-o", output, *chosen).exit_code == 0
            names = pq.read_table(output).column_names
            assert names == ["id", "text", "code0", "code1"]
        np.save("D2.npy", np.eye(2))
        refused = encode("t.parquet", "-o", "c.parquet", "--keep", "text", "-d", "D2.npy")
        assert refused.exit_code == 2
        hint = "got (2, 2); --columns chooses the columns of the signal"
        assert hint in refused.stderr
        refused = encode("t.parquet", "-o", "codes.npy", "--keep", "id", "--columns", "a")
        assert refused.exit_code == 2
        assert "--keep needs a .parquet output, got codes.npy" in refused.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["-o", "codes", "--engine", "dask"], "engine must be local or ray, got 'dask'"),
            (["-o", "codes", "--address", "auto"], "--address needs --engine ray, got"),
            (["-o", "codes.npy", "--engine", "ray"], "--engine ray writes a folder, got the file"),
            (["-o", "codes.npy", "--address", "auto"], "--address auto writes a folder, got the"),
            (["-o", "codes", "--engine", "ray"], "fwnet.ray needs Ray: pip install '.[ray]' in"),
        ],
    )
    def test_engines(self, folder, monkeypatch, arguments, message):
        for name in [*sys.modules]:
            if name == "fwnet.ray" or name.startswith("fwnet.ray."):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
        result = encode("data.npy", *arguments)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith("Error: ")
        assert message in line
        assert not (folder / "codes").exists()
