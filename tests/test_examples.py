"""Every public object has an example in its docstring that runs, and a place in the API pages."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import fwnet
from tests.real_data import DATA

ROOMS = [name for name in fwnet.__all__ if inspect.ismodule(getattr(fwnet, name))]
NAMES = [f"{room}.{name}" for room in ROOMS for name in getattr(fwnet, room).__all__]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Objects whose examples read a data set of the paper, or use an optional package.
DATA_SET = {
    "data.berkeley_files": "bsds500",
    "data.berkeley_training_files": "bsds500",
    "data.berkeley_validation_files": "bsds500",
    "data.camera_pairs": "polyu",
    "data.load_mnist": "mnist",
    "data.set14_files": "set14",
    "data.set5_files": "set5",
    "data.t91_files": "t91",
}
PACKAGE = {"solvers.CVX": "cvxpy"}


def public(name):
    room, _, name = name.partition(".")
    return getattr(getattr(fwnet, room), name)


def is_documented(name):
    """Constants and types have no docstring of their own."""
    return inspect.isclass(public(name)) or inspect.isroutine(public(name))


@pytest.mark.parametrize("name", [*filter(is_documented, NAMES)])
def test_the_example_runs(name, tmp_path, monkeypatch):
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(public(name)), {}, name, None, None)
    assert test.examples, f"fwnet.{name} has no example in its docstring"
    if name in PACKAGE:
        pytest.importorskip(PACKAGE[name])
    if name in DATA_SET and not (DATA / DATA_SET[name]).is_dir():
        pytest.skip(f"{DATA_SET[name]} not here (FWNET_DATA)")
    monkeypatch.setenv("FWNET_DATA", str(DATA))
    monkeypatch.chdir(tmp_path)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def test_a_wrong_example_fails():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert "Expected:\n    3" in "".join(report)


def test_every_name_is_in_the_reference():
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"fwnet\.[\w.]+", page))
    for name in NAMES:
        short = name.rpartition(".")[2]
        lifted = short in fwnet.__all__ and public(name) is getattr(fwnet, short)
        assert f"fwnet.{short if lifted else name}" in listed, name
    assert {name for name in fwnet.__all__ if name not in ROOMS} <= {
        n.rpartition(".")[2] for n in NAMES
    }
