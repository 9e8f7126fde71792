import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import fwnet
from fwnet.cli import _say_what_cannot_be_raised, app


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "fwnet", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


def invoke(*arguments):
    """The same in this process, which spares the imports."""
    return CliRunner().invoke(app, arguments)


def test_as_a_module():
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.strip() == f"fwnet {fwnet.__version__}"


def test_help_names_the_commands():
    result = invoke("--help")
    assert result.exit_code == 0
    commands = "demo app denoise upscale encode explore train reproduce models export bench"
    for name in commands.split():
        assert name in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["denoise"],
        ["upscale"],
        ["export"],
        ["app"],
        ["train", "denoise"],
        ["train", "upscale"],
        ["train", "coder"],
    ],
)
def test_help_fits_a_terminal(command, monkeypatch):
    """80 columns: names of options are whole, texts are not squeezed, flags have no type."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke(*command, "--help").stdout
    assert "<bool>" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    if command[0] == "train":
        for name in ("--checkpoint-seconds", "--learning-rate", "--weight-decay"):
            assert name in shown


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nosuchcommand"], "No such command 'nosuchcommand'"),
        (["--nosuchoption"], "No such option: --nosuchoption"),
        (["demo", "x"], "expected options only, got x"),
        (["train", "upscale", "photos"], "got photos; did you mean --data photos?"),
        (["denoise", "a", "b", "--sigma"], "--sigma"),
        (["denoise", "a", "b", "--sigma", "abc"], "'abc'"),
    ],
)
def test_a_bad_command_line_is_one_line_and_exit_code_2(arguments, line):
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert line in result.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["reproduce", "synthetic-l2"], "did you mean synthetic-l1"),
        (["reproduce", "xyz"], "run fwnet reproduce for a list"),
        (["bench", "upscal"], "did you mean upscale?"),
    ],
)
def test_similar_names_are_suggested(arguments, hint):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert hint in result.stderr


@pytest.mark.parametrize("command", [["demo"], ["bench", "import"]])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(command, tmp_path):
    (tmp_path / "taken").write_text("not a folder")
    result = invoke(*command, "--output", str(tmp_path / "taken"))
    assert result.exit_code == 2
    assert "cannot write to" in result.stderr


@pytest.mark.parametrize(("kind", "count"), [(MemoryError, 0), (KeyError, 1)])
def test_a_lack_of_memory_in_a_callback_is_left_to_the_line_at_the_end(kind, count, monkeypatch):
    said = []
    monkeypatch.setattr(sys, "__unraisablehook__", said.append)
    _say_what_cannot_be_raised(SimpleNamespace(exc_type=kind))
    assert len(said) == count
