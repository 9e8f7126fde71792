"""One loop that trains every model: settings, batches, checkpoints, history."""

from fwnet.training.checkpoint import TrainingError
from fwnet.training.config import ConfigError, TrainingConfig, TrainingRun
from fwnet.training.loop import DivergedError, TrainingResult, train
from fwnet.training.noise_level import (
    NoiseLevelReport,
    NoiseLevelTask,
    train_noise_level,
)
from fwnet.training.restoration_task import RestorationTask, decibels
from fwnet.training.restoration_training import RestorationReport, train_restoration
from fwnet.training.task import Classification, CodeRegression, ShownFigure, Task

__all__ = [
    "Classification",
    "CodeRegression",
    "ConfigError",
    "DivergedError",
    "NoiseLevelReport",
    "NoiseLevelTask",
    "RestorationReport",
    "RestorationTask",
    "ShownFigure",
    "Task",
    "TrainingConfig",
    "TrainingError",
    "TrainingResult",
    "TrainingRun",
    "decibels",
    "train",
    "train_noise_level",
    "train_restoration",
]
