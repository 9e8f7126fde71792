"""Command lines with arguments and files nobody meant: exit code 0 or 2, one line, no traceback."""

import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st
from PIL import Image

import fwnet
from tests.fuzz.edits import edited, edits, odd_words
from tests.fuzz.registry import Tried, target

LONG = "n" * 255
SHORT_TRAINING = ["--num-epochs", "1", "--batch-size", "2", "--seed", "0", "--device", "cpu"]
IMAGE_TRAINING = [*SHORT_TRAINING, "--steps-per-epoch", "1", "--crop-size", "24"]
NETWORK = ["--num-layers", "2", "--channels", "2"]
# Commands that are right and short, in a folder with the files of `prepared`.
COMMANDS = {
    "denoise": ["denoise", "a.png", "out.png", "--model", "net.safetensors", "--sigma", "20",
                "--strength", "0.5", "--tile", "32", "--device", "cpu"],
    "denoise a folder": ["denoise", "photos", "out", "--model", "net.safetensors", "--compare"],
    "upscale": ["upscale", "a.png", "out.tif", "--model", "net.safetensors", "--scale", "2"],
    "encode": ["encode", "x.npy", "-o", "z.npy", "--p", "1.5", "--radius", "1", "--dictionary",
               "D.npy", "--tol", "1e-6", "--device", "cpu", "--shard-rows", "3"],
    "encode a folder": ["encode", "x.npy", "-o", "codes", "--set", "simplex", "--radius", "1",
                        "--certificates", "proofs"],
    "encode with a network": ["encode", "x.npy", "-o", "z.npy", "--model", "coder.safetensors"],
    "train coder": ["train", "coder", "x.npy", "codes.npy", "-o", "run", "--num-layers", "2",
                    "--validation", "0.2", "--p", "1.5", *SHORT_TRAINING],
    "train denoise": ["train", "denoise", "-o", "run", "--data", "photos", "--sigma", "25",
                      "--validation", "1", *NETWORK, *IMAGE_TRAINING],
    "train upscale": ["train", "upscale", "-o", "run", "--data", "photos", "--scale", "2",
                      "--validation", "1", *NETWORK, *IMAGE_TRAINING],
    "train noise": ["train", "noise", "-o", "run", "--data", "photos", "--filters", "2",
                    "--validation", "1", "--channels", "2", *IMAGE_TRAINING, "--crop-size", "32"],
    "train from a file": ["train", "denoise", "-o", "run", "--data", "photos", "--config",
                          "c.toml", "--start", "net.safetensors", "--sigma", "25", *IMAGE_TRAINING],
    "models": ["models", "conv_fwnet_t4.upscale_x3", "--json"],
    "models, all": ["models"],
    "export": ["export", "net.safetensors", "net.pt2", "--format", "torch", "--force"],
    "reproduce": ["reproduce", "--output", "results"],
    "bench": ["bench"],
    "help": ["--help"],
}  # fmt: skip
# Values that ask for more work, which is not what is tested.
LABOR = {"--num-epochs", "--steps-per-epoch", "--num-layers", "--channels", "--filters",
         "--crop-size", "--batch-size", "--scale"}  # fmt: skip
VALUES = [
    "", " ", "0", "-1", "1", "2.5", "1e-300", "1e999", "nan", "inf", "-inf", "true", "None", "1,2",
    "abc", "0x10", "½", "١", "9" * 30, "--force", "-", "--", "~", "/nosuch/", ".", "..",
    "/dev/null", "/dev/zero", "/proc/self/mem", "nosuch/x.npy", "photos", "a.png", "x.npy", "D.npy",
    "loop", "net.safetensors", "empty.npy", "text.txt", "damaged.png", "damaged.npy", "pipe",
    "ß\u202e\U0001f600.png",
    "a\nb.png", LONG, f"{LONG}.png", f"x{LONG}.npy", "out.xyz", "readonly/out.png", "*.png",
    "[.png",    "file:///tmp/nosuch/x", "nosuch://x/y",
    "cuda:99", "mps", "meta", "auto", "lp", "torch", "onnx",
    "../" * 40 + "x", "x.npy\x1b[31m",
]  # fmt: skip


@functools.cache
def _prepared() -> str:
    """Make the folder of files once; return its name."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    rng = np.random.default_rng(0)
    (folder / "photos" / "sub").mkdir(parents=True)
    for name in ("a.png", "photos/b.png", "photos/c.jpg", "photos/sub/d.png"):
        Image.fromarray(rng.integers(0, 256, (40, 48), np.uint8)).save(folder / name)
    np.save(folder / "x.npy", rng.normal(size=(8, 4)))
    np.save(folder / "D.npy", rng.normal(size=(4, 6)))
    np.save(folder / "codes.npy", rng.normal(size=(8, 6)))
    torch.manual_seed(0)
    fwnet.ConvFWNet(2, 3).save(folder / "net.safetensors")
    fwnet.FWNet(4, 6, 2).save(folder / "coder.safetensors")
    (folder / "c.toml").write_text("momentum = 0.5\n")
    (folder / "empty.npy").touch()
    (folder / "text.txt").write_text("no image")
    (folder / "damaged.png").write_bytes((folder / "a.png").read_bytes()[:200])
    (folder / "damaged.npy").write_bytes((folder / "x.npy").read_bytes()[:150])
    (folder / "readonly").mkdir()
    return str(folder)


@contextmanager
def prepared() -> Iterator[Path]:
    """Work in a fresh copy of the folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name) / "here"
        shutil.copytree(_prepared(), folder)
        (folder / "loop").symlink_to("loop")
        os.mkfifo(folder / "pipe")
        (folder / "readonly").chmod(0o500)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
            (folder / "readonly").chmod(0o700)


def run(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; raise for a traceback or an exit code of its own.

    What was there before must be there afterwards, unless --force allows to replace it.
    """
    before = _contents()
    result = _run(arguments)
    if "--force" not in arguments:
        now = _contents()
        changed = [str(path) for path in before if before[path] != now.get(path)]
        assert not changed, f"changed or lost: {changed}"
    return result


def _contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def _run(arguments: list[str]) -> tuple[int, str]:
    from typer.testing import CliRunner

    from fwnet.cli import app

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 2), f"exit code {result.exit_code}: {result.output}"
    assert "Traceback" not in result.output
    by_click = "Usage" in result.stderr or "╭─ Error" in result.stderr
    if result.exit_code == 2 and not by_click:
        lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert lines, result.stderr
        assert all(len(line) > 15 for line in lines), result.stderr
    return result.exit_code, result.stderr


KINDS = ["a value replaced", "a value left out", "an argument twice", "an unknown option",
         "an argument inserted", "the order changed"]  # fmt: skip


def changed(arguments: list[str], kind: str, place: int, value: str) -> list[str]:
    """Return the arguments after one change."""
    arguments = list(arguments)
    places = [i for i in range(1, len(arguments)) if arguments[i - 1] not in LABOR]
    if "\0" in value:
        value = value.replace("\0", "0")  # which no shell can pass on
    if not places:
        return [*arguments, value]
    at = places[place % len(places)]
    if kind == "a value replaced":
        arguments[at] = value
    elif kind == "a value left out":
        del arguments[at]
    elif kind == "an argument twice":
        arguments.insert(at, arguments[at])
    elif kind == "an unknown option":
        arguments.insert(at, f"--{value}")
    elif kind == "an argument inserted":
        arguments.insert(at, value)
    else:
        arguments[at:] = arguments[at:][::-1]
    return arguments


def is_safe(arguments: list[str]) -> bool:
    """Return whether a command stays inside of its folder and ends soon."""
    words = " ".join(arguments)
    heavy = arguments[0] in ("demo", "app", "bench", "reproduce") and any(
        not a.startswith("-") for a in arguments[1:]
    )
    return not heavy and "--engine" not in words and "--quick" not in words


@target(
    "commands",
    st.tuples(
        st.sampled_from(sorted(COMMANDS)),
        st.lists(
            st.tuples(
                st.sampled_from(KINDS),
                st.integers(0, 40),
                st.one_of(st.sampled_from(VALUES), odd_words),
            ),
            max_size=3,
        ),
    ),
    kept=[
        ("denoise", [("a value replaced", 3, "pipe")]),  # a model that never ends
        ("train from a file", [("a value replaced", 6, "pipe")]),
    ],
    examples=6,
    needs=["fwnet.cli", "typer"],
)
def commands(case: tuple) -> Tried:
    """Command lines with changed arguments."""
    name, changes = case
    arguments = COMMANDS[name]
    for change in changes:
        arguments = changed(arguments, *change)
    kinds = {kind for kind, _, _ in changes}
    shown = "unchanged" if not kinds else kinds.pop() if len(kinds) == 1 else "several changes"
    if not is_safe(arguments):
        return Tried("command: would leave the folder", "skipped")
    with prepared():
        code, _ = run(arguments)
        rest = list(Path().rglob(".*.tmp"))
        assert not rest, f"left behind: {rest}"
    return Tried(f"command line: {shown}", f"exit code {code}")


@target(
    "explore",
    st.tuples(st.sampled_from(["x.npy", "rows.npy"]), edits),
    examples=0,
    needs=["fwnet.cli", "typer", "matplotlib"],
)
def explore(case: tuple) -> Tried:
    """fwnet explore, which takes long, with few and with damaged rows."""
    name, changes = case
    with prepared() as folder:
        np.save(folder / "rows.npy", np.random.default_rng(1).normal(size=(30, 4)) ** 3)
        (folder / name).write_bytes(edited((folder / name).read_bytes(), changes))
        code, _ = run(["explore", name, "-o", "page.html"])
    return Tried("fwnet explore with a damaged .npy", f"exit code {code}")


FILES = {"a.png": ["denoise", "denoise a folder", "upscale"], "x.npy": ["encode", "train coder"],
         "D.npy": ["encode"], "codes.npy": ["train coder"], "c.toml": ["train from a file"],
         "net.safetensors": ["denoise", "train from a file", "export"],
         "coder.safetensors": ["encode with a network"], "photos/b.png": ["denoise a folder"],
         "photos/c.jpg": ["denoise a folder", "train denoise"]}  # fmt: skip


@target(
    "command-files",
    st.tuples(st.sampled_from(sorted(FILES)), st.integers(0, 5), edits),
    examples=6,
    needs=["fwnet.cli", "typer"],
)
def command_files(case: tuple) -> Tried:
    """Right command lines with a damaged file."""
    file, place, changes = case
    name = FILES[file][place % len(FILES[file])]
    with prepared() as folder:
        path = folder / file
        path.write_bytes(edited(path.read_bytes(), changes))
        code, _ = run(COMMANDS[name])
    return Tried(f"fwnet {name} with a damaged {path.suffix}", f"exit code {code}")
