"""An experiment: a table or figure of the paper that can be measured again."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from matplotlib.figure import Figure

from fwnet.errors import FwnetError
from fwnet.experiments.runs import Record, Runner, origin, rounded
from fwnet.files import write_whole

if TYPE_CHECKING:
    from fwnet.experiments.claims import Claim, Verdict


ORIGIN = ("hardware", "date", "state")


class MissingRowError(KeyError):
    """A result has no such row or detail: it was not measured."""


@dataclass(frozen=True)
class Lab:
    """What an experiment works with: a runner, and whether to use small sizes."""

    runner: Runner
    quick: bool = False


@dataclass(frozen=True)
class Row:
    """One figure: what the paper prints and what was measured, over several seeds.

    Attributes:
        method: Name of the method.
        setting: What else the figure depends on, such as T.
        quantity: What is measured.
        mean: Mean over the seeds.
        paper: Figure in the paper, if it prints one.
        spread: Standard deviation over the seeds.
        values: One value per seed.
        num_parameters: Number of learned parameters.
        seconds: Mean time of one training, with several at the same time.
        hardware: Machine of the trainings or tests.
    """

    method: str
    setting: dict[str, Any]
    quantity: str
    mean: float
    paper: float | None = None
    spread: float | None = None
    values: list[float] = field(default_factory=list)
    num_parameters: int | None = None
    seconds: float | None = None
    hardware: str | None = None


@dataclass
class Result:
    """The measurements of an experiment, with everything needed to repeat them.

    Attributes:
        id: Name for `fwnet reproduce`.
        title: One line.
        paper_says: What the paper says about it.
        command: Command that measured it.
        rows: The figures.
        details: Values by epoch, counts and other data for the picture and the claims, by name.
        choices: Settings that were chosen on validation data, with their validation figures.
        versions: Versions of Python and torch.
        origins: Hardware, date and state of the code of the trainings and tests; empty in files
            that are older than this field.
    """

    id: str
    title: str
    paper_says: str
    command: str
    rows: list[Row] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    choices: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(
        default_factory=lambda: {"python": platform.python_version(), "torch": torch.__version__}
    )
    origins: list[dict[str, str]] = field(default_factory=list)

    def select(
        self, method: str | None = None, quantity: str | None = None, **setting: Any
    ) -> list[Row]:
        """Return all rows of a method, a quantity and a setting; None matches all."""
        return [
            row
            for row in self.rows
            if method in (None, row.method)
            and quantity in (None, row.quantity)
            and setting.items() <= row.setting.items()
        ]

    def find_all(
        self, method: str | None = None, quantity: str | None = None, **setting: Any
    ) -> list[Row]:
        """Return what `select` returns; raise if there is no such row."""
        rows = self.select(method, quantity, **setting)
        if not rows:
            raise MissingRowError(f"{self.id} has no row for {method} with {setting}")
        return rows

    def find(self, method: str, quantity: str | None = None, **setting: Any) -> Row:
        """Return the first row of a method in a setting; raise if there is none."""
        return self.find_all(method, quantity, **setting)[0]

    def find_detail(self, name: str) -> list[Any]:
        """Return a list of the details; raise if there is none."""
        if name not in self.details:
            raise MissingRowError(f"{self.id} has no {name}")
        return list(self.details[name])

    def values_of(self, key: str, **selected: Any) -> list[Any]:
        """Return the different values of a setting in the selected rows, in their order."""
        rows = [row for row in self.select(**selected) if key in row.setting]
        return list(dict.fromkeys(row.setting[key] for row in rows))

    def add(
        self,
        method: str,
        setting: dict[str, Any],
        quantity: str,
        values: Sequence[float],
        records: Sequence[Record] = (),
        paper: float | None = None,
    ) -> None:
        """Append the row of values that were measured with several seeds."""
        self.note_origins(records)
        trained = [record for record in records if "seconds" in record]
        hardware = {record["hardware"] for record in records if "hardware" in record}
        row = Row(
            method,
            setting,
            quantity,
            mean=statistics.fmean(values),
            paper=paper,
            spread=statistics.stdev(values) if len(values) > 1 else None,
            values=list(values),
            num_parameters=trained[0].get("num_parameters") if trained else None,
            seconds=statistics.fmean(record["seconds"] for record in trained) if trained else None,
            hardware=" and ".join(sorted(hardware)) or None,
        )
        self.rows.append(row)

    def note_origins(self, records: Sequence[Record]) -> None:
        """Remember when, where and with which code records were made."""
        for record in records:
            known = {name: record[name] for name in ORIGIN if name in record}
            if known not in self.origins and "date" in known:
                self.origins.append(known)

    @property
    def training_hours(self) -> dict[str, float]:
        """Hours that the networks of the rows trained, in sum over all seeds, by hardware.

        Trainings that chose settings are not in it.
        """
        trained = {
            (row.method, row.seconds, row.hardware): row.seconds * max(1, len(row.values))
            for row in self.rows
            if row.seconds
        }
        hours: dict[str, float] = {}
        for (_, _, hardware), seconds in trained.items():
            name = (hardware or "").partition(", torch")[0] or "unknown hardware"
            hours[name] = hours.get(name, 0.0) + seconds / 3600
        return hours

    def save(self, path: Path) -> None:
        """Write the result as JSON, whole or not at all."""
        text = json.dumps(rounded(asdict(self)), indent=1, ensure_ascii=False)
        write_whole(path, text + "\n")

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read the file that `save` wrote."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows = [Row(**row) for row in content.pop("rows")]
            return cls(rows=rows, **content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FwnetError(f"{path} is not a result of fwnet reproduce") from error


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        id: Name for `fwnet reproduce`.
        title: What it measures, in one line.
        paper_says: What the paper says about it.
        measure: Function that fills a result with rows and curves.
        draw: Function that makes the picture of a result.
        claims: Statements that are checked with the rows of a result.
        columns: Setting whose values are the columns of the table, such as "T", or "method".
        hidden: Settings that tables leave out, because they follow from the others.
        beside: Setting that is printed beside the figure.
        needs: Data sets that the full version needs.
        note: How it was measured, and what differs from the paper.
    """

    id: str
    title: str
    paper_says: str
    measure: Callable[[Lab, Result], None]
    draw: Callable[[Result], Figure]
    claims: tuple[Claim, ...] = ()
    columns: str = ""
    hidden: tuple[str, ...] = ()
    beside: str = ""
    needs: tuple[str, ...] = ()
    note: str = ""

    def run(self, lab: Lab) -> Result:
        """Measure everything and return the result."""
        quick = " --quick" if lab.quick else ""
        result = Result(self.id, self.title, self.paper_says, f"fwnet reproduce {self.id}{quick}")
        self.measure(lab, result)
        if not result.origins:  # nothing was trained: all was measured here and now
            result.note_origins([origin(torch.device("cpu"))])
        return result

    def verdicts(self, result: Result) -> list[Verdict]:
        """Return what the rows of a result say about every claim."""
        return [claim.verdict(result) for claim in self.claims]

    def write(self, result: Result, folder: Path, suffix: str = "") -> list[Path]:
        """Save the result and its picture; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        data, picture = (folder / f"{self.id}{suffix}{kind}" for kind in (".json", ".png"))
        result.save(data)
        drawn = self.draw(result)
        write_whole(picture, lambda file: drawn.savefig(file, format="png", dpi=130))
        return [data, picture]
