"""Where a training happens and to whom it reports: one object from the command line to the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from fwnet.progress import ProgressCallback, silent

__all__ = ["TrainingRun"]


@dataclass(frozen=True)
class TrainingRun:
    """What a training is told beside its model, its data and its settings.

    Attributes:
        folder: Where checkpoints, history and the final model.safetensors go; None keeps nothing.
        device: Where to train.
        resume: Continue an earlier run with the same settings from its checkpoint, if there is one.
        force: Start over although the folder holds an earlier run.
        checkpoint_seconds: The most work that a kill may cost.
        progress: Called a few times per second and after every epoch.
        warn: Called with a line for everything that is skipped.
    """

    folder: str | Path | None = None
    device: str | torch.device = "cpu"
    resume: bool = False
    force: bool = False
    checkpoint_seconds: float = 30.0
    progress: ProgressCallback = silent
    warn: Callable[[str], object] = lambda _: None
