"""Print the tables of docs/speed.md, "Every p", from the record of `fwnet bench codes --p all`.

python docs/speed_tables.py results/bench-codes-by-p-amd-epyc-x1.json
"""

import json
import sys
from pathlib import Path
from typing import Any

OTHERS = ("lasso_cd", "lasso_cd, gap 1e-10", "lasso_lars")


def times(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return µs per code, by group and name."""
    groups: dict[str, dict[str, float]] = {}
    for row in record["rows"]:
        groups.setdefault(row["group"], {})[row["name"]] = 1e3 * row["milliseconds"]
    return groups


def line(cells: list[str]) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """Return a whole number with separators, or nothing."""
    return "" if value is None else f"{value:,.0f}"


def by_p(groups: dict[str, dict[str, float]]) -> list[str]:
    """Return the table of all p: one row per dictionary and kind of figure."""
    groups = {group: found for group, found in groups.items() if "p = 2, float64" in found}
    names = {name.split(",")[0][4:] for found in groups.values() for name in found}
    cores = next((n for n in next(iter(groups.values())) if n.endswith("cores")), "").split()[-2:]
    exponents = sorted(names, key=float)
    lines = [line(["p", *("∞" if p == "inf" else p for p in exponents)])]
    lines.append("|---" * (len(exponents) + 1) + "|")
    for group, found in groups.items():
        ours = [found.get(f"p = {p}, float64") for p in exponents]
        several = [found.get(f"p = {p}, float64, {' '.join(cores)}") for p in exponents]
        single = [found.get(f"p = {p}, float32") for p in exponents]
        cvxpy = [found.get(f"p = {p}, CVXPY") for p in exponents]
        ratios = [
            None if a is None or b is None else b / a for a, b in zip(ours, cvxpy, strict=True)
        ]
        lines.append(line([f"{group}, µs in float64", *map(number, ours)]))
        lines.append(line([f"µs by the clock on {' '.join(cores)}", *map(number, several)]))
        lines.append(line(["µs in float32, gap ≤ 1e-6·½‖x‖²", *map(number, single)]))
        lines.append(line(["times as fast as CVXPY", *map(number, ratios)]))
    return lines


def at_p_1(groups: dict[str, dict[str, float]]) -> list[str]:
    """Return the table beside scikit-learn."""
    lines = [line(["p = 1, µs per code", "`solve`", *OTHERS, "`solve` is faster by"])]
    lines.append("|---" * (len(OTHERS) + 3) + "|")
    for group, found in groups.items():
        theirs = [found.get(f"p = 1, scikit-learn, {name}") for name in OTHERS]
        known = [value for value in theirs if value is not None]
        if not known:
            continue
        ours = found["p = 1, float64"]
        faster = f"{min(known) / ours:.1f} ×"
        lines.append(line([group, number(ours), *map(number, theirs), faster]))
    return lines


def main() -> None:
    """Print both tables of the record that is named on the command line."""
    groups = times(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    sys.stdout.write("\n".join([*by_p(groups), "", *at_p_1(groups)]) + "\n")


if __name__ == "__main__":
    main()
