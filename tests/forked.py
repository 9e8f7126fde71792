"""Commands of fwnet in forked processes: torch is imported once, and a fork dies like another."""

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer

from fwnet.cli import main

CHANGES = {"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}


@dataclass
class Command:
    """`fwnet …` in a process of its own.

    Attributes:
        arguments: What follows `fwnet`; or a function to call instead.
        folder: The folder that it works in.
        prepare: Called in the child before the command: for limits, patches and signals.
        log: The folder of the files `out` and `err` with its output; default: `folder`.
        piped: Whether the output goes through pipes, where the sizes of files are limited.
        seconds: How long it takes, about.
    """

    arguments: str | Sequence[object] | Callable[[], object]
    folder: Path
    prepare: Callable[[], object] = lambda: None
    log: Path | None = None
    piped: bool = False
    seconds: float = 1.0
    pid: int = 0
    status: int | None = None
    began: float = 0.0
    pipes: list[tuple[int, int]] = field(default_factory=list)

    def start(self) -> "Command":
        """Fork."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.began, self.status = time.monotonic(), None
        self.pipes = [os.pipe(), os.pipe()] if self.piped else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                code = self._live()
            finally:
                os._exit(code)
        return self

    def _live(self) -> int:
        """Run the command; return its exit code."""
        os.setsid()
        os.chdir(self.folder)
        for number, path in ((1, self.out), (2, self.err)):
            if self.pipes:
                os.dup2(self.pipes[number - 1][1], number)
            else:
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        call = self.arguments if callable(self.arguments) else main
        words = self.arguments.split() if isinstance(self.arguments, str) else self.arguments
        sys.argv = ["fwnet", *(() if callable(words) else map(str, words))]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = 0
        try:
            try:
                self.prepare()
                call()
            except typer.Exit as stop:  # of a function
                code = stop.exit_code
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            except BaseException:
                traceback.print_exc()
                code = 1
            for stream in (sys.stdout, sys.stderr):
                try:
                    if stream is not None:
                        stream.flush()
                except OSError:  # as at the end of Python
                    code = code or 120
        except KeyboardInterrupt:  # after the command
            return 130
        return code

    @property
    def out(self) -> Path:
        """What it printed."""
        return (self.log or self.folder) / "out"

    @property
    def err(self) -> Path:
        """What it printed to stderr."""
        return (self.log or self.folder) / "err"

    def runs(self) -> bool:
        """Return whether it still runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is None

    def send(self, number: int) -> bool:
        """Send a signal, if it still runs."""
        if self.runs():
            os.kill(self.pid, number)
            return True
        return False

    def wait(self, seconds: float = 60) -> int:
        """Return its exit code, -9 after SIGKILL; raise if it hangs."""
        end = time.monotonic() + seconds
        while self.runs():
            if time.monotonic() > end:
                self.send(signal.SIGKILL)
                self.wait()
                raise TimeoutError(f"{self.arguments}: no end after {seconds} s")
            time.sleep(0.001)
        for path, (reader, writer) in zip((self.out, self.err), self.pipes, strict=False):
            os.close(writer)
            path.write_bytes(os.read(reader, 1 << 16))
            os.close(reader)
        self.pipes = []
        assert self.status is not None
        return self.status


def dies_at_change(number: int, folder: Path) -> Callable[[], None]:
    """Return a preparation after which the process kills itself at a change of a folder's files.

    Changes are counted from 1: files opened to write, made, renamed and removed.
    """
    count, below = 0, f"{folder.resolve()}{os.sep}"

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open":
            flags = arguments[2]
            changes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        else:
            changes = event in CHANGES
        if changes and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100
            count += path.startswith(below)
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    return lambda: sys.addaudithook(hook)
