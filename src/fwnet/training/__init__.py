"""One loop that trains every model: settings, batches, checkpoints, history."""

from fwnet.training.checkpoint import TrainingError
from fwnet.training.config import ConfigError, TrainingConfig
from fwnet.training.denoiser_recipe import RECIPE, denoiser_settings, make_denoiser
from fwnet.training.denoising import Denoising
from fwnet.training.image_task import decibels
from fwnet.training.learning_images import ReadingProgress
from fwnet.training.loop import DivergedError, TrainingProgress, TrainingResult, train
from fwnet.training.super_resolution import SuperResolution
from fwnet.training.task import Classification, CodeRegression, ShownFigure, Task
from fwnet.training.train_denoiser import DenoiserReport, train_denoiser
from fwnet.training.trained_levels import trained_levels

__all__ = [
    "RECIPE",
    "Classification",
    "CodeRegression",
    "ConfigError",
    "DenoiserReport",
    "Denoising",
    "DivergedError",
    "ReadingProgress",
    "ShownFigure",
    "SuperResolution",
    "Task",
    "TrainingConfig",
    "TrainingError",
    "TrainingProgress",
    "TrainingResult",
    "decibels",
    "denoiser_settings",
    "make_denoiser",
    "train",
    "train_denoiser",
    "trained_levels",
]
