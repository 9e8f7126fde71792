"""Speed and memory as ratios, behind `fwnet bench`; never part of the tests."""

from __future__ import annotations

import importlib

from fwnet.bench.harness import Options, Report, Row

__all__ = ["BENCHMARKS", "Options", "Report", "Row", "run_benchmark"]

# name: (module, what it compares)
BENCHMARKS = {
    "import": ("imports", "import fwnet beside import torch"),
    "projection": ("projection", "LpBall.project beside Frank-Wolfe iterations"),
}


def run_benchmark(name: str, options: Options) -> Report:
    """Run one of BENCHMARKS."""
    module, _ = BENCHMARKS[name]
    report: Report = importlib.import_module(f"fwnet.bench.{module}").run(options)
    return report
