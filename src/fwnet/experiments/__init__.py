"""The tables and figures of the paper, one file each, behind `fwnet reproduce`."""

from fwnet.experiments import (
    denoise_depth,
    denoise_exponent,
    denoise_form,
    denoise_shipped,
    denoise_table,
    digits_error,
    digits_estimator,
    digits_initial_p,
    digits_misread,
    synthetic_data,
    synthetic_error,
    synthetic_exponent,
    synthetic_initial_p,
    synthetic_l1,
    synthetic_radius,
    synthetic_settings,
    synthetic_sharing,
    synthetic_speed,
    upscale_ablation,
    upscale_exponent,
    upscale_shipped,
    upscale_table,
)
from fwnet.experiments.experiment import Experiment, Lab, Result, Row
from fwnet.experiments.runs import Runner, UnfinishedError

__all__ = ["EXPERIMENTS", "Experiment", "Lab", "Result", "Row", "Runner", "UnfinishedError"]

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT
    for module in (
        synthetic_data,
        synthetic_settings,
        synthetic_error,
        synthetic_exponent,
        synthetic_l1,
        synthetic_sharing,
        synthetic_radius,
        synthetic_initial_p,
        synthetic_speed,
        digits_error,
        digits_initial_p,
        digits_misread,
        digits_estimator,
        denoise_table,
        denoise_exponent,
        denoise_depth,
        denoise_form,
        denoise_shipped,
        upscale_table,
        upscale_ablation,
        upscale_exponent,
        upscale_shipped,
    )
}
