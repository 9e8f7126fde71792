"""Kill, starve and overload fwnet, and record what happened.

    python -m tests.faults kills --runs 100 --output results/fault-kills.json
    python -m tests.faults table --tries 10 --output results/faults.json
    python -m tests.faults images --count 10000 --output results/load-images.json
    python -m tests.faults rows --count 10000000 --output results/load-rows.json

`kills`: each command gets SIGKILL at a random moment of its work, in a fresh folder, and is started
again; what it leaves must be, bit by bit, what a run without a kill leaves, and nothing else.
`table`: every kind of fault with every command; then the command again, without the fault.
`images`: one process denoises a folder of small images; its memory is noted along the way.
`rows`: one process encodes a file; every code is checked against its row, without fwnet.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
import torch

import fwnet.cli
from tests.fault_kinds import FAULTS, try_fault
from tests.fault_works import KILLED, WORKS, Work, content, make_photos
from tests.forked import Command

# Imported once, for all forks.
PRELOADED = ["fwnet.coding", "fwnet.imaging", "fwnet.training.picture"]
PRELOADED += ["torch._dynamo", "matplotlib.backends.backend_agg"]
DIFFERENT = 100  # images of `images`
BLOCK = 1 << 20  # rows that are made or checked at a time
P, Q = 1.3, 1.3 / 0.3
SAMPLE_SECONDS = 0.5


def run_kills(name: str, runs: int, seed: int) -> dict:
    """Kill a command in `runs` fresh folders, half of those that go on once more, and so on."""
    work = WORKS[name]
    rng = random.Random(f"{seed} {name}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as text:
        base = Path(text)
        work.make(base)
        inputs = {path.name for path in base.iterdir()}
        durations = []
        for _ in range(3):
            _remove(base, inputs)
            whole = Command(work.arguments, base).start()
            if whole.wait(300):
                raise RuntimeError(f"{name} failed: {whole.err.read_text()}")
            durations.append(time.monotonic() - whole.began)
        seconds = statistics.median(durations)
        expected = content(base, work.results)
        counts: Counter[str] = Counter()
        bad = []
        while counts["runs"] < runs:
            _remove(base, inputs)
            if not killed(Command(work.arguments, base), rng.uniform(0, seconds)):
                counts["ended before the kill"] += 1
                continue
            counts["runs"] += 1
            counts["kills"] += 1
            counts["kills that left results"] += bool(content(base, work.results))
            again = Command(work.again, base)
            while rng.random() < 0.5 and killed(again, rng.uniform(0, seconds)):
                counts["kills"] += 1
            unfinished = again.status in (None, -signal.SIGKILL)
            code = again.start().wait(300) if unfinished else again.status
            errors = again.err.read_text()
            if "codes.npy exists; overwrite it" in errors:  # the last kill came after the work
                code, counts["killed after the work"] = 0, counts["killed after the work"] + 1
            left = {path.name for path in base.iterdir()} - inputs - {"out", "err"}
            found = content(base, work.results)
            different = sorted({one for one, _ in expected.items() ^ found.items()})
            if code or different or left != {*work.results}:
                bad.append([code, sorted(left), different, errors[-500:]])
    return {
        "command": f"fwnet {work.arguments}",
        "resumed with": work.resume,
        "seconds of a run": round(seconds, 2),
        **counts,
        "identical, and nothing else left": runs - len(bad),
        "bad": bad,
        "seconds": round(time.monotonic() - began, 1),
    }


def killed(command: Command, moment: float) -> bool:
    """Start a command and kill it after some seconds; return whether it was still at work."""
    command.start()
    while command.runs() and time.monotonic() - command.began < moment:
        time.sleep(0.0005)
    command.send(signal.SIGKILL)
    return command.wait() == -signal.SIGKILL


def _remove(folder: Path, inputs: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in inputs:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def kills(asked: argparse.Namespace) -> dict:
    """SIGKILL at random moments."""
    done = {}
    for name in asked.works or KILLED:
        done[name] = run_kills(name, asked.runs, asked.seed)
        print(name, json.dumps(done[name], ensure_ascii=False), flush=True)
    return done


def table(asked: argparse.Namespace) -> dict:
    """Try every kind of fault with every command."""
    found: dict[str, dict] = {}
    for name in asked.works or WORKS:
        work = WORKS[name]
        warm_up(work)
        with small_disk() as folder:
            work.make(folder)
            inputs = {path.name for path in folder.iterdir()}
            whole = Command(work.arguments, folder, log=folder.parent).start()
            if whole.wait(300):
                raise RuntimeError(f"{name} failed: {whole.err.read_text()}")
            seconds, expected = time.monotonic() - whole.began, content(folder, work.results)
            for kind in asked.kinds or FAULTS:
                if name not in FAULTS[kind].works:
                    continue
                row = found.setdefault(kind, {"what": FAULTS[kind].words, "commands": {}})
                outcomes: Counter[str] = Counter()
                wrong, began = [], time.monotonic()
                for number in range(1 if name == "reproduce" else asked.tries):
                    _remove(folder, inputs)
                    seed = f"{asked.seed} {kind} {name} {number}"
                    tried = try_fault(FAULTS[kind], work, folder, seed, seconds, expected)
                    outcomes[f"{tried['code']} {tried['line']}".strip()] += 1
                    wrong += [[*tried["wrong"], tried["stderr"]]] if tried["wrong"] else []
                row["commands"][name] = {"outcomes": outcomes, "wrong": wrong}
                shown = json.dumps(row["commands"][name], ensure_ascii=False)
                print(f"{kind}, {name}, {time.monotonic() - began:.0f} s: {shown}", flush=True)
    commands = [one for row in found.values() for one in row["commands"].values()]
    tries = sum(sum(one["outcomes"].values()) for one in commands)
    return {
        "kinds": len(found),
        "tries": tries,
        "wrong": sum(len(one["wrong"]) for one in commands),
        "faults": found,
    }


def warm_up(work: Work) -> None:
    """Run a command once in this process, so that its forks import nothing."""
    here, arguments = Path.cwd(), sys.argv
    with tempfile.TemporaryDirectory() as text, contextlib.redirect_stdout(io.StringIO()):
        work.make(Path(text))
        os.chdir(text)
        try:
            sys.argv = ["fwnet", *str(work.arguments).split()]
            work.arguments() if callable(work.arguments) else fwnet.cli.main()
        except SystemExit as stop:
            if stop.code:
                raise RuntimeError(f"{work.arguments} failed") from stop
        finally:
            os.chdir(here)
            sys.argv = arguments


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """Yield a folder on a disk of its own, in memory; needs root."""
    with tempfile.TemporaryDirectory() as text:
        Path(text).chmod(0o755)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", text], check=True)
        try:
            folder = Path(text) / "work"
            folder.mkdir()
            yield folder
        finally:
            subprocess.run(["umount", text], check=True)


def images(asked: argparse.Namespace) -> dict:
    """Denoise many small images in one process."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        make_photos(folder, DIFFERENT, 32)
        different = sorted((folder / "photos").rglob("*.png"))
        (folder / "many").mkdir()
        for index in range(asked.count):
            os.link(different[index % DIFFERENT], folder / f"many/{index:06}.png")
        words = "denoise many clean --sigma 25 --fast --device cpu"
        clean = folder / "clean"
        record = watched(words, folder, lambda: len([*clean.glob("*")]))
        contents: dict[int, set[bytes]] = {}
        for path in clean.iterdir():
            contents.setdefault(int(path.stem) % DIFFERENT, set()).add(path.read_bytes())
        count = len([*clean.iterdir()])
    if count != asked.count or any(len(some) > 1 for some in contents.values()):
        raise AssertionError("images are missing, or equal images have different results")
    return {
        **record,
        "images": count,
        "images per second of CPU": round(count / record["CPU seconds"], 1),
        "different images": DIFFERENT,
        "different results": len(contents),
    }


def rows(asked: argparse.Namespace) -> dict:
    """Encode many rows in one process."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        atoms = rng.standard_normal((8, 12))
        np.save(folder / "D.npy", atoms)
        x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (asked.count, 8))
        for first in range(0, asked.count, BLOCK):
            x[first : first + BLOCK] = rng.standard_normal((len(x[first : first + BLOCK]), 8))
        x.flush()
        words = "encode x.npy -d D.npy --p 1.3 --radius 1 -o z.npy --certificates why.npy"
        manifest = folder / "z.npy.parts/manifest.json"

        def done() -> int:
            return json.loads(manifest.read_text())["rows_done"] if manifest.exists() else 0

        record = watched(words, folder, done)
        z, why = (np.load(folder / name, mmap_mode="r") for name in ("z.npy", "why.npy"))
        if len(z) != asked.count or len(why) != asked.count:
            raise AssertionError(f"expected {asked.count} rows, got {len(z)} and {len(why)}")
        largest = 0.0
        for first in range(0, asked.count, BLOCK):
            signals, codes = (some[first : first + BLOCK].astype(np.float64) for some in (x, z))
            gradient = (codes @ atoms.T - signals) @ atoms
            gap = (abs(gradient) ** Q).sum(1) ** (1 / Q) + (gradient * codes).sum(1)
            gap = np.minimum(gap, 0.5 * ((codes @ atoms.T - signals) ** 2).sum(1))
            largest = max(largest, float((gap / (0.5 * (signals**2).sum(1))).max()))
            if (abs(codes) ** P).sum(1).max() > (1 + 1e-5) ** P or largest > 0.02:
                raise AssertionError("a code is outside of the ball, or not that of its row")
        certified = int((why["status_code"] == 0).sum())
    return {
        **record,
        "rows": asked.count,
        "rows per second of CPU": round(asked.count / record["CPU seconds"]),
        "certified": certified,
        "largest Frank-Wolfe gap, recomputed, as a part of ½‖x‖²": float(f"{largest:.2g}"),
    }


def watched(words: str, folder: Path, done: Callable[[], int]) -> dict:
    """Run a command and note its memory along the way."""
    command = Command(words, folder).start()
    samples: list[tuple[int, int]] = []
    peak, cpu = 0, 0.0
    while command.runs():
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            process = psutil.Process(command.pid)
            memory, times = process.memory_info(), process.cpu_times()
            peak, cpu = max(peak, memory.rss), times.user + times.system
            samples.append((done(), memory.rss >> 20))
        time.sleep(SAMPLE_SECONDS)
    if command.wait():
        raise RuntimeError(f"{words} failed: {command.err.read_text()}")
    shown = samples[:: max(1, len(samples) // 20)]
    return {
        "fwnet": words,
        "seconds": round(time.monotonic() - command.began, 1),
        "CPU seconds": round(cpu, 1),
        "MB at most": peak >> 20,
        "MB along the way": [{"done": some, "MB": megabytes} for some, megabytes in shown],
        "samples": len(samples),
        "stderr": command.err.read_text(),
        "last lines": command.out.read_text().splitlines()[-5:],
    }


def main() -> None:
    """Run what is asked for, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("kills")
    one.add_argument("--runs", type=int, default=100)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--works", nargs="*", choices=KILLED)
    one.set_defaults(function=kills)
    one = parts.add_parser("table")
    one.add_argument("--tries", type=int, default=10)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--works", nargs="*", choices=WORKS)
    one.add_argument("--kinds", nargs="*", choices=FAULTS)
    one.set_defaults(function=table)
    for function, count in ((images, 10_000), (rows, 10_000_000)):
        one = parts.add_parser(function.__name__)
        one.add_argument("--count", type=int, default=count)
        one.set_defaults(function=function)
    for part in parts.choices.values():
        part.add_argument("--output", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for module in PRELOADED:
        importlib.import_module(module)
    about = {"command": shlex.join(["python", "-m", "tests.faults", *sys.argv[1:]])}
    text = json.dumps({**about, **asked.function(asked)}, indent=1, ensure_ascii=False)
    print(text)
    if asked.output:
        asked.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
