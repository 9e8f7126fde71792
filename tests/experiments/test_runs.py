import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import torch

from fwnet.experiments import runs
from fwnet.experiments.runs import Job, Runner, UnfinishedError
from fwnet.hardware import hardware_name
from fwnet.models import ConvFWNet
from fwnet.version import __version__

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Squared(Job):
    number: int
    folder: str

    def execute(self, device):
        with open(f"{self.folder}/log", "a") as file:  # noqa: PTH123
            file.write(f"{self.number}\n")
        if self.number < 0:
            raise ValueError("negative")
        return {"square": self.number**2}


@dataclass(frozen=True)
class Compiled(Job):
    """Compile a network into one graph."""

    channels: int

    def execute(self, device):
        network = ConvFWNet(1, self.channels)
        compiled = torch.compile(network, backend="eager", fullgraph=True)
        return {"height": compiled(torch.zeros(1, 1, 4, 3)).shape[2]}


def executed(folder):
    log = folder / "log"
    return sorted(int(line) for line in log.read_text().split()) if log.exists() else []


def test_every_job_is_done_once(tmp_path):
    reports = []
    jobs = [Squared(n, str(tmp_path)) for n in (3, 1, 3, 2)]
    with Runner(CPU, 1, tmp_path / "c.jsonl", reports.append) as runner:
        assert [r["square"] for r in runner.run(jobs)] == [9, 1, 9, 4]
        assert runner.run(jobs[:1])[0]["square"] == 9
    assert executed(tmp_path) == [1, 2, 3]
    (record,) = runner.run(jobs[:1])
    assert hardware_name(CPU) in record["hardware"]
    assert date.fromisoformat(record["date"]) <= datetime.now(UTC).date()
    assert record["state"].startswith(__version__)
    assert (reports[0].done, reports[0].total) == (0, 3)
    assert (reports[-1].done, reports[-1].total) == (3, 3)


def test_the_state_of_the_code_is_version_and_commit(tmp_path, monkeypatch):
    """In a clone; code that is installed has its version alone."""

    def git(*arguments):
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", tmp_path, *names, *arguments], check=True, capture_output=True)

    def state(file):
        monkeypatch.setattr(runs, "__file__", str(file))
        runs._state.cache_clear()
        return runs._state()

    code = tmp_path / "src" / "fwnet" / "runs.py"
    code.parent.mkdir(parents=True)
    code.write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = subprocess.check_output(["git", "-C", tmp_path, "rev-parse", "HEAD"], text=True)
    (tmp_path / "notes").write_text("not code")
    assert state(code) == f"{__version__}, commit {commit[:8]}"
    code.write_text("2")
    assert state(code) == f"{__version__}, commit {commit[:8]} with changes"
    assert state(tmp_path / ".venv" / "fwnet" / "runs.py") == __version__
    assert state(Path("/") / "runs.py") == __version__
    runs._state.cache_clear()


def test_only_what_is_finished(tmp_path):
    jobs = [Squared(n, str(tmp_path)) for n in (1, 2)]
    with Runner(CPU, 1, tmp_path / "c.jsonl") as runner:
        runner.run(jobs[:1])
        assert runner.can_run(jobs)
    with Runner(CPU, 1, tmp_path / "c.jsonl", finished_only=True) as runner:
        assert runner.can_run(jobs[:1])
        assert not runner.can_run(jobs)
        assert runner.run(jobs[:1])[0]["square"] == 1
        with pytest.raises(UnfinishedError, match="1 of 2 trainings are not finished"):
            runner.run(jobs)
    assert executed(tmp_path) == [1]


def test_finished_jobs_survive_a_kill(tmp_path):
    cache = tmp_path / "deep" / "c.jsonl"
    jobs = [Squared(n, str(tmp_path)) for n in (1, 2, -3, 4)]
    with pytest.raises(ValueError, match="negative"), Runner(CPU, 1, cache) as runner:
        runner.run(jobs)
    with cache.open("a") as file:
        file.write('{}\n5\n{"key": "cut sho')
    with Runner(CPU, 1, cache) as runner:
        runner.run([jobs[0], jobs[1], jobs[3]])
    assert executed(tmp_path) == [-3, 1, 2, 4]
    with Runner(CPU, 1, cache) as runner:  # the line after the one that was cut is whole
        assert runner.run([jobs[3]])[0]["square"] == 16
    assert executed(tmp_path) == [-3, 1, 2, 4]


def test_threads_share_the_jobs_of_several_processes(tmp_path):
    jobs = [Squared(n, str(tmp_path)) for n in range(6)]
    with Runner(CPU, 2, tmp_path / "c.jsonl") as runner, ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(runner.run, [jobs, jobs[::-1], jobs]))
    assert answers[0] == answers[2] == answers[1][::-1]
    assert executed(tmp_path) == list(range(6))
    lines = (tmp_path / "c.jsonl").read_text().splitlines()
    assert len({json.loads(line)["key"] for line in lines}) == len(lines) == 6


def test_jobs_that_compile_do_not_share_a_limit():
    # Not monkeypatch, which would delete the setting in the end.
    with torch._dynamo.config.patch(recompile_limit=1), Runner(CPU) as runner:
        records = runner.run([Compiled(channels) for channels in (1, 2)])
    assert [record["height"] for record in records] == [4, 4]
    torch.compiler.reset()


def test_keys_depend_on_every_field():
    keys = {Squared(1, "a").key, Squared(2, "a").key, Squared(1, "b").key, Squared(1, "a").key}
    assert len(keys) == 3
