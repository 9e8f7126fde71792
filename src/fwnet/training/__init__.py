"""One loop that trains every model: settings, batches, checkpoints, history."""

from fwnet.training.checkpoint import TrainingError
from fwnet.training.config import ConfigError, TrainingConfig, TrainingRun
from fwnet.training.loop import DivergedError, TrainingResult, train
from fwnet.training.restoration_task import RestorationTask, decibels
from fwnet.training.restoration_training import RestorationReport, train_restoration
from fwnet.training.task import Classification, CodeRegression, ShownFigure, Task

__all__ = [
    "Classification",
    "CodeRegression",
    "ConfigError",
    "DivergedError",
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
    "train_restoration",
]
