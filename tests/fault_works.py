"""Small works for `tests.faults` and `tests.test_faults`: commands, their input, their results."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import safe_open

MODELS = ("model.safetensors", "checkpoint.safetensors")


@dataclass(frozen=True)
class Work:
    """A command to kill.

    Attributes:
        arguments: What follows `fwnet`.
        resume: The option that continues a run.
        make: Function that makes the input in a folder.
        results: Names of what it writes.
    """

    arguments: str
    resume: str
    make: Callable[[Path], None]
    results: tuple[str, ...]


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


def make_photos(folder: Path, count: int = 12, side: int = 48) -> None:
    """Write images of soft waves with noise to photos/."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    for index in range(count):
        angles = rng.normal(0, 0.2, (2, 3))
        waves = np.sin(x[..., None] * angles[0] + y[..., None] * angles[1])
        pixels = 128 + 90 * waves + rng.normal(0, 15, waves.shape)
        path = folder / f"photos/{index % 3}/{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


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
}


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
        else:
            data = path.read_bytes()
        found[name] = hashlib.sha256(data).hexdigest()
    return found
