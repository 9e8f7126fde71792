"""What can go wrong around a command, and what is left then; for `tests.faults` and its tests."""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fwnet.files import TEMPORARY_NAME
from tests.fault_works import WORKS, Work, content
from tests.forked import Command

NOBODY = 65534
Prepare = Callable[[], None]
Around = Callable[[Path, random.Random, Command], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong while a command runs.

    Attributes:
        words: What it is.
        around: Function of the folder, a generator and the command: a context in which the command
            is started and waited for. It may set what the command prepares.
        codes: Exit codes that are promised; 0 if the fault did not matter.
        says: What the last line of stderr must contain where the exit code is 2.
        works: Names of the commands that meet it.
        is_quiet: Whether stderr can be read at all.
    """

    words: str
    around: Around
    codes: tuple[int, ...] = (0, 2)
    says: tuple[str, ...] = ()
    works: tuple[str, ...] = tuple(WORKS)
    needs_root: bool = False


@contextlib.contextmanager
def disk_is_full(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Leave a few KB of a disk (tmpfs) free."""
    filler = folder.parent / "filler"
    free = shutil.disk_usage(folder).free
    with filler.open("wb") as file:
        file.write(bytes(max(0, free - rng.randrange(60) * 4096)))
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def files_are_limited(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """No file may grow beyond a size: every write can fail, as on a full disk."""
    size = rng.choice([0, 1, 100, 1000, 3000, 10_000])

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    command.prepare = prepare
    command.piped = True
    yield


@contextlib.contextmanager
def folder_is_read_only(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Mount the folder again, for reading."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def nobody_may_write(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Run as a user who may read the folder."""

    def prepare() -> None:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    command.prepare = prepare
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@contextlib.contextmanager
def memory_is_short(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Leave a few MB of memory free."""
    spare = rng.choice([0, 0.1, 0.5, 1, 2, 4])

    def prepare() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + int(spare * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    command.prepare = prepare
    yield


@contextlib.contextmanager
def few_files_are_open(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Allow some open files."""
    count = rng.choice([3, 4, 5, 6, 8, 12, 20])
    command.prepare = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    yield


def signal_at(number: int) -> Around:
    """Return a fault: a signal at a random moment."""

    @contextlib.contextmanager
    def around(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
        moment = rng.uniform(0, command.seconds)

        ready = command.log / "ready"
        command.prepare = ready.touch

        def send() -> None:
            while not ready.exists():
                time.sleep(0.001)
            time.sleep(moment)
            with contextlib.suppress(ProcessLookupError):
                os.kill(command.pid, number)

        thread = threading.Thread(target=send)
        thread.start()
        yield
        thread.join()

    return around


@contextlib.contextmanager
def clock_jumps_back(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Let every look at the clock of the day be an hour before the last, and files be of 2038."""
    for path in folder.rglob("*"):
        os.utime(path, (2**31, 2**31))

    def prepare() -> None:
        now = time.time()

        def earlier() -> float:
            nonlocal now
            now -= 3600
            return now

        time.time = earlier
        time.time_ns = lambda: int(1e9 * earlier())

    command.prepare = prepare
    yield


def at_open(name: str, act: Callable[[Path], object], times: int = 1) -> Around:
    """Return a fault: something happens when a file of some name is opened to read."""

    @contextlib.contextmanager
    def around(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
        kept = Path(tempfile.mkdtemp())
        shutil.copytree(folder, kept / "all")
        count = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if event == "open" and str(arguments[0]).endswith(name):
                count += 1
                if count == times:
                    act(folder)

        command.prepare = lambda: sys.addaudithook(hook)
        yield
        for path in kept.rglob("*"):  # as it was before
            if path.is_file():
                there = folder / path.relative_to(kept / "all")
                if not there.exists() or there.read_bytes() != path.read_bytes():
                    shutil.copy2(path, there)
        shutil.rmtree(kept)

    return around


def closed(*numbers: int, to: str | None = None) -> Around:
    """Return a fault: stdout or stderr are closed, a broken pipe or a full disk."""

    @contextlib.contextmanager
    def around(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
        def prepare() -> None:
            for number in numbers:
                if to == "pipe":
                    reader, writer = os.pipe()
                    os.close(reader)
                    os.dup2(writer, number)
                elif to:
                    os.dup2(os.open(to, os.O_WRONLY), number)
                else:
                    os.close(number)
                stream = os.fdopen(number, "w", closefd=False) if to else None
                setattr(sys, "stdout" if number == 1 else "stderr", stream)

        command.prepare = prepare
        yield

    return around


@contextlib.contextmanager
def no_home(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Take away HOME, all folders of caches, and the name of the user."""

    def prepare() -> None:
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME"):
            os.environ.pop(name, None)
        os.environ["HOME"] = "/proc/nowhere"
        if os.getuid() == 0:
            os.setuid(4711)

    command.prepare = prepare
    folder.chmod(0o777)
    yield


FAULTS = {
    "full disk": Fault("a disk with 0 to 240 KB left", disk_is_full, says=("No space left",)),
    "limited files": Fault(
        "no file may grow beyond 0 to 10,000 bytes", files_are_limited, says=("File too large",)
    ),
    "read-only mount": Fault(
        "the folder is mounted read-only",
        folder_is_read_only,
        (2,),
        ("Read-only", "no permission"),
    ),
    "no permission": Fault(
        "another user owns the folder", nobody_may_write, (2,), ("permission", "Permission denied")
    ),
    "no memory": Fault("1 to 64 MB of address space left", memory_is_short, says=("memory",)),
    "few open files": Fault(
        "3 to 20 open files are allowed", few_files_are_open, says=("Too many open files",)
    ),
    "SIGINT": Fault("Ctrl-C at a random moment", signal_at(signal.SIGINT), (0, 130), ("Stopped",)),
    "SIGTERM": Fault(
        "SIGTERM at a random moment", signal_at(signal.SIGTERM), (0, 130), ("Stopped",)
    ),
    "clock": Fault("the clock jumps back at every look", clock_jumps_back, (0,)),
    "stdout closed": Fault("stdout is closed", closed(1), (0,)),
    "stdout broken": Fault("stdout is a broken pipe", closed(1, to="pipe"), (0, 1, 2)),
    "stdout full": Fault("stdout is a full disk", closed(1, to="/dev/full"), (0, 2)),
    "stderr closed": Fault("stderr is closed", closed(2), (0,)),
    "no home": Fault("no HOME, an unknown user", no_home, (0,)),
}


def try_fault(
    fault: Fault,
    work: Work,
    folder: Path,
    rng: random.Random,
    seconds: float,
    expected: dict[str, str],
) -> dict:
    """Run a command with a fault, then again without; return what happened and what is wrong."""
    inputs = {path.name for path in folder.iterdir()}
    with tempfile.TemporaryDirectory() as text:
        log = Path(text)
        log.chmod(0o777)
        command = Command(work.arguments.split(), folder, log=log)
        command.seconds = seconds
        with fault.around(folder, rng, command):
            code = command.start().wait(60)
        errors = command.err.read_text()
        wrong = []
        lines = errors.splitlines()
        if code not in fault.codes:
            wrong.append(f"exit code {code}")
        if "Traceback" in errors or "Exception ignored" in errors:
            wrong.append("traceback")
        if code == 2 and fault.says and not any(one in lines[-1] for one in fault.says if lines):
            wrong.append("line")
        found = content(folder, work.results)
        wrong += [
            f"left {n}" for n in found if code >= 0 and TEMPORARY_NAME.fullmatch(Path(n).name)
        ]
        whole = {n: d for n, d in found.items() if n in expected and not n.endswith(UNFINISHED)}
        wrong += [f"not whole: {n}" for n, d in whole.items() if expected[n] != d]
        if code == 0 and found != expected:
            wrong.append("differs")
        again = Command((*work.arguments.split(), work.resume), folder, log=log)
        second = again.start().wait(60)
        last = again.err.read_text()
        if second and not (code == 0 and "exists; overwrite" in last):
            wrong.append(f"resumed: {second} {last}")
        if content(folder, work.results) != expected:
            wrong.append("differs after resuming")
        left = {path.name for path in folder.iterdir()} - inputs - {*work.results}
        if left:
            wrong.append(f"left over: {sorted(left)}")
    return {
        "code": code,
        "last line": lines[-1] if lines else "",
        "lines": len(lines),
        "wrong": wrong,
        **({"stderr": errors[-1500:]} if wrong else {}),
    }


UNFINISHED = ("checkpoint.safetensors", "history.jsonl", "_manifest.json")
