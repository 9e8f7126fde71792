"""The package as people meet it: its names, what importing costs, and the wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
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


def test_every_public_name_resolves():
    for name in fwnet.__all__:
        assert getattr(fwnet, name) is not None
        assert name in dir(fwnet)
    with pytest.raises(AttributeError, match="no attribute 'nosuchname'"):
        _ = fwnet.nosuchname


def test_wheel_installs_into_a_clean_environment(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignore)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", tmp_path, source]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")

    environment = tmp_path / "env"
    venv.create(environment, with_pip=True, symlinks=os.name != "nt")
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    # The dependencies are gigabytes: borrow them, behind the environment's own packages.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])
    code = (
        "import fwnet, torch; print(fwnet.__file__); "
        "assert fwnet.LpBall(1.3).lmo(torch.ones(3)).shape == (3,)"
    )
    result = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert Path(result.stdout.strip()).is_relative_to(site)
    assert (site / "fwnet" / "py.typed").exists()
    command = [environment / "bin" / "fwnet", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert result.stdout.strip() == f"fwnet {fwnet.__version__}"
