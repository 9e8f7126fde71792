"""The package as people meet it: its names, what importing costs, and the wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import fwnet

ROOT = Path(__file__).parents[1]


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(output.stdout.split())


def test_import_loads_torch_and_nothing_heavier():
    extra = modules_after("import fwnet") - modules_after("import torch")
    assert {name.partition(".")[0] for name in extra} == {"fwnet"}


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_waiting_threads_sleep_unless_the_user_says_otherwise(given, spins):
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import os, fwnet; print(os.environ.get('GOMP_SPINCOUNT'))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=kept | given
    )
    assert output.stdout.strip() == spins


def test_scikit_learn_is_imported_with_the_first_estimator():
    assert "sklearn" not in modules_after("import fwnet.coding")
    assert "sklearn" in modules_after("from fwnet.coding import LpCoder")


def test_every_public_name_resolves():
    for name in fwnet.__all__:
        assert getattr(fwnet, name) is not None
        assert name in dir(fwnet)
    with pytest.raises(AttributeError, match="no attribute 'nosuchname'"):
        _ = fwnet.nosuchname
    assert all(getattr(fwnet.coding, name) is not None for name in fwnet.coding.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nosuchname'"):
        _ = fwnet.coding.nosuchname


MODEL = "conv_fwnet_t2.denoise_test"


def ship_a_model(path, folder):
    """One more than there are, so that the test does not depend on them."""
    facts = dict.fromkeys(("summary", "data", "data_license", "command", "hardware"), "none")
    fwnet.ConvFWNet(2, 3).save(path)
    fwnet.zoo.ship(
        path, MODEL, folder=folder, seconds=0, figures={}, trained_for={"sigma": 25}, **facts
    )


def run_outside(*command, folder):
    """Run a command that sees nothing of the caller's Python, such as PYTHONPATH."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=folder, env=clean
    ).stdout.strip()


def test_wheel_installs_into_a_clean_environment(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignore)
    ship_a_model(tmp_path / "m.safetensors", source / "src" / "fwnet" / "zoo")
    build = [sys.executable, "-m", "build", "--no-isolation", "-o", tmp_path, source]
    subprocess.run([*build, "--wheel", "--sdist"], check=True, capture_output=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    models = {
        path.relative_to(source).as_posix()
        for kind in ("cards/*.json", "weights/*.safetensors")
        for path in (source / "src" / "fwnet" / "zoo").glob(kind)
    }
    assert wheel.stat().st_size <= 15e6
    with tarfile.open(sdist) as archive:
        assert models <= {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        assert {name.removeprefix("src/") for name in models} <= set(archive.namelist())

    environment = tmp_path / "env"
    venv.create(environment, with_pip=True, symlinks=os.name != "nt")
    python = environment / "bin" / "python"
    # Isolated from the user's settings of pip, which may ask for another place.
    install = ("-m", "pip", "--isolated", "install", "--no-deps", "--no-index", wheel)
    run_outside(python, *install, folder=tmp_path)
    # The dependencies are gigabytes: borrow them, behind the environment's own packages.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])
    code = (
        "import fwnet, torch; print(fwnet.__file__); "
        "assert fwnet.LpBall(1.3).lmo(torch.ones(3)).shape == (3,)"
    )
    assert Path(run_outside(python, "-c", code, folder=tmp_path)).is_relative_to(site)
    assert (site / "fwnet" / "py.typed").exists()
    command = environment / "bin" / "fwnet"
    assert run_outside(command, "--version", folder=tmp_path) == f"fwnet {fwnet.__version__}"
    assert MODEL in run_outside(command, "models", MODEL, folder=tmp_path)
    code = f"import fwnet; print(type(fwnet.load_model({MODEL!r})).__name__)"
    assert run_outside(python, "-c", code, folder=tmp_path) == "ConvFWNet"


def test_changelog_and_citation_name_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = next(line for line in changelog.splitlines() if line.startswith("## "))
    assert heading.startswith(f"## {fwnet.__version__} (")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {fwnet.__version__}" in citation
