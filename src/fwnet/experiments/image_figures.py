"""PSNR and SSIM of networks that differ by their seed, as rows; and which network is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fwnet.experiments.experiment import Lab, Result, Row, row_of
from fwnet.experiments.runs import Job, Record, UnfinishedError
from fwnet.experiments.words import is_below
from fwnet.training import DivergedError

__all__ = ["PSNR", "SSIM", "add_rows", "check_any", "compare", "finished", "is_above", "psnr_row"]

PSNR, SSIM = "PSNR in dB", "SSIM"
SINGLE_SEED = 0.1  # dB


def finished(lab: Lab, jobs: Sequence[Job]) -> list[Record]:
    """The records of jobs; where only finished ones are asked for, of those."""
    if lab.runner.finished_only:
        jobs = [job for job in jobs if lab.runner.knows(job)]
    return lab.runner.run(jobs)


def add_rows(
    result: Result,
    name: str,
    setting: dict[str, Any],
    records: Sequence[Record],
    *,
    test: int = 0,
    paper: float | None = None,
    learns_p: bool = True,
) -> None:
    """What networks that differ by their seed have on the test images, and the p they learned.

    Args:
        result: Gets the rows.
        name: Of the method.
        setting: What else the figures depend on.
        records: Of the trainings, one a seed.
        test: Which of the tests of a record.
        paper: The PSNR that is printed.
        learns_p: Whether the networks learn p, if they have one.
    """
    if not records:
        return
    for record in records:
        if record["validation"] is None:
            raise DivergedError(f"{name} diverged: {record['diverged']}")
    for quantity, key in ((PSNR, "psnr"), (SSIM, "ssim")):
        values = [record["tests"][test][key] for record in records]
        printed = paper if quantity == PSNR else None
        result.rows.append(row_of(name, setting, quantity, values, list(records), printed))
    exponents = [record["watched"].get("p") for record in records]
    if learns_p and test == 0 and all(p is not None for p in exponents):
        result.rows.append(row_of(name, setting, "learned p", exponents))
    result.curves[name] = {key: records[0][key] for key in ("num_parameters", "multiply_adds")}


def psnr_row(result: Result, name: str, **setting: Any) -> Row | None:
    """The PSNR of a method in a setting, if it was measured."""
    for row in result.rows:
        is_wanted = row.method == name and row.quantity == PSNR
        if is_wanted and setting.items() <= row.setting.items():
            return row
    return None


def is_above(ours: Row | None, theirs: Row | None) -> bool | None:
    """Whether one has a higher PSNR: by Student's test where both have several seeds.

    Where one of them has a single seed, differences of less than 0.1 dB, about as much as seeds
    ever differed by, are not told apart. None also where one was not measured.
    """
    if ours is None or theirs is None:
        return None
    if len(ours.values) == len(theirs.values) > 1:
        return is_below([-value for value in ours.values], [-value for value in theirs.values])
    difference = ours.ours - theirs.ours
    return None if abs(difference) < SINGLE_SEED else difference > 0


def compare(ours: Row, theirs: Row) -> str:
    """Say in dB how far one is above the other, and whether that is told apart."""
    words = f"{ours.ours - theirs.ours:+.2f} dB"
    return words if is_above(ours, theirs) is not None else f"{words} (not told apart)"


def check_any(result: Result) -> None:
    """Raise where nothing of an experiment is finished."""
    if not any(row.quantity == PSNR for row in result.rows):
        raise UnfinishedError(f"{result.id}: no training is finished")
