"""What an experiment is: a table or figure of the paper that can be measured again."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from fwnet.experiments.runs import Record, Runner

__all__ = ["Experiment", "Lab", "Result", "Row", "row_of"]


@dataclass(frozen=True)
class Lab:
    """What an experiment works with: a runner, and whether it is a small version."""

    runner: Runner
    quick: bool = False


@dataclass(frozen=True)
class Row:
    """One figure: what the paper prints, what was measured here, over several seeds.

    Attributes:
        method: Its name.
        setting: What else it depends on, T for one.
        quantity: What is measured.
        paper: The figure in the paper, where it prints one.
        ours: The mean over seeds.
        spread: The standard deviation over seeds.
        values: One a seed.
        num_parameters: How many numbers were learned.
        seconds: Mean time of one training, several of them at a time.
        hardware: Where.
    """

    method: str
    setting: dict[str, Any]
    quantity: str
    ours: float
    paper: float | None = None
    spread: float | None = None
    values: list[float] = field(default_factory=list)
    num_parameters: int | None = None
    seconds: float | None = None
    hardware: str | None = None


@dataclass
class Result:
    """What an experiment measured, with everything needed to repeat it.

    Attributes:
        id: The name that `fwnet reproduce` knows.
        title: One line.
        claim: What the paper says.
        command: What measured it.
        rows: The figures.
        findings: Plain sentences: what came out, and whether the claim held.
        curves: Figures by epoch and the like, for the picture.
        choices: The settings that were chosen on validation data, with their validation errors.
    """

    id: str
    title: str
    claim: str
    command: str
    rows: list[Row] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    curves: dict[str, Any] = field(default_factory=dict)
    choices: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(
        default_factory=lambda: {"python": platform.python_version(), "torch": torch.__version__}
    )

    def find(self, method: str, **setting: Any) -> Row:
        """The row of a method in a setting."""
        for row in self.rows:
            if row.method == method and setting.items() <= row.setting.items():
                return row
        raise KeyError(f"{self.id} has no row for {method} with {setting}")

    def save(self, path: Path) -> None:
        """Write JSON through a temporary file."""
        temporary = path.with_suffix(".tmp")
        text = json.dumps(_rounded(asdict(self)), indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read what `save` wrote."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows = [Row(**row) for row in content.pop("rows")]
            return cls(rows=rows, **content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is not a result of fwnet reproduce") from error


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        id: The name that `fwnet reproduce` knows.
        title: What it measures, in a line.
        claim: What the paper says about it.
        measure: Fills a result with rows, curves and findings.
        draw: Makes the picture of a result.
    """

    id: str
    title: str
    claim: str
    measure: Callable[[Lab, Result], None]
    draw: Callable[[Result], Figure]

    def run(self, lab: Lab) -> Result:
        """Measure everything."""
        quick = " --quick" if lab.quick else ""
        result = Result(self.id, self.title, self.claim, f"fwnet reproduce {self.id}{quick}")
        self.measure(lab, result)
        return result

    def write(self, result: Result, folder: Path, suffix: str = "") -> list[Path]:
        """Save the result and its picture; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        data, picture = (folder / f"{self.id}{suffix}{kind}" for kind in (".json", ".png"))
        result.save(data)
        self.draw(result).savefig(picture, dpi=130)
        return [data, picture]


def row_of(
    method: str,
    setting: dict[str, Any],
    quantity: str,
    values: list[float],
    records: list[Record] | None = None,
    paper: float | None = None,
) -> Row:
    """Make the row of figures that were measured with several seeds."""
    trained = [record for record in records or [] if "seconds" in record]
    return Row(
        method,
        setting,
        quantity,
        ours=statistics.fmean(values),
        paper=paper,
        spread=statistics.stdev(values) if len(values) > 1 else None,
        values=values,
        num_parameters=trained[0].get("num_parameters") if trained else None,
        seconds=statistics.fmean(r["seconds"] for r in trained) if trained else None,
        hardware=" and ".join(sorted({r["hardware"] for r in trained if "hardware" in r})) or None,
    )


def _rounded(value: Any) -> Any:
    """Seven digits are more than any of these figures has, also after it is rounded again."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value
