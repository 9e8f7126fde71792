"""Small works for `tests.faults` and `tests.test_faults`: commands, their input, their results."""

import gzip
import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import safe_open

from fwnet.cli.command import reported_errors
from fwnet.data import digits

MODELS = ("model.safetensors", "checkpoint.safetensors")


@dataclass(frozen=True)
class Work:
    """A command to kill.

    Attributes:
        arguments: What follows `fwnet`; or a function to call instead.
        resume: The option that continues a run.
        make: Function that makes the input in a folder.
        results: Names of what it writes.
    """

    arguments: str | Callable[[], object]
    resume: str
    make: Callable[[Path], None]
    results: tuple[str, ...]

    @property
    def again(self) -> str | Callable[[], object]:
        """What continues it."""
        return f"{self.arguments} {self.resume}" if self.resume else self.arguments


def make_rows(folder: Path) -> None:
    """Write data.npy, data/*.npy and D.npy."""
    rng = np.random.default_rng(0)
    np.save(folder / "D.npy", rng.standard_normal((16, 32)))
    np.save(folder / "data.npy", rng.standard_normal((2000, 16)))
    (folder / "data").mkdir()
    for index in range(6):
        np.save(folder / f"data/{index}.npy", rng.standard_normal((300, 16)))


def make_pairs(folder: Path) -> None:
    """Write x.npy and z.npy."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400, 24)).astype(np.float32)
    np.save(folder / "z.npy", z)
    np.save(folder / "x.npy", z @ rng.standard_normal((24, 12)).astype(np.float32))


def make_photo(path: Path, side: int, seed: int) -> None:
    """Write an image of soft waves with noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    angles = rng.normal(0, 0.2, (2, 3))
    waves = np.sin(x[..., None] * angles[0] + y[..., None] * angles[1])
    pixels = 128 + 90 * waves + rng.normal(0, 15, waves.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def make_photos(folder: Path, count: int = 12, side: int = 48) -> None:
    """Write images to photos/."""
    for index in range(count):
        make_photo(folder / f"photos/{index % 3}/{index}.png", side, index)


ARCHIVES = {name: gzip.compress(name.encode() * 10**5, 0, mtime=0) for name in ("a", "b")}


def serve(folder: Path) -> None:
    """Start a server of this machine, in this process, with two files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ARCHIVES[self.path[1]])

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    digits.SOURCES = (f"http://127.0.0.1:{server.server_port}/",)


def download() -> None:
    """Download both files to cache/, as those of MNIST are."""
    os.environ.pop("FWNET_DATA", None)
    os.environ["XDG_CACHE_HOME"] = str(Path("cache").absolute())
    with reported_errors():
        for name, archive in ARCHIVES.items():
            content = gzip.decompress(archive)
            sums = [hashlib.md5(part, usedforsecurity=False) for part in (content, archive)]
            digits.FILES[name] = [one.hexdigest() for one in sums]
            if digits._read(None, name) != content:
                raise AssertionError(f"{name} is not what was published")


ENCODE = "-d D.npy --p 1.3 --radius 2 --shard-rows"
TRAIN = "-o net --checkpoint-seconds 0.05 --num-layers 2 --device cpu --batch-size"
WORKS = {
    "encode a file": Work(
        f"encode data.npy -o codes.npy --certificates why.npy {ENCODE} 50",
        "--resume",
        make_rows,
        ("codes.npy", "why.npy"),
    ),
    "encode a folder": Work(
        f"encode data -o codes --certificates why {ENCODE} 60",
        "--resume",
        make_rows,
        ("codes", "why"),
    ),
    "train coder": Work(
        f"train coder x.npy z.npy {TRAIN} 40 --num-epochs 8", "--resume", make_pairs, ("net",)
    ),
    "train denoise": Work(
        f"train denoise --data photos --sigma 25 {TRAIN} 4 --num-epochs 3 --steps-per-epoch 10 "
        "--channels 4 --crop-size 24",
        "--resume",
        make_photos,
        ("net",),
    ),
    "denoise": Work(
        "denoise photos clean --sigma 25 --fast --device cpu",
        "--skip-existing",
        make_photos,
        ("clean",),
    ),
    "upscale": Work(
        "upscale photos large --scale 2 --compare --device cpu",
        "--skip-existing",
        make_photos,
        ("large",),
    ),
    "denoise a large image": Work(
        "denoise large.png clean.png --sigma 25 --fast --tile 1000 --device cpu",
        "--skip-existing",
        lambda folder: make_photo(folder / "large.png", 700, 0),
        ("clean.png",),
    ),
    "encode large rows": Work(
        "encode large.npy -o codes.npy --p 1.3 --radius 2",
        "--resume",
        lambda folder: np.save(folder / "large.npy", np.random.default_rng(0).random((1000, 2000))),
        ("codes.npy",),
    ),
    "reproduce": Work(
        "reproduce digits-initial-p --quick --workers 1 --device cpu -o found",
        "",
        lambda folder: None,
        ("found",),
    ),
    "download": Work(download, "", serve, ("cache",)),
}
KILLED = tuple(WORKS)[:6]


def content(folder: Path, results: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of all files of results; of models and histories, without times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name.split("/")[0] not in results:
            continue
        if path.name in MODELS:
            with safe_open(path, "pt") as file:
                data = b"".join(
                    key.encode() + file.get_tensor(key).numpy().tobytes()
                    for key in sorted(file.keys())
                )
        elif path.name == "history.jsonl":
            lines = [{**json.loads(line), "seconds": 0} for line in path.read_text().splitlines()]
            data = json.dumps(lines).encode()
        elif path.name == "_manifest.json":
            manifest = json.loads(path.read_text())
            manifest["identity"].pop("files")  # with the times of the inputs
            data = json.dumps(manifest).encode()
        elif name.startswith("found/") and path.suffix == ".json":
            result = json.loads(path.read_text())
            rows = [{**row, "seconds": 0} for row in result["rows"]]
            data = json.dumps({**result, "rows": rows}).encode()
        else:
            data = path.read_bytes()
        found[name] = hashlib.sha256(data).hexdigest()
    return found
