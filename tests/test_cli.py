import os
import subprocess
import sys

import pytest

import fwnet


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "fwnet", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


def test_help_names_the_commands():
    result = run("--help")
    assert result.returncode == 0
    assert "demo" in result.stdout


def test_version():
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.strip() == f"fwnet {fwnet.__version__}"


@pytest.mark.parametrize(
    "arguments", [["nosuchcommand"], ["--nosuchoption"], ["demo", "--nosuchoption"], ["demo", "x"]]
)
def test_bad_command_line_prints_usage_and_exits_2(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "Usage" in result.stderr
    assert "Traceback" not in result.stderr


def test_demo_writes_one_page_with_its_pictures(tmp_path):
    # One thread: beside other tests, several would wait for each other most of the time.
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = run("demo", "--output", str(tmp_path / "new" / "folder"), env=one_thread)
    page = (tmp_path / "new" / "folder" / "index.html").read_text(encoding="utf-8")
    assert result.returncode == 0
    assert "index.html" in result.stdout.replace("\n", "")
    assert page.count("data:image/png;base64,") == 7
    assert len(list((tmp_path / "new" / "folder").glob("*.png"))) == 7


@pytest.mark.parametrize("command", [["demo"], ["bench", "import"]])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(command, tmp_path):
    (tmp_path / "taken").write_text("not a folder")
    result = run(*command, "--output", str(tmp_path / "taken"))
    assert result.returncode == 2
    assert "cannot write to" in result.stderr
    assert "Traceback" not in result.stderr
