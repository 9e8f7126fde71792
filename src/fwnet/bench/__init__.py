"""Speed and memory as ratios, behind `fwnet bench`; never part of the tests."""

import importlib

from fwnet.bench.harness import Options, Report, Row

__all__ = ["BENCHMARKS", "Options", "Report", "Row", "run_benchmark"]

# name: (module and function, what it compares)
BENCHMARKS = {
    "codes": ("codes:run", "certified codes: time vs. CVXPY with Clarabel (CPU), codes/s (GPU)"),
    "completion": ("completion:run", "low-rank matrices: minimize vs. alternating least squares"),
    "denoise": (
        "restoration:denoise",
        "seconds per megapixel vs. DnCNN and BM3D; memory for a photo",
    ),
    "dictionary": ("dictionary:run", "learning a dictionary at p = 1 vs. scikit-learn"),
    "import": ("imports:run", "import fwnet vs. import torch"),
    "network": ("network:run", "a training step of ConvFWNet: plain, compiled, fused"),
    "pool": ("pool:run", "pool_p vs. a copy of the same bytes (GPU) or a convolution (CPU)"),
    "projection": ("projection:run", "LpBall.project vs. Frank-Wolfe iterations"),
    "sets": ("sets:run", "certified codes on every set: time vs. CVXPY (CPU), codes/s (GPU)"),
    "step": ("pool:run_step", "the fused Frank-Wolfe step vs. a copy of the same bytes"),
    "upscale": ("restoration:upscale", "seconds per megapixel vs. VDSR; memory for a large image"),
}


def run_benchmark(name: str, options: Options) -> Report:
    """Run the benchmark of this name."""
    module, _, function = BENCHMARKS[name][0].partition(":")
    run = getattr(importlib.import_module(f"fwnet.bench.{module}"), function)
    report: Report = run(options)
    return report
