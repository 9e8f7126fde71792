"""Where a training runs and what it reports to: one object from the command line to the loop."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from fwnet.progress import ProgressCallback, silent


@dataclass(frozen=True)
class TrainingRun:
    """What a training needs besides its model, its data and its settings.

    Attributes:
        folder: Folder for checkpoints, history and the final model.safetensors; None for none.
        device: Where to train.
        resume: Continue an earlier run with the same settings, if there is one.
        force: Start over although the folder has an earlier run.
        checkpoint_seconds: Seconds between checkpoints: the most work that a kill loses.
        progress: Called a few times per second and after every epoch.
        warn: Called with a line for every problem that does not stop the training.
    """

    folder: str | Path | None = None
    device: str | torch.device = "cpu"
    resume: bool = False
    force: bool = False
    checkpoint_seconds: float = 30.0
    progress: ProgressCallback = silent
    warn: Callable[[str], object] = lambda _: None
