"""What fwnet rests on: exact versions, licenses, and no network unless it is asked for."""

import re
import subprocess
import sys
from pathlib import Path

from tests.licenses import installed

ROOT = Path(__file__).parents[1]
# All may be used, changed and passed on with an MIT project, also in products.
KNOWN = re.compile(
    r"(0BSD|Apache-2\.0|BSD(-[23]-Clause)?|BSL-1\.0|CC0-1\.0|ISC|LLVM-exception|MIT(-0|-CMU)?"
    r"|MPL-2\.0|PSF-2\.0|Unlicense|Zlib)"
)


def test_the_page_of_licenses_is_complete():
    listed = dict(
        re.findall(r"^\| (\S+) \| (.+?) \|", (ROOT / "docs/licenses.md").read_text(), re.M)
    )
    for name, (text, _) in installed().items():
        if not name.startswith("nvidia-"):
            assert listed.get(name) == text, f"{name}: {text}"
    for name in ("numpy", "torch", "pillow", "pyparsing", "iniconfig"):
        assert name in listed  # needed by fwnet, by what it needs, and for tests


def test_all_licenses_are_free_ones():
    for name, (text, _) in installed().items():
        parts = re.split(r"\s*(?:\(|\)|\bAND\b|\bOR\b|\bWITH\b)\s*", text)
        unknown = [part for part in parts if part and not KNOWN.fullmatch(part)]
        assert not unknown or name.startswith("nvidia-"), f"{name}: {text}"


def test_every_package_has_an_exact_version():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    assert all(re.match(r"#|[\w.-]+==[\w.]+( #.*)?$", line) for line in lines)
    assert installed().keys() - pinned <= {"nvidia"}


MAIN_PATHS = """
import sys
used = []
sys.addaudithook(lambda event, _: used.append(event) if event.startswith("socket.") else None)
import fwnet, numpy as np, torch
from typer.testing import CliRunner
from fwnet.cli import app
def command(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
fwnet.solve(torch.ones(2, 3), torch.eye(3), fwnet.LpBall(1.5, 1.0))
fwnet.denoise(np.zeros((16, 16), np.uint8))
fwnet.upscale(np.zeros((8, 8), np.uint8), scale=2)
np.save("x.npy", np.random.default_rng(0).normal(size=(20, 3)))
from PIL import Image
Image.new("L", (20, 16)).save("a.png")
command("--help")
command("models")
command("reproduce")
command("bench")
command("denoise", "a.png", "b.png")
command("encode", "x.npy", "-o", "z.npy", "--p", 1.5, "--radius", 1)
command("train", "coder", "x.npy", "z.npy", "-o", "run", "--batch-size", 9, "--num-epochs", 1)
fwnet.load_model("run/model.safetensors")
print("used:", *used)
"""


def test_no_socket_is_made_unasked(tmp_path):
    command = [sys.executable, "-c", MAIN_PATHS]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.stdout.strip() == "used:", result.stdout + result.stderr


def test_the_watch_on_sockets_sees_one(tmp_path):
    code = MAIN_PATHS.partition("import fwnet")[0] + "import socket; socket.socket(); print(*used)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "socket.__new__" in result.stdout
