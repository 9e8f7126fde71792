"""Kill workers, machines and drivers of `fwnet encode --engine ray`, and compare the codes.

    python -m tests.ray_kills --runs 10 --output results/ray-kills.json

Each run starts a cluster of three nodes on this machine and codes 1,000,000 × 64 rows in 40 Parquet
files. At random moments a worker, a node (its raylet) and the driver get SIGKILL, in random order.
A node comes back; a driver is started again with --resume. The codes must be those of one process,
every row once and certified.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

OPTIONS = ["--dictionary", "D.npy", "--p", "1.3", "--radius", "2", "--keep", "id"]


def make_data(folder: Path, num_files: int, file_rows: int) -> None:
    """Write data/ and D.npy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((64, 128)).astype(np.float32)
    np.save(folder / "D.npy", atoms / np.linalg.norm(atoms, axis=0))
    (folder / "data").mkdir()
    for number in range(num_files):
        x = rng.standard_normal((file_rows, 64)).astype(np.float32)
        columns = {"id": np.arange(number * file_rows, (number + 1) * file_rows)}
        columns |= {f"x{i}": np.ascontiguousarray(x[:, i]) for i in range(64)}
        pq.write_table(pa.table(columns), folder / "data" / f"part-{number:02}.parquet")


def encode(folder: Path, output: str, *more: str) -> "subprocess.Popen[str]":
    """Start `fwnet encode`."""
    command = [sys.executable, "-m", "fwnet", "encode", "data/*.parquet", "-o", output]
    command += [*OPTIONS, "--certificates", f"{output}-why", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, **pipes)


class Cluster:
    """Three nodes with one CPU each. The first one is the head, and is not killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        small = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        self._node = {"num_cpus": 1, "object_store_memory": 100 << 20}
        self.cluster = RayCluster(initialize_head=True, head_node_args=small)
        self.nodes = [self.cluster.add_node(**self._node) for _ in range(2)]

    def kill_worker(self, rng: random.Random) -> bool:
        """SIGKILL a process that is at work on a range of rows, if there is one within seconds."""
        for _ in range(500):
            working = []
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error, OSError):
                    if process.cmdline()[:1] == ["ray::_apply"]:
                        working.append(process)
            if working:
                rng.choice(working).send_signal(signal.SIGKILL)
                return True
            time.sleep(0.02)
        return False

    def kill_node(self, rng: random.Random) -> bool:
        """SIGKILL a node, and add one."""
        node = self.nodes.pop(rng.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.cluster.add_node(**self._node))
        return True

    def close(self) -> None:
        """Stop all nodes."""
        self.cluster.shutdown()


def run(folder: Path, seed: int, num_files: int, delay: float) -> dict:
    """Return what was killed when, and whether the codes are those of one process."""
    import pyarrow.parquet as pq

    rng = random.Random(seed)
    output = f"codes-{seed}"
    kinds = ["worker", "node", "driver"]
    rng.shuffle(kinds)
    moments = sorted(rng.uniform(0, 0.9) for _ in kinds)
    start, killed = time.monotonic(), []
    cluster = Cluster()
    address = ["--engine", "ray", "--address", cluster.cluster.address]
    driver = encode(folder, output, *address)
    try:
        for kind, moment in zip(kinds, moments, strict=True):
            while driver.poll() is None and _done(folder / output) < moment * num_files:
                time.sleep(0.05)
            time.sleep(rng.uniform(0, delay))
            if driver.poll() is not None:
                break  # too fast for what is left to kill
            done = _done(folder / output)
            if kind == "driver":
                driver.send_signal(signal.SIGKILL)
                driver.communicate()
                driver = encode(folder, output, *address, "--resume")
            else:
                kill = cluster.kill_worker if kind == "worker" else cluster.kill_node
                if not kill(rng):
                    continue
            killed.append({"what": kind, "files_done": done})
        stdout, stderr = driver.communicate(timeout=900)
        if driver.returncode:
            raise RuntimeError(f"the driver failed: {stderr}")
    finally:
        driver.kill()
        cluster.close()
    one, many = (pq.read_table(folder / name) for name in ("codes", output))
    why = [np.load(path) for path in sorted((folder / f"{output}-why").glob("*.npy"))]
    manifest = json.loads((folder / output / "_manifest.json").read_text())
    return {
        "seed": seed,
        "killed": killed,
        "seconds": round(time.monotonic() - start, 1),
        "summary": stdout.splitlines()[:3],
        "rows": many.num_rows,
        "different_ids": len(np.unique(many["id"].to_numpy())),
        "certified": int(sum((records["status_code"] == 0).sum() for records in why)),
        "rows_in_manifest": sum(record["rows"] for record in manifest["records"].values()),
        "identical_to_one_process": many.equals(one),
        "left_over": [p.name for p in (folder / output).iterdir() if p.name[0] == "."],
    }


def _done(output: Path) -> int:
    """Return how many files are done."""
    folder = output / "_done"
    return len([*folder.iterdir()]) if folder.is_dir() else 0


def main(arguments: list[str] | None = None) -> list[dict]:
    """Run and write the record; raise if a run went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--file-rows", type=int, default=25_000)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    rows = asked.files * asked.file_rows
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        make_data(folder, asked.files, asked.file_rows)
        alone = encode(folder, "codes")
        _, stderr = alone.communicate()
        if alone.returncode:
            raise RuntimeError(f"one process failed: {stderr}")
        runs = []
        for seed in range(asked.runs):
            # Up to the time that a file takes.
            runs.append(run(folder, seed, asked.files, asked.file_rows / 25_000))
            print(json.dumps(runs[-1]), flush=True)
            if asked.output:
                about = {"command": f"python -m tests.ray_kills --runs {asked.runs}", "rows": rows}
                asked.output.write_text(json.dumps({**about, "runs": runs}, indent=1) + "\n")
    for one in runs:
        counts = one["rows"], one["different_ids"], one["certified"], one["rows_in_manifest"]
        if counts != (rows,) * 4 or not one["identical_to_one_process"]:
            raise AssertionError(f"seed {one['seed']}: rows are missing, repeated or different")
    return runs


if __name__ == "__main__":
    main()
