"""The page of results: every experiment with its verdicts, picture and tables."""

from pathlib import Path
from typing import Any

from fwnet.experiments.claims import PLAIN_SETTINGS, named
from fwnet.experiments.experiment import ORIGIN, Experiment, Result, Row

HEAD = """# Results

This page is made from the files in [results/](../results/) by
`fwnet reproduce --page docs/results.md`. The command below a title measures the experiment again.

* Figures are means over seeds, "±" is the standard deviation, and the figure of the paper is in
  parentheses. Seeds change data, dictionary and order of samples on synthetic codes, and initial
  weights and order everywhere else.
* "Better" means better by Student's test on the seeds at 5 %. Where a network has a single seed,
  PSNR that differs by less than 0.1 dB is indistinguishable.
* A claim about several settings held if it held at all of them. It is "indistinguishable" if no
  difference was significant at any of them.
* Errors of codes are sums over the entries of a code, and means over samples. PSNR is the mean over
  the images of BSD68, Set5 or Set14.
* Settings were chosen on validation data that no figure is measured on. On synthetic codes these
  are learning rate, weight decay and number of epochs, from one grid for every method and depth;
  for digits radius, weight decay and adversarial radius, while learning rates and epochs were set
  by hand; for networks on images the learning rate alone, and all networks of a table learn for the
  same number of steps. [results/README.md](../results/README.md) says how the rest was chosen.
* The files also hold every value, all settings that were tried, seconds and hardware.

## When and where

The state is the version of fwnet and its commit. Older results do not say it; their trainings ran
on several states, some of them started by scripts.

| experiment | date | state | hardware |
| --- | --- | --- | --- |
"""

COUNTS = {
    "num_weights": "weights",
    "num_parameters": "parameters",
    "multiply_adds": "multiplications per pixel",
}


def results_page(folder: Path) -> str:
    """Return the page in Markdown, for the results in a folder."""
    from fwnet.experiments import EXPERIMENTS

    paths = {name: folder / f"{name}.json" for name in EXPERIMENTS}
    results = {name: Result.load(path) for name, path in paths.items() if path.exists()}
    origins = [_origin(result) for result in results.values()]
    sections = [_section(EXPERIMENTS[name], result) for name, result in results.items()]
    return "\n".join([HEAD + "\n".join(origins), "", *sections])


def _origin(result: Result) -> str:
    """Return the line of an experiment in the table of dates."""
    known = {name: sorted({one[name] for one in result.origins}) for name in ORIGIN}
    hardware = known["hardware"] or sorted({row.hardware for row in result.rows if row.hardware})
    dates = " to ".join(dict.fromkeys(known["date"][:1] + known["date"][-1:]))
    cells = [f"`{result.id}`", dates or "not kept", "; ".join(known["state"]), "; ".join(hardware)]
    return f"| {' | '.join(cells)} |"


def _section(experiment: Experiment, result: Result) -> str:
    lines = [f"## {experiment.title}", "", f"`{result.command}`", ""]
    lines += [f"*The paper:* {experiment.paper_says}", ""]
    lines += [f"*Note:* {experiment.note}", ""] if experiment.note else []
    chosen = _chosen(result)
    lines += [f"*Chosen settings:* {chosen}", ""] if chosen else []
    verdicts = [f"* {verdict}" for verdict in experiment.verdicts(result)]
    lines += [*verdicts, ""] if verdicts else []
    lines += [f"![{experiment.title}](../results/{result.id}.png)", ""]
    for quantity in dict.fromkeys(row.quantity for row in result.rows):
        lines += [*_table(experiment, result, quantity), ""]
    return "\n".join(lines)


def _chosen(result: Result) -> str:
    """Return the settings; empty where every depth has its own settings (see the JSON files)."""
    parts = []
    for choice in result.choices:
        if "T" in choice:
            return ""
        settings = ", ".join(
            f"{name.replace('_', ' ')} {_value(value)}"
            for name, value in choice.items()
            if name not in ("method", "tried") and "validation" not in name
        )
        parts.append(f"{choice['method']}: {settings}")
    return "; ".join(parts) + "." if parts else ""


def _table(experiment: Experiment, result: Result, quantity: str) -> list[str]:
    """Return a table of one quantity: methods are rows, the values of one setting columns."""
    rows = result.select(quantity=quantity)
    shared = {
        key: value
        for key, value in rows[0].setting.items()
        if len(rows) > 1
        and key not in (*experiment.hidden, experiment.columns, experiment.beside)
        and all(row.setting.get(key) == value for row in rows)
    }
    lines: dict[str, dict[str, Row]] = {}
    for row in rows:
        rest = {
            key: value
            for key, value in row.setting.items()
            if key not in (*shared, *experiment.hidden, experiment.columns, experiment.beside)
        }
        words = [named(key, value) for key, value in rest.items()]
        if experiment.columns == "method":
            name, column = ", ".join(words), row.method
        else:
            name = ", ".join([row.method, *words])
            column = _value(row.setting.get(experiment.columns, ""))
        lines.setdefault(name, {})[column] = row
    columns = list(dict.fromkeys(column for line in lines.values() for column in line))
    counts = _counts(result) if quantity == result.rows[0].quantity else []
    corner = quantity
    if experiment.beside:
        corner += f" at {experiment.beside}"
    if shared:
        corner += f", {', '.join(named(key, value) for key, value in shared.items())}"
    show_key = experiment.columns not in ("method", *PLAIN_SETTINGS)
    heads = [f"{experiment.columns} = {one}" if show_key and one else one for one in columns]
    table = [
        [corner, *heads, *(COUNTS[key] for key in counts)],
        ["---"] * (1 + len(columns) + len(counts)),
    ]
    for name, line in lines.items():
        cells = [_cell(line.get(column), experiment.beside) for column in columns]
        method = next(iter(line.values())).method
        known = result.details.get(method)
        numbers = [f"{known[key]:,}" if isinstance(known, dict) else "" for key in counts]
        table.append([name, *cells, *numbers])
    return ["| " + " | ".join(cells) + " |" for cells in table]


def _counts(result: Result) -> list[str]:
    """Return what is counted for the methods: parameters, weights, multiplications."""
    known = [part for part in result.details.values() if isinstance(part, dict)]
    return [key for key in COUNTS if any(key in part for part in known)]


def _cell(row: Row | None, beside: str) -> str:
    if row is None:
        return ""
    spread = "" if row.spread is None else f" ± {_number(row.spread)}"
    paper = "" if row.paper is None else f" ({row.paper:g})"
    at = f" at {_number(row.setting[beside])}" if beside else ""
    return f"{_number(row.mean)}{spread}{paper}{at}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 0.1 else f"{value:.3f}"
