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
from tests.fault_works import KILLED, Work, content
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
        needs_root: Whether it mounts something.
    """

    words: str
    around: Around
    codes: tuple[int, ...] = (0, 2)
    says: tuple[str, ...] = ()
    works: tuple[str, ...] = (*KILLED, "download")
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
    spare = rng.choice([0, 1, 5, 20, 50, 100, 200])

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


def at_read(act: Callable[[Path], object]) -> Around:
    """Return a fault: something happens to an input when it is opened, once or later."""

    @contextlib.contextmanager
    def around(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
        inputs = [path for path in sorted(folder.rglob("*")) if path.suffix in (".npy", ".png")]
        kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in inputs}
        victim, count = rng.choice(inputs), rng.choice([1, 2, 3])

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if event == "open" and str(arguments[0]).endswith(victim.name):
                count -= 1
                if count == 0:
                    act(victim)

        command.prepare = lambda: sys.addaudithook(hook)
        yield
        for path, (before, changed) in kept.items():
            path.write_bytes(before)
            os.utime(path, ns=(changed, changed))

    return around


@contextlib.contextmanager
def output_vanishes(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Remove all that the command has written, at a random moment."""
    inputs = {path.name for path in folder.iterdir()}
    moment = rng.uniform(0, command.seconds)

    def remove() -> None:
        time.sleep(moment)
        for path in folder.iterdir():
            if path.name not in inputs:
                shutil.rmtree(path, ignore_errors=True)

    thread = threading.Thread(target=remove)
    thread.start()
    yield
    thread.join()


@contextlib.contextmanager
def another_works(folder: Path, rng: random.Random, command: Command) -> Iterator[None]:
    """Start the same command a moment before."""
    with tempfile.TemporaryDirectory() as text:
        first = Command(command.arguments, folder, log=Path(text)).start()
        time.sleep(rng.uniform(0, 0.3) * command.seconds)
        yield
        if first.wait() not in (0, 2):
            raise AssertionError(first.err.read_text())


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


def grow(path: Path) -> None:
    """Append a few bytes to a file."""
    with path.open("ab") as file:
        file.write(b"more")


def cut(path: Path) -> None:
    """Leave half of a file."""
    os.truncate(path, path.stat().st_size // 2)


EVERY = (*KILLED, "download", "reproduce")
FAULTS = {
    "full disk": Fault(
        "a disk (tmpfs) with 0 to 240 KB left",
        disk_is_full,
        works=EVERY,
        says=("No space left on device", "could not be downloaded"),
        needs_root=True,
    ),
    "large files": Fault(
        "no file may grow beyond 0 to 10,000 bytes (RLIMIT_FSIZE)",
        files_are_limited,
        says=("File too large", "could not be downloaded"),
    ),
    "read-only disk": Fault(
        "the folder is mounted read-only",
        folder_is_read_only,
        (2,),
        ("Read-only", "no permission", "could not be downloaded"),
        needs_root=True,
        works=EVERY,
    ),
    "no permission": Fault(
        "the folder belongs to another user",
        nobody_may_write,
        (2,),
        ("permission", "Permission", "could not be downloaded"),
    ),
    "no memory": Fault(
        "0 to 200 MB of address space left (RLIMIT_AS)",
        memory_is_short,
        works=(*KILLED, "download", "denoise a large image", "encode large rows"),
        says=("memory", "allocate", "could not be downloaded", "thread"),
    ),
    "few open files": Fault(
        "3 to 20 open files allowed (RLIMIT_NOFILE)",
        few_files_are_open,
        says=("Too many open files", "could not be downloaded"),
    ),
    "SIGINT": Fault("Ctrl-C at a random moment", signal_at(signal.SIGINT), (0, 130), works=EVERY),
    "SIGTERM": Fault(
        "SIGTERM at a random moment", signal_at(signal.SIGTERM), (0, 130), works=EVERY
    ),
    "two processes": Fault(
        "the same command is at work already",
        another_works,
        says=("another process", "exists; overwrite", "already has", "holds a"),
        works=KILLED,
    ),
    "clock": Fault(
        "the clock goes back an hour at every look; files of 2038", clock_jumps_back, (0,)
    ),
    "input grows": Fault("an input grows when it is opened", at_read(grow), works=KILLED),
    "input shrinks": Fault("an input is cut when it is opened", at_read(cut), works=KILLED),
    "input vanishes": Fault(
        "an input vanishes when it is opened", at_read(Path.unlink), works=KILLED
    ),
    "output vanishes": Fault("what is written is removed at a random moment", output_vanishes),
    "stdout closed": Fault("stdout is closed", closed(1), (0,)),
    "stdout broken": Fault("stdout is a pipe that nobody reads", closed(1, to="pipe"), (0, 1)),
    "stdout full": Fault(
        "stdout is a full disk", closed(1, to="/dev/full"), says=("stdout: No space left",)
    ),
    "stderr closed": Fault("stderr is closed", closed(2), (0,)),
    "no home": Fault("no HOME, no cache, a user without a name", no_home, (0,)),
}


def try_fault(
    fault: Fault, work: Work, folder: Path, seed: object, seconds: float, expected: dict[str, str]
) -> dict:
    """Run a command with a fault, then again without; return what happened and what is wrong."""
    rng = random.Random(str(seed))
    inputs = {path.name for path in folder.iterdir()}
    wrong = []
    with tempfile.TemporaryDirectory() as text:
        log = Path(text)
        log.chmod(0o777)
        command = Command(work.arguments, folder, log=log, seconds=seconds)
        with fault.around(folder, rng, command):
            try:
                code = command.start().wait(60)
            except TimeoutError:
                code = -signal.SIGKILL
                wrong.append("no end within 60 s")
        errors = command.err.read_text()
        lines = errors.splitlines()
        if code not in fault.codes:
            wrong.append(f"exit code {code}")
        if any(words in errors for words in ("Traceback", "Exception ignored", "Fatal")):
            wrong.append("a traceback")
        if code == 2 and fault.says and not any(words in errors for words in fault.says):
            wrong.append("another line")
        found = content(folder, work.results)
        wrong += [f"left {n}" for n in found if TEMPORARY_NAME.fullmatch(Path(n).name)]
        final = {name for name in expected if not name.endswith(UNFINISHED)}
        changes = fault.words.startswith("an input")
        if not changes:  # what it made of other inputs may differ
            wrong += [f"not whole: {n}" for n in final & found.keys() if found[n] != expected[n]]
            if code == 0 and found != expected and fault.around is not output_vanishes:
                wrong.append("other results")
        if changes or (code == 0 and fault.around is output_vanishes):
            _remove_new(folder, inputs)
        again = Command(work.again, folder, log=log)
        second, last = again.start().wait(60), again.err.read_text()
        if second and "codes.npy exists; overwrite" not in last:
            wrong.append(f"again: exit code {second}, {last}")
        if content(folder, work.results) != expected:
            wrong.append("other results after the second run")
        if left := {path.name for path in folder.iterdir()} - inputs - {*work.results}:
            wrong.append(f"left {sorted(left)}")
    last_line = lines[-1].replace(str(folder), "…") if lines else ""
    return {"code": code, "line": last_line, "wrong": wrong, "stderr": errors[-2000:]}


def _remove_new(folder: Path, inputs: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in inputs:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


UNFINISHED = ("checkpoint.safetensors", "history.jsonl", "_manifest.json")
