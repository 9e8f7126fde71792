"""Measure what `--engine ray` costs beside one process, and broken files among many photos.

    python -m tests.ray_figures overhead --output results/ray-overhead.json
    python -m tests.ray_figures photos --output results/ray-photos.json

overhead codes 1,000,000 × 64 rows in 40 Parquet files in turn with one process on all cores, with
one process and one thread, with Ray, and on a cluster of Ray that runs already, of which CPU time
and memory are those of the command alone. photos denoises 490 photos among 10 broken files.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from tests.ray_kills import OPTIONS, make_data

FWNET = [sys.executable, "-m", "fwnet"]


def measured(command: list[str], folder: Path, **environment: str) -> dict:
    """Run a command; return its seconds, CPU seconds, output and the most memory it had.

    All are sums over the process and its children, looked at twice per second. Memory is PSS: what
    processes share counts once.
    """
    start, most = time.monotonic(), 0
    cpu: dict[int, float] = {}
    env = os.environ | environment
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, env=env)
        while process.poll() is None:
            most = max(most, _look(process.pid, cpu))
            time.sleep(0.5)
        seconds = time.monotonic() - start
        for file in (out, err):
            file.seek(0)
        stdout, stderr = out.read(), err.read()
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(cpu.values()), 1),
        "peak_mib": round(most / 2**20),
        "exit_code": process.returncode,
        "stdout": stdout,
        "stderr": stderr,
    }


def _look(pid: int, cpu: dict[int, float]) -> int:
    """Return the memory of a process and its children; note the CPU time of each."""
    total = 0
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process in [parent, *parent.children(recursive=True)]:
            with contextlib.suppress(psutil.Error, OSError):
                total += process.memory_full_info().pss
                cpu[process.pid] = sum(process.cpu_times()[:2])
    return total


@contextlib.contextmanager
def running_cluster() -> Iterator[str]:
    """Yield the address of a cluster with all cores of this machine, as ray start makes it."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": os.cpu_count(), "object_store_memory": 256 << 20}
    cluster = Cluster(True, head_node_args={**head, "include_dashboard": False})
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def overhead(repeats: int, files: int, file_rows: int) -> dict:
    """Time one process and Ray in turn."""
    command = [*FWNET, "encode", "data/*.parquet", *OPTIONS, "--force", "-o"]
    ray = [*command, "codes-ray/", "--engine", "ray"]
    ways = {
        "one process, a thread per core": ([*command, "codes/"], {}),
        "one process, one thread": ([*command, "codes/"], {"OMP_NUM_THREADS": "1"}),
        "--engine ray": (ray, {}),
        "--engine ray --address": (ray, {}),
    }
    runs: dict[str, list] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        make_data(folder, files, file_rows)
        for _ in range(repeats):
            for name, (arguments, environment) in ways.items():
                load = os.getloadavg()[0]
                there = running_cluster() if "--address" in name else contextlib.nullcontext()
                with there as address:
                    more = ["--address", address] if address else []
                    done = measured([*arguments, *more], folder, **environment)
                if done["exit_code"]:
                    raise RuntimeError(f"{name}: {done['stderr']}")
                inside = re.search(r"([\d.]+) s, ", done["stdout"])
                row = {key: done[key] for key in ("seconds", "cpu_seconds", "peak_mib")}
                row |= {"without_start": float(inside[1]) if inside else None, "load_before": load}
                runs[name].append(row)
                print(name, row, flush=True)
    best = {
        name: {
            "median_seconds": statistics.median(row["seconds"] for row in rows),
            "least_seconds": min(row["seconds"] for row in rows),
            "least_cpu_seconds": min(row["cpu_seconds"] for row in rows),
            "peak_mib": max(row["peak_mib"] for row in rows),
        }
        for name, rows in runs.items()
    }
    return {"rows": files * file_rows, "summary": best, "runs": runs}


def photos(count: int, broken: int) -> dict:
    """Denoise crops of the sample photos of scikit-image, some of them broken."""
    import skimage.data

    samples = [getattr(skimage.data, name)() for name in ("astronaut", "cat", "chelsea", "rocket")]
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "photos").mkdir()
        bad = set(rng.choice(count, broken, replace=False).tolist())
        for number in range(count):
            sample = samples[number % len(samples)]
            top, left = (rng.integers(0, side - 240) for side in sample.shape[:2])
            crop = sample[top : top + 240, left : left + 240]
            noisy = crop + 15 * rng.standard_normal(crop.shape)
            path = folder / "photos" / f"{number:03}.jpg"
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=95)
            if number in bad:  # cut off, empty, or something else
                content = path.read_bytes()
                path.write_bytes([content[: len(content) // 2], b"", b"<html>"][number % 3])
        rows, results = {}, {}
        command = [*FWNET, "denoise", "photos", "--fast"]
        for name, more in {"one process": ["one"], "ray": ["ray", "--engine", "ray"]}.items():
            done = measured([*command, *more], folder)
            out, err = done.pop("stdout"), done.pop("stderr")
            written = {p.name: p.read_bytes() for p in (folder / more[0]).glob("*.jpg")}
            results[name] = (written, sorted(err.splitlines()))
            rows[name] = {**done, "lines": len(out.splitlines()), "results": len(written)}
            rows[name]["reported"] = sum(line.startswith("Error: ") for line in err.splitlines())
            print(name, rows[name], flush=True)
    one, many = results.values()
    same = {"same_results": one[0] == many[0], "same_errors": one[1] == many[1]}
    return {"photos": count, "broken": broken, **same, "runs": rows, "errors": one[1][:3]}


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["overhead", "photos"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--file-rows", type=int, default=25_000)
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--broken", type=int, default=10)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if asked.what == "overhead":
        record = overhead(asked.repeats, asked.files, asked.file_rows)
    else:
        record = photos(asked.photos, asked.broken)
    about = {"command": f"python -m tests.ray_figures {asked.what}", "cores": os.cpu_count()}
    record = {**about, "python": platform.python_version(), **record}
    print(json.dumps(record, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
