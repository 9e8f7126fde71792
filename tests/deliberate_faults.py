"""Deliberate faults: a table of mistakes, and the proof that the tests catch each of them.

`python -m tests.deliberate_faults` copies the sources, makes one mistake at a time, runs the tests
named beside it and expects them to fail. `--table FILE` writes a table of what was caught by which
test.
A fault that survives means that a test is missing: add the test, never drop the fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Fault:
    """A mistake: in `file`, the text `before` (which occurs once) becomes `after`.

    Attributes:
        file: Below src/fwnet.
        before: What is right.
        after: What is wrong.
        tests: Arguments of pytest: the tests that must notice.
    """

    file: str
    before: str
    after: str
    tests: str


FAULTS: list[Fault] = []


def first_failure(fault: Fault, copy: Path) -> str | None:
    """Return the test that fails when the mistake is made in a copy of the sources."""
    path = copy / "fwnet" / fault.file
    right = path.read_text(encoding="utf-8")
    if right.count(fault.before) != 1:
        sys.exit(f"{fault.file}: expected {fault.before!r} once, got {right.count(fault.before)}")
    path.write_text(right.replace(fault.before, fault.after), encoding="utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        result = subprocess.run(
            [*command, *fault.tests.split()],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(right, encoding="utf-8")
    if result.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.M)
    return found[1] if found else f"pytest exit code {result.returncode}"


def main() -> None:
    """Try every fault, or those whose file matches; exit 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("match", nargs="?", default="", help="only faults in files that match")
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if options.match in fault.file]
    lines = ["| file | right | wrong | caught by |", "|---|---|---|---|"]
    num_survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(PROJECT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for fault in chosen:
            caught = first_failure(fault, copy)
            num_survived += caught is None
            print(f"{fault.file}: {caught or 'SURVIVED: ' + fault.after}", flush=True)
            cells = (f"`{' '.join(text.split())}`" for text in (fault.before, fault.after))
            lines.append(f"| {fault.file} | {' | '.join(cells)} | {caught or '**nothing**'} |")
    print(f"{len(chosen) - num_survived} of {len(chosen)} faults were caught")
    if options.table:
        head = "# Deliberate faults\n\nWritten by `python -m tests.deliberate_faults --table`.\n\n"
        options.table.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(num_survived > 0)


if __name__ == "__main__":
    main()
