"""Run fuzz targets for some minutes: python -m tests.fuzz --minutes 10 --output build/fuzz

Each target runs in a process of its own, which is started again if it dies. The folder gets one
file, results.jsonl, with a line of JSON per process. `--sum` adds such files up, with `--output` to
a record, and prints a table of it.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

KEPT = 3  # cases of each failure
FAILED = "failures"  # the kind under which they are counted
ON_GPUS = ("pool_p-triton", "large")  # others are tested on a CPU
STUCK = 300  # seconds after which a process that reports nothing is ended
POLL = 0.2  # seconds between looks at it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--output", type=Path, help="default: build/fuzz")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, help="default: the time")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument(
        "--sum", nargs="+", type=Path, metavar="FILE", help="results.jsonl, or a record"
    )
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    from tests.fuzz.targets import TARGETS

    if arguments.sum:
        record = summed(arguments.sum)
        if arguments.output:
            text = json.dumps(record, indent=1, ensure_ascii=False)
            arguments.output.write_text(text + "\n", encoding="utf-8")
        print(table(record, {name: one.check.__doc__ or "" for name, one in TARGETS.items()}))
        return 0
    # Commands change the current folder.
    arguments.output = (arguments.output or Path("build/fuzz")).resolve()

    if arguments.worker:
        name, seconds = arguments.worker
        work(TARGETS[name], float(seconds), arguments.output, arguments.seed)
        return 0
    if arguments.list:
        print("\n".join(TARGETS))
        return 0
    names = arguments.target or [name for name, one in TARGETS.items() if one.usual]
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    copies = shares(len(names), arguments.jobs)
    rounds = -(-len(names) * copies // arguments.jobs)
    seconds = 60 * arguments.minutes / rounds
    started = [(name, seconds, seed + 1000 * copy) for copy in range(copies) for name in names]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        lines = []
        for done in as_completed([pool.submit(supervise, *one) for one in started]):
            line = done.result()
            with (arguments.output / "results.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            shown = line.get("skipped") or f"{line['examples']:,} in {line['seconds']:.0f} s"
            print(f"{line['name']}: {shown}, {len(line['failures'])} failures", flush=True)
            lines.append(line)
    for line in lines:
        for failure in line["failures"]:
            print(f"\n{line['name']}: {failure['case']}\n{failure['error']}", flush=True)
    return int(any(line["failures"] for line in lines))


def shares(count: int, jobs: int) -> int:
    """Return into how many processes each target is divided, so that few jobs wait at the end."""

    def busy(copies: int) -> float:
        return count * copies / (-(-count * copies // jobs) * jobs)

    return max(range(1, 5), key=busy)


def supervise(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Run one target in processes of its own until its time is over; return its line."""
    with tempfile.TemporaryDirectory() as folder:
        return _supervise(name, seconds, seed, Path(folder))


def _supervise(name: str, seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    total: dict[str, Any] = {"name": name, "examples": 0, "seconds": 0.0, "slowest": 0.0}
    total |= {"seed": seed, "kinds": {}, "failures": []}
    result, log, now = (folder / f"{name}.{end}" for end in ("json", "log", "now"))
    environment = {**os.environ, "TMPDIR": str(folder)}
    if name not in ON_GPUS:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        result.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.fuzz", "--worker", name, str(left)]
        command += ["--output", str(folder), "--seed", str(seed)]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
            code = wait(process, now, left)
        line = json.loads(result.read_text()) if result.exists() else {}
        if "skipped" in line:
            return total | {"skipped": line["skipped"]}
        for key in ("examples", "seconds"):
            total[key] += line.get(key, 0)
        total["slowest"] = max(total["slowest"], line.get("slowest", 0.0))
        add(total["kinds"], line.get("kinds", {}))
        total["failures"] += line.get("failures", [])
        if code != 0:
            case = now.read_text() if now.exists() else ""
            error = f"the process ended with {code}: {log.read_text(errors='replace')[-2000:]}"
            total["failures"].append({"case": case, "error": error, "seed": seed})
            if not case:
                break
        seed += 1
    return total


def wait(process: subprocess.Popen[bytes], now: Path, seconds: float) -> int:
    """Wait for a process; end it if it is stuck in one case.

    Seconds are those that this process was awake: a machine may sleep meanwhile.
    """
    in_all = in_case = 0.0
    last = None
    while process.poll() is None:
        time.sleep(POLL)
        case = now.stat().st_mtime_ns if now.exists() else None
        in_all, in_case = in_all + POLL, in_case + POLL if case == last else 0.0
        last = case
        if in_case > STUCK or in_all > seconds + STUCK:
            process.kill()
    return process.wait()


def work(target: Any, seconds: float, output: Path, seed: int) -> None:
    """Try cases of one target for some seconds; write what they got."""
    import torch

    from tests.fuzz.registry import clock, limit_address_space

    result = output / f"{target.name}.json"
    reason = target.missing()
    if target.name == "pool_p-triton" and not torch.cuda.is_available():
        reason = "needs a CUDA GPU"
    if reason:
        result.write_text(json.dumps({"skipped": f"skipped: {reason}"}))
        return
    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        limit_address_space(3 * target.memory + 2**32)
    end = time.monotonic() + seconds
    now = output / f"{target.name}.now"
    line: dict[str, Any] = {"examples": 0, "seconds": 0.0, "slowest": 0.0, "kinds": {}}
    failures: dict[str, dict[str, Any]] = {}
    written = time.monotonic()

    def attempt(case: Any) -> None:
        nonlocal written
        if time.monotonic() > end:
            return
        now.write_text(repr(case), errors="backslashreplace")
        started = clock()
        try:
            tried = target.bounded(case)
            add(line["kinds"], {tried.kind: {tried.outcome: tried.count}})
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            add(line["kinds"], {FAILED: {type(error).__name__: 1}})
            place = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} {place.filename} {place.lineno}"
            if key not in failures:
                text = "".join(traceback.format_exception(error))[-3000:]
                failures[key] = {"case": repr(case), "error": text, "seed": seed, "times": 0}
                failures[key]["more"] = []
            elif len(failures[key]["more"]) < KEPT:  # one line may fail for several reasons
                failures[key]["more"].append([repr(case), str(error)[:300]])
            failures[key]["times"] += 1
        line["examples"] += 1
        line["slowest"] = max(line["slowest"], clock() - started)
        if time.monotonic() - written > 5:
            save()

    def save() -> None:
        nonlocal written
        written = time.monotonic()
        line["seconds"] = sum(os.times()[:4])  # of CPU, with child processes
        content = json.dumps(line | {"failures": [*failures.values()]})
        part = result.with_suffix(".part")
        part.write_text(content)
        part.replace(result)

    examples, step = 25, seed
    while time.monotonic() < end:
        began = time.monotonic()
        target.run(attempt, examples, step, kept=step == seed)
        step += 1_000_003
        examples = min(2000, 2 * examples) if time.monotonic() - began < 10 else examples
    save()


def add(total: dict[str, dict[str, int]], more: dict[str, dict[str, int]]) -> None:
    """Add counts of outcomes by kind."""
    for kind, outcomes in more.items():
        counts = collections.Counter(total.get(kind, {}))
        counts.update(outcomes)
        total[kind] = dict(counts)


def summed(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Return for each target how long it ran, and what each kind of case got, how often."""
    record: dict[str, dict[str, Any]] = {}
    for path in files:
        for line in _lines(path):
            if "skipped" in line:
                continue
            one = record.setdefault(
                line["name"], {"minutes": 0.0, "cases": 0, "failures": 0, "kinds": {}}
            )
            one["minutes"] = round(one["minutes"] + line["seconds"] / 60, 2)
            one["cases"] += line["examples"]
            one["failures"] += sum(failure.get("times", 1) for failure in line["failures"])
            add(one["kinds"], line["kinds"])
    return {name: {**one, "kinds": dict(sorted(one["kinds"].items()))}
            for name, one in sorted(record.items())}  # fmt: skip


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of results.jsonl, or those of a record of earlier rounds."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return [
        {
            "name": name,
            "examples": one["cases"],
            "seconds": 60 * one["minutes"],
            "kinds": one["kinds"],
            "failures": [{"times": one["failures"]}],
        }
        for name, one in json.loads(text).items()
    ]


def table(record: dict[str, dict[str, Any]], words: dict[str, str]) -> str:
    """Return a row for each target: what it is, how many cases it had, and what they got."""
    rows = ["| target | what | kinds | minutes | cases | what they got | failures |"]
    rows += ["|---" * 7 + "|"]
    number = 0
    for name, one in record.items():
        got: collections.Counter[str] = collections.Counter()
        tried = [
            outcomes
            for kind, outcomes in one["kinds"].items()
            if kind != FAILED and [*outcomes] != ["skipped"]
        ]
        for outcomes in tried:
            got.update(outcomes)
        shown = ", ".join(f"{outcome} {count:,}" for outcome, count in got.most_common())
        what = words[name].splitlines()[0].rstrip(".")
        number += len(tried)
        rows.append(
            f"| {name} | {what} | {len(tried)} | {one['minutes']:.1f} | {one['cases']:,} "
            f"| {shown} | {one['failures']} |"
        )
    minutes, cases, failures = (
        sum(one[key] for one in record.values()) for key in ("minutes", "cases", "failures")
    )
    end = f"In sum {cases:,} cases of {number} kinds in {minutes:.0f} minutes of CPU time; "
    return "\n".join([*rows, "", f"{end}failures: {failures}."])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
