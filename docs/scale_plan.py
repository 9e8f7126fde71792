"""The figures of docs/scale.md: rates measured here, and a simulated cluster that has them.

python docs/scale_plan.py measure            # this machine: Parquet, the driver
python docs/scale_plan.py measure --images   # on a GPU: photos of 12 megapixels
python docs/scale_plan.py plan               # simulate; writes results/scale-plan.json

The simulation follows every task: the driver hands it out, the worker reads, computes (on a core,
and on a GPU that others wait for as well) and writes. Transfers share the network of their machine
and the store equally. Machines fail at random: their tasks are lost, are done again elsewhere, and
the machine comes back after ten minutes.
"""

import argparse
import heapq
import io
import json
import math
import random
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
GB, HOUR = 1e9, 3600.0

# What is not measured: a choice of machines and of a store, to be replaced by your own.
STREAM = 0.1 * GB  # bytes per second of one connection to the store
STORE = 50 * GB  # of all connections together
SPREAD = 0.2  # of the time that tasks of one kind take, as the standard deviation of its logarithm
RESTART = 600.0  # seconds until a machine that failed is back
TASKS_PER_GPU = 4


@dataclass(frozen=True)
class Machine:
    """A kind of machine; one place is a core, or a quarter of a GPU with a core."""

    name: str
    places: int
    gpus: int
    network: float  # bytes per second
    hours_between_failures: float


@dataclass(frozen=True)
class Work:
    """What one task takes."""

    name: str
    tasks: int
    bytes_read: float
    bytes_written: float
    core_seconds: float
    gpu_seconds: float
    driver_seconds: float


CPU_NODE = Machine("32 cores, 25 Gb/s", 32, 0, 25 / 8 * GB, 500)
CPU_SPOT = Machine("32 cores, 25 Gb/s, fails every 2 hours", 32, 0, 25 / 8 * GB, 2)
GPU_NODE = Machine("8 H200, 400 Gb/s", 8 * TASKS_PER_GPU, 8, 400 / 8 * GB, 500)


def simulate(work: Work, machine: Machine, count: int, seed: int = 0) -> dict[str, float]:
    """Return how long all tasks take on some machines, and what was busy."""
    rng = random.Random(seed)
    waiting = deque(range(work.tasks))
    events: list[tuple[float, int, str, int, int]] = []  # time, number, what, machine, life
    number = 0
    transfers, life = [0] * count, [0] * count
    working: list[dict[int, float]] = [{} for _ in range(count)]  # start of each task
    gpu_free = [[0.0] * machine.gpus for _ in range(count)]
    driver_free = busy_gpu = busy_core = lost = traffic = 0.0
    done, now, failures = 0, 0.0, 0

    def add(when: float, what: str, node: int, task: int = -1) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (when, number, what, node, task))

    down: set[int] = set()
    lives: dict[int, tuple[int, int]] = {}  # the machine and its life that a task runs in

    def start(node: int) -> None:
        nonlocal driver_free
        while waiting and node not in down and len(working[node]) < machine.places:
            task = waiting.popleft()
            driver_free = max(now, driver_free) + work.driver_seconds
            working[node][task] = now
            lives[task] = node, life[node]
            add(driver_free, "read", node, task)

    def transfer(node: int, size: float) -> float:
        nonlocal traffic
        transfers[node] += 1
        traffic += size
        share = min(STREAM, machine.network / transfers[node], STORE / sum(transfers))
        return size / share

    def failure(node: int) -> None:
        add(now + rng.expovariate(1.0) * machine.hours_between_failures * HOUR, "fail", node)

    for node in range(count):
        start(node)
        failure(node)
    while done < work.tasks:
        now, _, what, node, task = heapq.heappop(events)
        if what == "fail":
            failures += 1
            lost += sum(now - begun for begun in working[node].values())
            waiting.extendleft(working[node])
            working[node].clear()
            life[node] += 1
            transfers[node] = 0
            gpu_free[node] = [now] * machine.gpus
            down.add(node)
            add(now + RESTART, "back", node)
            for other in range(count):
                start(other)
            continue
        if what == "back":
            down.remove(node)
            start(node)
            failure(node)
            continue
        if lives.get(task) != (node, life[node]):
            continue  # of a life that ended
        if what == "read":
            add(now + transfer(node, work.bytes_read), "compute", node, task)
        elif what == "compute":
            transfers[node] -= 1
            factor = rng.lognormvariate(-(SPREAD**2) / 2, SPREAD)
            busy_core += work.core_seconds * factor
            add(now + work.core_seconds * factor, "gpu" if machine.gpus else "write", node, task)
        elif what == "gpu":
            free = gpu_free[node]
            index = min(range(len(free)), key=free.__getitem__)
            seconds = work.gpu_seconds * rng.lognormvariate(-(SPREAD**2) / 2, SPREAD)
            free[index] = max(now, free[index]) + seconds
            busy_gpu += seconds
            add(free[index], "write", node, task)
        elif what == "write":
            add(now + transfer(node, work.bytes_written), "end", node, task)
        else:
            transfers[node] -= 1
            working[node].pop(task)
            lives.pop(task)
            done += 1
            start(node)
    places = count * machine.places
    return {
        "machines": count,
        "hours": now / HOUR,
        "cores busy": busy_core / (now * places),
        "GPUs busy": busy_gpu / (now * count * machine.gpus) if machine.gpus else 0.0,
        "network busy": traffic / (now * count * machine.network),
        "store busy": traffic / (now * STORE),
        "driver busy": min(1.0, work.tasks * work.driver_seconds / now),
        "done twice": lost / (now * places),
        "failures": failures,
    }


def works() -> dict[str, Work]:
    """Return the two jobs, on CPUs and on GPUs, from what was measured."""
    rates = json.loads((RESULTS / "scale-rates.json").read_text())
    images = json.loads((RESULTS / "scale-images-nvidia-h200.json").read_text())
    overhead = json.loads((RESULTS / "ray-overhead.json").read_text())
    on_gpu = json.loads((RESULTS / "bench-codes-nvidia-h200.json").read_text())
    on_cpu = json.loads((RESULTS / "bench-denoise-amd-epyc-x2.json").read_text())
    alone = overhead["runs"]["one process, one thread"]
    rows_per_core = overhead["rows"] / min(run["cpu_seconds"] for run in alone)
    (notes,) = [n for name, n in on_gpu["notes"].items() if "2.5, 2,000,000" in name]
    rows = 87_381  # the default of --shard-rows for 64 + 128 numbers per row
    tasks = math.ceil(1e9 / rows)
    moved = rows * rates["bytes_read_per_row"], rows * rates["bytes_written_per_row"]
    files = rows / rates["rows_read_per_second"] + rows / rates["rows_written_per_second"]
    driver = rates["driver_seconds_per_task"]
    jpeg = images["jpeg"]
    jpeg_seconds, jpeg_bytes = jpeg["read"] + jpeg["write"], 1e6 * jpeg["MB"]
    (per_megapixel,) = [n for name, n in on_cpu["notes"].items() if "a color image of 1024" in name]
    cores = 2  # of the machine on which seconds per megapixel were measured
    default, fast = (12 * cores * per_megapixel[k] for k in ("the default network", "with --fast"))
    gpu = images["denoise 12 MP color, sigma estimated"]["seconds"]
    codes = {
        "codes, cores": (rows / rows_per_core, 0.0),
        "codes, H200": (files, rows / notes["codes a second"]),
    }
    photos = {
        "photos, cores": (jpeg_seconds + default, 0.0),
        "photos, cores, --fast": (jpeg_seconds + fast, 0.0),
        "photos, H200": (jpeg_seconds, gpu),
    }
    return {n: Work(n, tasks, *moved, *times, driver) for n, times in codes.items()} | {
        n: Work(n, 10_000_000, jpeg_bytes, jpeg_bytes, *times, driver)
        for n, times in photos.items()
    }


def plan() -> None:
    """Simulate both jobs on growing clusters."""
    jobs = works()
    cases = [
        ("codes, cores", CPU_NODE, (1, 4, 16, 64, 256)),
        ("codes, H200", GPU_NODE, (1, 2, 4, 16)),
        ("photos, cores", CPU_NODE, (64, 256)),
        ("photos, cores, --fast", CPU_NODE, (16, 64)),
        ("photos, cores, --fast", CPU_SPOT, (16,)),
        ("photos, H200", GPU_NODE, (1, 4, 16, 64)),
    ]
    rows = []
    for name, machine, counts in cases:
        for count in counts:
            whole = jobs[name]
            # Of ten million photos a part is simulated: at least 40 tasks per place, and several
            # failures of every machine where these are frequent.
            places = count * machine.places
            part = max(20_000, 40 * places)
            if machine.hours_between_failures < 10:
                part = int(4 * machine.hours_between_failures * HOUR * places / whole.core_seconds)
            part = min(whole.tasks, part)
            found = simulate(Work(**(asdict(whole) | {"tasks": part})), machine, count)
            found["hours"] *= whole.tasks / part
            found["tasks simulated"] = part
            size = count * (machine.gpus or machine.places)
            row = {"work": name, "machine": machine.name, **found}
            row["core or GPU hours"] = size * found["hours"]
            row["traffic in TB"] = whole.tasks * (whole.bytes_read + whole.bytes_written) / 1e12
            rows.append(row)
            print(_line(row), flush=True)
    record = {
        "command": "python docs/scale_plan.py plan",
        "assumed": {"stream": STREAM, "store": STORE, "spread": SPREAD, "restart": RESTART},
        "work": {name: asdict(work) for name, work in jobs.items()},
        "rows": rows,
    }
    (RESULTS / "scale-plan.json").write_text(json.dumps(record, indent=1) + "\n")


def compare(places: int = 8, tasks: int = 200) -> dict[str, float]:
    """Let a real cluster of this machine and the simulated one sleep through the same tasks."""
    from fwnet.ray import RayEngine

    rng = random.Random(1)
    times = [rng.lognormvariate(-(SPREAD**2) / 2, SPREAD) for _ in range(tasks)]
    with RayEngine(num_cpus=places) as engine:
        sum(1 for _ in engine.each(time.sleep, [1.0] * 4 * places))  # all workers have started
        begun = time.monotonic()
        sum(1 for _ in engine.each(time.sleep, times))
        measured = time.monotonic() - begun
    machine = Machine("this", places, 0, GB, math.inf)
    found = simulate(Work("sleep", tasks, 0.0, 0.0, 1.0, 0.0, 0.001), machine, 1)
    return {
        "places": places,
        "tasks of a second": tasks,
        "measured": measured,
        "simulated": found["hours"] * HOUR,
    }


def measure() -> dict[str, object]:
    """Return the rates of Parquet files on one core and of the driver, and compare with Ray."""
    from fwnet.coding.array_files import open_rows
    from fwnet.coding.parquet_files import write_parquet
    from fwnet.imaging.file_lists import Job
    from fwnet.ray import RayEngine
    from tests.ray_kills import make_data

    count = 25_000
    codes = np.random.default_rng(0).standard_normal((count, 128)).astype(np.float32)
    with tempfile.TemporaryDirectory() as text:
        make_data(Path(text), 1, count)
        data, output = Path(text) / "data" / "part-00.parquet", Path(text) / "codes.parquet"
        source = open_rows(data, keep=["id"])

        def read() -> None:
            source.rows(0, count)
            source.kept(0, count)

        def write() -> None:
            with output.open("wb") as file:
                write_parquet(file, [codes], source.kept)

        record: dict[str, object] = {
            "command": "python docs/scale_plan.py measure",
            "rows_read_per_second": count / _least(read),
            "rows_written_per_second": count / _least(write),
            "bytes_read_per_row": data.stat().st_size / count,
            "bytes_written_per_row": output.stat().st_size / count,
        }
    with RayEngine(num_cpus=2) as engine:
        begun = time.process_time()
        tasks = sum(1 for _ in engine.each(abs, range(5000)))
        record["driver_seconds_per_task"] = (time.process_time() - begun) / tasks
    tracemalloc.start()
    jobs = [
        Job(Path(f"/data/in/{i:08}.jpg"), Path(f"/data/out/{i:08}.jpg")) for i in range(100_000)
    ]
    record["bytes_per_waiting_image"] = tracemalloc.get_traced_memory()[0] / len(jobs)
    tracemalloc.stop()
    record["tasks that sleep"] = compare()
    return record


def measure_images() -> dict[str, object]:
    """Return seconds per photo of 12 megapixels on a GPU, and of its JPEG file on a core."""
    import torch
    from PIL import Image

    from fwnet.imaging import Pixels, Restorer
    from fwnet.restoration import Denoising, Upscaling

    rng = np.random.default_rng(0)
    noise = 0.5 + 0.1 * rng.standard_normal((3000, 4000, 3))
    photo = (255 * noise.clip(0, 1)).astype(np.uint8)
    record: dict[str, object] = {
        "command": "python docs/scale_plan.py measure --images",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    cases = {
        "denoise 12 MP color, sigma given": (Denoising, photo, {"sigma": 25 / 255}),
        "denoise 12 MP color, sigma estimated": (Denoising, photo, {}),
        "denoise 12 MP color, fast": (Denoising, photo, {"sigma": 25 / 255, "fast": True}),
        "upscale x3 to 12 MP color": (Upscaling, photo[:1000, :1333], {"scale": 3}),
    }
    for name, (kind, image, asked) in cases.items():
        restorer, pixels = Restorer(kind, device="cuda", **asked), Pixels(image)
        restorer.run(pixels)
        times = []
        for _ in range(4):
            begun = time.perf_counter()
            restorer.run(pixels)
            torch.cuda.synchronize()
            times.append(round(time.perf_counter() - begun, 4))
        peak = torch.cuda.max_memory_allocated() / 2**30
        record[name] = {
            "seconds": float(np.median(times)),
            "all": times,
            "peak_GiB": round(peak, 2),
        }
    y, x = np.mgrid[:3000, :4000]
    waves = 127 + 100 * np.sin(x / 50) * np.cos(y / 70) + 10 * rng.standard_normal(x.shape)
    image = Image.fromarray(np.stack([waves] * 3, -1).clip(0, 255).astype(np.uint8))
    file = io.BytesIO()
    begun = time.perf_counter()
    image.save(file, "JPEG", quality=95, subsampling=0)
    written = time.perf_counter()
    np.asarray(Image.open(file))
    times = {"write": written - begun, "read": time.perf_counter() - written}
    record["jpeg"] = {**times, "MB": len(file.getvalue()) / 1e6}
    return record


def _least(call: Callable[[], None]) -> float:
    """Return the least CPU time of seven calls."""
    times = []
    for _ in range(7):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return min(times)


def _line(row: dict[str, object]) -> str:
    """Return a row of the table of docs/scale.md."""
    names = ("cores busy", "GPUs busy", "network busy", "store busy", "driver busy", "done twice")
    percent = [100 * float(row[name]) for name in names]
    shares = [f"{x:.0f} %" if x >= 10 else f"{x:.2g} %" if x else "" for x in percent]
    hours, total = float(row["hours"]), float(row["core or GPU hours"])
    text = f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"
    total_text = f"{total:,.0f}" if total >= 10 else f"{total:.2g}"
    cells = [row["work"], row["machine"], row["machines"], text, total_text, *shares]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["measure", "plan"])
    parser.add_argument("--images", action="store_true")
    asked = parser.parse_args()
    if asked.what == "plan":
        plan()
    else:
        name = "scale-images-nvidia-h200.json" if asked.images else "scale-rates.json"
        found = measure_images() if asked.images else measure()
        (RESULTS / name).write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
