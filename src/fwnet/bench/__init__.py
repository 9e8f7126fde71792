"""Speed and memory as ratios, behind `fwnet bench`; never part of the tests."""

from __future__ import annotations

import importlib

from fwnet.bench.harness import Options, Report, Row

__all__ = ["BENCHMARKS", "Options", "Report", "Row", "run_benchmark"]

# name: (module or module:function, what it compares)
BENCHMARKS = {
    "codes": ("codes", "certified codes beside CVXPY with Clarabel (CPU), or a second (GPU)"),
    "denoise": (
        "restoration:denoise",
        "seconds per megapixel beside DnCNN and BM3D; memory of 12 megapixels",
    ),
    "dictionary": ("dictionary", "learning a dictionary at p = 1 beside scikit-learn's"),
    "import": ("imports", "import fwnet beside import torch"),
    "network": ("network", "a training step of the convolutional network: plain, compiled, fused"),
    "pool": ("pool", "pool_p beside a copy of the same bytes (GPU) or a convolution (CPU)"),
    "projection": ("projection", "LpBall.project beside Frank-Wolfe iterations"),
    "step": ("step", "the fused Frank-Wolfe step beside a copy of the same bytes"),
    "upscale": (
        "restoration:upscale",
        "seconds per megapixel beside VDSR; memory of a large picture",
    ),
}


def run_benchmark(name: str, options: Options) -> Report:
    """Run one of BENCHMARKS."""
    module, _, function = BENCHMARKS[name][0].partition(":")
    work = getattr(importlib.import_module(f"fwnet.bench.{module}"), function or "run")
    report: Report = work(options)
    return report
