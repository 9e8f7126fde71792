"""One loop that trains every model: settings, batches, checkpoints, history."""

from fwnet.training.checkpoint import TrainingError
from fwnet.training.config import ConfigError, TrainingConfig
from fwnet.training.denoising import Denoising
from fwnet.training.loop import DivergedError, TrainingProgress, TrainingResult, train
from fwnet.training.task import Classification, CodeRegression, ShownFigure, Task

__all__ = [
    "Classification",
    "CodeRegression",
    "ConfigError",
    "Denoising",
    "DivergedError",
    "ShownFigure",
    "Task",
    "TrainingConfig",
    "TrainingError",
    "TrainingProgress",
    "TrainingResult",
    "train",
]
