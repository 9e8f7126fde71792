"""One loop that trains every model: settings, batches, checkpoints, history."""

from fwnet.training.checkpoint import TrainingError
from fwnet.training.config import ConfigError, TrainingConfig
from fwnet.training.denoiser_recipe import DENOISING_RECIPE, denoiser_settings, make_denoiser
from fwnet.training.denoising import Denoising
from fwnet.training.image_task import decibels
from fwnet.training.image_training import ImageReport
from fwnet.training.loop import DivergedError, TrainingResult, train
from fwnet.training.run import TrainingRun
from fwnet.training.super_resolution import SuperResolution
from fwnet.training.task import Classification, CodeRegression, ShownFigure, Task
from fwnet.training.train_denoiser import train_denoiser
from fwnet.training.train_upscaler import train_upscaler
from fwnet.training.trained_for import trained_levels, trained_scale
from fwnet.training.upscaler_recipe import UPSCALING_RECIPE, make_upscaler, upscaler_settings

__all__ = [
    "DENOISING_RECIPE",
    "UPSCALING_RECIPE",
    "Classification",
    "CodeRegression",
    "ConfigError",
    "Denoising",
    "DivergedError",
    "ImageReport",
    "ShownFigure",
    "SuperResolution",
    "Task",
    "TrainingConfig",
    "TrainingError",
    "TrainingResult",
    "TrainingRun",
    "decibels",
    "denoiser_settings",
    "make_denoiser",
    "make_upscaler",
    "train",
    "train_denoiser",
    "train_upscaler",
    "trained_levels",
    "trained_scale",
    "upscaler_settings",
]
