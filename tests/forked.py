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

CHANGES = {"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}


@dataclass
class Command:
    """`fwnet …` in a process of its own.

    Attributes:
        arguments: What follows `fwnet`.
        folder: The folder that it works in; its output goes to the files `out` and `err` there.
        prepare: Called in the child before the command: for limits, patches and signals.
        name: Prefix of the files of its output.
    """

    arguments: Sequence[object]
    folder: Path
    prepare: Callable[[], object] = lambda: None
    name: str = ""
    pid: int = 0
    status: int | None = None
    began: float = field(default=0.0)

    def start(self) -> "Command":
        """Fork."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.began, self.status = time.monotonic(), None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
            self.pid = os.fork()
        if self.pid == 0:
            self._live()
        return self

    def _live(self) -> None:
        """Run the command; never return."""
        code = 1
        try:
            os.setsid()
            os.chdir(self.folder)
            for number, path in ((1, self.out), (2, self.err)):
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                os.dup2(file, number)
                os.close(file)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.prepare()
            from fwnet.cli import app

            app(prog_name="fwnet", args=[str(one) for one in self.arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:
                code = code or 1
            os._exit(code)

    @property
    def out(self) -> Path:
        """What it printed."""
        return self.folder / f"{self.name}out"

    @property
    def err(self) -> Path:
        """What it printed to stderr."""
        return self.folder / f"{self.name}err"

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
