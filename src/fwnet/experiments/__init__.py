"""Studies: the paper's tables and figures and a few of our own, one file each.

They are behind `fwnet reproduce`.
"""

import importlib

from fwnet.experiments.experiment import Experiment, Lab, Result, Row
from fwnet.experiments.runs import Runner, UnfinishedError

__all__ = ["EXPERIMENTS", "Experiment", "Lab", "Result", "Row", "Runner", "UnfinishedError"]

NAMES = (  # as on the command line; each has a file of that name
    "synthetic-data",
    "synthetic-settings",
    "synthetic-error",
    "synthetic-exponent",
    "synthetic-l1",
    "synthetic-sharing",
    "synthetic-radius",
    "synthetic-initial-p",
    "synthetic-speed",
    "synthetic-steps",
    "sequences",
    "learned-ball",
    "digits-error",
    "digits-initial-p",
    "digits-misread",
    "digits-estimator",
    "denoise-table",
    "denoise-exponent",
    "denoise-depth",
    "denoise-form",
    "denoise-shipped",
    "denoise-photos",
    "upscale-table",
    "upscale-ablation",
    "upscale-exponent",
    "upscale-trials",
    "upscale-shipped",
    "upscale-jpeg",
)
EXPERIMENTS: dict[str, Experiment] = {
    name: importlib.import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
    for name in NAMES
}
